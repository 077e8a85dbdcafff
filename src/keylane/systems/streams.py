"""What an endpoint gives to those who read without Spark: a stream's parts, and a function that reads one as Arrow.

    Description   of a stream as it is: its columns, for `identify` and `check`
    Stream        of a stream as the source or the target of a route: its records with their positions, for `verify`
    Part          a file, or a range of offsets of a lane: small enough for one worker, and read on its own

Both are values: no record has been read when they are made. Who makes them: `systems.endpoint.Endpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from keylane.numbers import count, plural
from keylane.records import NOT_OF_CONTRACT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from keylane.contract.fields import FieldSpec
    from keylane.errors import KeylaneError
    from keylane.history.verdict import Unproven
    from keylane.placement.ranges import KeySpace
    from keylane.systems.folders.folder import Counts, TakenFile

    #: Reads these columns of a part. Of a `Stream` those of `POSITIONS` come first, then the fields that there are; a
    #: field may have the name of one of them, so these are taken by their number.
    Read = Callable[["Part", Sequence[str]], Iterator[pa.RecordBatch]]

#: The columns of every batch, before the fields that a contract needs.
POSITIONS: Final = pa.schema(
    [
        ("stream", pa.string()),  # where the record is: null in a source
        ("lane", pa.int32()),
        ("offset", pa.int64()),
        ("source", pa.string()),  # where it came from: a file or `topic/partition`, as the target names it
        ("position", pa.int64()),  # and its row or offset there
        ("key", pa.binary()),  # its bytes, where the system has such; null where the key is among the fields
        ("epoch", pa.int64()),  # of its writer; null where it is not recorded
        ("fingerprint", pa.string()),  # of the contract it was placed by; null: the one of the whole stream
        ("replay", pa.bool_()),  # marked as written again; null where it is not recorded
        ("dead", pa.bool_()),  # a dead letter, which has no lane
        ("reason", pa.string()),  # why it is one
        ("confirmed", pa.bool_()),  # whether its record shows that the reason is right; null: this is not known
        ("place", pa.int64()),  # where it stands in its lane; null where its offset says that
        ("digest", pa.int64()),  # of its content; null where that is not compared
        ("letter", pa.int64()),  # of a source: the digest of its dead letter, where that is another
        ("stamp", pa.int64()),  # its time in milliseconds, where it is kept
        ("filtered", pa.bool_()),  # of a source: no record, and in no target
    ]
)


#: Why contents are not compared where the user has it so.
LEFT_OUT: Final = "it was left out by --no-values"


def begins_of(taken: Iterable[TakenFile], kind: str) -> dict[str, int]:
    """At which position each source file begins, for rules that place by position; the header of CSV is a line, too."""
    begins, at = {}, 0
    for one in taken:
        begins[one.name] = at
        at += one.records + (kind == "csv" and one.size > 0)
    return begins


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a stream that is read on its own, from `start` up to `end`.

    `rank` is its place among those of its lane.
    """

    name: str
    stream: str | None = None
    lane: int | None = None
    start: int = 0
    end: int | None = None
    dead: bool = False
    rank: int = 0


@dataclass
class Skipped:
    """What is no record, as it is met, lines of files and values of messages: how many, and the first of them."""

    lines: int = 0
    first: str = ""
    what: str = "line"
    fault: str = "that cannot be read as a record"

    def add(self, lines: int, file: str, number: int) -> None:
        """Count some more lines of a file."""
        self.lines += lines
        self.first = self.first or f"line {count(number)} of {file}"

    def add_values(self, many: int, position: str) -> None:
        """Count some more messages whose value cannot be read."""
        self.lines += many
        self.first = self.first or position

    @property
    def text(self) -> str:
        """In words; nothing where nothing was skipped."""
        return f"skipped {self.counted}" if self.lines else ""

    @property
    def counted(self) -> str:
        """The same where they were counted as malformed records."""
        return f"{plural(self.lines, self.what)} {self.fault}, the first is {self.first}" if self.lines else ""


@dataclass(frozen=True, slots=True)
class Description:
    """A stream before a record of it is read.

    `columns` are the names that can be read; of messages without the fields of their values, which cannot be listed.
    `key` and `lane` are the columns of a record's key and lane where the system has such, `lanes` is the lane count
    where it is known. `skipped` counts lines and values of messages that are no records, while batches are read.
    `sampled` says what is read of a stream that is not read as a whole. `key_space` are its lanes as ranges, where they
    are such. `noticed` is what else there is to say of the records, once they were read. `unjudged` reads what records
    there are beside those of `parts`, for a stream that looks empty, and says it in words. `misread` is the error to
    raise where a column is missing and the files look as if they were read wrongly.
    """

    address: str
    columns: tuple[str, ...]
    parts: tuple[Part, ...]
    read: Read
    lanes: int | None = None
    key: str | None = None
    lane: str | None = None
    skipped: Skipped = field(default_factory=Skipped)
    sampled: str = ""
    key_space: KeySpace | None = None
    noticed: Callable[[], Sequence[str]] = tuple
    unjudged: Callable[[], str] = str
    misread: KeylaneError | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all parts, in this order, a batch at a time."""
        return chain.from_iterable(self.read(part, columns) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: its metadata and its parts; no record of it has been read.

    `order` are the sources of a target in the order in which it took them, as far as a record's order goes across
    sources; None where each source has an order of its own, as partitions do. Of a source they are its own parts, where
    records of a key go on from one to the next, as from a shard to its children. `taken` are the sources that a target
    took, where it records them, and `claimed` are its own counts. `kind` and `every_name` select the
    files of a folder. `begins` is the first position that is still there of a source with retention.
    `excused` are reasons of dead letters that cannot be checked against their records. `remarks` are what a
    reader of the certificate has to know, and `unproven` are rules that this stream leaves unchecked.

    `keys`: records have a key of their own, and null is one. `epochs`: they carry their writer's. `values` says why
    contents are not compared: nothing where they are. Of a target: `dense` offsets are 0, 1, 2 and so on, and records
    have a place in their lane; `by_key` is whether a lane keeps the order of each key only; `ends` are the
    next offsets that it claims, by stream and lane. `bases` are positions at which sources begin for rules that place
    by position, 0 where one is missing, None where they are not known.
    `as_messages` is whether it holds records as messages, otherwise `schema` are their columns. `source_id` is what
    the source's system knew it by when it was routed; nothing where that is not known. `csv_null` are the texts of a
    cell of CSV that stood for null, and `delimiter` was between cells.
    `key_space` are the lanes of a target as ranges, where they need not be equal. `noticed` is what else there is to
    say of the records, once this process has read them, and `unnoticed` what is missing there where others read them.
    `located` gives the shard of an offset and the position in it, of a target whose lanes are shards.
    `apart` is whether the sources of a source, its partitions, have no order between them.
    `hidden` is why records at the ends of lanes cannot be read yet; nothing where all can.
    `strays` are files in a target that are none of its parts: readers that list files would read them, or miss them.
    """

    address: str
    parts: tuple[Part, ...]
    read: Read
    lanes: Mapping[str, int] = field(default_factory=dict)
    contract: str | None = None
    fingerprint: str | None = None
    epoch: int | None = None
    kind: str | None = None
    order: tuple[str, ...] | None = None
    taken: frozenset[str] | None = None
    claimed: Counts | None = None
    every_name: bool = False
    begins: Mapping[str, int] = field(default_factory=dict)
    excused: frozenset[str] = NOT_OF_CONTRACT
    remarks: tuple[str, ...] = ()
    unproven: tuple[Unproven, ...] = ()
    keys: bool = False
    epochs: bool = False
    dense: bool = False
    by_key: bool = False
    ends: Mapping[str, Sequence[int]] | None = None
    bases: Mapping[str, int] | None = None
    as_messages: bool = False
    source_id: str = ""
    csv_null: tuple[str, ...] = ()
    delimiter: str = ","
    schema: pa.Schema | None = None
    apart: bool = False
    hidden: str = ""
    strays: tuple[str, ...] = ()
    key_space: KeySpace | None = None
    noticed: Callable[[], Sequence[str]] = tuple
    unnoticed: str = ""
    located: Callable[[int], tuple[str, int]] | None = None
    values: str = "this system does not give the contents of its records"

    @property
    def records(self) -> int | None:
        """Number of records with dead letters, where it is known without reading; of topics, an upper bound."""
        ends = [part.end for part in self.parts]
        return None if None in ends else sum(part.end - part.start for part in self.parts if part.end is not None)


class MessageFields(Protocol):
    """How the fields of a spec are read out of messages: bytes of keys and values, and times."""

    @property
    def spec(self) -> FieldSpec:
        """Which fields, and what they hold."""
        ...

    def marked(self, keys: pa.Array, values: pa.Array | None, times: pa.Array | None) -> dict[str, pa.Array]:
        """The fields by name, and behind them the marks of records that lack one."""
        ...

    def unreadable(self, values: Sequence[bytes | None]) -> pa.Array | None:
        """Whether values are surely not of their form: true, or null; None where that cannot be seen."""
        ...


def position_columns(rows: int, **given: pa.Array | None) -> list[pa.Array]:
    """The columns of `POSITIONS`, null where nothing is given."""
    columns = {name: column for name, column in given.items() if column is not None}
    return [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in POSITIONS
    ]
