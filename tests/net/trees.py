"""A folder as a snapshot: names of its files, schemas and rows of its tables, fields and values of its JSON."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from tests.net.snapshots import held, normalised

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["tree", "tree_held"]

#: Spark's own: what is in it is no format of keylane's, but that it is there is.
CHECKPOINT: Final = "checkpoint"


def tree_held(name: str, folder: Path, *places: Path, volatile: frozenset[str] = frozenset()) -> None:
    """Hold a folder."""
    held(name, normalised(tree(folder), *places, volatile=volatile))


def tree(folder: Path) -> dict[str, Any]:
    """What each file of a folder holds, by its path; empty folders are there too, and Spark's checksums are not."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if CHECKPOINT in inner.parts[:-1] or path.suffix == ".crc":
            continue
        if path.is_dir():
            if path.name == CHECKPOINT or not any(path.iterdir()):
                found[f"{inner}/"] = None
        else:
            found[str(inner)] = READERS.get(path.suffix, _size)(path)
    return found


def _size(path: Path) -> str:
    return "<empty>" if path.stat().st_size == 0 else "<bytes>"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _parquet(path: Path) -> Any:
    in_order = path.suffix == ".dead" or path.parent.name.startswith("lane=")
    return _table(pq.ParquetFile(path).read(), in_order=in_order)


def _arrow(path: Path) -> Any:
    with pa.OSFile(str(path), "rb") as source:
        return _table(pa.ipc.open_file(source).read_all(), in_order=False)


def _table(table: pa.Table, *, in_order: bool) -> dict[str, Any]:
    """Columns with their types in their order, and a digest of the rows: of a lane in their order, else in any."""
    rows = [json.dumps(_plain(row)) for row in table.to_pylist()]
    text = "\n".join(rows if in_order else sorted(rows))
    columns = [f"{one.name}:{one.type}{'' if one.nullable else '!'}".replace(" ", "") for one in table.schema]
    return {"columns": columns, "rows": len(rows), "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _plain(value: Any) -> Any:
    """As JSON takes it; the last digits of fractions are the processor's to choose."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return f"{value:.9g}"
    return value if value is None or isinstance(value, str | int) else repr(value)


READERS: Final[dict[str, Callable[[Path], Any]]] = {
    ".json": _json,
    ".parquet": _parquet,
    ".dead": _parquet,
    ".arrow": _arrow,
}
