"""The lesson's result as a person reads it: verdict first, each figure beside its threshold; and addresses refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.cli.lesson_documents import made

from keylane.cli.demo_lesson import as_result
from keylane.cli.output import as_json, render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def shown(**changes: Any) -> list[str]:
    return render(as_result(made(**changes)), "table").splitlines()


def test_the_verdict_comes_first_and_the_reason_second() -> None:
    first, second, *_ = shown()
    assert "(formula 300%, murmur2 300%)" in first
    assert second == "Because."


def test_what_is_kept_is_not_called_broken() -> None:
    assert shown(cv=0.01)[0].startswith("CV < 5%: kept by both")


def test_whatever_else_is_broken_is_in_the_verdict() -> None:
    assert "producer's mean batch (formula and murmur2)" in shown(batch=100.0)[0]


def test_each_figure_stands_beside_what_is_asked() -> None:
    rows = {row["figure"]: row for row in map(as_json, as_result(made()).sections[0].rows)}
    assert rows["CV of records per lane"]["asked"] == "< 5%"
    assert rows["CV of records per lane"]["formula_is"] == "broken"
    assert rows["producer's mean batch"]["murmur2"] == "19.5 KiB"
    assert rows["producer's mean batch"]["murmur2_is"] == "kept"
    assert {row["asked"] for row in rows.values()} == {"< 5%", "0", "> 16 KiB", "< 500", None}


def test_what_was_not_measured_keeps_nothing() -> None:
    rows = {row["figure"]: row for row in map(as_json, as_result(made(batch=None)).sections[0].rows)}
    assert rows["producer's mean batch"]["formula"] == "not measured"
    assert rows["producer's mean batch"]["formula_is"] == "broken"


def test_failed_records_are_told_of() -> None:
    assert any("every record" in line for line in shown())
    assert any("6 records failed" in line for line in shown(failed=3))


@pytest.mark.parametrize("address", ["nonsense", "kafka://", "kafka://host", "kinesis://eu-west-1/s", "host:1/topic/x"])
def test_what_is_no_address_of_a_kafka_is_refused(run: Run, address: str) -> None:
    code, out, err = run("demo", "lesson", "--bootstrap", address)
    assert (code, out) == (2, "")
    assert "allowed: kafka://host:port" in err


@pytest.mark.parametrize("words", [("demo", "--seed", "3", "lesson"), ("aggregate", "--lanes", "3", "queries", "list")])
def test_options_of_a_group_before_the_word_are_refused(words: tuple[str, ...], run: Run) -> None:
    code, _, err = run(*words)
    assert (code, words[1] in err) == (2, True)


def test_a_folder_that_is_not_the_lessons_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "figures.json").write_text('{"schema": "keylane.demo/1"}')
    code, _, err = run("demo", "lesson", "--to", tmp_path, "--bootstrap", "127.0.0.1:1")
    assert code == 2
    assert "not a demo's" in err
