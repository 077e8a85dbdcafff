"""Standing queries on the real pipeline: an hour of events, aggregated by `keylane aggregate`, and what its lanes had.

1.5 % of the queries match 90 % of the events. The aggregation itself runs on Spark, over folders, in several batches;
its loads are what it wrote down of every window that it delivered (`_load`), divided by the rule of `aggregate explain`
and compared with what its lanes counted (`_metrics`). Its results are judged by `aggregate verify`. What is in the
folder afterwards: `events/`, `queries.json`, `queries.sqlite`, `results/`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane.aggregation.lanes import DIVISIONS, lane_loads, lane_of
from keylane.documents.demo import StandingArrival, StandingDivision, StandingQueries, StandingQuery
from keylane.errors import CountError, TargetError
from keylane.measure.balance import max_over_mean
from keylane.numbers import count
from keylane.pipelines.aggregate.explain import delivered_windows, explain_load
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.pipelines.aggregate.verify import batches_in, verify_results
from keylane.pipelines.demo.traffic import DAY, HOUR, MINUTE, draw, hot_queries, query_weights
from keylane.systems.query_registry import checked, open_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.aggregation.lanes import Division, WindowLoad
    from keylane.documents.aggregate import AggregateDocument, AggregateVerifyDocument

LANES: Final = 16
#: Files of events, and how many of them make a batch.
FILES, FILES_IN_A_BATCH = 8, 2
BEGINS, MINUTES = 9, 60
#: Events come up to so much after their time; windows wait longer, so that none is late.
DELAY, LATENESS = 20, 30
SHOWN: Final = 8


def events(rng: np.random.Generator, queries: int, size: int) -> pa.Table:
    """An hour of trades in the order in which they arrive. Columns ts, symbol, amount.

    Each query watches one symbol, so the weights of symbols are those of queries; which are hot is drawn.
    """
    symbol = rng.permutation(queries)[draw(rng, query_weights(rng, queries), size)]
    time = np.sort(rng.integers(0, MINUTES * MINUTE, size))
    arrival = np.argsort(time + rng.integers(0, DELAY * 1_000_000, size), kind="stable")
    begins = int(DAY.timestamp()) * 1_000_000 + BEGINS * HOUR
    return pa.table(
        {
            "ts": pa.array(begins + time[arrival], pa.timestamp("us", "UTC")),
            "symbol": pa.array([_symbol(number) for number in range(queries)]).take(pa.array(symbol[arrival])),
            "amount": pa.array(rng.integers(1, 10_000, size)),
        }
    )


def definitions(queries: int) -> list[dict[str, Any]]:
    """Every query: one symbol, its trades and their sum in each minute."""
    return [
        {
            "id": f"watch-{number:04}",
            "filter": f"symbol = '{_symbol(number)}'",
            "aggregates": {"trades": "count(*)", "total": "sum(amount)"},
            "window": "1 minute",
            "lateness": f"{LATENESS} seconds",
            "time": "ts",
        }
        for number in range(queries)
    ]


def _symbol(number: int) -> str:
    return f"S{number:04}"


def run_standing(
    spark: SparkSession, folder: Path, seed: int, queries: int, size: int, say: Callable[[str], None]
) -> StandingQueries:
    """Make the hour, register the queries, aggregate, and count. What an earlier run left there goes first."""
    shutil.rmtree(folder, ignore_errors=True)
    source, registry, target = folder / "events", folder / "queries.sqlite", folder / "results"
    _write(events(np.random.default_rng([seed, *b"standing"]), queries, size), source)
    known = definitions(queries)
    (folder / "queries.json").write_text(json.dumps(known, indent=1), encoding="utf-8")
    with open_queries(str(registry), create=True) as opened:
        opened.add(checked(known))
    say(f"standing queries: {count(queries)} registered, {count(size)} events made, {count(hot_queries(queries))} hot")
    options = AggregateOptions(lanes=LANES, max_files=FILES_IN_A_BATCH)
    done = aggregate(str(source), str(target), str(registry), options, spark=spark, say=say)
    say(f"standing queries: {count(done.windows)} results in {done.batches} batches, on {done.lanes} lanes")
    found = standing_figures(target, done)
    by_query = found.divisions[0].max_over_mean
    say(f"standing queries: by query the fullest lane holds {by_query:.2f} times the mean; results are in order")
    return found


def _write(table: pa.Table, source: Path) -> None:
    """The events in files, each of which came a second after the one before.

    Spark takes files by when they were changed, to the millisecond, and those of one millisecond in any order: events
    of a file that is taken after a newer one would be late.
    """
    source.mkdir(parents=True)
    rows = -(-len(table) // FILES)
    for part in range(FILES):
        path = source / f"part-{part}.parquet"
        pq.write_table(table.slice(part * rows, rows), path)
        came = int(DAY.timestamp()) + part
        os.utime(path, (came, came))


def standing_figures(target: Path, done: AggregateDocument) -> StandingQueries:
    """What the lanes of a finished aggregation had, and whether its results are in order; an error where not."""
    verdict = verify_results(str(target))
    check_order(verdict)
    if done.late:
        raise CountError.of("events of the standing queries came late", got=done.late, allowed="0")
    explained = explain_load(str(target), done.lanes)
    windows = delivered_windows(target)
    cells = {division: minute_loads(windows, done.lanes, division) for division in DIVISIONS}
    _check_loads(target, {one.division: one.loads for one in explained.divisions}, cells)
    arrivals = _arrivals(target, [one.query_id for one in explained.hottest[:SHOWN]])
    return StandingQueries(
        queries=len(done.queries),
        queries_with_90_percent=explained.queries_with_90_percent,
        window="1 minute",
        begins=f"{BEGINS:02}:00",
        minutes=MINUTES,
        events=done.records,
        matched=done.matched,
        late=done.late,
        lanes=done.lanes,
        batches=done.batches,
        results=verdict.results,
        missing=verdict.missing,
        twice=verdict.twice,
        out_of_order=verdict.out_of_order,
        divisions=[
            StandingDivision(
                division=division,
                received=int(found.sum()),
                max_over_mean=max_over_mean(found.sum(axis=1)),
                fullest_lane=int(found.sum(axis=1).argmax()),
                fullest=int(found.sum(axis=1).max()),
                fullest_minute=int(found.max()),
                idle_lanes=int((found.sum(axis=1) == 0).sum()),
                cells=found.tolist(),
            )
            for division, found in cells.items()
        ],
        hottest=[
            StandingQuery(
                query_id=one.query_id,
                events=one.events,
                share=one.share,
                lanes=_lanes_of(one.query_id, windows, done.lanes),
                arrivals=arrivals[one.query_id],
            )
            for one in explained.hottest[:SHOWN]
        ],
    )


def check_order(verdict: AggregateVerifyDocument) -> None:
    """Refuse results that are not in order: nothing may be shown of them as if they were."""
    if not verdict.is_right:
        got = f"{verdict.missing} missing, {verdict.twice} twice, {verdict.out_of_order} out of order"
        raise TargetError.of("the results of the standing queries are not in order", got=got, allowed="none of these")


def minute_loads(
    windows: Sequence[WindowLoad], lanes: int, division: Division
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What each lane (rows) received of each minute (columns)."""
    first = (int(DAY.timestamp()) * 1_000_000 + BEGINS * HOUR) // MINUTE
    by_minute: dict[int, list[WindowLoad]] = defaultdict(list)
    for one in windows:
        by_minute[one.number - first].append(one)
    columns = [lane_loads(by_minute[minute], lanes, division) for minute in range(MINUTES)]
    return np.array(columns, np.int64).T


def _check_loads(target: Path, explained: Mapping[Division, list[int]], cells: Mapping[Division, Any]) -> None:
    """Three accounts of one load agree: of each minute, of `explain`, and of the lanes themselves as they worked."""
    counted: dict[Division, list[int]] = {division: found.sum(axis=1).tolist() for division, found in cells.items()}
    if counted != explained:
        raise CountError.of("the minutes of the standing queries do not add up", got=counted, allowed=str(explained))
    events, parts = lane_metrics(target, len(explained["query"]))
    working: dict[Division, list[int]] = {"query-window": events, "query-window-partial": parts}
    for division, measured in working.items():
        if counted[division] != measured:
            what = f"the lanes of the aggregation did not have what is counted by {division}"
            raise CountError.of(what, got=measured, allowed=str(counted[division]))


def lane_metrics(target: Path, lanes: int) -> tuple[list[int], list[int]]:
    """The events and the partial aggregates that each lane counted while it worked, over all batches."""
    events, parts = [0] * lanes, [0] * lanes
    for path in sorted((target / "_metrics").glob("[0-9]*.json")):
        for lane, (of_events, of_parts) in json.loads(path.read_text(encoding="utf-8"))["lanes"].items():
            events[int(lane)] += of_events
            parts[int(lane)] += of_parts
    return events, parts


def _lanes_of(query: str, windows: Sequence[WindowLoad], lanes: int) -> list[int]:
    return sorted({lane_of(query, one.number, lanes, by_window=True) for one in windows if one.query == query})


def _arrivals(target: Path, queries: Sequence[str]) -> dict[str, list[StandingArrival]]:
    """The sequences of some queries' results, batch by batch, in the order in which they are there."""
    found: dict[str, list[StandingArrival]] = {query: [] for query in queries}
    for path in batches_in(target / "results"):
        sequences: dict[str, list[int]] = defaultdict(list)
        for row in pq.read_table(path, columns=["query_id", "sequence"], partitioning=None).to_pylist():
            sequences[row["query_id"]].append(row["sequence"])
        batch = int(path.parent.name.partition("=")[2])
        for query in queries:
            if own := sequences.get(query):
                found[query].append(StandingArrival(batch=batch, first=own[0], last=own[-1]))
    return found
