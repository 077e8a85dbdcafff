"""A running match as one plan of Spark, in Java: stateful steps on packed blocks, and what they have to know.

    rows of a source -> blocks, for the slots of drivers and riders      PackRows
    blocks           -> pings for lanes, tombstones, ripe requests       Homes, by driver and rider
    those            -> pairs                                            Lanes, by lane
    pairs            -> each rider's drivers in order                    Merge
    those            -> offers, where drivers are assigned               Offers, with the ledger of who is held

What a stateful step is, and where its state is: `keylane.spark.blocks`. The sources: `follow_sources`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from keylane.errors import MissingExtraError, UsageError
from keylane.pipelines.match.options import MICROS
from keylane.spark.blocks import BLOCKS
from keylane.spark.cells import SOURCES, h3_archives
from keylane.spark.jvm import java_class
from keylane.spark.topic_blocks import topic_sources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from keylane.geo.coordinates import Region
    from keylane.pipelines.match.options import Columns, Options
    from keylane.placement.cell_lanes import CellLanes

#: The kinds of rows that come out of the plan; defined in `Merge.java` and `Offers.java`.
MATCH, COUNTS, DEAD, OFFER = 0, 1, 2, 3
#: Hashes that `LaneTable.java` has.
HASHES: Final = ("murmur2", "crc32", "fnv1a", "spark-long")
#: The numbers of the sources; defined in `Rules.java`.
NUMBERS: Final = {"drivers": 0, "riders": 1}
#: Names of fields that are read as they are: no path, and not one of a message itself.
_PLAIN: Final = re.compile(r"(?!key$|timestamp$)[A-Za-z0-9_-]+")
#: Of no unit 0: a number is of the one that its size has.
_TICKS: Final = {None: 0, "s": MICROS, "ms": 1000, "us": 1}
_FOLDS: Final = ("masked", "unsigned", "absolute", "positive")


@dataclass(frozen=True, slots=True)
class MatchRules:
    """How long records are waited for, in microseconds, and how the work is divided.

    `late` is how far a ping may be behind the newest; `keep` how far requests may be behind the pings; requests of a
    `window` are answered together. Records more than `ahead` of the clock are dead letters.
    Offers hold for `offer_for`. State is divided into `slots`. Without `matching` all is done but the search for who
    is near: what a benchmark compares with.
    """

    late: int
    keep: int
    slots: int
    matching: bool = True
    window: int = 1
    ahead: int = 86_400 * MICROS
    offer_for: int = 15 * MICROS

    @property
    def changeable(self) -> dict[str, int]:
        """What the next run may change: a batch that is made again needs what it was first made with."""
        return {name: getattr(self, name) for name in ("late", "keep", "window", "ahead", "offer_for")}

    def with_changed(self, known: Mapping[str, int]) -> MatchRules:
        """These rules, with those of another run where it may have had others."""
        changed = {**self.changeable, **known}
        late, keep, window, ahead, offer_for = (changed[name] for name in self.changeable)
        return replace(self, late=late, keep=keep, window=window, ahead=ahead, offer_for=offer_for)


def check_lanes(lanes: CellLanes) -> None:
    """Refuse a contract whose hash the plan does not have."""
    rule = lanes.hashed_by
    if rule.hash is None or rule.hash.name not in HASHES or rule.facts.fold not in _FOLDS:
        raise UsageError.of(
            "a running match does not have the hash of this partitioner",
            got=rule.name,
            allowed="partitioners by murmur2, crc32 or fnv1a, and spark-hash",
            hint="match without --follow knows all of them",
        )


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """The plan of one match: its Java objects."""

    plan: Any
    rules: Any
    loader: Any

    @staticmethod
    def of(spark: SparkSession, given: Options, rules: MatchRules, tables: Sequence[CellLanes]) -> MatchPlan:
        """Compile and load the steps, and the source of topics where the session has Kafka's client."""
        archives = h3_archives(spark)
        if archives is None:
            raise MissingExtraError.of(
                "a running match needs H3 for Java, which is not in the cache",
                hint="keylane dev jars geo, where there is a network",
            )
        folders = (BLOCKS, SOURCES / "match", SOURCES / "h3", *topic_sources(spark))
        loaded = java_class(spark, folders, "keylane.match.Plan", archives)
        plan = loaded.newInstance()
        return MatchPlan(plan, plan.rules(_settings(given, rules, tables)), loaded.getClassLoader())

    def forget(self, query: str) -> int:
        """Drop what the steps of a query that has ended left in memory; how many slots there were."""
        return int(self.plan.forget(query))

    def columns(self, rows: DataFrame) -> Any:
        """Columns over messages that a topic's source works out by itself; None where that takes a plan."""
        return self.plan.columns(cast("ClassicFrame", rows)._jdf)  # noqa: SLF001  Java's

    def packer(self, source: int, columns: Columns, region: Region, others: Any, *, json: bool) -> str:
        """How a topic's source packs records: plain JSON, where values are JSON, and by the columns `others`."""
        time = columns.moment
        names = [columns.id, time.name, columns.lat, columns.lng]
        if source == NUMBERS["drivers"]:
            names.append(columns.available or "available")
        plain = json and region.scale == 1 and len(set(names)) == len(names) and all(map(_PLAIN.fullmatch, names))
        bounds = [region.south, region.west, region.north, region.east]
        given = {"names": names, "tick": _TICKS[time.form], "region": bounds} if plain and time.form in _TICKS else None
        return str(self.plan.packer(self.rules, source, given, others).asText())

    def packed(self, rows: DataFrame, source: int, *, topic: bool) -> DataFrame:
        """Rows of a source as blocks."""
        frame = self.plan.packed(cast("ClassicFrame", rows)._jdf, self.rules, source, topic)  # noqa: SLF001  Java's
        return ClassicFrame(frame, rows.sparkSession)

    def answers(self, blocks: Sequence[DataFrame]) -> DataFrame:
        """Blocks of both sources -> rows of four kinds: matches, counts, dead letters and offers."""
        every = cast("ClassicFrame", reduce(DataFrame.union, blocks))
        return ClassicFrame(self.plan.answers(every._jdf, self.rules), every.sparkSession)  # noqa: SLF001  Java's


def _settings(given: Options, rules: MatchRules, tables: Sequence[CellLanes]) -> dict[str, Any]:
    return {
        "slots": rules.slots,
        "lanes": tables[-1].count,
        "radius": float(given.radius),
        "nearest": given.nearest or 0,
        "expire": -1 if given.expire is None else round(given.expire * MICROS),
        "late": rules.late,
        "keep": rules.keep,
        "ahead": rules.ahead,
        "window": rules.window,
        "matching": rules.matching,
        "assign": given.assign,
        "offer_for": rules.offer_for,
        "tables": [_table(lanes) for lanes in tables],
    }


def _table(lanes: CellLanes) -> dict[str, Any]:
    numbers = {"starts": lanes.starts.astype(">i8"), "ends": lanes.ends.astype(">i8")}
    numbers["lanes"] = lanes.leaf_lane.astype(">i4")
    assert lanes.hashed_by.hash is not None
    return {
        **{name: bytearray(column.tobytes()) for name, column in numbers.items()},
        "resolution": lanes.resolution,
        "hash": lanes.hashed_by.hash.name,
        "fold": lanes.hashed_by.facts.fold,
    }
