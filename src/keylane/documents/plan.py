"""The document of `keylane plan`. Made by `plan.document`, drawn by `report.plan_page`, in words by `plan.text`."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from keylane.contract.answers import OrderScope
from keylane.contract.evolve import ChangeKind
from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document, Number, Share
from keylane.documents.profile import Edge, ProfileDocument

Resolution: TypeAlias = Annotated[int, Field(ge=0, le=9)]
StrategyName: TypeAlias = Literal[
    "today",
    "hash",
    "hash-murmur2",
    "hash-crc32",
    "hash-fnv1a",
    "window",
    "pin",
    "table",
    "spread",
    "spread-by-position",
    "tier",
    "tier-spread",
    "concentrate",
    "keyless",
    "geo-hash",
    "geo-table",
    "geo-curve",
    "geo-regions",
]


#: How a candidate compares with today's contract: `identical` where no key changes lane.
AgainstToday: TypeAlias = Literal["identical", "better", "same", "worse"]
#: The same in words: of the terminal and of pages.
AGAINST_TODAY: Final[dict[str, str]] = {
    "identical": "the same as today",
    "better": "better",
    "same": "within the noise",
    "worse": "worse than today",
}


class PlanConstraints(Document):
    """What was asked for."""

    keep_order: OrderScope
    max_over_mean: Number | None
    lanes: list[AtLeastOne]


class StrategyRow(Document):
    """One strategy at one lane count, in figures."""

    strategy: StrategyName
    title: str
    partitioner: str
    lanes: int
    tier_lanes: int
    resolution: Resolution | None = Field(
        None, description="For locations: a cell in no leaf has the lane of its ancestor at this resolution."
    )
    order_scope: OrderScope
    lanes_per_key: int | None
    readers_merge: bool
    overrides: int
    fullest_share: Share = Field(
        description="Records in the fullest lane, as a share of all: fitted on the first three quarters, counted on "
        "the last. It compares across lane counts."
    )
    work: AtLeastZero = Field(
        description="As many evenly filled lanes would carry as much: one over fullest_share, lanes over "
        "max_over_mean; with a radius, lanes over total_work."
    )
    copies: AtLeastZero | None = Field(
        None, description="With a radius: lanes that a request goes to, on average; null without."
    )
    total_work: AtLeastZero | None = Field(
        None,
        description="With a radius: what the fullest lane has to do in its busiest hour, copies included, over the "
        "mean load of a lane in the busiest hour; null without.",
    )
    score: AtLeastZero = Field(
        description="Work on records that were not fitted on, over all cuts of the time; that a tier has lanes of its "
        "own is no gain. The highest does not win by itself: `how.score` has the rule."
    )
    against_today: AgainstToday | None = Field(
        description="`identical`: no key changes lane. Otherwise clearly better or worse than today's contract, or "
        "`same`, which is within the noise; null where there is no contract of today."
    )
    max_over_mean: AtLeastZero = Field(
        description="Fitted on the first three quarters of the records, counted on the last."
    )
    fitted: AtLeastZero = Field(description="Fitted and counted on all records.")
    cv: AtLeastZero
    p99: AtLeastZero
    worst_window: AtLeastZero
    idle_lanes: int
    hottest_key_share: AtLeastZero
    moved_keys: Share | None
    moved_traffic: Share | None
    allowed: bool
    because: str | None


class _ContractNamed(Document):
    name: str
    epoch: int
    fingerprint: str


class TodayRow(StrategyRow, _ContractNamed):
    """Today's contract: which one it is, and its figures."""


class ChosenRow(StrategyRow):
    """What was chosen: its figures, and why."""

    met: bool
    why: list[str]


class CandidateRow(StrategyRow):
    """A candidate, with its rank where it is allowed."""

    rank: int | None


#: What a plan comes to.
Answer: TypeAlias = Literal[
    "worth-it",
    "leave-it",
    "needed",
    "only-for-throughput",
    "no-better",
    "worse-than-today",
    "first-contract",
    "not-met",
]
#: Why today's contract stays.
LeaveReason: TypeAlias = Literal["nothing-hot", "one-key", "would-not-hold", "within-noise"]


class PlanAdvice(Document):
    """What the plan comes to, in a word and in a line."""

    answer: Answer
    leave: LeaveReason | None = Field(description="Why today's contract stays; null where it does not.")
    headline: str


class PlanHolding(Document):
    """Whether what was fitted on earlier records was as even on later ones, and when to plan again."""

    as_even: bool = Field(description="Whether later records were about as even as those fitted on, under every cut.")
    fitted_share: Share = Field(description="The fullest lane's share of the records that were fitted on.")
    later_share: Share = Field(description="The same of the later ones.")
    held_windows: Count = Field(description="Windows after the cut in which the lanes were about as even.")
    windows: AtLeastOne = Field(description="Windows after the cut; of several cuts the one with the shortest time.")
    held_for: str = Field(description="How long it was as even: the shortest under any cut, at least a window.")
    plan_again: str | None = Field(
        description="After how long to plan again, which is held_for; null where it is as even."
    )
    says: str


class PlanBasis(Document):
    """The records that figures are counted on, for today's contract and all candidates, unless another is named."""

    records: Count
    of: Count = Field(description="All records with a key.")
    later: bool = Field(description="Whether they came after all that was fitted on; false where there is one window.")
    without_key: Count = Field(description="Records without a key, which are in no lane.")
    says: str


class PlanFloor(Document):
    """What no placement with each key on one lane goes below, of all records."""

    max_over_mean: Number
    cv: Number
    noise_cv: Number
    held_by: Literal["mean", "heaviest-key", "shared-lane"]


class UsefulLanes(Document):
    """How many lanes are of use, given the heaviest key."""

    hottest_key_share: Number
    useful_lanes: int
    helps: bool
    says: str


class CellSteps(Document):
    """The cells of one resolution on the lanes."""

    resolution: Resolution
    cells: AtLeastOne
    lanes_filled: AtLeastOne
    cv: AtLeastZero = Field(description="No placement goes below.")
    max_over_mean: AtLeastZero = Field(description="No placement goes below.")


class CellsPossible(Document):
    """What the cells can do on the chosen lanes."""

    lanes: AtLeastOne
    allowed: Annotated[Number, Field(ge=1)] = Field(description="The fullest lane over the mean that counts as even.")
    steps: list[CellSteps] = Field(min_length=1, description="From the routing resolution to the home cells.")
    enough_at: int | None = Field(description="The coarsest resolution that could be even on these lanes; null: none.")
    even_lanes: AtLeastOne = Field(
        description="The most lanes that the cells of the routing resolution could fill evenly."
    )
    even_lanes_home: AtLeastOne = Field(description="The same for the home cells.")
    says: list[str]


class LeftOut(Document):
    """Strategies that are not compared for locations, and why."""

    strategies: list[str]
    because: str


class PlanGeo(Document):
    """For keys that are locations: their cells, and what those can do on the chosen lanes."""

    place: Annotated[list[str], Field(min_length=2, max_length=2)] | None = Field(
        description="Latitude and longitude; null where the key is a cell."
    )
    no_place: dict[Annotated[str, StringConstraints(pattern="^[a-z-]+$")], AtLeastOne] = Field(
        description="Records without a location, by reason."
    )
    home_resolution: Resolution
    home_cells: AtLeastOne
    possible: CellsPossible
    left_out: list[LeftOut]


class SizingReason(Document):
    """The lanes that one reason asks for; null: none are enough."""

    reason: str
    lanes: int | None
    says: str


class SizingLimit(Document):
    """A limit of the service."""

    says: str
    broken: bool


class PlanSizing(Document):
    """Lane counts by what the stream must carry."""

    lanes: int | None
    fewest: int | None
    binding: str
    reasons: list[SizingReason]
    parallelism: Number | None
    useful_readers: int | None
    fullest_lane_mb_s: Number | None
    limits: list[SizingLimit]
    says: list[str]


class WaitsFor(Document):
    """A new lane, and the old ones that it waits for."""

    lane: int
    for_: list[int]


class ChangeReason(Document):
    """One thing that the change does."""

    kind: ChangeKind
    message: str


class ByHand(Document):
    """What only people can do, and how."""

    who: Literal["producers", "consumers", "streams", "readers", "joined streams", "afterwards"]
    what: str
    commands: list[str]


class ChangeCost(Document):
    """What going from today's contract to the chosen one costs."""

    moved_keys: Number | None = Field(description="Counted: the share of the profile's keys that change lane.")
    moved_traffic: Number | None = Field(description="Counted: the share of its records that are of such keys.")
    expected: Number | None = Field(
        description="By the contracts alone, as evolve and migrate plan say it: the share of keys that no rule names, "
        "where hashes are even; null where it is not known."
    )
    old_lanes: int | None
    fan_in: int | None
    waits_for: list[WaitsFor] | None
    kinds: list[ChangeReason]
    possible: bool
    epoch_to_raise: int | None
    says: list[str]


class FoldRow(Document):
    """A cut in time: fitted before it, scored after it."""

    fitted_until: Edge
    scored_until: Edge
    fitted: Number
    scored: Number
    fitted_share: Share
    share: Share
    held_windows: Count


class LanesOverTime(Document):
    """Records of each lane in each window, and in all of them."""

    title: str
    lanes: int
    cells: list[list[int]]
    totals: list[int]


class OverTime(Document):
    """Lanes over time: today's, where there is a contract, and those of the chosen one."""

    before: LanesOverTime | None
    after: LanesOverTime

    @property
    def sides(self) -> dict[str, LanesOverTime]:
        """Those that there are, by name."""
        return {**({"before": self.before} if self.before else {}), "after": self.after}


class PlanDocument(Document):
    """What `keylane plan -o json` prints and `--out` saves."""

    model_config = ConfigDict(title="keylane plan")

    schema_: Literal["keylane.plan/2"] = "keylane.plan/2"
    profile: ProfileDocument
    constraints: PlanConstraints
    today: TodayRow | None
    chosen: ChosenRow
    advice: PlanAdvice
    verdict: str
    basis: PlanBasis
    holding: PlanHolding | None = Field(description="Null where today's contract stays, or nothing was fitted.")
    candidates: list[CandidateRow]
    floor: dict[Annotated[str, StringConstraints(pattern="^[1-9][0-9]*$")], PlanFloor] = Field(
        description="By lane count."
    )
    ceiling: UsefulLanes
    geo: PlanGeo | None = None
    sizing: PlanSizing | None
    change: ChangeCost | None
    by_hand: list[ByHand] = Field(
        default=[], description="What only people can do, as `keylane apply` lists it; empty where nothing changes."
    )
    folds: list[FoldRow]
    over_time: OverTime
    how: dict[Annotated[str, StringConstraints(pattern="^[a-z0-9_]+$")], str] = Field(
        description="How each figure was obtained."
    )
    notes: list[str]
    contract: str | None = Field(
        description="The chosen contract as YAML; null where today's stays, or where it names keys that are not to be "
        "shown."
    )
    contract_fingerprint: str
    changes: bool
