"""The command that installs a part of keylane is one that a shell takes, and that finds the clone."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

import keylane
from keylane import extras


def test_from_a_clone_it_names_the_clone_and_this_python() -> None:
    words = shlex.split(extras.install_command("spark"), comments=True)
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    clone = Path(words[-1].removesuffix("[spark]"))
    assert words[-1].endswith("[spark]")
    assert (clone / "pyproject.toml").is_file()
    assert Path(keylane.__file__).is_relative_to(clone)
    assert shlex.split(extras.install_command())[-1] == str(clone)


@pytest.mark.parametrize("there", [True, False])
def test_installed_it_names_what_was_installed_if_that_is_still_there(there: bool, tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    if there:
        clone.mkdir()
    noted = SimpleNamespace(read_text=lambda _: json.dumps({"url": clone.as_uri(), "dir_info": {}}))
    with (
        mock.patch.object(extras, "__file__", str(tmp_path / "lib" / "site-packages" / "keylane" / "extras.py")),
        mock.patch.object(extras, "distribution", return_value=noted),
    ):
        words = shlex.split(extras.install_command("kafka"), comments=True)
    assert words[-1] == (f"{clone}[kafka]" if there else ".[kafka]")
