"""The document of `keylane profile`. Made by `profile.document`, drawn by `report.plan_page`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from keylane.contract.names import Encoding
from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Digest, Document, Number, PathText, Share

#: A time in UTC, or a position.
Edge: TypeAlias = str | int


class NoKey(Document):
    """Records that no key decides."""

    null: Count
    empty: Count
    malformed: Count


class ProfileWindows(Document):
    """Where the windows lie, and what is in each."""

    kind: Literal["time", "position"]
    edges: list[Edge] = Field(min_length=2, description="One more than windows: times in UTC, or positions.")
    records: list[Count]
    distinct_keys: list[Count]
    new_keys: list[Count] = Field(description="Keys that no window before had.")


class HeavyKey(Document):
    """One of the heaviest keys."""

    rank: AtLeastOne
    key: str = Field(description="Cut, with a salted hash, unless --show-keys.")
    records: Count
    share: Share
    error: Count = Field(description="How many records may be too many.")
    by_window: list[Count]
    bytes: Count | None


class KeyRank(Document):
    """The key of one rank."""

    rank: AtLeastOne
    share: Share
    cumulative: AtLeastZero


class KeysAlike(Document):
    """A group of keys that look the same."""

    kind: Literal["case", "spaces", "unicode", "registry-id", "several"]
    keys: list[str] = Field(min_length=2)
    records: list[Count] = Field(min_length=2)


class LookalikeKeys(Document):
    """Keys that look the same and are not."""

    groups: Count
    records: Count = Field(description="Of the odd ones: the heaviest key of each group is left out.")
    examples: list[KeysAlike] = Field(max_length=10)


class HotLaneEvidence(Document):
    """One lane above the mean, and why; an alarm where a fair hash would not fill it so."""

    lane: Count
    share: Share
    over_mean: AtLeastZero
    cause: str
    evidence: str
    chance: Number | None
    alarm: bool = Field(description="Whether it is hot: a fair hash would not do this, or a second writer does.")


class Hot(Document):
    """Why lanes are hot."""

    verdict: str
    mixed: str = Field("", description="What is known of several writers; empty where there is one.")
    as_seen: bool = Field(
        False,
        description="Whether lanes are those that records were found in, which the contract gives others.",
    )
    cause: Literal["fair", "wide-range", "one-key", "few-keys", "unlucky-hash", "mixed-writer"]
    alarm: bool = Field(description="Whether a fair hash would fill lanes so in less than alpha of looks.")
    alpha: Number
    chance: Number | None
    lanes: list[HotLaneEvidence]
    basis: str | None = Field(None, description="The records that the shares and means of lanes are of.")


class LanesSeen(Document):
    """Records by the lane they were found in."""

    count: AtLeastOne
    by_window: list[list[Count]]
    misplaced: Count | None
    read: list[Count] | None = Field(None, description="The lanes that were read; null: all of them.")
    shards: list[str] | None = Field(None, description="The ids of a stream's shards, in the order of the lanes.")


class SeenWriter(Document):
    """One of the writers of a stream."""

    partitioner: str | None = Field(
        description="Null where no partitioner has that rule, or none explains the records."
    )
    rule: str | None = Field(None, description="A rule without a name, by its parts.")
    share: Share = Field(description="Of the records.")
    lanes: Count | None = Field(description="The lane count it placed by, where that is not the stream's.")


class SeenWriters(Document):
    """Who wrote the records, by their keys and lanes; only without a contract."""

    verdict: Literal["one-writer", "mixed", "unknown"]
    found: list[SeenWriter]
    records: Count = Field(description="Size of the sample that this was found in.")


class Approximate(Document):
    """What sketches leave open."""

    most_over: Count
    distinct_keys: Count
    distinct_error: Share
    untracked: Count = Field(description="Records of keys that the sketches did not keep.")
    most_under: Count


class ProfileDocument(Document):
    """Records of the keys of a stream, by window."""

    model_config = ConfigDict(title="keylane profile -o json")

    schema_: Literal["keylane.profile/1"] = "keylane.profile/1"
    source: PathText
    key: list[str] = Field(min_length=1, description="The fields of the key, in order.")
    encoding: list[Encoding] = Field(min_length=1)
    records: AtLeastOne = Field(description="All of them, those without a key too.")
    bytes: Count | None = Field(description="Of the records where their size is known, otherwise of the files.")
    bytes_of: Literal["records", "disk"] | None = Field(
        description="Files may be compressed: their size is not traffic."
    )
    distinct_keys: AtLeastOne
    without_key: NoKey
    windows: ProfileWindows
    heavy: list[HeavyKey] = Field(min_length=1, max_length=20, description="The heaviest keys, heaviest first.")
    key_ranks: list[KeyRank] = Field(min_length=1, description="Shares of keys by rank, evenly on a logarithmic scale.")
    lookalikes: LookalikeKeys
    hot: Hot | None
    lanes: LanesSeen | None
    writers: SeenWriters | None
    approximate: Approximate | None
    how: dict[Annotated[str, StringConstraints(pattern="^[a-z_]+$")], str] = Field(
        description="How each figure was obtained, in a sentence."
    )
    profile: str | None = Field(description="The folder that keeps the profile; null: none does.")
    fingerprint: Digest
