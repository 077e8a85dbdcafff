"""A topic as a stream of blocks, by a source of our own in Java: `jvm/topics/keylane/topics`, from TopicSource on.

Why not Spark's connector: it makes a reader for each partition and a row for each record, which is most of what a batch
of packed blocks would cost; and its offsets do not say what else there was to read when a batch was cut, nor what the
clock said. What both share: committed records only, and records that are gone are an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError

from keylane.spark.blocks import loading_by
from keylane.spark.cells import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TOPICS: Final = SOURCES / "topics"
_FORMAT: Final = "keylane.topics.TopicSource"
#: The clock of a batch, in microseconds.
CLOCK: Final = "keylane_clock"
#: What the source has of a message, beside blocks; defined in `TopicSource.java`.
MESSAGE: Final = (
    f"key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, {CLOCK} bigint"
)


def topic_sources(spark: SparkSession) -> tuple[Path, ...]:
    """The folder of the source, for a session whose Java has Kafka's client."""
    java: Any = spark.sparkContext._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass("org.apache.kafka.clients.consumer.KafkaConsumer")
    except Py4JJavaError:
        return ()
    return (TOPICS,)


def topic_blocks(
    spark: SparkSession,
    loader: Any,
    topic: str,
    client: Mapping[str, str],
    *,
    packer: str,
    start: Sequence[int],
    most: int,
    tasks: int,
) -> DataFrame:
    """Rows of records that are not plain, and rows of blocks. `loader` has the classes; `start` is of a new query.

    `client` are settings of Kafka's client, without secrets.
    """
    options = {f"kafka.{name}": value for name, value in client.items()}
    options |= {"topic": topic, "start": ",".join(map(str, start)), "max": str(most), "tasks": str(tasks)}
    with loading_by(spark, loader):
        return spark.readStream.format(_FORMAT).options(**options, packer=packer).load()
