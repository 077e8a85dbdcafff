"""Every case, record by record and as Arrow batches, to the last bit; on Spark, the same cases: `test_spark_backends`.

Each way has twins with a wrong answer planted in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.parity.backends import LAYOUTS, by_record, expected
from tests.parity.cases import CASES
from tests.parity.cases.case import Case
from tests.parity.planted import PLANTED

if TYPE_CHECKING:
    from tests.parity.backends import Way

every_layout = pytest.mark.parametrize("way", LAYOUTS.values(), ids=LAYOUTS)


@pytest.mark.parametrize("name", CASES)
def test_every_batch_places_as_records_are_placed_alone(name: str) -> None:
    right = expected(CASES[name])
    assert [layout for layout, way in LAYOUTS.items() if way(CASES[name]) != right] == []


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ude00\ud83d"], ids=ascii)
def test_text_that_no_column_can_hold_is_malformed(text: str) -> None:
    from keylane.router import Router

    assert str(Router(Case({}, {}).contract).place({"k": text}).reason) == "malformed-key"


@every_layout
@pytest.mark.parametrize("pair", PLANTED.values(), ids=PLANTED)
def test_a_batch_that_is_placed_otherwise_would_be_caught(way: Way, pair: list[Case]) -> None:
    wrong, right = pair
    assert way(wrong) != by_record(right)
