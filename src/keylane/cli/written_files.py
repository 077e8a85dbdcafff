"""Files that a command writes beside its result: never over another unasked, which is said before the work."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["check_apart", "check_free", "write"]


def check_apart(*paths: str | None) -> None:
    """Refuse one file for two things."""
    given = [Path(path).absolute() for path in paths if path is not None]
    twice = next((path for path in given if given.count(path) > 1), None)
    if twice is not None:
        raise click.UsageError(f"{twice} cannot be two files; hint: another name for one of them")


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
