"""`shards plan` and `shards apply`: layouts and loads from where they are, and a saved plan on its stream.

What is planned: `plan.shards`. How a plan is carried out: `systems.resharding`. The files: `shards_files`.
"""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.contract.shards import hash_key_in, hash_key_problem
from keylane.documents.shards import AppliedCall, ShardRow, ShardsApplyDocument, ShardsPlanDocument
from keylane.errors import DataError, UsageError
from keylane.keyspace.layout import layout_from_json
from keylane.numbers import count
from keylane.pipelines.shards_files import csv_rows, text_in
from keylane.systems.endpoint import open_endpoint, parse_address
from keylane.systems.resharding import Waiting, carry_out, check_plan, check_stream, open_record, position

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.keyspace.layout import ShardLayout
    from keylane.keyspace.load import LoadUnit
    from keylane.plan.shards import ShardLoad
    from keylane.systems.resharding import PlanRecord, StreamState

#: How the load of a stream is measured: its records are read, or its service is asked for its metrics.
Measure: TypeAlias = Literal["read", "service"]
#: How far metrics are looked back, in seconds, where nobody says.
LAST_HOUR: Final = 3600.0
RECORD_ENDING: Final = ".record"
#: Shards that an error names.
MOST_NAMED: Final = 3


def plan_shards(
    layout: str,
    *,
    cap: float | None = None,
    to: Path | None = None,
    shards: int | None = None,
    tolerance: int = 0,
    profile: Path | None = None,
    load: Path | None = None,
    registry: Path | None = None,
    measure: Measure | None = None,
    unit: LoadUnit = "records",
    last: float | None = None,
    show_keys: bool = False,
) -> ShardsPlanDocument:
    """The plan from a layout, which is a file or the address of a stream, to a cap or to another layout.

    With `measure` the stream is read, or its service asked what each shard takes, over the `last` seconds.
    """
    _check_goal(cap, to, shards, tolerance)
    if load and (profile or registry):
        raise UsageError.of("--load goes with no --profile and no --registry: loads come from one place")
    if measure and (profile or load or (registry and measure == "service")):
        given = "--profile" if profile else "--load" if load else "--registry"
        raise UsageError.of(f"--measure {measure} goes with no {given}: loads come from one place")
    if last is not None and measure is None:
        raise UsageError.of("--last goes with --measure")
    from keylane.plan.shards import ShardGoal, shards_plan

    today, stream_id = layout_at(layout)
    if measure is not None:
        found = _measured(layout, measure, unit, last, registry, show_keys=show_keys)
    else:
        if cap is not None and today.loads is None and not (profile or load or registry):
            raise _without_loads(layout, today)
        found = _load(today, needed=cap is not None, profile=profile, load=load, registry=registry, show_keys=show_keys)
    goal = ShardGoal(cap, shards, None if to is None else layout_in(to), tolerance)
    return shards_plan(layout, today, found, goal, stream_id)


def _without_loads(layout: str, today: ShardLayout) -> UsageError:
    """What to do where a cap was given and no load: a stream can be profiled, a file can have loads."""
    without = [shard.id for shard in today.open if shard.load is None]
    more = f" and {count(len(without) - MOST_NAMED)} more" if without[MOST_NAMED:] else ""
    hint = "a `load` for every shard in the file, or --profile, --load or --registry"
    if not parse_address(layout).is_path:
        hint = "--measure read, --measure service, --profile, --load or --registry"
    what, got = "--cap needs the load of every shard, and it is not known", ", ".join(without[:MOST_NAMED]) + more
    return UsageError.of(what, got=got, hint=hint)


def _check_goal(cap: float | None, to: Path | None, shards: int | None, tolerance: int) -> None:
    if (cap is None) == (to is None):
        raise UsageError.of("--cap or --to is needed, and one of them only")
    if cap is not None and not (math.isfinite(cap) and cap > 0):
        raise UsageError.of("--cap takes a load above 0", got=cap)
    if shards is not None and cap is None:
        raise UsageError.of("--shards goes with --cap: a layout has its number of shards")
    if tolerance and to is None:
        raise UsageError.of("--tolerance goes with --to")


def layout_at(given: str) -> tuple[ShardLayout, str | None]:
    """The shards of a file, or of the stream at an address with what the system knows it by."""
    address = parse_address(given)
    if address.is_path:
        return layout_in(Path(address.name)), None
    endpoint = open_endpoint(address)
    return endpoint.layout(), endpoint.identity() or None


def layout_in(path: Path) -> ShardLayout:
    """The layout in a file; UsageError names what is wrong with it."""
    return layout_from_json(text_in(path), str(path))


def loads_in(path: Path) -> list[tuple[int, float]]:
    """The rows of a CSV of hash keys and loads."""
    rows, problems = [], []
    for line, row in csv_rows(path, ("hash_key", "load"), "hash_key,load as the first line"):
        text = row["load"]
        try:
            # Python's own form of numbers has digits of other scripts, and underscores.
            load = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            load = math.nan
        key = hash_key_in(row["hash_key"])
        if key is None:
            problems.append(f"line {line}: {hash_key_problem(row['hash_key'])}: got {row['hash_key']!r}")
        elif not 0 <= load < math.inf:
            problems.append(f"line {line}: not a load: got {row['load']!r}")
        else:
            rows.append((key, load))
    if not math.isfinite(sum(load for _, load in rows)):
        problems.append("the loads add up to more than a number holds")
    if not rows and not problems:
        problems.append("the file has no loads, only names of columns")
    if problems:
        raise UsageError.of(f"{path}: {'; '.join(problems[:5])}")
    return rows


def _load(
    today: ShardLayout, *, needed: bool, profile: Path | None, load: Path | None, registry: Path | None, show_keys: bool
) -> ShardLoad:
    """The load, from the most exact source that was given."""
    from keylane.keyspace.load import from_layout, from_points
    from keylane.plan.shards import ShardLoad, profile_load

    entries = _entries(registry) if registry else []
    if profile is not None:
        from keylane.systems.profiles import read_profile

        return profile_load(read_profile(profile), {one.account: one.key for one in entries}, named=show_keys)
    if registry is not None:
        names = {one.key: one.account for one in entries} if show_keys else {}
        return ShardLoad(from_points((one.key, one.weight / 1_000) for one in entries), "registry", names)
    if load is not None:
        return ShardLoad(from_points(loads_in(load)), "keys", {})
    if needed or today.loads is not None:
        return ShardLoad(from_layout(today), "layout", {})
    return ShardLoad(None, "none", {})


def _measured(
    layout: str, measure: Measure, unit: LoadUnit, last: float | None, registry: Path | None, *, show_keys: bool
) -> ShardLoad:
    """The load of the stream, as it is read or reported now."""
    from keylane.keyspace.load import from_ranges
    from keylane.plan.shards import ShardLoad

    if parse_address(layout).is_path:
        hint = "the address of the stream as --layout, or --profile, --load or --registry"
        raise UsageError.of("--measure needs a stream, and the layout is of a file", got=layout, hint=hint)
    endpoint = open_endpoint(layout)
    if measure == "service":
        found = endpoint.reported_load(unit, LAST_HOUR if last is None else last)
        return ShardLoad(from_ranges({}, found.ranges), "service", {}, unit, found.notes)
    accounts = {one.account: one.key for one in _entries(registry)} if registry else {}
    found = endpoint.read_load(unit, last, accounts)
    keys = found.keys if show_keys else {}
    return ShardLoad(from_ranges(found.points, found.ranges), "stream", keys, unit, found.notes)


def _entries(registry: Path) -> list[Any]:
    from keylane.systems.hash_key_registry import open_registry

    with open_registry(registry) as found:
        return list(found.entries())


def read_shards_plan(path: Path) -> tuple[ShardsPlanDocument, str]:
    """The plan in a file, and its text; UsageError where it is none."""
    text = text_in(path)
    hint = "keylane shards plan --out FILE saves one"
    try:
        plan = ShardsPlanDocument.from_json(json.loads(text))
    except (ValueError, RecursionError, DataError):
        raise UsageError.of("not a saved plan of shards", got=str(path), hint=hint) from None
    check_plan(plan)
    return plan, text


def apply_shards(
    path: Path,
    *,
    stream: str | None = None,
    record: Path | None = None,
    yes: bool = False,
    waiting: Waiting | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> ShardsApplyDocument:
    """Carry a saved plan out with `yes`, otherwise look how far it is; `stream` where the plan names no address."""
    plan, text = read_shards_plan(path)
    address = parse_address(stream or plan.source)
    if address.is_path:
        hint = "--stream ADDRESS, as kinesis://eu-west-1/accounts"
        if stream is not None:
            raise UsageError.of("--stream is not the address of a stream", got=stream, hint=hint)
        raise UsageError.of("the plan was made of a file, and does not name its stream", got=plan.source, hint=hint)
    kept = record or path.with_name(path.name + RECORD_ENDING)
    resharder = open_endpoint(address).resharder()
    with open_record(kept, text, str(address), path) as known:
        if yes:
            before = known.done
            wait = waiting or Waiting(time.monotonic, time.sleep)
            done = carry_out(plan, resharder, known, wait, say).done
            return _document(path, plan, str(address), kept, resharder.state(), done, done - before, applied=True)
        state = resharder.state()
        done = _looked_at(plan, known, state)
        return _document(path, plan, str(address), kept, state, done, 0, applied=False)


def _looked_at(plan: ShardsPlanDocument, known: PlanRecord, state: StreamState) -> int:
    """How far the plan is; of a stream that is being changed what the record says."""
    if not state.active:
        return known.done
    check_stream(plan, state)
    return position(plan, known, state)


def _document(
    path: Path,
    plan: ShardsPlanDocument,
    stream: str,
    record: Path,
    state: StreamState,
    done: int,
    now: int,
    *,
    applied: bool,
) -> ShardsApplyDocument:
    return ShardsApplyDocument(
        plan=str(path),
        stream=stream,
        record=str(record),
        applied=applied,
        done=done,
        now=now,
        left=len(plan.calls) - done,
        calls=[
            AppliedCall(step=n, call=call.call, at=call.at, state="done" if n <= done else "left")
            for n, call in enumerate(plan.calls, 1)
        ],
        layout=[ShardRow(id=one.id, start=str(one.start), end=str(one.end), load=None) for one in state.layout.open],
    )
