"""`demo migrate` without its broker: what is counted as a broken order, what it prints, and its page."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from tests.unit.report.growth_documents import SETTINGS, applied, grown
from tests.unit.report.html_reader import read

from keylane.cli.demo_migrate import as_result
from keylane.cli.output import render
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS
from keylane.pipelines.demo.migrate import broken_orders, moved_keys
from keylane.report.demo_migrate_page import demo_migrate_page


@pytest.mark.parametrize("held", [True, False])
def test_a_record_behind_a_newer_one_of_its_key_is_counted_once(held: bool) -> None:
    assert sum(broken_orders(applied(held=held))) == (0 if held else len(moved_keys(SETTINGS)))


def test_two_thirds_of_the_keys_move_and_one_gcd_decides_it() -> None:
    assert len(moved_keys(SETTINGS)) / len(SETTINGS.names) == pytest.approx(1 - 6 / 18, abs=0.1)


@pytest.mark.parametrize("broken", [False, True])
def test_an_order_that_is_broken_in_spite_of_the_gate_ends_with_1(broken: bool) -> None:
    result = as_result(grown(broken=broken))
    assert result.exit_code == (1 if broken else 0)
    document = json.loads(render(result, "json"))
    Draft202012Validator(json_schema(DOCUMENTS["demo-migrate"])).validate(document)
    assert [one["broken"] > 0 for one in document["trials"]] == [True, broken]


@pytest.mark.parametrize("broken", [False, True])
def test_the_page_marks_what_was_applied_late(broken: bool) -> None:
    page = demo_migrate_page(grown(broken=broken))
    ungated, gated = page.split('id="ungated"')[1].split('id="gated"')
    late = "a newer record was applied before it"
    assert late in ungated
    assert (late in gated) == broken
    assert [found["id"] for tag, found in read(page).elements if tag == "section"] == ["ungated", "gated"]
