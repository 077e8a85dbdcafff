"""How long a local session takes to its first result, against plain PySpark's default session; whole processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 5
ARCHIVE_SECONDS = 120
FIRST_RESULT = """
print(spark.range(1000).selectExpr("sum(id) AS s").collect(), flush=True)
"""
PLAIN = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()" + FIRST_RESULT
OURS = "from keylane.spark import local_session\nspark = local_session()" + FIRST_RESULT


def run() -> Iterator[Figure]:
    """The first start, which leaves the archive behind, then both sides in turn."""
    with tempfile.TemporaryDirectory() as cache:
        first = _until_result(OURS, cache)
        _wait_for_archive(cache)
        rounds = [(_until_result(PLAIN, cache), _until_result(OURS, cache)) for _ in range(ROUNDS)]
    plain, ours = (min(side) for side in zip(*rounds, strict=True))
    yield Figure("plain PySpark, start to first result", plain, "s")
    yield Figure("local_session, first start to first result", first, "s")
    yield Figure("local_session, second start to first result", ours, "s")
    yield Figure("local_session, from the second start, against plain", ours / plain, "of its time", at_most=0.65)


def _until_result(program: str, cache: str) -> float:
    """Seconds from the start of a process to its line. Its end is waited for, so that it disturbs no other."""
    environment = {**os.environ, "KEYLANE_CACHE": cache, "PYSPARK_PYTHON": sys.executable}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    seconds = time.perf_counter() - start
    assert line.startswith("[Row(s="), line
    process.communicate(timeout=60)
    return seconds


def _wait_for_archive(cache: str) -> None:
    """Java writes it after Python has ended, its header last."""
    end = time.monotonic() + ARCHIVE_SECONDS
    while not any(any(path.read_bytes()[:4]) for path in Path(cache).iterdir()):
        assert time.monotonic() < end, "the first session left no archive"
        time.sleep(0.5)
