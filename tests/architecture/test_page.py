"""docs/architecture.md names files and modules that exist. Its walks are traced again in `make test-faults`."""

from __future__ import annotations

import re

import pytest
from scripts import house

#: A module in a drawn walk: indented, and followed by the function that was entered first.
STEP = re.compile(r"^ *([a-z_0-9.]+)  +[\w<>]+$", re.MULTILINE)


def part(page: str, name: str) -> str:
    begin, end = f"<!-- {name}: written by scripts/house.py; do not edit -->", f"<!-- end of {name} -->"
    return page.partition(begin)[2].partition(end)[0]


def missing(page: str) -> list[str]:
    """Files that the page names, in text and diagrams, and the tree does not have."""
    by_hand = page.replace(part(page, "file map"), "").replace(part(page, "walks"), "")
    named = set(re.findall(r"\b((?:[a-z_]+/)+[A-Za-z_0-9]+\.(?:py|java|lock))\b", by_hand))
    roots = (house.SOURCE, house.SOURCE / "pipelines/route", house.ROOT)
    return sorted(name for name in named if not any((root / name).exists() for root in roots))


@pytest.fixture(scope="module")
def page() -> str:
    return house.PAGE.read_text(encoding="utf-8")


def test_files_that_the_page_names_exist(page: str) -> None:
    assert missing(page) == []
    assert missing(page + "\n`spark/absent.py`") == ["spark/absent.py"], "twin: a file that is not there"


@pytest.mark.faults
def test_the_file_map_is_that_of_the_source(page: str) -> None:
    assert part(page, "file map").strip() == house.file_map(house.SOURCE).strip(), "run `make map`"


@pytest.mark.faults
def test_the_walks_are_those_that_the_commands_take(page: str) -> None:
    walks = house.traced(house.SOURCE, [name for _, names in house.DRAWN for name in names])
    assert set(STEP.findall(house.drawn_walks(walks))) == set(STEP.findall(part(page, "walks"))), "run `make walks`"
