"""Hash keys as text, the hash key of a partition key, and plain numbers that all lie on the first shard."""

from __future__ import annotations

import pytest

from keylane.contract.shards import hash_key_problem
from keylane.errors import UsageError
from keylane.keyspace.hash_keys import at_share, checked_partition_key, hash_key, hash_key_of, small

LAST = 340282366920938463463374607431768211455


@pytest.mark.parametrize("number", [0, 9, 2**127 - 1, 2**127, LAST])
def test_a_hash_key_is_its_decimal_text(number: int) -> None:
    assert hash_key(str(number)) == number


@pytest.mark.parametrize(
    "text",
    ["", "007", "00", " 5", "5 ", "-1", "+1", "1.5", "1e3", "0x10", "1_000", "٣", "９", "9" * 40, str(LAST + 1), "5\n"],
)
def test_what_is_no_hash_key_is_refused(text: str) -> None:
    assert hash_key_problem(text)
    with pytest.raises(UsageError) as caught:
        hash_key(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", [5, 5.0, None, True, b"5", ["5"]])
def test_only_text_is_a_hash_key(value: object) -> None:
    with pytest.raises(UsageError):
        hash_key(value)


def test_the_hash_key_of_a_partition_key_is_its_md5_unsigned_and_big_endian() -> None:
    assert hash_key_of("abcd") == 0xE2FC714C4727EE9395F324CD2E7F331F
    assert hash_key_of("a") == 0x0CC175B9C0F1B6A831C399E269772661
    assert hash_key_of("ä€😀") == int.from_bytes(__import__("hashlib").md5("ä€😀".encode()).digest(), "big")


def test_a_partition_key_has_at_most_256_utf16_units() -> None:
    assert checked_partition_key("😀" * 128) == "😀" * 128
    assert checked_partition_key("a" * 256) == "a" * 256
    for text in ("", "😀" * 129, "a" * 257, "\ud800"):
        with pytest.raises(UsageError):
            checked_partition_key(text)


def test_plain_numbers_are_found_and_places_in_the_space_are_not() -> None:
    # What the article writes for halves and quarters: all in the lowest 2**-32 of the space.
    assert small([2**64, 2**32, 2**96 - 1]) == [2**64, 2**32, 2**96 - 1]
    assert small([0, 1, 2, 3]) == [0, 1, 2, 3]
    assert small([0, 2**127, 2**126]) == []


def test_a_place_in_the_space_as_a_share() -> None:
    assert [at_share(key) for key in (0, 2**126, 2**127)] == [0.0, 0.25, 0.5]
    assert at_share(LAST) < 1
