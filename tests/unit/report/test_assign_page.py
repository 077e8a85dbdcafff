"""The page of `assign`: every lane of every member is drawn once, and names cannot become markup."""

from __future__ import annotations

import keylane
from keylane.report.assign_page import MOST_DRAWN, assign_page, members_drawing


def test_every_lane_is_drawn_as_kept_gained_or_lost() -> None:
    document = keylane.assign(lanes=[12, 5], members=["A", "B", "C"], assignor="sticky", remove=["B"])
    drawn = members_drawing(document)
    had = len((document.before or {})["B"])
    legend = 1
    assert drawn.count('class="new"') == document.moved + legend
    assert drawn.count('class="today"') == had + legend, "what B had is hollow, though B is gone"
    assert drawn.count('class="all"') == 17 - document.moved + legend
    page = assign_page(document)
    assert f"{document.moved} of 17 lanes (partitions) move; 17 pause, for at most " in page
    alone = keylane.assign(lanes=[12], members=["A", "B", "C"], assignor="static", remove=["B"])
    assert '0 of 12 lanes (partitions) move; <em class="worse">4 are read by nobody</em>' in assign_page(alone)
    assert all(row.assignor in assign_page(keylane.assign(lanes=3, members=2)) for row in document.compared)


def test_many_members_are_bars() -> None:
    document = keylane.assign(lanes=500, members=MOST_DRAWN + 40, assignor="uniform", add=["new"])
    drawn = members_drawing(document)
    assert drawn.count('class="mark"') == MOST_DRAWN
    assert ">new<" in drawn, "who changed most comes first"


def test_idle_members_and_a_first_assignment() -> None:
    document = keylane.assign(lanes=1, members=["A", "B"], assignor="range")
    drawn = members_drawing(document)
    assert ">idle<" in drawn
    assert "lost" not in drawn, "nothing was before, so there is no legend"


def test_names_cannot_become_markup() -> None:
    page = assign_page(keylane.assign(lanes={"<b>t": 2}, members=["<script>1", "B"], assignor="sticky", remove=["B"]))
    assert all(text not in page for text in ("<script>1", "<b>t"))
    assert "&lt;script&gt;1" in page
