"""A number for each lane that Spark's own hash puts in the partition of that lane.

Spark places the groups of a stateful operator, of a join and of a cogroup by `pmod(hash(key), n)`, whatever layout the
records had before. Lane ids as keys would share partitions: 0 to 59 on sixty partitions use 38 of them, and some tasks
then hold three lanes while others idle. So lanes are grouped by lane keys, and lane i is partition i.

Rule: the key of lane i is the smallest whole number from 0 whose hash, as Spark's `int`, is i modulo the lane count.

Worked example: on four lanes 0 hashes to partition 3, so the key of lane 3 is 0.

Another lane count needs other keys: they are never stored without it. When not to use it: for any type but Spark's
`int`, whose `bigint` hashes otherwise; and for placement in Kafka, which has nothing to do with Spark's hash.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from keylane import numbers
from keylane.contract.names import MAX_LANES
from keylane.errors import LaneCountError
from keylane.hashing.murmur3 import spark_int


def partition_of(key: int, partitions: int) -> int:
    """The partition that Spark gives a group whose key is this `int`.

    >>> len({partition_of(lane, 60) for lane in range(60)})
    38
    """
    hashed = spark_int(key)
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % partitions


@lru_cache(maxsize=64)
def lane_keys(lanes: int) -> tuple[int, ...]:
    """The keys of lanes 0 to n-1, in their order.

    >>> keys = lane_keys(60)
    >>> [partition_of(key, 60) for key in keys] == list(range(60)), max(keys) < 346
    (True, True)
    """
    if not 1 <= lanes <= MAX_LANES:
        raise LaneCountError.of("lane count is out of range", got=lanes, allowed=f"1 to {numbers.count(MAX_LANES)}")
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(partition_of(key, lanes), key)
        if len(found) == lanes:
            break
    return tuple(found[lane] for lane in range(lanes))
