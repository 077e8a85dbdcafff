"""The writers of a batch: tasks that bring its records into their lanes, in Java, beside Kafka's own client.

    by part    a writer has a partition of the source topic: transaction and group `keylane-ROUTE-pN`
    by lane    a writer has some lanes: transaction `keylane-ROUTE-W` for writer W, one group `keylane-ROUTE`

By part nothing is shuffled, and every writer may write every lane: records of one partition stay in order, those of two
interleave as they come. By lane a lane has one writer, and its records are sorted by partition and offset; a batch
costs each lane one transaction marker, by part one for each partition that has records for it. A topic is divided by
part unless a number of writers is given; files, which are in one order, are divided by lane.

What a writer does, and why nothing shows when it is done twice: `jvm/writer/keylane/Transaction.java`. At least
once, the same records go without a transaction: what a failed try has written stays, and the next writes it again,
from the batch's first record on. Which rows come to a writer: `keylane.spark.messages`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PythonException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from keylane.errors import BrokerError, DataError, KeylaneError, cause
from keylane.spark.context import translated
from keylane.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from keylane.spark.context import RunContext

SOURCES: Final = Path(__file__).parent / "jvm" / "writer"
#: What a writer reports of each lane, as a schema of Spark.
WRITTEN: Final = "slot int, records bigint, repeated boolean, beyond bigint"
#: How the text of a writer's error begins, and of one that would recur. Defined in `WriteError.java`.
WRITE_ERROR: Final = "keylane.WriteError: "
PERMANENT: Final = "not to be tried again: "
#: Well above what a batch takes; a broker allows 15 minutes by default.
TRANSACTION_MS: Final = "300000"
_CODER: Final = "org.apache.kafka.common.serialization.ByteArray"
#: Larger than Kafka's defaults: a writer has all its records at hand.
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
#: restarted is waited for.
NEEDED: Final = {"acks": "all", "enable.idempotence": "true", "max.block.ms": "60000"}


@dataclass(frozen=True, slots=True)
class Division:
    """A batch's topics with their lanes in order (a slot is a lane's number in it), and its writers; 0: by part.

    `producer` and `client` are properties of Java's clients beside those that are set here, without a secret.
    `digest` is of the batch's offsets: no other batch may have its number. `headers` are those that every record of the
    batch gets beside its own. `source` is the topic that the records came
    from; empty when their positions are spelled already. `held` is a folder in which tests hold a writer at its steps.
    `largest` is what every topic of the batch takes at once: a batch of the producer's that is larger would be divided
    into one of the same size, and refused for ever.
    """

    producer: Mapping[str, str]
    client: Mapping[str, str]
    route: str
    batch: int
    topics: tuple[tuple[str, int], ...]
    writers: int
    headers: tuple[tuple[str, bytes], ...] = ()
    source: str = ""
    exactly_once: bool = True
    held: str = ""
    digest: str = ""
    largest: int = 0

    def slots(self) -> list[tuple[str, int]]:
        """Topic and lane of each slot."""
        return [(topic, lane) for topic, lanes in self.topics for lane in range(lanes)]

    def settings(self) -> dict[str, Any]:
        """The settings of the writers in Java. No secret is in them: a login is read where a client is made."""
        producer = {**PRODUCER, **self.producer, **NEEDED}
        if self.largest:
            producer["batch.size"] = str(min(int(producer["batch.size"]), self.largest))
        return {
            "route": self.route,
            "batch": self.batch,
            "digest": self.digest,
            "topics": [list(topic) for topic in self.topics],
            "writers": self.writers,
            "headers": [[name, bytearray(value)] for name, value in self.headers],
            "source": self.source,
            "exactly_once": self.exactly_once,
            "producer": producer,
            "reader": {**READER, **self.client},
            "transaction_ms": int(producer["transaction.timeout.ms"]),
            "held": self.held,
        }


class SlotWritten(NamedTuple):
    """Records of a slot, and how many of them were there before.

    `beyond` is the number that was found where a later batch is there already, otherwise 0: right for a zombie only.
    """

    records: int = 0
    repeated: int = 0
    beyond: int = 0


class BatchWritten(NamedTuple):
    """What the writers report by slot, and how many records the job read out of the topic; None where it read none."""

    slots: dict[int, SlotWritten]
    read: int | None


def write(rows: DataFrame, division: Division) -> BatchWritten:
    """The job, by slot. Several writers may write to one."""
    spark, frame = rows.sparkSession, cast("ClassicFrame", rows)._jdf
    java: Any = spark.sparkContext._jvm
    writer = java_class(spark, SOURCES, "keylane.LaneWriter").newInstance().of(division.settings())
    form = java.org.apache.spark.sql.Encoders.row(java.org.apache.spark.sql.types.StructType.fromDDL(WRITTEN))
    job = frame.mapPartitions(writer, form)
    written: dict[int, SlotWritten] = {}
    for slot, records, repeated, beyond in ClassicFrame(job, spark).collect():
        before = written.get(slot, SlotWritten())
        again = before.repeated + (records if repeated else 0)
        written[slot] = SlotWritten(before.records + records, again, max(before.beyond, beyond))
    read = [
        leaf.metrics().apply("numOutputRows").value() for leaf in _topic_leaves(job.queryExecution().executedPlan())
    ]
    return BatchWritten(written, sum(read) if read else None)


def _topic_leaves(plan: Any) -> list[Any]:
    """Where a plan reads a topic, with the rows that Spark counted there: a count of its own would divide the code."""
    # An adaptive plan and its stages are leaves that have a plan.
    inner = {"AdaptiveSparkPlan": "executedPlan", "ShuffleQueryStage": "plan", "BroadcastQueryStage": "plan"}
    found, leaves = [], plan.collectLeaves()
    for leaf in (leaves.apply(at) for at in range(leaves.size())):
        if leaf.nodeName() in inner:
            found += _topic_leaves(getattr(leaf, inner[leaf.nodeName()])())
        elif leaf.outputSet().toString().count("offset#") and leaf.metrics().contains("numOutputRows"):
            found.append(leaf)
    return found


# A step that is tried again while its error may pass: a broker that is away, a worker that died, a fence.

T = TypeVar("T")
#: Between two tries; each pause is twice the last, up to the second number.
PAUSE_SECONDS: Final = (0.25, 8.0)


def retried(
    step: Callable[[], T],
    batch: int,
    seconds: float,
    run: RunContext,
    check: Callable[[], None] = lambda: None,
) -> T:
    """What the step returns; its error, translated, when it would recur or time is up. `check` is made before each."""
    began, pause = time.monotonic(), PAUSE_SECONDS[0]
    while True:
        try:
            return step()
        except (KeylaneError, AnalysisException):
            raise
        except Exception as error:
            reported = error_of_writer(str(error))
            shown = explained_loss(str(error), batch) or reported or translated(error, batch)
            if not passes(error, reported) or run.stopping:
                raise shown from error
            if time.monotonic() - began + pause > seconds:
                raise _given_up(shown, batch, seconds) from error
            run.say(f"retrying batch {batch}: {shown}")
        run.probe("again", batch)
        time.sleep(pause)
        pause = min(pause * 2, PAUSE_SECONDS[1])
        check()


def _given_up(error: Exception, batch: int, seconds: float) -> BrokerError:
    return BrokerError.of(
        f"batch {batch} was not written: {error}; retried for {seconds:g} s",
        hint="the same command continues with this batch; --retry-for retries for longer",
    )


#: What the same job would meet again: records that are gone, what is not allowed or not known, and mistakes in data or
#: code. By the last part of a Java class, or by Spark's own name of an error.
_RECURS: Final = re.compile(
    r"\b(?:OffsetOutOfRangeException|KAFKA_DATA_LOSS[.\w]*|\w*AuthorizationException|\w*AuthenticationException"
    r"|InvalidTopicException|\w*SerializationException|UnsupportedVersionException|ConfigException"
    r"|IllegalArgumentException|NullPointerException|ClassCastException|ArithmeticException|NumberFormatException"
    r"|UnsupportedOperationException|SparkRuntimeException|Spark\w+ArithmeticException|ClassNotFoundException"
    r"|NoClassDefFoundError|NoSuchMethodError|StackOverflowError)\b"
)
#: Where an exception is named: not in a stack, nor in what it says of other things.
_NAMED: Final = re.compile(
    r"(?:^|Caused by: |\): |: )(?:[\w$]+\.)*([\w$]+(?:Exception|Error))(?=:|\s|$)|\[(KAFKA_DATA_LOSS[.\w]*)\]"
)


def passes(error: Exception, reported: BrokerError | None) -> bool:
    """Whether another try may do better: after what a writer reported of its broker, or when a job broke from outside.

    What Python raised in a worker for another reason recurs, and so does what never became a job.
    """
    text = str(error)
    if reported is not None:
        return PERMANENT not in text
    if not isinstance(error, Py4JJavaError | CapturedException) or isinstance(error, PythonException):
        return False
    return not any(_RECURS.fullmatch(name) for name in named_errors(text))


def named_errors(text: str) -> set[str]:
    """The exceptions that a long error of Java is made of, without packages."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("at ")]
    return {found[1] or found[2] for line in lines for found in _NAMED.finditer(line)}


_LOST: Final = ("OffsetOutOfRangeException", "KAFKA_DATA_LOSS")
#: Topic and partition, as Kafka's client and as our own reader names them.
_LOST_OF: Final = re.compile(r"out of range for partition ([\w.-]+-\d+)|records of ([\w.-]+-\d+) are gone")


_NEW_ROUTE: Final = (
    "they were deleted by its retention, or the topic was recreated; a new route (--state, --start) begins"
    " behind what the target has, by the header keylane.source, and `keylane verify` counts the others as lost"
)
_PARTLY: Final = "; of other partitions the batch may be written"


def explained_loss(text: str, batch: int, but: str = _PARTLY, hint: str = _NEW_ROUTE) -> DataError | None:
    """Records of the source that are gone before they were read, out of the text that Spark makes of it."""
    if not any(name.startswith(_LOST) for name in named_errors(text)):
        return None
    found = _LOST_OF.search(text)
    where = f" ({found[1] or found[2]})" if found else ""
    return DataError.of(f"records of batch {batch} are no longer in the source{where}{but}", got=cause(text), hint=hint)


def error_of_writer(text: str) -> BrokerError | None:
    """The error that a writer reported, out of the text that Spark makes of it."""
    for line in text.splitlines():
        _, prefix, message = line.partition(WRITE_ERROR)
        if prefix:
            return BrokerError(message.removeprefix(PERMANENT))
    return None
