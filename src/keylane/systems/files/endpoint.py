"""Files and folders behind an address: what `open_endpoint` gives for a path.

What each ability does is in a module of its own, which is imported when it is asked for.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keylane.contract.fields import FieldSpec
from keylane.errors import UnsupportedError, UsageError
from keylane.systems.endpoint import Endpoint, Outlook
from keylane.systems.identity import agreed_source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.migration.cost import StreamMeasure
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.router import Router
    from keylane.spark.context import RunContext
    from keylane.spark.scan import Scan
    from keylane.systems.flow import Followed, Origin, RouteTarget
    from keylane.systems.migration_journal import MigrationJournal
    from keylane.systems.migrations import Migrator
    from keylane.systems.streams import Description, Stream


class FilesEndpoint(Endpoint):
    """A file, a folder of files, or a folder that `route` made."""

    @property
    def path(self) -> Path:
        """Where it is: absolute, and not through links, so that names stay as given."""
        return Path(os.path.abspath(self.address.name))  # noqa: PTH100  Path.resolve would follow links

    def measured(self) -> StreamMeasure:
        """The sizes of its files; what is in them is not read."""
        from keylane.migration.cost import StreamMeasure
        from keylane.systems.files.listing import sized_files

        stored = sum(file.size for file in sized_files(self.path, self.options.kind))
        why = "files are not read for a plan; keylane profile counts their records and keys"
        return StreamMeasure(None, stored, "the sizes of the files", (), why)

    def migration_journal(self) -> MigrationJournal:
        """The folder."""
        from keylane.systems.migration_journal import FolderJournal

        return FolderJournal(self.path)

    @contextmanager
    def migrator(self) -> Iterator[Migrator]:
        """The files that there are; their lanes are not changed in place."""
        from keylane.systems.files.migration import FilesMigrator

        yield FilesMigrator(self.path, self.options)

    def lane_ends(self) -> tuple[int, ...]:
        """Of a folder that `route` made: how many records each lane has."""
        from keylane.systems.files.migration import ends_of_lanes

        return ends_of_lanes(self.path)

    def describe(self, fields: FieldSpec) -> Description:
        """The files as one data set, with the columns of their folders."""
        from keylane.systems.files.data import open_data

        self._check_whole()
        how = self.options
        return open_data(self.address.name, fields, how.csv_null, how.delimiter, how.kind)

    @contextmanager
    def scan(self, run: RunContext, wanted: ScanRequest) -> Iterator[Scan]:
        """The files, in the order of their names."""
        from keylane.systems.files.frames import scan_files

        self._check_listening(wanted)
        with self.session(run) as session:
            yield scan_files(session, self.path, self.options, wanted)

    def scan_local(self, wanted: ScanRequest) -> LocalScan:
        """The files, in the order of their names."""
        from keylane.systems.files.local_scan import scan_local

        self._check_listening(wanted)
        return scan_local(self.path, self.options, wanted)

    def estimated_records(self) -> int | None:
        """From the footers of Parquet, or the length of the first lines."""
        from keylane.systems.files.local_scan import estimated_records

        return estimated_records(self.path, self.options)

    def check_scan(self, columns: Sequence[str]) -> None:
        """A source that is not there or has no files, and columns that it has not."""
        from keylane.systems.files.local_scan import check_scan

        check_scan(self.path, self.options, columns)

    def empty_cells(self, names: Sequence[str]) -> str:
        """Of CSV read without a text for null, by its first rows."""
        from keylane.systems.files.data import empty_cells

        if self.options.csv_null or not self.has_cells():
            return ""
        return empty_cells(self.describe(FieldSpec(names=tuple(names))), names)

    def lane_column(self, taken: Collection[str], *, needed: bool = True) -> str | None:
        """A column `lane`, or `partition` whose first rows hold whole numbers from 0."""
        from keylane.systems.files.data import LANE_COLUMNS, holds_lanes
        from keylane.systems.files.listing import lanes_in, sized_files

        if not needed and lanes_in([file.path for file in sized_files(self.path, self.options.kind)]) is not None:
            return None
        # A scan has no column for the lanes of several streams in one folder: each stream has its own.
        there = self.describe(FieldSpec()).columns if needed else self.field_names()
        usual = [name for name in LANE_COLUMNS if name in there and name not in taken]
        # Who needs lanes gets the error that says what is in a column of this name.
        if needed and "lane" in usual:
            return "lane"
        # Each is looked at in a description of its own: what is skipped here is not to be counted twice.
        return next((name for name in usual if holds_lanes(self.describe(FieldSpec()), name)), None)

    def field_names(self) -> list[str]:
        """Those of footers, header lines, paths, and of the first lines of JSON."""
        from keylane.systems.files.local_scan import names_of

        return names_of(self.path, self.options)

    def _check_whole(self) -> None:
        if self.options.read_range is not None:
            hint = "leave out --last, --since, --until, --max-records and --partitions"
            raise UsageError.of("only a topic can be read in part", got=str(self.path), hint=hint)

    def _check_listening(self, wanted: ScanRequest) -> None:
        self._check_whole()
        if wanted.seconds is not None:
            raise UsageError.of("only a topic can be listened to", got=str(self.path), hint="leave --for out")

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:
        """The files, of the kind that the target remembers."""
        from keylane.systems.files.stream import source_stream

        return source_stream(self.path, target, contract, values=self.options.values)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """A folder with `stream=S/lane=N/` in it."""
        from keylane.systems.files.stream import ReadLanes, kind_in, routed_messages, target_stream

        kind = kind_in(self.path)
        how = ReadLanes(source.columns(kind), cells=source.has_cells(kind), values=self.options.values)
        stream = target_stream(self.path, how)
        return (
            routed_messages(stream, source.message_fields(FieldSpec.sent(contract, keys_sent=self.options.keys_sent)))
            if source.messages
            else stream
        )

    def columns(self, kind: str | None = None) -> pa.Schema | None:
        """Those of Parquet files."""
        from keylane.systems.files.stream import source_columns

        return source_columns(self.path, kind or self.options.kind)

    def has_cells(self, kind: str | None = None) -> bool:
        """Of CSV."""
        from keylane.systems.files.listing import kinds_in

        return (kind or self.options.kind or "".join(kinds_in(self.path))) == "csv"

    def origin(self, known: Origin | None) -> Origin:
        """The path, the kind of the files, and which names count."""
        from keylane.systems.files.follow import origin_of

        found = origin_of(self.path, self.options.kind, known)
        if found.kind != "csv":
            return found
        return replace(found, csv_null=tuple(sorted(set(self.options.csv_null))), delimiter=self.options.delimiter)

    def check_apart(self, source: Endpoint) -> None:
        """Refuse a source within the target, and a target within the source."""
        if isinstance(source, FilesEndpoint):
            there, here = (Path(os.path.realpath(one.path)) for one in (source, self))
            if there == here or there in here.parents or here in there.parents:
                got = f"{source.path} -> {self.path}"
                raise UsageError.of(
                    "source and target lie within each other", got=got, hint="choose a target beside the source"
                )

    def follow(self, spark: SparkSession, contract: Contract, origin: Origin) -> Followed:
        """Files as they appear."""
        from keylane.systems.files.follow import follow_files

        return follow_files(spark, contract, origin, self.options)

    def outlook(
        self, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None, say: Callable[[str], None]
    ) -> Outlook:
        """A folder of lanes for each stream, and one of dead letters."""
        from keylane.systems.folders.target import check_ready

        router, origin = self._agreed(contract, source, lanes, stream, say)
        check_ready(self.path, router, origin)
        streams = {router.stream: router.lane_count, **contract.tiers}
        wanted = [self.path, *(self.path / f"stream={name}" for name in streams)]
        last = {name: f"{self.path}/stream={name}/lane=0 to lane={many - 1}" for name, many in streams.items()}
        made = tuple(str(path) for path in wanted if not path.exists())
        return Outlook(router, made, tuple(last.values()), f"{self.path}/_dead")

    def target(
        self, run: RunContext, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None
    ) -> AbstractContextManager[RouteTarget]:
        """A folder of lanes."""
        from keylane.systems.folders.target import open_folder

        return open_folder(self.path, *self._agreed(contract, source, lanes, stream, run.say), run)

    def _agreed(
        self, contract: Contract, source: Endpoint, lanes: int | None, stream: str | None, say: Callable[[str], None]
    ) -> tuple[Router, Origin]:
        """Who decides, and the source as the folder remembers it."""
        from keylane.router import Router
        from keylane.systems.folders.target import known_origin

        if self.options.after is not None:
            hint = "route into a new folder by the new contract; or copy this one by keylane migrate, as a mirror"
            raise UnsupportedError.of("a folder keeps the contract it was begun with", got=str(self.path), hint=hint)
        known = known_origin(self.path)
        origin = agreed_source(source.origin(known), known, say)
        # A source without files is of the kind that its system is.
        named = replace(origin, kind=origin.kind or source.address.system)
        return Router(contract, lanes=lanes, stream=stream), named
