"""What a document takes: paths that are no text, reasons that a location has; and what it refuses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from keylane.documents.check import CheckedRows, FindingRow
from keylane.documents.identify import IdentifiedWriter
from keylane.documents.lesson import LessonCheck
from keylane.records import Reason

ODD = b"odd-\xff.yaml".decode("utf-8", "surrogateescape")


def test_a_path_that_is_no_text_is_printed_as_it_was_given() -> None:
    row = FindingRow(severity="error", where=ODD, line=None, message=f"no such file: {ODD}")
    assert row.as_json()["where"] == ODD


def test_a_name_that_can_be_no_path_has_its_form() -> None:
    shared: dict[str, object] = {
        "share": 1.0,
        "encoding": None,
        "also": [],
        "fitting_keys": 1,
        "chance": None,
        "setting": None,
        **dict.fromkeys(("only", "since", "until", "since_row", "until_row", "to_the_end")),
        "examples": [],
        "fixes": [],
        "rule": None,
        "clients": [],
        "not_told_from": [],
    }
    assert IdentifiedWriter.model_validate({"partitioner": "kafka-java", **shared, "lanes": None}).lanes is None
    with pytest.raises(ValidationError):
        IdentifiedWriter.model_validate({"partitioner": "Kafka Java", **shared, "lanes": None})


def test_rows_without_a_lane_have_a_reason_of_the_closed_list() -> None:
    rows = {
        "rows": 1,
        "misplaced": None,
        "lanes": [{"lane": 0, "records": 0}],
        "level": 0.001,
        "expectations": [],
        "examples": [],
        "heaviest": None,
    }
    document = CheckedRows.model_validate({**rows, "unplaced": {Reason.PLACE_ZERO: 1}})
    assert document.as_json()["unplaced"] == {"place-zero": 1}
    with pytest.raises(ValidationError):
        CheckedRows.model_validate({**rows, "unplaced": {"luck": 1}})


def test_a_figure_is_kept_whole_and_printed_short() -> None:
    check = LessonCheck(measure="cv", asked="< 5%", got=1 / 3, kept=False)
    assert (check.got, check.as_json()["got"]) == (1 / 3, 0.33333)
    assert LessonCheck(measure="peak_lag", asked="< 500", got=3, kept=True).as_json()["got"] == 3
