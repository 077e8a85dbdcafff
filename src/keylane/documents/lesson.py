"""The document of `keylane demo lesson`. Made by `pipelines.demo.lesson`; `demo --to` writes it as figures.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, PlainSerializer

from keylane.documents.model import AtLeastOne, Count, Document, Number


def _rounded(value: float) -> float:
    return round(value, 5) if isinstance(value, float) else value


#: A figure that is printed short enough to read.
Figure: TypeAlias = Annotated[Number, Field(ge=0), PlainSerializer(_rounded)]
Measure: TypeAlias = Literal["cv", "error_rate", "mean_batch_bytes", "peak_lag", "end_lag"]

_BROKEN: dict[str, Any] = {"properties": {"kept": {"const": False}}}
_KEPT: dict[str, Any] = {"properties": {"kept": {"const": True}}}


class LessonProducer(Document):
    """What batches depend on."""

    linger_ms: Count = 20
    batch_size: AtLeastOne = 65_536
    compression: str = "none"
    acks: str = "all"
    every: Figure = Field(0.0, description="Seconds from one update to the next; 0 is as fast as it goes.")


class LessonLanes(Document):
    """The lane of a key under each rule."""

    formula: Count
    murmur2: Count


class LessonCell(Document):
    """One key."""

    cell: Annotated[str, Field(pattern="^83[0-9a-f]{13}$")]
    cities: list[str] = Field(min_length=1)
    records: AtLeastOne
    lanes: LessonLanes = Field(description="Its lane under each rule.")


class LessonCheck(Document):
    """One thing that the lesson asks."""

    model_config = ConfigDict(
        json_schema_extra={"if": {"properties": {"got": {"type": "null"}}}, "then": _BROKEN},
    )

    measure: Measure
    asked: Literal["< 5%", "0", "> 16 KiB", "< 500"]
    got: Figure | None = Field(description="Null when it could not be measured, which keeps nothing.")
    kept: bool


class LessonTrial(Document):
    """One rule on one topic."""

    name: Literal["formula", "murmur2"]
    partitioner: Literal["abs-long-hashcode", "kafka-java"]
    formula: str
    topic: str
    active_lanes: Count = Field(description="Lanes with records.")
    cv: Figure = Field(description="Deviation of the records per lane over their mean, idle lanes included.")
    max_over_mean: Figure
    fullest_lane: Count
    sent: Count
    failed: Count
    first_error: str | None
    error_rate: Annotated[Figure, Field(le=1)]
    seconds: Figure
    batches: Count
    mean_batch_bytes: Figure | None = Field(
        description="From librdkafka's statistics, as sent; null when those do not have every record."
    )
    mean_batch_records: Figure | None
    read: Count
    peak_lag: Count
    peak_lag_lane: Count
    end_lag: Count
    lag_samples: AtLeastOne
    per_lane: list[Count] = Field(min_length=1, description="Records of each lane, as a group read them.")
    checks: list[LessonCheck] = Field(min_length=5, max_length=5)


class LessonDocument(Document):
    """Two rules on a real broker, each figure beside what the lesson asks of it."""

    model_config = ConfigDict(
        title="keylane demo lesson -o json",
        json_schema_extra={
            "if": _KEPT,
            "then": {"properties": {"trials": {"items": {"properties": {"checks": {"items": _KEPT}}}}}},
            "else": {"properties": {"trials": {"contains": {"properties": {"checks": {"contains": _BROKEN}}}}}},
        },
    )

    schema_: Literal["keylane.demo-lesson/1"] = "keylane.demo-lesson/1"
    version: str
    seed: Count
    drivers: AtLeastOne
    updates: AtLeastOne
    radius_km: Figure
    records: AtLeastOne
    lanes: AtLeastOne
    resolution: Literal[3]
    broker: str
    own_broker: bool = Field(description="Whether it was started for this, and stopped.")
    producer: LessonProducer
    kept: bool = Field(description="Whether both rules keep everything that is asked.")
    why: str
    least_cv: Figure = Field(description="No placement of these keys, each on one lane, has a lower CV.")
    noise_floor: Figure = Field(description="The CV of a lane drawn for each record.")
    records_for_cv: AtLeastOne = Field(description="How many records it takes for a noise floor below 5%.")
    cells: list[LessonCell] = Field(min_length=1)
    trials: list[LessonTrial] = Field(min_length=2, max_length=2)
