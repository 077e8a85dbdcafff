"""The facts of every named partitioner: whose placement it is, and by which rule. No code runs here.

A name is a promise. What a released name does never changes: a placement that turns out wrong and exists in
the field keeps its name, and the right one gets a new one. The rules are carried out by `placement`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from keylane.contract.names import PARTITIONERS, Encoding, HashName, KeylessRule, PartitionerName
from keylane.errors import UnknownNameError

#: What a client does with null or empty keys: hash them, refuse them, or place them without the key.
KeyTreatment: TypeAlias = Literal["hash", "reject"] | KeylessRule
#: How a hash becomes a lane; each is a function of `placement.fold` or `placement.ranges`.
Fold: TypeAlias = Literal["masked", "unsigned", "absolute", "positive", "ranges", "keyless"]

ANY: Final[tuple[Encoding, ...]] = ("utf8", "int32be", "int64be", "uuid", "h3", "place", "raw")
TEXT: Final[tuple[Encoding, ...]] = ("utf8",)
LONG: Final[tuple[Encoding, ...]] = ("int64be", "h3", "place")


@dataclass(frozen=True, slots=True)
class PartitionerFacts:
    """One client setting, as data.

    `on_null` and `on_empty` are what that client does with such keys: hash them, or place them without the key.
    `encodings` are the keys that client can hold. `setting` is what to write in the client to get this placement.
    """

    name: PartitionerName
    client: str
    setting: str
    hash: HashName | None
    fold: Fold
    on_null: KeyTreatment
    on_empty: KeyTreatment = "hash"
    encodings: tuple[Encoding, ...] = ANY
    note: str = ""

    @property
    def family(self) -> str:
        """Hash and fold: partitioners of one family place every non-empty key equally."""
        return f"{self.hash}/{self.fold}"


def _librdkafka(
    name: PartitionerName,
    setting: str,
    hash_: HashName | None,
    fold: Fold,
    on_null: KeyTreatment,
    on_empty: KeyTreatment = "hash",
    note: str = "",
) -> PartitionerFacts:
    return PartitionerFacts(name, "librdkafka", f"partitioner={setting}", hash_, fold, on_null, on_empty, ANY, note)


def _go(
    name: PartitionerName,
    setting: str,
    hash_: HashName,
    fold: Fold,
    on_null: KeylessRule,
    on_empty: KeyTreatment = "hash",
) -> PartitionerFacts:
    client = "sarama" if name.startswith("sarama") else "kafka-go"
    return PartitionerFacts(name, client, setting, hash_, fold, on_null, on_empty)


FACTS: Final[dict[str, PartitionerFacts]] = {
    facts.name: facts
    for facts in (
        PartitionerFacts(
            "kafka-java",
            "Java, kafka-python, aiokafka, franz-go",
            "the default; leave partitioner.class unset",
            "murmur2",
            "masked",
            "sticky",
        ),
        _librdkafka("librdkafka-consistent", "consistent", "crc32", "unsigned", "hash"),
        _librdkafka(
            "librdkafka-consistent-random",
            "consistent_random",
            "crc32",
            "unsigned",
            "sticky",
            "sticky",
            "the default of librdkafka: so also of confluent-kafka, kcat, node-rdkafka and rdkafka for Rust",
        ),
        _librdkafka("librdkafka-murmur2", "murmur2", "murmur2", "masked", "hash"),
        _librdkafka("librdkafka-murmur2-random", "murmur2_random", "murmur2", "masked", "sticky"),
        _librdkafka("librdkafka-fnv1a", "fnv1a", "fnv1a", "absolute", "hash"),
        _librdkafka("librdkafka-fnv1a-random", "fnv1a_random", "fnv1a", "absolute", "sticky"),
        _librdkafka(
            "librdkafka-random",
            "random",
            None,
            "keyless",
            "random",
            "random",
            "the key is ignored: no order is kept",
        ),
        _go("sarama-hash", "Producer.Partitioner = sarama.NewHashPartitioner", "fnv1a", "absolute", "random"),
        _go(
            "sarama-reference",
            "Producer.Partitioner = sarama.NewReferenceHashPartitioner",
            "fnv1a",
            "masked",
            "random",
        ),
        _go(
            "sarama-crc",
            "Producer.Partitioner = sarama.NewConsistentCRCHashPartitioner",
            "crc32",
            "unsigned",
            "random",
        ),
        PartitionerFacts(
            "kafkajs-1",
            "kafkajs 1.x",
            "createPartitioner: Partitioners.LegacyPartitioner",
            "kafkajs-legacy",
            "masked",
            "round_robin",
            note="wrong but deployed: a murmur2 that rounds its products to doubles, and agrees with no other client",
        ),
        PartitionerFacts(
            "kafkajs-2",
            "kafkajs 2.x",
            "createPartitioner: Partitioners.DefaultPartitioner",
            "murmur2",
            "masked",
            "round_robin",
        ),
        _go("kafka-go-hash", "Balancer: &kafka.Hash{}", "fnv1a", "absolute", "round_robin"),
        _go("kafka-go-reference", "Balancer: &kafka.ReferenceHash{}", "fnv1a", "masked", "random"),
        _go("kafka-go-crc32", "Balancer: kafka.CRC32Balancer{}", "crc32", "unsigned", "random", "random"),
        _go("kafka-go-murmur2", "Balancer: kafka.Murmur2Balancer{}", "murmur2", "masked", "random"),
        PartitionerFacts(
            "pulsar-java-string",
            "Pulsar",
            "hashingScheme(HashingScheme.JavaStringHash)",
            "java-string",
            "masked",
            "round_robin",
            encodings=TEXT,
        ),
        PartitionerFacts(
            "pulsar-murmur3",
            "Pulsar",
            "hashingScheme(HashingScheme.Murmur3_32Hash)",
            "murmur3-32",
            "masked",
            "round_robin",
            encodings=TEXT,
        ),
        PartitionerFacts(
            "spark-hash",
            "Spark",
            "pmod(hash(key), n), which is also what a shuffle by key does",
            "spark-murmur3",
            "positive",
            "hash",
            note="typed, so a bigint and its text are different keys",
        ),
        PartitionerFacts(
            "kinesis-md5",
            "Kinesis",
            "PartitionKey, without ExplicitHashKey",
            "md5-128",
            "ranges",
            "reject",
            "reject",
            TEXT,
            "lanes are shards of equal width",
        ),
        PartitionerFacts(
            "abs-long-hashcode",
            "teaching code for H3 cells",
            "Math.abs(Long.hashCode(cell)) % n",
            "java-long",
            "absolute",
            "sticky",
            "reject",
            LONG,
            note="wrong but deployed: the low bits of coarse cells are constant, so resolution 3 reaches 15 of "
            "60 lanes and 4 of 64; and Java's abs() of Integer.MIN_VALUE is negative, where this stays in range",
        ),
        PartitionerFacts(
            "murmur2-big-endian",
            "teaching code with a ByteBuffer",
            "ByteBuffer.getInt without order(LITTLE_ENDIAN)",
            "murmur2-big-endian",
            "masked",
            "sticky",
            note="wrong but deployed: spreads well, and agrees with Kafka's murmur2 on 1 key in n",
        ),
    )
}

#: The setting that gives a client the placement of a family, where the client has one.
_SETTINGS: Final[dict[tuple[str, str], str]] = {
    ("librdkafka", "murmur2/masked"): "partitioner=murmur2_random",
    ("librdkafka", "crc32/unsigned"): "partitioner=consistent_random",
    ("librdkafka", "fnv1a/absolute"): "partitioner=fnv1a_random",
    ("sarama", "murmur2/masked"): "Producer.Partitioner = sarama.NewMurmur2Partitioner",
    ("sarama", "crc32/unsigned"): "Producer.Partitioner = sarama.NewConsistentCRCHashPartitioner",
    ("sarama", "fnv1a/absolute"): "Producer.Partitioner = sarama.NewHashPartitioner",
    ("sarama", "fnv1a/masked"): "Producer.Partitioner = sarama.NewReferenceHashPartitioner",
    ("kafkajs 1.x", "murmur2/masked"): "createPartitioner: Partitioners.JavaCompatiblePartitioner",
    ("kafkajs 2.x", "kafkajs-legacy/masked"): "createPartitioner: Partitioners.LegacyPartitioner",
    ("kafka-go", "murmur2/masked"): "Balancer: kafka.Murmur2Balancer{}",
    ("kafka-go", "crc32/unsigned"): "Balancer: kafka.CRC32Balancer{}",
    ("kafka-go", "fnv1a/absolute"): "Balancer: &kafka.Hash{}",
    ("kafka-go", "fnv1a/masked"): "Balancer: &kafka.ReferenceHash{}",
    ("Pulsar", "java-string/masked"): "hashingScheme(HashingScheme.JavaStringHash)",
    ("Pulsar", "murmur3-32/masked"): "hashingScheme(HashingScheme.Murmur3_32Hash)",
}


def facts_of(name: str) -> PartitionerFacts:
    """Look a partitioner up by its contract name."""
    try:
        return FACTS[name]
    except (KeyError, TypeError):
        raise UnknownNameError.among("partitioner", str(name), PARTITIONERS) from None


def key_rule(partitioner: str, rule: str, kind: Literal["on_null", "on_empty"]) -> KeyTreatment:
    """What null or empty keys do, given what the contract sets: `client` asks the named client.

    >>> key_rule("kafka-java", "client", "on_null"), key_rule("kafka-java", "reject", "on_null")
    ('sticky', 'reject')
    """
    facts = facts_of(partitioner)
    treatment = facts.on_null if kind == "on_null" else facts.on_empty
    return treatment if rule == "client" else cast("KeyTreatment", rule)


def setting_for(writer: PartitionerFacts, wanted: PartitionerFacts) -> str | None:
    """The setting that makes this writer's client place as `wanted` does, or None where it has none.

    >>> setting_for(facts_of("librdkafka-consistent-random"), facts_of("kafka-java"))
    'partitioner=murmur2_random'
    """
    return wanted.setting if writer.client == wanted.client else _SETTINGS.get((writer.client, wanted.family))
