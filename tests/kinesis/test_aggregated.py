"""Aggregated records: parsed exactly or not at all, and those that a consumer would discard."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keylane.systems.kinesis.aggregated import MAGIC, UserRecord, is_discarded, packed, parsed
from keylane.systems.kinesis.messages import key_of, own_headers, user_of, value_of

TEXT = st.text(max_size=12)
USERS = st.lists(
    st.builds(
        UserRecord,
        st.text(min_size=1, max_size=8),
        st.binary(max_size=20),
        st.none() | st.integers(0, 2**128 - 1),
        st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@given(USERS)
def test_what_is_packed_is_parsed(users: list[UserRecord]) -> None:
    assert parsed(packed(users)) == users


def test_the_bytes_are_those_of_the_format() -> None:
    body = b"\x0a\x01a" + b"\x12\x015" + b"\x1a\x10\x08\x00\x10\x00\x1a\x02hi\x22\x06\x0a\x01t\x12\x01v"
    data = MAGIC + body + hashlib.md5(body).digest()
    assert parsed(data) == [UserRecord("a", b"hi", 5, (("t", "v"),))]
    assert packed([UserRecord("a", b"hi", 5, (("t", "v"),))]) == data


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x01a\x1a\x06\x08\x01\x1a\x02hi",  # a key that is not in the table
        b"\x0a\x01a\x12\x03007\x1a\x08\x08\x00\x10\x00\x1a\x02hi",  # a hash key that is none
        b"\x0a\x01\xff\x1a\x06\x08\x00\x1a\x02hi",  # a key that is no text
        b"\x0a\x05a",  # cut
        b"\x1a\x04\x1a\x02hi",  # a record without a key
    ],
)
def test_what_does_not_fit_is_a_plain_record(body: bytes) -> None:
    assert parsed(MAGIC + body + hashlib.md5(body).digest()) is None


@given(USERS, st.data())
def test_one_changed_byte_makes_it_a_plain_record(users: list[UserRecord], data: st.DataObject) -> None:
    whole = packed(users)
    at = data.draw(st.integers(0, len(whole) - 1))
    assert parsed(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) is None


def test_one_record_outside_its_shard_discards_all_of_them() -> None:
    inside, outside = UserRecord("a", b"", 5), UserRecord("b", b"", 11)
    assert not is_discarded([inside, UserRecord("b", b"", 10)], 0, 10)
    assert is_discarded([inside, outside], 0, 10)
    assert is_discarded([UserRecord("abcd", b"")], 0, 2**127)
    assert not is_discarded([UserRecord("abcd", b"")], 2**127, 2**128 - 1)


HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
BOUNDS = st.sampled_from([(0, 2**127 - 1), (2**127, 2**128 - 1), (0, 2**128 - 1)])


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=9), HEADERS, BOUNDS)
def test_a_message_comes_back_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], bounds: tuple[int, int]
) -> None:
    given_ = [one for one in headers if one[0] not in {"keylane.key", "keylane.no-value"}]
    user = user_of(key, value, given_, [("keylane.source", "s/0/1")], bounds)
    again = parsed(packed([user]))
    assert again == [user]
    assert (key_of(user), value_of(user), own_headers(user)) == (key, value, [*given_, ("keylane.source", b"s/0/1")])
    assert bounds[0] <= user.hash_key <= bounds[1]
    assert 1 <= len(user.partition_key.encode("utf-16-le")) // 2 <= 256


def test_a_hash_key_of_the_contract_is_sent_where_the_lane_has_it() -> None:
    halves = (0, 2**127 - 1), (2**127, 2**128 - 1)
    assert [user_of(b"a", b"", [], [], one, 2**100).explicit_hash_key for one in halves] == [2**100, 2**127]
