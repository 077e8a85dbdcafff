"""Values that are made to hang, crash or fool a reader of JSON, and some that only look like it."""

from __future__ import annotations

from typing import Final


def nested(levels: int) -> bytes:
    """An object that holds arrays within arrays."""
    return b'{"k":"a","z":' + b"[" * levels + b"]" * levels + b"}"


#: Each with a reason to be here: depth, halves of characters, numbers, names, quotes, what stands behind an object.
JSON_VALUES: Final[tuple[bytes, ...]] = (
    *(b"[" * 5000, b"[" * 1_000_000, b'{"k":' + b"[" * 5000, b'{"k":' * 5000),
    *(nested(199), nested(200), nested(600), nested(1500)),
    *(b'{"k":"\\ud800"}', b'{"k":"\\udc00\\ud800"}', b'{"k":"\\ud83d\\ude00"}', b'{"k":"\\\\ud800"}'),
    *(b'{"k":"a","z":"\\udc00"}', b'{"\\ud800":1,"k":"a"}', b'{"k":"' + b"\\\\" * 100_000 + b'\\ud800"}'),
    *(b'{"k":"\xff"}', b'{"k":"a","z":"\xff"}', b'{"k":"\xed\xa0\x80"}', b'{"k":"\xc0\x80"}', b'\xef\xbb\xbf{"k":"a"}'),
    *(b'{"k":"\x00"}', b'{"k":"\\u0000"}', b'{"k":"a"}\x00', b'\x00{"k":"a"}', b"\x00\x00\x00\x00\x01"),
    *(b'{"k":1e400}', b'{"k":-1e400}', b'{"k":1e5}', b'{"k":1.0}', b'{"k":-0.0}', b'{"k":-0}', b'{"k":1.50}'),
    *(b'{"k":NaN}', b'{"k":Infinity}', b'{"k":"a","z":NaN}', b'{"k":"a","z":-Infinity}', b'{"k":"NaN"}'),
    *(b'{"k":' + b"1" * digits + b"}" for digits in (18, 19, 20, 40, 1000, 1001, 5000)),
    *(b'{"k":"a","z":1.' + b"0" * digits + b"e10}" for digits in (900, 997, 998, 5000)),
    *(b'{"' + b"y" * letters + b'":1,"k":"a"}' for letters in (50_000, 50_001)),
    *(b'{"a":', b'{"k":"x"}}', b'{"k":"y"}{"k":"z"}', b'{"k":"y"},{"k":"z"}', b'{"k":"y"} x', b'{"k":"a"} // c'),
    *(b'{"k":"a"}]', b'{"k":"a"}]}', b'{"k":"a","z":[1]}]}', b'{"k":"a"}],[{}', b'{"k":"a"}},{', b'{"k":"a"},'),
    *(b"{'k':'a'}", b'{k:"a"}', b'{"k":"a",}', b'{"k":01}', b'{"k":+1}', b'{"k":.5}', b'{"k":1.}', b'{"k":"\\x41"}'),
    *(b'{"k":"\\\'"}', b'{"k":"a\tb"}', b'{"k":"a"', b'{"k":"a","b"}', b'{"k":tru}', b'/* c */{"k":"a"}'),
    *(b'{"k":1,"k":null}', b'{"k":null,"k":1}', b'{"k":true,"k":"a"}', b'{"k":"a","k":5}', b'{"k":5,"k":"a"}'),
    *(b'{"K":"a"}', b'{"\\u006b":"a"}', b'{"k":["\\u00fc"]}', b'{"k":[1.50]}', b'{"k":{"a": 1}}', b'[{"k":"a"}]'),
    *(
        b'{"k":"' + b"x" * 1_000_000 + b'"}',
        b'\xc2\xa0{"k":"a"}',
        b'\x0b{"k":"a"}',
        b'\t{"k":"a"}\n',
        b'{"v":[1],"k":"a"}',
    ),
)
