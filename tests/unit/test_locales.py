"""The locale that Spark's Java gets: UTF-8 for file names, whatever the caller's is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from keylane.spark import jvm
from keylane.spark.jvm import charset_of, utf8_file_names

CATEGORIES = ("LC_ALL", "LC_CTYPE", "LC_TIME", "LANG")


@pytest.fixture(autouse=True)
def _no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CATEGORIES:
        monkeypatch.delenv(name, raising=False)
    if charset_of("C.UTF-8") != "UTF-8":
        pytest.skip("no C.UTF-8 here")


@pytest.mark.parametrize(
    ("given", "better"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"LC_ALL": "xx_YY.UTF-8"}, True),
        ({"LANG": "C.UTF-8", "LC_TIME": "xx_YY"}, True),
        ({}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LANG": "C.UTF-8"}, False),
    ],
)
def test_a_locale_without_utf8_is_replaced_while_java_starts(
    given: dict[str, str], better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not installed counts as none, as it does for Java, whichever of its parts is missing."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with utf8_file_names():
        assert os.environ.get("LC_ALL") == ("C.UTF-8" if better else given.get("LC_ALL"))
        code = "import locale; print(locale.setlocale(locale.LC_ALL, ''), locale.nl_langinfo(locale.CODESET))"
        env = {**os.environ, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
        seen = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert seen.stdout.split() == ["C.UTF-8", "UTF-8"]
    assert dict(os.environ) == before


def test_a_machine_that_has_no_such_locale_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "charset_of", lambda _name: "")
    with utf8_file_names():
        assert "LC_ALL" not in os.environ
    assert charset_of("xx_YY.UTF-8") == ""
