"""The facts of each named partitioner. The table is written out again: a release cannot change a name unnoticed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from keylane.contract.names import ENCODINGS, PARTITIONERS
from keylane.contract.partitioners import FACTS, facts_of, key_rule, setting_for
from keylane.errors import KeylaneError, UnknownNameError

#: name: (hash, fold, what null keys do, what empty keys do, the keys it can hold)
RELEASED = {
    "kafka-java": ("murmur2", "masked", "sticky", "hash", "any"),
    "librdkafka-consistent": ("crc32", "unsigned", "hash", "hash", "any"),
    "librdkafka-consistent-random": ("crc32", "unsigned", "sticky", "sticky", "any"),
    "librdkafka-murmur2": ("murmur2", "masked", "hash", "hash", "any"),
    "librdkafka-murmur2-random": ("murmur2", "masked", "sticky", "hash", "any"),
    "librdkafka-fnv1a": ("fnv1a", "absolute", "hash", "hash", "any"),
    "librdkafka-fnv1a-random": ("fnv1a", "absolute", "sticky", "hash", "any"),
    "librdkafka-random": (None, "keyless", "random", "random", "any"),
    "sarama-hash": ("fnv1a", "absolute", "random", "hash", "any"),
    "sarama-reference": ("fnv1a", "masked", "random", "hash", "any"),
    "sarama-crc": ("crc32", "unsigned", "random", "hash", "any"),
    "kafkajs-1": ("kafkajs-legacy", "masked", "round_robin", "hash", "any"),
    "kafkajs-2": ("murmur2", "masked", "round_robin", "hash", "any"),
    "kafka-go-hash": ("fnv1a", "absolute", "round_robin", "hash", "any"),
    "kafka-go-reference": ("fnv1a", "masked", "random", "hash", "any"),
    "kafka-go-crc32": ("crc32", "unsigned", "random", "random", "any"),
    "kafka-go-murmur2": ("murmur2", "masked", "random", "hash", "any"),
    "pulsar-java-string": ("java-string", "masked", "round_robin", "hash", "text"),
    "pulsar-murmur3": ("murmur3-32", "masked", "round_robin", "hash", "text"),
    "spark-hash": ("spark-murmur3", "positive", "hash", "hash", "any"),
    "kinesis-md5": ("md5-128", "ranges", "reject", "reject", "text"),
    "abs-long-hashcode": ("java-long", "absolute", "sticky", "reject", "long"),
    "murmur2-big-endian": ("murmur2-big-endian", "masked", "sticky", "hash", "any"),
}
HOLDS = {"any": ENCODINGS, "text": ("utf8",), "long": ("int64be", "h3", "place")}

JAVA, CRC, ABSOLUTE, MASKED = "kafka-java", "librdkafka-consistent-random", "sarama-hash", "sarama-reference"
#: (whose client, whose placement is wanted): what to write in that client; None where it cannot.
SETTINGS = {
    ("librdkafka-consistent-random", JAVA): "partitioner=murmur2_random",
    ("librdkafka-murmur2-random", CRC): "partitioner=consistent_random",
    ("librdkafka-consistent", ABSOLUTE): "partitioner=fnv1a_random",
    ("librdkafka-fnv1a-random", MASKED): None,
    ("sarama-hash", JAVA): "Producer.Partitioner = sarama.NewMurmur2Partitioner",
    ("sarama-hash", CRC): "Producer.Partitioner = sarama.NewConsistentCRCHashPartitioner",
    ("sarama-reference", ABSOLUTE): "Producer.Partitioner = sarama.NewHashPartitioner",
    ("sarama-crc", MASKED): "Producer.Partitioner = sarama.NewReferenceHashPartitioner",
    ("kafkajs-1", JAVA): "createPartitioner: Partitioners.JavaCompatiblePartitioner",
    ("kafkajs-2", "kafkajs-1"): "createPartitioner: Partitioners.LegacyPartitioner",
    ("kafkajs-1", CRC): None,
    ("kafka-go-hash", JAVA): "Balancer: kafka.Murmur2Balancer{}",
    ("kafka-go-murmur2", CRC): "Balancer: kafka.CRC32Balancer{}",
    ("kafka-go-reference", ABSOLUTE): "Balancer: &kafka.Hash{}",
    ("kafka-go-crc32", MASKED): "Balancer: &kafka.ReferenceHash{}",
    ("pulsar-murmur3", "pulsar-java-string"): "hashingScheme(HashingScheme.JavaStringHash)",
    ("pulsar-java-string", "pulsar-murmur3"): "hashingScheme(HashingScheme.Murmur3_32Hash)",
    ("pulsar-murmur3", JAVA): None,
    (JAVA, CRC): None,
    ("spark-hash", JAVA): None,
    ("kinesis-md5", JAVA): None,
    ("abs-long-hashcode", JAVA): None,
}


@pytest.mark.parametrize("name", RELEASED)
def test_what_a_released_name_does_never_changes(name: str) -> None:
    hash_, fold, on_null, on_empty, holds = RELEASED[name]
    facts = facts_of(name)
    assert (facts.hash, facts.fold, facts.on_null, facts.on_empty) == (hash_, fold, on_null, on_empty)
    assert facts.encodings == HOLDS[holds]


def test_the_frozen_table_has_every_released_name() -> None:
    assert set(RELEASED) == set(PARTITIONERS)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_partitioner_says_its_client_and_how_to_get_it(name: str) -> None:
    facts = FACTS[name]
    assert facts.name == name
    assert facts.client == facts.client.strip() != ""
    assert facts.setting == facts.setting.strip() != ""
    assert facts.encodings


WRONG = ("kafkajs-1", "abs-long-hashcode", "murmur2-big-endian")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_but_deployed_placement_says_so(name: str) -> None:
    assert FACTS[name].note.startswith("wrong but deployed: ")


def test_nothing_else_calls_itself_wrong() -> None:
    wrong = {name for name, facts in FACTS.items() if "wrong" in facts.note}
    assert wrong == set(WRONG)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param("kafkajs-1", "no other client", id="the rounding murmur2"),
        pytest.param("librdkafka-random", "no order is kept", id="the key is ignored"),
        pytest.param("librdkafka-consistent-random", "confluent-kafka", id="the default of many clients"),
        pytest.param("spark-hash", "bigint", id="typed"),
        pytest.param("kinesis-md5", "shards of equal width", id="what its lanes are"),
    ],
)
def test_a_trap_of_a_partitioner_is_in_its_note(name: str, part: str) -> None:
    assert part in FACTS[name].note


@pytest.mark.parametrize("name", [name for name in PARTITIONERS if name.startswith("librdkafka-")])
def test_a_librdkafka_setting_is_its_configuration_line(name: str) -> None:
    assert FACTS[name].setting == f"partitioner={name.removeprefix('librdkafka-').replace('-', '_')}"


def test_a_partitioner_without_a_hash_is_keyless_and_the_other_way_round() -> None:
    assert {n for n, f in FACTS.items() if f.hash is None} == {n for n, f in FACTS.items() if f.fold == "keyless"}


@pytest.mark.parametrize(
    ("family", "names"),
    [
        pytest.param(
            "murmur2/masked",
            {"kafka-java", "librdkafka-murmur2", "librdkafka-murmur2-random", "kafkajs-2", "kafka-go-murmur2"},
            id="the Java client's",
        ),
        pytest.param(
            "crc32/unsigned",
            {"librdkafka-consistent", "librdkafka-consistent-random", "sarama-crc", "kafka-go-crc32"},
            id="librdkafka's",
        ),
        pytest.param(
            "fnv1a/absolute",
            {"librdkafka-fnv1a", "librdkafka-fnv1a-random", "sarama-hash", "kafka-go-hash"},
            id="Sarama's",
        ),
        pytest.param("fnv1a/masked", {"sarama-reference", "kafka-go-reference"}, id="the reference"),
        pytest.param("kafkajs-legacy/masked", {"kafkajs-1"}, id="kafkajs 1 is alone"),
        pytest.param("murmur2-big-endian/masked", {"murmur2-big-endian"}, id="the wrong byte order is alone"),
    ],
)
def test_a_family_is_who_places_every_key_equally(family: str, names: set[str]) -> None:
    assert {name for name, facts in FACTS.items() if facts.family == family} == names


def test_facts_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        FACTS["kafka-java"].fold = "absolute"  # type: ignore[misc]  # frozen: what is tested


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownNameError) as caught:
        facts_of("kafka-jva")
    message = str(caught.value)
    assert "unknown partitioner: got 'kafka-jva'" in message
    assert "did you mean 'kafka-java'?" in message
    assert all(name in message for name in PARTITIONERS)


def test_an_unknown_name_can_be_caught_as_a_lookup_error_or_as_keylane() -> None:
    with pytest.raises(LookupError) as caught:
        facts_of("no such thing at all")
    assert isinstance(caught.value, KeylaneError)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_the_rule_client_is_what_the_named_client_does(name: str) -> None:
    assert key_rule(name, "client", "on_null") == FACTS[name].on_null
    assert key_rule(name, "client", "on_empty") == FACTS[name].on_empty


@pytest.mark.parametrize("rule", ["hash", "sticky", "random", "round_robin", "reject"])
def test_every_other_rule_overrules_the_client(rule: str) -> None:
    assert key_rule("kafka-java", rule, "on_null") == key_rule("kafka-java", rule, "on_empty") == rule


def test_a_rule_of_an_unknown_partitioner_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'kafka-java'"):
        key_rule("kafka-jva", "client", "on_null")


@pytest.mark.parametrize(
    ("writer", "wanted", "setting"),
    [pytest.param(*pair, setting, id=f"{pair[0]} as {pair[1]}") for pair, setting in SETTINGS.items()],
)
def test_the_setting_that_makes_a_client_place_as_another_does(writer: str, wanted: str, setting: str | None) -> None:
    assert setting_for(facts_of(writer), facts_of(wanted)) == setting


def test_a_setting_is_of_the_writers_client_and_gives_the_wanted_family() -> None:
    """Where the named setting is that of a partitioner of the list, it has to be one of the same family."""
    for writer in FACTS.values():
        for wanted in FACTS.values():
            setting = setting_for(writer, wanted)
            named = [facts for facts in FACTS.values() if (facts.client, facts.setting) == (writer.client, setting)]
            assert all(facts.family == wanted.family for facts in named)


def test_a_client_is_set_to_its_own_partitioner_by_the_setting_of_that_partitioner() -> None:
    """Null keys included: librdkafka's `murmur2` hashes them, `murmur2_random` does not."""
    told = {
        wanted.name: setting_for(writer, wanted)
        for writer in FACTS.values()
        for wanted in FACTS.values()
        if writer.client == wanted.client
    }
    assert told == {name: FACTS[name].setting for name in told}
