"""Every named partitioner, over the keys that have caused trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.names import PARTITIONERS
from keylane.contract.partitioners import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parity.conftest import Way

    from keylane.contract.model import Contract

TEXTS = [
    *("", "a", "abc", "abcd", "TT0124", "polygenelubricants", "1468509572224", "merchant_000042"),
    *("Zoë", "天地", "ß" * 7, "\u00e9", "e\u0301", "\x00", "😀", "a😀b", "👩‍👩‍👧", "\U0010ffff", " ", "\ufeff"),
]
BYTES = [b"", b"\x00", b"\x80", b"\xff", b"\xff" * 5, b"\x7f\x80\x81", bytes(range(256)), b"\xed\xa0\x80"]
NUMBERS = [0, 1, -1, 7, 2**31, -(2**31), 2**63 - 1, -(2**63), 0x08928308280FFFFF]

FORMS: dict[str, list[Any]] = {"utf8": TEXTS, "raw": BYTES, "int64be": NUMBERS}
CASES = [(name, encoding) for name in PARTITIONERS for encoding in FORMS if encoding in FACTS[name].encodings]
MEBIBYTE = [b"x" * 2**20, b"\xff" * (2**20 - 1)]


@pytest.mark.parametrize(("name", "encoding"), CASES, ids=[f"{name} {encoding}" for name, encoding in CASES])
def test_the_keys_that_have_caused_trouble(
    way: Way, one_by_one: Way, contract: Callable[..., Contract], name: str, encoding: str
) -> None:
    promise = contract(lanes=7, partitioner=name, key={"fields": ["k"], "encoding": encoding})
    records = [{"k": value} for value in FORMS[encoding]]
    at = list(range(0, 100 * len(records), 100))
    assert way(promise, records, at) == one_by_one(promise, records, at)


@pytest.mark.parametrize("name", [name for name, encoding in CASES if encoding == "int64be"])
def test_a_null_among_numbers(way: Way, one_by_one: Way, contract: Callable[..., Contract], name: str) -> None:
    promise = contract(partitioner=name, key={"fields": ["k"], "encoding": "int64be"})
    records: list[dict[str, Any]] = [{"k": None}, {"k": 7}]
    assert way(promise, records, [1, 2]) == one_by_one(promise, records, [1, 2])


@pytest.mark.parametrize("name", ["librdkafka-consistent", "kinesis-md5"])
def test_keys_of_a_mebibyte(way: Way, one_by_one: Way, contract: Callable[..., Contract], name: str) -> None:
    encoding = "raw" if "raw" in FACTS[name].encodings else "utf8"
    records = [{"k": key if encoding == "raw" else key.decode("latin-1")} for key in MEBIBYTE]
    promise = contract(partitioner=name, key={"fields": ["k"], "encoding": encoding})
    assert way(promise, records) == one_by_one(promise, records)


def test_a_way_that_takes_null_for_empty_would_be_caught(
    way: Way, one_by_one: Way, contract: Callable[..., Contract]
) -> None:
    assert way(contract(), [{"k": ""}]) != one_by_one(contract(), [{"k": None}])


def test_a_way_that_loses_the_order_of_rows_would_be_caught(
    way: Way, one_by_one: Way, contract: Callable[..., Contract]
) -> None:
    records = [{"k": text} for text in TEXTS]
    assert way(contract(), records[::-1]) != one_by_one(contract(), records)
