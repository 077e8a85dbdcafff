"""`keylane aggregate verify`: the results of a folder or a stream, in their order, against what is promised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.aggregation.order import Delivered, OrderCheck
from keylane.aggregation.query import RESERVED
from keylane.documents.aggregate import AggregateVerifyDocument
from keylane.errors import DataError, TargetError, first_line
from keylane.pipelines.aggregate.results import micros_of
from keylane.pipelines.aggregate.run import STATE
from keylane.pipelines.stateful.state_folder import read_sealed
from keylane.systems.endpoint import open_endpoint, parse_address, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from keylane.systems.delivery import DeliveredMessage
    from keylane.systems.endpoint import StreamOptions

_PREFIX: Final = "batch="


def verify_results(
    target: str, state: str | None = None, options: StreamOptions | None = None
) -> AggregateVerifyDocument:
    """Check the results of a target; with its state, also that nothing is missing at the end."""
    address = parse_address(target)
    kept = path_of(parse_address(state), "the state") if state else None
    if address.is_path:
        folder = path_of(address, "the target")
        kept = kept or folder / STATE
        if not (folder / "results").is_dir() and not kept.is_dir():
            allowed = "a folder with results/ in it"
            raise DataError.of("not a target of an aggregation", got=str(folder), allowed=allowed)
    manifest = newest_manifest(kept) if kept else {}
    groups = _groups(manifest)
    check = OrderCheck()
    if address.is_path:
        for path in batches_in(path_of(address, "the target") / "results"):
            check.take(_delivered(path, groups))
    else:
        check.take(_of_message(one, groups) for one in open_endpoint(address, options).delivered())
    committed = manifest.get("counts", {}).get("queries", {})
    for query, known in sorted(committed.items()):
        check.counted(query, known["windows"])
    return AggregateVerifyDocument(
        target=target,
        queries=check.queries,
        results=check.results,
        compared_with_state=bool(manifest),
        missing=check.count["missing"],
        twice=check.count["twice"],
        out_of_order=check.count["order"],
        other=check.count["window"] + check.count["more"],
        problems=check.problems,
    )


def _of_message(one: DeliveredMessage, groups: dict[str, list[str]]) -> Delivered:
    try:
        found = json.loads(one.value or b"")
        window = micros_of(found["window_start"]), micros_of(found["window_end"])
        query, sequence = str(found["query_id"]), int(found["sequence"])
    except (ValueError, KeyError, TypeError):
        raise TargetError.of("not a result of an aggregation", got=one.place) from None
    fields = groups.get(query)
    group = (sequence,) if fields is None else tuple(json.dumps(found.get(name)) for name in fields)
    return Delivered(query, *window, sequence, group, one.place)


def batches_in(folder: Path) -> list[Path]:
    """The files of the batches of a folder, in the order of the batches."""
    found = [(one.name.removeprefix(_PREFIX), one) for one in folder.glob(f"{_PREFIX}*")]
    strange = [one for number, one in found if not number.isdecimal()]
    if strange:
        raise TargetError.of(f"{strange[0]} is no folder of a batch", allowed=f"{_PREFIX} and a number")
    numbered = [(int(number), one) for number, one in found]
    return [file for _, one in sorted(numbered) for file in sorted(one.glob("*.parquet"))]


def newest_manifest(state: Path) -> dict[str, Any]:
    """Of the last committed batch; nothing where there is none."""
    found = sorted((state / "batches").glob("[0-9]*.json"))
    return read_sealed(found[-1]) if found else {}


def _groups(manifest: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of each query's group, as the state knows them: columns that are in the results and no aggregates."""
    return {name: list(fields) for name, fields in manifest.get("counts", {}).get("groups", {}).items()}


def _all(groups: dict[str, list[str]]) -> set[str]:
    return {name for fields in groups.values() for name in fields}


def _delivered(path: Path, groups: dict[str, list[str]]) -> Iterator[Delivered]:
    try:
        table = pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise TargetError.of(
            f"{path} cannot be read", got=first_line(str(error)), hint="restore it from a copy"
        ) from error
    missing = [name for name in RESERVED if name not in table.column_names]
    if missing:
        raise TargetError.of(f"{path} is not a file of results", got=f"without {', '.join(missing)}")
    table = table.select([*RESERVED, *(name for name in table.column_names if name in _all(groups))])
    for number, column in enumerate(table.schema):
        # As numbers, for events may have times that Python's own do not reach.
        if pa.types.is_timestamp(column.type):
            table = table.set_column(number, column.name, table.column(number).cast("int64"))
    for row in table.to_pylist():
        fields = groups.get(row["query_id"])
        # Without the state a group is not told apart from aggregates: sequences show what came twice.
        group = (row["sequence"],) if fields is None else tuple(row.get(name) for name in fields)
        yield Delivered(
            row["query_id"], row["window_start"], row["window_end"], row["sequence"], group, path.parent.name
        )
