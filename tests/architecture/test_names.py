"""The closed lists of a contract, held against the tables that carry them out."""

from __future__ import annotations

from typing import get_args

from keylane.contract import names
from keylane.contract.partitioners import ANY, FACTS, Fold, KeyTreatment
from keylane.hashing import HASHES
from keylane.keys.encode import ENCODERS
from keylane.placement.fold import FOLDS
from keylane.placement.keyless import RULES
from keylane.testing.golden import client_columns, folded_vectors, hash_vectors, lane_vectors


def flat(union: object) -> set[str]:
    """The words of a Literal, or of a union of them."""
    return {word for part in get_args(union) for word in ({part} if isinstance(part, str) else flat(part))}


def test_every_partitioner_has_its_facts_under_its_own_name() -> None:
    assert tuple(FACTS) == names.PARTITIONERS
    assert [facts.name for facts in FACTS.values()] == list(FACTS)


def test_every_hash_is_there_and_some_partitioner_uses_it() -> None:
    assert tuple(HASHES) == names.HASHES
    assert {facts.hash for facts in FACTS.values()} - {None} == set(names.HASHES)


def test_every_encoding_has_an_encoder() -> None:
    assert tuple(ENCODERS) == names.ENCODINGS == ANY
    assert set(names.FIXED_WIDTH) < set(names.ENCODINGS)


def test_every_fold_of_a_partitioner_is_there() -> None:
    assert set(FOLDS) | {"ranges", "keyless"} == flat(Fold)
    assert {facts.fold for facts in FACTS.values()} == flat(Fold)


def test_every_rule_without_a_key_is_there() -> None:
    assert set(RULES) == flat(names.KeylessRule)
    assert flat(names.KeyRule) == {"client", "hash", "reject", *RULES} == {"client", *flat(KeyTreatment)}


def test_a_partitioner_without_a_hash_is_keyless_and_no_other() -> None:
    assert [name for name, facts in FACTS.items() if facts.hash is None] == ["librdkafka-random"]
    assert all((facts.hash is None) == (facts.fold == "keyless") for facts in FACTS.values())


def test_golden_data_speaks_of_known_names_only() -> None:
    assert {vector.hash for vector in hash_vectors()} | {vector.hash for vector in folded_vectors()} <= set(
        names.HASHES
    )
    assert {vector.partitioner for vector in lane_vectors()} <= set(names.PARTITIONERS)
    assert {column.partitioner for column in client_columns()} - {None} <= set(names.PARTITIONERS)
