"""How the lane column compares with the hash that Spark has anyway, `pmod(xxhash64(key), n)`, classic and Connect.

20 M keys of 15 bytes in Parquet, read, hashed and thrown away (Spark's noop sink): the ratio holds the reading of both
sides. A spread is held against the same frame routed without it; half of its records are of the one key.

`python -m benchmarks.spark_columns URL FOLDER` is the Connect side, which needs a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contracts import payments
from benchmarks.timing import Figure, best

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

ROWS = 20_000_000
ROUNDS = 7
MASTER = "local[2]"
OVER_CONNECT = ("xxhash64", "murmur2", "md5_64", "xxhash64_long", "long", "routed", "spread")
SPREAD = "\n  hot_keys: [{keys: [merchant_000042], spread: {over: 8, by: merchant_id}}]"


def run() -> Iterator[Figure]:
    """Classic, then Connect, on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _classic(f"{folder}/keys")
        yield from _connect(f"{folder}/keys")


def _classic(path: str) -> Iterator[Figure]:
    from keylane.spark import local_session

    spark = local_session(MASTER, {"spark.driver.memory": "4g"})
    try:
        _write(spark, path)
        seconds = best(ROUNDS, **_sides(spark, path))
    finally:
        spark.stop()
    yield Figure("xxhash64 lane on Spark, the peer", ROWS / seconds["xxhash64"] / 1e6, "M records/s")
    yield _against(seconds, "murmur2", "murmur2 lane on Spark", 1 / 1.15)
    yield _against(seconds, "md5_64", "MD5 range lane on Spark, 64 shards", 1 / 4.5)
    yield _against(seconds, "md5_4096", "MD5 range lane on Spark, 4,096 shards", 1 / 4.5)
    yield _against(seconds, "crc32", "CRC32 lane on Spark")
    yield _against(seconds, "long", "murmur2 lane of 8-byte keys on Spark", peer="xxhash64_long")
    yield _spread(seconds, "half the records spread over 8 lanes by sub-key")


def _connect(path: str) -> Iterator[Figure]:
    from benchmarks.spark_server import connect_server

    with connect_server(MASTER, {"spark.driver.memory": "4g"}) as url:
        command = [sys.executable, "-m", "benchmarks.spark_columns", url, path]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    seconds = json.loads(done.stdout.splitlines()[-1])
    yield _against(seconds, "murmur2", "murmur2 lane over Spark Connect", 1 / 4)
    yield _against(seconds, "md5_64", "MD5 range lane over Spark Connect, 64 shards")
    yield _against(seconds, "long", "murmur2 lane of 8-byte keys over Spark Connect", peer="xxhash64_long")
    yield _spread(seconds, "the same spread over Spark Connect")


def _against(
    seconds: dict[str, float], side: str, name: str, at_least: float | None = None, peer: str = "xxhash64"
) -> Figure:
    return Figure(f"{name}, against xxhash64", seconds[peer] / seconds[side], "of its speed", at_least=at_least)


def _spread(seconds: dict[str, float], name: str) -> Figure:
    return Figure(f"{name}, against none", seconds["routed"] / seconds["spread"], "of its speed")


def _write(spark: SparkSession, path: str) -> None:
    from pyspark.sql import functions as F

    key = F.format_string("merchant_%06d", F.col("id") % 1_000_000)
    hot = F.when(F.col("id") % 2 == 0, F.lit("merchant_000042")).otherwise(key)
    columns = key.alias("merchant_id"), hot.alias("hot_id"), (F.col("id") * 7919).alias("n")
    spark.range(ROWS, numPartitions=4).select(*columns).write.parquet(path)


def _sides(spark: SparkSession, path: str) -> dict[str, Callable[[], None]]:
    from pyspark.sql import functions as F

    from keylane.spark import lane
    from keylane.spark import with_placements as route

    key, number = F.col("merchant_id"), F.col("n")
    columns = {
        "xxhash64": F.pmod(F.xxhash64(key), F.lit(64)),
        "murmur2": lane(payments()),
        "md5_64": lane(payments("kinesis-md5")),
        "md5_4096": lane(payments("kinesis-md5", lanes=4096)),
        "crc32": lane(payments("librdkafka-consistent")),
        "xxhash64_long": F.pmod(F.xxhash64(number), F.lit(64)),
        "long": lane(payments(key="{fields: [n], encoding: int64be}")),
    }
    frame = spark.read.parquet(path)
    frames = {name: frame.select(column.alias("lane")) for name, column in columns.items()}
    hot = "{fields: [hot_id]}"
    frames["routed"] = route(frame, payments(key=hot)).select("lane")
    frames["spread"] = route(frame, payments(key=hot + SPREAD)).select("lane")
    return {name: partial(_run, routed) for name, routed in frames.items()}


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _client(url: str, path: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    sides = {name: side for name, side in _sides(spark, path).items() if name in OVER_CONNECT}
    print(json.dumps(best(ROUNDS, **sides)))


if __name__ == "__main__":
    _client(*sys.argv[1:3])
