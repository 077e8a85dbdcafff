"""What a change of membership does: which lanes move, which stand still and for how long, step by step.

    steps    remove, add, bounce or a rolling deploy, as the groups that follow one another; members that leave and
             members that join are one change, as when an instance is replaced
    Pauses   what a lane waits for at each step, summed over all of them

What a lane waits for depends on the protocol that an assignor runs in:

    eager        all members give everything up; every lane waits for a round, and one that moved for its state too
    cooperative  a lane that moves waits for two rounds (given up, then given) and its state; the others do not wait
    static       lanes wait for their member to be back, and without a spare they have no owner until then

A round is how long members take to hear of a change and to agree: one heartbeat, as a rule. State is restored by one
member lane after lane, at one rate. A member that leaves says so; one that crashes is missed for a session timeout
first, which is not in these figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from keylane.errors import UnknownNameError, UsageError
from keylane.groups.assignors import assignor
from keylane.groups.assignors.by_load import by_load
from keylane.groups.invariants import moved_lanes
from keylane.groups.model import FREE, Assignment, Lanes, Member, check_members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from keylane.groups.assignors import Assignor
    from keylane.groups.model import Lane

Protocol: TypeAlias = Literal["eager", "cooperative", "static"]

#: How members agree under each assignor. `uniform` is the brokers' own protocol: they hand over lane by lane too.
PROTOCOLS: Final[dict[str, Protocol]] = {
    "range": "eager",
    "round-robin": "eager",
    "sticky": "eager",
    "cooperative-sticky": "cooperative",
    "uniform": "cooperative",
    "static": "static",
    "by-load": "cooperative",
}


@dataclass(frozen=True, slots=True)
class WaitTiming:
    """What waits are made of: seconds of a round, of a member's restart, and of restoring the state of one lane."""

    round: float = 3.0
    restart: float = 30.0
    restore: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupStep:
    """A group as it is after one event. `restarts`: half of a restart; `returning`: members that were away for it."""

    what: str
    members: tuple[Member, ...]
    restarts: bool = False
    returning: frozenset[str] = frozenset()


def steps(
    members: Sequence[Member],
    *,
    remove: Sequence[str] = (),
    add: Sequence[Member] = (),
    bounce: Sequence[str] = (),
    rolling: bool = False,
) -> list[GroupStep]:
    """The groups that follow one another: some leave and some join, some restart one by one; rolling: all of them."""
    check_members(members)
    known = [member.id for member in members]
    for name in remove:
        if name not in known:
            raise UnknownNameError.among("member", name, known)
    staying = tuple(member for member in members if member.id not in set(remove))
    joining = [member.id for member in add]
    group = (*staying, *add)
    check_members(group)
    left = [f"remove {', '.join(remove)}"] if remove else []
    came = [f"add {', '.join(joining)}"] if add else []
    if set(remove) & set(joining):
        # The same name leaves and joins: that is two changes, and between them it has nothing.
        check_members(staying)
        found = [GroupStep(left[0], staying), GroupStep(came[0], group)]
    else:
        found = [GroupStep(", ".join([*left, *came]), group)] if left or came else []
    here = [member.id for member in group]
    for name in bounce:
        if name not in here:
            raise UnknownNameError.among("member", name, here)
    for name in here if rolling else bounce:
        without = tuple(member for member in group if member.id != name)
        if not without:
            raise UsageError.of("a group of one member has nobody to take over while it restarts", got=name)
        found.append(GroupStep(f"stop {name}", without, restarts=True))
        found.append(GroupStep(f"start {name}", group, restarts=True, returning=frozenset({name})))
    return found


@dataclass(frozen=True, slots=True)
class Pauses:
    """What several steps came to. `seconds` is what each lane waited for, all steps together."""

    before: Assignment
    after: Assignment
    moves: int
    rounds: int
    stopped: tuple[str, ...]
    seconds: NDArray[np.float64]

    @property
    def lanes(self) -> int:
        """Lanes that waited at all."""
        return int((self.seconds > 0).sum())

    @property
    def longest(self) -> float:
        """What the lane that waited longest waited for."""
        return float(self.seconds.max(initial=0.0))


def carried_out(
    name: str,
    before: Assignment,
    following: Sequence[GroupStep],
    lanes: Lanes,
    timing: WaitTiming,
    *,
    loads: Mapping[Lane, float] | None = None,
    static_members: bool = False,
) -> Pauses:
    """Every step under an assignor, from an assignment on.

    With static members a restart is no change of the group: the lanes of the member wait for it, and nothing else does.
    """
    decide = deciding(name, loads)
    kind = PROTOCOLS[name]
    now, seconds = before, np.zeros(lanes.total)
    moves, rounds, stopped = 0, 0, set[str]()
    for step in following:
        if step.restarts and (static_members or kind == "static"):
            if step.returning:
                away = now.seen_by([Member(member) for member in step.returning], lanes) != FREE
                seconds[away] += timing.restart
                stopped |= step.returning
            continue
        after = decide(step.members, lanes, now)
        changed = moved_lanes(now, after)
        moves += int(changed.sum())
        wait, took, halted = _waits(kind, now, after, changed, timing)
        rounds += took
        stopped |= halted
        seconds += wait
        now = after
    return Pauses(before, now, moves, rounds, tuple(sorted(stopped)), seconds)


def deciding(name: str, loads: Mapping[Lane, float] | None) -> Assignor:
    """The assignor of a name, with loads where it takes them."""
    return partial(by_load, loads=loads) if name == "by-load" and loads is not None else assignor(name)


def _waits(
    kind: Protocol, before: Assignment, after: Assignment, changed: NDArray[np.bool_], timing: WaitTiming
) -> tuple[NDArray[np.float64], int, set[str]]:
    """What each lane waits for at one step, the rounds that it takes, and the members that stop for it."""
    wait = np.zeros(after.lanes.total)
    gained = np.bincount(after.owners[changed], minlength=len(after.members))
    wait[changed] += gained[after.owners[changed]] * timing.restore
    held = before.seen_by([Member(name) for name in after.members], after.lanes) != FREE
    if kind == "eager":
        wait[held | changed] += timing.round
        reading = {name for name, lanes in zip(before.members, before.counts(), strict=True) if lanes}
        return wait, 1, reading & set(after.members)
    handed = changed & held
    wait[changed] += timing.round
    wait[handed] += timing.round if kind == "cooperative" else 0.0
    halted = set(np.asarray(before.members, dtype=object)[np.unique(_owners_in(before, after)[handed])].tolist())
    return wait, (2 if handed.any() else 1 if changed.any() else 0), halted


def _owners_in(before: Assignment, after: Assignment) -> NDArray[np.int32]:
    """The owners before, by the numbers of the lanes after."""
    return before.seen_by([Member(name) for name in before.members], after.lanes)
