"""The door: exit codes, what goes to stdout and what to stderr, terminals and pipes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
from tests.interrupts import interruptible

from keylane import __version__
from keylane.cli.main import COMMANDS, INNER, cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]
    DataFile = Callable[..., Path]


def inner(command: click.Command) -> dict[str, Any]:
    """The commands within a command."""
    return {name: inner(one) for name, one in getattr(command, "commands", {}).items()}


def test_every_command_within_another_takes_what_is_configured() -> None:
    """All of them by name, and none of a command that has an option of that name, as `brokers --status`."""
    context = click.Context(cli)
    there = {name: found for name in COMMANDS if (found := inner(cli.get_command(context, name) or cli))}
    assert there["dev"]["kafka"].pop("env") == {}
    assert there == INNER


def test_zero_is_fine(process: Run, contract_file: ContractFile) -> None:
    assert process("check", contract_file())[0::2] == (0, "")


def test_one_is_a_failure(process: Run) -> None:
    code, out, err = process("identify", "nowhere", "-k", "k", "-l", "lane")
    assert (code, out) == (1, "")
    assert "got 'nowhere'" in err


def test_two_is_usage_or_an_invalid_contract(process: Run, tmp_path: Path) -> None:
    code, out, err = process("explain", "a")
    assert (code, out) == (2, "")
    assert err.startswith("error: --lanes is needed")
    assert err.endswith("hint: keylane explain --help\n")
    (tmp_path / "c.yaml").write_text("nothing: here\n")
    code, out, err = process("check", tmp_path / "c.yaml")
    assert (code, err) == (2, "")
    assert "broken: " in out


def test_four_is_a_broken_promise(process: Run, contract_file: ContractFile) -> None:
    code, out, err = process("check", contract_file(golden=[{"key": "TT0124", "lane": 9}]))
    assert (code, err) == (4, "")
    assert "promised lane 9 of t" in out


def test_a_hundred_and_thirty_is_an_interrupt(keylane: str, tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    os.mkfifo(slow)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with interruptible(), subprocess.Popen([keylane, "check", slow], **pipes) as waiting:
        # Opening to write waits for the reader: from here on the command waits for us.
        writer = os.open(slow, os.O_WRONLY)
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=120)
        os.close(writer)
    assert waiting.returncode == 130
    assert out == b""
    assert b"Traceback" not in err


def test_the_module_is_the_command(process: Run) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "keylane", "explain", "TT0124", "-n", "15"], capture_output=True, text=True, check=True
    )
    assert done.stdout == process("explain", "TT0124", "-n", 15)[1]


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"keylane, version {__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command: str, flag: str, run: Run) -> None:
    # click keeps the option by the names of the context that asked first, and a test may have run a command alone.
    named = cli.get_command(click.Context(cli), command) if command else cli
    vars(named)["_help_option"] = None
    code, out, err = run(*([command] if command else []), flag)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: keylane {command}".rstrip())
    assert "-h, --help" in out
    assert max(map(len, out.splitlines())) <= 110


def test_help_names_every_command_and_the_exit_codes(run: Run) -> None:
    _, out, _ = run("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in out
    assert "0 fine, 1 failure, 2 usage or invalid contract" in out


@pytest.mark.parametrize(
    ("word", "meant"), [("exlain", "explain"), ("chekc", "check"), ("identfy", "identify"), ("comple", "completion")]
)
def test_an_unknown_command_has_a_did_you_mean(word: str, meant: str, run: Run) -> None:
    code, out, err = run(word)
    assert (code, out) == (2, "")
    assert err == f"error: no such command: got '{word}'; hint: did you mean '{meant}'?\n"


def test_a_word_that_is_near_nothing_has_none(run: Run) -> None:
    assert "did you mean" not in run("xyzzy")[2]


def test_without_a_command_the_help_is_an_error(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "Usage: keylane" in err


def test_an_unknown_option_is_usage(run: Run) -> None:
    code, out, err = run("explain", "a", "--lane", 15)
    assert (code, out) == (2, "")
    assert "--lanes" in err


@pytest.mark.parametrize("output", ["table", "json"])
def test_there_are_no_colours_and_no_progress_when_nobody_watches(
    output: str, process: Run, data_file: DataFile
) -> None:
    for arguments in (["explain", "TT0124", "-n", 15], ["identify", data_file("a.parquet"), "-k", "k", "-l", "lane"]):
        code, out, err = process(*arguments, "-o", output, FORCE_COLOR="1", TERM="xterm-256color")
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        assert out.endswith("\n")


def on_a_terminal(*command: object) -> str:
    """What a command writes when its stdout is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(part) for part in command], stdout=theirs, stderr=subprocess.DEVNULL) as running:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:
            pass  # how a terminal ends on Linux
        os.close(ours)
        running.wait(120)
    return shown.decode()


def test_a_terminal_gets_a_bold_head(keylane: str) -> None:
    assert "\x1b[1mLANE" in on_a_terminal(keylane, "explain", "TT0124", "-n", 15)


def test_a_file_cannot_write_escape_codes_to_a_terminal(keylane: str, contract_file: ContractFile) -> None:
    made = contract_file()
    made.write_text(made.read_text() + '"\\e[31mred": 1\n')
    shown = on_a_terminal(keylane, "check", made)
    assert "unknown field" in shown
    assert "\x1b[31mred" not in shown


@pytest.mark.parametrize(
    "command", ["explain TT0124 -n 15", "explain TT0124 -n 15 -o json", "--help", "completion bash"]
)
def test_a_reader_that_leaves_is_no_error(command: str, keylane: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([keylane, *command.split()], stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (0, 1)


def test_head_gets_its_line_and_no_traceback(keylane: str) -> None:
    done = subprocess.run(
        f"set -o pipefail; '{keylane}' explain TT0124 -n 15 | head -1",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "The clients disagree: 5 different lanes (partitions) of 15.\n"
    assert done.stderr == ""


LIGHT = """
import sys
sys.argv = ["keylane", "explain", "TT0124", "-n", "15"]
from keylane.cli.main import _run
_run()
HEAVY = {"numpy", "pyarrow", "pydantic", "yaml", "confluent_kafka", "boto3", "h3", "scipy"}
print(sorted(HEAVY & set(sys.modules)), file=sys.stderr)
"""


def test_explain_answers_without_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("where", ["variable", "file"])
def test_errors_have_the_configured_form_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if where == "variable":
        monkeypatch.setenv("KEYLANE_OUTPUT", "json")
    else:
        (tmp_path / "keylane.toml").write_text('output = "jsonl"\n')
    code, out, err = run("check", "nosuch.yaml")
    assert (code, out, json.loads(err)["exit_code"]) == (1, "", 1)
    # The twins: what is typed counts first, and without either it is a line for people.
    assert run("check", "nosuch.yaml", "-o", "table")[2].startswith("error: ")
    monkeypatch.delenv("KEYLANE_OUTPUT", raising=False)
    (tmp_path / "keylane.toml").unlink(missing_ok=True)
    assert run("check", "nosuch.yaml")[2].startswith("error: ")
