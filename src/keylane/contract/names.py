"""The closed lists of names a contract may use. They outlive releases: a name is added, never changed.

What a name does is elsewhere: encodings in `keys.encode`, hashes in `hashing`, partitioners in
`placement.partitioners`. A test holds that each of those knows just the names listed here.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

#: More lanes than any stream has; a larger number in a contract is a slip of the hand.
MAX_LANES: Final = 100_000
#: The largest epoch of a contract.
MAX_EPOCH: Final = 2**31 - 1

PartitionerName: TypeAlias = Literal[
    "kafka-java",
    "librdkafka-consistent",
    "librdkafka-consistent-random",
    "librdkafka-murmur2",
    "librdkafka-murmur2-random",
    "librdkafka-fnv1a",
    "librdkafka-fnv1a-random",
    "librdkafka-random",
    "sarama-hash",
    "sarama-reference",
    "sarama-crc",
    "kafkajs-1",
    "kafkajs-2",
    "kafka-go-hash",
    "kafka-go-reference",
    "kafka-go-crc32",
    "kafka-go-murmur2",
    "pulsar-java-string",
    "pulsar-murmur3",
    "spark-hash",
    "kinesis-md5",
    "abs-long-hashcode",
    "murmur2-big-endian",
]
PARTITIONERS: Final[tuple[PartitionerName, ...]] = get_args(PartitionerName)

HashName: TypeAlias = Literal[
    "murmur2",
    "murmur2-big-endian",
    "kafkajs-legacy",
    "crc32",
    "fnv1a",
    "murmur3-32",
    "spark-murmur3",
    "md5-128",
    "java-string",
    "java-long",
]
HASHES: Final[tuple[HashName, ...]] = get_args(HashName)

Encoding: TypeAlias = Literal["utf8", "int32be", "int64be", "uuid", "h3", "place", "raw"]
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)

#: Bytes an encoding always takes; the others vary. The two fields of a location become one cell.
FIXED_WIDTH: Final[dict[str, int]] = {"int32be": 4, "int64be": 8, "uuid": 16, "h3": 8, "place": 8}

#: Rules that place a record without looking at its key.
KeylessRule: TypeAlias = Literal["sticky", "random", "round_robin"]
#: What a contract may set for null and empty keys. `client`: as the named partitioner's client does.
KeyRule: TypeAlias = Literal["client", "hash", "sticky", "random", "round_robin", "reject"]
