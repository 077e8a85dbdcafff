"""A migration by splits and merges: `migrate plan`, `run`, `status` and `rollback` where lanes are shards.

    calls_between     the streams' shards and both contracts -> the calls; refused where calls alone are not enough
    run_shards, roll_back_shards, status_shards   the same verbs as `migrate_run` has them

The calls are those of `shards plan` to the layout of the new contract. Who makes them: `systems.shard_migrations`.
The certificate: `migrate_lineage`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from keylane.documents.migrate import MigrateStatusDocument, MigrationEntry, MigrationShard, MigrationStream
from keylane.errors import LaneCountError, TargetError, UsageError
from keylane.keyspace.layout import Shard, layout_of
from keylane.migration.cutover import OVER, opened, phase_of
from keylane.plan.shards import SLIVER, ShardGoal, ShardLoad, shards_plan
from keylane.systems.endpoint import open_endpoint
from keylane.systems.migrations import append_rollback, awaited_lease
from keylane.systems.resharding import Waiting, check_stream, position
from keylane.systems.shard_migrations import JournalRecord, ShardDriver, Unbegun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from keylane.documents.migrate import MigratePlanDocument
    from keylane.documents.shards import ShardsPlanDocument
    from keylane.keyspace.layout import ShardLayout
    from keylane.migration.cutover import Entry
    from keylane.migration.planner import Migration
    from keylane.pipelines.migrate_run import SavedMigration
    from keylane.router import Router
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.leases.keeper import LeaseKeeper
    from keylane.systems.resharding import StreamState
    from keylane.systems.shard_migrations import LineageShard, ShardLineage


def calls_between(
    endpoint: Endpoint, old: Router, new: Router, planned: Migration, named: Sequence[str], *, gated: bool
) -> ShardsPlanDocument:
    """The splits and merges to the shards of the new contract; UsageError where the change takes more than these.

    `named` are producers and groups: nobody stops, and the system knows no committed offsets.
    """
    if named or not gated:
        what = "splits and merges need no fence: no producer stops, and no group is asked for its offsets"
        raise UsageError.of(what, got=", ".join(named) or "--no-gate", hint="leave --producer, --group, --no-gate out")
    if obstacle := _obstacle(old, new, planned):
        hint = "--mode mirror, into another stream" if obstacle != _BY_HASH else "a partitioner with ranges"
        raise UsageError.of(f"cannot be changed by splits and merges alone: {obstacle}", hint=hint)
    state = endpoint.resharder().state()
    if not state.active:
        raise UsageError.of(
            "the stream is being changed now", got=str(endpoint.address), hint="wait until it is ACTIVE"
        )
    if state.refusal:
        raise UsageError.of(state.refusal, got=state.setting)
    layout = endpoint.layout()
    _check_shards(old, layout, str(endpoint.address))
    space = new.key_space
    goal = ShardGoal(to=layout_of(Shard(str(n), *space.range_of(n)) for n in range(len(space))))
    address = str(endpoint.address)
    plan = shards_plan(address, layout, ShardLoad(None, "none", {}), goal, endpoint.identity() or None)
    try:
        check_stream(plan, state)
    except TargetError as error:
        raise UsageError(str(error)) from None
    return plan


_BY_HASH = "the lane of a key does not follow from where its hash lies in the ranges of shards"


def _obstacle(old: Router, new: Router, planned: Migration) -> str:
    """Why a record would have another hash key under the new contract, or none that decides."""
    if any(one.facts.fold != "ranges" for one in (old, new)):
        return _BY_HASH
    if planned.drain.rule not in {"same", "ranges"}:
        return "the new contract gives keys other hash keys"
    for one in (old, new):
        spec = one.contract.spec
        if spec.hot_keys or spec.table or spec.geo:
            return "a rule of a contract puts keys elsewhere than their hash"
    if dict(old.explicit_hash_keys) != dict(new.explicit_hash_keys):
        return "the contracts give accounts different hash keys"
    return ""


def _check_shards(old: Router, layout: ShardLayout, address: str) -> None:
    """Refuse a stream whose shards are not the lanes of the old contract; what rounding makes of equal widths is."""
    wanted, found = list(old.key_space.starts), layout.starts
    if len(wanted) != len(found):
        hint = "`lanes: live` in OLD takes the shards that there are"
        raise LaneCountError.of(f"the shards of {address} are not the lanes of OLD", got=len(found), hint=hint)
    for lane, (at, there) in enumerate(zip(wanted, found, strict=True)):
        if abs(at - there) > SLIVER:
            hint = "`lanes: live` in OLD takes the shards that there are"
            what = f"the shards of {address} do not have the ranges of OLD"
            raise UsageError.of(what, got=f"lane {lane} begins at {there}", allowed=str(at), hint=hint)


def observed_shards(endpoint: Endpoint, address: str) -> MigrationStream:
    """The stream as it is; the service has no offsets, and does not say how many records there are."""
    return MigrationStream(
        address=address,
        id=endpoint.identity(),
        lanes=len(endpoint.layout().open),
        starts=[],
        ends=[],
        records=None,
        retention_seconds=endpoint.lineage().retention(),
        cleanup_policy="",
    )


def calls_of(plan: MigratePlanDocument) -> ShardsPlanDocument:
    """The calls of a plan that has some."""
    assert plan.shards is not None
    return plan.shards


def begin_shards(saved: SavedMigration) -> None:
    """Keep the plan in the journal; a stream that it cannot be carried out on is refused before that."""
    if saved.journal.plan() is None:
        state = open_endpoint(saved.address, saved.options).resharder().state()
        if state.active:
            check_stream(calls_of(saved.plan), state)
            # Refused before a journal is begun in the place of one that is gone.
            position(calls_of(saved.plan), Unbegun(), state)
    saved.journal.begin(saved.plan.as_json())


def run_shards(
    saved: SavedMigration, keeper: LeaseKeeper, patience: float, say: Callable[[str], None]
) -> MigrateStatusDocument:
    """Carry a plan out, from wherever it is, until it is over."""
    endpoint, waiting = open_endpoint(saved.address, saved.options), _waiting(keeper, patience)
    resharder, lineage = endpoint.resharder(), endpoint.lineage()
    driver = ShardDriver(
        calls_of(saved.plan), saved.journal, lineage, resharder, keeper, waiting, clock=time.time, say=say
    )
    driver.run()
    return _status(saved, lineage, resharder.state(), driver.appended)


def roll_back_shards(saved: SavedMigration, keeper: LeaseKeeper, patience: float) -> MigrateStatusDocument:
    """End a migration of which no call was made."""
    lease = awaited_lease(keeper, _waiting(keeper, patience))
    append_rollback(saved.journal, lease.term, time.time())
    endpoint = open_endpoint(saved.address, saved.options)
    return _status(saved, endpoint.lineage(), endpoint.resharder().state(), 1)


def status_shards(saved: SavedMigration) -> MigrateStatusDocument:
    """How far it is; nothing is changed."""
    endpoint = open_endpoint(saved.address, saved.options)
    return _status(saved, endpoint.lineage(), endpoint.resharder().state(), 0)


def _waiting(keeper: LeaseKeeper, patience: float) -> Waiting:
    """A wait for the service is progress: a lease is not to be lost for it."""

    def pause(seconds: float) -> None:
        keeper.note_progress()
        time.sleep(seconds)

    return Waiting(time.monotonic, pause, patience)


def _status(saved: SavedMigration, lineage: ShardLineage, state: StreamState, appended: int) -> MigrateStatusDocument:
    entries = saved.journal.entries() if saved.journal.plan() is not None else ()
    phase, calls, shards = phase_of(entries), calls_of(saved.plan), lineage.shards()
    done = _calls_done(saved, entries, state)
    return MigrateStatusDocument(
        plan=str(saved.path),
        journal=saved.journal_at,
        stream=saved.address,
        mode=saved.plan.mode,
        phase=phase,
        over=phase in OVER,
        appended=appended,
        waits_for=None,
        # A shard takes records up to its split, and its children from there on.
        pause_seconds=0.0 if opened(entries) is not None else None,
        lanes=[],
        lag=None,
        copy_lag=None,
        new_stream=saved.new_address,
        starts=[],
        seconds_left=None,
        looked_at=round(time.time(), 3),
        late_writers=[],
        entries=[
            MigrationEntry(number=one.number, phase=one.phase, at=round(one.at, 3), driver=one.claim) for one in entries
        ],
        shards=[_shard(one, side) for one, side in zip(shards, sides(calls, shards), strict=True)],
        calls_done=done,
        calls_left=len(calls.calls) - done,
    )


def _calls_done(saved: SavedMigration, entries: Sequence[Entry], state: StreamState) -> int:
    """By the stream; by the journal of one that is being changed, or that was changed again since it was over."""
    calls = calls_of(saved.plan)
    if opened(entries) is not None:
        return len(calls.calls)
    last = entries[-1] if entries else None
    if last is None or not state.active:
        return 0 if last is None else last.calls
    record = JournalRecord(saved.journal, last.claim, lambda: False, time.time)
    return position(calls, record, state)


def sides(calls: ShardsPlanDocument, shards: Sequence[LineageShard]) -> list[str]:
    """Of each shard whether it is old, kept or new: older than the migration, untouched by it, or made since."""
    begun, ended = {row.id for row in calls.before.layout}, _with_parents(calls, shards)
    after = {(row.start, row.end) for row in calls.after.layout}
    kept = {row.id for row in calls.before.layout if (row.start, row.end) in after}
    found = []
    for one in shards:
        is_old = one.shard.id in begun or one.shard.id in ended
        found.append("kept" if one.shard.id in kept else "old" if is_old else "new")
    return found


def _with_parents(calls: ShardsPlanDocument, shards: Iterable[LineageShard]) -> set[str]:
    """The shards of before and all that they descend from."""
    parents = {one.shard.id: one.shard.parents for one in shards}
    found, left = set[str](), [row.id for row in calls.before.layout]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += parents.get(one, ())
    return found


def _shard(one: LineageShard, side: str) -> MigrationShard:
    return MigrationShard.model_validate(shard_fields(one, side))


def shard_fields(one: LineageShard, side: str) -> dict[str, object]:
    """A shard as documents have it."""
    return {
        "id": one.shard.id,
        "start": str(one.shard.start),
        "end": str(one.shard.end),
        "parents": list(one.shard.parents),
        "side": side,
        "closed": one.shard.closed,
        "begins_at": str(one.begins_at),
        "ends_at": str(one.ends_at) if one.ends_at else None,
    }
