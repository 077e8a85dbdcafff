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
    """What each file of a folder holds, by its path; empty folders are there too."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if CHECKPOINT in path.relative_to(folder).parts[:-1]:
            continue
        if path.is_dir():
            if path.name == CHECKPOINT or not any(path.iterdir()):
                found[name + "/"] = None
        else:
            found[name] = READERS.get(path.suffix, _size)(path)
    return found


def _size(path: Path) -> str:
    return "<empty>" if path.stat().st_size == 0 else "<bytes>"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _parquet(path: Path) -> Any:
    return _table(pq.ParquetFile(path).read())


def _arrow(path: Path) -> Any:
    with pa.OSFile(str(path), "rb") as source:
        return _table(pa.ipc.open_file(source).read_all())


def _table(table: pa.Table) -> dict[str, Any]:
    """Columns with their types, whose order is held, and a digest of the rows in theirs."""
    rows = json.dumps(table.to_pylist(), default=repr)
    schema = {field.name: _type(field) for field in table.schema}
    return {"schema": schema, "rows": table.num_rows, "digest": hashlib.sha256(rows.encode()).hexdigest()[:16]}


def _type(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else '!'}".replace(" ", "")


READERS: Final[dict[str, Callable[[Path], Any]]] = {".json": _json, ".parquet": _parquet, ".arrow": _arrow}
