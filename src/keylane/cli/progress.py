"""Progress of a long read: a counter on stderr, on a terminal only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["counted"]


def counted(batches: Iterable[Any], what: str) -> Iterator[Any]:
    """Pass batches through and show how many rows have gone by."""
    rows, shown = 0, sys.stderr.isatty()
    for batch in batches:
        rows += len(batch)
        if shown:
            click.echo(f"\r{what}: {rows:,} rows", nl=False, err=True)
        yield batch
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)
