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
    assert looked.all_text is is_text
