"""JSON objects that have a field with the empty name, and some that only look so."""

from __future__ import annotations

EMPTY_NAMES = [
    '{"":1}',
    '{"k":"b","":"lost"}',
    '{"k":"b", "" \t: 1}',
    '{"n":{"":1,"z":2}}',
    '{"n":[{"a":"\\\\","":1}]}',
    '{"k":"","":""}',
]
NO_EMPTY_NAMES = [
    '{"k":""}',
    '{"k":"","z":1}',
    '{"k":"a\\"\\":","z":["","",{}]}',
    '{"a\\"":1,"\\"\\"":2}',
    '{"k\\"\\" :":"\\\\"}',
    '{"k":"\\",\\"\\":1"}',
    '{" ":1}',
]
