"""The saved plan of `keylane plan --out`, and the document of `keylane apply`. Made by `plan.saved` and `cli.apply`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Digest, Document, PathText
from keylane.documents.plan import ByHand, PlanDocument


class BoundContract(Document):
    """The file that the contract is in, or will be; as it was when the plan was made."""

    path: PathText
    digest: Digest | None = Field(description="SHA-256 of the file; null where there was none.")
    fingerprint: Digest | None = Field(description="Of today's contract; null where there was none.")


class BoundSource(Document):
    """What was counted."""

    address: str
    id: str = Field(description="What the system knows the stream by, such as a topic's id; empty where it has none.")
    lanes: AtLeastOne | None = Field(description="The lanes it had; null where it has none of its own.")
    profile: PathText | None = Field(description="The folder of the profile, where that was kept.")
    profile_fingerprint: str


class Bound(Document):
    """What the plan was made from: where one of these has changed, it is not applied."""

    contract: BoundContract
    source: BoundSource


class PlannedContract(Document):
    """The contract to put in place, with the keys that it names."""

    fingerprint: Digest
    epoch: AtLeastOne
    text: str


class SavedPlan(Document):
    """What `keylane plan --out` saves and `keylane apply` carries out. It names keys as they are."""

    model_config = ConfigDict(title="keylane saved plan")

    schema_: Literal["keylane.saved-plan/1"] = "keylane.saved-plan/1"
    plan: PlanDocument
    bound: Bound
    contract: PlannedContract | None = Field(description="Null where today's contract stays.")
    fingerprint: Digest = Field(description="Over all of the above: a plan that was edited is not applied.")


class AppliedContract(Document):
    """The file of the contract, and what happens to it."""

    path: PathText
    action: Literal["write", "written", "in-place"]
    epoch: AtLeastOne
    fingerprint: Digest
    diff: str = Field(
        description="The file as a unified diff: before and after. Empty where it is in place; it names keys as the "
        "contract does."
    )


class AppliedStream(Document):
    """A stream of the contract: the lanes it has and needs, and what happens to it."""

    stream: str
    lanes: AtLeastOne | None = Field(description="As the contract says; null where that is `live`.")
    there: Count | None = Field(description="The lanes it has, 0 where it is missing; null where nobody was asked.")
    action: Literal["create", "created", "in-place", "by-hand", "not-checked"]


class ApplyDocument(Document):
    """What `keylane apply` would do, or has done."""

    model_config = ConfigDict(title="keylane apply")

    schema_: Literal["keylane.apply/1"] = "keylane.apply/1"
    plan: PathText
    applied: bool = Field(description="Whether it was carried out.")
    pending: bool = Field(description="Whether something is left for this command to do.")
    contract: AppliedContract | None
    streams: list[AppliedStream]
    by_hand: list[ByHand]
    notes: list[str]
