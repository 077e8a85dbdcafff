"""Records of a part of a stream as columns, in chunks: what a client's messages have, whatever system they are of.

A system's reader asks its client for messages and gives them to `ChunkReader`, which reads no more of them than is
wanted. What the columns mean: `values` and `headers`. Who looks at them: `stream`, `columns`, `local_scan`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

from keylane.systems.messages.headers import ATTEMPT, CONTRACT, DEAD_PREFIX, EPOCH, REASON, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    #: Fingerprint, epoch, and whether the record is marked as written again.
    Writer = tuple[bytes | None, bytes | None, bool]

#: Headers of a dead letter: the time of its record, and what is there of parts that it has not.
TIME: Final = f"{DEAD_PREFIX}timestamp"
_LEFT_OUT: Final = frozenset(f"{DEAD_PREFIX}{name}" for name in ("value.bytes", "headers.count", "key.bytes"))
_MOST_DIGITS: Final = 19
#: Headers that a route adds to a record: source, contract and epoch.
_ROUTE_HEADERS: Final = 3
#: The kinds of time that a message has: one that its producer gave, and when it came.
CREATED, APPENDED = 1, 2
#: The end of no record's headers.
_NEVER: Final = [("", b"")]


@dataclass(slots=True)
class RecordChunk:
    """Columns of consecutive records; those from `values` on only where requested.

    `lengths` are those of the values, `sources` is the source header of each record, `writers` the index of its writer
    among the reader's, `reasons` why it is a dead letter. `stamps` are times that producers gave, and `own` are the
    headers of a record, without those that its last route wrote. `cut` are dead letters of which something was left
    out. `lanes` are those of the records, where a part has not one for all.
    """

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sources: list[bytes | None] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    reasons: list[bytes | None] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    own: list[list[tuple[str, bytes]] | None] = field(default_factory=list)
    cut: list[bool] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    weight: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, first: int, last: int) -> RecordChunk:
        """The records from one number up to another."""
        columns = {one.name: getattr(self, one.name)[first:last] for one in fields(self) if one.name != "weight"}
        return RecordChunk(**columns, weight=self.weight)

    def taken(self, rows: Sequence[int]) -> RecordChunk:
        """The records with these numbers."""
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "weight"}
        return RecordChunk(
            **{name: [column[row] for row in rows] if column else [] for name, column in columns.items()},
            weight=self.weight,
        )


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """What is read of each record beside its key and offset. `headers`: it is of a target, and who wrote it is wanted.

    `contents`: all that is compared with another copy of the record.
    """

    values: bool = False
    times: bool = False
    headers: bool = False
    contents: bool = False
    lengths: bool = False


@dataclass(slots=True)
class ChunkReader:
    """Reads parts of a stream as chunks; a system says how. `writers` are those that were met, numbered."""

    wanted: WantedColumns
    writers: dict[Writer, int] = field(default_factory=dict, init=False)
    _tail: list[tuple[str, bytes]] = field(default_factory=list, init=False)
    _writer: int = field(default=-1, init=False)

    def chunks(
        self, topic: str, lane: int, start: int, end: int | None, *, dead: bool = False
    ) -> Iterator[RecordChunk]:
        """The records of a lane from one offset up to another; of dead letters their reasons, too."""
        raise NotImplementedError

    def with_values(self) -> Self:
        """The same, and values too."""
        return replace(self, wanted=replace(self.wanted, values=True))

    @property
    def kept(self) -> tuple[int, ...]:
        """The kinds of time that are of the record: in a target not the one that the system set when it came."""
        return (CREATED,) if self.wanted.headers else (CREATED, APPENDED)

    def _add(self, chunk: RecordChunk, messages: list[Any]) -> None:
        """The hot part: a call for each column that is wanted, and nothing else for each record."""
        message = type(messages[0])
        chunk.offsets += map(message.offset, messages)
        chunk.keys += map(message.key, messages)
        if self.wanted.values:
            values = list(map(message.value, messages))
            chunk.weight += sum(len(value) for value in values if value is not None)
            chunk.values += values
        if self.wanted.lengths:
            chunk.lengths += map(len, messages)
        if self.wanted.times or self.wanted.contents:
            stamps = list(map(message.timestamp, messages))
            chunk.times += [at for _, at in stamps]
            # One less than zero is how a record without a time has it: a route's writer gives it one.
            chunk.stamps += [at if kind in self.kept and at != -1 else None for kind, at in stamps]
        if self.wanted.headers:
            self._add_headers(chunk, map(message.headers, messages))
        elif self.wanted.contents:
            chunk.own += map(message.headers, messages)

    def _add_letters(self, chunk: RecordChunk, letters: list[dict[str, bytes]]) -> None:
        """Why each is a dead letter; the time of its record, which its topic may not take; and what was left out."""
        chunk.reasons += [letter.get(REASON) for letter in letters]
        chunk.cut += [not _LEFT_OUT.isdisjoint(letter) for letter in letters]
        if self.wanted.contents:
            own = chunk.stamps[-len(letters) :]
            chunk.stamps[-len(letters) :] = [
                _number(letter[TIME]) if TIME in letter else at for letter, at in zip(letters, own, strict=True)
            ]

    def _add_headers(self, chunk: RecordChunk, several: Iterable[list[tuple[str, bytes]] | None]) -> None:
        """The fast path for records whose headers end as those of the previous record: nearly all."""
        source, writer, number, own = chunk.sources.append, chunk.writers.append, self._writer, chunk.own.append
        for headers in several:
            if headers and headers[-2:] == self._tail and headers[-3:][0][0] == SOURCE:
                source(headers[-3][1])
                own(headers[:-3] if len(headers) > _ROUTE_HEADERS else None)
            else:
                source(self._source_of(headers or []))
                own(_own(headers or []))
                number = self._writer
            writer(number)

    def _source_of(self, headers: list[tuple[str, bytes]]) -> bytes | None:
        """The slow path. Of two headers of one name the last counts: it is what the last route wrote.

        An attempt is the last route's only behind its source: otherwise it is of an earlier route of the record.
        """
        values, names = dict(headers), [name for name, _ in headers]
        again = ATTEMPT in names and SOURCE not in names[_last(names, ATTEMPT) :]
        self._writer = self.writers.setdefault((values.get(CONTRACT), values.get(EPOCH), again), len(self.writers))
        self._tail = headers[-2:] if names[-3:] == [SOURCE, CONTRACT, EPOCH] else _NEVER
        return values.get(SOURCE)


def _own(headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers that a record had before its last route, and what somebody has put behind those of the route."""
    names = [name for name, _ in headers]
    if SOURCE not in names:
        return headers
    at = _last(names, SOURCE)
    return headers[:at] + [one for one in headers[at + 1 :] if one[0] not in {CONTRACT, EPOCH, ATTEMPT}]


def _number(text: bytes | None) -> int | None:
    return int(text) if text and text.removeprefix(b"-").isdigit() and len(text) < _MOST_DIGITS else None


def of_letter(headers: list[tuple[str, bytes]] | None) -> list[tuple[str, bytes]] | None:
    """The headers of a dead letter's record: those that say why it is one come behind them."""
    names = [name for name, _ in headers or []]
    return headers[: _last(names, REASON)] if headers and REASON in names else headers


def _last(names: list[str], name: str) -> int:
    return len(names) - 1 - names[::-1].index(name)
