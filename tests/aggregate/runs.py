"""Registries and runs of the tests of `aggregate`, in a folder: events in `in`, results in `out`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.aggregate.reference import QUERIES

from keylane.aggregation.query import query_of
from keylane.pipelines.aggregate.options import AggregateOptions
from keylane.pipelines.aggregate.run import aggregate
from keylane.systems.query_registry import open_queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.documents.aggregate import AggregateDocument


def registered(folder: Path, *definitions: dict[str, Any]) -> str:
    address = str(folder / "queries.sqlite")
    with open_queries(address, create=True) as registry:
        registry.add([query_of(one) for one in definitions or [query.definition for query in QUERIES]])
    return address


def run(spark: SparkSession, folder: Path, registry: str, **changed: Any) -> AggregateDocument:
    more = {name: changed.pop(name) for name in ("follow", "stop_asked", "probe", "tell") if name in changed}
    options = AggregateOptions(**{"lanes": 3, **changed})
    return aggregate(str(folder / "in"), str(folder / "out"), registry, options, spark=spark, **more)


def follow(spark: SparkSession, folder: Path, registry: str, batches: list[Any], **changed: Any) -> AggregateDocument:
    """Follow the source; after each batch of results the next of `batches` is done; after the last it is stopped."""
    asked, waiting = threading.Event(), iter(batches)

    def tell(_metrics: dict[str, Any]) -> None:
        change = next(waiting, None)
        if change is None:
            asked.set()
        else:
            change()

    ended = threading.Timer(240, asked.set)
    ended.start()
    try:
        how = {"every": "200 milliseconds", **changed}
        return run(spark, folder, registry, follow=True, stop_asked=asked, tell=tell, **how)
    finally:
        ended.cancel()
