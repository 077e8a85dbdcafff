"""The ways a record can be placed, one name each. All must agree with `one_by_one`, to the last bit.

A way is a function from contract, records, positions and Arrow types to outcomes. Another backend is one more entry of
WAYS, and then runs every case there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pytest

from keylane.errors import UnplacedError
from keylane.records import Reason
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from keylane.contract.model import Contract

    Record = Mapping[str, Any]


class Outcome(NamedTuple):
    stream: str
    lane: int | None
    routing_key: bytes | None
    reason: str | None


class Way(Protocol):
    def __call__(
        self,
        contract: Contract,
        records: Sequence[Record],
        positions: Sequence[int] | None = None,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> list[Outcome]: ...


def by_record(
    contract: Contract,
    records: Sequence[Record],
    positions: Sequence[int] | None = None,
    types: Mapping[str, pa.DataType] | None = None,
) -> list[Outcome]:
    """`Router.place`, record by record; `Router.lane` must say the same."""
    router = Router(contract)
    at: Sequence[int | None] = positions or [None] * len(records)
    placed = [router.place(record, position) for record, position in zip(records, at, strict=True)]
    lanes = [_lane_or_reason(router, record, position) for record, position in zip(records, at, strict=True)]
    silent = (None, Reason.NO_POSITION)
    assert lanes == [p.lane if p.reason in silent else p.reason for p in placed], "lane and place differ"
    return [Outcome(p.stream, p.lane, p.routing_key, p.reason and str(p.reason)) for p in placed]


def _lane_or_reason(router: Router, record: Record, position: int | None) -> int | Reason | None:
    try:
        return router.lane(record, position)
    except UnplacedError as error:
        return error.reason


def by_batch(lay_out: Callable[[pa.Table], Any]) -> Way:
    """`Router.placements` over the records in one layout of Arrow; `Router.lanes` must say the same."""

    def place(
        contract: Contract,
        records: Sequence[Record],
        positions: Sequence[int] | None = None,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> list[Outcome]:
        batch = lay_out(_table(records, types or {}))
        placed = Router(contract).placements(batch, positions).to_pylist()
        lanes = Router(contract).lanes(batch, positions).to_pylist()
        assert lanes == [row["lane"] for row in placed], "lanes and placements differ"
        return [Outcome(**row) for row in placed]

    return place


def _table(records: Sequence[Record], types: Mapping[str, pa.DataType]) -> pa.Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    return pa.table({name: pa.array([record[name] for record in records], types.get(name)) for name in names})


def _batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _wide(table: pa.Table) -> pa.RecordBatch:
    wider = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return _batch(table.cast(pa.schema([field.with_type(wider.get(field.type, field.type)) for field in table.schema])))


def _views(table: pa.Table) -> pa.RecordBatch:
    views = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    return _batch(table.cast(pa.schema([field.with_type(views.get(field.type, field.type)) for field in table.schema])))


def _dictionaries(table: pa.Table) -> pa.RecordBatch:
    arrays = [column if pa.types.is_null(column.type) else column.dictionary_encode() for column in table.columns]
    return _batch(pa.table(arrays, names=table.column_names))


def _slice(table: pa.Table) -> pa.RecordBatch:
    doubled = _batch(pa.concat_tables([table, table]))
    return doubled.slice(len(table), len(table))


def _chunks(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


WAYS: dict[str, Way] = {
    "batch": by_batch(_batch),
    "wide batch": by_batch(_wide),
    "batch of views": by_batch(_views),
    "batch of dictionaries": by_batch(_dictionaries),
    "slice": by_batch(_slice),
    "table of chunks": by_batch(_chunks),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way in turn."""
    return WAYS[request.param]


@pytest.fixture(scope="session")
def one_by_one() -> Way:
    """What every way is held against."""
    return by_record
