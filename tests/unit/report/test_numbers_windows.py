from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from keylane.documents.profile import ProfileWindows
from keylane.report.windows import edge_name, edge_names, window_names

if TYPE_CHECKING:
    from keylane.documents.profile import Edge


def windows(kind: Literal["time", "position"], *edges: Edge) -> ProfileWindows:
    return ProfileWindows(kind=kind, edges=list(edges), records=[], distinct_keys=[], new_keys=[])


DAY = windows("time", "2026-03-01T00:00:00Z", "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z")
DAYS = windows("time", "2026-03-01T00:00:00Z", "2026-03-02T06:00:30Z", "2026-03-02T12:01:00Z")
PLACES = windows("position", 0, 1_500, 2_999)


def test_within_a_day_the_clock_is_enough() -> None:
    assert window_names(DAY) == ["00:00–12:00", "12:00–00:00"]
    assert edge_names(DAY) == ["00:00", "12:00", "00:00"]


def test_over_years_the_year_is_named_and_midnight_is_not() -> None:
    years = windows("time", "2013-11-12T00:00:00Z", "2014-01-16T00:00:00Z")
    assert window_names(years) == ["12 Nov 2013–16 Jan 2014"]
    assert edge_names(years) == ["12 Nov 2013", "16 Jan 2014"]


def test_positions_are_records() -> None:
    assert window_names(PLACES) == ["records 1–1,500", "records 1,501–2,999"]
    assert edge_name(2_999, PLACES) == "2,999"
