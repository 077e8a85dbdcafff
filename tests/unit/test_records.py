from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from keylane.records import Finding, Placement, Reason


def test_reasons_are_the_closed_list_that_dead_letters_carry() -> None:
    assert [str(reason) for reason in Reason] == [
        "null-key",
        "empty-key",
        "malformed-key",
        "missing-field",
        "not-in-table",
        "no-position",
        "malformed-record",
        "parked-key",
        "null-place",
        "place-not-finite",
        "place-swapped",
        "place-out-of-range",
        "place-zero",
        "late-request",
        "too-large",
        "unwritable-time",
        "unwritable-key",
        "malformed-header",
        "place-unscaled",
        "time-ahead",
    ]


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding("error", "spec.lanes", "got 0", 7), "error: line 7: spec.lanes: got 0"),
        (Finding("warning", "lane 3", "hot"), "warning: lane 3: hot"),
    ],
    ids=["with a line", "without"],
)
def test_a_finding_reads_as_one_line(finding: Finding, text: str) -> None:
    assert str(finding) == text


def test_a_placement_does_not_change() -> None:
    placement = Placement("t", 3, b"key")
    with pytest.raises(FrozenInstanceError):
        placement.lane = 4  # type: ignore[misc]  # frozen: what is tested
