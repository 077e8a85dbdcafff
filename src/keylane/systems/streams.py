"""Any stream, read for what `verify` needs of it: records with their positions, a part at a time, as Arrow batches.

`open_source` and `open_target` take an address and give a `Stream`: what is known of it without reading, its parts, and
a function that reads a part. A part is a file, or an offset range of a partition: small enough to be handed to a
worker, and read on its own. Every system has one module that makes such streams: `files.stream`, `kafka.stream`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from keylane.errors import UsageError
from keylane.records import Reason
from keylane.systems.kafka.values import ValueOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Address
    from keylane.systems.folders.folder import Counts

    #: Reads a part: the columns of `PLACES`, then the fields that were asked for, those that there are. A field may
    #: be called as a place is, so places are taken by their number.
    Read = Callable[["Part", Sequence[str]], Iterator[pa.RecordBatch]]

__all__ = ["PLACES", "Part", "Stream", "TopicOptions", "open_source", "open_target", "places"]

#: The columns of every batch, before the fields that a contract needs.
PLACES: Final = pa.schema(
    [
        ("stream", pa.string()),  # where the record is: null in a source
        ("lane", pa.int32()),
        ("offset", pa.int64()),
        ("source", pa.string()),  # where it came from: a file or `topic/partition`, as the target names it
        ("position", pa.int64()),  # and its row or offset there
        ("key", pa.binary()),  # its bytes, where the system has such; null where the key is among the fields
        ("epoch", pa.int64()),  # of its writer; null where nobody says
        ("fingerprint", pa.string()),  # of the contract it was placed by; null: the one of the whole stream
        ("replay", pa.bool_()),  # marked as written again; null where nobody marks
        ("dead", pa.bool_()),  # a dead letter, which has no lane
        ("reason", pa.string()),  # why it is one
    ]
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a stream that is read on its own, from `start` up to `end`."""

    name: str
    stream: str | None = None
    lane: int | None = None
    start: int = 0
    end: int | None = None
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that was found: what it says of itself, and its parts; no record of it has been read.

    `order` are the sources of a target in the order in which it took them, as far as a record's order goes across
    sources; None where each source has an order of its own, as partitions do. `taken` are the sources that a target
    says it took, where it says so, and `claimed` is what it says it has come to. `kind` and `every_name` say which
    files of a folder count. `begins` is the first position that is still there of a source that has forgotten some.
    `excused` are reasons of dead letters of which their records do not say whether they are right. `remarks` are what a
    reader of the certificate has to know.
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
    excused: frozenset[str] = frozenset({Reason.PARKED_KEY})
    remarks: tuple[str, ...] = ()

    @property
    def records(self) -> int | None:
        """How many records there are, dead letters included, where that is known unread; of topics: at most so many."""
        ends = [part.end for part in self.parts]
        return None if None in ends else sum(part.end - part.start for part in self.parts if part.end is not None)


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What is said of topics beside their addresses.

    `properties` are client properties (`kafka.access`), `values` how values are written, where the contract needs a
    field of them. `dead_letters` is a topic, `<topic>.dlq` when it is not given; `state` the folder of the route.
    """

    properties: tuple[tuple[str, str], ...] = ()
    values: ValueOptions = field(default_factory=ValueOptions)
    dead_letters: str | None = None
    state: str | None = None


def open_source(address: Address, target: Stream, contract: Contract | None, said: TopicOptions) -> Stream:
    """The stream that a target took its records from."""
    if address.system == "files":
        from keylane.systems.files.stream import source_stream

        return source_stream(address, target)
    if address.system == "kafka":
        from keylane.systems.kafka.stream import source_topic

        return source_topic(address, contract, said)
    raise _not_yet(address)


def open_target(address: Address, source: Address, contract: Contract | None, said: TopicOptions) -> Stream:
    """The stream that records were put in."""
    if address.system == "files":
        from keylane.systems.files.stream import target_stream

        found = target_stream(address)
        return found if source.system == "files" else _routed_from_topic(found, contract, said)
    if address.system == "kafka":
        from keylane.systems.kafka.stream import target_topic

        return target_topic(address, source, contract, said)
    raise _not_yet(address)


def _routed_from_topic(found: Stream, contract: Contract | None, said: TopicOptions) -> Stream:
    from keylane.systems.kafka.stream import routed_from_topic

    return routed_from_topic(found, contract, said)


def _not_yet(address: Address) -> UsageError:
    what = f"{address.system} is not verified by this version; nothing was contacted"
    return UsageError.of(what, got=str(address), allowed="a path, kafka://host:port/topic")


def places(rows: int, **given: pa.Array | None) -> list[pa.Array]:
    """The columns of `PLACES`, null where nothing is given."""
    columns = {name: column for name, column in given.items() if column is not None}
    return [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in PLACES
    ]
