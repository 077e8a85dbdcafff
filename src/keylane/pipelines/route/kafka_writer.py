"""The writers of a batch: tasks that bring its records into their lanes, in Java, beside Kafka's own client.

    by part    a writer has a partition of the source topic: transaction and group `keylane-ROUTE-pN`
    by lane    a writer has some lanes: transaction `keylane-ROUTE-W` for writer W of so many, one group `keylane-ROUTE`

By part nothing is shuffled, and every writer may write every lane: records of one partition stay in order, those of two
interleave as they come. By lane a lane has one writer, and its records stand sorted by partition and offset; a batch
costs each lane one transaction marker, by part one for each partition that has records for it. A topic is divided by
part unless a number of writers is given; files, which are in one order, are divided by lane.

What a writer does, and why nothing shows when it is done twice: `java/keylane/Transaction.java`. At least once, the
same records go without a transaction: what a failed try has written stays, and the next writes it again, from the
batch's first record on. Which rows come to a writer: `keylane.spark.messages`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from keylane.pipelines.context import session_beside
from keylane.spark.jvm import java_class
from keylane.systems.jars import connector_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from keylane.pipelines.route.options import Running
    from keylane.pipelines.route.run import Options
    from keylane.systems.kafka.access import KafkaAccess

__all__ = ["PERMANENT", "WRITE_ERROR", "Division", "session_with_login", "write"]

SOURCES: Final = Path(__file__).parent / "java"
#: What a writer says of each lane, as Spark spells it.
WRITTEN: Final = "slot int, records bigint, repeated boolean"
#: How the text of a writer's error begins, and of one that would come again. Said in `WriteError.java`.
WRITE_ERROR: Final = "keylane.WriteError: "
PERMANENT: Final = "not to be tried again: "
#: Well above what a batch takes; a broker allows 15 minutes unless it is told otherwise.
TRANSACTION_MS: Final = "300000"
_CODER: Final = "org.apache.kafka.common.serialization.ByteArray"
#: Larger than Kafka's own: a writer has all its records at hand.
PRODUCER: Final = {
    "key.serializer": f"{_CODER}Serializer",
    "value.serializer": f"{_CODER}Serializer",
    "batch.size": "262144",
    "buffer.memory": "67108864",
    "linger.ms": "50",
    "retry.backoff.ms": "20",
    "transaction.timeout.ms": TRANSACTION_MS,
}
READER: Final = {
    "key.deserializer": f"{_CODER}Deserializer",
    "value.deserializer": f"{_CODER}Deserializer",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": "false",
    "retry.backoff.ms": "20",
}
#: Delivery depends on these. A step that takes longer is given up and the batch tried again: a broker that is paused or
#: started anew is waited for.
NEEDED: Final = {"acks": "all", "enable.idempotence": "true", "max.block.ms": "60000"}


@dataclass(frozen=True, slots=True)
class Division:
    """A batch's topics with their lanes in order (a slot is a lane's number in it), and its writers; 0: by part.

    `headers` are those that every record of the batch gets beside its own. `source` is the topic that the records came
    from; none when their positions are spelled already. `held` is a folder in which tests hold a writer at its steps.
    """

    access: KafkaAccess
    route: str
    batch: int
    topics: tuple[tuple[str, int], ...]
    writers: int
    headers: tuple[tuple[str, bytes], ...] = ()
    source: str = ""
    exactly_once: bool = True
    held: str = ""

    def slots(self) -> list[tuple[str, int]]:
        """Topic and lane of each slot."""
        return [(topic, lane) for topic, lanes in self.topics for lane in range(lanes)]

    def told(self) -> dict[str, Any]:
        """What Java is told. No secret is in it: a login is read where a client is made."""
        producer = {**PRODUCER, **self.access.java_producer(), **NEEDED}
        return {
            "route": self.route,
            "batch": self.batch,
            "topics": [list(topic) for topic in self.topics],
            "writers": self.writers,
            "headers": [[name, bytearray(value)] for name, value in self.headers],
            "source": self.source,
            "exactly_once": self.exactly_once,
            "producer": producer,
            "reader": {**READER, **self.access.java_client()},
            "transaction_ms": int(producer["transaction.timeout.ms"]),
            "held": self.held,
        }


def write(rows: DataFrame, division: Division) -> dict[int, tuple[int, int]]:
    """The job: what each slot got, and how much of that was there before. Several writers may have written to one."""
    spark, given = rows.sparkSession, cast("ClassicFrame", rows)._jdf  # noqa: SLF001
    java: Any = spark.sparkContext._jvm  # noqa: SLF001
    writer = java_class(spark, SOURCES, "keylane.LaneWriter").newInstance().of(division.told())
    form = java.org.apache.spark.sql.Encoders.row(java.org.apache.spark.sql.types.StructType.fromDDL(WRITTEN))
    found: dict[int, tuple[int, int]] = {}
    for slot, records, repeated in ClassicFrame(given.mapPartitions(writer, form), spark).collect():
        before, again = found.get(slot, (0, 0))
        found[slot] = before + records, again + (records if repeated else 0)
    return found


# A session with Spark's Kafka connector, whose Java can log in to a cluster without an option that says how.

LOGIN: Final = "java.security.auth.login.config"


@contextmanager
def session_with_login(given: Options, running: Running, access: KafkaAccess) -> Iterator[SparkSession]:
    """The session of a route from or into Kafka; its Java is logged in for as long as this is open."""
    has_jars = running.spark is not None or {"spark.jars", "spark.jars.packages"} & set(given.conf)
    connector = {} if has_jars else connector_settings(given.kafka.jars, given.kafka.packages, running.say)
    session = session_beside(running.spark, given.master, {**connector, **given.conf}, running.say)
    text = access.jaas()
    if text is None:
        yield session
        return
    java: Any = session.sparkContext._jvm  # noqa: SLF001
    system, logins = java.java.lang.System, java.javax.security.auth.login.Configuration
    before = system.getProperty(LOGIN)
    handle, name = tempfile.mkstemp(prefix="keylane-login-")
    try:
        os.write(handle, text.encode())
        os.close(handle)
        system.setProperty(LOGIN, name)
        logins.setConfiguration(None)
        yield session
    finally:
        Path(name).unlink(missing_ok=True)
        # Java keeps what it has read until it is told to read anew: the user's own login, or none.
        system.clearProperty(LOGIN) if before is None else system.setProperty(LOGIN, before)
        logins.setConfiguration(None)
