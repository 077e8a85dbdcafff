"""The closed lists: what they hold, and that whoever carries a name out knows just these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

import pytest

from keylane.contract.names import ENCODINGS, HASHES, MAX_LANES, PARTITIONERS, KeylessRule, KeyRule
from keylane.contract.partitioners import FACTS
from keylane.hashing import HASHES as HASH_FUNCTIONS
from keylane.keys.encode import ENCODERS
from keylane.placement.keyless import RULES
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.contract.model import Contract

#: What version 0.1 released. A name may be added to the lists; none of these may leave.
RELEASED_PARTITIONERS = [
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
RELEASED_HASHES = [
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
RELEASED_ENCODINGS = ["utf8", "int32be", "int64be", "uuid", "h3", "place", "raw"]
RELEASED_KEY_RULES = ["client", "hash", "sticky", "random", "round_robin", "reject"]

LISTS = {
    "partitioners": (PARTITIONERS, RELEASED_PARTITIONERS),
    "hashes": (HASHES, RELEASED_HASHES),
    "encodings": (ENCODINGS, RELEASED_ENCODINGS),
    "key rules": (get_args(KeyRule), RELEASED_KEY_RULES),
}


@pytest.mark.parametrize(("names", "released"), LISTS.values(), ids=LISTS.keys())
def test_a_released_name_never_leaves_its_list(names: Sequence[str], released: Sequence[str]) -> None:
    assert set(released) <= set(names)


@pytest.mark.parametrize("names", [names for names, _ in LISTS.values()], ids=LISTS.keys())
def test_a_list_holds_each_name_once(names: Sequence[str]) -> None:
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("names", [names for names, _ in LISTS.values()], ids=LISTS.keys())
def test_a_name_can_stand_in_yaml_without_quotes(names: Sequence[str]) -> None:
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_-]*", name)] == []


def test_the_facts_are_of_just_the_listed_partitioners_in_their_order() -> None:
    assert tuple(FACTS) == PARTITIONERS


def test_the_placements_are_of_just_the_listed_partitioners_in_their_order() -> None:
    assert tuple(partitioner(name).name for name in FACTS) == PARTITIONERS


def test_the_hash_functions_are_just_the_listed_hashes() -> None:
    assert set(HASH_FUNCTIONS) == set(HASHES)


def test_every_hash_is_the_hash_of_some_partitioner() -> None:
    assert {facts.hash for facts in FACTS.values()} - {None} == set(HASHES)


def test_the_encoders_are_just_the_listed_encodings() -> None:
    assert set(ENCODERS) == set(ENCODINGS)


def test_the_keyless_rules_are_just_the_listed_ones() -> None:
    assert set(RULES) == set(get_args(KeylessRule))


def test_a_key_rule_is_a_keyless_rule_or_one_of_three_others() -> None:
    assert set(get_args(KeyRule)) == {"client", "hash", "reject", *get_args(KeylessRule)}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_listed_partitioner_is_accepted_by_a_contract(name: str, contract: Callable[..., Contract]) -> None:
    encoding = FACTS[name].encodings[0]
    made = contract(f"partitioner: {name}\nkey: {{fields: [merchant], encoding: {encoding}}}")
    assert made.spec.partitioner == name


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_listed_encoding_is_accepted_by_a_contract(name: str, contract: Callable[..., Contract]) -> None:
    fields, geo = ("lat, lng", "geo: {resolution: 3}") if name == "place" else ("merchant", "")
    made = contract(f"key: {{fields: [{fields}], encoding: {name}}}\n{geo}")
    assert set(made.spec.key.encodings) == {name}


@pytest.mark.parametrize("field", ["on_null", "on_empty"])
@pytest.mark.parametrize("rule", get_args(KeyRule))
def test_every_listed_key_rule_is_accepted_by_a_contract(
    rule: str, field: str, contract: Callable[..., Contract]
) -> None:
    assert getattr(contract(f"key: {{fields: [merchant], {field}: {rule}}}").spec.key, field) == rule


def test_no_more_lanes_than_a_slip_of_the_hand() -> None:
    assert MAX_LANES == 100_000
