"""Where events come from: files as they appear, or the messages of a stream, and what of them a batch has.

    FileEvents      names of files, compared with what is in the folder: Spark leaves out what it cannot read or find
    MessageEvents   messages of a topic or of shards, whose values are JSON, by the endpoint's own source

Which records make a batch is in Spark's checkpoint either way, so that a batch that is made again has the same ones.
Events as columns: `events`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from keylane.spark.session import file_name_encoding
from keylane.spark.streaming import file_names
from keylane.systems.endpoint import path_of
from keylane.systems.files.follow import handed_over
from keylane.systems.files.handover import Handover, check_unchanged
from keylane.systems.files.listing import kind_of, pattern_of
from keylane.systems.files.spark_log import SparkLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from keylane.aggregation.query import Query
    from keylane.pipelines.aggregate.events import EventReader, Events
    from keylane.pipelines.aggregate.options import AggregateOptions
    from keylane.pipelines.stateful.state_folder import StateFolder
    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.flow import Followed


class EventSource(Protocol):
    """A source with a session."""

    @property
    def name(self) -> str:
        """What dead letters call it."""
        ...

    def stream(self) -> DataFrame:
        """The stream of the query over it."""
        ...

    def look(self, progress: Callable[[], Any]) -> None:
        """Compare the source with what was handed over, while it is followed."""
        ...

    def check_complete(self) -> None:
        """Refuse to end while something of the source was not handed over."""
        ...

    def events(self, frame: DataFrame, batch: int, reader: EventReader, queries: Sequence[Query]) -> Events | None:
        """The events of a batch; None where there are none, or nobody to see them."""
        ...

    def check_unchanged(self) -> None:
        """Refuse a batch whose source is not what it was when the batch began."""
        ...


@dataclass(slots=True)
class FileEvents:
    """Files of a folder, or one file."""

    spark: SparkSession
    path: Path
    options: AggregateOptions
    handover: Handover
    _taken: list[SourceFile] = field(default_factory=list)

    @staticmethod
    def of(spark: SparkSession, endpoint: Endpoint, options: AggregateOptions, state: StateFolder) -> FileEvents:
        """The source as it is now."""
        path = path_of(endpoint.address, "the source")
        counted = None if options.stream.kind else kind_of(path, None)
        handover = Handover.of(path, counted, file_name_encoding(spark))
        handover.begin(SparkLog(state.files, 0), ())
        return FileEvents(spark, path, options, handover)

    @property
    def name(self) -> str:
        """Each file has its own."""
        return ""

    @property
    def kind(self) -> str:
        """Parquet, JSON or CSV."""
        return kind_of(self.path, self.options.stream.kind)

    def stream(self) -> DataFrame:
        """Names of files as they appear."""
        pattern = pattern_of(self.kind, self.options.stream.kind)
        return file_names(self.spark, str(self.path), pattern, self.options.max_files)

    def look(self, progress: Callable[[], Any]) -> None:
        """From time to time."""
        self.handover.look(progress)

    def check_complete(self) -> None:
        """Every file was handed over."""
        self.handover.check_complete()

    def events(self, frame: DataFrame, batch: int, reader: EventReader, queries: Sequence[Query]) -> Events | None:
        """The events of the files that were handed over."""
        self.handover.batch = batch
        self._taken = [file for file in handed_over(frame.sparkSession, self.handover) if file.size]
        if not self._taken or not queries:
            return None
        return reader.of_files(self._taken, self.kind, self.path, queries)

    def check_unchanged(self) -> None:
        """By size and time."""
        check_unchanged(self._taken)


@dataclass(slots=True)
class MessageEvents:
    """Messages of a topic or of shards."""

    followed: Followed
    name: str

    def stream(self) -> DataFrame:
        """Messages as they arrive."""
        return self.followed.stream()

    def look(self, progress: Callable[[], Any]) -> None:
        """All is handed over, or the query fails."""
        self.followed.look(progress)

    def check_complete(self) -> None:
        """The same."""
        self.followed.check_complete()

    def events(self, frame: DataFrame, batch: int, reader: EventReader, queries: Sequence[Query]) -> Events | None:  # noqa: ARG002  batches are alike
        """The events that are the values of messages."""
        return reader.of_messages(frame, queries) if queries else None

    def check_unchanged(self) -> None:
        """It is still the same stream, not another one of its name."""
        self.followed.check_unchanged(())
