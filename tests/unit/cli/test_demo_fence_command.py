"""`keylane demo fence`: what it prints is what the simulations have seen, and a fence that leaks is an error."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from keylane.cli.demo_fence import as_result
from keylane.documents.fence import FenceDocument

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def document(run: Run) -> dict[str, Any]:
    code, out, err = run("demo", "fence", "--hours", "1.5", "-o", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    Draft202012Validator(
        json.loads(files("keylane").joinpath("schemas", "demo-fence.json").read_text("utf-8"))
    ).validate(found)
    return found


def test_leases_let_zombies_through_and_a_fence_does_not(document: dict[str, Any]) -> None:
    trials = {one["name"]: one for one in document["trials"]}
    for alone, fenced in (("leases", "leases-fenced"), ("sessions", "sessions-fenced")):
        assert trials[alone]["zombie_writes"] > 0
        assert trials[alone]["refused"] == 0
        assert (trials[fenced]["zombie_writes"], trials[fenced]["wrong_positions"], trials[fenced]["broken"]) == (
            0,
            0,
            [],
        )
        assert trials[fenced]["refused"] > 0
        assert trials[fenced]["longest_free"] < 2 * document["lease"]


def test_the_same_seed_gives_the_same_run(run: Run) -> None:
    first, again, other = (run("demo", "fence", "--hours", "0.1", "--seed", seed, "-o", "json")[1] for seed in "778")
    assert first == again != other


@pytest.mark.faults
def test_the_page_shows_what_the_command_prints(run: Run) -> None:
    page = (Path(__file__).parents[3] / "docs" / "groups.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("\n```")[0]
    assert run("demo", "fence")[1].startswith(shown)


def test_a_fence_that_leaks_ends_with_1(document: dict[str, Any]) -> None:
    assert as_result(FenceDocument.from_json(document)).exit_code == 0
    leak: dict[str, Any] = {
        "rule": "no zombie writes",
        "times": 1,
        "first_at": 3.0,
        "first_seen": "a wrote 0 in 1 after b in 2",
    }
    document["trials"][2]["broken"] = [leak]
    result = as_result(FenceDocument.from_json(document))
    assert result.exit_code == 1
    assert leak["first_seen"] in result.lines[-1]


@pytest.mark.parametrize("option", [("--hours", "0"), ("--lease", "0"), ("--drift", "50"), ("--pause", "-1")])
def test_values_out_of_range_are_refused(option: tuple[str, str], run: Run) -> None:
    code, out, err = run("demo", "fence", *option)
    assert (code, out) == (2, "")
    assert option[0] in err
