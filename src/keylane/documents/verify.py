"""The document of `keylane verify`. Made by `pipelines.certificate` from the verdict of `history`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import Count, Digest, Document
from keylane.documents.route import RecordCounts
from keylane.history.verdict import RULES, Mode, Rule

#: Rules of histories that have owners and consumers, which streams do not record.
_NOT_OF_STREAMS = ("two_owners", "early_applies")
_NOTHING_WRONG: dict[str, Any] = {
    "properties": {
        **{rule: {"const": 0} for rule in RULES if rule not in _NOT_OF_STREAMS},
        "violations": {"maxItems": 0},
        "miscounted": {"maxItems": 0},
        "verdict": {"enum": ["certified", "not proven"]},
    }
}
_ALL_CHECKED: dict[str, Any] = {
    "properties": {"unproven": {"maxItems": 0}, "verdict": {"const": "certified"}, "violations": {"maxItems": 0}}
}


class VerifyViolation(Document):
    """One broken rule, and where: in the lanes, or, for what is in no lane, in the source."""

    rule: Rule
    stream: str | None
    lane: int | None
    shard: str | None = Field(None, description="The shard that the record is in, of a stream; otherwise null.")
    offset: int | None = Field(description="In its lane; of a stream the position in its shard.")
    source: str | None
    position: int | None
    key: str | None = Field(description="As text, or as hex digits after 0x.")
    detail: str


class UnprovenRule(Document):
    """A rule that was not checked on all records."""

    rule: Rule
    records: Count | None = Field(description="How many records it was not checked on; null where that is not known.")
    why: str
    hint: str | None = Field(description="What to do about it.")


class ValueCost(Document):
    """What comparing contents took: seconds of the processor for digests, reading apart, and for all of it."""

    digests: float
    all: float


class VerifiedLane(Document):
    """The offsets that were read of one lane; of a stream the positions in its first and last shard."""

    stream: str
    lane: Count
    records: Count
    first: int
    last: int
    first_shard: str | None = Field(None, description="The shard that `first` is a position in; otherwise null.")
    last_shard: str | None = Field(None, description="The shard that `last` is a position in; otherwise null.")


class VerifyDocument(Document):
    """Whether every record of a source is once, in order and in its lane in a target."""

    model_config = ConfigDict(
        title="keylane verify -o json",
        json_schema_extra={
            "if": {"properties": {"ok": {"const": True}}},
            "then": {"allOf": [_NOTHING_WRONG, _ALL_CHECKED]},
            "else": {"not": {"allOf": [_NOTHING_WRONG, _ALL_CHECKED]}},
        },
    )

    schema_: Literal["keylane.verify/2"] = "keylane.verify/2"
    ok: bool = Field(description="Whether it is certified.")
    verdict: Literal["certified", "not proven", "broken"] = Field(
        description="Certified: every rule that is called for was checked on all records, and none is broken."
    )
    mode: Mode
    engine: Literal["local", "spark"] = Field(description="Where it was judged; the verdict is the same.")
    source: str
    target: str
    contract: str | None = Field(description="The contract given, or the one that the target names.")
    fingerprint: Digest | None
    epoch: int | None
    sent: Count = Field(description="Records of the source.")
    unvouched: Count = Field(description="Records of the target whose source is gone.")
    records: Count = Field(description="Records in the lanes of the target.")
    dead: Count = Field(description="Dead letters.")
    repeats: Count = Field(description="Repeats that at-least-once allows, or that are among the duplicated.")
    lost: Count
    invented: Count
    duplicated: Count
    changed: Count
    reordered: Count
    split_keys: Count
    misrouted: Count
    inconsistent_offsets: Count
    offset_gaps: Count
    unsorted: Count
    stale_epochs: Count
    violations: list[VerifyViolation] = Field(description="The first of each rule, by position.")
    miscounted: list[str] = Field(description="Where the target's own account does not hold.")
    not_taken: list[str] = Field(description="Source files that no manifest names; their records are among the lost.")
    checked: list[Rule] = Field(description="Rules that are called for and were checked on all records.")
    unproven: list[UnprovenRule] = Field(description="Rules that are called for and were not checked on all records.")
    compared: Count = Field(description="Records and dead letters whose contents were compared with the source.")
    cost: ValueCost | None = Field(description="Null where contents were not compared, or not in this process.")
    claimed: RecordCounts | None = Field(description="What the manifests of the target add up to.")
    lanes: list[VerifiedLane] = Field(description="Offsets seen in each lane.")
    remarks: list[str]
