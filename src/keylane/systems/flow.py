"""What passes between the source and the target of a route, and what each asks of the other.

    Origin        a source as a target remembers it
    Followed      a source that is followed: the stream of Spark's query, and a batch of it as rows or as messages
    HandedOverWhole  what such a source does that has nothing to compare with what Spark handed over
    RowsFollowed  the same with messages made from the rows, for systems whose records are rows
    RouteTarget   a target that is open and locked: what it holds, and a batch written and committed once
    BatchReport   what a batch came to; Routed: what a whole run did

Who makes them: the endpoints (`systems.endpoint`). Who brings them together: `pipelines.route`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from keylane.errors import UsageError
from keylane.numbers import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.contract.model import Contract
    from keylane.router import Router
    from keylane.spark.messages import Messages
    from keylane.spark.read_parquet import Batch, SourceFile
    from keylane.systems.atomic import Lock
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.folders.folder import Counts, TakenFile


_EVERY: Final = re.compile(r"\d{1,9}(ms|s|m|h|d| (milli)?seconds?| (minute|hour|day)s?)")


def check_every(text: str) -> None:
    """Refuse an interval of a following route that is none."""
    if not _EVERY.fullmatch(text):
        raise UsageError.of("not a length of time", got=text, allowed="500ms, 10s, 1m, 1h, or 10 seconds")


#: Encodings whose keys are the bytes of the record's own key.
TEXT_KEYS: Final = frozenset({"utf8", "raw", "uuid"})


def check_key_column(contract: Contract, target: Endpoint) -> None:
    """Refuse messages as rows where their own key is a number: it would be two columns of one name."""
    key = contract.spec.key
    numbers = {name for name, how in zip(key.fields, key.encodings, strict=True) if how not in TEXT_KEYS}
    if "key" in numbers and not target.messages:
        raise UsageError.of("a numeric key cannot be both a column and the record's key", hint="--to a topic")


@dataclass(frozen=True, slots=True)
class Origin:
    """A source as a target remembers it: its address, the kind of its files, and which names of files count.

    `id` is what the system knows the source by, beside its name: a topic that is recreated has another. It is empty
    where the system did not report it, and None where it has no ids. `csv_null` are the texts of a CSV cell that stand
    for null, and `delimiter` separates cells.
    """

    address: str
    kind: str = ""
    pattern: str = ""
    id: str | None = None
    csv_null: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch came to, for progress. `kind` is of the files that count; None: all of them do."""

    batch: int
    counts: Counts
    seconds: float
    batch_bytes: int
    taken_files: int
    taken_bytes: int
    kind: str | None


@dataclass(frozen=True, slots=True)
class Routed:
    """What a route came to: records of this run, of all runs into the target, and of this run by stream and lane.

    Into Kafka also: where its state is, where dead letters go, and how many records of this run an earlier run had
    written already.
    """

    source: str
    target: str
    counts: Counts
    total: Counts
    lanes: dict[str, list[int]]
    batches: int
    stopped: bool
    state: str = ""
    dead_letters: str = ""
    repeated: int = 0


class Standing(Protocol):
    """Where a target stands after its last batch, as far as a source needs to know it.

    `schema` are the columns seen so far, as Spark's JSON, nothing before the first batch. `next_position` is that of
    the next record. Files, or offset ranges of partitions, that were taken so far are counted, and their bytes.
    """

    @property
    def schema(self) -> str:
        """The columns seen so far."""
        ...

    @property
    def next_position(self) -> int:
        """Of the next record."""
        ...

    @property
    def taken_files(self) -> int:
        """So far."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Of those."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """The standing of a target that has taken nothing."""

    schema: str = ""
    next_position: int = 0
    taken_files: int = 0
    taken_bytes: int = 0


class Followed(Protocol):
    """The source of a route, with a session. A batch is what Spark's query hands over: `frame`."""

    @property
    def counted(self) -> str | None:
        """The kind of the files that progress is counted in; None where all files count, or there are none."""
        ...

    def stream(self) -> DataFrame:
        """The stream of the query."""
        ...

    def begin(self, checkpoint: Path, taken: Iterable[TakenFile]) -> None:
        """Compare the source with what was taken of it before; called once, before the query starts."""
        ...

    def at(self, batch: int) -> None:
        """Take notice of the batch that is handed over next."""
        ...

    def look(self, progress: Callable[[], Any]) -> None:
        """Compare the source with what was handed over, while it is followed; `progress` asks for that of the query."""
        ...

    def check_complete(self) -> None:
        """Refuse to end a run that ended by itself while something of the source was not handed over."""
        ...

    def taken(self, frame: DataFrame) -> list[SourceFile]:
        """What a batch takes: files, or offset ranges of partitions."""
        ...

    def may_have_records(self, taken: Sequence[SourceFile]) -> bool:
        """Whether there may be a record in what a batch takes; without one nothing has to be read."""
        ...

    def names(self, taken: Sequence[SourceFile]) -> list[str]:
        """What the positions of records call them."""
        ...

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:
        """The records of a batch as rows with their positions."""
        ...

    def messages(self, frame: DataFrame, last: Standing) -> Messages:
        """The records of a batch as messages."""
        ...

    def where(self) -> dict[str, Column]:
        """A message's position, as the headers of a dead letter name it."""
        ...

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:
        """Refuse a batch whose source is not what it was when the batch began."""
        ...


class HandedOverWhole:
    """A source of which Spark hands over all there is, or fails: there is nothing to compare."""

    def begin(self, checkpoint: Path, taken: Iterable[TakenFile]) -> None:
        """Nothing to compare."""

    def at(self, batch: int) -> None:
        """All batches are alike."""

    def look(self, progress: Callable[[], Any]) -> None:
        """Nothing to compare."""

    def check_complete(self) -> None:
        """Nothing to compare."""

    def may_have_records(self, taken: Sequence[SourceFile]) -> bool:
        """Whatever was taken may."""
        return bool(taken)


class RowsFollowed(HandedOverWhole):
    """A source whose records are rows: messages are made from them. A system adds `stream`, `taken` and `rows`.

    A column `key` is the record's key and a column `value` its value, as bytes or text. Without them the key is the
    contract's routing key, and the value the record as JSON: the line itself where the source is JSON lines.
    """

    counted: str | None = None

    def taken(self, frame: DataFrame) -> list[SourceFile]:
        """What a batch takes."""
        raise NotImplementedError

    def rows(self, frame: DataFrame, taken: Sequence[SourceFile], last: Standing) -> Batch:
        """The records of a batch."""
        raise NotImplementedError

    def names(self, taken: Sequence[SourceFile]) -> list[str]:
        """By the names of what was taken."""
        return [file.name for file in taken]

    def check_unchanged(self, taken: Sequence[SourceFile]) -> None:
        """Sources do not change, unless a system knows better."""

    def messages(self, frame: DataFrame, last: Standing) -> Messages:
        """The rows of a batch as messages, in the order of what was taken."""
        from keylane.spark.messages import messages_of_rows
        from keylane.systems.folders.folder import TakenFile

        taken = self.taken(frame)
        rows = self.rows(frame, taken, last)
        after: dict[str, Any] = {"taken_files": last.taken_files + len(taken)}
        after["taken_bytes"] = last.taken_bytes + sum(file.size for file in taken)
        counted = zip(taken, rows.records, strict=True)
        after["taken"] = tuple(TakenFile(file.name, file.size, file.modified, n) for file, n in counted)
        messages = messages_of_rows(rows, self.names(taken), last.next_position, after)
        return replace(messages, taken=tuple(taken))

    def where(self) -> dict[str, Column]:
        """File and row."""
        from keylane.spark.messages import row_position

        return row_position()


def report_dead(report: BatchReport, total: Counts, say: Callable[[str], None]) -> None:
    """Warn of a batch of dead letters only, after others that had lanes: a count alone hides such a change."""
    if report.counts.dead and not report.counts.out and total.out:
        say(f"batch {report.batch}: no record has a lane, {count(report.counts.dead)} became dead letters")


class RouteTarget:
    """The target of a route. A system adds `begin`, `write` and `result`.

    Until `begin` nothing is created: what can be refused is refused before. From then on it is locked, and `lock` and
    `checkpoint` are set.
    """

    router: Router
    #: What the target remembers of its source.
    origin: Origin
    lock: Lock
    #: Spark's checkpoint.
    checkpoint: Path
    source: Followed

    def taken(self) -> Iterable[TakenFile]:
        """What the target knows it has taken of its source, where it keeps that."""
        return ()

    def begin(self, spark: SparkSession, source: Followed) -> None:  # noqa: ARG002  for those who need it
        """Create and lock what is needed, and refuse a state that does not fit; called once, before the first batch."""
        self.source = source

    def write(self, frame: DataFrame, batch: int) -> None:
        """Write one batch and commit it, unless it is committed already."""
        raise NotImplementedError

    def result(self, source: str, *, stopped: bool) -> Routed:
        """What this run came to."""
        raise NotImplementedError
