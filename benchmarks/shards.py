"""Hash keys a second, plans of 10,000 shards, how even 10,000 accounts lie, calls beside the least, lanes on Spark.

The tree of nodes that an article on hash keys describes, which counts its halves by walking them, is the peer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

from benchmarks.timing import Figure
from keylane.contract.shards import SPACE
from keylane.keyspace.cuts import at_most
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.key_tree import KeyTree, handed_out_anew
from keylane.keyspace.layout import layout_to_json, new_layout
from keylane.keyspace.load import from_points
from keylane.keyspace.reshard import difference, resharding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from keylane.keyspace.load import LoadCurve

KEYS, PART = 1_000_000, 100_000
WALKED = 3_200
SHARDS, BINS = 10_000, 1_000_000
ACCOUNTS, OVER = 10_000, 32
LANES, MERCHANTS, ROWS, ROUNDS = 64, 1_000_000, 10_000_000, 5


def run() -> Iterator[Figure]:
    """The table of the key space."""
    yield from _handed_out()
    yield from _planned()
    yield from _calls()
    yield from _even()
    yield from _on_spark()


def _handed_out() -> Iterator[Figure]:
    """Processor time, because other work on the machine is none of the tree's."""
    walked = _seconds_of_walking(WALKED)
    tree, rates = KeyTree(), []
    for _ in range(KEYS // PART):
        begin = process_time()
        for _ in range(PART):
            tree.take()
        rates.append(PART / (process_time() - begin))
    yield Figure("next balanced key, first 100,000", rates[0], "keys/s", at_least=50_000)
    yield Figure("next balanced key, last 100,000 of 1 M", rates[-1], "keys/s", at_least=50_000)
    flat = median(rates[len(rates) // 2 :]) / median(rates[: len(rates) // 2])
    yield Figure("next balanced key, second half of 1 M over the first", flat, "ratio", at_least=0.8)
    begin = process_time()
    tree.add(5)
    yield Figure("  the first foreign key behind 1 M", process_time() - begin, "s")
    begin = process_time()
    for _ in range(PART):
        tree.take()
    beside = PART / (process_time() - begin)
    yield Figure("  next balanced key beside it", beside, "keys/s", at_least=50_000)
    yield Figure(f"a tree that counts by walking, {WALKED} keys", WALKED / walked, "keys/s")
    yield Figure("next balanced key against it", rates[-1] / (WALKED / walked), "times")


class _Node:
    """A node of the article's tree: a key, and its halves."""

    __slots__ = ("key", "left", "right")

    def __init__(self, key: int) -> None:
        self.key = key
        self.left: _Node | None = None
        self.right: _Node | None = None

    def size(self) -> int:
        return 1 + (self.left.size() if self.left else 0) + (self.right.size() if self.right else 0)


def _seconds_of_walking(keys: int) -> float:
    begin = process_time()
    root = _Node(SPACE // 2)
    for _ in range(keys - 1):
        node, half = root, SPACE // 4
        while True:
            left, right = node.left.size() if node.left else 0, node.right.size() if node.right else 0
            if left <= right:
                if node.left is None:
                    node.left = _Node(node.key - half)
                    break
                node = node.left
            else:
                if node.right is None:
                    node.right = _Node(node.key + half)
                    break
                node = node.right
            half //= 2
    return process_time() - begin


def _planned() -> Iterator[Figure]:
    """The whole command, as a process, from files; processor time of it and all below it."""
    rng = Random(7)
    with tempfile.TemporaryDirectory() as folder:
        layout, loads = Path(folder) / "layout.json", Path(folder) / "loads.csv"
        layout.write_text(json.dumps(layout_to_json(new_layout(SHARDS))))
        rows = [(rng.getrandbits(128), rng.paretovariate(1.3)) for _ in range(BINS)]
        loads.write_text("hash_key,load\n" + "".join(f"{key},{load:.6f}\n" for key, load in rows))
        mean = sum(load for _, load in rows) / SHARDS
        line = ["shards", "plan", "--layout", str(layout), "--load", str(loads), "--cap", str(2 * mean), "-o", "json"]
        for name, more in (("by splits", []), (f"at most {SHARDS}", ["--shards", str(SHARDS)])):
            before = os.times()
            done = subprocess.run([sys.executable, "-m", "keylane", *line, *more], capture_output=True, check=False)
            after = os.times()
            taken = after.children_user + after.children_system - before.children_user - before.children_system
            calls = len(json.loads(done.stdout)["calls"])
            yield Figure(f"shards plan, 10,000 shards, 1 M bins, {name}", taken, "s", at_most=10)
            yield Figure("  calls of that plan", calls, "calls")


def _calls() -> Iterator[Figure]:
    """Between equal and random layouts: calls over the boundaries that differ."""
    rng, worst, peak = Random(3), 0, 0
    for _ in range(300):
        layout = new_layout(rng.randint(1, 200))
        count = rng.randint(1, 200)
        drawn = sorted({0, *(rng.getrandbits(128) for _ in range(count))})
        starts = drawn if rng.random() < 0.5 else new_layout(count).starts
        change = resharding(layout, starts)
        worst = max(worst, abs(len(change.calls) - difference(layout, starts)))
        peak = max(peak, change.peak - max(len(layout.open), len(starts)))
    yield Figure("calls beyond the boundaries that differ, 300 layouts", worst, "calls", at_most=0)
    yield Figure("shards open beyond the larger layout, at worst", peak, "shards")


def _even() -> Iterator[Figure]:
    """10,000 accounts of Zipf 0.8 on 32 shards: MD5, keys handed out, and shards cut where the load is."""
    weights = [int(1e9 / n**0.8) for n in range(1, ACCOUNTS + 1)]
    named = {f"account-{n}": weight for n, weight in enumerate(weights)}
    by_md5 = from_points((hash_key_of(name), weight) for name, weight in named.items())
    given = handed_out_anew((name, 0, weight) for name, weight in named.items())
    by_key = from_points((given[name], weight) for name, weight in named.items())
    shuffled, tree = list(named.values()), KeyTree()
    Random(5).shuffle(shuffled)
    as_they_come = from_points([(tree.take(weight), weight) for weight in shuffled])
    equal = new_layout(OVER)
    cut = at_most(equal, by_md5, 1.19 * by_md5.total / OVER, OVER)
    yield Figure("heaviest account over the mean shard: the least", weights[0] * OVER / sum(weights), "of the mean")
    yield Figure("Zipf 0.8 on 32 equal shards, MD5", _fullest(by_md5, equal.starts), "of the mean")
    yield Figure("  keys handed out as accounts come, by weight", _fullest(as_they_come, equal.starts), "of the mean")
    yield Figure("  keys handed out, heaviest first", _fullest(by_key, equal.starts), "of the mean", at_most=1.20)
    yield Figure("  MD5, shards cut where the load is", _fullest(by_md5, cut.starts), "of the mean", at_most=1.20)
    yield Figure("  calls for that", difference(equal, cut.starts), "calls")


def _on_spark() -> Iterator[Figure]:
    """The lane column beside `xxhash64`, which Spark has anyway; processor time of both, reading included."""
    from pyspark.sql import functions as F

    from benchmarks.contracts import payments
    from benchmarks.timing import least
    from keylane import Router
    from keylane.placement.ranges import KeySpace
    from keylane.spark import lane, local_session

    rng = Random(11)
    space = KeySpace((0, *sorted(rng.getrandbits(128) for _ in range(LANES - 1))))
    keys = {f"merchant_{n:06d}": rng.getrandbits(128) for n in rng.sample(range(MERCHANTS), ACCOUNTS)}
    router = Router(payments("kinesis-md5", lanes=LANES), key_space=space, hash_keys=keys)
    spark = local_session("local[2]", {"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as folder:
        try:
            key = F.format_string("merchant_%06d", F.col("id") % MERCHANTS).alias("merchant_id")
            spark.range(ROWS, numPartitions=4).select(key).write.parquet(f"{folder}/keys")
            frame = spark.read.parquet(f"{folder}/keys")
            columns = {
                "peer": F.pmod(F.xxhash64("merchant_id"), F.lit(LANES)),
                "ours": lane(router),
                "without": lane(Router(router.contract, key_space=space)),
            }
            sides = {name: frame.select(column.alias("lane")) for name, column in columns.items()}
            took = least(ROUNDS, None, **{name: partial(_run, side) for name, side in sides.items()})
        finally:
            spark.stop()
    speed = {name: took["peer"].processors / one.processors for name, one in took.items()}
    name = f"{LANES} unequal shards on Spark, against xxhash64"
    yield Figure(f"{name}", speed["without"], "of its speed")
    yield Figure(f"  with {ACCOUNTS:,} explicit hash keys", speed["ours"], "of its speed", at_least=0.3)


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _fullest(curve: LoadCurve, starts: list[int]) -> float:
    """The fullest of the shards with these starts, over the mean of 32."""
    ends = [*starts[1:], SPACE]
    return max(curve.between(*one) for one in zip(starts, ends, strict=True)) * OVER / curve.total
