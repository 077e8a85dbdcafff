"""What a terminal gets: no character that it would obey, whatever files, keys, topics and programs are called."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from keylane.cli import terminal
from keylane.cli.main import COMMANDS
from keylane.cli.output import Result, Section, render
from keylane.cli.progress import RouteProgress, StatusLine
from keylane.documents.model import Document
from keylane.errors import KeylaneError, UsageError, visible
from keylane.spark import session
from keylane.systems.config import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]

#: A title for the window, red in seven and in eight bits, a line written over, a bell, text turned round, a break.
HOSTILE = "h\x1b]0;pwned\x07\x1b[31m\x9b31m\rover\x08\x7f\u202egnp\u2066\u200f\u2028"
SOURCE = Path(terminal.__file__).parents[1]


def obeyed(text: str, keep: str = "\n\t") -> list[str]:
    """The characters of a text that a terminal would obey."""
    return sorted({character for character in text if not character.isprintable() and character not in keep})


def test_twin_the_hostile_name_is_hostile() -> None:
    assert len(obeyed(HOSTILE)) == 10


# Every command on hostile names. What is there: {file} and {folder} with such names, {gone} without a file.

CALLS = [
    ("explain", [HOSTILE, "-n", "15"]),
    ("explain", [HOSTILE, "-c", "{gone}"]),
    ("explain", ["k", "-n", HOSTILE]),
    ("find", [HOSTILE, "--from", "kafka://127.0.0.1:1/{gone}"]),
    ("identify", ["{gone}", "-k", "k", "-l", "lane"]),
    ("identify", ["{file}", "-k", HOSTILE, "-l", "lane"]),
    ("identify", [f"kafka://127.0.0.1:1/{HOSTILE}", "-k", "k", "-l", "lane"]),
    ("init", ["{gone}", "-k", "k", "-l", "lane"]),
    ("init", ["{file}", "-k", HOSTILE, "-l", "lane", "--out", "{folder}/init.yaml"]),
    ("apply", ["{gone}"]),
    ("apply", ["{contract}"]),
    ("check", ["{gone}"]),
    ("check", ["{contract}"]),
    ("check", ["{good}", "--data", "{gone}", "-l", "lane"]),
    ("check", ["{good}", "--data", "{file}", "-l", HOSTILE]),
    ("profile", ["{file}", "--key", "k", "--time", f"at:%{HOSTILE}"]),
    ("profile", ["{file}", "--key", "k", "--out", "{file}"]),
    ("plan", ["{gone}"]),
    ("plan", ["{folder}", "--lanes", HOSTILE]),
    ("brokers", [f"kafka://{HOSTILE}"]),
    ("brokers", [f"{HOSTILE}://127.0.0.1:1"]),
    ("geo", ["table", "{gone}", "--lanes", HOSTILE]),
    ("geo", [HOSTILE]),
    ("route", ["{gone}", "--from", "{folder}", "--to", "{folder}/t"]),
    ("route", ["{contract}", "--from", "{folder}", "--to", "{folder}/t"]),
    ("route", ["{good}", "--from", "{gone}", "--to", "{folder}/t"]),
    ("route", ["{good}", "--from", "{folder}", "--to", "{file}", "--kafka", HOSTILE]),
    ("route", ["{good}", "--from", "{folder}", "--to", "{folder}/t", "--every", HOSTILE]),
    ("compact", ["{gone}"]),
    ("compact", ["{file}"]),
    ("verify", ["-c", "{gone}", "--source", "{folder}", "--target", "{folder}"]),
    ("verify", ["-c", "{good}", "--source", "{folder}", "--target", "{gone}"]),
    ("match", ["--drivers", "{gone}", "--riders", "{gone}", "--radius", "1", "--to", "{folder}"]),
    ("match", ["--drivers", "{folder}", "--riders", "{folder}", "--radius", HOSTILE, "--to", "{gone}"]),
    ("demo", ["--to", "{folder}"]),
    ("demo", [HOSTILE]),
    ("shards", ["keys", "add", HOSTILE, "--registry", "{gone}"]),
    ("shards", ["keys", "import", "{file}", "--registry", "{folder}/keys.sqlite"]),
    ("shards", ["plan", "--layout", "{file}", "--cap", HOSTILE]),
    ("shards", ["plan", "--layout", "{gone}", "--cap", "1"]),
    ("shards", ["apply", "{file}"]),
    ("assign", ["{gone}"]),
    ("assign", ["{file}"]),
    ("assign", ["--lanes", "3", "--members", f"A,{HOSTILE}"]),
    ("assign", ["--lanes", HOSTILE, "--members", "2"]),
    ("demo", ["fence", "--hours", HOSTILE]),
    ("migrate", ["plan", "{contract}", "{gone}"]),
    ("migrate", ["plan", "{good}", "{good}", "--from", HOSTILE]),
    *(("migrate", [verb, "{file}"]) for verb in ("run", "status", "verify", "rollback")),
    ("aggregate", ["--from", "{gone}", "--to", "{folder}/t", "--queries", "{gone}"]),
    ("aggregate", ["queries", "add", "{file}", "--queries", "{folder}/q.sqlite"]),
    ("aggregate", ["queries", "pause", HOSTILE, "--queries", "{gone}"]),
    ("doctor", ["--spark-jars", "{gone}"]),
    ("dev", ["kafka", "status", "--dir", "{gone}"]),
    ("dev", ["kafka", "down", "--dir", "{folder}"]),
    ("dev", ["jars", HOSTILE]),
    ("completion", [HOSTILE]),
    ("help", [HOSTILE]),
    (HOSTILE, []),
]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("names") / HOSTILE
    folder.mkdir()
    spec = "{streams: [t], lanes: 15, key: {fields: [k]}, partitioner: kafka-java}"
    head = "apiVersion: keylane/v1\nkind: RoutingContract\n"
    good, contract, file = folder / f"g{HOSTILE}.yaml", folder / f"c{HOSTILE}.yaml", folder / f"f{HOSTILE}.jsonl"
    good.write_text(f"{head}metadata: {{name: t}}\nspec: {spec}\n")
    contract.write_text(f"{head}metadata: {{name: {json.dumps(HOSTILE)}}}\nspec: {spec}\n{json.dumps(HOSTILE)}: 1\n")
    file.write_text("".join(json.dumps({"k": f"{HOSTILE}{n}", "lane": n % 15, HOSTILE: n}) + "\n" for n in range(99)))
    paths = {"good": good, "contract": contract, "file": file, "folder": folder, "gone": folder / f"n{HOSTILE}"}
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize(("command", "arguments"), CALLS, ids=[f"{n:02d}" for n in range(len(CALLS))])
def test_no_command_prints_what_a_terminal_obeys(
    run: Run, names: dict[str, str], command: str, arguments: list[str]
) -> None:
    filled = [argument.format(**names) if argument.startswith("{") else argument for argument in arguments]
    _, out, err = run(command, *filled)
    assert out + err != ""
    assert obeyed(out) == []
    assert obeyed(err) == []


def test_every_command_is_tried() -> None:
    assert {command for command, _ in CALLS} - {HOSTILE} == set(COMMANDS)


@pytest.mark.parametrize("output", OUTPUTS)
def test_results_hold_none_in_any_format(run: Run, output: str, names: dict[str, str]) -> None:
    code, out, err = run("identify", names["file"], "-k", "k", "-l", "lane", "-o", output)
    assert code in {0, 1}, err
    assert obeyed(out) == []
    if output == "json":
        json.loads(out)


# The one place


class Named(Document):
    """A document with a name."""

    name: str


def test_json_stays_the_same_document() -> None:
    found = render(Result(Named(name=HOSTILE + "\U000e0001Zoë\ud800")), "json")
    assert obeyed(found) == []
    assert json.loads(found) == {"name": HOSTILE + "\U000e0001Zoë\ud800"}
    assert "Zoë" in found


def test_tables_show_them_written_out() -> None:
    section = Section((HOSTILE,), [{HOSTILE: HOSTILE}], f"{HOSTILE}\n")
    text = render(Result(Named(name="x"), [section], [HOSTILE]), "table")
    assert obeyed(text) == []
    assert r"\x1b]0;pwned\x07" in text


def test_csv_is_data_in_a_pipe_and_written_out_on_a_terminal() -> None:
    result = Result(Named(name="x"), [Section(("k",), [{"k": HOSTILE}])])
    assert [row["k"] for row in csv.DictReader(io.StringIO(render(result, "csv"), newline=""))] == [HOSTILE]
    assert obeyed(render(result, "csv", terminal=True)) == []


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+cmd|'/c calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "＝1"]
)
def test_no_cell_of_csv_is_a_formula(text: str) -> None:
    result = Result(Named(name="x"), [Section(("k", "n"), [{"k": text, "n": -1}, {"k": [text, "b"], "n": 1}])])
    first, second = csv.DictReader(io.StringIO(render(result, "csv"), newline=""))
    assert first["k"] == f"'{text}"
    assert second["k"] == f"'{text}, b"
    assert first["n"] == "-1"
    assert json.loads(render(result, "jsonl").splitlines()[0])["k"] == text, "JSON runs in no spreadsheet"


@pytest.mark.parametrize("value", ["-5", "+5.25", "-1e-9", "-.5", "m-1", "a=b", "", "'q", -5, 0.5, None, True])
def test_numbers_and_other_text_stay_as_they_are_in_csv(value: Any) -> None:
    plain = Result(Named(name="x"), [Section(("k",), [{"k": value}])])
    expected = io.StringIO()
    csv.writer(expected).writerow([value])
    assert render(plain, "csv") == "k\n" + expected.getvalue().removesuffix("\r\n")


def test_errors_hold_none_also_for_programs_that_log_them() -> None:
    error = UsageError.of(f"{HOSTILE}\nerror: forged", got=HOSTILE, allowed=HOSTILE, hint=HOSTILE)
    assert obeyed(str(error), keep="") == []
    assert len(str(error).splitlines()) == 1


def test_progress_holds_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    RouteProgress("src").say(HOSTILE)
    StatusLine(0).show(HOSTILE)
    assert obeyed(capsys.readouterr().err) == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    line = StatusLine()
    line.show(HOSTILE)
    line.clear()
    assert capsys.readouterr().err == f"\r\x1b[K{visible(HOSTILE)}\r\x1b[K"


def test_the_output_of_java_holds_none(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, f"\tat {HOSTILE}\n".encode())
    os.close(writer)
    output = session._JavaOutput()
    output.release()
    output._read(reader, "stderr")
    assert obeyed(capsys.readouterr().err) == []


GUARDED = """
import sys, warnings
from keylane.cli import main
hostile = sys.argv.pop()
def fails():
    warnings.warn(hostile)
    print(hostile, file=sys.stderr)
    raise ZeroDivisionError(hostile)
main._run = fails
main.main()
"""


def test_what_others_print_holds_none() -> None:
    """Warnings, what a library prints, and the traceback of a bug; on a terminal."""
    ours, theirs = pty.openpty()
    plain = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen([sys.executable, "-c", GUARDED, HOSTILE], stderr=theirs, env=plain) as running:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:
            pass  # how a terminal ends on Linux
        running.wait(120)
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert text.count("pwned") >= 3
    assert obeyed(text) == []


def test_a_guarded_stream_passes_for_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = terminal.GuardedStream(sys.stderr)
    monkeypatch.setattr(sys, "stderr", guarded)
    terminal.overwrite("a\x1bb")
    terminal.say("c\x1bd")
    sys.stderr.writelines(["e\x1bf", "\n"])
    assert (guarded.isatty(), guarded.writable(), guarded.encoding) == (False, True, guarded.unguarded.encoding)
    assert capsys.readouterr().err == "\ra\\x1bbc\\x1bd\ne\\x1bf\n"


# Nothing goes past it


def prints(source: str) -> list[int]:
    """The lines of a source that print by themselves."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    own = {"print", "click.echo", "click.secho", "sys.stderr.write", "sys.stdout.write", "click.echo_via_pager"}
    return [call.lineno for call in calls if ast.unparse(call.func) in own]


#: The printer of rendered results, and of a script that is keylane's own.
PRINTERS = {"cli/terminal.py", "cli/main.py", "cli/completion.py"}


def test_nothing_is_printed_past_it() -> None:
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if prints(path.read_text("utf-8"))}
    assert found <= PRINTERS


def test_a_planted_print_is_reported() -> None:
    assert prints("import click\nclick.echo('x', err=True)\nprint(1)") == [2, 3]


def test_keylane_errors_of_many_lines_keep_their_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: Any) -> None:
        raise KeylaneError(f"first\nsecond {HOSTILE}")

    monkeypatch.setattr("keylane.cli.main.cli.main", fails)
    code, _, err = run("check")
    assert (code, err.splitlines()[0]) == (1, "error: first")
    assert obeyed(err) == []
