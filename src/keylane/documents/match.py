"""The document of `keylane match`, and what a page shows beside it. Made by `pipelines.match.document`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from keylane.documents.model import (
    AtLeastOne,
    AtLeastZero,
    Count,
    Digest,
    Document,
    LaneId,
    Number,
    PathText,
    Share,
    Text,
)

MatchReason = Annotated[str, StringConstraints(pattern="^[a-z]+(-[a-z]+)*$")]


class MatchVerified(Document):
    """The match beside brute force; on a sample where a note says so."""

    pairs: Count = Field(description="Pairs that brute force finds.")
    missing: Count = Field(description="Those that the match does not have.")
    extra: Count = Field(description="Those that only the match has.")


class DeadLetters(Document):
    """Records by reason, of each source."""

    drivers: dict[MatchReason, AtLeastOne] = Field(description="Records by reason.")
    riders: dict[MatchReason, AtLeastOne] = Field(description="Records by reason.")


class Offers(Document):
    """What the assignment came to."""

    granted: Count = Field(description="Offers that were made.")
    refused: Count = Field(description="Requests with a driver near, all of whom were held by other offers.")
    mean_distance_m: AtLeastZero | None = Field(description="Of the offers that were made.")


class MatchLatency(Document):
    """From the request's own time to its answer, of the last batch."""

    p50: AtLeastZero
    p99: AtLeastZero


class LaneLag(Document):
    """One lane."""

    lane: Count
    records: Count


class MatchMetrics(Document):
    """What a dispatcher is alarmed by."""

    match_latency_ms: MatchLatency | None = Field(None, description="Null of a batch.")
    lag: list[LaneLag] | None = Field(None, description="Records of each lane that are not taken yet; null of a batch.")
    border_share: Share = Field(description="Share of requests that more than one lane was asked for.")
    ghosts_dropped: Count = Field(description="Pairs of a lane whose driver had moved on before the request.")
    tombstones: Count | None = Field(None, description="Drivers reported to a lane as having left it; null of a batch.")
    late_pings: Count | None = Field(
        None, description="Pings that came after an answer that they would have changed; null of a batch."
    )
    pending: Count | None = Field(None, description="Requests that wait for their moment to pass; null of a batch.")
    lane_cv: AtLeastZero = Field(description="The lanes' coefficient of variation, by pings.")
    noise_floor: AtLeastZero = Field(description="The CV that chance alone gives for so many pings.")


class MatchDocument(Document):
    """What a match came to. Of each source, good records and dead letters are all there are."""

    model_config = ConfigDict(title="keylane match -o json")

    schema_: Literal["keylane.match/1"] = "keylane.match/1"
    drivers: PathText = Field(description="The source of pings, as it was given.")
    riders_source: PathText = Field(description="The source of requests, as it was given.")
    target: PathText
    contract: Text = Field(description="The contract's name.")
    fingerprint: Digest
    lanes: AtLeastOne
    radius_m: Annotated[Number, Field(gt=0)]
    nearest: AtLeastOne | None = Field(
        description="At most so many drivers for a request; null: all within the radius."
    )
    expire_s: Annotated[Number, Field(gt=0)] | None = Field(
        description="The age after which a ping counts no more; null: never."
    )
    riders: Count = Field(description="Distinct requests: of one that was sent twice the last counts, once.")
    pings: Count = Field(description="Good records of drivers.")
    pairs: Count = Field(description="Pairs that were written.")
    riders_with_a_match: Count = Field(description="Requests with at least one of them.")
    median_m: AtLeastZero | None = Field(
        None, description="Metres to the nearest driver of those requests, the middle one; null where not measured."
    )
    recall: Share | None = Field(description="Share of brute force's pairs that were found; null without --verify.")
    verified: MatchVerified | None
    copies_per_rider: AtLeastZero = Field(description="Lanes that were asked, for each request.")
    dead: DeadLetters = Field(description="Dead letters; they are in the target's _dead, or in TOPIC.dlq.")
    offers: Offers | None
    metrics: MatchMetrics
    lane_loads: list[Count] = Field(min_length=1, description="Pings of each lane.")
    seconds: AtLeastZero
    notes: list[str]


class PictureCell(Document):
    """One cell of the map: its lane, and what is in it."""

    cell: str
    lane: LaneId
    pings: Count
    requests: Count
    copies: Count
    hour: Annotated[int, Field(ge=0, le=23)] | None
    records: Count


class UnmatchedRequest(Document):
    """A request without a driver within the radius: how far the nearest was then, and how long until one came."""

    lat: Annotated[Number, Field(ge=-90, le=90)]
    lng: Annotated[Number, Field(ge=-180, le=180)]
    nearest_m: AtLeastZero | None = Field(description="Null where no driver was known then, or not looked for.")
    wait_s: AtLeastZero | None = Field(
        None, description="Until an available driver was within the radius; null where none came, or not looked for."
    )


class MatchPicture(Document):
    """What a page shows of a match beside its document: cells with their loads, and pings of lanes by the hour."""

    cells: list[PictureCell]
    hours: list[list[Count]]
    resolution: Count
    unmatched: list[UnmatchedRequest] = Field(default=[], description="Some of the requests without a driver.")
