"""The document of `keylane demo`. Made by `pipelines.demo.figures`, drawn by `report.demo_page`.

`figures.json` beside the page has the cells of the heat maps too: `DemoFigures`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from keylane.contract.answers import OrderScope
from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Digest, Document, Number, Share


def _rounded(value: float) -> float:
    return round(value, 5) if isinstance(value, float) else value


def _empty(cells: list[list[int]]) -> bool:
    return not cells


#: Figures that are short enough to read.
Figure: TypeAlias = Annotated[AtLeastZero, AfterValidator(_rounded)]
Part: TypeAlias = Annotated[Share, AfterValidator(_rounded)]


class Parted(Document):
    """How many groups there are, and how many of them have records on more than one lane."""

    groups: Count
    parted: Count


class OrderKept(Document):
    """One order scope of the contract, by its own answer, and how much of the day it is about."""

    order_scope: OrderScope
    unit: str = Field(description="What is in order.")
    keys: Count
    share: Part = Field(description="Of the records.")
    lanes_per_key: AtLeastOne | None
    readers_merge: bool


class DemoTrial(Document):
    """One contract on the day. Fullness is in mean lanes: 1 is perfect."""

    name: str = Field(description="Its file in contracts/, without .yaml.")
    title: str
    source: Literal["fixed", "morning", "population"] = Field(
        description="Where its rules come from. `morning`: from the records before noon."
    )
    fingerprint: Digest
    lanes: AtLeastOne
    records: Count
    unplaced: Count
    max_over_mean: Figure
    before_noon: Figure = Field(description="In sample where the source is `morning`.")
    after_noon: Figure = Field(description="Out of sample where the source is `morning`.")
    fullest_half_hour: Figure = Field(description="The fullest lane and half hour over the mean one.")
    fullest_lane: Count
    fullest_share: Part = Field(description="Of the records.")
    idle_lanes: Count
    moved: Part = Field(description="Records on another lane than under the first contract.")
    keys: Parted = Field(description="Keys seen on more than one lane.")
    sub_keys: Parted | None = Field(
        description="Orders or rides on more than one lane; null where the stream has none."
    )
    order: list[OrderKept]
    #: Records of each lane and half hour: in figures.json, not in what is printed.
    cells: SkipJsonSchema[list[list[Count]]] = Field([], exclude_if=_empty)


class DemoHotKey(Document):
    """A heavy key, and the lanes it was seen on under the first contract and under the chosen one."""

    key: str
    share: Part
    mean_lanes: Figure = Field(description="How many mean lanes the share is.")
    before: list[Count]
    after: list[Count]


class DemoCase(Document):
    """One stream."""

    name: Literal["payments", "rides", "queries"]
    key: str
    sub_key: str | None
    private: bool = Field(description="Whether its keys name somebody; the page masks them then.")
    records: Count
    distinct_keys: Count
    chosen: Count = Field(description="Which trial is compared with the first.")
    trials: list[DemoTrial]
    hot_keys: list[DemoHotKey]


class LaneDrift(Document):
    """What a change of the lane count moves under Kafka's murmur2."""

    old: AtLeastOne
    new: AtLeastOne
    expected: Part = Field(description="What the new lanes take: what many expect to move, and the least that must.")
    formula: Part = Field(description="1 - gcd(old, new) / max(old, new)")
    moved: Count = Field(description="How many keys change lane.")
    keys: Part = Field(description="Their share of all keys.")
    records: Part = Field(description="Their share of the day's records.")


class StandingDivision(Document):
    """What the lanes of the aggregation receive under one way of dividing the work."""

    division: Literal["query", "query-window", "query-window-partial"]
    received: Count = Field(description="Events, or partial aggregates where these are made first.")
    max_over_mean: Figure
    fullest_lane: Count
    fullest: Count = Field(description="What the fullest lane receives in all.")
    fullest_minute: Count = Field(description="The most that one lane receives of one minute.")
    idle_lanes: Count
    #: What each lane receives of each minute: in figures.json, not in what is printed.
    cells: SkipJsonSchema[list[list[Count]]] = Field([], exclude_if=_empty)


class StandingArrival(Document):
    """The results of a query that one batch delivered."""

    batch: Count
    first: Count = Field(description="The sequence of the first of them.")
    last: Count


class StandingQuery(Document):
    """A hot query: its part of the events, the lanes that it moves through, and how its results came."""

    query_id: str
    events: Count
    share: Part
    lanes: list[Count] = Field(description="Its lanes under query-window.")
    arrivals: list[StandingArrival]


class StandingQueries(Document):
    """An hour of events under standing queries, aggregated by the pipeline of `keylane aggregate`."""

    queries: Count = Field(description="Queries with results.")
    queries_with_90_percent: Count = Field(description="The fewest queries that have nine tenths of the events.")
    window: str
    begins: str = Field(pattern=r"^\d{2}:\d{2}$")
    minutes: AtLeastOne
    events: Count
    matched: Count
    late: Count
    lanes: AtLeastOne
    batches: AtLeastOne
    results: Count = Field(description="Windows that were delivered, as verify found them.")
    missing: Count
    twice: Count
    out_of_order: Count
    divisions: list[StandingDivision] = Field(min_length=3, max_length=3)
    hottest: list[StandingQuery]


class DemoFigures(Document):
    """A seeded day under several contracts, with the cells of the heat maps: figures.json."""

    schema_: Literal["keylane.demo/1"] = "keylane.demo/1"
    version: str
    spark: str
    seed: Count
    scale: Annotated[Number, Field(gt=0), AfterValidator(_rounded)] = Field(
        description="Records of the day, in millions."
    )
    day: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    cases: list[DemoCase]
    merchants: Count
    drift: list[LaneDrift]
    standing: StandingQueries


class DemoDocument(DemoFigures):
    """A seeded day under several contracts. The cells of the heat maps are in the file that `figures` names."""

    model_config = ConfigDict(title="keylane demo -o json")

    page: str = Field(description="The HTML file.")
    figures: str = Field(description="The JSON file with the cells.")
