"""`keylane aggregate` as functions: the pipeline, and queries registered from Python. Other verbs: `verbs`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from keylane.api.shards import GivenPath
    from keylane.documents.aggregate import AggregateDocument
    from keylane.systems.endpoint import StreamOptions

__all__ = ["add_queries", "aggregate"]


def add_queries(registry: GivenPath, queries: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[str]:
    """Register one query or several, all or none; the ids that are new. The registry is made where there is none."""
    from keylane.aggregation.query import queries_of
    from keylane.systems.query_registry import open_queries

    given = [dict(one) for one in ([queries] if hasattr(queries, "keys") else queries)]
    checked = queries_of(given)
    with open_queries(os.fspath(registry), create=True) as found:
        return found.add(checked)[1]


def aggregate(
    source: GivenPath,
    target: GivenPath,
    queries: GivenPath,
    *,
    follow: bool = False,
    by: Literal["query", "query-window"] = "query-window",
    lanes: int | None = None,
    partial: bool = True,
    times: Sequence[str] = (),
    ahead: float = 86_400.0,
    state: GivenPath | None = None,
    every: str = "1 second",
    max_files: int = 1000,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    options: StreamOptions | None = None,
    stop: threading.Event | None = None,
) -> AggregateDocument:
    """Match events with the standing queries of a registry, aggregate their windows, and deliver results in order.

    Without `follow` it ends when the source is read and every window is closed; with it, when `stop` is set. Run
    again it goes on. The arguments are those of the command: docs/commands/aggregate.md.
    """
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.aggregate.run import aggregate as run
    from keylane.systems.endpoint import StreamOptions

    given = AggregateOptions(
        times=tuple(times),
        ahead=ahead,
        by=by,
        lanes=lanes,
        partial=partial,
        state=None if state is None else os.fspath(state),
        every=every,
        max_files=max_files,
        master=master,
        conf=dict(conf or {}),
        stream=options or StreamOptions(),
    )
    ends = os.fspath(source), os.fspath(target), os.fspath(queries)
    return run(*ends, given, follow=follow, spark=spark, stop_asked=stop)
