"""The document of `keylane verify`. Made by `cli.verify` from the verdict of `history`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import Count, Digest, Document
from keylane.documents.route import RecordCounts
from keylane.history.verdict import RULES, Mode, Rule

_NOTHING_WRONG: dict[str, Any] = {
    "properties": {
        **{rule: {"const": 0} for rule in RULES},
        "violations": {"maxItems": 0},
        "miscounted": {"maxItems": 0},
    }
}


class VerifyViolation(Document):
    """One broken rule, and where: in the lanes, or, for what is in no lane, in the source."""

    rule: Rule
    stream: str | None
    lane: int | None
    offset: int | None
    source: str | None
    position: int | None
    key: str | None = Field(description="As text, or as hex digits after 0x.")
    detail: str


class VerifiedLane(Document):
    """The offsets that were read of one lane."""

    stream: str
    lane: Count
    records: Count
    first: Count
    last: Count


class VerifyDocument(Document):
    """Whether every record of a source is once, in order and in its lane in a target."""

    model_config = ConfigDict(
        title="keylane verify -o json",
        json_schema_extra={
            "if": {"properties": {"ok": {"const": True}}},
            "then": _NOTHING_WRONG,
            "else": {"not": _NOTHING_WRONG},
        },
    )

    schema_: Literal["keylane.verify/1"] = "keylane.verify/1"
    ok: bool
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
    reordered: Count
    split_keys: Count
    misrouted: Count
    inconsistent_offsets: Count
    stale_epochs: Count
    two_owners: Count
    early_applies: Count
    violations: list[VerifyViolation] = Field(description="The first of each rule, by position.")
    miscounted: list[str] = Field(description="Where the target's own account does not hold.")
    not_taken: list[str] = Field(description="Source files that no manifest names; their records are among the lost.")
    checked: list[Rule]
    unchecked: dict[Rule, str] = Field(description="Why a rule was not checked, by rule.")
    claimed: RecordCounts | None = Field(description="What the manifests of the target add up to.")
    lanes: list[VerifiedLane] = Field(description="Offsets seen in each lane.")
    remarks: list[str]
