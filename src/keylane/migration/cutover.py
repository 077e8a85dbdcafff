"""The cut-over of a stream as a state machine: which step is next, and who may do what in which phase.

The rule. A migration is a journal of entries, and nothing else is its state. Whoever drives it looks at the journal and
at the world, and `next_step` says what to do: append an entry, make a call, or wait. An entry is appended before the
step that it names, with the next number and the claim of its driver, which is the term of its lease; `accepts` refuses
one with any other number or with an earlier claim. So two drivers cannot both take a step, a driver that wakes up late
takes none, and one that is killed leaves a journal from which any other goes on: every call can be made twice.

    begun        the plan fits the world
    copying      by a mirror: records are copied into the new stream, again and again, until it has caught up
    holding      producers stop, flush, and acknowledge this very entry
    doubling     instead of holding, by a mirror whose producers write to both streams: they flush, acknowledge this
                 very entry, go on writing to the old stream, and keep each record for the new one as well. Again, by
                 a driver that goes on in another's place; the first of them is the one that is acknowledged
    fenced       all have: the end offset of each old lane is its fence. Again, where somebody has written since
    growing      in place, for more lanes: the stream is given them. From here on there is no way back
    resharding   instead of holding, growing and all between, where lanes are shards that are split and merged: `calls`
                 of them are done, and the next is made. Nobody stops: a shard that is split ends, and its children
                 begin empty, so the system itself has the fence. No way back, as behind growing
    open         fences, and where each new lane begins: producers go on under the new contract, readers by the gate
    drained      every named reader group has committed all old lanes up to their fences
    done, rolled-back

Worked example: 12 -> 18 lanes. With entry 1, holding, producers a and b flush and acknowledge it. The lanes end at 40,
37, ... for a while: entry 2, fenced, has these offsets. Entry 3, growing; the call; 18 lanes are seen, and the old ones
still end at their fences: entry 4, open, begins lanes 0 to 11 at their fences and 12 to 17 at 0. Record 40 of lane 0 is
of the new contract, and is applied after lanes 0 and 6 were applied up to their fences (`gate`).

By a mirror the fence is the same, the stream that gets lanes is another one, and what is below the fences is copied
there before `open`: the new lanes begin behind the copies. With producers that write to both streams nobody stops: all
have acknowledged `doubling`, a copy that begins after that has ended, and where it ended is the fence. Each producer
then writes those of its kept records to the new stream that are behind the fence, and both streams are written to until
`done`. Readers pay for it: they hold back what is kept while `doubling` lasts (`gate`).

Why it holds: a producer acknowledges after its flush, so that all it has written under the old contract is below the
fence; it goes on after `open`, so that all it writes under the new one is behind. What a producer writes that nobody
named, or that does not stop, is found by the epoch in its records (`pipelines.migrate_verify`), and named.

When not to use it: where no order of a key is kept, or where all readers may stop: then stop, drain, grow, start.

Pure: the world is an argument. Kafka: `keylane.systems.kafka.migration`. All interleavings: `exhaustive_cutover`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

Phase: TypeAlias = Literal[
    "begun",
    "copying",
    "holding",
    "doubling",
    "fenced",
    "growing",
    "resharding",
    "open",
    "drained",
    "done",
    "rolled-back",
]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
#: Which phases may follow which.
FOLLOWING: Final[dict[Phase | None, tuple[Phase, ...]]] = {
    None: ("begun",),
    "begun": ("copying", "holding", "resharding", "rolled-back"),
    "copying": ("holding", "doubling", "rolled-back"),
    "doubling": ("doubling", "open", "rolled-back"),
    "holding": ("fenced", "rolled-back"),
    "fenced": ("fenced", "growing", "open", "rolled-back"),
    "growing": ("growing", "open"),
    "resharding": ("resharding", "open"),
    "open": ("drained", "done"),
    "drained": ("done",),
    "done": (),
    "rolled-back": (),
}
#: Phases in which nobody may write, and those in which the new contract holds.
HELD: Final = frozenset({"holding", "fenced", "growing"})
SWITCHED: Final = frozenset({"open", "drained", "done"})
OVER: Final = frozenset({"done", "rolled-back"})


class Entry(NamedTuple):
    """One entry of a journal. `claim` is the term of its driver's lease; `at` is for people."""

    number: int
    claim: int
    phase: Phase
    #: The end of each old lane: of fenced, growing and open. Of files it is how many there are; of shards the sequence
    #: number at which each ended, 0 of those that are still open.
    fences: tuple[int, ...] = ()
    #: Where each new lane begins to hold records of the new contract: of open.
    starts: tuple[int, ...] = ()
    at: float = 0.0
    #: Of resharding: the splits and merges that are done; the next of them is made now.
    calls: int = 0
    #: Of drained: old lanes of which records below the fence were deleted before every group had committed them.
    unread: tuple[int, ...] = ()


class CutoverPlan(NamedTuple):
    """What is to be changed, as far as the steps depend on it."""

    old_lanes: int
    new_lanes: int
    #: Into another stream.
    mirror: bool = False
    #: Producers that have to acknowledge; with none, somebody says that all have stopped.
    producers: tuple[str, ...] = ()
    #: Whether readers honour the gate; otherwise they drain before producers go on.
    gated: bool = True
    #: By a mirror: producers write to both streams instead of stopping.
    dual: bool = False


class World(NamedTuple):
    """What a driver sees. `ends` and `new_ends` are end offsets of the old and of the new stream's lanes.

    `lanes` is the count of the stream that gets the lanes: the only one, or the new one of a mirror.
    """

    lanes: int
    ends: tuple[int, ...]
    new_ends: tuple[int, ...] = ()
    #: Who has acknowledged the last entry `holding`; and whether somebody says that all others have stopped.
    stopped: frozenset[str] = frozenset()
    all_stopped: bool = False
    #: Whether the ends are those of a while ago.
    still: bool = True
    #: The lowest committed offset of each old lane among the reader groups; None where no group was named.
    applied: tuple[int, ...] | None = None
    #: Old lanes of which records below the fence were deleted before every group had committed them.
    unread: tuple[int, ...] = ()
    #: Whether all that is below the ends can be copied: no transaction is open there.
    settled: bool = True
    #: By a mirror: whether a copy that began behind the last entry has ended; while copying, whether it has caught up.
    copied: bool = True
    #: How far the copy is in each old lane.
    copied_to: tuple[int, ...] = ()
    #: Whether the reader groups have their first offsets of the new stream, by a mirror.
    translated: bool = True


class Append(NamedTuple):
    """Append this entry, then look again."""

    entry: Entry


class CutoverCall(NamedTuple):
    """Make a call to the system; made twice it does no harm."""

    name: Literal["grow", "copy", "translate"]


class Wait(NamedTuple):
    """Look again later. `why` is from a closed list, `names` are producers, or lanes as text."""

    why: Literal["producers", "writes", "readers"]
    names: tuple[str, ...] = ()


class Refuse(NamedTuple):
    """The world is not as planned; nothing is done."""

    what: str
    got: str
    allowed: str


class Finished(NamedTuple):
    """There is nothing left to do."""


Step: TypeAlias = Append | CutoverCall | Wait | Refuse | Finished


def accepts(entries: Sequence[Entry], entry: Entry) -> bool:
    """Whether a journal takes an entry: the next number, no earlier claim, and a phase that may follow.

    >>> begun = Entry(0, 1, "begun")
    >>> accepts([], begun), accepts([begun], Entry(1, 1, "holding")), accepts([begun], Entry(0, 2, "holding"))
    (True, True, False)
    >>> accepts([begun._replace(claim=2)], Entry(1, 1, "holding"))
    False
    """
    last = entries[-1] if entries else None
    if entry.number != len(entries) or entry.phase not in FOLLOWING[last and last.phase]:
        return False
    return last is None or entry.claim >= last.claim


def phase_of(entries: Sequence[Entry]) -> Phase | None:
    """The phase that a journal is in; None before its first entry."""
    return entries[-1].phase if entries else None


def opened(entries: Sequence[Entry]) -> Entry | None:
    """The entry with the fences that hold; None before producers have switched."""
    return next((one for one in entries if one.phase == "open"), None)


def hold_of(entries: Sequence[Entry]) -> int | None:
    """The number of the entry that producers have to acknowledge; None where there is none."""
    return next((one.number for one in entries if one.phase in ("holding", "doubling")), None)


def may_send(entries: Sequence[Entry], *, new: bool) -> bool:
    """Whether a producer may write under the new contract, or under the old one.

    >>> holding = [Entry(0, 1, "begun"), Entry(1, 1, "holding")]
    >>> may_send(holding[:1], new=False), may_send(holding, new=False), may_send(holding, new=True)
    (True, False, False)
    """
    phase = phase_of(entries)
    if is_dual(entries) and phase != "done":
        return True if not new else phase in SWITCHED
    return phase in SWITCHED if new else phase not in HELD | SWITCHED


def may_copy(entries: Sequence[Entry], claim: int) -> bool:
    """Whether the driver with this claim may copy: asked after every other copier was fenced, and before a record.

    A copier that was called late fences the one that came after it, and would copy behind the fence of an entry `open`
    that it has not seen. While producers write to both streams, the last entry has to be the driver's own.

    >>> doubling = [Entry(0, 1, "begun"), Entry(1, 1, "copying"), Entry(2, 1, "doubling")]
    >>> may_copy(doubling[:2], 2), may_copy(doubling, 2), may_copy([*doubling, Entry(3, 2, "doubling")], 2)
    (True, False, True)
    """
    phase = phase_of(entries)
    if phase == "doubling":
        return entries[-1].claim == claim
    return phase in {"copying", "holding", "fenced"}


def is_dual(entries: Sequence[Entry]) -> bool:
    """Whether producers write to both streams: from `doubling` on, unless it was rolled back."""
    return any(one.phase == "doubling" for one in entries) and phase_of(entries) != "rolled-back"


def next_step(plan: CutoverPlan, entries: Sequence[Entry], world: World, claim: int, at: float = 0.0) -> Step:
    """What the driver with this claim does next."""
    phase = phase_of(entries)
    if phase in OVER:
        return Finished()
    refused = _not_as_planned(plan, world, grown=phase == "growing" or phase in SWITCHED)
    if refused is not None:
        return refused
    following = Entry(len(entries), claim, "begun", at=at)
    if phase in HELD:
        return _while_held(plan, entries[-1], following, world)
    if phase in SWITCHED:
        return _when_switched(entries[-1], following, world)
    if phase == "doubling":
        return _while_doubling(plan, entries[-1], following, world)
    return CutoverCall("copy") if phase == "copying" and not world.copied else _first_steps(plan, following, phase)


def _first_steps(plan: CutoverPlan, following: Entry, phase: Phase | None) -> Append:
    """What begins a migration, up to where producers are asked for something."""
    stop: Phase = "doubling" if plan.dual else "holding"
    begins: Phase = "begun" if phase is None else "copying" if phase == "begun" and plan.mirror else stop
    return Append(following._replace(phase=begins))


def _while_doubling(plan: CutoverPlan, last: Entry, following: Entry, world: World) -> Step:
    """All producers keep what they write for the new stream; where a copy ends that begins now is the fence."""
    waits = _waits_for_producers(plan, world)
    if waits is not None:
        return waits
    if last.claim != following.claim:
        # Producers go on, so that another copy would move records from behind the fence of a driver that is late: with
        # an entry of one's own before the copy, that driver's `open` is refused.
        return Append(following._replace(phase="doubling"))
    if not world.copied:
        # A copy ends at an open transaction, and what is not kept may be behind that: it would be behind the fence.
        return CutoverCall("copy") if world.settled else Wait("writes")
    return Append(following._replace(phase="open", fences=world.copied_to, starts=world.new_ends))


def _waits_for_producers(plan: CutoverPlan, world: World) -> Wait | None:
    missing = tuple(sorted(set(plan.producers) - world.stopped))
    return Wait("producers", missing) if missing or not (plan.producers or world.all_stopped) else None


def _while_held(plan: CutoverPlan, last: Entry, following: Entry, world: World) -> Step:
    """Producers stop, the fences stand, the stream gets its lanes; then all go on."""
    waits = _waits_for_producers(plan, world)
    if waits is not None:
        return waits
    ends = world.ends[: plan.old_lanes]
    if ends != last.fences:
        # Whoever has written since the last look is given time to stop, too: what it wrote is below the new fence.
        phase: Phase = "fenced" if last.phase == "holding" else last.phase
        return Append(following._replace(phase=phase, fences=ends)) if world.still else Wait("writes")
    if not world.copied:
        return CutoverCall("copy") if world.settled else Wait("writes")
    if world.lanes < plan.new_lanes:
        grow = last.phase == "growing"
        return CutoverCall("grow") if grow else Append(following._replace(phase="growing", fences=ends))
    behind = () if plan.gated else _undrained(ends, world.applied or (0,) * len(ends))
    if behind:
        return Wait("readers", behind)
    starts = world.new_ends if plan.mirror else (*ends, *(0,) * (plan.new_lanes - plan.old_lanes))
    return Append(following._replace(phase="open", fences=ends, starts=starts))


def _when_switched(last: Entry, following: Entry, world: World) -> Step:
    """Readers drain the old lanes; where no group was named, nobody knows when."""
    if last.phase == "drained" or world.applied is None:
        return Append(following._replace(phase="done")) if world.translated else CutoverCall("translate")
    behind = _undrained(last.fences, world.applied)
    return Wait("readers", behind) if behind else Append(following._replace(phase="drained", unread=world.unread))


def _not_as_planned(plan: CutoverPlan, world: World, *, grown: bool) -> Refuse | None:
    """A lane count that nobody planned: somebody else has changed it.

    Once the stream is to grow, one that somebody else has grown on the way there is as good: nobody writes.
    """
    least = plan.new_lanes if plan.mirror else plan.old_lanes
    most = plan.new_lanes if plan.mirror or grown else plan.old_lanes
    if least <= world.lanes <= most:
        return None
    allowed = str(least) if least == most else f"{least} to {most}"
    return Refuse("the stream has another lane count than planned", str(world.lanes), allowed)


def _undrained(fences: Sequence[int], applied: Sequence[int]) -> tuple[str, ...]:
    """The old lanes that are not applied up to their fences."""
    return tuple(str(lane) for lane, fence in enumerate(fences) if applied[lane] < fence)


def may_roll_back(entries: Sequence[Entry]) -> bool:
    """Whether the way back is open: the stream is as it was, and producers go on under the old contract."""
    return "rolled-back" in FOLLOWING[phase_of(entries)]
