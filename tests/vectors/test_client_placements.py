"""Where real clients put 203 keys on a real broker, column by column, against the partitioner named for the column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from keylane.contract.partitioners import FACTS
from keylane.placement.partitioners import partitioner
from keylane.router import Router
from keylane.testing.golden import ClientColumn, ClientPlacement, client_columns, client_placements

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

PLACEMENTS = client_placements()
COLUMNS = [column for column in client_columns() if column.partitioner]
LANES = 15
keyed = pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.client} {column.setting}")


def cells(column: ClientColumn) -> list[ClientPlacement]:
    return [placement for placement in PLACEMENTS if placement.column == column]


def misses(column: ClientColumn, name: str) -> list[ClientPlacement]:
    """The cells that the key decided and a partitioner puts elsewhere."""
    lane = partitioner(name).lane
    return [cell for cell in cells(column) if cell.decided and lane(cell.key, LANES) != cell.lane]


@keyed
def test_every_key_is_where_the_client_put_it(column: ClientColumn) -> None:
    assert misses(column, str(column.partitioner)) == []


@keyed
def test_what_the_key_does_not_decide_is_left_open(column: ClientColumn) -> None:
    open_keys = [cell.key for cell in cells(column) if not cell.decided]
    assert [partitioner(str(column.partitioner)).lane(key, LANES) for key in open_keys] == [None] * len(open_keys)


@keyed
def test_a_contract_places_a_batch_as_the_client_did(column: ClientColumn, contract: Callable[..., Contract]) -> None:
    router = Router(contract(lanes=LANES, partitioner=column.partitioner, key={"fields": ["k"], "encoding": "raw"}))
    rows = cells(column)
    placed = router.lanes(pa.RecordBatch.from_pydict({"k": pa.array([row.key for row in rows], pa.binary())}))
    assert placed.to_pylist() == [row.lane if row.decided else None for row in rows]


@keyed
def test_a_partitioner_of_another_family_is_caught(column: ClientColumn) -> None:
    mine = FACTS[str(column.partitioner)].family
    others = [
        "kafka-java",
        "librdkafka-consistent",
        "sarama-hash",
        "sarama-reference",
        "kafkajs-1",
        "murmur2-big-endian",
    ]
    missed = {name: len(misses(column, name)) for name in others if FACTS[name].family != mine}
    assert len(missed) >= 5
    assert min(missed.values()) > 60


def test_a_wrong_rule_for_empty_keys_is_caught() -> None:
    hashes_empty = next(column for column in COLUMNS if column.setting == "consistent")
    assert [cell.key for cell in misses(hashes_empty, "librdkafka-consistent-random")] == [b"", None]


def test_a_client_that_ignores_keys_decides_none_of_them() -> None:
    ignoring = [column for column in client_columns() if column.partitioner is None]
    assert [column.client for column in ignoring] == ["kafka-go"]
    assert not any(cell.decided for cell in cells(ignoring[0]))


def test_there_are_as_many_cells_as_the_data_says() -> None:
    assert len(PLACEMENTS) == 203 * 30
    assert {cell.lanes for cell in PLACEMENTS} == {LANES}
