"""The made-up documents against those that `plan` makes: the same names, and figures that agree with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.report.documents import plan_document, profile_document, traffic

from keylane.contract.model import Key
from keylane.contract.parse import parse_contract
from keylane.measure.profile import Profile, Windows
from keylane.plan.document import document
from keylane.plan.make import Question, make_plan
from keylane.plan.sizing import Demand
from keylane.plan.written import Means
from keylane.report.plan import plan_page

TODAY = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [payments], lanes: 12, key: {fields: [merchant]}, partitioner: kafka-java}
"""
PARTS = ("schema", "constraints", "today", "chosen", "floor", "ceiling", "sizing", "change", "folds", "over_time")


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
    made: dict[str, Any] = document(plan, profile_document(windows=12, kind="position"))
    return made


def names_of(value: Any) -> Any:
    """The names in a document, to any depth; of a list, those of its first element."""
    if isinstance(value, dict):
        return {name: names_of(inner) for name, inner in value.items()}
    return [names_of(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None


def test_a_made_up_plan_has_the_names_of_a_real_one(real: dict[str, Any]) -> None:
    made = plan_document(counts=(12, 24))
    assert set(made) == set(real)
    for part in PARTS:
        assert names_of(made[part]) == names_of(real[part]), part
    assert set(made["candidates"][0]) == set(real["candidates"][0])


def test_a_real_plan_becomes_a_page(real: dict[str, Any]) -> None:
    text = plan_page(real)
    assert f"{real['chosen']['max_over_mean']:.2f}×" in text
    assert text.count('<tr data-lanes="') + text.count('<tr class="') >= len(real["candidates"]) - 1


def test_a_profile_has_the_names_that_were_agreed_on() -> None:
    made = profile_document()
    assert set(made) == {
        *("schema", "source", "key", "encoding", "records", "bytes", "distinct_keys", "without_key", "windows"),
        *("heavy", "key_ranks", "lookalikes", "hot", "lanes", "approximate", "how", "profile", "fingerprint"),
    }
    assert set(made["windows"]) == {"kind", "edges", "records", "distinct_keys", "new_keys"}
    assert set(made["heavy"][0]) == {"rank", "key", "records", "share", "error", "by_window", "bytes"}
    assert set(made["hot"]) == {"verdict", "alpha", "chance", "lanes"}
    assert set(made["hot"]["lanes"][0]) == {"lane", "share", "over_mean", "cause", "evidence", "chance"}


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
