"""Which numbers of a writer are in no record: what a certificate cannot say that it saw."""

from __future__ import annotations

import pyarrow as pa
import pytest

from keylane.pipelines.migrate_verify import EXAMPLES, WriterNumbers


def batch(writer: str | None, *numbers: int | None, first: int = 0) -> pa.RecordBatch:
    columns = {
        "writer": pa.array([writer] * len(numbers), pa.string()),
        "seq": pa.array(numbers, pa.int64()),
        "offset": pa.array(range(first, first + len(numbers)), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_number_that_is_in_no_record_of_any_lane_is_a_gap() -> None:
    seen = WriterNumbers(whole=True)
    seen.add(batch("p.1", 0, 3, 4), 0)
    assert len(seen.gaps()) == 1
    seen.add(batch("p.1", 2, 1), 0)
    assert seen.gaps() == [], "they were in another lane"
    seen.add(batch("p.1", 9, 6), 0)
    (gap,) = seen.gaps()
    assert "3 numbers of writer p.1" in gap
    assert "the first 5" in gap


@pytest.mark.parametrize("whole", [True, False])
def test_where_old_records_were_deleted_only_what_was_written_since_the_plan_is_asked_for(whole: bool) -> None:
    seen = WriterNumbers(whole=whole)
    seen.add(batch("p.1", 3, 7, 8, 9, first=40), 42)
    assert bool(seen.gaps()) is whole
    seen.add(batch("p.1", 11, first=10), 10)
    assert len(seen.gaps()) == 1


def test_what_has_no_number_or_is_a_place_in_a_source_has_no_gap() -> None:
    """Offsets of a topic that a route has copied have marks of transactions between them."""
    seen = WriterNumbers(whole=True)
    for one in (batch("payments/3", 0, 2, 9), batch(None, 1, 5), batch("p.1", None, None), batch("p.1")):
        seen.add(one, 0)
    assert seen.gaps() == []


def test_many_writers_with_gaps_are_some_and_a_number() -> None:
    seen = WriterNumbers(whole=True)
    for number in range(30):
        seen.add(batch(f"p.{number:02}", 0, 2), 0)
    assert len(seen.gaps()) == EXAMPLES + 1
    assert "25 other writers" in seen.gaps()[-1]
