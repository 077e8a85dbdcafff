"""The documents of `keylane migrate`: how a stream gets from one contract to another."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Digest, Document, LaneId, PathText, Share, Text


class MigrationSide(Document):
    """One of the two contracts, with the lanes that it has or was found to have."""

    file: PathText
    name: Text
    epoch: AtLeastOne
    fingerprint: Digest
    streams: list[Text] = Field(min_length=1)
    lanes: AtLeastOne = Field(description="The lane (partition) count; asked of the stream where the contract is live.")
    partitioner: Text
    address: Text | None = Field(description="The stream that was asked; null where the plan is from contracts alone.")


class MigrationStep(Document):
    """One step of a migration."""

    step: AtLeastOne
    who: Literal["producers", "readers", "operator"]
    action: Text
    why: Text = Field(description="Why it is needed, and why it stands where it does.")
    command: Text | None = Field(description="The command for it, where there is one.")


class MigrationChange(Document):
    """One consequence of the change for the contract's promises."""

    kind: Literal["safe", "moves-keys", "changes-order-scope", "breaks-co-partitioning", "impossible"]
    where: Text
    message: Text


class MigratePlanDocument(Document):
    """How a stream gets from one contract to another, and what waits for what."""

    model_config = ConfigDict(title="keylane migrate plan -o json")

    schema_: Literal["keylane.migrate-plan/1"] = "keylane.migrate-plan/1"
    mode: Literal["in-place", "mirror"]
    reason: Text = Field(description="Why this mode.")
    old: MigrationSide
    new: MigrationSide
    moved_share: Share | None = Field(
        description="The share of keys whose lane becomes another, of those that no rule of a contract names; null "
        "where the key does not decide the lane."
    )
    named_keys: Count = Field(description="Keys that a rule of either contract names.")
    named_keys_moved: Count = Field(description="Those of them whose lanes become others.")
    drain_rule: Literal["same", "gcd", "ranges", "every-lane", "none"] = Field(
        description="How the lanes of hashed keys correspond: gcd for hash modulo the lane count, ranges where they "
        "overlap, every-lane for another hash or key, none where no hashed key has a lane on both sides."
    )
    parents_at_most: Count = Field(description="The most old lanes that a new lane waits for.")
    drain: dict[str, list[LaneId | str]] = Field(
        description="For every new lane the old lanes that it waits for; lanes of tiers are named stream/lane. Empty "
        "where they are more than a million: drain_rule says which then."
    )
    steps: list[MigrationStep] = Field(description="Empty where there is nothing to do.")
    breaks: list[Text] = Field(description="What does not survive the change by itself.")
    changes: list[MigrationChange]
    epoch_to_raise: AtLeastOne | None = Field(
        description="The epoch that the new contract has to carry; null: it does."
    )
