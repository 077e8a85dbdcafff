"""Rules of clients against the lanes that running those clients gave; and, by another fold, against the same."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keylane.contract.client_rules import UNNAMED_HASHES, rules_of
from keylane.hashing import HASHES
from keylane.hashing.murmur3 import murmur3_32
from keylane.measure.rules import SEARCHED_HASHES, UNNAMED
from keylane.placement.fold import FOLDS

GIVEN: dict[str, Any] = json.loads((Path(__file__).parent / "client_rules.json").read_text("utf-8"))
LANES: int = GIVEN["lanes"]
KEYS: list[str] = GIVEN["keys"]
COLUMNS: list[dict[str, Any]] = GIVEN["columns"]
PUBLISHED = {(row["hash"], row["seed"], row["key"]): int(row["value"]) for row in GIVEN["hashes"]}

#: Hashes that are a digest as a number.
DIGESTS = ("sha1", "sha256")

columns = pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column['client']} {column['setting']}")


def hashes(column: dict[str, Any]) -> dict[str, int]:
    """The hash of each key: computed where keylane has the hash, else as published."""
    name, seed = column["hash"], column["seed"]
    if name in DIGESTS:
        return {key: int(hashlib.new(name, key.encode()).hexdigest(), 16) for key in KEYS}
    if name not in HASHES or (name, seed, KEYS[0]) in PUBLISHED:
        return {key: PUBLISHED[name, seed, key] for key in KEYS if (name, seed, key) in PUBLISHED}
    one = partial(murmur3_32, seed=seed) if seed else HASHES[name].one
    return {key: one(key.encode()) for key in KEYS if key.isascii() or not column.get("ascii_only")}


def misses(column: dict[str, Any], fold: str) -> list[str]:
    """Keys that a rule with this fold puts elsewhere than the client did."""
    placed = dict(zip(KEYS, column["lanes"], strict=True))
    return [key for key, number in hashes(column).items() if FOLDS[fold](number, LANES) != placed[key]]


@columns
def test_a_column_is_a_rule_of_that_client(column: dict[str, Any]) -> None:
    found = rules_of(column["hash"], column["seed"], column["fold"])
    assert (column["client"], column["setting"]) in {(rule.client, rule.setting) for rule in found}


@columns
def test_the_parts_give_the_lanes_of_the_client(column: dict[str, Any]) -> None:
    assert misses(column, column["fold"]) == []


@columns
def test_another_fold_is_caught(column: dict[str, Any]) -> None:
    if max(hashes(column).values()) in range(2**31, 2**32):  # below that all folds agree
        assert all(misses(column, fold) for fold in FOLDS if fold != column["fold"])


@columns
def test_no_column_is_empty(column: dict[str, Any]) -> None:
    assert len(hashes(column)) >= 17  # those in ASCII


def test_every_hash_without_a_name_has_published_values() -> None:
    assert set(UNNAMED_HASHES) == {row["hash"] for row in GIVEN["hashes"]} - set(HASHES) | set(DIGESTS)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in PUBLISHED} & UNNAMED.keys()))
def test_a_hash_that_no_contract_names_is_as_published_alone_and_in_rows(name: str) -> None:
    for (hash_, seed, key), value in PUBLISHED.items():
        if hash_ == name:
            found = next(one for one, of in SEARCHED_HASHES if one.name == name and of == seed)
            mask = (1 << 27) - 1 if name == "erlang-phash2" else (1 << 32) - 1
            rows = np.frombuffer(key.encode() * 9, np.uint8).reshape(9, len(key.encode()))
            assert {found.one(key.encode()), *found.rows(rows).tolist()} == {value & mask}, (key, seed)
