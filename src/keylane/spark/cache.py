"""The folder for what is costly to have and can be had again: the start-up archive, and the jars that were fetched.

KEYLANE_CACHE names another folder, and an empty one means that nothing is kept. Imports no pyspark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["cache_folder"]


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's cache folder for keylane; None when the user wants none."""
    own = environ.get("KEYLANE_CACHE")
    if own is not None:
        return Path(own) if own else None
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "keylane"
