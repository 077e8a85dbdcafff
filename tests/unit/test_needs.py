"""How tests are told apart by what they need, and that `--fast` lets none of it start."""

from __future__ import annotations

from tempfile import gettempdir

import pytest
from tests.needs import needs, refuse_to_start


@pytest.mark.parametrize(
    ("fixtures", "folder", "expected"),
    [
        (["tmp_path"], "unit", set()),
        (["spark", "tmp_path"], "unit", {"jvm"}),
        (["browser"], "browser", {"browser"}),
        (["broker"], "integration", {"jvm", "broker"}),
        ([], "route", {"jvm"}),
        ([], "properties", {"slow"}),
    ],
)
def test_a_test_is_marked_by_its_fixtures_and_by_its_folder(
    fixtures: list[str], folder: str, expected: set[str]
) -> None:
    assert needs(fixtures, folder) == expected


@pytest.mark.parametrize("program", ["/usr/lib/jvm/bin/java", "java", b"/usr/bin/chromium", "chromedriver"])
def test_what_takes_long_is_refused(program: str | bytes) -> None:
    with pytest.raises(RuntimeError, match="--fast"):
        refuse_to_start("subprocess.Popen", (program, [], None, None))


@pytest.mark.parametrize("program", ["/usr/bin/python3", "git", None, f"{gettempdir()}/made/bin/java"])
def test_other_programs_and_events_are_not(program: str | None) -> None:
    refuse_to_start("subprocess.Popen", (program, [], None, None))
    refuse_to_start("subprocess.Popen", ("/usr/bin/java", ["java", "-version"], None, None))
    refuse_to_start("open", ("java", "r", 0))
