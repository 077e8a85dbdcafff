"""The document of `keylane assign`: who reads which lane, before and after a change, and what the change costs."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document, PathText, Text, missing

AssignorName: TypeAlias = Literal[
    "range", "round-robin", "sticky", "cooperative-sticky", "uniform", "static", "by-load"
]
#: A lane: its topic and its index.
LanePair: TypeAlias = Annotated[tuple[Text, Count], Field(strict=False)]


class MemberRow(Document):
    """A member of the group, as it is after the change."""

    member: Text
    lanes: Count
    gained: Count = Field(description="Lanes that it did not have before.")
    lost: Count = Field(description="Lanes that it had before and no longer has.")
    load: AtLeastZero | None = Field(description="What its lanes carry; null where no loads are known.")
    lag: Count | None = Field(description="Records behind, of its lanes; null unless the group was read from brokers.")
    rack: Text | None
    instance: Text | None = Field(description="The name of a static member (group.instance.id).")


class LaneMove(Document):
    """A lane that changes its owner."""

    topic: Text
    lane: Count
    from_: Text | None = Field(description="Null where it had no owner.")
    to: Text | None = Field(description="Null where it waits for one.")


class AssignorCost(Document):
    """What a change costs under one assignor, all of its steps together."""

    assignor: AssignorName
    protocol: Literal["eager", "cooperative", "static"] = Field(
        description="eager: all members stop at every change. cooperative: only lanes that move wait."
    )
    moved: Count = Field(description="Lanes that have another owner in the end.")
    moves: Count = Field(description="Changes of owner on the way, over all steps.")
    idle: Count = Field(description="Members without a lane.")
    unowned: Count = Field(description="Lanes that nobody reads in the end.")
    fewest: Count = Field(description="Lanes of the member with the fewest.")
    most: Count
    max_over_mean: AtLeastZero | None = Field(description="Load of the fullest member over the mean.")
    rounds: Count = Field(description="Rounds that members agree in.")
    stopped: Count = Field(description="Members that stop reading a lane at some time.")
    lanes_paused: Count
    longest_pause: AtLeastZero = Field(description="Seconds; of the lane that waits longest, all steps together.")
    lane_seconds: AtLeastZero = Field(description="Seconds that all lanes together wait.")


class AssignDocument(Document):
    """Who reads which lane. `--previous` takes this document again."""

    model_config = ConfigDict(title="keylane assign -o json")

    schema_: Literal["keylane.assign/1"] = "keylane.assign/1"
    source: PathText | None = Field(description="The file or the brokers that the group was read from.")
    group: Text | None = Field(description="The name of the group, where it was read from brokers.")
    assignor: AssignorName
    assignment: dict[Text, list[LanePair]] = Field(description="The lanes of each member, after the change.")
    moved: Count = Field(description="Lanes that had another owner before.")
    idle: list[Text] = Field(description="Members without a lane.")
    unowned: list[LanePair] = Field(description="Lanes that nobody reads: no member subscribes, or its member is away.")
    topics: dict[Text, AtLeastOne] = Field(description="Lanes of each topic.")
    ceiling: Count = Field(description="The most members that can have a lane under this assignor.")
    members: list[MemberRow]
    before: dict[Text, list[LanePair]] | None = Field(description="The assignment before; null where there was none.")
    steps: list[Text] = Field(description="What changes, in order.")
    moves: list[LaneMove] = Field(description="The lanes that have another owner, or none.")
    first_round: dict[Text, list[LanePair]] | None = Field(
        None,
        exclude_if=missing,
        description="cooperative-sticky only: what members keep while lanes that move are given up.",
    )
    cost: AssignorCost
    compared: list[AssignorCost] = Field(
        description="The same change under every assignor; empty where one was chosen."
    )
    load_from: Literal["file", "lag", "none"]
    notes: list[Text]
