"""A stream that is read and written in Python, on Spark: one task for each part of a batch, or for some lanes.

    Feed          what a system gives: where a batch ends, into which parts it is cut, and how one is read
    feed_stream   a feed -> a streaming frame of messages, with the columns that Spark's connector for topics has
    written_by    rows of a frame -> a function of the system, which writes those of a task

What Spark's checkpoint keeps is what `Feed.end` returns, as JSON. A feed is sent to the workers, so it holds no
connection and no secret. With `availableNow` a feed is notified first, and then ends with what there was.
Who has a feed: `systems.kinesis`. Topics have a connector of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: The columns of a message, as the connector for topics has them.
MESSAGE: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)


class Feed(Protocol):
    """What is read. A position is a dict of plain values: what the checkpoint keeps."""

    def first(self) -> dict[str, Any]:
        """Where a new query begins."""
        ...

    def only_what_is_there(self) -> None:
        """From now on, end with what there is: `end` has to come to a stop."""
        ...

    def end(self, start: dict[str, Any]) -> dict[str, Any]:
        """Where the batch that begins at `start` ends; `start` itself where there is nothing to read."""
        ...

    def parts(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        """What is read by one task each."""
        ...

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The messages of a part; the same each time."""
        ...

    def committed(self, end: dict[str, Any]) -> None:
        """A batch is committed, and nothing before its end is read again."""
        ...


def feed_stream(spark: SparkSession, feed: Feed, name: str) -> DataFrame:
    """The stream of a feed; `name` is that of the source in this session."""
    spark.dataSource.register(_source_of(feed, name))
    return spark.readStream.format(name).load()


def _source_of(feed: Feed, source_name: str) -> type[DataSource]:
    # Classes of a function are sent as they are: no worker has to know the session's feed.
    class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names
            return feed.first()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's names
            feed.only_what_is_there()

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802  by its name
            return feed.end(start)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            return [InputPartition(part) for part in feed.parts(start, end)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            return feed.read(partition.value)

        def commit(self, end: dict[str, Any]) -> None:
            feed.committed(end)

    class FeedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return MESSAGE

        def streamReader(self, schema: Any) -> FeedReader:  # noqa: ARG002, N802  Spark's names
            return FeedReader()

    return FeedSource


def written_by(
    rows: DataFrame, write: Callable[[Iterator[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
) -> dict[int, int]:
    """Let the tasks of a frame write their rows in Python; records by slot. A task gets its attempt number."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        yield from write(batches, context.attemptNumber())

    written: Counter[int] = Counter()
    for slot, records in rows.mapInArrow(task, "slot int, records bigint").collect():
        written[slot] += records
    return dict(written)
