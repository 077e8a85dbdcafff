"""`keylane aggregate explain`: the load of lanes under each way of dividing the work, by what queries really had.

An aggregation writes down the events and the partial aggregates of every window that it delivers (DST/_load). What
each lane would have received follows from the rule of `aggregation.lanes`, for any number of lanes, without running
anything again.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from keylane.aggregation.lanes import DIVISIONS, WindowLoad, lane_loads, max_of_mean
from keylane.documents.aggregate import AggregateExplainDocument, DivisionLoad, HotQuery, RunningState
from keylane.errors import DataError
from keylane.pipelines.aggregate.results import figures_of
from keylane.pipelines.aggregate.run import STATE
from keylane.pipelines.aggregate.verify import batches_in, newest_manifest
from keylane.systems.endpoint import parse_address, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from keylane.aggregation.lanes import Division

#: Above this, a switch is worth it.
UNEVEN = 1.5
_HOTTEST = 10


def explain_load(target: str, lanes: int) -> AggregateExplainDocument:
    """The load of lanes by the windows that a target's aggregation has delivered."""
    folder = path_of(parse_address(target), "the target")
    windows = []
    for path in batches_in(folder / "_load"):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        windows += [WindowLoad(row["query_id"], row["window"], row["events"], row["partials"]) for row in rows]
    if not windows:
        hint = "run keylane aggregate first: what is explained is what it delivered"
        raise DataError.of("the target has no delivered windows", got=str(folder), hint=hint)
    kept = folder / STATE if (folder / STATE).is_dir() else folder
    return explained(target, windows, lanes, newest_manifest(kept), _last_metrics(folder))


def _last_metrics(folder: Path) -> dict[str, Any]:
    found = sorted((folder / "_metrics").glob("[0-9]*.json"))
    return dict(json.loads(found[-1].read_text(encoding="utf-8"))) if found else {}


def explained(
    target: str,
    windows: Sequence[WindowLoad],
    lanes: int,
    manifest: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> AggregateExplainDocument:
    """The document of some windows, with what is known of queries and state after the last batch."""
    figures = figures_of((manifest or {}).get("counts", {}).get("queries", {}))
    found = {division: lane_loads(windows, lanes, division) for division in DIVISIONS}
    by_query: Counter[str] = Counter()
    for one in windows:
        by_query[one.query] += one.events
    total = by_query.total()
    ordered = by_query.most_common()
    reached, hot = 0, 0
    for _, events in ordered:
        if reached >= 0.9 * total:
            break
        reached, hot = reached + events, hot + 1
    return AggregateExplainDocument(
        target=target,
        lanes=lanes,
        windows=len(windows),
        events=total,
        queries=len(ordered),
        queries_with_90_percent=hot,
        divisions=[
            DivisionLoad(division=name, received=sum(loads), max_of_mean=max_of_mean(loads), loads=loads)
            for name, loads in found.items()
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
        state=RunningState(
            batch=manifest["batch"],
            open_windows=metrics["open_windows"],
            state_bytes=metrics["state_bytes"],
            restore_seconds=metrics.get("restore_s", 0.0),
            longest_lag=max((0.0, *metrics["lag_s"].values())),
        )
        if manifest and metrics
        else None,
        advice=_advice({name: max_of_mean(loads) for name, loads in found.items()}, found),
    )


def _advice(uneven: Mapping[Division, float], loads: Mapping[Division, list[int]]) -> str:
    received = {name: max(found) for name, found in loads.items()}
    if uneven["query"] <= UNEVEN:
        return "by query is even enough: --by query keeps each query in one lane"
    fewer = received["query-window"] / max(1, received["query-window-partial"])
    saved = f"partial aggregates cut what the fullest lane receives to 1/{fewer:.0f}"
    if uneven["query-window"] <= UNEVEN:
        return f"--by query-window: by query the fullest lane has {uneven['query']:.1f} times the average; {saved}"
    return f"neither division is even over these windows; {saved}, so leave --no-partial out"
