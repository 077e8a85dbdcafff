"""The shards of a stream as they are now, and what is known of the stream itself.

    describe_stream   whether it is there, what it takes of a record, whether it heeds keys
    create_stream     a new one, for `--create`
    shards_of         every shard with its range and parents, closed ones too, while the service remembers them
    shards_with_sequences   the same with the numbers that their records lie between
    readable          the shards that may be read next: those whose parents were read to their end
    in_lineage        all shards, each behind its parents: children have larger numbers than their parents

The layout itself, and what splits and merges make of it: `keyspace.layout`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError, TargetError
from keylane.keyspace.layout import Shard, ShardLayout
from keylane.systems.kinesis.access import calling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from keylane.systems.kinesis.access import KinesisAccess

#: Of a stream that does not say otherwise.
RECORD_BYTES: Final = 1 << 20
_ID: Final = re.compile(r"shardId-([0-9]{12})")
_END: Final = "EndingSequenceNumber"
_READY: Final = ("ACTIVE", "UPDATING")


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What the service says of a stream: `id` is another when it is made anew; `heeds_keys`: keys decide the shard.

    `made_at` is in seconds since 1970, 0 where it is not known. `shard_metrics` are those that it counts by shard.
    """

    id: str
    record_bytes: int
    heeds_keys: bool
    provisioned: bool
    retention_hours: int
    made_at: float = 0.0
    shard_metrics: tuple[str, ...] = ()


def describe_stream(
    access: KinesisAccess, stream: str, error: type[DataError | TargetError] = DataError
) -> StreamFacts:
    """Ask the service; refused where there is no such stream, or where it is being made or deleted."""
    with calling(access, stream, error):
        found = access.client().describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
    if found["StreamStatus"] not in _READY:
        hint = "try again when it is ACTIVE"
        raise error.of(f"stream {stream!r} cannot be used now", got=found["StreamStatus"], allowed="ACTIVE", hint=hint)
    made = found.get("StreamCreationTimestamp")
    return StreamFacts(
        id=f"{found['StreamARN']}@{made.timestamp():.3f}" if made is not None else "",
        record_bytes=int(found.get("MaxRecordSizeInKiB") or RECORD_BYTES >> 10) << 10,
        heeds_keys=found.get("RecordDistributionStrategy", "USER_PARTITION_KEY") != "AUTO",
        provisioned=found.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED") == "PROVISIONED",
        retention_hours=int(found.get("RetentionPeriodHours", 24)),
        made_at=0.0 if made is None else made.timestamp(),
        shard_metrics=tuple(name for one in found.get("EnhancedMonitoring", ()) for name in one["ShardLevelMetrics"]),
    )


def shards_of(access: KinesisAccess, stream: str, error: type[DataError | TargetError] = DataError) -> ShardLayout:
    """All shards that the service lists."""
    found = map(_shard, _listed(access, stream, error))
    return ShardLayout(tuple(sorted(found, key=lambda one: (one.closed, one.start, one.end))))


def shards_with_sequences(access: KinesisAccess, stream: str) -> list[tuple[Shard, int, int | None]]:
    """The same with the sequence number that each begins at, and the one that a closed one ended at."""
    found = [(_shard(one), one["SequenceNumberRange"]) for one in _listed(access, stream, TargetError)]
    return [
        (shard, int(numbers["StartingSequenceNumber"]), int(numbers[_END]) if _END in numbers else None)
        for shard, numbers in found
    ]


def _listed(access: KinesisAccess, stream: str, error: type[DataError | TargetError]) -> Iterator[dict[str, Any]]:
    """Page by page."""
    asked: dict[str, Any] = {"StreamName": stream}
    while asked:
        with calling(access, stream, error):
            answer = access.client().list_shards(**asked)
        yield from answer["Shards"]
        asked = {"NextToken": answer["NextToken"]} if answer.get("NextToken") else {}


def _shard(given: dict[str, Any]) -> Shard:
    parents = (given.get("ParentShardId"), given.get("AdjacentParentShardId"))
    return Shard(
        given["ShardId"],
        int(given["HashKeyRange"]["StartingHashKey"]),
        int(given["HashKeyRange"]["EndingHashKey"]),
        parents=tuple(filter(None, parents)),
        closed=_END in given["SequenceNumberRange"],
    )


def create_stream(access: KinesisAccess, name: str, shards: int) -> None:
    """Make a stream, and wait until it takes records."""
    client = access.client()
    with calling(access, name, TargetError):
        client.create_stream(StreamName=name, ShardCount=shards)
        client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})


def number_of(shard: str) -> int:
    """The number of a shard; the service gives each a larger one than all before it, and never one twice.

    >>> number_of("shardId-000000000017")
    17
    """
    match = _ID.fullmatch(shard)
    if match is None:
        raise DataError.of("not the id of a shard", got=shard, allowed="shardId- and twelve digits")
    return int(match[1])


def id_of(number: int) -> str:
    """The reverse of `number_of`."""
    return f"shardId-{number:012d}"


def in_lineage(layout: ShardLayout) -> list[Shard]:
    """All shards, each behind its parents: in this order, records of one hash key are read as they were written."""
    return sorted(layout.shards, key=lambda one: number_of(one.id))


def readable(layout: ShardLayout, is_ended: Callable[[str], bool], started: Collection[str] = ()) -> Iterable[Shard]:
    """Shards that are not read to their end, and all of whose parents are; a parent that is not listed is forgotten.

    `started` are shards of which something was read: they go on also where a parent is listed again.
    """
    listed = {shard.id for shard in layout.shards}
    for shard in in_lineage(layout):
        waits = any(parent in listed and not is_ended(parent) for parent in shard.parents)
        if not is_ended(shard.id) and (shard.id in started or not waits):
            yield shard
