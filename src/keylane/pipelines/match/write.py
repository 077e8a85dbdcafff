"""Where the result of a batch goes: a folder that is there whole or not at all, or a topic.

    DST/matches/      Parquet: rider_id, rider_ts, driver_id, distance_m, driver_ts, rank
    DST/offers/       Parquet, where drivers are assigned
    DST/_dead/        dead letters: side, source, reason, original

All of it is staged beside the target and becomes it by one rename. A folder that holds anything is refused.
Into a topic matches are written at least once: each has a `match_id`, a hash of rider, time and driver, by which
readers deduplicate.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from keylane.errors import TargetError, UsageError
from keylane.pipelines.match.offers import offers_of
from keylane.pipelines.match.records import DEAD_COLUMNS
from keylane.private import own_folder
from keylane.spark.writable import DEAD_PREFIX
from keylane.systems.atomic import force_all
from keylane.systems.endpoint import open_endpoint, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from keylane.pipelines.match.follow_metrics import Figures
    from keylane.pipelines.match.options import Options
    from keylane.systems.endpoint import Address


def check_target(target: Address, options: Options) -> None:
    """Refuse a target before anything is read: a folder that holds something, a topic that is not there."""
    if not target.is_path:
        if options.assign is not None:
            what = "offers are written to a folder"
            raise UsageError.of(what, got=str(target), allowed="a new folder", hint="leave --assign out")
        endpoint = open_endpoint(target, options.kafka)
        endpoint.check_streams([target.name, endpoint.dead_stream], options.lanes or 1)
        return
    path = path_of(target, "the target")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        allowed = "a folder that is new or empty"
        hint = "matches are written once, as a whole; choose another folder"
        raise TargetError.of("the target is not empty", got=str(path), allowed=allowed, hint=hint)


@contextmanager
def staged(target: Address) -> Iterator[Path]:
    """A folder to write in, which becomes the target when this ends well, and is gone when it does not."""
    if not target.is_path:
        with own_folder() as folder:
            yield folder
        return
    path = path_of(target, "the target")
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{uuid4().hex[:12]}.new")
    staging.mkdir()
    try:
        yield staging
        force_all(sorted(one for one in staging.rglob("*") if not one.name.startswith(".")))
        staging.rename(path)
        force_all([path.parent])
    except OSError as error:
        if path.exists() and any(path.iterdir()):
            raise TargetError.of("the target was filled by another process", got=str(path)) from error
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_matches(matches: DataFrame, folder: Path, target: Address, options: Options) -> DataFrame:
    """Write matches, in the folder, and to the topic where that is the target; as they were written."""
    kept = f"file://{folder / 'matches'}"
    matches.write.parquet(kept)
    written = matches.sparkSession.read.schema(matches.schema).parquet(kept)
    if not target.is_path:
        open_endpoint(target, options.kafka).append(as_messages(written), target.name)
    return written


def as_messages(matches: DataFrame) -> DataFrame:
    """Each match as a message: its key the rider, its value the match as JSON, with an id of its own."""
    key, value = F.col("rider_id").cast("binary"), F.to_json(F.struct(match_id().alias("match_id"), "*"))
    return matches.select(key.alias("key"), value.cast("binary").alias("value"))


def match_id() -> Column:
    """A hash of rider, time and driver: the same whenever the match is computed."""
    at = F.unix_micros("rider_ts").cast("string")
    # Lengths first: ids may hold any character, and no two matches may read the same.
    size = F.length("rider_id").cast("string")
    return F.substring(F.sha2(F.concat_ws("/", size, "rider_id", at, "driver_id"), 256), 1, 32)


def write_dead(dead: DataFrame, folder: Path, target: Address, options: Options) -> dict[str, dict[str, int]]:
    """Write dead letters, where there are any: how many of each side and reason."""
    kept = folder / "_dead"
    dead.repartition(1).write.parquet(f"file://{kept}")
    written = dead.sparkSession.read.schema(dead.schema).parquet(f"file://{kept}")
    counts: dict[str, dict[str, int]] = {"drivers": {}, "riders": {}}
    for side, reason, count in written.groupBy("side", "reason").count().sort("side", "reason").collect():
        counts[side][reason] = count
    if not any(counts.values()):
        shutil.rmtree(kept)
    elif not target.is_path:
        endpoint = open_endpoint(target, options.kafka)
        endpoint.append(_letters(written), endpoint.dead_stream)
    return counts


def _letters(dead: DataFrame) -> DataFrame:
    headers = F.array(
        *(
            F.struct(F.lit(f"{DEAD_PREFIX}{name}").alias("key"), F.col(name).cast("binary").alias("value"))
            for name in ("side", "source", "reason")
        )
    )
    return dead.select(F.col("original").cast("binary").alias("value"), headers.alias("headers"))


# What a batch of a running match adds to its target: staged, and moved there once it is committed.

_LETTERS: Final = pa.schema([(name, pa.string()) for name in DEAD_COLUMNS])
_STAMP: Final = pa.timestamp("us", tz="UTC")
#: Matches as they are written.
MATCHES: Final = pa.schema(
    [
        ("rider_id", pa.string()),
        ("rider_ts", _STAMP),
        ("driver_id", pa.string()),
        ("distance_m", pa.float64()),
        ("driver_ts", _STAMP),
        ("rank", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Written:
    """Where the batches go: a folder, which has the metrics too, and a topic where that is the target."""

    folder: Path
    target: Address
    options: Options

    def stage(
        self,
        spark: SparkSession,
        staging: Path,
        batch: int,
        matches: pa.Table,
        letters: Sequence[Mapping[str, str | None]],
        offers: pa.Table,
    ) -> dict[str, dict[str, int]]:
        """Write the rows of a batch to its staging folder, and to a topic at once; dead letters by side and reason."""
        folder = staging / _matches(batch)
        # A quiet stream leaves no folder a batch; the first one shows that there are none yet.
        if len(matches) or not batch:
            folder.mkdir(parents=True)
            pq.write_table(matches, folder / "part-00000.parquet")
        dead = self._dead(spark, staging, batch, letters)
        # Frames are made only where something is done with them: each costs jobs of its own.
        if self.options.assign and len(matches):
            made = staging / "offers" / f"batch={batch}"
            made.mkdir(parents=True)
            pq.write_table(offers_of(offers, self.options), made / "part-00000.parquet")
        if not self.target.is_path and len(matches):
            written = spark.read.parquet(f"file://{folder}")
            open_endpoint(self.target, self.options.kafka).append(as_messages(written), self.target.name)
        return dead

    def _dead(
        self, spark: SparkSession, staging: Path, batch: int, letters: Sequence[Mapping[str, str | None]]
    ) -> dict[str, dict[str, int]]:
        """Write dead letters, where there are any: how many of each side and reason."""
        counts: dict[str, dict[str, int]] = {"drivers": {}, "riders": {}}
        for letter in letters:
            side, reason = str(letter["side"]), str(letter["reason"])
            counts[side][reason] = counts[side].get(reason, 0) + 1
        if letters:
            folder = staging / "_dead" / f"batch={batch}"
            folder.mkdir(parents=True)
            table = pa.table({name: [letter[name] for letter in letters] for name in DEAD_COLUMNS}, schema=_LETTERS)
            pq.write_table(table, folder / "part-00000.parquet")
            if not self.target.is_path:
                endpoint = open_endpoint(self.target, self.options.kafka)
                endpoint.append(_letters(spark.read.parquet(f"file://{folder}")), endpoint.dead_stream)
        return {side: dict(sorted(found.items())) for side, found in counts.items()}

    def moved(self, staging: Path, batch: int, figures: Figures) -> tuple[str, ...]:
        """Write the figures too, and return what is to be moved."""
        metrics = staging / "_metrics"
        metrics.mkdir()
        (metrics / f"{batch:010d}.json").write_text(json.dumps(figures.metrics), encoding="utf-8")
        names = [f"_metrics/{batch:010d}.json"]
        folders = [_matches(batch)] if self.target.is_path else []
        found = [*folders, f"offers/batch={batch}", f"_dead/batch={batch}"]
        return (*(name for name in found if (staging / name).exists()), *names)


def _matches(batch: int) -> str:
    return f"matches/batch={batch}"
