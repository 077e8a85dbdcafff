"""docs/architecture.md and the docstrings of packages name the modules that exist, and the file map is today's.

The walks are traced by `make walks`, and traced again by a test of `make test-faults`.
"""

from __future__ import annotations

import ast
import re

import pytest
from scripts import house

STALE = "docs/architecture.md is stale: run `make map`"
#: A module in a drawn walk: indented, and followed by the function that was entered first.
STEP = re.compile(r"^ *([a-z_0-9.]+)  +[\w<>]+$", re.MULTILINE)


def part(page: str, name: str) -> str:
    begin, end = f"<!-- {name}: written by scripts/house.py; do not edit -->", f"<!-- end of {name} -->"
    return page.partition(begin)[2].partition(end)[0]


def unknown(page: str) -> set[str]:
    """Modules in the walks of a page that the tree does not have."""
    return set(STEP.findall(part(page, "walks"))) - {name or "keylane" for name in house.modules(house.SOURCE)}


def missing(page: str) -> list[str]:
    """Files that the page names, in text and diagrams, and the tree does not have."""
    by_hand = page.replace(part(page, "file map"), "").replace(part(page, "walks"), "")
    named = set(re.findall(r"\b((?:[a-z_]+/)+[A-Za-z_0-9]+\.(?:py|java|lock))\b", by_hand))
    roots = (house.SOURCE, house.SOURCE / "pipelines/route", house.ROOT)
    return sorted(name for name in named if not any((root / name).exists() for root in roots))


def unlisted(tree: dict[str, house.Module]) -> list[str]:
    """Modules that the docstring of their package does not name."""
    found = []
    for name, module in tree.items():
        package, _, own = name.rpartition(".")
        listed = ast.get_docstring(tree[package].tree) or ""
        if (
            package not in WITHOUT_LISTS
            and name
            and own != "__main__"
            and not re.search(LISTED.format(own), listed, re.MULTILINE)
        ):
            found.append(module.name)
    return found


def headings(page: str) -> list[str]:
    return re.findall(r"^### (.+)$", part(page, "walks"), re.MULTILINE)


#: At the start of a line of the list, alone or with others; or further on in it.
LISTED = r"^ *(?:[a-z_0-9]+, )*{0}(?:,|  )|; {0}: |`{0}`"
#: One file a command: the list would be that of `keylane --help`.
WITHOUT_LISTS = {"cli", "documents"}


@pytest.fixture(scope="module")
def page() -> str:
    return house.PAGE.read_text(encoding="utf-8")


def test_the_file_map_is_that_of_the_source(page: str) -> None:
    assert part(page, "file map").strip() == house.file_map(house.SOURCE).strip(), STALE


def test_a_file_map_of_other_docstrings_is_stale(page: str) -> None:
    other = page.replace("murmur2, 32 bits", "murmur2, 64 bits")
    assert part(other, "file map").strip() != house.file_map(house.SOURCE).strip()


def test_every_package_of_the_file_map_has_its_place_in_the_order() -> None:
    tops = {name.partition(".")[0] for name in house.modules(house.SOURCE)}
    assert tops - {"", "__main__"} - set(house.ORDER) == set()


def test_files_that_the_page_names_exist(page: str) -> None:
    assert missing(page) == []
    assert missing(page + "\n`spark/told.py`") == ["spark/told.py"]


def test_the_docstring_of_a_package_names_its_modules() -> None:
    tree = house.modules(house.SOURCE)
    assert unlisted(tree) == [], "name them in the docstring of their package"
    one = tree["hashing.md5"]
    assert unlisted({**tree, "hashing.md6": house.Module("hashing.md6", False, one.source, one.tree)}) == [
        "hashing.md6"
    ]


def test_five_walks_are_drawn_and_name_modules_that_exist(page: str) -> None:
    assert headings(page) == [title for title, _ in house.DRAWN]
    assert len(STEP.findall(part(page, "walks"))) > 100
    assert unknown(page) == set()


def test_a_walk_through_a_module_that_is_gone_is_noticed(page: str) -> None:
    assert unknown(page.replace("  cli.explain  ", "  cli.told  ", 1)) == {"cli.told"}


@pytest.mark.faults
def test_the_walks_are_those_that_the_commands_take(page: str) -> None:
    walks = house.traced(house.SOURCE, [name for _, names in house.DRAWN for name in names])
    assert set(STEP.findall(house.drawn_walks(walks))) == set(STEP.findall(part(page, "walks"))), "run `make walks`"
