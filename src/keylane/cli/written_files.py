"""Files that a command writes beside its result: never over another unasked, which is said before the work."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["check_free", "write"]


def check_free(path: str | None, *, force: bool) -> None:
    """Refuse a file that is there, or that has no folder, before anything is read."""
    if path is None:
        return
    if Path(path).exists() and not force:
        raise click.UsageError(f"{path} is there already; hint: --force replaces it")
    if not Path(path).absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder for {path}")


def write(path: str | None, text: str) -> None:
    """Write a file, where one was asked for."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
