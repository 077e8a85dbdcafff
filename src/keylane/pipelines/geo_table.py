"""`geo table`: a lane table from traffic, counted in one pass: in this process where it is small, on Spark otherwise.

systems.endpoint     a source -> locations, each with its time or its position (`scan_local`, `scan`)
profile.cells        batches of Arrow -> records of each home cell by hour; on Spark `spark.count_cells`
plan.lane_tables     counts -> a table, and its balance on records it has not seen
plan.contract_text   a table -> a contract
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from keylane.contract.first import stream_name
from keylane.contract.model import Key
from keylane.errors import CountError, UsageError
from keylane.geo.lane_tables import COARSEST, MOST_MOVED, checked_tau
from keylane.matching.sphere import checked_radius
from keylane.pipelines.engine import Options, chosen_engine, no_location, region_read, switch_to_spark
from keylane.placement.cell_lanes import cell_lanes
from keylane.plan.contract_text import NAME, geo_contract_text, next_epoch
from keylane.plan.geo_document import geo_document, text_of
from keylane.plan.lane_tables import Counted, Wish, chosen
from keylane.profile.cells import HOURS, count_places, outlying
from keylane.profile.count import TooManyKeysError
from keylane.profile.scan import watched
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.documents.geo_table import GeoTableDocument
    from keylane.geo.coordinates import Region
    from keylane.pipelines.engine import Watch
    from keylane.plan.lane_tables import Strategy
    from keylane.profile.cells import PlaceCounts
    from keylane.profile.scan import LocalScan, ScanRequest
    from keylane.spark.context import Say
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class TableWish:
    """The lane table to build from a source; None: as in the contract, or chosen.

    `old` is the contract whose table is changed with few moves; `base` one whose key, streams and lanes are kept. With
    `radii`, in metres, the table is for matching: the first decides, by the least work of the fullest lane with copies
    included and at most `copies` of a record; the others are reported. Without `streams`, a new contract has
    one that is named as the source.
    """

    lanes: int | None = None
    tau: float | None = None
    strategy: Strategy | None = None
    old: Contract | None = None
    base: Contract | None = None
    most_moved: float = MOST_MOVED
    radii: tuple[float, ...] = ()
    copies: float | None = None
    name: str = NAME
    streams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GeoTable:
    """The document of a table, and its contract as text."""

    document: GeoTableDocument
    contract: str

    @property
    def kept(self) -> bool:
        """Whether the table keeps the limit on copies, where there is one."""
        return self.document.limit is None or self.document.limit.kept


def geo_table(
    source: str,
    lat: str | None = None,
    lng: str | None = None,
    *,
    wish: TableWish | None = None,
    options: Options | None = None,
    spark: SparkSession | None = None,
    say: Say | None = None,
    watch: Watch = iter,
) -> GeoTable:
    """Build a lane table from the locations of a source; of `options`, as in `profile`, time and unit matter here.

    The columns are those of the contract's key, where it is a location, or `lat` and `lng`, unless they are given.
    """
    asked, options = wish or TableWish(), options or Options()
    before = asked.old or asked.base
    table_wish = _wish(asked)
    columns = _columns(before, lat, lng)
    endpoint = open_endpoint(source, replace(options.kafka, kind=options.kind))
    contract = partial(
        geo_contract_text,
        wish=table_wish,
        fields=columns,
        before=before,
        name=asked.name,
        streams=asked.streams or (stream_name(endpoint.address.name),),
        scale=options.scale,
    )
    contract(())  # refuse what no table can be written for, before anything is read
    region = region_read(before, columns, options.scale)
    request = options.request(Key(fields=columns), None, columns)
    endpoint.check_scan(request.columns)
    counts, scan = _places(endpoint, request, options, region, spark, say, watch)
    timed = scan.windows.kind == "time"
    counted, untimed = _counted(counts, scan, source, region.scale, timed=timed)
    table, held, met = chosen(counted, table_wish)
    document = geo_document(
        source,
        counted,
        counts.dead,
        table,
        held,
        met=met,
        epoch=next_epoch(before),
        radii=asked.radii,
        timed=timed,
        untimed=untimed,
        sampled=scan.facts.get("sampled", ""),
    )
    return GeoTable(document, contract(text_of(table)))


def _places(
    endpoint: Endpoint,
    wanted: ScanRequest,
    options: Options,
    region: Region,
    spark: SparkSession | None,
    say: Say | None,
    watch: Watch,
) -> tuple[PlaceCounts, Scan | LocalScan]:
    """The locations by home cell, counted by whichever engine is chosen."""
    if chosen_engine(endpoint, options, spark) == "local":
        scan = endpoint.scan_local(wanted)
        try:
            counts = count_places(
                watched(scan, watch), wanted.key.fields, timed=scan.windows.kind == "time", region=region
            )
        except TooManyKeysError as error:
            switch_to_spark(error, options, say)
        else:
            found = None if len(counts.cells) else outlying(scan, wanted.key.fields, region)
            return replace(counts, outlier=found), scan
    from keylane.pipelines.spark_counts import places_on_spark

    return places_on_spark(endpoint, wanted, options, region, spark, say)


def _wish(asked: TableWish) -> Wish:
    before = asked.old or asked.base
    known = None if before is None or before.spec.lanes == "live" else before.spec.lanes
    lanes = asked.lanes if asked.lanes is not None else known
    if lanes is None:
        raise UsageError.of("a lane table needs a lane count", hint="--lanes N, or a contract with a lane count")
    if asked.tau is not None:
        checked_tau(asked.tau)
    for metres in asked.radii:
        checked_radius(metres)
    if asked.old is not None:
        _check_sticky(asked, asked.old, lanes)
    old = cell_lanes(asked.old, lanes) if asked.old is not None else None
    geo = before.spec.geo if before is not None else None
    resolution = geo.resolution if geo is not None else COARSEST
    hashed_by = before.spec.partitioner if before is not None else "kafka-java"
    radius = asked.radii[0] if asked.radii else None
    _check_copies(asked, radius)
    return Wish(
        lanes,
        asked.strategy,
        asked.tau,
        resolution,
        hashed_by,
        old,
        asked.most_moved,
        radius=radius,
        copies=asked.copies,
    )


def _check_copies(asked: TableWish, radius: float | None) -> None:
    if asked.copies is not None and not asked.copies >= 1:
        raise UsageError.of("a record has at least one copy", got=asked.copies, allowed="1 or more")
    if asked.copies is not None and radius is None:
        raise UsageError.of("copies are counted within a radius", got=asked.copies, hint="--radius M")
    if asked.strategy == "regions" and radius is None:
        raise UsageError.of(
            "regions are made for a radius", got="regions", hint="--radius M, which is what they are for"
        )


def _columns(before: Contract | None, lat: str | None, lng: str | None) -> tuple[str, str]:
    key = before.spec.key if before is not None else None
    known = key.fields if key is not None and key.is_place else ("lat", "lng")
    return lat or known[0], lng or known[1]


def _check_sticky(asked: TableWish, old: Contract, lanes: int) -> None:
    if asked.base is not None:
        raise UsageError.of(
            "--sticky and --contract exclude each other",
            hint="leave --contract out; --sticky keeps the key, streams and lanes of its contract",
        )
    if old.spec.geo is None:
        raise UsageError.of("the contract has no `geo` section", got=old.metadata.name, hint="--contract FILE")
    if old.spec.lanes not in (lanes, "live"):
        hint = "leave --sticky out: another lane count needs another table"
        raise UsageError.of("--sticky keeps the lane count", got=lanes, allowed=str(old.spec.lanes), hint=hint)
    if asked.strategy not in {None, "hours"}:
        raise UsageError.of(
            "--sticky changes a table by few moves, so that lanes are even", got=asked.strategy, allowed="hours"
        )


def _counted(
    counts: PlaceCounts, scan: Scan | LocalScan, source: str, scale: float, *, timed: bool
) -> tuple[Counted, int]:
    """No record is lost, and records without a time count evenly in every hour."""
    good = sum(int(half.sum()) for half in counts.halves)
    if scan.exact and good + sum(counts.dead.values()) != scan.records:
        what = "the source changed while it was counted, or records were lost"
        raise CountError.of(what, got=good + sum(counts.dead.values()), allowed=str(scan.records))
    if not good:
        raise no_location(source, counts.dead, counts.outlier, scale)
    fit, test = (half[:, :HOURS] + half[:, HOURS:] / HOURS if timed else half.astype(float) for half in counts.halves)
    untimed = sum(int(half[:, -1].sum()) for half in counts.halves) if timed else 0
    return Counted(counts.cells, fit, test), untimed
