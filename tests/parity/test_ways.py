"""Every case, record by record and as Arrow batches, to the last bit; on Spark, the same cases: `test_spark_ways`.

Each way has twins with a wrong answer planted in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.parity.cases import CASES
from tests.parity.cases.case import Case, key, of, window
from tests.parity.cases.encodings import HEADED
from tests.parity.cases.partitioners import MD5, TEXTS, uneven
from tests.parity.cases.places import EVERY, US, columns, place
from tests.parity.ways import LAYOUTS, by_record, expected

if TYPE_CHECKING:
    from tests.parity.ways import Way

every_layout = pytest.mark.parametrize("way", LAYOUTS.values(), ids=LAYOUTS)


@pytest.mark.parametrize("name", CASES)
def test_every_batch_places_as_records_are_placed_alone(name: str) -> None:
    right = expected(CASES[name])
    assert [layout for layout, way in LAYOUTS.items() if way(CASES[name]) != right] == []


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ude00\ud83d"], ids=ascii)
def test_text_that_no_column_can_hold_is_malformed(text: str) -> None:
    from keylane.router import Router

    assert str(Router(Case({}, {}).contract).place({"k": text}).reason) == "malformed-key"


def rules(**first: Any) -> list[Case]:
    """A case, and the same with another rule."""
    columns = {**of(["a", None, "", "b"]), **of([-1, -1, -1, -1], name="t")}
    return [Case(key(**given), columns) for given in (first, {})]


PLANTED = {
    "null for empty": [Case({}, of([""])), Case({}, of([None]))],
    "another order of rows": [Case({}, of(TEXTS[::-1])), Case({}, of(TEXTS))],
    "another partitioner": [Case({"partitioner": "murmur2-big-endian"}, of(TEXTS)), Case({}, of(TEXTS))],
    "another rule for nulls": rules(on_null="random"),
    "another rule for empty keys": rules(on_empty="reject"),
    "a registry header that stays": [
        Case(key("raw", registry_header=rule), of(HEADED[:1])) for rule in ("keep", "strip")
    ],
    "times rounded towards zero": [
        Case(key(**window("1h")), {**of(["a"]), **of([time], name="t")}) for time in (-1, 1)
    ],
    "equal shards for uneven ones": [Case(MD5, of(TEXTS)), Case(MD5, of(TEXTS), key_space=uneven(16))],
    "shards cut elsewhere": [Case(MD5, of(TEXTS), key_space=uneven(16, turn=turn)) for turn in (3, 0)],
    "another lane table": [Case(place(leaves=leaves), EVERY) for leaves in (["8329b6"], ["", "8329b6"])],
    "another region": [Case(place(region=region), EVERY) for region in (US, None)],
    "latitude for longitude": [Case(place(), columns([(33.4, -45.0)])), Case(place(), columns([(-45.0, 33.4)]))],
}


@every_layout
@pytest.mark.parametrize("pair", PLANTED.values(), ids=PLANTED)
def test_a_batch_that_is_placed_otherwise_would_be_caught(way: Way, pair: list[Case]) -> None:
    wrong, right = pair
    assert way(wrong) != by_record(right)
