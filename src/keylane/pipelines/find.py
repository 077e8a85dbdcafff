"""`find`: where is this key in a topic? Only the lanes that it may be in are read, the newest records first.

    lanes_for   key -> the lanes that a contract, named partitioners or any known client would put it in
    find        reads them from their ends back, block by block, until it has enough or has read what it may

What was not read is stated: not found in what was read is not the same as not there, and a key that another writer has
put into another lane is found by reading all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.fields import TIME, FieldSpec
from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS
from keylane.documents.find import FindDocument, FoundLane, FoundRecord
from keylane.errors import UnplacedError, UnsupportedError, UsageError
from keylane.keys.arrow_bytes import as_binary
from keylane.keys.columns import encode_column
from keylane.keys.read import read_batch, record_reader
from keylane.migration.drain import lanes_of
from keylane.numbers import agree, count, plural
from keylane.numbers import lanes as lanes_in_words
from keylane.pipelines.explain import by_client
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.contract.model import Contract, Key
    from keylane.contract.names import Encoding
    from keylane.pipelines.engine import Watch
    from keylane.systems.streams import Description

    LanesBy: TypeAlias = Literal["contract", "partitioners", "clients", "all"]

__all__ = ["Sought", "find"]

#: Clients that do not write to Kafka, and code that hardly anybody has deployed.
_NOT_OF_KAFKA: Final = ("Pulsar", "Kinesis", "Spark", "teaching code")
#: Offsets that are read of a lane before the next lane has its turn.
BLOCK: Final = 20_000
#: Offsets that are read where nothing else is asked for.
MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Sought:
    """A key, and who may have written it. Without a contract `key` are its bytes, with one `record` has its fields."""

    typed: str
    key: bytes = b""
    record: Mapping[str, Any] = field(default_factory=dict)
    contract: Contract | None = None
    partitioners: tuple[str, ...] = ()
    encoding: Encoding = "utf8"
    all_lanes: bool = False


@dataclass(frozen=True, slots=True)
class _Homes:
    """The lanes that a key may be in, with who puts it there; and those of other streams."""

    by: LanesBy
    lanes: dict[int, list[str]]
    elsewhere: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """A lane as it is read: from `at` back to `start`."""

    start: int
    at: int
    end: int
    compared: int = 0
    found: list[tuple[int, int | None]] = field(default_factory=list)


def find(
    source: str, sought: Sought, *, most_found: int = 10, options: StreamOptions | None = None, watch: Watch = iter
) -> FindDocument:
    """The newest records of a key; `options.read_range` bounds what is read, `watch` sees batches go by."""
    options = options or StreamOptions()
    wanted = options.read_range or ReadRange()
    inside = replace(wanted, most=None, partitions=())
    endpoint = open_endpoint(source, replace(options, read_range=None if inside == ReadRange() else inside))
    spec = _spec(sought, options)
    described = endpoint.describe(spec)
    if not endpoint.messages or described.key_space is not None or described.lanes is None:
        raise UnsupportedError.of("find reads topics", got=source, allowed="kafka://host:port/topic")
    homes = _homes(sought, described.lanes, wanted.partitions)
    there = {part.lane: (part.start, int(part.end or 0)) for part in described.parts if part.lane is not None}
    readings = {
        lane: _Reading(start, end, end) for lane in sorted(homes.lanes) for start, end in [there.get(lane, (0, 0))]
    }
    _read(described, sought, spec, readings, most_found, wanted.most or MOST, watch)
    return _document(source, sought, described, homes, readings, most_found, timed=inside != ReadRange())


def _spec(sought: Sought, options: StreamOptions) -> FieldSpec:
    """The columns of the key alone: a window's time does not tell one key from another."""
    if sought.contract is None:
        return FieldSpec()
    key = _without_window(sought.contract.spec.key)
    spec = FieldSpec.of_key(key)
    return spec.keyed_by(key) if options.value is None else spec


def _without_window(key: Key) -> Key:
    return key.model_copy(update={"window": None})


def _base(sought: Sought) -> bytes:
    """The bytes that are looked for."""
    if sought.contract is None:
        return sought.key
    spec = sought.contract.spec
    try:
        base = record_reader(_without_window(spec.key), spec.geo)(sought.record)[0]
    except UnplacedError as error:
        raise UsageError(str(error)) from None
    if base is None:
        raise UsageError.of("a null key is in no lane of its own", allowed="a value for every field of the key")
    return base


def _homes(sought: Sought, lanes: int, given: Sequence[int]) -> _Homes:
    """Where the key may be; lanes that were given are read whoever would put it there."""
    beyond = [lane for lane in given if lane >= lanes]
    if beyond:
        raise UsageError.of("the topic has no such partition", got=beyond[0], allowed=f"0 to {lanes - 1}")
    if sought.all_lanes or given:
        by = _homes(replace(sought, all_lanes=False), lanes, ()).lanes
        return _Homes("all", {lane: by.get(lane, []) for lane in given or range(lanes)})
    if sought.contract is not None:
        return _by_contract(sought.contract, _base(sought), lanes)
    named = sought.partitioners or [name for name in PARTITIONERS if not FACTS[name].client.startswith(_NOT_OF_KAFKA)]
    shown = by_client(sought.key, lanes, sought.encoding, "kafka-java", typed=sought.typed)
    rows = [row for row in shown.placements if row.partitioner in named]
    found: dict[int, list[str]] = {}
    for row in rows:
        if row.lane is not None:
            found.setdefault(row.lane, []).append(row.partitioner)
    free = [row.partitioner for row in rows if row.lane is None]
    if sought.partitioners and free:
        return _Homes("all", {lane: [] for lane in range(lanes)}, notes=(f"{', '.join(free)}: any lane",))
    return _Homes("partitioners" if sought.partitioners else "clients", found)


def _by_contract(contract: Contract, base: bytes, lanes: int) -> _Homes:
    router = Router(contract, lanes=lanes if contract.spec.lanes == "live" else None)
    names = lanes_of(router, base)
    if router.facts.fold == "keyless" and len(names) <= 1 and base not in router.overrides.hot:
        names = frozenset(map(str, range(router.lane_count)))
    own = sorted(int(name) for name in names if name.isdecimal())
    notes = []
    if router.lane_count != lanes:
        notes.append(f"the contract has {plural(router.lane_count, 'lane')}, the topic {count(lanes)}")
    if not names:
        notes.append("the contract gives this key no lane")
    return _Homes(
        "contract",
        {lane: [contract.metadata.name] for lane in own if lane < lanes},
        tuple(sorted(names - {str(lane) for lane in own})),
        tuple(notes),
    )


def _read(
    described: Description,
    sought: Sought,
    spec: FieldSpec,
    readings: Mapping[int, _Reading],
    most_found: int,
    most: int,
    watch: Watch,
) -> None:
    """Block after block of each lane in turn, from the end back, until enough was found or read."""
    base = pa.scalar(_base(sought), pa.large_binary())
    columns = [*(spec.names or (described.key or "key",)), "lane", "offset", TIME]
    parts = {part.lane: part for part in described.parts}
    left = most
    while left > 0 and sum(len(one.found) for one in readings.values()) < most_found:
        todo = [lane for lane, one in readings.items() if one.at > one.start]
        if not todo:
            return
        for lane in todo:
            one = readings[lane]
            size = min(BLOCK, one.at - one.start, left)
            if not size:
                return
            part = replace(parts[lane], start=one.at - size, end=one.at)
            for batch in watch(described.read(part, columns)):
                one.compared += len(batch)
                one.found += _matching(batch, sought.contract, base)
            one.at, left = one.at - size, left - size


def _matching(batch: pa.RecordBatch, contract: Contract | None, base: pa.Scalar) -> list[tuple[int, int | None]]:
    """Offset and time, in milliseconds, of the records with this key."""
    if contract is None:
        keys = as_binary(encode_column(batch.column(0), "raw", "key")[0])
    else:
        keys = as_binary(read_batch(batch, _without_window(contract.spec.key), contract.spec.geo).base)
    equal = pc.equal(keys.cast(pa.large_binary()), base).fill_null(False)
    rows = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    offsets, times = batch.column("offset"), batch.column(TIME)
    return [(offsets[int(row)].as_py(), _milliseconds(times[int(row)].as_py())) for row in rows]


def _milliseconds(time: datetime | int | None) -> int | None:
    return round(time.timestamp() * 1000) if isinstance(time, datetime) else time


def _document(
    source: str,
    sought: Sought,
    described: Description,
    homes: _Homes,
    readings: Mapping[int, _Reading],
    most_found: int,
    *,
    timed: bool,
) -> FindDocument:
    records = [(time or -1, offset, lane) for lane, one in readings.items() for offset, time in one.found]
    records.sort(key=lambda one: (-one[0], -one[1], one[2]))
    read_all = not timed and not described.skipped.lines
    rows = [
        FoundLane(
            lane=lane,
            by=homes.lanes[lane],
            first=one.at,
            end=one.end,
            compared=one.compared,
            found=len(one.found),
            whole=read_all and one.at <= one.start,
        )
        for lane, one in readings.items()
    ]
    whole = all(row.whole for row in rows)
    document = FindDocument(
        source=source,
        key=sought.typed,
        lanes_by=homes.by,
        found=len(records),
        compared=sum(one.compared for one in readings.values()),
        whole=whole,
        everywhere=whole and len(rows) == described.lanes,
        lanes_there=int(described.lanes or 1),
        lanes=rows,
        records=[FoundRecord(lane=lane, offset=offset, time=_utc(time)) for time, offset, lane in records[:most_found]],
        elsewhere=list(homes.elsewhere),
        notes=[],
    )
    return document.model_copy(update={"notes": list(_notes(document, homes, sought, described, timed=timed))})


def _utc(time: int) -> str | None:
    if time < 0:
        return None
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _notes(document: FindDocument, homes: _Homes, sought: Sought, described: Description, *, timed: bool) -> list[str]:
    notes = list(homes.notes)
    if described.skipped.lines:
        notes.append(f"not compared: {described.skipped.counted}")
    if document.elsewhere:
        notes.append(f"the key may also be in another stream: {', '.join(document.elsewhere)}")
    if not document.whole:
        cut = [row.lane for row in document.lanes if not row.whole]
        older = "outside of the range of time, or older" if timed else "older"
        text = f"{older} records of {lanes_in_words(cut)} were not read"
        more = "" if document.found else ": not found in what was read is not the same as not there"
        notes.append(f"{text}{more}; --max-records, --count and the range of time set how much is")
    if not document.everywhere and not document.found:
        notes.append(_others(document, sought))
    return notes


def _others(document: FindDocument, sought: Sought) -> str:
    """Where else it may be, if somebody else has written it."""
    read = {row.lane for row in document.lanes}
    only = f"{plural(len(read), 'lane')} of {count(document.lanes_there)} {agree(len(read), 'was', 'were')} read"
    hint = "--all-lanes reads all of them"
    if sought.contract is None:
        return f"{only}: a writer that is not known may have put the key into another; {hint}"
    shown = by_client(_base(sought), document.lanes_there, "raw", "kafka-java", typed=None)
    apart = [group for group in shown.groups if group.lane not in read]
    named = "; ".join(f"lane {group.lane} by {', '.join(group.partitioners[:2])}" for group in apart[:4])
    return f"{only}: another writer would have put the key elsewhere ({named}); {hint}" if named else f"{only}; {hint}"
