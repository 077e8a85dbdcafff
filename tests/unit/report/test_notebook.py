"""What a notebook shows of a document: the answer, its chart or table, and nothing that is fetched or run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import Router, check, dry_run, explain, identify, init, partitioner, plan, profile
from keylane.documents.route import RecordCounts, RoutedLane, RouteDocument

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [tx], lanes: 4, key: {fields: [merchant]}, partitioner: kafka-java}
"""
KEYS = [f"<b>{number * number % 97}</b>" for number in range(500)]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("notebook") / "a.parquet"
    pq.write_table(pa.table({"merchant": KEYS, "lane": Router(TEXT).lanes_of_keys(KEYS)}), path)
    counts = RecordCounts.model_validate({"in": 3, "out": 3, "dead": 0, "filtered": 0})
    routed_lanes = [RoutedLane(stream="tx", lane=lane, records=records) for lane, records in enumerate((2, 1))]
    routed = RouteDocument.model_validate(
        {
            "contract": "payments",
            "fingerprint": "a" * 64,
            "source": "a",
            "target": "b",
            "in": 3,
            "out": 3,
            "dead": 0,
            "filtered": 0,
            "lanes": routed_lanes,
            "batches": 1,
            "stopped": False,
            "seconds": 1.0,
            "total": counts,
            "state": None,
            "dead_letters": "b/_dead",
            "repeated": 0,
        }
    )
    made = profile(path, "merchant", show_keys=True)
    return {
        "profile": made,
        "plan": plan(path, contract=TEXT, show_keys=True),
        "identify": identify(path, key="merchant", lane="lane"),
        "check": check(TEXT, data=path),
        "explain": explain("a", lanes=4),
        "explain by contract": explain("a", contract=TEXT),
        "explain unplaced": explain({}, contract=TEXT),
        "dry run": dry_run(TEXT, path, path.with_name("lanes")),
        "init": init(path, "merchant", out=path.with_name("first.yaml")),
        "route": routed,
        "part": made.windows,
    }


NAMES = (
    *("profile", "plan", "identify", "check", "explain", "explain by contract", "explain unplaced", "route", "part"),
    *("dry run", "init"),
)
DRAWN = {"profile", "plan", "check", "route", "dry run"}


def problems(shown: str) -> list[str]:
    """What asks for something outside, or runs."""
    outside = shown.replace('xmlns="http://www.w3.org/2000/svg"', "")
    return re.findall(r"<script|<link|<iframe|<img|https?:|@import|url\(|\bon[a-z]+=", outside)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_shown_and_needs_nothing_else(name: str, documents: dict[str, Any]) -> None:
    shown = documents[name]._repr_html_()
    assert problems(shown) == []
    assert ("<svg" in shown) == (name in DRAWN)
    assert "<b>" not in shown


def test_a_script_or_an_address_is_noticed() -> None:
    assert problems('<script src="https://x">') == ["<script", "https:"]
    assert problems('<p onclick="x()">') == ["onclick="]


def test_what_is_shown_is_the_answer(documents: dict[str, Any]) -> None:
    assert "one-writer" in documents["identify"]._repr_html_()
    assert documents["plan"].verdict.split("`")[0].strip() in documents["plan"]._repr_html_()
    assert documents["plan"].advice.headline in documents["plan"]._repr_html_()
    assert documents["plan"].basis.says in documents["plan"]._repr_html_()
    assert "&lt;b&gt;" in documents["profile"]._repr_html_()
    assert "3 records in, 3 out" in documents["route"]._repr_html_()
    assert "would create: " in documents["dry run"]._repr_html_()
    assert "kafka-java, identified" in documents["init"]._repr_html_()
    assert "missing-field" in documents["explain unplaced"]._repr_html_()


def test_a_plan_is_compared_by_what_compares_across_lane_counts(documents: dict[str, Any]) -> None:
    """As on the terminal: today's contract is a row, and max/mean, which rises with the lanes, is no column."""
    shown = documents["plan"]._repr_html_()
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", shown)
    assert heads == ["strategy", "lanes", "fullest lane", "work", "score", "against today", "moved", "order kept"]
    assert "over the mean" not in " ".join(heads)
    first_cells = re.findall(r"<tr><td[^>]*>([^<]*)</td>", shown)
    assert first_cells.count("today") == 1


def test_two_writers_come_first_with_examples_and_the_setting(tmp_path: Path) -> None:
    java, other = (partitioner(name) for name in ("kafka-java", "librdkafka-consistent-random"))
    keys = [f"k-{number}" for number in range(3_000)]

    def shown(every: int) -> tuple[str, str]:
        lanes = [(other if n % every == 0 else java).lane(key.encode(), 12) for n, key in enumerate(keys)]
        path = tmp_path / f"{every}.parquet"
        pq.write_table(pa.table({"k": keys, "lane": lanes}), path)
        return identify(path, key="k")._repr_html_(), profile(path, "k")._repr_html_()

    found, counted = shown(5)
    assert "partitioner=murmur2_random" in found
    assert "expected" in found
    assert counted.index("Mixed writers: ") < counted.index("3,000 records")
    found, counted = shown(10_000)  # the twin: one record of another client is no second writer
    assert ("murmur2_random</p>" in found, "Mixed writers: " in counted) == (False, False)
