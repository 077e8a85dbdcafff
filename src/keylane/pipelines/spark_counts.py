"""Sources that are counted on Spark: what `profile` and `geo table` do with those that are large.

    profile_on_spark   every key by window, or sketches of them
    places_on_spark    records of each home cell by hour

In this process, the same: `profile.scan` and `profile.cells`. Which of the two: `pipelines.engine`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import keylane.pipelines.with_spark  # noqa: F401  imported for its error
from keylane.pipelines.engine import checked, profile_facts, profile_of_rows
from keylane.profile.build import PRECISION, TRACKED, ProfileMetadata, sketched_profile
from keylane.spark.context import RunContext, translated, warn
from keylane.spark.count_cells import count_places, home_cell_keys, outlying
from keylane.spark.count_keys import Counting, counted, distinct_keys, packing_for, sketched
from keylane.spark.keys import column_named
from keylane.spark.session import active_session_kept
from keylane.systems.jars import fetch_cells
from keylane.systems.profiles import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.geo.coordinates import Region
    from keylane.pipelines.engine import Options, ProfileRequest
    from keylane.profile.cells import Numbers, PlaceCounts
    from keylane.profile.model import Profile
    from keylane.profile.scan import ScanRequest
    from keylane.spark.context import Say
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Endpoint

#: Many keys are looked up once each: the second, smaller map before the large one finds little of them.
_ONE_MAP: Final = "spark.sql.codegen.aggregate.map.twolevel.enabled"


def profile_on_spark(asked: ProfileRequest, folder: Path, spark: SparkSession | None, say: Say | None) -> Profile:
    """The profile of a source; rows go through a folder, which is empty again afterwards."""
    options, contract = asked.options, asked.contract
    try:
        run = RunContext(spark, options.master, {_ONE_MAP: "false", **options.conf}, say=say or warn)
        with active_session_kept(), asked.endpoint.scan(run, asked.request) as scan:
            scanned = _in_cells(scan, asked) if asked.place else scan
            packing = packing_for(scanned.records)
            metadata = ProfileMetadata(asked.source, asked.key, scanned.windows, packing, scanned.size)
            if options.approximate:
                return _sketched(scanned, metadata)
            outlier = partial(outlying, scan.frame, asked.place, asked.region, text=not scan.typed)
            return _made(scanned, metadata, contract, folder, outlier)
    except Exception as error:
        raise translated(error, work="the profile") from error


def _in_cells(scan: Scan, asked: ProfileRequest) -> Scan:
    """The source with home cells as its key. Lines and the values of a topic are read as text."""
    frame = home_cell_keys(scan.frame, asked.place, text=not scan.typed, region=asked.region)
    return replace(scan, frame=frame, facts={**scan.facts, **asked.place_facts})


def _made(
    scan: Scan,
    metadata: ProfileMetadata,
    contract: Contract | None,
    folder: Path,
    outlier: Callable[[], Numbers | None],
) -> Profile:
    raw = folder / "raw"
    how = Counting(metadata.key, metadata.windows, metadata.packing, untimed=scan.untimed)
    counted(scan.frame, how).write.parquet(f"file://{raw}")
    rows = read_rows(raw)
    shutil.rmtree(raw)
    return profile_of_rows(rows, scan, metadata, contract, outlier)


def _sketched(scan: Scan, metadata: ProfileMetadata) -> Profile:
    """By sketches. Lanes are left out: a sketch per lane and window would need more memory than it saves."""
    rows = sketched(scan.frame, metadata.key, metadata.windows, TRACKED, PRECISION)
    sketches = {row["keylane_w"]: row["distinct"] for row in rows}
    distinct = distinct_keys(scan.frame.sparkSession, [sketches.get(n) for n in range(len(metadata.windows))])
    metadata = replace(
        metadata,
        facts=profile_facts(
            scan.facts, scan, sum(row["untimed"] for row in rows) - sum(scan.facts.get("strays", ())[:2])
        ),
    )
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(scan.frame.select(*map(column_named, metadata.key.fields)).schema)
    return checked(sketched_profile(rows, metadata, types, distinct, TRACKED), scan)


def places_on_spark(
    endpoint: Endpoint,
    wanted: ScanRequest,
    options: Options,
    region: Region,
    spark: SparkSession | None,
    say: Say | None,
) -> tuple[PlaceCounts, Scan]:
    """The locations of a source by home cell, and the source as it was scanned."""
    try:
        run = RunContext(spark, options.master, options.conf, say=say or warn)
        with active_session_kept(), endpoint.scan(run, wanted) as scan:
            fetch_cells(scan.frame.sparkSession, run.say)
            timed = scan.windows.kind == "time"
            place, text = wanted.key.fields, not scan.typed
            counts = count_places(scan.frame, *place, timed=timed, text=text, region=region)
            if not len(counts.cells):
                counts = replace(counts, outlier=outlying(scan.frame, place, region, text=text))
            return counts, scan
    except Exception as error:
        raise translated(error, work="the table") from error
