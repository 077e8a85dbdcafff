"""The document of `keylane identify`, made by `pipelines.identify` from what `measure.identify` counted; and of `init`.

`pipelines.init` makes the latter: the first contract, written from what was identified.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Document, LaneId, PartitionerName, PathText, Share, Text

_HAS_RULE: Any = {"properties": {"rule": {"not": {"type": "null"}}}}
_RULES: list[Any] = [
    {
        "if": {"properties": {"verdict": {"const": "unknown"}}},
        "then": {"properties": {"writers": {"maxItems": 0}, "notes": {"minItems": 1}}},
        "else": {"properties": {"writers": {"minItems": 1}}},
    },
    {
        "if": {"properties": {"verdict": {"const": "one-writer"}}},
        "then": {"properties": {"writers": {"maxItems": 1, "items": _HAS_RULE}}},
    },
    {
        "if": {"properties": {"verdict": {"const": "mixed"}}},
        "then": {"properties": {"writers": {"minItems": 2}}},
    },
]


class IdentifiedExample(Document):
    """A record that only this writer's rule explains."""

    key: str = Field(description="Cut, with a hash, unless --show-keys.")
    lane: LaneId
    expected: LaneId = Field(description="Where the first writer's rule puts this key.")
    row: AtLeastOne | None = Field(description="Counted from 1; null for topics.")
    offset: Count | None = Field(description="In its lane; null for files.")
    time: Text | None


class ClientChange(Document):
    """What makes one client that may be the writer place as the first writer does."""

    client: Text
    setting: Text | None = Field(description="Null where no setting of the client does it.")
    action: Text


class RuleParts(Document):
    """A placement rule by its parts."""

    hash: Text
    seed: Count | None = Field(description="Null: the usual seed of that hash.")
    fold: Text
    text: Text = Field(description="The same in words.")


class SameSoFar(Document):
    """Another rule that places all keys of a writer as it does."""

    name: Text = Field(description="The partitioner, otherwise the rule in words.")
    parts_at: AtLeastOne | None = Field(
        description="The next higher lane count at which the two part; null: none up to twice the count."
    )
    parts_now: bool = Field(description="Whether they place keys to come otherwise on this very count.")


class IdentifiedWriter(Document):
    """One writer, with the evidence for it."""

    partitioner: PartitionerName | None = Field(
        description="Null for a rule that no contract can name, and for records that no rule explains."
    )
    rule: RuleParts | None = Field(description="Null for records that no rule explains.")
    share: Share
    encoding: str | None
    also: list[PartitionerName] = Field(
        description="Partitioners that would have written the same.", json_schema_extra={"uniqueItems": True}
    )
    fitting_keys: Count
    chance: Share | None = Field(description="A bound on the chance that a wrong rule fits as well.")
    setting: str | None = Field(description="The client setting that places so.")
    clients: list[Text] = Field(description="Clients known to place by a rule that no contract can name.")
    not_told_from: list[SameSoFar] = Field(description="Other rules that place all of these keys alike.")
    lanes: AtLeastOne | None = Field(
        description="The lane count this writer placed by, where it is not the one of the answer."
    )
    only: Count | None = Field(description="Records that no other writer explains; null where there is one writer.")
    since: Text | None = Field(description="The time of the first of them; null where records have no times.")
    until: Text | None = Field(description="The time of the last of them.")
    since_row: AtLeastOne | None = Field(description="The first of them as a row, for data without times.")
    until_row: AtLeastOne | None
    to_the_end: bool | None = Field(description="Whether the last of them is near the end of what was read.")
    examples: Annotated[list[IdentifiedExample], Field(max_length=3)]
    fixes: list[ClientChange] = Field(description="For each client that may be this writer: how it comes to agree.")

    @property
    def name(self) -> str:
        """The partitioner, otherwise the rule in words."""
        return self.partitioner or (self.rule.text if self.rule else "unexplained")


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
    long_rows: Count = Field(0, description="Keys above 64 KiB, which are not compared.")
    distinct_keys: Count = Field(description="Of the sample, not of all rows.")
    unexplained_rows: Count = Field(description="Of a sample: reckoned for all rows.")
    notes: list[Text]
    written: PathText | None = Field(description="The contract that was written; null where none was.")


class InitDocument(Document):
    """The first contract of a stream: what is in it, where it is, and what comes next."""

    model_config = ConfigDict(title="keylane init -o json")

    schema_: Literal["keylane.init/1"] = "keylane.init/1"
    contract: PathText = Field(description="The file that was written.")
    stream: Text
    key: Text
    encoding: Text
    lanes: AtLeastOne
    partitioner: PartitionerName
    partitioner_from: Literal["identified", "given", "assumed"] = Field(
        description="What the data shows, what --partitioner says, or the default of Java's client."
    )
    identified: IdentifyDocument | None = Field(description="Null where the data has no lanes.")
    notes: list[Text] = Field(default=[], description="What else the data shows: cells that stand for null.")
    next: list[Text] = Field(description="Commands to go on with.")
