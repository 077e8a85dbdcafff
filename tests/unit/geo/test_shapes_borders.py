"""Where lanes meet: each border once, between equals and between a fine leaf and a coarse one."""

from __future__ import annotations

from h3.api import basic_int as h3

from keylane.geo.shapes import Border, Leaf, area_km2, beside_finer, borders, counted, side_km

HERE = h3.latlng_to_cell(33.4, -112.0, 5)
AROUND = sorted(set(h3.grid_disk(HERE, 1)) - {HERE})


def test_a_cell_in_another_lane_than_all_around_has_a_border_on_every_side() -> None:
    leaves = {HERE: Leaf(1, 100), **{cell: Leaf(0, 100) for cell in AROUND}}
    found = borders(leaves, 1000)
    assert len(found) == 6
    assert all(HERE in (border.cell, border.other) for border in found)


def test_within_a_lane_there_is_none() -> None:
    assert borders({cell: Leaf(3, 10) for cell in (HERE, *AROUND)}, 1000) == []


def test_each_border_is_there_once() -> None:
    found = borders({cell: Leaf(i, 10) for i, cell in enumerate((HERE, *AROUND))}, 1000)
    pairs = [frozenset((border.cell, border.other)) for border in found]
    assert len(pairs) == len(set(pairs)) == 12


def test_a_fine_leaf_has_its_border_with_the_coarse_one_beside_it() -> None:
    coarse = AROUND[0]
    leaves = {coarse: Leaf(0, 10), **{child: Leaf(1, 1) for child in h3.cell_to_children(HERE, 6)}}
    found = borders(leaves, 1000)
    assert {border.other for border in found} == {coarse}
    assert {h3.get_resolution(border.cell) for border in found} == {6}
    assert beside_finer(leaves) == {coarse: 6}


def test_copies_are_the_density_times_the_strip_and_never_more_than_there_are() -> None:
    leaves = {HERE: Leaf(0, 1_000), AROUND[0]: Leaf(1, 0)}
    (border,) = borders(leaves, 100)
    assert border.copies == 1_000 * side_km(5) * 0.1 / area_km2(HERE)
    (all_of_it,) = borders(leaves, 1e7)
    assert all_of_it.copies == 1_000


def test_the_border_with_the_most_copies_comes_first() -> None:
    found = borders({cell: Leaf(i, i * i) for i, cell in enumerate((HERE, *AROUND))}, 1000)
    copies = [border.copies for border in found]
    assert copies == sorted(copies, reverse=True)
    assert copies[0] > copies[-1]


def test_what_was_counted_is_shared_out_and_nothing_of_it_is_lost() -> None:
    found = borders({cell: Leaf(i, 10) for i, cell in enumerate((HERE, *AROUND))}, 1000)
    copies = {cell: 10 * i for i, cell in enumerate((HERE, *AROUND))}
    assert round(sum(border.copies for border in counted(found, copies)), 9) == sum(copies.values())


def test_without_leaves_there_is_nothing() -> None:
    assert borders({}, 1000) == []
    assert beside_finer({}) == {}
    assert counted([], {1: 2}) == list[Border]()
