"""Seconds of assignors beside Kafka's own on a million lanes, lanes that move, and how even real traffic is by load.

Kafka's sticky assignor (kafka-clients) and the broker's uniform one run in a JVM that is warm, in turns with keylane's
sticky, on the same group: 500 topics of 2,000 lanes, 2,000 members, and then without the first of them. Processor time
of the whole process on both sides, collector included. Each side takes and returns what it works on: Kafka's classic
assignors lists of partitions, the broker's maps of its own, keylane's arrays, and once more lists of pairs.

Traffic: the public sets of `promise`, which are not part of the repository, in the folder that KEYLANE_DATA names; keys
are placed by Kafka's murmur2. Sets that are not there are left out.
"""

from __future__ import annotations

from collections import defaultdict
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from benchmarks.kafka_assignors import running
from benchmarks.promise import public_sets
from benchmarks.timing import Figure
from keylane.groups.assignors.by_load import TOLERANCE, by_load, weighed
from keylane.groups.assignors.sticky import sticky
from keylane.groups.invariants import GroupEvenness, moved
from keylane.groups.model import Assignment, Lanes, Member
from keylane.hashing.murmur2 import murmur2

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

TOPICS, LANES, MEMBERS = 500, 2_000, 2_000
ROUNDS = 5
#: A topic of traffic, and who reads it.
TRAFFIC_LANES, READERS = 256, 12


def run() -> Iterator[Figure]:
    """A million lanes, and then traffic."""
    yield from _million()
    for name, keys in public_sets():
        yield from _traffic(name, keys)


def _million() -> Iterator[Figure]:
    lanes = Lanes.of({f"topic-{10_000 + number}": LANES for number in range(TOPICS)})
    members = [Member(f"member-{100_000 + number}") for number in range(MEMBERS)]
    took: dict[str, list[float]] = defaultdict(list)
    with running() as kafka:
        for _ in range(ROUNDS):
            for name in ("sticky", "uniform"):
                theirs = kafka.timed(name, TOPICS, LANES, MEMBERS)
                took[f"{name} first"].append(theirs.first)
                took[f"{name} second"].append(theirs.second)
            before = _arrays(lanes, members, took)
            _lists(lanes, members, took)
    least = {name: min(seconds) for name, seconds in took.items()}
    after = sticky(members[1:], lanes, before)
    for which in ("first", "second"):
        ours = least[f"arrays {which}"]
        yield Figure(f"Kafka's sticky, {which} assignment of 1 M lanes", least[f"sticky {which}"], "s")
        yield Figure(f"the broker's uniform, {which}", least[f"uniform {which}"], "s")
        yield Figure(f"keylane's sticky, {which}", ours, "s")
        yield Figure(f"{which}, over Kafka's sticky", ours / least[f"sticky {which}"], "ratio", at_most=1)
        yield Figure(f"{which}, over the broker's uniform", ours / least[f"uniform {which}"], "ratio", at_most=3)
        lists = least[f"lists {which}"]
        yield Figure(f"keylane's sticky, {which}, lists of pairs in and out", lists, "s")
        yield Figure(f"{which}, lists of pairs, over Kafka's sticky", lists / least[f"sticky {which}"], "ratio")
    both = [sum(least[f"{side} {which}"] for which in ("first", "second")) for side in ("lists", "sticky")]
    yield Figure("both with lists, over Kafka's sticky", both[0] / both[1], "ratio", at_most=1)
    share = moved(before, after) / len(before.of(members[0].id))
    yield Figure(f"one of {MEMBERS:,} leaves: lanes moved over lanes it had", share, "ratio", at_most=1)


def _arrays(lanes: Lanes, members: list[Member], took: dict[str, list[float]]) -> Assignment:
    begin = process_time()
    before = sticky(members, lanes, None)
    middle = process_time()
    sticky(members[1:], lanes, before)
    took["arrays first"].append(middle - begin)
    took["arrays second"].append(process_time() - middle)
    return before


def _lists(lanes: Lanes, members: list[Member], took: dict[str, list[float]]) -> None:
    """The same from lanes that nobody has looked at: pairs are made in each of both."""
    names = dict(zip(lanes.topics, lanes.counts, strict=True))
    begin = process_time()
    before = sticky(members, Lanes.of(names), None).as_lists()
    took["lists first"].append(process_time() - begin)
    begin = process_time()
    new = Lanes.of(names)
    sticky(members[1:], new, Assignment.of_lists(new, before)).as_lists()
    took["lists second"].append(process_time() - begin)


def _traffic(name: str, keys: pa.Array) -> Iterator[Figure]:
    """One topic: by count and by load, at first and when a member of the group by count leaves."""
    lanes = Lanes.of({"t": TRAFFIC_LANES})
    loads = {("t", lane): float(load) for lane, load in enumerate(_records(keys))}
    readers = [Member(f"reader-{number:02d}") for number in range(READERS)]
    weights = weighed(lanes, loads)
    began = sticky(readers, lanes, None)
    counted, by_weight = sticky(readers[1:], lanes, began), by_load(readers[1:], lanes, began, loads=loads)
    for when, count, load, mean, above in (
        ("at first", began, by_load(readers, lanes, None, loads=loads), weights.sum() / READERS, 0.0),
        ("a member leaves", counted, by_weight, weights.sum() / (READERS - 1), TOLERANCE),
    ):
        ours, theirs = (GroupEvenness.of(found, weights).max_over_mean or 0.0 for found in (load, count))
        floor = max(1.0, float(weights.max()) / mean)
        # No assignment is below the floor, so that not every figure can be halved.
        half = 0.5 if floor * (1 + above) <= theirs / 2 else None
        excess = (ours - floor) / (theirs - floor) if theirs > floor else 0.0
        about = f"{name}, {when}"
        yield Figure(f"{about}: fullest over mean, by count", theirs, "ratio")
        yield Figure(f"{about}: fullest over mean, by load", ours, "ratio")
        yield Figure(f"{about}: the heaviest lane alone, or 1", floor, "ratio")
        yield Figure(f"{about}: by load over by count", ours / theirs, "ratio", at_most=half)
        yield Figure(f"{about}: the same, above what any could reach", excess, "ratio", at_most=0.5)
    lanes_moved = moved(began, by_weight) / moved(began, counted)
    yield Figure(f"{name}, a member leaves: lanes moved over by count", lanes_moved, "ratio", at_most=2)


def _records(keys: pa.Array) -> np.ndarray:
    """Records in each lane."""
    coded = pc.dictionary_encode(keys)
    lane = [(murmur2(key.encode()) & 0x7FFFFFFF) % TRAFFIC_LANES for key in coded.dictionary.to_pylist()]
    return np.bincount(np.array(lane)[coded.indices.to_numpy()], minlength=TRAFFIC_LANES)
