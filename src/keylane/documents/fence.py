"""The document of `keylane demo fence`: what leases and sessions let through, with a fence and without."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastZero, Count, Document, Text

FenceName: TypeAlias = Literal["leases", "leases-early", "leases-fenced", "sessions", "sessions-fenced"]


class FenceRule(Document):
    """A rule that did not hold in a run."""

    rule: Text
    times: Annotated[int, Field(ge=1)]
    first_at: AtLeastZero = Field(description="Simulated seconds until it was first broken.")
    first_seen: Text


class FenceTrial(Document):
    """One run. The same seed gives the same run."""

    name: FenceName
    fenced: bool = Field(description="Whether the store refuses what carries an earlier epoch or generation.")
    events: Count
    faults: dict[str, Count] = Field(
        description="How often each fault began.", json_schema_extra={"propertyNames": {"minLength": 1}}
    )
    ownerships: Count = Field(description="Epochs of leases, or generations of the groups.")
    accepted: Count
    refused: Count = Field(description="Writes that the fence refused.")
    zombie_writes: Count = Field(description="Writes of a former owner, accepted after one of its successor.")
    wrong_positions: Count = Field(description="Accepted records that leave a gap in their lane or repeat a position.")
    longest_free: AtLeastZero = Field(
        description="The most seconds that a lane was without an owner since the last fault, where one could take it."
    )
    broken: list[FenceRule]


class FenceDocument(Document):
    """Simulated hours of owners that pause and crash, with and without a fence."""

    model_config = ConfigDict(title="keylane demo fence -o json")

    schema_: Literal["keylane.demo-fence/1"] = "keylane.demo-fence/1"
    version: str
    seed: Count
    hours: AtLeastZero
    lease: AtLeastZero = Field(description="Seconds that a lease or a session lives.")
    pause: AtLeastZero = Field(description="The longest fault, in seconds.")
    drift: AtLeastZero = Field(description="The most that a clock is off, as a share.")
    trials: list[FenceTrial] = Field(min_length=5, max_length=5)
