"""`assign`: a group from numbers, files or brokers, a change of it, and what that does under each assignor.

The text of options and files: `assign_files`. The rules: `groups.assignors`; what a change costs: `groups.changes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

import numpy as np

from keylane.documents.assign import AssignDocument, AssignorCost, AssignorName, LaneMove, MemberRow
from keylane.errors import UnknownNameError, UsageError
from keylane.groups.assignors import ASSIGNORS
from keylane.groups.assignors.by_load import weighed
from keylane.groups.assignors.cooperative import rounds
from keylane.groups.changes import PROTOCOLS, GroupStep, WaitTiming, carried_out, deciding, steps
from keylane.groups.invariants import GroupEvenness, carried, ceiling, moved, moved_lanes
from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members
from keylane.numbers import agree, count, plural, times
from keylane.pipelines.assign_files import GivenGroup, described, group_in, lanes_of, loads_in, members_of, previous_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.groups.changes import Pauses
    from keylane.groups.model import Lane

#: What is taken where no assignor is named.
USUAL: Final = "cooperative-sticky"
#: Names that brokers have for assignors.
OF_BROKERS: Final = {"roundrobin": "round-robin"}
NEW_PROTOCOL: Final = (
    "with group.protocol=consumer (Kafka 4) brokers decide, by uniform or range: no client can bring another assignor; "
    "use this plan by assign(), or in the classic protocol"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The change that is asked for, and what its waits are made of."""

    remove: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    bounce: tuple[str, ...] = ()
    rolling: bool = False
    timing: WaitTiming = field(default_factory=WaitTiming)
    static_members: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """A group that is complete: what is decided on."""

    source: str | None
    name: str | None
    lanes: Lanes
    members: tuple[Member, ...]
    previous: Assignment | None
    loads: Mapping[Lane, float] | None
    loads_are_lag: bool
    lag: Mapping[Lane, float] | None
    running: str | None
    notes: tuple[str, ...]

    @property
    def weights(self) -> NDArray[np.float64] | None:
        return None if self.loads is None else weighed(self.lanes, self.loads)


def assign_group(
    source: str | None = None,
    *,
    lanes: str | None = None,
    members: str | Sequence[str] | None = None,
    reads: Sequence[str] = (),
    racks: Sequence[str] = (),
    previous: Path | None = None,
    loads: Path | None = None,
    group: str | None = None,
    properties: Iterable[tuple[str, str]] = (),
    assignor: str | None = None,
    wanted: Wanted | None = None,
) -> AssignDocument:
    """Who reads which lane after a change; without an assignor, under every one of them side by side."""
    if assignor is not None and assignor not in ASSIGNORS:
        raise UnknownNameError.among("assignor", assignor, list(ASSIGNORS))
    if source is not None and "://" in source:
        single = {"--lanes": lanes, "--members": members, "--previous": previous}
        options = [option for option, value in single.items() if value is not None]
        options += [option for option, values in {"--reads": reads, "--rack": racks}.items() if values]
        found = _live(source, group, properties, options)
    elif group is not None:
        hint = "keylane assign kafka://host:port --group G"
        raise UsageError.of("--group is read from brokers", got=source, hint=hint)
    else:
        found = _given(source, lanes, members, reads, racks, previous)
    if loads is not None:
        found = replace(found, loads=loads_in(loads), loads_are_lag=False)
    return _document(_checked_loads(found), assignor, wanted or Wanted())


def _live(source: str, group: str | None, properties: Iterable[tuple[str, str]], options: Sequence[str]) -> _Group:
    """The group as brokers report it; `options` that would describe it otherwise are refused."""
    from keylane.systems.kafka.group import live_group

    if options:
        what = "a live group has its own lanes, members and assignment"
        raise UsageError.of(what, hint=f"leave out {' and '.join(options)}")
    if group is None:
        raise UsageError.of("which group?", got=source, allowed="--group NAME")
    found = live_group(source, group, properties)
    if not found.members:
        raise UsageError.of(f"group {group!r} has no members: it is {found.state}", hint="start one, then ask again")
    running = found.assignor or "not reported"
    lag = {lane: float(records) for lane, records in found.lag.items()}
    notes = [f"group {group!r} is {found.state}, in the {found.protocol} protocol; assignor: {running}"]
    if unknown := found.assignment.lanes.total - len(lag):
        has = agree(unknown, "has", "have")
        notes.append(f"{plural(unknown, 'lane')} {has} no committed offset: the lag is not known, and counts as 0")
    return _Group(
        source=source,
        name=group,
        lanes=found.assignment.lanes,
        members=found.members,
        previous=found.assignment,
        loads=lag,
        loads_are_lag=True,
        lag=lag,
        running=OF_BROKERS.get(running, running),
        notes=tuple(notes),
    )


def _given(
    source: str | None,
    lanes: str | None,
    members: str | Sequence[str] | None,
    reads: Sequence[str],
    racks: Sequence[str],
    previous: Path | None,
) -> _Group:
    base = group_in(Path(source)) if source is not None else GivenGroup()
    before, known = base.previous, base.lanes
    if previous is not None:
        earlier = previous_in(previous)
        before, known = earlier.previous, known or earlier.lanes
    if lanes is not None:
        known = Lanes.of(lanes_of(lanes), base.lanes.racks if base.lanes else None)
    if known is None and before is not None:
        known = _lanes_in(before)
    if known is None:
        raise UsageError.of("lanes are needed", allowed="--lanes 6 or --lanes 6,12, a file of a group, or a live group")
    people = base.members
    if members is not None:
        people = described(members_of(members), reads, racks, known.topics)
    elif not people and before:
        people = described(before, reads, racks, known.topics)
    elif people and (reads or racks):
        what = f"the members of {source} have their --reads and --rack there"
        raise UsageError.of(what, got=", ".join([*reads, *racks]), hint="change the file, or give --members as well")
    if not people:
        raise UsageError.of("a group needs a member", allowed="--members A,B,C, or a number of them")
    check_members(people)
    owned = None if before is None else Assignment.of_lists(known, before)
    notes = _lanes_gone(before or {}, known)
    return _Group(source, None, known, people, owned, base.loads, False, None, None, notes)


def _lanes_gone(before: Mapping[str, Sequence[Lane]], known: Lanes) -> tuple[str, ...]:
    gone = sorted({lane for held in before.values() for lane in held if known.number(lane) is None})
    if not gone:
        return ()
    many = f"{plural(len(gone), 'lane')} of the previous assignment {agree(len(gone), 'is', 'are')} no longer there"
    return (f"{many}, left out: lane {gone[0][1]} of {gone[0][0]}{', …' if gone[1:] else ''}",)


def _lanes_in(before: Mapping[str, Sequence[Lane]]) -> Lanes | None:
    """As many lanes of each topic as the assignment before shows."""
    counts: dict[str, int] = {}
    for held in before.values():
        for topic, index in held:
            counts[topic] = max(counts.get(topic, 0), index + 1)
    return Lanes.of(counts) if counts else None


def _checked_loads(group: _Group) -> _Group:
    """Name loads that are of no lane, and a lane that no assignment can help."""
    if group.loads is None:
        return group
    notes = list(group.notes)
    if unknown := sum(group.lanes.number(lane) is None for lane in group.loads):
        notes.append(f"loads of {plural(unknown, 'lane')} that {agree(unknown, 'is', 'are')} not there are left out")
    weights = weighed(group.lanes, group.loads)
    if not weights.any():
        what = "no lane has any lag" if group.loads_are_lag else "no lane has a load"
        return replace(group, loads=None, notes=(*notes, f"{what}: all lanes weigh the same"))
    mean = float(weights.sum()) / len(group.members)
    if mean and float(weights.max()) > mean * 1.05:
        topic, index = group.lanes.lane(int(weights.argmax()))
        more = times(float(weights.max()) / mean)
        notes.append(f"lane {index} of {topic} alone carries {more} the mean of a member: no assignment is more even")
    return replace(group, notes=tuple(notes))


def _following(group: _Group, wanted: Wanted) -> list[GroupStep]:
    """The steps that were asked for; before them, what has changed since the assignment before."""
    there = {member.id for member in group.members}
    gone = set() if group.previous is None else set(group.previous.members) - there
    remove = tuple(name for name in wanted.remove if name not in gone)
    add = [Member(name) for name in wanted.add]
    made = steps(group.members, remove=remove, add=add, bounce=wanted.bounce, rolling=wanted.rolling)
    settled = group.previous is None or (there == set(group.previous.members) and (group.previous.owners != FREE).all())
    if group.previous is not None and not made:
        return [GroupStep("assign", group.members)]
    first_covers = bool(made) and not made[0].restarts
    return made if settled or first_covers else [GroupStep("assign", group.members), *made]


def _document(group: _Group, chosen: str | None, wanted: Wanted) -> AssignDocument:
    following = _following(group, wanted)
    usual = group.running if group.running in ASSIGNORS else USUAL
    name = cast("AssignorName", chosen or usual)
    done = {one: _done(one, group, following, wanted) for one in (ASSIGNORS if chosen is None else (name,))}
    before, after = _before(group, name, following), done[name].after
    weights = group.weights
    changed = np.zeros(group.lanes.total, np.bool_) if before is None else moved_lanes(before, after)
    unowned = [group.lanes.lane(number) for number in np.flatnonzero(after.owners == FREE).tolist()]
    first = rounds(before, after)[0] if name == "cooperative-sticky" and before is not None else None
    rows = _rows(group, wanted, before, after, weights)
    return AssignDocument(
        source=group.source,
        group=group.name,
        assignor=name,
        assignment=_listed(after, group),
        moved=int(changed.sum()),
        idle=list(after.idle),
        unowned=unowned,
        topics=dict(zip(group.lanes.topics, group.lanes.counts, strict=True)),
        ceiling=ceiling(name, group.lanes),
        members=rows,
        before=None if before is None else _listed(before, group),
        steps=[step.what for step in following],
        moves=_moves(before, after),
        first_round=None if first is None or first is after else _listed(first, group),
        cost=_cost(name, done[name], weights),
        compared=[_cost(cast("AssignorName", one), done[one], weights) for one in done] if chosen is None else [],
        load_from="none" if group.loads is None else "lag" if group.loads_are_lag else "file",
        notes=[*group.notes, *_notes(name, group, after, len(unowned))],
    )


def _listed(found: Assignment, group: _Group) -> dict[str, list[Lane]]:
    """The lanes of members in the order in which they were given."""
    lists = found.as_lists()
    given = [member.id for member in group.members if member.id in lists]
    return {name: lists[name] for name in dict.fromkeys((*given, *found.members))}


def _before(group: _Group, name: str, following: Sequence[GroupStep]) -> Assignment | None:
    """The assignment that was given; for a change without one, what this assignor makes of the group."""
    if group.previous is not None or not following:
        return group.previous
    return deciding(name, group.loads)(group.members, group.lanes, None)


def _done(name: str, group: _Group, following: Sequence[GroupStep], wanted: Wanted) -> Pauses:
    before = _before(group, name, following) or deciding(name, group.loads)(group.members, group.lanes, None)
    static = wanted.static_members or all(member.instance for member in group.members)
    timing = wanted.timing
    return carried_out(name, before, following, group.lanes, timing, loads=group.loads, static_members=static)


def _rows(
    group: _Group, wanted: Wanted, before: Assignment | None, after: Assignment, weights: NDArray[np.float64] | None
) -> list[MemberRow]:
    known = {member.id: member for member in (*group.members, *(Member(name) for name in wanted.add))}
    people = [known[name] for name in _listed(after, group)]
    now = after.seen_by(people, group.lanes)
    then = np.full(group.lanes.total, FREE, np.int32) if before is None else before.seen_by(people, group.lanes)
    size = len(people)
    kept = np.bincount(now[(now == then) & (now != FREE)], minlength=size)
    held, had = np.bincount(now[now != FREE], minlength=size), np.bincount(then[then != FREE], minlength=size)
    listed = Assignment(group.lanes, tuple(member.id for member in people), now)
    load = None if weights is None else carried(listed, weights)
    behind = None if group.lag is None else carried(listed, weighed(group.lanes, group.lag))
    fresh = before is None
    return [
        MemberRow(
            member=member.id,
            lanes=int(held[n]),
            gained=0 if fresh else int(held[n] - kept[n]),
            lost=0 if fresh else int(had[n] - kept[n]),
            load=None if load is None else float(load[n]),
            lag=None if behind is None else int(behind[n]),
            rack=member.rack,
            instance=member.instance,
        )
        for n, member in enumerate(people)
    ]


def _moves(before: Assignment | None, after: Assignment) -> list[LaneMove]:
    """Lanes that had an owner, and have another or none."""
    if before is None:
        return []
    then = before.seen_by([Member(name) for name in before.members], after.lanes)
    lost = (then != FREE) & (after.owners == FREE)
    found = []
    for number in np.flatnonzero(moved_lanes(before, after) | lost).tolist():
        topic, index = after.lanes.lane(number)
        to = int(after.owners[number])
        given = None if to == FREE else after.members[to]
        found.append(LaneMove(topic=topic, lane=index, from_=before.members[int(then[number])], to=given))
    return found


def _cost(name: AssignorName, done: Pauses, weights: NDArray[np.float64] | None) -> AssignorCost:
    after, even = done.after, GroupEvenness.of(done.after, weights)
    return AssignorCost(
        assignor=name,
        protocol=PROTOCOLS[name],
        moved=moved(done.before, after),
        moves=done.moves,
        idle=len(after.idle),
        unowned=int((after.owners == FREE).sum()),
        fewest=even.fewest,
        most=even.most,
        max_over_mean=even.max_over_mean,
        rounds=done.rounds,
        stopped=len(done.stopped),
        lanes_paused=done.lanes,
        longest_pause=done.longest,
        lane_seconds=float(done.seconds.sum()),
    )


def _notes(name: str, group: _Group, after: Assignment, unowned: int) -> list[str]:
    found = []
    most = ceiling(name, group.lanes)
    if after.idle:
        idle = plural(len(after.idle), "member")
        has = agree(len(after.idle), "has", "have")
        found.append(f"{idle} {has} no lane: under {name} at most {count(most)} can (the parallelism ceiling)")
    if unowned:
        why = "its member is away and no spare waits" if name == "static" else "no member subscribes to its topic"
        found.append(f"{plural(unowned, 'lane')} {agree(unowned, 'is', 'are')} read by nobody: {why}")
    if name not in {"uniform", "range"}:
        found.append(NEW_PROTOCOL)
    return found


assert set(get_args(AssignorName)) == set(ASSIGNORS), "the document names every assignor"
