"""How tests are told apart by what they need, and that `--fast` lets none of it start."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

import pytest
from tests.needs import FOLDERS, PARTS, PLAIN, ROUTES, may_have, needs, part_of, refuse_to_start


@pytest.mark.parametrize(
    ("fixtures", "folder", "expected"),
    [
        (["tmp_path"], "unit", set()),
        (["spark", "tmp_path"], "unit", {"jvm"}),
        (["browser"], "browser", {"browser"}),
        (["broker"], "integration", {"broker"}),
        (["broker", "spark"], "integration", {"jvm", "broker"}),
        ([], "route", {"jvm"}),
        ([], "properties", {"slow"}),
    ],
)
def test_a_test_is_marked_by_its_fixtures_and_by_its_folder(
    fixtures: list[str], folder: str, expected: set[str]
) -> None:
    assert needs(fixtures, folder) == expected


@pytest.mark.parametrize(
    ("folder", "markers", "part"),
    [
        ("route", {"jvm"}, "routes"),
        ("integration", {"jvm", "broker"}, "routes"),
        ("integration", {"broker"}, "servers"),
        ("kinesis", {"node"}, "servers"),
        ("kinesis", {"node", "jvm"}, "routes"),
        ("kinesis", set(), "plain"),
        ("match", {"jvm"}, "spark"),
        ("browser", {"jvm", "browser"}, "spark"),
        ("browser", {"browser"}, "plain"),
        ("unit", {"jvm"}, "plain"),
        ("a new one", {"jvm"}, "spark"),
        ("a new one", set(), "plain"),
    ],
)
def test_every_test_is_in_one_part(folder: str, markers: set[str], part: str) -> None:
    assert part_of(folder, markers) == part
    assert may_have(part, folder)


def test_no_part_passes_over_a_folder_that_has_tests_of_it() -> None:
    folders = {path.name for path in Path(__file__).parents[1].iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders >= ROUTES | PLAIN
    for folder in folders:
        found = {part_of(folder, FOLDERS.get(folder, set()) | more) for more in (set(), {"jvm"}, {"node"})}
        assert {part for part in PARTS if may_have(part, folder)} == found
    assert not may_have("spark", "unit")
    assert not may_have("plain", "match")


@pytest.mark.parametrize("program", ["/usr/lib/jvm/bin/java", "java", b"/usr/bin/chromium", "chromedriver"])
def test_what_takes_long_is_refused(program: str | bytes) -> None:
    with pytest.raises(RuntimeError, match="--fast"):
        refuse_to_start("subprocess.Popen", (program, [], None, None))


@pytest.mark.parametrize("program", ["/usr/bin/python3", "git", None, f"{gettempdir()}/made/bin/java"])
def test_other_programs_and_events_are_not(program: str | None) -> None:
    refuse_to_start("subprocess.Popen", (program, [], None, None))
    refuse_to_start("subprocess.Popen", ("/usr/bin/java", ["java", "-version"], None, None))
    refuse_to_start("open", ("java", "r", 0))
