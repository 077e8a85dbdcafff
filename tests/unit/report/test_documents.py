"""The made-up documents against the schemas of the commands, and a plan that is not made up on the page."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator
from tests.unit.report.documents import plan_document, profile_document, traffic

from keylane.contract.model import Key
from keylane.contract.parse import parse_contract
from keylane.plan.contract_text import Means
from keylane.plan.document import document
from keylane.plan.planner import Question, make_plan
from keylane.plan.sizing import Demand
from keylane.profile.model import Profile, Windows
from keylane.report.plan_page import plan_page

TODAY = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [payments], lanes: 12, key: {fields: [merchant]}, partitioner: kafka-java}
"""


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """A plan of real strategies and contracts, from keys that were drawn."""
    seen = traffic(2_000, 60_000, 12, 2, 3)
    edges = np.concatenate([[0], np.cumsum(seen.by_window.sum(axis=0))])
    names = pa.table({"merchant": [f"m{i}" for i in range(len(seen.by_window))]})
    windows = Windows("position", tuple(map(int, edges)))
    profile = Profile("payments/", Key(fields=("merchant",)), windows, names, seen.by_window.astype(np.int32))
    means = Means("payments", ("payments",), today=parse_contract(TODAY))
    plan = make_plan(profile, Question((12, 24), means, demand=Demand(peak_mb_s=40)))
    made: dict[str, Any] = document(plan, profile_document(windows=12, kind="position"), show_keys=True)
    return made


def problems(document: dict[str, Any]) -> list[str]:
    """What the published schema has against a document."""
    name = document["schema"].partition(".")[2].partition("/")[0]
    schema = json.loads((files("keylane") / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize(
    "made",
    [
        profile_document(),
        profile_document(lanes=None, kind="position"),
        plan_document(),
        plan_document(today=None, kind="position"),
        plan_document(lanes=48, counts=(12, 48)),
    ],
    ids=["profile", "profile without lanes", "plan", "plan of a new stream", "plan with other lanes"],
)
def test_a_made_up_document_is_one_that_the_commands_could_print(made: dict[str, Any]) -> None:
    assert problems(made) == []
    assert problems({**made, "unheard": 1})


def test_a_real_plan_becomes_a_page(real: dict[str, Any]) -> None:
    text = plan_page(real)
    assert f"{real['chosen']['max_over_mean']:.2f}×" in text
    assert text.count('<tr data-lanes="') + text.count('<tr class="') >= len(real["candidates"]) - 1


def test_the_figures_of_a_profile_agree() -> None:
    made = profile_document()
    windows, count = made["windows"], len(made["windows"]["records"])
    assert len(windows["edges"]) == count + 1
    assert sum(windows["records"]) + sum(made["without_key"].values()) == made["records"]
    assert sum(windows["new_keys"]) == made["distinct_keys"] == made["key_ranks"][-1]["rank"]
    assert made["key_ranks"][-1]["cumulative"] == pytest.approx(1)
    assert all(sum(row["by_window"]) == row["records"] for row in made["heavy"])
    assert [sum(column) for column in zip(*made["lanes"]["by_window"], strict=True)] == windows["records"]


def test_the_figures_of_a_plan_agree() -> None:
    made = plan_document()
    for side in made["over_time"].values():
        assert len(side["cells"]) == side["lanes"] == len(side["totals"])
        assert [sum(row) for row in side["cells"]] == side["totals"]
    assert sum(made["over_time"]["before"]["totals"]) == sum(made["over_time"]["after"]["totals"])
    assert made["candidates"][0]["rank"] == 1
    assert made["candidates"][0]["strategy"] == made["chosen"]["strategy"]
