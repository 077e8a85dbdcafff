"""keylane's assignors beside Kafka's own, on groups by chance: equal, or no worse in balance, racks and stickiness."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.kafka_assignors import running
from tests.crosscheck.generated_groups import generated, judged

from keylane.groups.assignors import ASSIGNORS
from keylane.groups.assignors.cooperative import rounds, settled
from keylane.groups.model import FREE, Assignment, Lanes, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.kafka_assignors import Kafka

MANY = [pytest.param(range(60)), pytest.param(range(60, 5_000), marks=pytest.mark.faults)]
FEW = [pytest.param(range(40)), pytest.param(range(40, 3_000), marks=pytest.mark.faults)]
#: Rebalances after which Kafka's cooperative assignor is not waited for: with racks it may hand a lane to and fro.
PATIENCE = 9


@pytest.fixture(scope="module")
def kafka_jvm(start_up_archive: None) -> Iterator[Kafka]:
    """Kafka's own assignors, running."""
    with running() as found:
        yield found


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("name", ["range", "round-robin"])
def test_equal_to_kafka(kafka_jvm: Kafka, name: str, seeds: range) -> None:
    for seed in seeds:
        case = generated(Random(seed))
        kafka = kafka_jvm.assign(name, case.members, case.lanes)
        assert ASSIGNORS[name](case.members, case.lanes, None) == kafka, seed


@pytest.mark.parametrize("seeds", FEW)
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform"])
def test_no_worse_than_kafka(kafka_jvm: Kafka, name: str, seeds: range) -> None:
    for seed in seeds:
        # The brokers' assignor ignores racks.
        case = generated(Random(seed), racks=False if name == "uniform" else None)
        decide = ASSIGNORS[name]
        kafka = kafka_jvm.assign(name, case.members, case.lanes)
        ours = decide(case.members, case.lanes, None)
        assert judged(case.members, case.lanes, ours, None) <= judged(case.members, case.lanes, kafka, None), seed
        for before in (kafka, ours):
            theirs = _settled(kafka_jvm, name, case.members_after, case.lanes_after, before)
            if theirs is None:
                continue
            after = decide(case.members_after, case.lanes_after, before)
            given = judged(case.members_after, case.lanes_after, after, before)
            assert given <= judged(case.members_after, case.lanes_after, theirs, before), seed


def _settled(kafka: Kafka, name: str, members: list[Member], lanes: Lanes, before: Assignment) -> Assignment | None:
    """Where Kafka's assignor ends; the cooperative one takes several rounds, and None where it takes too many."""
    here = {member.id for member in members}
    owned = {who: [lane for lane in held if lanes.number(lane) is not None] for who, held in before.as_lists().items()}
    found = kafka.claimed(name, members, lanes, {who: held for who, held in owned.items() if who in here}, {})
    for _ in range(PATIENCE):
        if (found.owners != FREE).all():
            return found
        found = kafka.claimed(name, members, lanes, found.as_lists(), {})
    return None


def test_both_rounds_take_no_lane_from_a_member_that_keeps_it(kafka_jvm: Kafka) -> None:
    """The first round withholds exactly the lanes that another member has; Kafka's does the same."""
    withheld = 0
    for seed in range(60):
        case = generated(Random(seed), racks=False)
        before = ASSIGNORS["cooperative-sticky"](case.members, case.lanes, None)
        target = ASSIGNORS["cooperative-sticky"](case.members_after, case.lanes, before)
        first, *rest = rounds(before, target)
        free = (first.owners == FREE) & (target.owners != FREE)
        then = before.seen_by([Member(name) for name in target.members], case.lanes)
        assert (free == ((then != FREE) & (then != target.owners) & (target.owners != FREE))).all()
        assert bool(rest) == bool(free.any())
        withheld += int(free.sum())
    assert withheld > 20, "the cases have rounds to look at"
    two, lanes = [Member("A"), Member("B")], Lanes.of({"t": 2})
    began = Assignment.of_lists(lanes, {"A": [("t", 0), ("t", 1)], "B": []})
    kafka = kafka_jvm.assign("cooperative-sticky", two, lanes, began)
    ours = rounds(began, ASSIGNORS["cooperative-sticky"](two, lanes, began))[0]
    assert (int((kafka.owners == FREE).sum()), int((ours.owners == FREE).sum())) == (1, 1)


def test_owners_of_an_earlier_generation_lose_as_in_kafka(kafka_jvm: Kafka) -> None:
    two, lanes = [Member("A"), Member("B")], Lanes.of({"t": 4})
    first, second = [("t", 0), ("t", 1)], [("t", 1), ("t", 2), ("t", 3)]
    for generations, expected in (((7, 8), {"A": {0}, "B": {1}}), ((8, 8), {"A": {0}, "B": set()})):
        claims = {"A": (generations[0], first), "B": (generations[1], second)}
        ours = ASSIGNORS["sticky"](two, lanes, settled(lanes, claims))
        numbers = dict(zip("AB", generations, strict=True))
        theirs = kafka_jvm.claimed("sticky", two, lanes, {"A": first, "B": second}, numbers)
        for found in (ours, theirs):
            for member, kept in expected.items():
                assert kept <= {index for _, index in found.of(member)}, (generations, found.as_lists())


@pytest.mark.parametrize("bug", ["order of Python", "extra lanes last", "a circle for each topic"])
def test_a_planted_bug_is_found(kafka_jvm: Kafka, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "round-robin" if bug == "a circle for each topic" else "range"
    if bug == "order of Python":
        monkeypatch.setattr("keylane.groups.model.java_order", lambda text: text.encode("utf-8"))
    decide = {"extra lanes last": _extra_last, "a circle for each topic": _circles}.get(bug, ASSIGNORS[name])
    differ = 0
    for seed in range(200):
        case = generated(Random(seed), racks=False)
        differ += decide(case.members, case.lanes, None) != kafka_jvm.assign(name, case.members, case.lanes)
    assert differ


def _extra_last(members: list[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    found = ASSIGNORS["range"](members, lanes, previous)
    turned = found.owners.copy()
    for start, count in zip(lanes.starts, lanes.counts, strict=False):
        part = turned[start : start + count]
        turned[start : start + count] = np.sort(part)[::-1]
    return Assignment(lanes, found.members, turned)


def _circles(members: list[Member], lanes: Lanes, previous: Assignment | None) -> Assignment:
    parts = [
        ASSIGNORS["round-robin"](members, Lanes.of({topic: count}), previous).owners
        for topic, count in zip(lanes.topics, lanes.counts, strict=True)
    ]
    return Assignment(lanes, tuple(member.id for member in members), np.concatenate(parts))


def test_a_sticky_assignor_that_forgets_is_found_worse(kafka_jvm: Kafka) -> None:
    """The twin of the comparison: without the assignment before, it moves more than Kafka's."""
    worse = 0
    for seed in range(40):
        case = generated(Random(seed), racks=False)
        before = ASSIGNORS["sticky"](case.members, case.lanes, None)
        theirs = _settled(kafka_jvm, "sticky", case.members_after, case.lanes_after, before)
        assert theirs is not None
        ours = ASSIGNORS["round-robin"](case.members_after, case.lanes_after, None)
        given = judged(case.members_after, case.lanes_after, ours, before)
        worse += given > judged(case.members_after, case.lanes_after, theirs, before)
    assert worse
