"""What `demo` and `demo_lesson` share: a folder that is theirs to fill, and their steps on stderr."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FIGURES", "PAGE", "progress", "ready"]

PAGE: Final = "index.html"
FIGURES: Final = "figures.json"


def progress(began: float) -> Callable[[str], None]:
    """Each step on stderr, with the seconds since the start."""

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:6.1f} s] {text}", err=True)

    return say


def ready(to: Path, schema: str = "keylane.demo/1") -> None:
    """Make the folder, or take one that an earlier demo of this kind filled; refuse any other."""
    from keylane.errors import UsageError

    to.mkdir(parents=True, exist_ok=True)
    if any(to.iterdir()) and not _is_ours(to / FIGURES, schema):
        raise UsageError.of("not an empty folder, and not a demo's", got=str(to), hint="--to another folder")
    # An old page must not stand for a new run that fails; and a run that was cut off can be run again.
    (to / PAGE).unlink(missing_ok=True)
    (to / FIGURES).write_text(json.dumps({"schema": schema, "finished": False}), encoding="utf-8")


def _is_ours(file: Path, schema: str) -> bool:
    kind = schema.partition("/")[0]
    try:
        return str(json.loads(file.read_text(encoding="utf-8")).get("schema", "")).startswith(f"{kind}/")
    except (OSError, ValueError, AttributeError):
        return False
