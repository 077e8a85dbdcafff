"""Stateful steps on packed blocks: the settings of a query that has such steps, and where their Java is.

A block is one row of Spark with thousands of packed records; a step has one group for each slot, and a log of its
blocks in Spark's own state store. The rule of that, and what a step must keep to: `jvm/blocks/keylane/blocks`,
beginning with BlockStep. Time goes through the steps in band, as records of the sources (SourceTimes), so that all
slots know the same watermark in the same batch; Spark's own watermark and timers are not used. Who has such steps:
`pipelines.match`, `pipelines.aggregate`.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

BLOCKS: Final = Path(__file__).parent / "jvm" / "blocks"
#: Batches that a query's checkpoint and its state folder go back. A batch asks for the two before it at most, and one
#: that a kill has ended is given again from the one before; the others are for whoever looks at them.
KEPT_BATCHES: Final = 5
_RETAIN: Final = "spark.sql.streaming.minBatchesToRetain"
_STORE: Final = "spark.sql.streaming.stateStore"
_SETTINGS: Final = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # What no batch asks for any more is removed by what Spark does once in this time, and it keeps all that until then.
    f"{_STORE}.maintenanceInterval": "15s",
    # To count rows takes a read for each write.
    f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": "keylane.blocks.CheckpointFiles",
    # Entries of the log of files that were merged into one: nobody reads them by their own names that late.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1min",
}


def use_slots(spark: SparkSession, slots: int) -> None:
    """Set a session up for a query with so many slots; it keeps these settings."""
    asked = spark.conf.get(_RETAIN, None) or "0"
    kept = {_RETAIN: str(max(KEPT_BATCHES, int(asked))), "spark.sql.shuffle.partitions": str(slots)}
    for name, value in {**_SETTINGS, **kept}.items():
        spark.conf.set(name, value)


@contextmanager
def loading_by(spark: SparkSession, loader: Any) -> Iterator[None]:
    """Have Spark look classes up by this loader, where it knows them by name only; and queries that start meanwhile."""
    java: Any = spark.sparkContext._jvm
    thread = java.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    try:
        yield
    finally:
        thread.setContextClassLoader(before)
