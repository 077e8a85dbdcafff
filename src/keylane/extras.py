"""The command that installs a part of keylane where this one came from: a clone, as it is on no index.

Which library is in which part: `systems.doctor`. What is raised where one is missing: `errors.MissingExtraError`.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str = "") -> str:
    """A line for a shell, for this very Python; without an extra it installs keylane itself once more."""
    pip = f"{shlex.quote(sys.executable)} -m pip install{'' if extra else ' --force-reinstall'}"
    return f"{pip} {_source(f'[{extra}]' if extra else '')}"


def _source(part: str) -> str:
    clone = Path(__file__).absolute().parents[2]
    if (clone / "pyproject.toml").is_file():
        return f"-e {shlex.quote(f'{clone}{part}')}"
    found = _installed_from()
    # Of a wheel only the clone is known to have the rest: keylane is on no index.
    return shlex.quote(f"{found}{part}") if found else f"{shlex.quote(f'.{part}')}  # in a clone of keylane"


def _installed_from() -> str:
    """The folder or the archive that pip has installed, where it is still there."""
    try:
        noted = distribution("keylane").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    url = urlsplit(json.loads(noted or "{}").get("url", ""))
    path = unquote(url.path)
    return path if url.scheme == "file" and path and Path(path).exists() else ""
