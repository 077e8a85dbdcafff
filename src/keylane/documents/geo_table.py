"""The document of `keylane geo table`. Made by `plan.geo_document`, drawn by `report.geo_pages`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from keylane.contract.names import MAX_LANES
from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Digest, Document, Number, PathText, Share

NoPlace: TypeAlias = Literal[
    "null-place",
    "place-not-finite",
    "place-swapped",
    "place-out-of-range",
    "place-zero",
    "place-unscaled",
    "malformed-key",
    "malformed-record",
]


Copies: TypeAlias = Annotated[Number, Field(ge=1)]
Fullest: TypeAlias = Annotated[Number, Field(ge=0)]


class GeoFigures(Document):
    """How even a table is on some records."""

    cv: AtLeastZero
    worst_hour_cv: AtLeastZero | None = Field(description="Null where locations have no time.")
    max_over_mean: AtLeastZero
    noise_floor: AtLeastZero = Field(
        description="The CV that chance alone gives on so many records; of the held-out half: to a table that is "
        "perfect for the other half."
    )
    hour_noise_floor: AtLeastZero | None = Field(description="The same of the worst hour.")
    copies: Copies = Field(description="Lanes that a record goes to where it is matched within `radius_m`, on average.")
    total_work: Fullest = Field(
        description="What the fullest lane has to do in its busiest hour, copies included, over the mean load of a "
        "lane in the busiest hour; 1 is the least."
    )


class GeoBalance(GeoFigures):
    """Of the table on all records, which it is fitted on."""

    held_out: GeoFigures | None = Field(description="Of a table fitted on one half of the records, on the other half.")
    least_cv: AtLeastZero = Field(description="No table of home cells goes below it.")


class GeoBeside(Document):
    """Another strategy on the same records."""

    strategy: str = Field(min_length=1)
    copies: Copies
    total_work: Fullest
    cv: AtLeastZero
    worst_hour_cv: AtLeastZero | None


class GeoCopiesLimit(Document):
    """The limit on copies that was asked for, and whether the table keeps it."""

    copies: Copies
    kept: bool
    lanes: AtLeastOne = Field(description="About how many lanes, of those asked for, could keep it.")


class GeoMoved(Document):
    """What a sticky change moves."""

    share: Share
    leaves: Count


class GeoLeaf(Document):
    """A leaf of the table."""

    cell: str = Field(pattern="^8[0-9a-f]{14}$")
    lane: Count
    records: Count
    hour: Annotated[int, Field(ge=0, le=23)] | None = Field(description="Its busiest hour, in UTC.")


class GeoTableDocument(Document):
    """A lane table from traffic, how even it is, and what stands beside it."""

    model_config = ConfigDict(title="keylane geo table -o json")

    schema_: Literal["keylane.geo-table/1"] = "keylane.geo-table/1"
    source: PathText
    records: AtLeastOne = Field(description="Records with a location.")
    dead: dict[NoPlace, AtLeastOne] = Field(description="Records without a location, by reason.")
    lanes: int = Field(ge=1, le=MAX_LANES)
    strategy: Literal["hours", "curve", "regions"]
    decided_by: Literal["evenness", "work"] = Field(
        description="What the table was chosen by: the CV of its lanes, or with --radius the work of the fullest lane."
    )
    radius_m: Annotated[Number, Field(gt=0)] = Field(description="Metres that `copies` and `total_work` are for.")
    limit: GeoCopiesLimit | None = Field(description="Null where --copies was not given.")
    tau: Annotated[Number, Field(gt=0)]
    resolution: int = Field(ge=0, le=9)
    leaves: AtLeastOne
    epoch: AtLeastOne
    checksum: Digest
    balance: GeoBalance
    beside: list[GeoBeside] = Field(min_length=1, description="Other strategies on the held-out half.")
    copies_per_rider: dict[Annotated[str, StringConstraints(pattern="^[0-9.e+-]+$")], Copies] = Field(
        min_length=1, description="Lanes within so many metres of a record, on average, by the metres."
    )
    round_copies: Copies = Field(
        description="Copies that lanes of equal load would need at `radius_m` if their regions were discs: an estimate."
    )
    moved: GeoMoved | None
    lane_loads: list[Count] = Field(min_length=1)
    hours: list[Annotated[list[AtLeastZero], Field(min_length=24, max_length=24)]] | None = Field(
        description="Records of each lane by hour of the day in UTC (a time without a zone as it is written); a record "
        "without a time counts alike in each."
    )
    cells: list[GeoLeaf] = Field(min_length=1, description="Every leaf along the curve.")
    notes: list[Annotated[str, StringConstraints(min_length=1)]]
