"""The document of `keylane identify`. Made by `pipelines.identify` from what `measure.identify` counted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Document, PartitionerName, Share, Text

_RULES: list[Any] = [
    {
        "if": {"properties": {"verdict": {"const": "unknown"}}},
        "then": {"properties": {"writers": {"maxItems": 0}, "notes": {"minItems": 1}}},
        "else": {"properties": {"writers": {"minItems": 1}}},
    },
    {
        "if": {"properties": {"verdict": {"const": "one-writer"}}},
        "then": {
            "properties": {"writers": {"maxItems": 1, "items": {"properties": {"partitioner": {"type": "string"}}}}}
        },
    },
    {
        "if": {"properties": {"verdict": {"const": "mixed"}}},
        "then": {"properties": {"writers": {"minItems": 2}}},
    },
]


class IdentifiedWriter(Document):
    """One writer, with the evidence for it."""

    partitioner: PartitionerName | None = Field(description="Null for records that no known rule explains.")
    share: Share
    encoding: str | None
    also: list[PartitionerName] = Field(
        description="Partitioners that would have written the same.", json_schema_extra={"uniqueItems": True}
    )
    fitting_keys: Count
    chance: Share | None = Field(description="A bound on the chance that a wrong rule fits as well.")
    setting: str | None
    lanes: AtLeastOne | None = Field(
        description="The lane count this writer placed by, where it is not the one of the answer."
    )


class IdentifyDocument(Document):
    """Which client's partitioner wrote the data, and whether a second writer disagrees."""

    model_config = ConfigDict(title="keylane identify -o json", json_schema_extra={"allOf": _RULES})

    schema_: Literal["keylane.identify/1"] = "keylane.identify/1"
    verdict: Literal["one-writer", "mixed", "unknown"]
    writers: list[IdentifiedWriter] = Field(description="Largest share first; records that no rule explains come last.")
    lanes: Annotated[int, Field(ge=0, le=100_000, description="At least the highest lane seen, plus one.")]
    lanes_from: Literal["given", "proven", "seen"]
    rows: Count
    keyed_rows: Count
    null_rows: Count
    empty_rows: Count
    distinct_keys: Count = Field(description="Of the sample, not of all rows.")
    unexplained_rows: Count
    notes: list[Text]
