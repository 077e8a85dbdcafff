"""What a running `match` costs against Spark's own state store that only keeps pings, by driver and by lane.

The peer is two chained `transformWithStateInPandas` on RocksDB with as many partitions as lanes. The first keeps each
driver's last ping for its block of drivers, the second for its lane; neither makes tombstones, looks for anyone or lets
requests wait. `match --follow` reads the same files, does all of that, and commits. This is why its state is in
files of its own; see `docs/architecture.md`.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.match import CONTRACT, LANES, RADIUS
from benchmarks.match_traffic import hashed_lanes, make_traffic
from benchmarks.timing import Figure, best
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

PINGS, REQUESTS = 100_000, 2_000
FILES: Final = 4
COLUMNS: Final = "id string, ts bigint, lat double, lng double, available boolean, home int"
STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def run() -> Iterator[Figure]:
    """Seconds of both, and their ratio."""
    from keylane.spark import local_session

    conf = {"spark.sql.shuffle.partitions": str(LANES), "spark.sql.streaming.stateStore.providerClass": STORE}
    spark, numbers = local_session(conf=conf), count()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        seconds = best(
            2,
            match=lambda: _followed(spark, folder, folder / f"m{next(numbers)}"),
            store=lambda: _kept(spark, folder, folder / f"s{next(numbers)}"),
        )
    spark.stop()
    yield Figure("match --follow, whole, against keeping state in Spark", seconds["match"] / seconds["store"], "times")
    for side, what in (("match", "match --follow"), ("store", "Spark's state store, keeping alone")):
        yield Figure(f"{what}, {FILES} batches, {LANES} lanes", seconds[side] / FILES, "s a batch")


def _fill(folder: Path) -> None:
    """Both sources as files in the order of time; pings with the lane that the peer would have to find."""
    from keylane.geo.cells import cells_of

    drivers, riders = make_traffic(PINGS, REQUESTS, seed=7)
    cells = cells_of(drivers.column("lat").to_numpy(), drivers.column("lng").to_numpy())
    for name, table in (
        ("pings", drivers.append_column("home", pa.array(hashed_lanes(LANES).of(cells)))),
        ("requests", riders),
    ):
        (folder / name).mkdir()
        step = -(-len(table) // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * step, step), folder / name / f"{number}.parquet")


def _followed(spark: SparkSession, folder: Path, target: Path) -> None:
    from keylane.pipelines.match.follow import Following, follow
    from keylane.pipelines.match.options import Options

    how = Following(available_now=True, max_files=1)
    sources = str(folder / "pings"), str(folder / "requests")
    found = follow(*sources, str(target), Options(radius=RADIUS), how, contract=parse_contract(CONTRACT), spark=spark)
    assert found.pings == PINGS


def _kept(spark: SparkSession, folder: Path, state: Path) -> None:
    from pyspark.sql import functions as F

    pings = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "pings"))
    by_driver = pings.withColumn("block", F.pmod(F.hash("id"), F.lit(LANES))).groupBy("block")
    by_lane = by_driver.transformWithStateInPandas(newest(), COLUMNS, "append", "none").groupBy("home")
    kept = by_lane.transformWithStateInPandas(newest(), COLUMNS, "append", "none")
    query = kept.writeStream.foreachBatch(_nowhere).option("checkpointLocation", str(state))
    query.trigger(availableNow=True).start().awaitTermination()


def _nowhere(frame: DataFrame, _batch: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def newest() -> Any:
    """An operator that keeps each driver's last ping, all of a group as one value, and passes its rows on."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Newest(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._pings = handle.getValueState("pings", "pings binary")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            import pandas as pd

            new = pd.concat(list(rows), ignore_index=True)
            known = self._pings.get()
            every = pd.concat([pd.read_pickle(_stream(known[0])), new]) if known else new
            last = every.sort_values("ts").drop_duplicates("id", keep="last")
            self._pings.update((_bytes(last),))
            yield new.drop(columns=["block"], errors="ignore")

        def close(self) -> None:
            pass

    return Newest()


def _stream(value: bytes) -> Any:
    from io import BytesIO

    return BytesIO(value)


def _bytes(frame: pd.DataFrame) -> bytes:
    from io import BytesIO

    out = BytesIO()
    frame.to_pickle(out)
    return out.getvalue()
