"""When the data does not say: too few keys, one lane, no rule; and columns that hold no lanes or keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.errors import DataError, LaneCountError
from keylane.measure.identify import identify
from keylane.measure.mixture import FEWEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Lanes = Callable[..., NDArray[np.int32]]
    Batch = Callable[..., pa.RecordBatch]


def randomly(rows: int, lanes: int = 12) -> NDArray[np.int64]:
    return np.random.default_rng(11).integers(0, lanes, rows)


@pytest.mark.parametrize("lanes", [3, 12, 100, 1_000])
def test_too_few_keys_are_unknown(lanes: int, merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    for keys, verdict in ((FEWEST - 1, "unknown"), (4 * FEWEST, "one-writer")):
        some = merchants[:keys]
        assert identify([batch(some, lanes_by("kafka-java", some, lanes))], lanes).verdict == verdict


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 7, 30])
def test_a_few_random_rows_are_never_believed(rows: int, merchants: list[str], batch: Batch) -> None:
    for seed in range(40):
        at = np.random.default_rng(seed).integers(0, 12, rows)
        assert identify([batch(merchants[:rows], at)], 12).verdict == "unknown"


@pytest.mark.parametrize("given", [1, None])
def test_one_lane_says_nothing(given: int | None, merchants: list[str], batch: Batch) -> None:
    found = identify([batch(merchants, [0] * len(merchants))], given)
    assert (found.verdict, found.lanes) == ("unknown", 1)
    (note,) = found.notes
    assert "every partitioner" in note


def test_lanes_that_most_keys_share_prove_nothing(merchants: list[str], batch: Batch) -> None:
    """A hash that is not fair meets a crowded lane more often than once in n: that is no evidence for it."""
    lanes = [0 if i % 10 < 8 else i % 12 for i in range(len(merchants))]
    found = identify([batch(merchants, lanes)])
    assert (found.verdict, found.lanes) == ("unknown", 12)


def test_keys_that_stand_in_several_lanes_are_said_to(merchants: list[str], batch: Batch) -> None:
    found = identify([batch(merchants[:50] * 40, randomly(2_000))], 12)
    assert found.verdict == "unknown"
    assert "round robin" in found.notes[0]


@pytest.mark.parametrize("rows", [2_000, 100_000], ids=["few", "more than the sample"])
def test_a_round_robin_of_repeated_keys_is_distinguished_from_a_rule_of_the_key(rows: int, batch: Batch) -> None:
    keys = [f"m-{i % (rows // 2)}" for i in range(rows)]
    found = identify([batch(keys, randomly(rows))], 12)
    assert found.verdict == "unknown"
    assert "no rule of the key" in found.notes[0]


def test_keys_seen_once_prove_no_rule_of_the_key(merchants: list[str], batch: Batch) -> None:
    """Round robin over keys that never repeat: each keeps one lane only because it came once."""
    found = identify([batch(merchants, randomly(2_000))], 12)
    assert found.verdict == "unknown"
    assert "some rule" not in found.notes[0]


def test_a_rule_nobody_knows_is_said_to_be_one(merchants: list[str], batch: Batch) -> None:
    lanes = [sum(key.encode()) % 12 for key in merchants] * 2
    found = identify([batch(merchants * 2, lanes)], 12)
    assert found.verdict == "unknown"
    rule, *_, excluded = found.notes
    assert "some rule" in rule
    assert "excluded" in excluded


def test_an_unproven_lane_count_is_the_highest_lane_seen_plus_one(merchants: list[str], batch: Batch) -> None:
    for seed in range(10):
        at = np.random.default_rng(seed).integers(0, 12, len(merchants))
        found = identify([batch(merchants, at)])
        assert (found.lanes, found.lanes_from) == (12, "seen")


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(pa.array([], pa.string()), id="no rows"),
        pytest.param(pa.array([None, None], pa.string()), id="only nulls"),
        pytest.param(pa.array(["", ""]), id="only empty keys"),
        pytest.param(pa.nulls(2), id="a column of nothing"),
    ],
)
def test_data_without_keys_is_unknown(keys: pa.Array, batch: Batch) -> None:
    found = identify([batch(keys, [0] * len(keys))], 12)
    assert (found.verdict, found.writers, found.rows) == ("unknown", (), len(keys))
    (note,) = found.notes
    assert "no row" in note


def test_no_batches_at_all_are_unknown() -> None:
    assert identify([]).verdict == "unknown"


def test_a_given_lane_count_is_kept_for_empty_data() -> None:
    found = identify([], 12)
    assert (found.lanes, found.lanes_from) == (12, "given")


def test_a_batch_without_rows_among_others_does_no_harm(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    whole = batch(merchants, lanes_by("kafka-java", merchants, 12))
    assert identify([whole.slice(0, 0), whole, whole.slice(0, 0)]) == identify([whole])


@pytest.mark.parametrize(
    ("lanes", "kind", "message"),
    [
        pytest.param([0, -1], pa.int32(), "got -1; allowed: 0 to 99999", id="negative"),
        pytest.param([0, 200_000], pa.int32(), "got 200000; allowed: 0 to 99999", id="huge"),
        pytest.param([0, 2**63], pa.uint64(), "got 9223372036854775808", id="past 63 bits"),
        pytest.param([0.0, 1.0], pa.float64(), "got 'double'", id="float"),
        pytest.param(["0", "1"], pa.string(), "got 'string'", id="text"),
        pytest.param([None, None], pa.null(), "got 'null'", id="nothing"),
    ],
)
def test_a_lane_column_that_holds_no_lanes_is_refused(
    lanes: list[Any], kind: pa.DataType, message: str, batch: Batch
) -> None:
    with pytest.raises(DataError, match=message):
        identify([batch(["a", "b"], lanes, None, kind)])


def test_a_lane_beyond_the_given_count_is_refused(batch: Batch) -> None:
    with pytest.raises(LaneCountError, match="got 12; allowed: 0 to 11"):
        identify([batch(["a", "b"], [0, 12])], 12)


@pytest.mark.parametrize("lanes", [0, -1, 10**9, True])
def test_an_absurd_lane_count_is_refused(lanes: int, batch: Batch) -> None:
    with pytest.raises(LaneCountError, match="not a lane count"):
        identify([batch(["a"], [0])], lanes)


@pytest.mark.parametrize(
    "keys",
    [pa.array([1.5, 2.5]), pa.array([True, False]), pa.array([[1], [2]]), pa.array([0, 1], pa.timestamp("us"))],
    ids=["float", "bool", "list", "timestamp"],
)
def test_a_key_column_that_holds_no_keys_is_refused(keys: pa.Array, batch: Batch) -> None:
    with pytest.raises(DataError, match="whole numbers"):
        identify([batch(keys, [0, 1])])
