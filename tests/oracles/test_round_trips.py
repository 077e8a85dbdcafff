"""Out and in again is the same: `round_trips` with a fixed seed, with new seeds, and with planted faults."""

from __future__ import annotations

import json
import secrets
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracles.command_tour import prepared
from tests.oracles.round_trips import ANYWHERE, TRIPS, Trip

from keylane.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = (30, 31)
#: The least that each trip compares.
COMPARED = {"hash keys": 5, "plan and contract": 6, "formats": 10, "anywhere": len(ANYWHERE)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trips") / "files"
    folder.mkdir()
    prepared(folder)
    return folder


def travelled(name: str, seed: int, files: Path, folder: Path) -> tuple[Trip, list[str]]:
    shutil.copytree(files, folder)
    trip = Trip(folder, Random(f"{name}{seed}"))
    return trip, list(TRIPS[name](trip))


@pytest.mark.parametrize("name", TRIPS)
def test_out_and_in_again_is_the_same(name: str, files: Path, tmp_path: Path) -> None:
    for seed in SEEDS[: 1 if name == "anywhere" else None]:
        trip, found = travelled(name, seed, files, tmp_path / str(seed))
        print(name, *sorted(trip.reached), sep="\n    ")
        assert not found, f"seed {seed}\n" + "\n".join(found)
        assert len(trip.reached) >= COMPARED.get(name, 2)


@pytest.mark.faults
@pytest.mark.parametrize("name", [name for name in TRIPS if name != "anywhere"])
def test_new_seeds(name: str, files: Path, tmp_path: Path) -> None:
    for number in range(20):
        seed = secrets.randbits(32)
        _, found = travelled(name, seed, files, tmp_path / str(number))
        assert not found, f"seed {seed}\n" + "\n".join(found)


def as_written(text: str, *_: object) -> str:
    return text


def rounded(weight: int) -> float:
    return weight // 1000 or 1


def moved_by_one(path: str | None, text: str, **_: Any) -> None:
    if path is not None:
        rows = json.loads(text)
        rows["shards"] = [{**row, "end": str(int(row["end"]) - (n == 0))} for n, row in enumerate(rows["shards"])]
        output.write(path, json.dumps(rows))


def nothing_written(file: Any, text: str, check: Callable[[], object]) -> None:
    check()


def another_map(path: str | None, text: str, **_: Any) -> None:
    if path is not None:
        output.write(path, json.dumps(dict(reversed(json.loads(text).items())) | {"Z": []}))


#: Planted faults: what is patched, with what, and the trip that has to see it.
FAULTS: dict[str, tuple[str, Any, str]] = {
    "the guard stays on an account": ("keylane.cli.shards_keys.unguarded", as_written, "hash keys"),
    "the guard stays on an account of a contract": ("keylane.contract.shards.unguarded", as_written, "hash keys"),
    "no guard is put on": ("keylane.cli.output.guarded", as_written, "hash keys"),
    "weights are rounded": ("keylane.cli.shards_keys._weight", rounded, "hash keys"),
    "a boundary is moved by one": ("keylane.cli.shards_plan.write", moved_by_one, "layouts"),
    "apply writes nothing": ("keylane.systems.atomic.replace_text", nothing_written, "plan and contract"),
    "a link is taken for the file": ("keylane.systems.atomic.behind", lambda path: path, "plan and contract"),
    "the map is another": ("keylane.cli.assign.write", another_map, "assignments"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, patched, name = FAULTS[fault]
    monkeypatch.setattr(target, patched)
    try:
        _, found = travelled(name, SEEDS[0], files, tmp_path / "world")
    except AssertionError as error:
        found = [str(error)]
    assert found, fault
