"""Bounded YAML: hostile files cost nothing, and plain words stay the keys they look like."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from keylane.contract.yaml_tree import (
    MAX_ALIASES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    Tree,
    read_tree,
    show_path,
)

MEGABYTE = 1 << 20


def billion_laughs(levels: int, each: int) -> str:
    """Nine lists of nine lists of ...: a page of text that means 9**9 words."""
    lines = ["a0: &a0 [lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * each)}]" for i in range(1, levels)]
    return "\n".join(lines)


def chain(links: int, depth: int) -> str:
    """Each link is as deep as a file may be, and ends in the link before it."""
    ends = ["x", *(f"*a{i}" for i in range(links))]
    return "\n".join(f"k{i}: &a{i} {'[' * depth}{ends[i]}{']' * depth}" for i in range(links))


def wide_then_repeated(width: int, times: int) -> str:
    """Quadratic blow-up: one long list, named over and over."""
    return f"a: &a [{', '.join(['x'] * width)}]\nb: [{', '.join(['*a'] * times)}]"


BOMBS = {
    "billion laughs": (billion_laughs(9, 9), "too many aliases: allowed: 16"),
    "billion laughs in mappings": (
        "a: &a {x: 1}\n" + "\n".join(f"b{i}: {{x: *a, y: *a}}" for i in range(9)),
        "too many aliases: allowed: 16",
    ),
    "doubled within the allowed aliases": (
        f"a: &a0 [{', '.join(['x'] * 1000)}]\n" + "\n".join(f"b{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 9)),
        "aliases",
    ),
    "quadratic blow-up": (wide_then_repeated(10_000, 1000), "too many aliases: allowed: 16"),
    "quadratic blow-up within the allowed aliases": (
        wide_then_repeated(10_000, 16),
        "aliases",
    ),
    "a list that holds itself": ("a: &a [*a]", "aliases"),
    "a mapping that holds itself": ("a: &a {b: *a}", "aliases"),
    "two lists that hold each other": ("a: &a [&b [*a], *b]", "aliases"),
    "a root that holds itself": ("&a [*a, *a]", "aliases"),
}

FLOODS = {
    "open brackets": "[",
    "open braces": "{",
    "dashes": "- ",
    "question marks": "? ",
    "nested pairs": "{a: ",
    "line ends": "\n",
    "tabs": "\t",
    "anchors": "&a ",
    "exclamation marks": "!",
    "quotes": '"',
    "colons": ":",
    "directives": "%A b\n",
    "comments": "# c\n",
    "words": "w\n",
}


def messages(text: str) -> list[str]:
    return [finding.message for finding in read_tree(text).findings]


def peak_memory(text: str) -> int:
    """Bytes that Python held at most while the text was read."""
    tracemalloc.start()
    try:
        read_tree(text)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("text", "message"), BOMBS.values(), ids=BOMBS.keys())
def test_an_alias_bomb_is_refused_in_a_moment(text: str, message: str) -> None:
    started = time.process_time()
    tree = read_tree(text)
    assert time.process_time() - started < 1
    assert tree.data is None
    assert len(tree.findings) == 1
    assert message in tree.findings[0].message


@pytest.mark.parametrize(
    "name", ["billion laughs", "quadratic blow-up within the allowed aliases", "a list that holds itself"]
)
def test_an_alias_bomb_takes_little_memory(name: str) -> None:
    assert peak_memory(BOMBS[name][0]) < 32 * MEGABYTE


def test_a_long_text_named_many_times_is_kept_once() -> None:
    text = f"a: &a {'x' * 200_000}\nb: [{', '.join(['*a'] * MAX_ALIASES)}]"
    assert read_tree(text).data["b"] == ["x" * 200_000] * MAX_ALIASES
    assert peak_memory(text) < 2 * MEGABYTE


def test_aliases_that_nest_deep_files_in_deep_files_are_refused() -> None:
    tree = read_tree(chain(MAX_ALIASES + 1, MAX_DEPTH - 2))
    assert tree.data is None
    assert tree.findings


@pytest.mark.parametrize("unit", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_of_one_character_is_answered_in_a_moment(unit: str) -> None:
    started = time.process_time()
    read_tree((unit * MAX_BYTES)[:MAX_BYTES])
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("a: &a {x: 1}\nb: *a", {"a": {"x": 1}, "b": {"x": 1}}, id="a mapping"),
        pytest.param("a: &a [x, y]\nb: *a", {"a": ["x", "y"], "b": ["x", "y"]}, id="a list"),
        pytest.param("a: &a payments\nb: *a", {"a": "payments", "b": "payments"}, id="a word"),
        pytest.param("&a k: v\nb: *a", {"k": "v", "b": "k"}, id="a field name"),
    ],
)
def test_a_small_alias_is_read(text: str, data: Any) -> None:
    tree = read_tree(text)
    assert (tree.data, tree.findings) == (data, [])


def test_as_many_aliases_as_allowed_are_read_and_one_more_is_not() -> None:
    assert read_tree(wide_then_repeated(3, MAX_ALIASES)).findings == []
    assert messages(wide_then_repeated(3, MAX_ALIASES + 1)) == ["too many aliases: allowed: 16"]


@pytest.mark.parametrize("opening", ["[", "{a: "], ids=["lists", "mappings"])
@pytest.mark.parametrize("levels", [10, MAX_DEPTH])
def test_nesting_up_to_the_bound_is_read(levels: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    assert read_tree(opening * levels + closing * levels).findings == []


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "], ids=["lists", "mappings", "block lists"])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 1000, 100_000])
def test_nesting_beyond_the_bound_is_refused(levels: int, opening: str) -> None:
    text = (opening * levels)[: MAX_BYTES - 1]
    assert messages(text) == ["too many levels: allowed: 24"]


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    room = MAX_BYTES - len("a: ")
    assert read_tree(f"a: {'x' * room}").findings == []
    assert messages(f"a: {'x' * (room + 1)}") == [f"too large: got {MAX_BYTES + 1} bytes; allowed: {MAX_BYTES}"]


def test_size_is_counted_in_bytes_not_in_letters() -> None:
    assert messages("é" * (MAX_BYTES // 2 + 1)) == [f"too large: got {MAX_BYTES + 2} bytes; allowed: {MAX_BYTES}"]


@pytest.mark.slow
def test_a_hundred_megabytes_are_refused_unread() -> None:
    started = time.process_time()
    assert read_tree("x" * (100 * MEGABYTE)).data is None
    assert time.process_time() - started < 1


def test_more_values_than_allowed_are_refused() -> None:
    text = f"[{'1,' * MAX_NODES}]"
    assert messages(text) == [f"too many values: allowed: {MAX_NODES}"]


@pytest.mark.parametrize("digits", ["9" * 19, "-9223372036854775808", "18446744073709551615"])
def test_a_number_of_up_to_twenty_digits_is_read_exactly(digits: str) -> None:
    assert read_tree(f"a: {digits}").data == {"a": int(digits)}


@pytest.mark.parametrize("count", [MAX_DIGITS + 1, 5000, 200_000])
def test_a_longer_number_is_refused_whatever_its_length(count: int) -> None:
    tree = read_tree(f"a: {'9' * count}")
    (finding,) = tree.findings
    assert str(finding).startswith("error: line 1: a: ")
    assert f"got {count} digits; allowed: 20" in finding.message


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("7", 7, id="integer"),
        pytest.param("-7", -7, id="negative"),
        pytest.param("0", 0, id="zero"),
        pytest.param("1.5", 1.5, id="float"),
        pytest.param("-.5", -0.5, id="float without a zero"),
        pytest.param("2.5e-3", 0.0025, id="exponent"),
        pytest.param("true", True, id="true"),
        pytest.param("false", False, id="false"),
        pytest.param("null", None, id="null"),
        pytest.param("~", None, id="tilde"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_only_these_plain_words_are_not_text(text: str, data: Any) -> None:
    tree = read_tree(f"a: {text}")
    assert tree.data == {"a": data}
    assert type(tree.data["a"]) is type(data)


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "yes",
        "on",
        "off",
        "y",
        "n",
        "No",
        "YES",
        "Off",
        "True",
        "TRUE",
        "False",
        "Null",
        "NULL",
        "None",
        "0123",
        "007",
        "0x1F",
        "0o17",
        "0b11",
        "1_000",
        "12:30",
        "23:59:59",
        "190:20:30",
        "2026-11-15",
        "2026-11-15T06:17:00Z",
        ".inf",
        "-.inf",
        ".nan",
        "NaN",
        "1,000",
        "1.2.3",
        "1e",
        "0x",
        "5m",
        "1h",
        "10%",
        "1-2",
        "--1",
        "1+",
        "e5",
        "=",
        "<<",
    ],
)
def test_a_word_that_yaml_would_reinterpret_stays_text(word: str) -> None:
    assert read_tree(f"a: {word}").data == {"a": word}
    assert read_tree(f"- {word}").data == [word]


@pytest.mark.parametrize("word", ["+491701234567", "+0", "-0"])
def test_a_number_that_would_lose_a_character_stays_text(word: str) -> None:
    """As a number, `+491701234567` becomes the key `491701234567`: other bytes, another lane, and no word about it."""
    assert read_tree(f"a: {word}").data == {"a": word}


@pytest.mark.parametrize("quoted", ["'7'", '"7"', "|-\n  7", ">-\n  7"], ids=["single", "double", "literal", "folded"])
def test_quoted_is_always_text(quoted: str) -> None:
    assert read_tree(f"a: {quoted}").data == {"a": "7"}


def test_a_plain_number_as_field_name_is_a_number_and_a_quoted_one_is_text() -> None:
    tree = read_tree("{7: a, '7': b, -1: c}")
    assert (tree.data, tree.findings) == ({7: "a", "7": "b", -1: "c"}, [])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("!foo 5", id="a word of its own"),
        pytest.param("!foo [5]", id="a list of its own"),
        pytest.param("!foo {x: 5}", id="a mapping of its own"),
        pytest.param("!!python/object/apply:os.system ['true']", id="python object"),
        pytest.param("!!python/object:os.system {x: 5}", id="python object from a mapping"),
        pytest.param("!!python/name:os.system ''", id="python name"),
        pytest.param("!!python/tuple [5]", id="python tuple"),
        pytest.param("!<tag:example.org,2026:x> 5", id="a full address"),
        pytest.param("!!binary aGVsbG8=", id="binary"),
        pytest.param("!!str 5", id="str"),
        pytest.param("!!int '5'", id="int"),
        pytest.param("!!float '5'", id="float"),
        pytest.param("!!timestamp 2026-11-15", id="timestamp"),
        pytest.param("!!set {x}", id="set"),
        pytest.param("!!omap [x: 5]", id="omap"),
        pytest.param("! 5", id="the tag without a name"),
    ],
)
def test_every_tag_is_refused(value: str) -> None:
    """Also the harmless-looking: `!!str 5` asks for text, and would quietly be the number 5."""
    findings = read_tree(f"a:\n  b: {value}").findings
    assert [finding.line for finding in findings] == [2]
    assert "tags are not allowed" in findings[0].message


def test_a_tag_on_a_field_name_is_refused() -> None:
    (message,) = messages("!foo a: 1")
    assert "got '!foo'" in message


def test_a_tag_never_runs_anything(tmp_path: Any) -> None:
    victim = tmp_path / "made"
    read_tree(f"a: !!python/object/apply:os.mkdir ['{victim}']")
    assert not victim.exists()


def test_a_field_given_twice_is_a_problem_at_the_second() -> None:
    tree = read_tree("a: 1\nb:\n  c: 2\n  d: 3\n  c: 4\n")
    (finding,) = tree.findings
    assert str(finding).startswith("error: line 5: b.c: given twice")


def test_a_field_given_three_times_is_two_problems() -> None:
    assert [finding.line for finding in read_tree("a: 1\na: 2\na: 3").findings] == [2, 3]


def test_the_same_field_of_two_mappings_is_no_problem() -> None:
    assert read_tree("[{a: 1}, {a: 2}]").findings == []


@pytest.mark.parametrize(
    "name",
    ["true", "null", "1.5", "[a, b]", "{a: b}"],
    ids=["a boolean", "null", "a float", "a list", "a mapping"],
)
def test_a_field_name_that_is_neither_text_nor_a_whole_number_is_refused(name: str) -> None:
    tree = read_tree(f"x:\n  ? {name}\n  : 1\n")
    (finding,) = tree.findings
    assert finding.where == "x"
    assert "field name" in finding.message


def test_a_merge_key_merges_nothing() -> None:
    tree = read_tree("base: &base {x: 1}\nmore:\n  <<: *base\n  y: 2\n")
    assert tree.data["more"] == {"<<": {"x": 1}, "y": 2}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\n---\nb: 2\n", 2, id="two"),
        pytest.param("---\na: 1\n---\n", 3, id="the second is empty"),
        pytest.param("---\n---\n", 2, id="both are empty"),
    ],
)
def test_a_second_document_is_refused(text: str, line: int) -> None:
    (finding,) = read_tree(text).findings
    assert (finding.message, finding.line) == ("too many documents: allowed: 1", line)


def test_one_document_with_its_marks_is_read() -> None:
    assert read_tree("%YAML 1.1\n---\na: 1\n...\n").data == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment\n", "   "], ids=["nothing", "lines", "comment", "blanks"]
)
def test_an_empty_file_says_how_a_contract_begins(text: str) -> None:
    (message,) = messages(text)
    assert "empty" in message
    assert "`apiVersion: keylane/v1`" in message


def test_a_byte_order_mark_is_not_part_of_the_first_field() -> None:
    tree = read_tree("\ufeffa: 1")
    assert (tree.data, tree.findings) == ({"a": 1}, [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a: 1\nb: [1, 2\n", 3, id="a bracket left open"),
        pytest.param("a: 'x\nb: 1", 2, id="a quote left open"),
        pytest.param("a:\n\tb: 1", 2, id="a tab as indentation"),
        pytest.param("a: 1\n b: 2", 2, id="wrong indentation"),
        pytest.param("a: b: c", 1, id="two values"),
        pytest.param("a: 1\nb: *nobody", 2, id="an alias of nothing"),
        pytest.param("a: @x", 1, id="a reserved sign"),
        pytest.param('a: "\\q"', 1, id="an unknown escape"),
        pytest.param('a: "\\ud800"', 1, id="an escaped half of a surrogate pair"),
    ],
)
def test_what_is_not_yaml_is_reported_with_its_line(text: str, line: int) -> None:
    tree = read_tree(text)
    (finding,) = tree.findings
    assert tree.data is None
    assert finding.message.startswith("not YAML: ")
    assert finding.line == line


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x1b", "\x7f", "\ufffe"], ids=lambda c: f"U+{ord(c):04X}")
def test_control_characters_are_refused(character: str) -> None:
    (message,) = messages(f"a: b{character}c")
    assert message.startswith("not YAML: ")


@pytest.mark.parametrize("text", ["\ud800", "a: \udfff", "a: x\ud83d"], ids=["alone", "a low half", "a high half"])
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    """Text from a file read with `surrogateescape` holds such halves; they have no UTF-8."""
    assert len(read_tree(text).findings) == 1


def test_every_path_knows_its_line() -> None:
    tree = read_tree("a: 1\nb:\n  - x\n  - y: 2\n    z:\n      [3,\n       4]\n7: {c: d}\n")
    assert tree.findings == []
    assert tree.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1): 4,
        ("b", 1, "y"): 4,
        ("b", 1, "z"): 5,
        ("b", 1, "z", 0): 6,
        ("b", 1, "z", 1): 7,
        (7,): 8,
        (7, "c"): 8,
    }


def test_a_path_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    tree = read_tree("a: 1\nb:\n  c: 2\n")
    assert [tree.line(path) for path in [("b", "c"), ("b", "x"), ("b", "x", 3), ("z",)]] == [3, 2, 2, 1]


def test_a_tree_that_read_nothing_has_no_lines() -> None:
    assert Tree().line(("a",)) is None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ((), "(file)"),
        (("spec",), "spec"),
        (("spec", "hot_keys", 0, "keys", 12), "spec.hot_keys[0].keys[12]"),
        (("spec", "table", "values", "a.b"), "spec.table.values.a.b"),
    ],
    ids=["the file", "a field", "places in lists", "a key with a dot"],
)
def test_a_path_is_shown_as_a_reader_would_write_it(path: tuple[str | int, ...], shown: str) -> None:
    assert show_path(path) == shown
