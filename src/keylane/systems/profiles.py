"""A profile as a folder on the disk: what `profile --out` writes and `plan` reads, without Spark.

    NAME.profile/profile.json         source, key, windows, totals, and the fingerprint over all of it
    NAME.profile/salt                 what masks of keys are made with, so that all documents name a key alike
    NAME.profile/keys/part-0.parquet  one row for each key, heaviest first: its fields by value, `keylane_records`,
                                      `keylane_bytes` where measured, and packed counts `keylane_w0`, …

The folder appears in one step, and is for its owner alone: keys are personal data. How rows become a profile:
`profile.build`.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane.contract.model import Key
from keylane.errors import DataError, TargetError, UsageError
from keylane.private import own_folder
from keylane.profile.build import fingerprint_of, unpacked
from keylane.profile.model import Approximation, ObservedLanes, Profile, Windows, WithoutKey
from keylane.systems.atomic import behind, exchange, force, named, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT: Final = "keylane.profile-folder/1"
DOCUMENT: Final = "profile.json"
KEYS: Final = "keys"
SALT: Final = "salt"


def is_profile(path: Path) -> bool:
    """Whether a folder is a profile, sound or not: one that is called so may have lost its keys."""
    return (path / DOCUMENT).is_file() and ((path / KEYS).is_dir() or path.suffix == ".profile")


@contextmanager
def staged(out: Path | None, *, replace: bool = False) -> Iterator[Path]:
    """A folder for a profile in the making: it becomes `out` on success, and is removed otherwise."""
    if out is None:
        with own_folder() as folder:
            yield folder
        return
    _check_free(out, replace=replace)
    out = behind(out)
    waiting = out.with_name(f".{out.name}.{uuid4().hex[:12]}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        waiting.mkdir(mode=0o700)
    except OSError as error:
        raise named(error, out) from None
    try:
        yield waiting
        _put(waiting, out)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _check_free(out: Path, *, replace: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if not is_profile(out):
        raise TargetError.of(
            "the target is not a profile; nothing was changed",
            got=str(out),
            allowed="a new name, or a profile",
        )
    if not replace:
        raise UsageError.of("the profile exists already", got=str(out), hint="another name, or --force to replace it")


def _put(waiting: Path, out: Path) -> None:
    """In one step; a profile that is replaced is exchanged with the new one, and then removed."""
    if out.exists():
        exchange(waiting, out)
    else:
        waiting.rename(out)
        force(out.parent)


def read_rows(folder: Path) -> pa.Table:
    """The rows that Spark has written into a folder."""
    files = sorted(str(file) for file in folder.glob("*.parquet"))
    if not files:
        hint = "on a cluster: --out on a file system that all machines share"
        raise TargetError.of(
            "the files written by Spark's workers are not visible on the driver", got=str(folder), hint=hint
        )
    return pa.concat_tables([pq.read_table(file) for file in files])


def write_profile(profile: Profile, folder: Path) -> None:
    """Write a profile into a new folder."""
    keys = folder / KEYS
    keys.mkdir(mode=0o700)
    file = keys / "part-0.parquet"
    pq.write_table(_rows(profile), file, compression="lz4", use_dictionary=False, write_statistics=False)
    file.chmod(0o600)
    force(file)
    write_json(folder / DOCUMENT, _document(profile))
    (folder / DOCUMENT).chmod(0o600)
    force(keys)
    force(folder)


def _rows(profile: Profile) -> pa.Table:
    counts = profile.by_window.astype("<i4", copy=False)
    if counts.shape[1] % 2:
        counts = np.concatenate([counts, np.zeros((len(counts), 1), "<i4")], axis=1)
    sums = np.ascontiguousarray(counts).view("<i8")
    columns = {name: profile.keys.column(name) for name in profile.keys.column_names}
    columns["keylane_records"] = pa.array(profile.records)
    if profile.size is not None:
        columns["keylane_bytes"] = pa.array(profile.size)
    columns |= {f"keylane_w{i}": pa.array(np.ascontiguousarray(sums[:, i])) for i in range(sums.shape[1])}
    return pa.table(columns)


def _document(profile: Profile) -> dict[str, Any]:
    lanes = profile.lanes
    return {
        "format": FORMAT,
        "source": profile.source,
        "key": profile.key.model_dump(mode="json", by_alias=True),
        "windows": {"kind": profile.windows.kind, "edges": list(profile.windows.edges)},
        "records": profile.total,
        "distinct_keys": profile.keys.num_rows,
        "without_key": asdict(profile.without_key),
        "bytes": profile.bytes_total,
        "lanes": None if lanes is None else {"by_window": lanes.by_window.tolist(), "misplaced": lanes.misplaced},
        "approximate": None if profile.approximate is None else asdict(profile.approximate),
        "facts": dict(profile.facts),
        "fingerprint": profile.fingerprint,
    }


def saved_salt(folder: Path, fresh: bytes) -> bytes:
    """The salt of a profile: what is kept with it, or `fresh`, which is kept from now on where the folder allows it.

    It is as secret as the keys: with it, a guess at a key can be tried. So it is for the profile's owner alone, and in
    no document.
    """
    kept, waiting = folder / SALT, folder / f".{SALT}.{uuid4().hex[:12]}"
    with suppress(OSError):
        if not kept.exists():
            waiting.touch(mode=0o600)
            waiting.write_text(fresh.hex(), encoding="ascii")
            # Two commands at once: the first one's stays, and both use it.
            with suppress(FileExistsError):
                kept.hardlink_to(waiting)
    with suppress(OSError):
        waiting.unlink(missing_ok=True)
    try:
        found = bytes.fromhex(kept.read_text(encoding="ascii"))
    except FileNotFoundError:
        return fresh
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"{SALT}: {error}") from None
    if len(found) < len(fresh):
        raise _damaged(folder, f"{SALT} is too short")
    return found


def read_profile(path: Path) -> Profile:
    """Read a profile, and check its fingerprint."""
    document = _read_document(path)
    try:
        profile = _profile(path, document)
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException, OSError) as error:
        raise _damaged(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    if fingerprint_of(profile) != document.get("fingerprint"):
        raise _damaged(path, "its content does not match its fingerprint")
    return profile


def _read_document(path: Path) -> dict[str, Any]:
    if not (path / DOCUMENT).is_file():
        raise DataError.of("not a profile", got=str(path), allowed="a folder written by `keylane profile --out`")
    try:
        document = json.loads((path / DOCUMENT).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    form = document.get("format") if isinstance(document, dict) else None
    if form != FORMAT:
        raise DataError.of(f"{path} is not a profile that this version reads", got=form, allowed=FORMAT)
    return dict(document)


def _profile(path: Path, document: dict[str, Any]) -> Profile:
    key = Key.model_validate(document["key"])
    windows = Windows(document["windows"]["kind"], tuple(map(int, document["windows"]["edges"])))
    rows = pq.read_table(path / KEYS / "part-0.parquet")
    lanes, approximate = document["lanes"], document["approximate"]
    sized = "keylane_bytes" in rows.column_names
    return Profile(
        source=document["source"],
        key=key,
        windows=windows,
        keys=rows.select(list(key.fields)).combine_chunks(),
        by_window=unpacked(rows, len(windows), packing=2),
        size=rows.column("keylane_bytes").to_numpy() if sized else None,
        without_key=WithoutKey(**document["without_key"]),
        bytes_total=document["bytes"],
        approximate=None if approximate is None else Approximation(**approximate),
        lanes=None if lanes is None else ObservedLanes(np.array(lanes["by_window"], np.int64), lanes["misplaced"]),
        facts=tuple(document["facts"].items()),
        fingerprint=document["fingerprint"],
    )


def _damaged(path: Path, what: str) -> DataError:
    return DataError.of(f"the profile {path} is damaged or was changed", got=what, hint="create it again")
