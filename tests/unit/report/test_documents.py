"""The documents that pages are tested with: what the commands print, and figures that agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.report.plan_documents import plan_document, profile_document
from tests.unit.report.schema_problems import problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.model import Document


@pytest.mark.parametrize(
    "make",
    [
        profile_document,
        lambda: profile_document(lanes=None, kind="position"),
        plan_document,
        lambda: plan_document(today=None, kind="position"),
        lambda: plan_document(counts=(48,)),
    ],
    ids=["profile", "profile without lanes", "plan", "plan of a new stream", "plan with other lanes"],
)
def test_a_document_keeps_the_schema_of_its_command(make: Callable[[], Document]) -> None:
    made = make()
    assert problems(made.as_json()) == []
    assert problems({**made.as_json(), "unheard": 1})


def test_the_figures_of_a_profile_agree() -> None:
    made = profile_document()
    windows, count, without = made.windows, len(made.windows.records), made.without_key
    assert made.lanes is not None
    assert len(windows.edges) == count + 1
    assert sum(windows.records) + without.null + without.empty + without.malformed == made.records
    assert sum(windows.new_keys) == made.distinct_keys == made.key_ranks[-1].rank
    assert made.key_ranks[-1].cumulative == pytest.approx(1, abs=1e-3)
    assert all(sum(row.by_window) == row.records for row in made.heavy)
    assert [sum(column) for column in zip(*made.lanes.by_window, strict=True)] == windows.records


def test_the_figures_of_a_plan_agree() -> None:
    made = plan_document()
    before, after = made.over_time.before, made.over_time.after
    assert before is not None
    for side in (before, after):
        assert len(side.cells) == side.lanes == len(side.totals)
        assert [sum(row) for row in side.cells] == side.totals
    assert sum(before.totals) == sum(after.totals)
    assert made.candidates[0].rank == 1
    assert made.candidates[0].strategy == made.chosen.strategy
