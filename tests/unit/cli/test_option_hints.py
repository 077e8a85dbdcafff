"""What a wrong command line is pointed to: the option that was meant, and how empty cells become null."""

from __future__ import annotations

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
        ("init x --write y", "--out"),
        ("doctor --bootstrap x", "--broker"),
        ("plan x --laness 3", "--lanes"),
        ("profile x --shwo-keys", "--show-keys"),
    ],
)
def test_the_option_that_was_meant(run: Run, words: str, hint: str) -> None:
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert f"hint: did you mean '{hint}'?" in err


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
