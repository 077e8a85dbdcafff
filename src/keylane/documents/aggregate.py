"""The documents of `keylane aggregate`. Made by `pipelines.aggregate`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document, PathText, Share, Text

QueryId = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._:-]*$")]


class QueryFigures(Document):
    """What a query came to, over all runs of the aggregation."""

    query_id: QueryId
    events: Count = Field(description="Events in delivered windows; one in several windows counts in each.")
    windows: Count = Field(description="Results that were delivered.")
    dropped: Count = Field(description="Late events that were dropped.")
    corrected: Count = Field(description="Late events that are in corrections.")
    errors: Count = Field(description="Events that its expressions failed on.")
    error: Text | None = Field(description="The last such error, or why it does not fit the events.")
    unfit: bool = Field(description="Whether it does not fit the columns of the events, and so matches none.")


class AggregateDocument(Document):
    """What an aggregation came to, over all its runs."""

    model_config = ConfigDict(title="keylane aggregate -o json")

    schema_: Literal["keylane.aggregate/1"] = "keylane.aggregate/1"
    source: PathText
    target: PathText
    registry: PathText
    registry_version: Count
    by: Literal["query", "query-window"]
    lanes: AtLeastOne
    batches: Count
    records: Count = Field(description="Events that were read.")
    matched: Count = Field(description="Events that match at least one query.")
    pairs: Count = Field(description="Pairs of an event and a query that it matches.")
    dead: Count = Field(description="Dead letters: unreadable, without a time, or of the far future.")
    windows: Count = Field(description="Results that were delivered.")
    corrections: Count
    late: Count = Field(description="Events that came after their window was delivered.")
    errors: Count
    queries: list[QueryFigures]
    stopped: bool
    seconds: AtLeastZero


class RegisteredQuery(Document):
    """A query of a registry."""

    query_id: QueryId
    status: Literal["active", "paused", "removed"]
    version: Count = Field(description="The version of the registry that changed it last.")
    definition: dict[str, Any] = Field(description="As it was given, with defaults.")


class QueriesDocument(Document):
    """What a change of a registry came to, or what is in it."""

    model_config = ConfigDict(title="keylane aggregate queries -o json")

    schema_: Literal["keylane.aggregate-queries/1"] = "keylane.aggregate-queries/1"
    registry: PathText
    version: Count = Field(description="Changes so far; a batch of a running aggregation names the one that it used.")
    changed: list[QueryId] = Field(description="What the command changed.")
    queries: list[RegisteredQuery]


class AggregateVerifyDocument(Document):
    """Whether a stream of results is in order and complete."""

    model_config = ConfigDict(title="keylane aggregate verify -o json")

    schema_: Literal["keylane.aggregate-verify/1"] = "keylane.aggregate-verify/1"
    target: PathText
    queries: Count
    results: Count
    compared_with_state: bool = Field(description="Whether the counts of the state were there to compare with.")
    missing: Count = Field(
        description="Gaps in the sequence of a query, and queries with fewer results than committed."
    )
    twice: Count
    out_of_order: Count
    other: Count = Field(description="Windows of another length, and results that were never committed.")
    problems: list[Text] = Field(description="The first of them.")

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.missing or self.twice or self.out_of_order or self.other)


class DivisionLoad(Document):
    """What lanes receive under one way of dividing the work."""

    division: Literal["query", "query-window", "query-window-partial"]
    received: Count = Field(description="Events, or partial aggregates where these are made first.")
    max_over_mean: AtLeastZero = Field(description="The fullest lane beside the average.")
    loads: list[Count] = Field(min_length=1, description="Of each lane.")


class HotQuery(Document):
    """A query with its share of all matched events."""

    query_id: QueryId
    events: Count
    share: Share


class RunningDivision(Document):
    """How windows are divided: by what, whether partial aggregates are made first, and over how many lanes."""

    by: Literal["query", "query-window"]
    partial: bool
    lanes: AtLeastOne


class RunningState(Document):
    """What an aggregation keeps after its last batch."""

    batch: Count
    open_windows: Count
    state_bytes: Count
    restore_seconds: AtLeastZero = Field(description="What this batch took to rebuild the state; 0 in most.")
    longest_lag: AtLeastZero = Field(description="Seconds of event time; of the query that is farthest behind.")


class AggregateExplainDocument(Document):
    """The load of lanes under each way of dividing the work, by the windows that were delivered."""

    model_config = ConfigDict(title="keylane aggregate explain -o json")

    schema_: Literal["keylane.aggregate-explain/1"] = "keylane.aggregate-explain/1"
    target: PathText
    lanes: AtLeastOne
    windows: Count
    events: Count
    queries: Count
    queries_with_90_percent: Count = Field(description="The fewest queries that have nine tenths of the events.")
    divisions: list[DivisionLoad]
    hottest: list[HotQuery]
    late: list[QueryFigures] = Field(description="Queries with late events, those with the most first.")
    failing: list[QueryFigures] = Field(description="Queries that fail on events, or do not fit them.")
    state: RunningState | None = Field(description="Null where the state is not with the target.")
    running: RunningDivision | None = Field(description="As the last batch was divided; null where it does not say.")
    chosen: RunningDivision = Field(description="The division for this number of lanes: as `keylane plan` chooses it.")
    advice: Text


class PlannedDivision(Document):
    """One way of dividing the work at one lane count."""

    division: Literal["query", "query-window", "query-window-partial"]
    lanes: AtLeastOne
    received: Count = Field(description="Events, or partial aggregates where these are made first.")
    fullest: Count = Field(description="What the fullest lane receives of them.")
    max_over_mean: AtLeastZero = Field(description="The fullest lane beside the average.")
    chosen: bool = Field(description="Whether it is chosen for its lane count.")


class AggregatePlanDocument(Document):
    """Which division of the work of an aggregation, over how many lanes, and whether what runs should change."""

    model_config = ConfigDict(title="keylane plan RESULTS -o json")

    schema_: Literal["keylane.aggregate-plan/1"] = "keylane.aggregate-plan/1"
    target: PathText
    running: RunningDivision | None = Field(description="As the last batch was divided; null where it does not say.")
    windows: Count
    events: Count
    max_over_mean: AtLeastZero = Field(description="The fullest lane over the mean that counts as even.")
    met: bool = Field(description="False where --max-over-mean was given and no division keeps it.")
    changes: bool = Field(description="Whether the chosen one is not what runs; false where that is not known.")
    chosen: RunningDivision
    options: list[Text] = Field(description="The options of keylane aggregate that are the chosen one.")
    anew: bool = Field(description="Whether the change takes a new aggregation, with another target and state.")
    candidates: list[PlannedDivision] = Field(min_length=3, description="Three divisions at each lane count.")
    advice: Text
