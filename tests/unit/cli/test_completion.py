from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from keylane.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("shell", "mark"),
    [("bash", "complete -o nosort -F"), ("zsh", "#compdef keylane"), ("fish", "complete --no-files --command keylane")],
)
def test_a_script_is_printed(shell: str, mark: str, run: Run) -> None:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert mark in out
    assert "_KEYLANE_COMPLETE" in out


def test_another_shell_is_refused(run: Run) -> None:
    code, out, err = run("completion", "tcsh")
    assert (code, out) == (2, "")
    assert "got 'tcsh'; allowed: bash, zsh, fish" in err


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        pytest.param("keylane exp", 1, ["plain,explain"], id="a command"),
        pytest.param("keylane ", 1, [f"plain,{command}" for command in COMMANDS], id="all"),
        pytest.param("keylane explain --like kafka-j", 3, ["plain,kafka-java"], id="a partitioner"),
        pytest.param("keylane explain -o js", 3, ["plain,json", "plain,jsonl"], id="an output format"),
        pytest.param("keylane explain --enc", 2, ["plain,--encoding"], id="an option"),
        pytest.param("keylane completion z", 2, ["plain,zsh"], id="a shell"),
    ],
)
def test_words_are_completed(words: str, at: int, expected: list[str], process: Run) -> None:
    code, out, err = process(_KEYLANE_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(at))
    assert (code, err) == (0, "")
    assert out.split("\n")[:-1] == expected


def test_bash_itself_completes(keylane: str, run: Run) -> None:
    script = run("completion", "bash")[1]
    ask = f"""
    PATH="{keylane.rpartition("/")[0]}:$PATH"
    {script}
    COMP_WORDS=(keylane ident); COMP_CWORD=1
    _keylane_completion keylane
    echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["/bin/bash", "-c", ask], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["identify"]
