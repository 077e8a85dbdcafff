"""The salt of masked keys: the same key of the same source is shown alike by every command that one user runs.

    salt_of    what goes into the hashes of keys of a source

Keys are shown cut, with a salted hash (`profile.document.masked`). The rule: a secret of the user, made once and kept
in a file that only the user can read, is hashed with the address of the source. So two tables of one source can be put
side by side, tables of two sources or of two users cannot, and without the file nobody can try guesses at a key. A
profile that is kept has its salt with it (`systems.profiles`), so that whoever gets the profile sees the same masks.

The file is `masks.key` in XDG_DATA_HOME/keylane or ~/.local/share/keylane. KEYLANE_MASKS=DIR names another folder;
`KEYLANE_MASKS=`, or a home that cannot be written to, keeps no secret: every run then has masks of its own.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from keylane.errors import CacheError
from keylane.private import can_use, make_folder
from keylane.systems.endpoint import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "masks.key"
#: Bytes of a salt, and the least of a secret.
SIZE: Final = 16


def salt_of(source: str, fresh: bytes, environ: Mapping[str, str] = os.environ) -> bytes:
    """The salt of a source; `fresh` is what a new secret is made of, and the salt itself where none is kept."""
    folder = _folder(environ)
    secret = None if folder is None else _kept(folder, fresh)
    if secret is None:
        return fresh
    address = parse_address(source)
    named = os.path.realpath(address.name) if address.is_path else str(address)
    return hashlib.sha256(secret + named.encode("utf-8", "surrogateescape")).digest()[:SIZE]


def _folder(environ: Mapping[str, str]) -> Path | None:
    own = environ.get("KEYLANE_MASKS")
    if own is not None:
        return Path(own) if own else None
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "keylane"
    with suppress(RuntimeError):
        return Path.home() / ".local" / "share" / "keylane"
    return None


def _kept(folder: Path, fresh: bytes) -> bytes | None:
    """The secret that is kept, or a new one from now on; None where the folder does not allow it."""
    kept, waiting = folder / NAME, folder / f".{NAME}.{uuid4().hex[:12]}"
    try:
        if not kept.exists():
            if not can_use(folder):
                return None
            make_folder(folder)
            waiting.touch(mode=0o600)
            waiting.write_text(fresh.hex(), encoding="ascii")
            # Two commands at once: the first one's stays, and both use it.
            with suppress(FileExistsError):
                kept.hardlink_to(waiting)
        # One that others can read keeps no guess away.
        if kept.stat().st_mode & 0o077:
            kept.chmod(0o600)
        found = bytes.fromhex(kept.read_text(encoding="ascii"))
    except (OSError, ValueError, CacheError):
        return None
    finally:
        with suppress(OSError):
            waiting.unlink(missing_ok=True)
    return found if len(found) >= SIZE else None
