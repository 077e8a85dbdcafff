"""Whether the keys of a topic are text, which decides how its first contract has them."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from keylane.pipelines.identify import KeysAsText


@pytest.mark.parametrize(
    ("keys", "is_text"),
    [
        ([b"merchant_1", "Zürich".encode(), None, b""], True),
        ([b"merchant_1", b"\xff\xfe"], False),
        # Numbers of eight bytes are UTF-8 as long as they are small.
        ([struct.pack(">q", 5)], False),
        ([b"\x00\x00\x00\x00\x2amerchant"], False),
        ([b"a\nb"], False),
    ],
)
def test_keys_are_text_where_all_of_them_are(keys: list[bytes | None], is_text: bool) -> None:
    looked = KeysAsText()
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "lane": pa.array([0] * len(keys))})
    first = pa.record_batch({"key": pa.array([b"text"], pa.binary()), "lane": pa.array([0])})
    assert list(looked.passed([first, batch])) == [first, batch]
    assert (looked.odd == 0) is is_text
    assert looked.keys == 1 + len(keys) - keys.count(None)


def test_a_few_keys_that_are_no_text_are_counted_with_what_they_cost_and_what_to_do() -> None:
    looked = KeysAsText()
    keys = pa.array([*(b"text" for _ in range(20_099)), b"\xff"], pa.binary())
    list(looked.passed([pa.record_batch({"key": keys, "lane": pa.array([0] * len(keys))})]))
    why, do = looked.why_raw()
    assert "because 1 of 20,100 keys is no UTF-8 text" in why
    assert "plan can name no raw key" in why
    assert "encoding: utf8" in do
    # The twins: keys that are all text need no word, and keys that are all bytes are meant so.
    for given in ([b"text"], [b"\xff"]):
        looked = KeysAsText()
        list(looked.passed([pa.record_batch({"key": pa.array(given, pa.binary()), "lane": pa.array([0])})]))
        assert list(looked.why_raw()) == []
