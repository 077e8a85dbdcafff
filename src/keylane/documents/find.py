"""The document of `keylane find`: where records of a key are in a topic, and what was read to say so.

Made by `pipelines.find`. No other key is in it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Document, LaneId, PathText, Text


class FoundRecord(Document):
    """A record of the key."""

    lane: LaneId
    offset: Count
    time: Text | None = Field(description="The record's own, in UTC; null where it has none.")


class FoundLane(Document):
    """A lane that was read, and why it was."""

    lane: LaneId
    by: list[Text] = Field(description="Who would put the key there: the contract, or partitioners.")
    first: Count = Field(description="The first offset that was read.")
    end: Count = Field(description="Behind the last.")
    compared: Count = Field(description="Records whose key was compared.")
    found: Count
    whole: bool = Field(description="Whether all that the topic has of this lane was read.")


class FindDocument(Document):
    """Records of a key, the newest first, and how much was read to find them."""

    model_config = ConfigDict(title="keylane find -o json")

    schema_: Literal["keylane.find/1"] = "keylane.find/1"
    source: PathText
    key: str = Field(description="As it was given.")
    lanes_by: Literal["contract", "partitioners", "clients", "all"] = Field(
        description="What says which lanes were read: a contract, named partitioners, every Kafka client of "
        "explain, or nothing: all of them."
    )
    found: Count = Field(description="Records of the key among those that were compared.")
    compared: Count
    whole: bool = Field(
        description="Whether all that the topic has of these lanes was read. Without it, not found is not: not there."
    )
    everywhere: bool = Field(description="Whether, beyond that, these lanes are all that the topic has.")
    lanes_there: AtLeastOne = Field(description="Lanes of the topic.")
    lanes: list[FoundLane]
    records: list[FoundRecord] = Field(description="The newest of those found, as many as were asked for.")
    elsewhere: list[Text] = Field(
        description="Lanes of other streams that the key may be in, as stream/lane: a tier's."
    )
    notes: list[Text]
