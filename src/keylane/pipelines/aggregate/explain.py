"""The load of lanes under each way of dividing the work, by what queries really had: `aggregate explain`, and `plan`.

    explain_load   one number of lanes under the three divisions, and which queries are hot, late or failing
    plan_load      which division and how many lanes, and whether what runs should change

An aggregation writes down the events and the partial aggregates of every window that it delivers (DST/_load). What
each lane would have received follows from the rule of `aggregation.lanes`, for any number of lanes, without running
anything again; the choice is that of `aggregation.choose` for both.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from keylane.aggregation.choose import UNEVEN, Running, best_lanes, divided
from keylane.aggregation.lanes import WindowLoad, max_over_mean
from keylane.documents.aggregate import (
    AggregateExplainDocument,
    AggregatePlanDocument,
    DivisionLoad,
    HotQuery,
    PlannedDivision,
    RunningDivision,
    RunningState,
)
from keylane.errors import DataError, UsageError
from keylane.pipelines.aggregate.results import figures_of
from keylane.pipelines.aggregate.run import STATE
from keylane.pipelines.aggregate.verify import batches_in, newest_manifest
from keylane.systems.endpoint import parse_address, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from keylane.aggregation.choose import Divided

_HOTTEST: Final = 10
#: What a source of `explain` is called in errors.
PLACE: Final = "what is explained, of a topic or stream its state folder,"


def explain_load(target: str, lanes: int) -> AggregateExplainDocument:
    """The load of lanes by the windows that a target's aggregation has delivered."""
    folder = path_of(parse_address(target), PLACE)
    windows = delivered_windows(folder)
    kept = folder / STATE if (folder / STATE).is_dir() else folder
    return explained(target, windows, lanes, newest_manifest(kept), _last_metrics(folder))


def plan_load(target: str, counts: Sequence[int] | None, limit: float | None = None) -> AggregatePlanDocument:
    """Which division, and which of some lane counts, by the same windows; without counts, the one that runs.

    `limit` is the fullest lane that is allowed, over the mean.
    """
    folder = path_of(parse_address(target), PLACE)
    windows = delivered_windows(folder)
    running = running_as(_last_metrics(folder))
    if counts is None and running is None:
        got = "no metrics that say how the aggregation runs"
        raise UsageError.of("the number of lanes is not known", got=got, allowed="--lanes N or LOW..HIGH")
    allowed = UNEVEN if limit is None else limit
    chosen, each = best_lanes(windows, counts or [running.lanes if running else 1], running, allowed)
    return AggregatePlanDocument(
        target=target,
        running=_row(running),
        windows=len(windows),
        events=sum(one.events for one in windows),
        max_over_mean=allowed,
        met=limit is None or chosen.even,
        changes=chosen.changes(running),
        chosen=_chosen(chosen),
        options=_options(chosen),
        anew=chosen.takes_anew(running),
        candidates=[one for count in each for one in _planned(count)],
        advice=chosen.says,
    )


def running_as(metrics: Mapping[str, Any]) -> Running | None:
    """How an aggregation divided its windows, by the metrics of a batch; None where they do not say."""
    known = metrics.get("running")
    return Running(known["by"], known["partial"], known["lanes"]) if known else None


def delivered_windows(folder: Path) -> list[WindowLoad]:
    """What an aggregation wrote down of every window that it delivered."""
    windows = []
    for path in batches_in(folder / "_load"):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        windows += [WindowLoad(row["query_id"], row["window"], row["events"], row["partials"]) for row in rows]
    if not windows:
        hint = "run keylane aggregate first: what is explained is what it delivered"
        raise DataError.of("the target has no delivered windows", got=str(folder), hint=hint)
    return windows


def _last_metrics(folder: Path) -> dict[str, Any]:
    found = sorted((folder / "_metrics").glob("[0-9]*.json"))
    try:
        return dict(json.loads(found[-1].read_text(encoding="utf-8"))) if found else {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError.of("the metrics of the aggregation are damaged", got=f"{found[-1]}: {error}") from None


def explained(
    target: str,
    windows: Sequence[WindowLoad],
    lanes: int,
    manifest: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> AggregateExplainDocument:
    """The document of some windows, with what is known of queries and state after the last batch."""
    figures = figures_of((manifest or {}).get("counts", {}).get("queries", {}))
    running = running_as(metrics or {})
    found = divided(windows, lanes, running)
    by_query: Counter[str] = Counter()
    for one in windows:
        by_query[one.query] += one.events
    total = by_query.total()
    ordered = by_query.most_common()
    return AggregateExplainDocument(
        target=target,
        lanes=lanes,
        windows=len(windows),
        events=total,
        queries=len(ordered),
        queries_with_90_percent=_with_nine_tenths([events for _, events in ordered], total),
        divisions=[
            DivisionLoad(division=name, received=sum(loads), max_over_mean=max_over_mean(loads), loads=loads)
            for name, loads in found.loads.items()
        ],
        hottest=[
            HotQuery(query_id=query, events=events, share=events / total if total else 0.0)
            for query, events in ordered[:_HOTTEST]
        ],
        late=sorted(
            (one for one in figures if one.dropped or one.corrected),
            key=lambda one: (-one.dropped - one.corrected, one.query_id),
        ),
        failing=[one for one in figures if one.errors or one.unfit],
        state=_state(manifest, metrics) if manifest and metrics else None,
        running=_row(running),
        chosen=_chosen(found),
        advice=found.says,
    )


def _with_nine_tenths(events: Iterable[int], total: int) -> int:
    reached, hot = 0, 0
    for number in events:
        if reached >= 0.9 * total:
            break
        reached, hot = reached + number, hot + 1
    return hot


def _state(manifest: Mapping[str, Any], metrics: Mapping[str, Any]) -> RunningState:
    return RunningState(
        batch=manifest["batch"],
        open_windows=metrics["open_windows"],
        state_bytes=metrics["state_bytes"],
        restore_seconds=metrics.get("restore_s", 0.0),
        longest_lag=max((0.0, *metrics["lag_s"].values())),
    )


def _row(running: Running | None) -> RunningDivision | None:
    return RunningDivision(by=running.by, partial=running.partial, lanes=running.lanes) if running else None


def _chosen(one: Divided) -> RunningDivision:
    return RunningDivision(by=one.by, partial=one.partial, lanes=one.lanes)


def _options(one: Divided) -> list[str]:
    return ["--by", one.by, "--lanes", str(one.lanes), *([] if one.partial else ["--no-partial"])]


def _planned(one: Divided) -> list[PlannedDivision]:
    return [
        PlannedDivision(
            division=name,
            lanes=one.lanes,
            received=sum(loads),
            fullest=max(loads),
            max_over_mean=max_over_mean(loads),
            chosen=name == one.division,
        )
        for name, loads in one.loads.items()
    ]
