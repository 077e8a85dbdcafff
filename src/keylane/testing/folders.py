"""An auditor for stream folders that shares no code with what writes them: it lists files and reads them with Arrow.

`problems(target, ...)` reports everything that is wrong: a record twice, lost or invented, offsets that are not dense,
lanes out of the order of the source, a record in a lane that the contract does not give it; or nothing.
`tests/route` holds it to its own rule: each of these faults is planted once, and must be reported.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from keylane.router import Router

__all__ = ["Seen", "dead_letters", "files_of", "lanes_of", "problems", "seen"]

#: Stream, lane and offset of a record, then its source file and row: all that must never change.
Seen = tuple[str, int, int, str, int]


def files_of(target: Path) -> list[Path]:
    """The files of all lanes, in the order of names."""
    return sorted(target.glob("stream=*/lane=*/*.parquet"))


def lanes_of(target: Path) -> Iterator[tuple[str, int, pa.Table]]:
    """Stream, lane and records of each lane, file after file."""
    folders: dict[Path, list[Path]] = {}
    for file in files_of(target):
        folders.setdefault(file.parent, []).append(file)
    for folder, files in folders.items():
        tables = [pq.ParquetFile(file).read() for file in files]
        stream, lane = folder.parent.name.partition("=")[2], int(folder.name.partition("=")[2])
        yield stream, lane, pa.concat_tables(tables, promote_options="default")


def dead_letters(target: Path) -> pa.Table | None:
    """All dead letters, when there are any."""
    files = sorted((target / "_dead").glob("*")) if (target / "_dead").is_dir() else []
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files]) if files else None


def seen(target: Path) -> set[Seen]:
    """Every record with its position, from one listing of the folder."""
    return {record for stream, lane, table in lanes_of(target) for record in _places(stream, lane, table)}


def _places(stream: str, lane: int, table: pa.Table) -> list[Seen]:
    source = pc.struct_field(table["keylane_source"], "file"), pc.struct_field(table["keylane_source"], "row")
    columns = (table["keylane_offset"], *source)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [(stream, lane, offset, file, row) for offset, file, row in rows]


def problems(
    target: Path, files: Sequence[str], rows: Mapping[str, Sequence[int]], router: Router | None = None
) -> list[str]:
    """Everything that is wrong with a target whose source has these files, in this order, with these rows.

    With a router, the lanes are decided again, record by record.
    """
    order = {name: n for n, name in enumerate(files)}
    found: Counter[tuple[str, int]] = Counter()
    wrong: list[str] = []
    for stream, lane, table in lanes_of(target):
        places = _places(stream, lane, table)
        found.update((file, row) for *_, file, row in places)
        wrong += _offset_problems(stream, lane, [offset for _, _, offset, _, _ in places])
        wrong += _order_problems(stream, lane, [(order.get(file, -1), row) for *_, file, row in places])
        wrong += _lane_problems(stream, lane, table, router) if router else []
    found.update(_dead_places(target))
    return wrong + _count_problems(found, {(name, row) for name in files for row in rows[name]})


def _offset_problems(stream: str, lane: int, offsets: list[int]) -> list[str]:
    if offsets == list(range(len(offsets))):
        return []
    at = next(n for n, offset in enumerate(offsets) if offset != n)
    return [f"{stream} lane {lane}: offset {offsets[at]} where {at} should be"]


def _order_problems(stream: str, lane: int, places: list[tuple[int, int]]) -> list[str]:
    back = [n for n in range(1, len(places)) if places[n] < places[n - 1]]
    return [f"{stream} lane {lane}: source order goes back at offset {back[0]}"] if back else []


def _lane_problems(stream: str, lane: int, table: pa.Table, router: Router) -> list[str]:
    """Only for contracts whose lanes come from the key: a position cannot be derived from a target alone."""
    placements = [router.place(record) for record in table.to_pylist()]
    wrong = [n for n, p in enumerate(placements) if p.lane is not None and (p.stream, p.lane) != (stream, lane)]
    if not wrong:
        return []
    return [f"{stream} lane {lane}: {len(wrong)} records belong elsewhere, the first at offset {wrong[0]}"]


def _dead_places(target: Path) -> list[tuple[str, int]]:
    letters = dead_letters(target)
    return [] if letters is None else [(s["file"], s["row"]) for s in letters["keylane_source"].to_pylist()]


def _count_problems(found: Counter[tuple[str, int]], expected: set[tuple[str, int]]) -> list[str]:
    twice = [place for place, count in found.items() if count > 1]
    groups: list[tuple[str, Any]] = [
        ("there twice", twice),
        ("lost", expected - set(found)),
        ("from nowhere", set(found) - expected),
    ]
    return [f"{len(places)} records are {what}, the first {min(places)}" for what, places in groups if places]
