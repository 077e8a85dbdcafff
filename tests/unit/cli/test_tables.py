"""Tables and sentences for a terminal of some width; verdicts and their colours."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from keylane.cli.output import Result, Section, render
from keylane.cli.tables import COLOURS, VERDICTS, columns_of, toned, wrapped
from keylane.documents.model import Document
from keylane.numbers import share, size

LONG = "key: merchant_id as utf8; hash: murmur2 -> 0xaa07cf36; placement: masked over 15 lanes -> lane 10"


class Answer(Document):
    """A document that nobody looks at here."""

    n: int = 1


def shown(*sections: Section, width: int = 80, output: str = "table", **more: Any) -> list[str]:
    return render(Result(Answer(), [*sections], **more), output, terminal=True, colour=False, width=width).splitlines()


def table(columns: int, length: int = 30) -> Section:
    names = tuple(f"name_{n}" for n in range(columns))
    return Section(names, [{name: f"{name} " + "word " * (length // 5) for name in names}])


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("columns", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("length", [5, 30, 400])
def test_no_line_of_a_table_is_wider_than_the_terminal(width: int, columns: int, length: int) -> None:
    assert max(map(columns_of, shown(table(columns, length), width=width)[:-1])) <= width


def test_twin_without_a_width_it_would_be() -> None:
    assert max(map(len, shown(table(5), output="wide"))) > 80
    assert len(shown(table(5), output="wide")) == 2


def test_every_word_of_a_cell_is_there_however_narrow() -> None:
    section = Section(("lane", "why"), [{"lane": 10, "why": LONG}])
    lines = shown(section, width=40)
    assert " ".join(" ".join(line[6:].strip() for line in lines[1:]).split()) == LONG
    assert lines[1].startswith("  10  key:")


def test_columns_that_have_no_room_are_named() -> None:
    lines = shown(table(12), width=80)
    named = " ".join(line.strip() for line in lines[-2:])
    assert named.startswith("(7 more columns: name 5, name 6")
    assert named.endswith("-o wide shows all)")
    assert max(map(len, lines)) <= 80
    assert "more column" not in "".join(shown(table(4), width=80))


def test_a_word_longer_than_its_column_is_broken_and_not_lost() -> None:
    lines = shown(Section(("a", "path"), [{"a": "x" * 30, "path": "/" + "p" * 200}]), width=60)
    assert sum(line.count("p") for line in lines[1:]) == 200


def test_in_a_pipe_a_table_is_as_wide_as_it_is() -> None:
    text = render(Result(Answer(), [table(12)]), "table", width=80)
    assert max(map(len, text.splitlines())) > 300


def test_numbers_stand_right_and_have_one_form() -> None:
    rows = [
        {"name": "a", "records": 1_745_240, "lane": 1_023, "share": 0.4861, "bytes": 6_242_411},
        {"name": "b", "records": 7, "lane": 2, "share": 0.000437, "bytes": None},
    ]
    section = Section(("name", "records", "lane", "share", "bytes"), rows, forms={"share": share, "bytes": size})
    assert shown(section) == [
        "NAME    RECORDS  LANE   SHARE    BYTES",
        "a     1,745,240  1023   48.6%  6.0 MiB",
        "b             7     2  0.044%        -",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("東京") == 4
    assert columns_of("e\N{COMBINING ACUTE ACCENT}") == 1
    lines = shown(Section(("city", "n"), [{"city": "東京", "n": 1}, {"city": "Oslo", "n": 2}]))
    assert lines == ["CITY  N", "東京  1", "Oslo  2"]
    assert max(map(columns_of, shown(Section(("a", "b"), [{"a": "東" * 90, "b": "x"}]), width=60))) <= 60


def test_the_answer_stands_before_the_evidence() -> None:
    found = shown(Section(("x",), [{"x": "row"}]), answer=["broken: 1 error"], lines=["next: fix it"])
    assert found == ["broken: 1 error", "", "X", "row", "", "next: fix it"]


def test_markdown_is_a_table_for_a_ticket() -> None:
    found = shown(Section(("a", "b"), [{"a": "x|y", "b": 1_000}], "Heavy"), output="md", answer=["ok"])
    assert found == ["ok", "", "**Heavy**", "", "| A | B |", "| --- | --- |", "| x\\|y | 1,000 |"]


# Sentences


def test_a_sentence_is_wrapped_between_words_and_set_in() -> None:
    lines = wrapped("  " + "word " * 40, 60)
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("    word") for line in lines[1:])


@pytest.mark.parametrize("line", [f"next: keylane plan {'x' * 90} --lanes 12", f"page: file:///{'p' * 90} now"])
def test_what_is_to_be_copied_is_not_broken(line: str) -> None:
    assert wrapped(line, 60) == [line]


def test_a_command_in_a_sentence_is_whole_and_the_sentence_is_wrapped_at_words() -> None:
    text = f"{'word ' * 3}or build a table for this radius (keylane geo table --radius 1000) and {'more ' * 9}"
    lines = wrapped(text, 60)
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == text.strip()
    assert any("(keylane geo table --radius 1000)" in one for one in lines)
    # The twin: without a command the same place is one to break at.
    plain = wrapped(text.replace("keylane geo", "xxxxxxx Geo"), 60)
    assert not any("(xxxxxxx Geo table --radius 1000)" in one for one in plain)


# Colours


@pytest.mark.parametrize("word", VERDICTS)
def test_a_verdict_has_its_colour_at_the_beginning_of_a_line_only(word: str) -> None:
    code = {"green": 32, "red": 31, "yellow": 33}[COLOURS[VERDICTS[word]]]
    assert toned(f"  {word}: rest") == f"  \x1b[{code}m{word}\x1b[0m: rest"
    assert toned(f"the {word}") == f"the {word}"
    assert toned(f"{word}ish") == f"{word}ish"


def test_a_verdict_that_is_a_whole_cell_has_its_colour_and_columns_stay_in_line() -> None:
    rows = [{"state": "ok", "part": "a"}, {"state": "missing", "part": "ok then"}]
    text = render(Result(Answer(), [Section(("state", "part"), rows)]), "table", terminal=True, colour=True, width=80)
    assert "\x1b[32mok\x1b[0m       a" in text
    assert "\x1b[31mmissing\x1b[0m  ok then" in text


def test_a_column_may_judge_its_own_values() -> None:
    section = Section(("copies",), [{"copies": 1.1}, {"copies": 2.5}], tones={"copies": lambda n: n > 2 and "bad"})
    text = render(Result(Answer(), [section]), "table", terminal=True, colour=True, width=80)
    assert "\x1b[31m2.5\x1b[0m" in text
    assert "\x1b[31m1.1" not in text


def test_columns_of_one_width_give_way_alike_and_break_no_word() -> None:
    cells = {"client": "librdkafka (confluent-kafka, kcat, node-rdkafka, rust-rdkafka)", "set": "partitioner " * 6}
    lines = shown(Section(("client", "set"), [cells]), width=60)
    head = lines[0]
    assert abs(head.index("SET") - (60 - head.index("SET"))) <= 4
    left = {word for line in lines[1:] for word in line[: head.index("SET")].split()}
    assert left == set(cells["client"].split())


def test_a_name_that_must_be_broken_is_broken_at_a_hyphen() -> None:
    lines = shown(Section(("a", "b"), [{"a": "librdkafka-consistent-random", "b": "x " * 20}]), width=34)
    parts = [part for line in lines[1:] if (part := line[: lines[0].index("B")].strip())]
    assert "".join(parts) == "librdkafka-consistent-random"
    assert len(parts) > 1
    assert all(part.endswith("-") for part in parts[:-1])


NAMES = {
    "shard": "shardId-000000000000",
    "at": "5316911988456908841515204097209270272",
    "makes": "shardId-000000000008, " * 2,
}


@pytest.mark.parametrize("width", [30, 80, 100, 120])
def test_names_that_are_copied_are_left_out_rather_than_broken(width: int) -> None:
    columns = ("shard", "at", "makes")
    lines = shown(Section(columns, [NAMES], unbroken=columns), width=width)
    cells = takewhile(lambda line: not line.startswith("("), lines[1:])
    words = {word for line in cells for word in line.split()}
    assert words <= {word for text in NAMES.values() for word in text.split()}
    assert NAMES["shard"] in words
    broken = shown(Section(columns, [NAMES]), width=50)
    assert not any(NAMES["at"] in line for line in broken), "the twin: without the mark a word gives way"


def test_twin_a_word_is_broken_where_nothing_else_fits() -> None:
    lines = shown(Section(("client", "set"), [{"client": "x" * 60, "set": "y" * 60}]), width=50)
    assert max(map(len, lines)) <= 50
    assert sum(line.count("x") for line in lines) == 60


@pytest.mark.parametrize(("height", "times"), [(50, 1), (10, 2), (None, 1)])
def test_an_answer_that_has_scrolled_away_is_there_once_more(height: int | None, times: int) -> None:
    rows = [{"n": n} for n in range(20)]
    result = Result(Answer(), [Section(("n",), rows)], ["the last line"], answer=["ok: the answer"])
    lines = render(result, "table", terminal=True, colour=False, width=80, height=height).splitlines()
    assert [line for line in lines if line == "ok: the answer"] == ["ok: the answer"] * times
    assert lines[-1] == ("ok: the answer" if times == 2 else "the last line")
    piped = render(result, "table", terminal=False, height=height).splitlines()
    assert piped.count("ok: the answer") == 1


def test_every_answer_of_a_plan_has_its_colour() -> None:
    from keylane.plan.advice import LEAVE, OPENING, UNNAMED

    asked = ("Needed for the throughput that was asked for", "Not possible: no candidate keeps the limit.")
    plain = [text for text in (*OPENING.values(), *LEAVE.values(), UNNAMED, *asked) if toned(text) == text]
    assert plain == []
