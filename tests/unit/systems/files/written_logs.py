"""The log of Spark's file source, written as Spark writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def line(path: Path, entry: int, modified: int | None = None) -> str:
    """A file of an entry. Java escapes more than this or less, and either is a URL."""
    at = path.stat().st_mtime_ns // 1_000_000 if modified is None else modified
    return json.dumps({"path": f"file://{quote(str(path))}", "timestamp": at, "batchId": entry}, separators=(",", ":"))


def write_entry(checkpoint: Path, entry: int, paths: Sequence[Path], ages: Mapping[Path, int] | None = None) -> None:
    """An entry of the log."""
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True, exist_ok=True)
    lines = ["v1", *(line(path, entry, (ages or {}).get(path)) for path in paths)]
    (log / str(entry)).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_batch(checkpoint: Path, batch: int, entry: int) -> None:
    """The offsets of a batch, which ends with an entry."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    text = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{entry}}}'
    (checkpoint / "offsets" / str(batch)).write_text(text, encoding="utf-8")


def compact(checkpoint: Path, last: int, *, keep: bool = False) -> None:
    """Merge the entries up to one into that one, as Spark does, and remove the others."""
    log, merged = checkpoint / "sources" / "0", []
    for entry in range(last + 1):
        merged += (log / str(entry)).read_text(encoding="utf-8").splitlines()[1:]
        if not keep or entry == last:
            (log / str(entry)).unlink()
    (log / f"{last}.compact").write_text("\n".join(["v1", *merged]) + "\n", encoding="utf-8")
