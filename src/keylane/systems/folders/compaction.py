"""`compact`: many small files of a lane -> few large ones, with the same records, offsets and order.

A lane is compacted beside its folder: a new folder gets the merged files, and links to those that stay; then the two
folders are exchanged in one step. A reader that lists a lane sees all of its old files or all of its new ones, never a
record twice and never one missing. One that lists and opens later may miss a listed file, and has to list again. A
process that is killed leaves the old lane or the new one, and a folder to remove.

The target must not be written meanwhile, which its lock holds. A reader that remembers file names, as Spark's streaming
file source does, treats a merged file as a new one: see docs/stream-folders.md.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.errors import CountError, TargetError
from keylane.systems.atomic import exchange, force_all
from keylane.systems.folders.folder import DEAD, hold
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.systems.folders.folder import Target
    from keylane.systems.journal import Probe

MIB: Final = 1 << 20
_NAME = re.compile(r"part-(\d{10})(?:-(\d{10}))?\.(parquet|dead)")
_ROWS: Final = 131_072
_GROWING: Final = ("keylane_offset", "keylane_source.row")


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for one lane's folder."""

    folder: str
    files_before: int
    files_after: int
    records: int


def compact(path: Path, *, size: int = 128 * MIB, probe: Probe = no_probe) -> list[Compacted]:
    """Merge neighbouring files of each lane up to about `size` bytes. Lanes with nothing to merge are left alone."""
    with hold(path) as target:
        target.recover()
        done = [_compact_lane(target, folder, size, probe) for folder in _folders(path)]
    return [lane for lane in done if lane is not None]


def _folders(path: Path) -> list[Path]:
    lanes = sorted(path.glob("stream=*/lane=*"), key=lambda p: (p.parent.name, int(p.name.partition("=")[2])))
    return [*lanes, *([path / DEAD] if (path / DEAD).is_dir() else [])]


def _compact_lane(target: Target, folder: Path, size: int, probe: Probe) -> Compacted | None:
    files = _files(folder)
    groups = grouped([(file, file.stat().st_size) for file in files], size)
    if len(groups) == len(files):
        return None
    beside = target.staging(0) / folder.name
    beside.mkdir()
    records = sum(_merge(group, beside) if len(group) > 1 else _keep(group[0], beside) for group in groups)
    expected = sum(pq.read_metadata(file).num_rows for file in files)
    if records != expected:
        raise CountError.of(f"the records of {folder} do not add up", got=records, allowed=str(expected))
    force_all([*sorted(beside.iterdir()), beside])
    probe("merged", 0)
    exchange(beside, folder)
    probe("exchanged", 0)
    shutil.rmtree(beside.parent)
    return Compacted(folder.relative_to(target.path).as_posix(), len(files), len(groups), records)


def _files(folder: Path) -> list[Path]:
    """The files of a lane in the order of their batches. Files that keylane did not write are refused."""
    foreign = [entry.name for entry in folder.iterdir() if not _NAME.fullmatch(entry.name)]
    if foreign:
        hint = "move it elsewhere, and compact again"
        raise TargetError.of(f"{folder} holds a file that keylane did not write", got=foreign[0], hint=hint)
    return sorted(folder.iterdir())


def grouped(files: Sequence[tuple[Path, int]], size: int) -> list[list[Path]]:
    """Neighbours together up to the size; a file of that size stays alone."""
    groups: list[list[Path]] = []
    filled = size
    for file, own in files:
        if filled + own > size:
            groups.append([])
            filled = 0
        groups[-1].append(file)
        filled += own
    return groups


def _keep(file: Path, folder: Path) -> int:
    """The same file under the same name in the new folder, without a copy."""
    os.link(file, folder / file.name)
    return int(pq.read_metadata(file).num_rows)


def _merge(files: Sequence[Path], folder: Path) -> int:
    """One file with the records of several, in their order; its name has the first and the last batch."""
    first, last = _NAME.fullmatch(files[0].name), _NAME.fullmatch(files[-1].name)
    assert first is not None
    assert last is not None
    merged = folder / f"part-{first[1]}-{last[2] or last[1]}.{first[3]}"
    schema = pa.unify_schemas([pq.read_schema(file).remove_metadata() for file in files])
    records = 0
    with pq.ParquetWriter(merged, schema, **_options(files)) as writer:
        for table in _row_groups(files, schema):
            writer.write_table(table, row_group_size=len(table))
            records += len(table)
    return records


def _options(files: Sequence[Path]) -> dict[str, Any]:
    """As Spark wrote them: increasing numbers as deltas, everything else by dictionary."""
    shapes = [pq.read_metadata(file).schema for file in files]
    leaves = dict.fromkeys(shape.column(n).path for shape in shapes for n in range(len(shape)))
    return {
        "compression": "snappy",
        "data_page_version": "2.0",
        "use_dictionary": [leaf for leaf in leaves if leaf not in _GROWING],
        "column_encoding": {leaf: "DELTA_BINARY_PACKED" for leaf in leaves if leaf in _GROWING},
    }


def _row_groups(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """The records of all files in chunks large enough for a row group."""
    waiting: list[pa.RecordBatch] = []
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_ROWS):
            waiting.append(_as(batch, schema))
            if sum(map(len, waiting)) >= _ROWS:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of all files: one that its own file did not have yet is null."""
    have = set(batch.schema.names)
    columns = [batch.column(f.name) if f.name in have else pa.nulls(len(batch), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
