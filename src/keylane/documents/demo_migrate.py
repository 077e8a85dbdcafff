"""The document of `keylane demo migrate`. Made by `pipelines.demo.migrate`, drawn by `report.demo_migrate_page`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document, Share, Text


class GrowthPoint(Document):
    """A record of a key, applied."""

    at: AtLeastZero = Field(description="Seconds since the run began.")
    number: Count = Field(description="Which one of its key it is, as it was sent.")
    lane: Count
    broken: bool = Field(description="Whether a newer record of its key was applied before it.")


class GrowthKey(Document):
    """A key that the growth moves away from the slow lane, and its records as they were applied."""

    key: Text
    old_lane: Count
    new_lane: Count
    points: list[GrowthPoint]


class GrowthTrial(Document):
    """A topic that grew under load."""

    name: Literal["ungated", "gated"]
    records: Count
    applied: Count
    broken: Count = Field(description="Records that were applied after a newer one of their key.")
    broken_keys: Count = Field(description="Keys that have such a record.")
    seconds: AtLeastZero
    grown_at: AtLeastZero = Field(description="When the topic had its new lanes, in seconds since the run began.")
    slow_until: AtLeastZero = Field(description="When the reader went on with the slow lane.")
    pause_seconds: AtLeastZero | None = Field(description="The longest stop of a producer; null: none of them stops.")
    verdict: Literal["certified", "not proven", "broken"] | None = Field(
        description="Of migrate verify; null where there was no migration to verify."
    )
    violations: Count | None
    timeline: list[GrowthKey]


class DemoMigrateDocument(Document):
    """A topic that grows under load, without the gate and with it."""

    model_config = ConfigDict(title="keylane demo migrate -o json")

    schema_: Literal["keylane.demo-migrate/1"] = "keylane.demo-migrate/1"
    version: Text
    broker: Text
    own_broker: bool = Field(description="Whether it was started for this, and stopped.")
    old_lanes: AtLeastOne
    new_lanes: AtLeastOne
    producers: AtLeastOne
    keys: AtLeastOne
    moved_keys: Count
    moved_share: Share
    slow_lane: Count
    slow_seconds: AtLeastZero
    trials: list[GrowthTrial] = Field(min_length=2, max_length=2)
