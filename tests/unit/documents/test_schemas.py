"""The published JSON Schemas of documents: current, valid, closed, and of one mind with the models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import pytest
from jsonschema import Draft202012Validator
from pydantic import ConfigDict, Field, ValidationError

from keylane.documents import schemas
from keylane.documents.model import Count, Document, Number, Share, json_schema, missing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_the_published_file_is_current(name: str) -> None:
    """If this fails: `make schemas`."""
    published = (schemas.HERE / f"{name}.json").read_text(encoding="utf-8")
    assert published == schemas.text(schemas.DOCUMENTS[name])


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_a_changed_model_would_be_noticed(name: str) -> None:
    published = (schemas.HERE / f"{name}.json").read_text(encoding="utf-8")
    assert published != schemas.text(grown(schemas.DOCUMENTS[name]))


def grown(document: Any) -> Any:
    """The same with one field more, or with one kind more where it is one of several."""
    if isinstance(document, type):
        return type("Grown", (document,), {"__annotations__": {"another": int}, "__doc__": "Grown."})
    kinds, *about = get_args(document)
    return Annotated[kinds | Part, *about]


def test_every_published_file_is_of_a_document_or_of_the_contract() -> None:
    published = {file.stem for file in schemas.HERE.glob("*.json") if not file.name.startswith("contract-")}
    assert published == set(schemas.DOCUMENTS)


def test_writing_makes_just_the_published_files(tmp_path: Path) -> None:
    schemas.write(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        f"{name}.json": (schemas.HERE / f"{name}.json").read_bytes() for name in schemas.DOCUMENTS
    }


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_a_schema_has_a_title_and_a_description_and_is_valid(name: str) -> None:
    made = json_schema(schemas.DOCUMENTS[name])
    Draft202012Validator.check_schema(made)
    assert made["title"].startswith("keylane ")
    assert made["description"].endswith(".")


class Part(Document):
    """A part."""

    in_: Count


class Whole(Document):
    """All of it."""

    model_config = ConfigDict(title="keylane whole")

    schema_: Literal["keylane.whole/1"] = "keylane.whole/1"
    share: Share | None
    verdict: Literal["good", "bad"] | None
    part: Part | None = Field(description="Or none.")
    parts: dict[str, Part] = Field(default_factory=dict)
    extra: Annotated[Number, Field(gt=0)] | None = Field(None, exclude_if=missing)


GIVEN: dict[str, Any] = {
    "schema": "keylane.whole/1",
    "share": 0.5,
    "verdict": None,
    "part": {"in": 3},
    "parts": {"a": {"in": 0}},
    "extra": 7,
}


def test_a_document_is_printed_in_the_order_of_its_fields_as_it_was_given() -> None:
    made = Whole(share=1, verdict="good", part=Part(in_=3))
    assert json.dumps(made.as_json()) == (
        '{"schema": "keylane.whole/1", "share": 1, "verdict": "good", "part": {"in": 3}, "parts": {}}'
    )
    assert json.dumps(Whole.model_validate(GIVEN).as_json()) == json.dumps(GIVEN)


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in GIVEN.items() if field != name}


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        pytest.param(GIVEN, True, id="all of it"),
        pytest.param(without("extra"), True, id="without what may be missing"),
        pytest.param({**GIVEN, "part": None}, True, id="null for a part"),
        pytest.param({**GIVEN, "share": 1.5}, False, id="a share above one"),
        pytest.param({**GIVEN, "extra": 0}, False, id="a number at its bound"),
        pytest.param({**GIVEN, "share": "0.5"}, False, id="a number as text"),
        pytest.param({**GIVEN, "verdict": "maybe"}, False, id="an unknown value"),
        pytest.param({**GIVEN, "part": {"in": -1}}, False, id="a count below zero"),
        pytest.param({**GIVEN, "part": {"in": 1, "out": 1}}, False, id="an unknown field of a part"),
        pytest.param({**GIVEN, "other": 1}, False, id="an unknown field"),
        pytest.param({**GIVEN, "schema": "keylane.whole/2"}, False, id="another version"),
        pytest.param(without("share"), False, id="without a field that may be null"),
    ],
)
def test_the_schema_and_the_model_are_of_one_mind(document: dict[str, Any], valid: bool) -> None:
    assert Draft202012Validator(json_schema(Whole)).is_valid(document) is valid
    if valid:
        assert Whole.model_validate(document).as_json() == document
    else:
        with pytest.raises(ValidationError):
            Whole.model_validate(document)


def test_only_the_schema_asks_for_what_is_always_printed() -> None:
    """A model has a default for it; a field that may be left out is never printed as null."""
    validator = Draft202012Validator(json_schema(Whole))
    assert not validator.is_valid(without("schema"))
    assert not validator.is_valid({**GIVEN, "extra": None})
    assert Whole.model_validate(without("schema")) == Whole.model_validate(GIVEN)
