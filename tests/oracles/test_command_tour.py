"""Every command, from its own declaration: `command_tour` with a fixed seed, with new seeds, and with planted faults.

What is reached is printed by command and fault, and an empty bin fails. A complaint is the command line that shows it.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracles.command_tour import Tour, commands, options_of
from tests.worlds.command_lines import ELSEWHERE, MODES, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable

    import click

SEED, SHARE = 30, 0.1
KINDS = ("forms", "right", "wrong", "odd", "idle")


def told(tour: Tour) -> str:
    """What was reached, by command and kind."""
    found: dict[str, dict[str, list[int]]] = {}
    for (mode, kind), count in tour.reached.items():
        found.setdefault(mode.split()[0], {}).setdefault(kind, []).append(count)
    rows = [
        (verb, ", ".join(f"{kind} {sum(counts)}" for kind, counts in kinds.items())) for verb, kinds in found.items()
    ]
    return "\n".join(f"{verb:10} {text}" for verb, text in rows)


def test_every_command_has_a_mode() -> None:
    tried = {mode.command for mode in (*MODES, *REFUSED)}
    assert commands().keys() - tried - ELSEWHERE == set()
    assert tried - commands().keys() == set()


def test_every_option_is_known_to_its_modes() -> None:
    """A mode that takes what the command does not declare, or skips it, holds nothing."""
    for mode in (*MODES, *REFUSED):
        known = options_of(commands()[mode.command]).keys()
        assert {*mode.given, *mode.takes} - known == set(), mode.key


def test_a_tour_of_the_command_line(tmp_path: Path) -> None:
    tour = Tour(tmp_path / "world")
    tour.tour(SEED, SHARE)
    print(told(tour))
    assert not tour.complaints, f"seed {SEED}\n" + "\n".join(tour.complaints)
    kinds = {kind for _, kind in tour.reached}
    assert not set(KINDS) - kinds
    assert {mode.key for mode in MODES} - {mode for mode, _ in tour.reached} <= {"completion", "help"}


@pytest.mark.faults
def test_a_tour_with_all_values_and_a_new_seed(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    tour = Tour(tmp_path / "world")
    tour.tour(seed, 1.0)
    print(told(tour))
    assert not tour.complaints, f"seed {seed}\n" + "\n".join(tour.complaints)


def nothing(*_: object, **__: object) -> None: ...


def no_hint(error: click.ClickException) -> str:
    return "something is wrong"


def rows_left_out(section: Any) -> str:
    return ",".join(section.columns)


#: Planted faults: what is patched, with what, and the mode and part of the tour that has to see it.
FAULTS: dict[str, tuple[str, Any, str, str]] = {
    "options without effect are dropped": ("keylane.cli.check.check_applies", nothing, "check a contract", "idle"),
    "an empty text is no option": ("keylane.cli.options._check_value", nothing, "identify Parquet", "values"),
    "messages name nothing": ("keylane.cli.failures.usage", no_hint, "identify Parquet", "values"),
    "CSV without its rows": ("keylane.cli.output._csv", rows_left_out, "shards keys list", "forms"),
    "a file is replaced unasked": ("keylane.cli.geo.check_free", nothing, "geo table", "values"),
    "a page is written before a refusal": (
        "keylane.cli.shards_plan.check_applies",
        lambda *_: Path("page.html").touch(),
        "shards plan --to",
        "files",
    ),
    "a nested file ends in a traceback": (
        "keylane.cli.aggregate_queries._read",
        lambda file: __import__("json").loads(file.read_text(errors="replace")),
        "aggregate queries add",
        "files",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, fault, key, part = FAULTS[name]
    tour = Tour(tmp_path / "world")
    mode = next(mode for mode in MODES if mode.key == key)
    run = parts(tour, mode)[part]
    run()
    assert not tour.complaints, "without the fault"
    monkeypatch.setattr(target, fault)
    run()
    assert tour.complaints, name


def parts(tour: Tour, mode: Any) -> dict[str, Callable[[], None]]:
    from random import Random

    return {
        "idle": lambda: tour.idle(mode),
        "forms": lambda: tour.forms(mode),
        "values": lambda: tour.values(mode, Random(SEED), 1.0),
        "files": lambda: tour.files(mode, Random(SEED), 1.0),
    }
