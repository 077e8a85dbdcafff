"""A contract in boto3: the arguments that put a record on the shard the contract says.

Needs no library itself: it returns what `put_record` and `put_records` take. Reading shards and changing them comes
with the key space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keylane.errors import UnplacedError, UsageError
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.router import Router

MOST_UNITS = 256


def put_arguments(
    router: Router, record: Mapping[str, Any], data: bytes, position: int | None = None
) -> dict[str, Any]:
    """`StreamName`, `Data`, `PartitionKey` and, where the key's own hash would land elsewhere, `ExplicitHashKey`.

    The explicit hash key is the first of the lane's range, as decimal text without leading zeros: the form the service
    takes. Shards are those of the router's key space: of equal width, as a new stream has them, unless it has another.
    """
    placement = router.placed(record, position)
    lane = placement.lane
    if placement.routing_key is None:
        raise UnplacedError("Kinesis needs a partition key, and this record has none", Reason.NULL_KEY)
    if lane is None:
        raise UnplacedError(f"no lane: {placement.why[-1]}", Reason.NO_POSITION)
    arguments = {"StreamName": placement.stream, "Data": data, "PartitionKey": _partition_key(placement.routing_key)}
    shards = router.key_space_in(placement.stream)
    if router.facts.name == "kinesis-md5" and lane == router.partitioner.lane(placement.routing_key, shards):
        return arguments
    return {**arguments, "ExplicitHashKey": str(shards.range_of(lane)[0])}


def _partition_key(key: bytes) -> str:
    """The key as the text Kinesis wants: 1 to 256 UTF-16 units, the stricter of the readings in use."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise UsageError.of("a Kinesis partition key is text", got=key, hint="encoding: utf8") from None
    if not 1 <= len(text.encode("utf-16-le")) // 2 <= MOST_UNITS:
        raise UsageError.of("a Kinesis partition key has 1 to 256 characters", got=text)
    return text
