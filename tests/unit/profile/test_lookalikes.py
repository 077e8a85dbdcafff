"""Planted keys that look the same, and keys that only nearly do."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from tests.unit.profile.example_profiles import made

from keylane.contract.model import Key
from keylane.profile.lookalikes import Lookalikes, lookalikes

CROWD = [f"merchant {n:04d}" for n in range(300)]


def found(keys: list[Any], key: Key | None = None, most: int = 10) -> Lookalikes:
    return lookalikes(made(keys, [[len(keys) - n] for n in range(len(keys))], key), most)


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (["ACME", "Acme"], "case"),
        (["ÉCLAIR", "éclair"], "case"),
        (["STRASSE", "straße"], "case"),
        (["acme ltd", "acme  ltd"], "spaces"),
        (["acme", " acme"], "spaces"),
        (["acme", "acme\t"], "spaces"),
        (["acme ltd", "acme\u00a0ltd"], "spaces"),
        (["café", nfd("café")], "unicode"),
        (["Café", nfd("café").upper()], "several"),
        ([" ACME", "acme"], "several"),
        (["ACME", " ACME"], "spaces"),
    ],
    ids=str,
)
def test_keys_that_look_the_same_are_found_and_in_what_they_differ(keys: list[str], kind: str) -> None:
    result = found([*CROWD[:100], *keys, *CROWD[100:]])
    assert (result.groups, [group.kind for group in result.examples]) == (1, [kind])
    assert result.examples[0].ranks == (100, 101)
    assert result.records == 201, "the heaviest is taken for the right one"


@pytest.mark.parametrize(
    "keys",
    [
        ["acme", "acne"],
        ["acme1", "acme 1"],
        ["0042", "42"],
        ["cafe", "café"],
        ["①", "1"],
        ["x²", "x2"],
        ["ＡＢ", "AB"],
        ["a-b", "a_b"],
    ],
    ids=str,
)
def test_keys_that_only_nearly_look_the_same_are_not(keys: list[str]) -> None:
    assert found([*CROWD, *keys]) == Lookalikes()


def test_the_number_of_a_schema_is_distinguished_from_the_key() -> None:
    raw = Key(fields=("k",), encoding="raw")
    keys = [
        b"\x00\x00\x00\x00\x07acme",
        b"\x00\x00\x00\x00\x09acme",
        b"\x00\x00\x00\x00\x07other",
        b"acme",
        b"\xff\xfe",
    ]
    result = found(keys, raw)
    assert [(group.kind, group.ranks) for group in result.examples] == [("registry-id", (0, 1))]
    stripped = Key(fields=("k",), encoding="raw", registry_header="strip")
    assert found([keys[0], keys[2]], stripped) == Lookalikes()


def test_numbers_and_fixed_widths_have_none() -> None:
    assert found([1, 10, 100]) == Lookalikes()
    assert found([1, 10], Key(fields=("k",), encoding="int64be")) == Lookalikes()


def test_all_groups_are_counted_and_only_the_heaviest_are_shown() -> None:
    keys = [text for n in range(30) for text in (f"Shop {n:02d}", f"SHOP {n:02d}", f"shop {n:02d}")]
    result = found(keys, most=4)
    assert (result.groups, len(result.examples)) == (30, 4)
    assert result.records == sum(range(1, 91)) - sum(range(3, 91, 3))
    assert result.examples[0].ranks == (0, 1, 2)


def test_keys_of_one_hash_are_not_taken_for_one_form(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from keylane.profile import lookalikes as module

    monkeypatch.setattr(module, "hash_batch", lambda _, keys: np.zeros(len(keys), np.int32))
    assert found(["ACME", "Acme", "other", "Third"]).groups == 1
