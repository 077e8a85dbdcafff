from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.fields import fields_of
from keylane.errors import DataError
from keylane.measure.conformance import keeps
from keylane.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from keylane.contract.model import Contract

    Lanes = Callable[..., NDArray[np.int32]]
    Batch = Callable[..., pa.RecordBatch]
    Make = Callable[..., Contract]

#: Four keys, each with a lane of its own, so that counts can be read off.
FOUR = {"lanes": 4, "table": {"values": {"a": 0, "b": 1, "c": 2, "d": 3}}}


def said(contract: Contract, *batches: pa.RecordBatch, lane: str | None = "lane") -> list[str]:
    return [str(finding) for finding in keeps(Router(contract), batches, lane)[1]]


def parts(finding: str) -> tuple[str, str, str]:
    """Where it is, how many rows, and the reason."""
    where, rows, reason = re.findall(r"^(\w+: \w+): (\d+ of \d+ rows) .*: ([\w-]+)$", finding)[0]
    return where, rows, reason


def test_data_that_keeps_its_contract_says_nothing(
    merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    one = batch(merchants, lanes_by("kafka-java", merchants, 16))
    kept, findings = keeps(Router(contract()), [one.slice(0, 700), one.slice(700)], "lane")
    assert findings == []
    assert (kept.rows, kept.misplaced, kept.unplaced) == (2_000, 0, {})
    assert kept.per_lane.tolist() == np.bincount(one.column("lane").to_numpy(), minlength=16).tolist()


@pytest.mark.parametrize("size", [2_000, 300], ids=["one batch", "batches"])
def test_one_misplaced_row_is_found_and_named(
    size: int, merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by("kafka-java", merchants, 16)
    promised = int(at[1_234])
    at[1_234] = wrong = (promised + 1) % 16
    example = f"(row 1,235: lane {wrong}, promised {promised})"
    whole = batch(merchants, at)
    (text,) = said(contract(), *(whole.slice(i, size) for i in range(0, 2_000, size)))
    assert text.startswith("error: data: 1 of 2,000 rows ")
    assert f"{example}; hint: keylane identify" in text


def test_three_examples_of_misplaced_rows_are_enough(
    merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    at = (lanes_by("kafka-java", merchants, 16) + 1) % 16
    whole = batch(merchants, at)
    kept, (finding,) = keeps(Router(contract()), [whole.slice(0, 2), whole.slice(2)], "lane")
    assert finding.message.startswith("2,000 of 2,000 rows")
    assert finding.message.count("promised") == 1
    assert [(one.key, one.lane, one.expected, one.row) for one in kept.examples] == [
        (merchants[i].encode(), at[i], (at[i] - 1) % 16, i + 1) for i in range(3)
    ]


def test_examples_of_misplaced_rows_are_of_different_keys(contract: Make, batch: Batch, lanes_by: Lanes) -> None:
    keys = ["a", "a", "a", "b"]
    kept, _ = keeps(Router(contract()), [batch(keys, (lanes_by("kafka-java", keys, 16) + 1) % 16)], "lane")
    assert [(one.key, one.row) for one in kept.examples] == [(b"a", 1), (b"b", 4)]


def test_a_row_whose_lane_is_null_is_counted_and_not_called_misplaced(contract: Make, batch: Batch) -> None:
    (finding, *more) = said(contract(**FOUR), batch(["a", "a"], [0, None]))
    assert "1 of 2 rows cannot be compared: their lane is null" in finding
    assert not any("the contract promises" in one for one in more)


def test_without_a_lane_column_nothing_is_held_against_it(contract: Make, batch: Batch) -> None:
    assert said(contract(**FOUR), batch(["a", "b"], [3, 3]), lane=None) == []


def test_keyless_rows_may_stand_anywhere(contract: Make, batch: Batch) -> None:
    rows = batch(["a", "b", "c", "d", None, None], [0, 1, 2, 3, 0, 2])
    assert said(contract(**FOUR), rows) == []
    (text,) = said(contract(lanes=4, partitioner="librdkafka-random"), rows)
    assert text.startswith("info: data: lanes were not compared")


def test_null_keys_that_are_hashed_must_stand_on_their_lane(contract: Make, batch: Batch) -> None:
    hashed = contract(lanes=12, partitioner="librdkafka-murmur2")
    home = Router(hashed).lane({"k": None})
    assert said(hashed, batch([None, None], [home, home], pa.string())) == []
    assert "1 of 2 rows" in said(hashed, batch([None, None], [home, 0], pa.string()))[0]


def test_rows_of_a_tier_are_not_held_against_this_streams_lanes(contract: Make, batch: Batch) -> None:
    tiered = contract(**FOUR, hot_keys=[{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 16}}])
    kept, findings = keeps(Router(tiered), [batch(["a", "vip"], [0, 15])], "lane")
    assert findings == []
    assert kept.per_lane.tolist() == [1, 0, 0, 0]


def test_spread_keys_are_held_against_their_sub_key(contract: Make) -> None:
    spread = contract(hot_keys=[{"keys": ["hot"], "spread": {"over": 4, "by": "order"}}])
    orders = [f"o-{i}" for i in range(200)]
    lanes = [Router(spread).lane({"k": "hot", "order": order}) for order in orders]
    rows = pa.table({"k": ["hot"] * 200, "order": orders, "lane": lanes}).to_batches()
    assert said(spread, *rows) == []


@pytest.mark.parametrize(
    ("kind", "lanes"),
    [
        pytest.param(pa.string(), ["0", "x"], id="text"),
        pytest.param(pa.float64(), [0.0, 1.5], id="float"),
        pytest.param(pa.list_(pa.int32()), [[0], [1]], id="list"),
    ],
)
def test_a_lane_column_that_holds_no_lanes_is_refused(
    kind: pa.DataType, lanes: list[Any], contract: Make, batch: Batch
) -> None:
    with pytest.raises(DataError, match="'lane'"):
        said(contract(**FOUR), batch(["a", "b"], lanes, None, kind))


#: Seven tenths of one key, one tenth each of the others; so many rows that chance is no explanation.
TENTHS = [*"aaaaaaabcd"] * 2_000
WITHOUT = [*"aabbccdd", None, ""] * 2_000


@pytest.mark.parametrize(
    ("expect", "keys", "broken"),
    [
        pytest.param(
            {"max_over_mean": 2.7},
            TENTHS,
            ("max_over_mean", "2.800", "2.7"),
            id="skew broken",
        ),
        pytest.param({"max_over_mean": 2.8}, TENTHS, None, id="skew kept"),
        pytest.param(
            {"max_key_share": 0.68},
            TENTHS,
            ("max_key_share", "70.0", "68.0"),
            id="key share broken",
        ),
        pytest.param({"max_key_share": 0.7}, TENTHS, None, id="key share kept"),
        pytest.param(
            {"min_distinct_keys": 5},
            TENTHS,
            ("min_distinct_keys", "4", "5"),
            id="distinct broken",
        ),
        pytest.param({"min_distinct_keys": 4}, TENTHS, None, id="distinct kept"),
        pytest.param(
            {"max_null_share": 0.1},
            WITHOUT,
            ("max_null_share", "20.0", "10.0"),
            id="null share broken",
        ),
        pytest.param({"max_null_share": 0.2}, WITHOUT, None, id="null share kept"),
        pytest.param({"max_null_share": 0.0}, TENTHS, None, id="no nulls kept"),
    ],
)
@pytest.mark.parametrize("size", [20_000, 777], ids=["one batch", "batches"])
def test_an_expectation_is_broken_or_kept(
    expect: dict[str, Any], keys: list[str | None], broken: tuple[str, str, str] | None, size: int, contract: Make
) -> None:
    rows = pa.record_batch([pa.array(keys, pa.string())], names=["k"])
    batches = [rows.slice(i, size) for i in range(0, len(rows), size)]
    expected = contract(**FOUR, expect=expect)
    found = said(expected, *batches, lane=None)
    expectation = re.compile(r"error: spec\.expect\.(\w+): \D*([\d.]+).*allowed: \D*([\d.]+)")
    assert [expectation.findall(text) for text in found] == ([[broken]] if broken else [])


def test_every_broken_expectation_is_reported_at_once(contract: Make, batch: Batch) -> None:
    expect = {"max_over_mean": 1, "max_key_share": 0.1, "min_distinct_keys": 100, "max_null_share": 0}
    rows = batch([*TENTHS, None], [0] * 20_001)
    wheres = [f.where for f in keeps(Router(contract(**FOUR, expect=expect)), [rows])[1]]
    assert wheres == [f"spec.expect.{name}" for name in ("max_over_mean", "max_key_share", "max_null_share")] + [
        "spec.expect.min_distinct_keys"
    ]


def test_expectations_of_some_lanes_are_neither_kept_nor_broken(
    merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by("kafka-java", merchants, 16)
    whole = batch(merchants, at)
    some = whole.filter(pa.array(np.isin(at, [1, 2])))
    router = Router(contract(expect={"max_over_mean": 1.5, "min_distinct_keys": 1_000}))
    kept, findings = keeps(router, [some], "lane", read=(1, 2))
    assert [(one.name, one.judgement) for one in kept.expectations] == [
        ("max_over_mean", "cannot-tell"),
        ("min_distinct_keys", "cannot-tell"),
    ]
    assert [(one.severity, one.where.rpartition(".")[2]) for one in findings] == [
        ("warning", "max_over_mean"),
        ("warning", "min_distinct_keys"),
    ]
    # The twin: taken for the whole stream, the same rows break it, and their hash looks like a bad one.
    taken, alarms = keeps(router, [some], "lane")
    assert "broken" in [one.judgement for one in taken.expectations]
    assert "data" in [one.where for one in alarms]
    # A row that is not where it should be is an error in any part.
    moved = some.set_column(some.schema.get_field_index("lane"), "lane", pa.array([3] * len(some), pa.int32()))
    assert keeps(router, [moved], "lane", read=(3,))[0].misplaced == len(some)


def test_skew_is_of_the_lanes_the_rows_are_in(
    merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    """The keyless rows of this data stand evenly; where they would stand in a run of 256 is not what was asked."""
    at = np.concatenate([lanes_by("kafka-java", merchants, 16), np.arange(240) % 16])
    rows = batch([*merchants, *[None] * 240], at)
    counts = np.bincount(at)
    assert counts.max() / counts.mean() < 1.25
    assert said(contract(expect={"max_over_mean": 1.25}), rows) == []


def test_malformed_rows_are_an_error_and_counted(contract: Make, batch: Batch) -> None:
    numbers = contract(key={"fields": ["k"], "encoding": "int32be"})
    kept, findings = keeps(Router(numbers), [batch([1, 2**40, 3], [0, 0, 0], pa.int64())])
    assert kept.unplaced == {"malformed-key": 1}
    (finding,) = findings
    assert parts(str(finding)) == ("error: data", "1 of 3 rows", "malformed-key")


def test_rejected_null_keys_are_a_warning(contract: Make, batch: Batch) -> None:
    strict = contract(key={"fields": ["k"], "on_null": "reject", "on_empty": "reject"})
    assert [parts(text) for text in said(strict, batch(["a", "b", "c", None, ""], [0] * 5), lane=None)] == [
        ("warning: data", "1 of 5 rows", "empty-key"),
        ("warning: data", "1 of 5 rows", "null-key"),
    ]


def test_keys_outside_a_closed_table_are_an_error(contract: Make, batch: Batch) -> None:
    closed = contract(lanes=4, table={"values": {"a": 0}, "otherwise": "reject"})
    (text,) = said(closed, batch(["a", "x"], [0, 0]))
    assert parts(text) == ("error: data", "1 of 2 rows", "not-in-table")


@pytest.mark.parametrize("batches", [0, 1], ids=["no batch", "a batch without rows"])
def test_an_empty_sample_shows_nothing(batches: int, contract: Make, batch: Batch) -> None:
    empty = batch([], [], pa.string())
    (text,) = said(contract(), *[empty] * batches)
    assert text.startswith("warning: data: no rows")


def test_keys_that_collapse_in_the_data_are_a_warning(contract: Make) -> None:
    """Coarse cells under Long.hashCode: their low bits are constant, so few lanes are reached."""
    cells = [0x830000FFFFFFFFF + (i << 36) for i in range(400)]
    careless = contract(lanes=64, partitioner="abs-long-hashcode", key={"fields": ["k"], "encoding": "int64be"})
    (finding,) = said(careless, pa.record_batch([pa.array(cells, pa.int64())], names=["k"]), lane=None)
    assert finding.startswith("warning: data: 400 keys use 4 of 64 lanes")


HOURLY = {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}


def windowed(keys: list[str | None], times: list[int | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys, pa.string()), pa.array(times, pa.int64())], names=["k", "ts"])


def test_a_null_time_makes_the_key_null_and_is_counted_so(contract: Make) -> None:
    """`key.window`: a null in the window's time makes the key null."""
    strict = contract(key=HOURLY, expect={"max_null_share": 0.4})
    rows = windowed(["a", "b", "c", "d"], [1, 2, None, None])
    assert any("max_null_share: 50.0%" in finding for finding in said(strict, rows, lane=None))


def test_malformed_times_do_not_hide_null_keys(contract: Make) -> None:
    strict = contract(key=HOURLY, expect={"max_null_share": 0.4})
    rows = windowed([None, None, "c", "d"], [1, 1, 2**62, 2**62])
    findings = said(strict, rows, lane=None)
    assert any("2 of 4 rows" in finding for finding in findings)
    assert any("max_null_share: 50.0%" in finding for finding in findings)


def test_the_columns_asked_for_are_those_the_lane_depends_on(contract: Make) -> None:
    whole = contract(
        key={"fields": ["a", "b"], "window": {"field": "ts", "size": "1h"}},
        hot_keys=[
            {"keys": [["x", "y"]], "spread": {"over": 2, "by": "order"}},
            {"keys": [["v", "w"]], "tier": {"stream": "vip", "lanes": 4, "spread": {"over": 2, "by": "line"}}},
            {"keys": [["p", "q"]], "pin": {"lanes": [0]}},
        ],
    )
    assert fields_of(whole) == ["a", "b", "ts", "order", "line"]
    assert fields_of(contract(table={"values": {"a": [0, 1]}, "by": "order"})) == ["k", "order"]
    assert fields_of(contract()) == ["k"]


def test_examples_come_from_several_lanes_where_rows_are_in_the_order_of_lanes(
    merchants: list[str], contract: Make, lanes_by: Lanes, batch: Batch
) -> None:
    at = (lanes_by("kafka-java", merchants, 16) + 1) % 16
    order = sorted(range(len(merchants)), key=lambda i: int(at[i]))
    whole = batch([merchants[i] for i in order], at[order])
    kept, _ = keeps(Router(contract()), [whole.slice(0, 50), whole.slice(50)], "lane")
    assert [one.lane for one in kept.examples] == [0, 1, 2]
    assert [one.row for one in kept.examples] == sorted(one.row for one in kept.examples)
    first, _ = keeps(Router(contract()), [whole.slice(0, 50)], "lane")
    assert {one.lane for one in first.examples} == {0}, "twin: of rows in one lane there is no other"
    assert len(first.examples) == 3
