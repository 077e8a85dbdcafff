"""The page of the first hour: made of transcripts, and as it is in the docs."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import first_hour

MOST_COMMANDS = 4


def sections(page: str) -> dict[str, str]:
    return dict(part.split("\n", 1) for part in page.split("\n## ")[1:])


def test_a_page_has_what_was_typed_and_shown_and_no_seconds() -> None:
    walks = {
        title: f"$ keylane check kafka://127.0.0.1:3117/t\nok\n\nwalk: {title}: 1 commands, 7.4 s\n"
        for title in first_hour.WALKS
    }
    found = sections(first_hour.page(walks))
    assert [title.lower() for title in found] == [title.lower() for title in first_hour.WALKS]
    text = found["Two writers on my topic"]
    assert "```text\n$ keylane check kafka://broker:9092/t\nok\n```\n" in text
    assert "1 commands. More: " in text
    assert "7.4" not in text


def test_the_page_in_the_docs_has_every_walk_in_at_most_four_commands() -> None:
    found = sections(Path(first_hour.PAGE).read_text("utf-8"))
    assert [title.lower() for title in found] == [title.lower() for title in first_hour.WALKS]
    for title, text in found.items():
        typed = re.findall(r"^\$ keylane \S+", text, re.MULTILINE)
        assert 0 < len(typed) <= MOST_COMMANDS, title
        assert f"{len(typed)} commands. More: " in text
        assert "Traceback" not in text
