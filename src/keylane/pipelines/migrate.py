"""`migrate plan`: two contract files, and the streams where they are given, as a planned migration.

What is planned: `migration.planner`. Which lanes wait for which: `migration.drain`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from shlex import join, quote
from typing import TYPE_CHECKING, Final

from keylane.contract.parse import load_contract
from keylane.documents.migrate import (
    MigratePlanDocument,
    MigrationChange,
    MigrationFigure,
    MigrationPausePart,
    MigrationSide,
    MigrationStep,
    MigrationStream,
    PlannedCost,
)
from keylane.errors import LaneCountError, UnsupportedError, UsageError
from keylane.migration.cost import Figure, RunTerms, cost_of
from keylane.migration.planner import Streams, plan_migration, shard_steps
from keylane.numbers import plural
from keylane.pipelines.migrate_mirror import CAUGHT_UP
from keylane.pipelines.migrate_run import by_key_alone, listed_parents
from keylane.pipelines.migrate_shards import calls_between, observed_shards
from keylane.router import Router
from keylane.systems.endpoint import open_endpoint, parse_address, resolved
from keylane.systems.migration_journal import check_producer
from keylane.systems.migrations import SETTLE, SOON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract
    from keylane.documents.shards import ShardsPlanDocument
    from keylane.migration.planner import Migration, Mode
    from keylane.systems.endpoint import StreamOptions


#: The note on a mirror of a stream that has had another contract before: which keys it concerns is not known yet.
TWO_LANES: Final = (
    "the old contract is not the first of its stream: a key that an earlier change has put into two of its lanes is "
    "copied as those lanes come, and may lose its order; not where the records of before have expired"
)
#: What is said of a mirror into a system without transactions.
AT_LEAST_ONCE: Final = (
    "records are copied at least once: the new stream has no transactions. What a copy that was killed writes again is "
    "marked by the tag keylane.attempt, in the order of its key, and counted by verify"
)


def plan_migrate(
    old: str,
    new: str,
    *,
    source: str | None = None,
    target: str | None = None,
    lanes: tuple[int | None, int | None] = (None, None),
    mode: Mode | None = None,
    producers: Sequence[str] = (),
    groups: Sequence[str] = (),
    gated: bool = True,
    dual: bool = False,
    options: StreamOptions | None = None,
    saved: str | None = None,
    again: str = "",
) -> MigratePlanDocument:
    """The migration from the contract in one file to that in another.

    `source` and `target` are addresses; each is asked for its lanes, which must be those of its contract. Without them
    the plan is from the contracts alone, and `lanes` gives the counts of those whose lanes are live. `producers` stop
    by themselves, the committed offsets of `groups` show what is drained; with `dual` producers write to both streams
    of a mirror instead of stopping. All of these are for carrying it out. The steps' commands name the file where the
    plan is `saved`, or plan.json, and how to save it there: by the same options, of which `again` are more.
    """
    for name in producers:
        check_producer(name)
    if not all(groups):
        raise UsageError.of("a reader group has a name", got="''")
    if not gated and not groups:
        what = "without the gate producers wait for readers to drain, and no reader group is named"
        raise UsageError.of(what, hint="--group NAME for each of them, or leave --no-gate out")
    # Producers and readers go by the plan in environments of their own.
    source, target = (one and resolved(one) for one in (source, target))
    was, now = load_contract(old), load_contract(new)
    before = _router(was, old, source, lanes[0], options, is_there=True)
    after = _router(now, new, target, lanes[1], options, is_there=False)
    once = target is None or open_endpoint(target, options).writes_once
    named = source or f"kafka:{was.spec.streams[0]}"
    words = ["keylane", "migrate", "plan", old, new, "--from", named]
    # A mirror is of two streams, and a plan that lacks one of them is not carried out.
    streams_of = was.spec.streams[0], now.spec.streams[0]
    into = target or (f"kafka:{streams_of[1]}" if streams_of[0] != streams_of[1] else None)
    given = {"--to": into, "--old-lanes": lanes[0], "--new-lanes": lanes[1], "--mode": mode}
    words += [str(word) for option, value in given.items() if value is not None for word in (option, value)]
    words += [word for name in producers for word in ("--producer", name)]
    words += [word for name in groups for word in ("--group", name)]
    words += ["--no-gate"] * (not gated) + ["--dual-write"] * dual
    file = saved or PLAN_FILE
    saves = f"{join(words)}{again} --out {quote(file)}{' --force' if saved else ''}"
    ready = saved is not None and source is not None and into == target
    streams = Streams(named, target or "", old, new, once, file, saves, ready, bool(producers))
    planned = plan_migration(before, after, streams, mode, dual=dual)
    calls = None
    if source is not None and planned.mode == "in-place" and planned.steps:
        planned, calls = _by_calls(source, (before, after), planned, streams, [*producers, *groups], options, gated)
    if dual:
        _check_dual(planned, producers, source, target, gated=gated)
    if planned.mode == "mirror" and planned.steps and target is not None:
        _check_target(source, target, now, producers)
        _check_target_shards(target, after, producers, options)
    observed = _observed(source, planned, after.lane_count, groups, options, calls) if source else None
    terms = _terms(was, now, producers, gated=gated, dual=dual)
    return MigratePlanDocument(
        mode=planned.mode,
        reason=planned.reason,
        old=_side(before, old, source),
        new=_side(after, new, target),
        moved_share=planned.moved.share,
        moved_basis=planned.moved.basis,
        named_keys=planned.drain.named,
        named_keys_moved=planned.drain.named_moved,
        drain_rule=planned.drain.rule,
        parents_at_most=planned.drain.fan_in,
        drain=listed_parents(planned.drain),
        steps=[
            MigrationStep(step=n, who=one.who, action=one.action, why=one.why, command=one.command or None)
            for n, one in enumerate(planned.steps, 1)
        ],
        breaks=[*planned.breaks, *_breaks_of_copies(planned, was, once=once)],
        changes=[MigrationChange(kind=one.kind, where=one.where, message=one.message) for one in planned.changes],
        epoch_to_raise=planned.epoch_to_raise,
        producers=sorted(set(producers)),
        groups=sorted(set(groups)),
        gated=gated,
        dual=dual,
        cost=_cost(before, after, planned, source, target, terms, options),
        observed=observed,
        copies=None if once or planned.mode != "mirror" else "at-least-once",
        shards=calls,
    )


#: Where a plan is saved for which no file is given.
PLAN_FILE: Final = "plan.json"


def _breaks_of_copies(planned: Migration, was: Contract, *, once: bool) -> list[str]:
    """What a copy into another stream does not keep."""
    if planned.mode != "mirror" or not planned.steps:
        return []
    return [*([] if once else [AT_LEAST_ONCE]), *([TWO_LANES] if was.metadata.epoch > 1 else [])]


def _by_calls(
    source: str,
    routers: tuple[Router, Router],
    planned: Migration,
    streams: Streams,
    named: list[str],
    options: StreamOptions | None,
    gated: bool,
) -> tuple[Migration, ShardsPlanDocument | None]:
    """The migration by splits and merges, with their calls, where the stream's lanes are changed so."""
    endpoint = open_endpoint(source, options)
    if not endpoint.splits_lanes:
        return planned, None
    calls = calls_between(endpoint, *routers, planned, named, gated=gated)
    steps = shard_steps(calls.splits, calls.merges, streams, planned.epoch_to_raise)
    return replace(planned, steps=steps), calls


def _check_dual(
    planned: Migration, producers: Sequence[str], source: str | None, target: str | None, *, gated: bool
) -> None:
    """Refuse producers that write to both streams where that keeps no order, or nobody could do it."""
    if planned.mode != "mirror":
        raise UsageError.of(
            "only a mirror has two streams to write to", got=planned.mode, hint="leave --dual-write out"
        )
    if not producers:
        hint = "--producer NAME for each MigratingProducer"
        raise UsageError.of("producers that write to both streams are named: each has to acknowledge it", hint=hint)
    if not gated:
        hint = "leave --no-gate out, or --dual-write"
        raise UsageError.of("while producers write to both streams, readers have to honour the gate", hint=hint)
    for address in filter(None, (source, target)):
        if not open_endpoint(address).migrating_producers:
            raise UnsupportedError.of("keylane has no producer that writes to both streams there", got=address)


def _check_target(source: str | None, target: str, contract: Contract, producers: Sequence[str]) -> None:
    """Refuse a mirror into the old stream, and producers that would write to another stream than the copy."""
    name = parse_address(target).name
    if source is not None and parse_address(source) == parse_address(target):
        raise UsageError.of("a mirror needs another stream", got=target, hint="--to the stream of the new contract")
    if producers and name not in contract.spec.streams:
        hint = f"name it in spec.streams of the new contract, or --to another address than {target}"
        got = ", ".join(contract.spec.streams)
        raise UsageError.of("producers would write to another stream than records are copied into", got=got, hint=hint)


def _check_target_shards(target: str, router: Router, producers: Sequence[str], options: StreamOptions | None) -> None:
    """Refuse a mirror into a stream of shards that the copy would refuse later, or that nobody could judge."""
    endpoint = open_endpoint(target, options)
    if not endpoint.splits_lanes:
        return
    if producers:
        what = "keylane has no producer that goes on into a stream of shards by itself"
        raise UnsupportedError.of(what, got=target, hint="leave --producer out: stop them, then --producers-stopped")
    if router.contract.spec.lanes == "live":
        what = "a mirror into a stream of shards needs a lane count: ranges that change would be no lanes to judge by"
        raise UsageError.of(what, got="lanes: live", hint="`lanes: N` in the new contract")
    there = endpoint.lanes_there([endpoint.address.name])[endpoint.address.name]
    found, wanted = endpoint.layout().starts if there else None, list(router.key_space.starts)
    if found is None and not router.key_space.is_equal:
        hint = "create it with these shards first: keylane shards plan, keylane shards apply"
        raise UsageError.of("a stream is made with shards of equal width only", got=target, hint=hint)
    if found is not None and found != wanted:
        got = f"{plural(len(found), 'shard')} with other ranges than the {plural(len(wanted), 'lane')} of the contract"
        hint = "keylane shards plan --to has the calls; or a stream that is not there yet"
        raise UsageError.of("the new stream does not have the shards of the new contract", got=got, hint=hint)


def _observed(
    source: str,
    planned: Migration,
    lanes: int,
    groups: Sequence[str],
    options: StreamOptions | None,
    calls: ShardsPlanDocument | None,
) -> MigrationStream | None:
    """The stream as it is; refused where it cannot be changed as planned. None where its system changes no lanes."""
    if not planned.steps:
        return None
    if calls is not None:
        return observed_shards(open_endpoint(source, options), source)
    try:
        with open_endpoint(source, options).migrator() as migrator:
            found = migrator.observe()
            if planned.mode == "in-place":
                migrator.check(lanes, groups)
            else:
                migrator.check_missed(groups)
    except UnsupportedError:
        return None
    return MigrationStream(
        address=source,
        id=found.id,
        lanes=found.lanes,
        starts=list(found.starts),
        ends=list(found.ends),
        records=found.records,
        retention_seconds=found.retention,
        cleanup_policy=found.cleanup,
    )


def _terms(was: Contract, now: Contract, producers: Sequence[str], *, gated: bool, dual: bool) -> RunTerms:
    """What the pause of a run depends on, and whether keys of records can be placed by both contracts."""
    old, new = was.spec.key, now.spec.key
    same = (old.fields, old.encodings) == (new.fields, new.encodings)
    comparable = same and by_key_alone(was) and by_key_alone(now)
    return RunTerms(SOON, SETTLE, CAUGHT_UP, tuple(producers), gated, dual, comparable)


def _cost(
    before: Router,
    after: Router,
    planned: Migration,
    source: str | None,
    target: str | None,
    terms: RunTerms,
    options: StreamOptions | None,
) -> PlannedCost | None:
    """What it moves and needs, asked of the streams that are given; None where there is nothing to do."""
    if not planned.steps:
        return None
    measure = None
    if source is not None:
        there = open_endpoint(source, options)
        measure = there.measured()
        if planned.mode == "mirror" and target is not None:
            terms = replace(terms, replicas=open_endpoint(target, options).replicas_for(there))
    found = cost_of(before, after, planned, measure, terms)
    named = ((one.name, getattr(found, one.name)) for one in fields(found))
    figures = {name: _figure(one) for name, one in named if isinstance(one, Figure)}
    parts = [MigrationPausePart(what=one.what, seconds=one.seconds, basis=one.basis) for one in found.pause_parts]
    return PlannedCost(**figures, pause_parts=parts, records_read=found.records_read)


def _figure(figure: Figure) -> MigrationFigure:
    return MigrationFigure(value=figure.value, known=figure.known, basis=figure.basis)


def _router(
    contract: Contract,
    path: str,
    address: str | None,
    lanes: int | None,
    options: StreamOptions | None,
    *,
    is_there: bool,
) -> Router:
    """The contract over the lanes that it has, or that its stream has."""
    live = contract.spec.lanes == "live"
    if address is None:
        if live and lanes is None:
            option = "--from or --old-lanes" if is_there else "--to or --new-lanes"
            raise LaneCountError.of(f"{path} has live lanes, and no stream was given to ask", hint=option)
        return Router(contract, lanes=lanes)
    endpoint = open_endpoint(address, options)
    if not endpoint.own_lanes:
        if live and lanes is None:
            option = "--old-lanes N" if is_there else "--new-lanes N"
            raise LaneCountError.of(f"{path} has live lanes, and {address} has none of its own", hint=option)
        return Router(contract, lanes=lanes)
    there = endpoint.lanes_there([endpoint.address.name])[endpoint.address.name]
    if not there and is_there:
        raise LaneCountError.of("the stream to migrate is not there", got=address)
    if not there and live and lanes is None:
        hint = "--new-lanes N"
        raise LaneCountError.of(f"{address} is not there yet, and {path} has live lanes", hint=hint)
    if not there or lanes is not None or not is_there:
        # A stream that is to be changed has still its old lanes; only one that is new can contradict its contract.
        return Router(contract, lanes=lanes if lanes is not None or not live else there)
    if endpoint.splits_lanes and live:
        return Router(contract, key_space=endpoint.layout().key_space)
    return Router(contract, lanes=there)


def _side(router: Router, path: str, address: str | None) -> MigrationSide:
    contract = router.contract
    return MigrationSide(
        file=path,
        name=contract.metadata.name,
        epoch=contract.metadata.epoch,
        fingerprint=contract.fingerprint,
        streams=list(contract.spec.streams),
        lanes=router.lane_count,
        partitioner=contract.spec.partitioner,
        address=address,
    )
