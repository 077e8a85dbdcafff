"""What is read as JSON takes time in proportion to its length, whatever it holds. What is JSON: tests/spark."""

from __future__ import annotations

import re
import time

import pytest
from tests.unit.keys.nameless_lines import EMPTY_NAMES, NO_EMPTY_NAMES

from keylane.keys.json_object import STRING, has_empty_name, read_object

#: Brackets enough that the levels are counted, in a string that never ends and has an escaped quote at every step.
UNENDED = '{"' + "[" * 201 + '\\"' * 200_000
#: With the end of the string taken for granted, a tenth of it takes minutes.
SECONDS = 5.0


def seconds(pattern: str, text: str) -> float:
    began = time.process_time()
    re.sub(pattern, "", text)
    return time.process_time() - began


def test_a_string_without_an_end_is_refused_at_once() -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="Unterminated string"):
        read_object(UNENDED.encode())
    assert time.process_time() - began < SECONDS


def test_twin_a_pattern_that_wants_the_end_takes_the_square_of_the_length() -> None:
    short, long = (UNENDED[:length] for length in (3_000, 24_000))
    wanting = STRING.removesuffix("?")
    assert seconds(wanting, long) > 20 * seconds(wanting, short)
    assert seconds(STRING, UNENDED) < SECONDS


def test_brackets_in_strings_are_no_levels() -> None:
    assert read_object(b'{"a": "' + b"[" * 500 + b'\\"{{"}') == {"a": "[" * 500 + '"{{'}
    with pytest.raises(ValueError, match="nested too deep"):
        read_object(b'{"a": "]\\"]", "b":' + b"[" * 300 + b"]" * 300 + b"}")


@pytest.mark.parametrize(("texts", "has"), [(EMPTY_NAMES, True), (NO_EMPTY_NAMES, False)])
def test_fields_with_the_empty_name(texts: list[str], has: bool) -> None:
    for text in texts:
        assert read_object(text.encode())
        assert has_empty_name(text.encode()) == has, text


def test_an_empty_name_is_looked_for_in_time_in_proportion_to_the_length() -> None:
    began = time.process_time()
    assert not has_empty_name(UNENDED.encode() + b'""')
    assert time.process_time() - began < SECONDS
