"""Whatever the order, the batches and the repeats of pings: each lane's newest is the newest of all, or has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.match_strategies import new_rows, tombstones

from keylane.matching.tables import ENTRIES, STAYS, Kind
from keylane.matching.timeline import empty_entries, merged, moves, pruned, stays_pruned, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOMENTS = range(-1, 14)
LANES = range(4)


class Ping(NamedTuple):
    driver: str
    ts: int
    offset: int
    lane: int


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Ping]]:
    """Batches of pings in any order; a ping may come again, in its own batch or in a later one."""
    keys = st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.integers(0, 2))
    lanes = draw(st.dictionaries(keys, st.sampled_from(LANES), max_size=14))
    pings = [Ping(*key, lane) for key, lane in lanes.items()]
    again = draw(st.lists(st.sampled_from(pings), max_size=5)) if pings else []
    order = draw(st.permutations([*pings, *again]))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=5)))
    return [order[start:end] for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def table(pings: Iterable[Ping]) -> pa.Table:
    return pa.Table.from_pylist([one._asdict() for one in pings], schema=STAYS)


def entries(stays: pa.Table) -> pa.Table:
    """Pings as entries; where they are plays no part here."""
    columns = {"lat": np.zeros(len(stays)), "lng": np.zeros(len(stays)), "kind": np.full(len(stays), 2, np.int8)}
    return pa.table({**{name: stays.column(name) for name in STAYS.names}, **columns})


class Lanes:
    """The keeper of stays and the lanes, one batch after the other; `told` is whether tombstones are passed on."""

    def __init__(self, *, told: bool = True) -> None:
        self.told, self.stays = told, STAYS.empty_table()
        self.known = {lane: empty_entries() for lane in LANES}

    def take(self, batch: list[Ping]) -> None:
        pings = table(batch)
        fresh = pings.take(pa.array(new_rows(self.stays, pings), pa.int64()))
        self.stays, left = moves(self.stays, pings)
        for some in (entries(fresh), *([tombstones(left)] if self.told else [])):
            for lane in LANES:
                here = some.filter(pa.array(some.column("lane").to_numpy() == lane)).select(ENTRIES.names)
                self.known[lane] = merged(self.known[lane], here)

    def forget(self, before: int, expire: int | None) -> None:
        self.stays = stays_pruned(self.stays, before, expire)
        self.known = {lane: pruned(known, before, expire) for lane, known in self.known.items()}

    def seen(self, moment: int, expire: int | None = None) -> Iterator[tuple[str, int, int, int]]:
        for lane, known in self.known.items():
            for row, end in zip(known.to_pylist(), until(known).tolist(), strict=True):
                young = expire is None or moment - row["ts"] <= expire
                if row["ts"] <= moment < end and row["kind"] != Kind.LEFT and young:
                    yield row["driver"], row["ts"], row["offset"], lane


def newest(pings: Iterable[Ping], moment: int, expire: int | None = None) -> set[Ping]:
    """Said plainly: of each driver the largest (ts, offset) that is not after the moment."""
    best: dict[str, Ping] = {}
    for ping in sorted(pings, key=lambda one: one[:3]):
        if ping.ts <= moment:
            best[ping.driver] = ping
    return {ping for ping in best.values() if expire is None or moment - ping.ts <= expire}


@settings(max_examples=150, deadline=None)
@given(batches=arrivals())
def test_after_every_batch_each_driver_is_in_one_lane_the_right_one(batches: list[list[Ping]]) -> None:
    lanes, come = Lanes(), set[Ping]()
    for batch in batches:
        lanes.take(batch)
        come.update(batch)
        for moment in MOMENTS:
            seen = list(lanes.seen(moment))
            assert len(seen) == len(set(seen))
            assert set(seen) == newest(come, moment)


@settings(max_examples=100, deadline=None)
@given(batches=arrivals(), steps=st.lists(st.integers(0, 4), max_size=6), expire=st.none() | st.integers(0, 8))
def test_what_is_forgotten_is_missed_by_no_later_moment(
    batches: list[list[Ping]], steps: list[int], expire: int | None
) -> None:
    lanes, come, before = Lanes(), set[Ping](), -1
    for batch, step in zip(batches, [*steps, *[1] * len(batches)], strict=False):
        lanes.take(batch)
        come.update(batch)
        before += step
        lanes.forget(before, expire)
        for moment in range(before, 16):
            assert sorted(lanes.seen(moment, expire)) == sorted(newest(come, moment, expire))


def test_without_tombstones_a_driver_is_in_two_lanes() -> None:
    lanes = Lanes(told=False)
    lanes.take([Ping("a", 1, 0, 0), Ping("a", 2, 0, 1)])
    assert len(list(lanes.seen(3))) == 2 != len(newest([Ping("a", 2, 0, 1)], 3))


def test_a_late_ping_whose_lane_is_told_by_its_predecessor_only_leaves_a_ghost() -> None:
    """The twin: `moves` that looks back and not ahead."""
    lanes, pings = Lanes(), [Ping("a", 1, 0, 0), Ping("a", 5, 0, 1), Ping("a", 3, 0, 2)]
    for ping in pings:
        lanes.take([ping])
    assert set(lanes.seen(6)) == {pings[1]}
    late = lanes.known[2]
    ahead = late.filter(pa.array(late.column("kind").to_numpy() != Kind.LEFT))
    lanes.known[2] = ahead
    assert set(lanes.seen(6)) == {pings[1], pings[2]}
