"""What a wrong command line is pointed to: the option that was meant, and how empty cells become null."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from keylane.cli.failures import SAME, meant
from keylane.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]


def options(command: click.Command) -> Iterator[str]:
    yield from (name for one in command.params for name in one.opts if name.startswith("--"))
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("geo table x --out y", "--write"),
        ("profile x --html y", "--report"),
        ("plan x --page y", "--report"),
        ("dev kafka load x --lanes 3", "--partitions"),
        ("doctor --bootstrap x", "--broker"),
        ("plan x --laness 3", "--lanes"),
        ("profile x --shwo-keys", "--show-keys"),
    ],
)
def test_the_option_that_was_meant(run: Run, words: str, hint: str) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert f"hint: did you mean '{hint}'?" in err


def test_a_number_of_lanes_is_not_taken_for_the_partitions_to_read(run: Run) -> None:
    code, _, err = run("profile", "x", "--lanes", "12")
    assert code == 2
    assert "--partitions" not in err
    assert "plan takes --lanes" in err


def test_twin_nothing_is_named_where_nothing_is_near(run: Run) -> None:
    code, _, err = run("explain", "a", "--html", "x")
    assert code == 2
    assert "did you mean" not in err
    assert meant("--html", ["--time"]) == ""


def test_every_group_has_an_option_that_some_command_has() -> None:
    context = click.Context(cli)
    known = {name for word in COMMANDS for name in options(cli.get_command(context, word) or cli)}
    assert [group for group in SAME if not known & set(group)] == []


@pytest.fixture
def export(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text("k,lane\na,1\n,2\nb,3\n,4\nc,5\n")
    return tmp_path / "e.csv"


@pytest.mark.parametrize(
    "words",
    [
        "profile {data} -k k",
        "plan {data} -k k -n 4",
        "check {contract} --data {data}",
        "route {contract} --from {data} --to {out} --dry-run",
    ],
)
def test_empty_keys_of_csv_are_pointed_to_null(
    run: Run, contract_file: ContractFile, export: Path, tmp_path: Path, words: str
) -> None:
    asked = words.format(data=export, contract=contract_file(), out=tmp_path / "out").split()
    _, _, err = run(*asked)
    assert "2 of 5 rows have an empty cell in k" in err
    assert "--csv-null ''" in err
    # The twins: where it is said already, and where the column is full.
    assert "--csv-null" not in run(*asked, "--csv-null", "")[2]
    export.write_text(export.read_text().replace("\n,", "\nd,"))
    assert "--csv-null" not in run(*asked)[2]


GONE = {
    "profile": "profile {} --key k",
    "plan": "plan {} --key k -n 4",
    "identify": "identify {} -k k -l lane",
    "check": "check {contract} --data {}",
    "check, compared": "check {} {} -k k",
    "geo table": "geo table {} -n 4",
    "init": "init {} -k k -n 4",
    "verify": "verify --source {} --target lanes",
}


@pytest.mark.parametrize("line", GONE.values(), ids=GONE)
def test_a_missing_file_is_named_alike_with_the_one_nearby(
    line: str, run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    (tmp_path / "payments.csv").write_text("k\na\n")
    words = line.format(*[tmp_path / "payment.csv"] * 2, contract=contract_file()).split()
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: no such file or folder: got '{tmp_path}/payment.csv'; allowed: ")
    assert err.rstrip().endswith("hint: did you mean 'payments.csv'?")


def test_a_missing_file_is_found_missing_before_anything_large_is_imported(tmp_path: Path) -> None:
    """Arrow, NumPy and pydantic take most of a second: a typo should not."""
    asked = [sys.executable, "-X", "importtime", "-m", "keylane", "profile", str(tmp_path / "no.csv"), "--key", "k"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "keylane.cli.options" in loaded
    assert not loaded & {"pyarrow", "numpy", "pydantic", "pyspark"}


def test_an_option_that_is_an_argument_here_is_said_to_be_one(run: Run) -> None:
    code, _, err = run("route", "--contract", "c.yaml")
    assert code == 2
    assert "it is an argument here: leave out --contract" in err
    assert "argument here" not in run("route", "--contrct", "c.yaml")[2]


def test_a_lane_count_beside_a_profile_points_to_lanes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k\n" + "".join(f"key-{n}\n" for n in range(50)))
    assert run("profile", tmp_path / "a.csv", "-k", "k", "--out", tmp_path / "a.profile")[0] == 0
    code, _, err = run("plan", tmp_path / "a.profile", "--lane", "12")
    assert (code, "did you mean --lanes 12?" in err) == (2, True)
    code, _, err = run("plan", tmp_path / "a.profile", "--lane", "partition", "--key", "k")
    assert (code, "leave out --key, --lane" in err) == (2, True)
