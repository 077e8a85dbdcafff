"""The page of `migrate status`: phases over time, who is waited for, old lanes, late writers, and hostile names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from keylane.documents.migrate import (
    MigrateStatusDocument,
    MigrationEntry,
    MigrationLane,
    MigrationWait,
    MigrationWriter,
)
from keylane.report.migrate_status_page import PHASES, lanes_drawing, migrate_status_page, phases_drawing

PATH = (("begun", 0.0), ("holding", 0.5), ("fenced", 0.75), ("growing", 1.0), ("open", 2.0))


def lanes(many: int, left: int = 7) -> list[MigrationLane]:
    """Every third lane is not drained."""
    behind = [0 if lane % 3 else left for lane in range(many)]
    return [
        MigrationLane(lane=lane, fence=100, applied=100 - more, left=more, drained=not more)
        for lane, more in enumerate(behind)
    ]


def status(path: tuple[tuple[Any, float], ...] = PATH, **given: Any) -> MigrateStatusDocument:
    entries = [MigrationEntry(number=n, phase=phase, at=1_000.0 + at, driver=1) for n, (phase, at) in enumerate(path)]
    phase = path[-1][0] if path else None
    known: dict[str, Any] = {
        "plan": "plan.json",
        "journal": "plan.json.journal",
        "stream": "tx",
        "new_stream": "tx",
        "mode": "in-place",
        "phase": phase,
        "over": phase in ("done", "rolled-back"),
        "appended": 0,
        "looked_at": 1_012.0,
        "waits_for": None,
        "pause_seconds": 1.5,
        "lanes": [],
        "lag": None,
        "copy_lag": None,
        "starts": [],
        "seconds_left": None,
        "late_writers": [],
        "entries": entries,
    }
    return MigrateStatusDocument(**{**known, **given})


def test_each_phase_is_as_long_as_it_lasted() -> None:
    drawn = phases_drawing(status())
    assert drawn.count('class="mark"') == 5
    assert "holding\nfrom 00:16:40.500 UTC, 250 ms" in drawn
    assert "open\nfrom 00:16:42.000 UTC, 10 s" in drawn, "up to when it was looked at"
    assert drawn.count("bars before") == 3, "producers stand from the hold to the growth"
    widths = [float(one) for one in re.findall(r'<rect x="[^"]+" y="[^"]+" width="([^"]+)"', drawn)]
    assert widths[4] == pytest.approx(10 * widths[3], rel=0.01)


def test_the_last_phase_of_one_that_is_over_lasts_no_longer() -> None:
    over = phases_drawing(status((*PATH, ("done", 2.5))))
    assert "done\nfrom 00:16:42.500 UTC<" in over
    assert "open\nfrom 00:16:42.000 UTC, 500 ms" in over


def test_lanes_and_what_is_left() -> None:
    drawn = lanes_drawing(lanes(64))
    assert drawn.count("old lane ") == 64
    assert (drawn.count('class="new"'), drawn.count('class="all"')) == (42, 22)
    assert "old lane 3\nfence 100, applied 93\n7 left" in drawn
    narrow = lanes_drawing(lanes(64), 340)
    assert len(re.findall(r">\d+</text>", narrow)) < len(re.findall(r">\d+</text>", drawn))
    page = migrate_status_page(status(lanes=lanes(64), lag=154, seconds_left=42.0))
    assert ">42</p>" in page
    assert "42 s" in page


def test_who_is_waited_for() -> None:
    named = MigrationWait(why="producers", names=["api", "batch"])
    page = migrate_status_page(status(PATH[:2], waits_for=named, pause_seconds=None))
    assert "Producers that have not acknowledged that they stopped: api, batch." in page
    assert "--producers-stopped" in migrate_status_page(
        status(PATH[:2], waits_for=MigrationWait(why="producers", names=[]))
    )
    readers = MigrationWait(why="readers", names=["0", "3"])
    assert "Readers that have not drained these old lanes: 0, 3." in migrate_status_page(status(waits_for=readers))
    assert 'id="waiting"' not in migrate_status_page(status())


def test_nobody_was_asked_and_nothing_has_begun() -> None:
    unasked = [one.model_copy(update={"applied": None, "left": None, "drained": None}) for one in lanes(4)]
    page = migrate_status_page(status(lanes=unasked))
    assert "Nobody was asked how far readers are" in page
    assert "Old lanes drained" not in page
    early = migrate_status_page(status((), pause_seconds=None))
    assert "Not begun" in early
    assert 'id="phases"' not in early


@pytest.mark.parametrize("phase", [one for one in PHASES if one])
def test_every_phase_has_a_headline(phase: str) -> None:
    assert f"<h1>{PHASES[phase]}" in migrate_status_page(status(((phase, 0.0),)))


def test_names_of_others_are_text() -> None:
    late = MigrationWriter(writer="<b>\x1b[31mapi", epoch=None, records=3, lane=1, offset=9)
    waits = MigrationWait(why="producers", names=["<script>"])
    page = migrate_status_page(status(late_writers=[late], waits_for=waits, stream="<i>tx"))
    assert "&lt;b&gt;\\x1b[31mapi" in page
    assert "<script>." not in page
    assert "<i>tx" not in page
