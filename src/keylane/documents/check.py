"""The documents of `keylane check`: of a file that is no contract, of one contract, and of several that are compared.

Made by `pipelines.check`. Which fields are there depends on what was checked, so each kind is a model of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from keylane.contract.answers import OrderScope
from keylane.documents.model import AtLeastOne, Count, Digest, Document, LaneId, PartitionerName, PathText, Share, Text
from keylane.records import Reason, Severity

_ERROR: dict[str, Any] = {"contains": {"properties": {"severity": {"const": "error"}}}}
_VERDICT_OF_FINDINGS: dict[str, Any] = {
    "if": {"properties": {"verdict": {"const": "broken"}}},
    "then": {"properties": {"ok": {"const": False}, "findings": _ERROR}},
    "else": {"properties": {"findings": {"not": _ERROR}}},
}


class FindingRow(Document):
    """One finding, and where."""

    severity: Severity
    where: PathText = Field(description="A path in the contract, such as spec.hot_keys[0], or what was looked at.")
    line: AtLeastOne | None = Field(description="The line of the file, where there is one.")
    message: PathText


class RuleAnswers(Document):
    """What one rule of the contract keeps."""

    rule: Text
    order_scope: OrderScope
    lanes_per_key: AtLeastOne | None
    readers_merge: bool


class CheckedLane(Document):
    """The rows of one lane."""

    lane: LaneId
    records: Count


class CheckedExpectation(Document):
    """One expectation of the contract, and which part of what the sample shows is chance."""

    name: Literal["max_over_mean", "max_key_share", "max_null_share", "min_distinct_keys"]
    got: float = Field(ge=0)
    allowed: float = Field(ge=0)
    judgement: Literal["kept", "broken", "cannot-tell"] = Field(
        description="Beyond the threshold and within chance: cannot-tell."
    )
    by_chance: float = Field(ge=0, description="Up to here a stream that keeps the expectation shows by chance.")
    usual: float | None = Field(description="What an even stream of as many keys shows half of the time.")
    chance: Share = Field(description="At most that of a stream that keeps the expectation to show this or worse.")


class MisplacedRow(Document):
    """A row that is not where the contract puts its key."""

    key: str | None = Field(description="Cut, with a hash, unless --show-keys; null for the null key.")
    lane: LaneId
    expected: LaneId
    shard: str | None = Field(None, description="The open shard that is its lane, of a stream; otherwise null.")
    expected_shard: str | None = Field(None, description="The shard that is `expected`, of a stream; otherwise null.")
    row: AtLeastOne = Field(description="Counted from 1, in the order of reading.")
    offset: Count | None = Field(None, description="In its lane; null for files.")


class HeaviestKey(Document):
    """The key with most rows."""

    key: str = Field(description="Cut, with a hash, unless --show-keys.")
    records: AtLeastOne


class CheckedRows(Document):
    """What was counted of the data."""

    rows: Count
    compared: Count | None = Field(
        None, description="Rows whose lane was held against the promised one; null where the data has no lanes."
    )
    misplaced: Count | None = Field(description="Null where the data has no lanes.")
    laneless: Count = Field(0, description="Rows whose lane is null, which cannot be compared.")
    examples: list[MisplacedRow] = Field(description="Up to three of the misplaced rows, each of another key.")
    heaviest: HeaviestKey | None = Field(description="Null where no row has a key.")
    unplaced: dict[Reason, AtLeastOne] = Field(description="Rows without a lane, by reason.")
    lanes: list[CheckedLane] = Field(min_length=1)
    level: Share = Field(description="The level of by_chance: a stream that keeps its contract is broken more seldom.")
    expectations: list[CheckedExpectation] = Field(description="Those that the contract has.")


class CheckedFindings(Document):
    """What is wrong with a file that is no contract."""

    model_config = ConfigDict(json_schema_extra=_VERDICT_OF_FINDINGS)

    schema_: Literal["keylane.check/1"] = "keylane.check/1"
    ok: bool = Field(description="Whether the verdict is ok.")
    verdict: Literal["ok", "not-shown", "broken"] = Field(
        description="broken: there is an error among the findings. not-shown: nothing is known to be wrong, but "
        "nothing was compared, or a rule could not be judged."
    )
    findings: list[FindingRow]


class CheckedContract(CheckedFindings):
    """One valid contract."""

    contract: Text = Field(description="The name of the contract.")
    fingerprint: Digest
    golden: Count = Field(description="Golden examples that were tried.")
    hot_key_rules: Count = Field(description="Rules for hot keys that were looked at.")
    answers: list[RuleAnswers] = Field(min_length=1)


class CheckedData(CheckedContract):
    """One valid contract, and data compared with it."""

    data: CheckedRows = Field(description="What was counted; only with --data.")


class ComparedContracts(CheckedFindings):
    """Several contracts: whether they are co-partitioned."""

    compared: list[str] = Field(min_length=2, description="The contracts or data sets.")


class KeyLanes(Document):
    """A key in one of the data sets."""

    key: str = Field(description="Cut, with a hash, unless --show-keys.")
    data: PathText
    lanes: list[LaneId] = Field(min_length=1, description="All that it was seen in.")


class ComparedData(ComparedContracts):
    """Several data sets: whether they are co-partitioned."""

    shared_keys: Count
    disagreeing_keys: Count
    at_most: Share | None = Field(
        description="At most this share of all keys differs, with 95% confidence; null where a key does."
    )
    examples: list[KeyLanes] = Field(
        description="Up to three keys that are in several lanes of one data set, and three that differ between them."
    )
    writers: dict[str, list[PartitionerName | None]] = Field(
        description="The partitioners found, by data set; null for records that no known rule explains."
    )


CheckDocument: TypeAlias = Annotated[
    CheckedFindings | CheckedContract | CheckedData | ComparedContracts | ComparedData,
    Field(
        title="keylane check -o json",
        description="Whether a stream keeps its contract, or several are co-partitioned.",
    ),
]
