"""Two contracts -> how a stream gets from one to the other: in place or by a mirror, who waits for whom, which steps.

    in place   the same stream: producers stop at a fence, the stream grows, and they go on under the new contract; each
               new lane is applied after the old lanes it waits for. Nothing is copied
    mirror     another stream: records are copied into their new lanes exactly once, producers and readers switch
    shards     in place, where lanes are ranges and nothing else changes: splits and merges, for which nobody stops

In place is taken where the stream stays and has at least as many lanes as before. Fewer lanes, or another stream, need
a mirror. Nothing is contacted here: lane counts of live contracts are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Literal, TypeAlias

from keylane.contract.answers import answers, weakest
from keylane.contract.evolve import evolve_on
from keylane.contract.fingerprint import placement_form
from keylane.errors import UsageError
from keylane.migration.drain import DrainGraph, drain_graph
from keylane.numbers import count, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.evolve import Change
    from keylane.contract.model import Contract
    from keylane.contract.moved import MovedKeys
    from keylane.router import Router

Mode: TypeAlias = Literal["in-place", "mirror"]
Who: TypeAlias = Literal["producers", "readers", "operator"]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step: who does it, what, the command that does it or shows it, and why it stands where it does."""

    who: Who
    action: str
    why: str
    command: str


@dataclass(frozen=True, slots=True)
class Migration:
    """A planned change. Without `steps` there is nothing to do."""

    mode: Mode
    reason: str
    moved: MovedKeys
    drain: DrainGraph
    steps: tuple[PlannedStep, ...]
    breaks: tuple[str, ...]
    changes: tuple[Change, ...]
    epoch_to_raise: int | None


@dataclass(frozen=True, slots=True)
class Streams:
    """The addresses of both streams as commands take them; placeholders where none is known."""

    source: str = "SOURCE"
    target: str = "TARGET"
    old_file: str = "OLD.yaml"
    new_file: str = "NEW.yaml"
    #: Whether the new stream has each copy once, over kills too.
    once: bool = True
    #: The file of the saved plan, the command that saves it, and whether it has been.
    plan: str = "plan.json"
    saves: str = ""
    is_saved: bool = False
    #: Whether producers are named, which stop by themselves.
    named: bool = False

    @property
    def run(self) -> str:
        """Carries the plan out, from wherever it is."""
        return f"keylane migrate run {quote(self.plan)}"

    @property
    def stopped(self) -> str:
        """The same, once producers that acknowledge nothing have stopped."""
        return self.run if self.named else f"{self.run} --producers-stopped"

    @property
    def status(self) -> str:
        """Who waits for whom."""
        return f"keylane migrate status {quote(self.plan)}"

    @property
    def verify(self) -> str:
        """Proves what was carried out."""
        return f"keylane migrate verify {quote(self.plan)}"


def plan_migration(
    old: Router, new: Router, streams: Streams, mode: Mode | None = None, *, dual: bool = False
) -> Migration:
    """Plan the change from the contract of one router to that of another; UsageError where it is impossible.

    `mode` asks for one of the two ways; otherwise in place is taken wherever it is possible. With `dual` the producers
    of a mirror write to both streams instead of stopping.
    """
    obstacle = _obstacle(old, new)
    if mode == "in-place" and obstacle:
        raise UsageError.of(f"cannot be changed in place: {obstacle}", hint="--mode mirror, into another stream")
    taken: Mode = mode or ("mirror" if obstacle else "in-place")
    _check_identity(old.contract, new.contract, taken)
    evolution = evolve_on(_counted(old), _counted(new), (_lanes(old), _lanes(new)))
    drain = drain_graph(old, new)
    idle = taken == "in-place" and _placement(old) == _placement(new)
    due = None if idle else evolution.epoch_to_raise
    by_mirror = _dual_mirror if dual else _mirror
    steps = () if idle else _in_place(drain, new, streams, due) if taken == "in-place" else by_mirror(new, streams, due)
    return Migration(
        taken,
        "nothing moves: both contracts place every record alike" if idle else obstacle or _why_in_place(old, new),
        evolution.moved,
        drain,
        steps,
        tuple(_breaks(old, new, evolution.changes, idle=idle)),
        evolution.changes,
        due,
    )


def _check_identity(old: Contract, new: Contract, mode: Mode) -> None:
    if new.metadata.epoch < old.metadata.epoch and new.metadata.name == old.metadata.name:
        got = f"{old.metadata.epoch}, then {new.metadata.epoch}"
        raise UsageError.of("an epoch must not decrease", got=got, hint="are the two contracts swapped?")
    if mode == "in-place" and new.metadata.name != old.metadata.name:
        got = f"{old.metadata.name!r} and {new.metadata.name!r}"
        hint = "one name, and a higher epoch; or other streams in the new one, for a mirror"
        raise UsageError.of("two contracts for one stream", got=got, hint=hint)


def _obstacle(old: Router, new: Router) -> str:
    """Why the stream itself cannot be changed; nothing where it can."""
    was, now = set(old.contract.spec.streams), set(new.contract.spec.streams)
    if was.isdisjoint(now):
        return f"the new contract is for another stream: {_names(now)} instead of {_names(was)}"
    if new.lane_count < old.lane_count and new.facts.fold != "ranges":
        return f"a topic cannot lose partitions: {count(old.lane_count)} to {count(new.lane_count)} lanes"
    return ""


def _names(streams: set[str]) -> str:
    return ", ".join(sorted(streams))


def _why_in_place(old: Router, new: Router) -> str:
    if new.lane_count == old.lane_count:
        return f"the stream stays, with {count(new.lane_count)} lanes (partitions)"
    return f"the stream stays and gets {count(new.lane_count)} lanes (partitions) instead of {count(old.lane_count)}"


def _placement(router: Router) -> tuple[object, ...]:
    form = placement_form(router.contract)
    return ({**form, "lanes": router.lane_count}, tuple(router.key_space.starts))


def _counted(router: Router) -> Contract:
    """The contract with its live lane count as a number, for the words of its changes."""
    contract = router.contract
    if contract.spec.lanes != "live":
        return contract
    return contract.model_copy(update={"spec": contract.spec.model_copy(update={"lanes": router.lane_count})})


def _lanes(router: Router) -> int | Sequence[int]:
    """The lanes as the stream has them."""
    return router.key_space.starts if router.facts.fold == "ranges" else router.lane_count


def _breaks(old: Router, new: Router, changes: tuple[Change, ...], *, idle: bool) -> list[str]:
    """What does not survive the change by itself."""
    found = [one.message for one in changes if one.kind in ("breaks-co-partitioning", "changes-order-scope")]
    others = sorted(set(old.contract.spec.streams) & set(new.contract.spec.streams))
    if not idle and len(others) > 1:
        found.append(f"{', '.join(others)} are co-partitioned: change them together, behind one fence")
    if new.lane_count != old.lane_count:
        found.append(
            f"stateful Spark queries keep their number of shuffle partitions: one that was started with "
            f"{count(old.lane_count)} to match the lanes goes on with {count(old.lane_count)}"
        )
    if not idle and weakest(answers(old.contract)) == "none":
        found.append("the old contract keeps no order of a key: there is none to keep")
    return found


def _in_place(drain: DrainGraph, new: Router, streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    steps = [
        *_first(streams, due),
        PlannedStep(
            "producers",
            "stop, and flush: every record is acknowledged or has failed",
            "a record in flight would land behind the fence, by the old contract; the pause begins here",
            streams.run,
        ),
        PlannedStep(
            "operator",
            f"record the end offset of each of the {plural(drain.old_lanes, 'old lane')}: that is the fence",
            "what is below it was placed by the old contract, and what comes behind it by the new one",
            streams.stopped,
        ),
    ]
    if drain.new_lanes != drain.old_lanes:
        steps.append(
            PlannedStep(
                "operator",
                f"grow {new.stream} to {count(drain.new_lanes)} lanes (partitions)",
                "only while producers are stopped: clients place by the partitions that they see",
                streams.stopped,
            )
        )
    return (
        *steps,
        PlannedStep(
            "readers",
            "wait until no old lane has any lag; readers that hold back each new lane until the old lanes it waits for "
            "are applied up to the fence need no wait",
            "otherwise new records of a key are applied before old ones that still wait in another lane",
            streams.status,
        ),
        PlannedStep("producers", "start again under the new contract", "their pause ends here", streams.status),
        PlannedStep(
            "operator",
            "check that what was written since keeps the new contract",
            "a producer that was not stopped still writes by the old one",
            f"keylane check {quote(streams.new_file)} --data {quote(streams.source)} --last 10m",
        ),
    )


def shard_steps(splits: int, merges: int, streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    """The steps where lanes are shards, and nothing but their ranges changes: nobody stops, and nothing is copied."""
    calls = " and ".join(
        [*([plural(splits, "split")] if splits else []), *([plural(merges, "merge")] if merges else [])]
    )
    return (
        *_first(streams, due),
        PlannedStep(
            "readers",
            "read each shard to its end before its children",
            "what a shard took before it was split is in it for good; KCL, and every reader of keylane, does this",
            streams.status,
        ),
        PlannedStep(
            "operator",
            f"make {calls}, one call at a time",
            "a shard ends as it is split or merged, and its children begin empty: where it ends is the fence, and no "
            "producer stops",
            streams.run,
        ),
        PlannedStep(
            "operator",
            "prove the order of every key along parents and children",
            "as long as the stream keeps its records anybody can",
            streams.verify,
        ),
    )


def _copied(new: Router, streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    often = "exactly once" if streams.once else "at least once"
    return (
        *_first(streams, due),
        PlannedStep(
            "operator",
            f"copy into {plural(new.lane_count, 'new lane')}, {often}, again and again until it has caught up",
            "producers and readers stay where they are meanwhile",
            streams.run,
        ),
    )


def _mirror(new: Router, streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    return (
        *_copied(new, streams, due),
        PlannedStep(
            "producers",
            "stop, and flush, when the copy has caught up",
            "what is written after the copy has ended is not copied; the pause begins here",
            streams.status,
        ),
        PlannedStep(
            "operator",
            "record the end of each old lane, the fence; copy the rest, and record where each new lane ends",
            "up to here the way back costs nothing: producers start again where they were",
            streams.stopped,
        ),
        PlannedStep(
            "producers", "start under the new contract, into the new stream", "their pause ends here", streams.status
        ),
        *_switched(streams),
    )


def _dual_mirror(new: Router, streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    return (
        *_copied(new, streams, due),
        PlannedStep(
            "producers",
            "go on with the old stream, and keep each record for the new one, when the copy has caught up",
            "nobody pauses; readers hold back what is kept until the copy has ended",
            streams.status,
        ),
        PlannedStep(
            "operator",
            "copy what is there: where that ends in each old lane is the fence; record where each new lane ends",
            "up to here the way back costs nothing: producers drop what they keep",
            streams.run,
        ),
        PlannedStep(
            "producers",
            "write what they kept behind the fences to the new stream, then every record to both streams",
            "until readers have switched, both streams have every record",
            streams.status,
        ),
        *_switched(streams),
    )


def _switched(streams: Streams) -> tuple[PlannedStep, ...]:
    return (
        PlannedStep(
            "readers",
            "apply the old stream up to the fences, and the new one from where the copies end",
            "so each record is applied once, old ones first",
            streams.status,
        ),
        PlannedStep(
            "operator",
            "prove the copy, the order and the lanes",
            "until the old stream is gone anybody can",
            streams.verify,
        ),
        PlannedStep(
            "operator",
            f"retire {streams.source} when nothing reads it any more",
            "until then it can be read again",
            streams.status,
        ),
    )


def _first(streams: Streams, due: int | None) -> tuple[PlannedStep, ...]:
    """What is done before anything is: the contract has its epoch, and the plan is in a file."""
    steps = []
    if due is not None:
        why = "a change of placement is a new epoch, and records carry it"
        command = f"keylane check {quote(streams.new_file)}"
        steps.append(PlannedStep("operator", f"raise metadata.epoch in {streams.new_file} to {due}", why, command))
    # A plan of the contract as it was before its epoch was raised is not carried out.
    if streams.saves and (due is not None or not streams.is_saved):
        why = "run, status and verify all read the plan from one file"
        steps.append(PlannedStep("operator", f"save the plan as {streams.plan}", why, streams.saves))
    return tuple(steps)
