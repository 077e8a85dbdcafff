"""A saved plan of splits and merges, carried out on a stream: one call at a time, recorded, checked, resumable.

Rule: a plan is a row of layouts, each one boundary from the next. Before a call the stream must be active and its open
shards those of the step before; the call is recorded as begun, made, and recorded as done once the stream is active and
has the planned shards. So whoever starts it again compares the stream with the record: the layout before the call that
was begun means that it has to be made, the layout behind it that it was; any other means that somebody else has changed
the stream, and nothing is done.

Worked example: of five calls three are done and the fourth is begun, then the process is killed. The stream has the
layout of three calls: the fourth is made now. Or it has that of four: the fourth is recorded, and the fifth is made.

The record of `shards apply` is one file beside the plan, replaced at once and forced to disk, and locked, so that two
processes cannot apply one plan; that of a migration is its journal (`shard_migrations`). When not to use it: on a
stream that scales by itself, or that does not place records by key; both are refused before the first call. Which
calls: `keyspace.reshard`. The calls themselves: the system's `Resharder`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from keylane.contract.shards import NARROWEST, SPACE
from keylane.errors import TargetError, UsageError
from keylane.keyspace.layout import Shard, layout_of
from keylane.numbers import plural
from keylane.systems.atomic import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from keylane.documents.shards import ShardCall, ShardRow, ShardsPlanDocument
    from keylane.keyspace.layout import ShardLayout

#: Seconds between two calls that change a stream, so that an account's quota of five a second is kept.
BETWEEN_CALLS: Final = 0.2
#: Seconds between two looks at a stream that is being changed: the first, and the longest.
FIRST_LOOK, LONGEST_LOOK = 0.05, 2.0
#: Seconds for which a stream is looked at before a call that was begun, and does not show, is made again.
SETTLE: Final = 2.0
FORM: Final = "keylane.shards-record/1"
#: Calls of a plan up to which a stream that is not as planned is compared with every step of it.
_NEAR: Final = 1_000
AGAIN: Final = "keylane shards plan makes a plan of the stream as it is now"


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as it is now. `id` is another when it was deleted and created again.

    `refusal` is why its shards are not to be changed by calls, and `setting` the setting behind it. `most` is how many
    open shards it may have, None where the system does not say.
    """

    id: str
    layout: ShardLayout
    active: bool
    refusal: str = ""
    setting: str = ""
    most: int | None = None


class Resharder(Protocol):
    """What a system does to change the shards of a stream."""

    def state(self) -> StreamState:
        """Ask the system."""
        ...

    def split(self, shard: str, at: int) -> bool:
        """Ask for a split; False when the system is busy or its rate is used up, and the call was not taken."""
        ...

    def merge(self, lower: str, upper: str) -> bool:
        """Ask for a merge of two shards that meet; False as above."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait: a clock and a pause, and the longest that one call may take, in seconds."""

    clock: Callable[[], float]
    pause: Callable[[float], object]
    longest: float = 600.0


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a plan is: calls that are done, and of these the ones of this run."""

    done: int
    now: int


class CallRecord(Protocol):
    """What is known of a plan: which calls are done, whether the next was begun, and whether nothing is known yet."""

    done: int
    begun: bool
    is_new: bool

    def note(self, done: int, *, begun: bool) -> None:
        """Keep it, durably where a call is begun."""
        ...


class PlanRecord:
    """What is known of a plan on disk: which calls are done, and whether the next was begun."""

    def __init__(self, path: Path, plan: str, stream: str) -> None:
        self.path, self._plan, self._stream = path, plan, stream
        self.done, self.begun, self.is_new = 0, False, True
        if path.exists() and path.stat().st_size:
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            known = found["schema"], found["plan"], found["stream"], int(found["done"]), bool(found["begun"])
        except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError) as error:
            hint = "another --record FILE: what is done is found by the stream where the plan is not begun, or done"
            raise TargetError.of(f"the record {self.path} is damaged", got=str(error), hint=hint) from None
        schema, plan, stream, self.done, self.begun = known
        self.is_new = False
        if schema != FORM or plan != self._plan or stream != self._stream:
            hint = "another --record, or the plan and the stream that this one is of"
            raise TargetError.of("the record is of another plan or stream", got=str(self.path), hint=hint)

    def note(self, done: int, *, begun: bool) -> None:
        """Replace the record, forced to disk."""
        self.done, self.begun, self.is_new = done, begun, False
        document = {"schema": FORM, "plan": self._plan, "stream": self._stream, "done": done, "begun": begun}
        write_json(self.path, document)


@contextmanager
def open_record(path: Path, plan: str, stream: str, source: Path | None = None) -> Iterator[PlanRecord]:
    """The record of a plan, held by this process alone; `plan` is the text of the plan, `stream` the stream's id.

    `source` is the plan's file, held too: two records are no way to apply a plan twice at once.
    """
    with ExitStack() as held:
        for one in (path.with_name(f"{path.name}.lock"), *([source] if source else [])):
            flags = os.O_RDONLY if one is source else os.O_RDWR | os.O_CREAT
            handle = os.open(one, flags | os.O_CLOEXEC, 0o644)
            held.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                hint = "wait for it, or stop it"
                raise TargetError.of("another process is applying this plan", got=str(path), hint=hint) from None
        yield PlanRecord(path, hashlib.sha256(plan.encode()).hexdigest(), stream)


def check_plan(plan: ShardsPlanDocument) -> None:
    """Refuse a plan whose calls do not lead from its first layout to its last: it was edited, or cut.

    Each call is possible where it stands and names the shards there, shards stay wide enough, and no more are open on
    the way than it says.
    """
    before, after = (_checked(side.layout) for side in (plan.before, plan.after))
    starts, peak = list(before.starts), len(before.starts)
    ids = {shard.start: shard.id for shard in before.open}
    for step, call in enumerate(plan.calls, 1):
        at = int(call.at)
        place = bisect_left(starts, at)
        there = place < len(starts) and starts[place] == at
        if call.call == "MergeShards" and there and place:
            del starts[place]
        elif call.call == "SplitShard" and _wide_enough(starts, place, at):
            starts.insert(place, at)
        else:
            raise _disagrees(f"call {step}, {call.call} at {call.at}, is not possible there")
        if not _names_its_shards(call, ids, starts[place - 1]):
            raise _disagrees(f"call {step}, {call.call} at {call.at}, names other shards or another place")
        peak = max(peak, len(starts))
    if starts != after.starts or [ids[start] for start in starts] != [shard.id for shard in after.open]:
        raise _disagrees("its calls do not lead to the layout that it ends with")
    if peak != plan.peak_shards:
        raise _disagrees(f"{plural(peak, 'shard')} are open on the way, and it says {plan.peak_shards}")


def _names_its_shards(call: ShardCall, ids: dict[int, str], low: int) -> bool:
    """Whether a call names the shards at its boundary, in its arguments too; `ids` by start are those after it then.

    `low` is where the shard below the boundary begins.
    """
    at, below = int(call.at), ids[low]
    if call.call == "SplitShard":
        wanted, arguments, made = [below], {"ShardToSplit": below, "NewStartingHashKey": call.at}, [low, at]
    else:
        above = ids.pop(at)
        wanted, arguments, made = [below, above], {"ShardToMerge": below, "AdjacentShardToMerge": above}, [low]
    if len(call.makes) != len(made) or call.shards != wanted or call.arguments != arguments:
        return False
    ids |= dict(zip(made, call.makes, strict=True))
    return True


def _checked(rows: Sequence[ShardRow]) -> ShardLayout:
    return layout_of(Shard(row.id, int(row.start), int(row.end)) for row in rows)


def _wide_enough(starts: Sequence[int], place: int, at: int) -> bool:
    """Whether a boundary there leaves two keys at least on both sides; `place` is where it would stand."""
    after = starts[place] if place < len(starts) else SPACE
    return place > 0 and at - starts[place - 1] >= NARROWEST and after - at >= NARROWEST


def _disagrees(how: str) -> UsageError:
    return UsageError.of(f"the plan does not agree with itself: {how}", hint=AGAIN)


def layout_after(plan: ShardsPlanDocument, done: int) -> list[int]:
    """The starts of the open shards after so many calls."""
    starts = {int(row.start) for row in plan.before.layout}
    for call in plan.calls[:done]:
        (starts.add if call.call == "SplitShard" else starts.discard)(int(call.at))
    return sorted(starts)


def position(plan: ShardsPlanDocument, record: CallRecord, state: StreamState) -> int:
    """How many calls of the plan are done, by the stream and the record; TargetError where the two do not agree."""
    found, calls = list(state.layout.starts), len(plan.calls)
    allowed = [*range(record.done, min(record.done + 1 + record.begun, calls + 1)), *([calls] * record.is_new)]
    for done in allowed:
        if _same(plan, layout_after(plan, done), state.layout):
            return done
    near = next((n for n in range(calls + 1) if layout_after(plan, n) == found), None) if calls <= _NEAR else None
    hint = AGAIN
    if near is not None and near not in allowed:
        got = f"the shards after {plural(near, 'call')} of the plan, and a record of {record.done}"
        if near > record.done:
            hint = f"the record of its calls is gone, or an older copy: restore it as it was last; or {AGAIN}"
    else:
        differ = sorted(set(found) ^ set(layout_after(plan, record.done)))
        got = f"{plural(len(found), 'open shard')}; {_first_difference(differ)}"
    raise TargetError.of("the stream is not as planned; no further call was made", got=got, hint=hint)


def _first_difference(differ: Sequence[int]) -> str:
    if not differ:
        return "the ids of shards are others"
    return f"boundaries that differ: {len(differ)}, the first at {differ[0]}"


def _same(plan: ShardsPlanDocument, starts: list[int], layout: ShardLayout) -> bool:
    """Whether the open shards are these, without holes; shards of the plan's beginning have their ids, too."""
    if layout.starts != starts or list(_ends(starts)) != [shard.end for shard in layout.open]:
        return False
    first = {(int(row.start), int(row.end)): row.id for row in plan.before.layout}
    return all(first.get((shard.start, shard.end), shard.id) == shard.id for shard in layout.open)


def _ends(starts: Sequence[int]) -> Iterator[int]:
    yield from (start - 1 for start in starts[1:])
    yield SPACE - 1


def check_stream(plan: ShardsPlanDocument, state: StreamState) -> None:
    """Refuse a stream that no plan may be applied to; nothing was done yet."""
    if plan.stream_id and state.id and plan.stream_id != state.id:
        what = "this is not the stream that the plan was made of, or it was deleted and created again"
        raise TargetError.of(f"{what}; no further call was made", got=state.id, allowed=plan.stream_id, hint=AGAIN)
    if state.refusal:
        raise TargetError.of(f"{state.refusal}; no further call was made", got=state.setting)
    if state.most is not None and plan.peak_shards > state.most:
        hint = "a higher quota of the account, or fewer --shards"
        got = f"{plan.peak_shards} open shards on the way"
        raise TargetError.of(
            "the plan is beyond the quota; no further call was made", got=got, allowed=str(state.most), hint=hint
        )


def carry_out(
    plan: ShardsPlanDocument,
    resharder: Resharder,
    record: CallRecord,
    waiting: Waiting,
    say: Callable[[str], None] = lambda _: None,
) -> Progressed:
    """Make the calls that are left; each is checked on the stream before the next."""
    state = _settled(resharder, waiting)
    check_stream(plan, state)
    done = first = position(plan, record, state)
    if record.begun and done == record.done:
        # Whether the call was taken before the end of the process: what a list shows may be some moments old.
        state = _seen(plan, record, resharder, replace(waiting, longest=SETTLE), needed=False)
        done = position(plan, record, state)
    record.note(done, begun=False)
    last = waiting.clock() - BETWEEN_CALLS
    while done < len(plan.calls):
        call = plan.calls[done]
        record.note(done, begun=True)
        last = _made(call, state.layout, resharder, waiting, last)
        state = _settled(resharder, waiting)
        check_stream(plan, state)
        after = position(plan, record, state)
        if after == done:
            # Taken, and not shown yet.
            state = _seen(plan, record, resharder, waiting)
            after = position(plan, record, state)
        done = after
        record.note(done, begun=False)
        say(f"call {done} of {len(plan.calls)}: {call.call} at {call.at}")
    return Progressed(done, done - first)


def _made(call: ShardCall, layout: ShardLayout, resharder: Resharder, waiting: Waiting, last: float) -> float:
    """Ask until the call is taken; when that was."""
    until, at = waiting.clock() + waiting.longest, int(call.at)
    place = bisect_right(layout.starts, at) - 1
    shard = layout.open[place]
    pause = BETWEEN_CALLS
    while True:
        waiting.pause(max(0.0, last + BETWEEN_CALLS - waiting.clock()))
        last = waiting.clock()
        lower = layout.open[place - 1]
        taken = resharder.split(shard.id, at) if call.call == "SplitShard" else resharder.merge(lower.id, shard.id)
        if taken:
            return last
        if waiting.clock() > until:
            raise _too_long(f"{call.call} at {call.at} is not taken", waiting)
        waiting.pause(pause)
        pause = min(2 * pause, LONGEST_LOOK)


def _settled(resharder: Resharder, waiting: Waiting) -> StreamState:
    """The stream once it is active."""
    until, pause = waiting.clock() + waiting.longest, FIRST_LOOK
    while not (state := resharder.state()).active:
        if waiting.clock() > until:
            raise _too_long("the stream is still being changed", waiting)
        waiting.pause(pause)
        pause = min(2 * pause, LONGEST_LOOK)
    return state


def _seen(
    plan: ShardsPlanDocument, record: CallRecord, resharder: Resharder, waiting: Waiting, *, needed: bool = True
) -> StreamState:
    """The stream once it differs from what it was before the call; as it is in the end, where that is not `needed`."""
    until, pause, before = waiting.clock() + waiting.longest, FIRST_LOOK, layout_after(plan, record.done)
    while (state := _settled(resharder, waiting)).layout.starts == before:
        if waiting.clock() > until and not needed:
            return state
        if waiting.clock() > until:
            raise _too_long("the stream does not show the call", waiting)
        waiting.pause(pause)
        pause = min(2 * pause, LONGEST_LOOK)
    return state


def _too_long(what: str, waiting: Waiting) -> TargetError:
    hint = "the same command again goes on from here"
    return TargetError.of(f"{what} after {waiting.longest:g} s", hint=hint)
