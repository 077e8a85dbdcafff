"""Errors of Spark, of Java and of the disk in keylane's words."""

from __future__ import annotations

import errno

import pytest
from pyspark.errors import AnalysisException, PySparkException

from keylane.errors import DataError, SparkError, TargetError, UsageError, cause
from keylane.spark.context import translated

JAVA = """An error occurred while calling o1.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.Here.there(Here.scala:1)
Caused by: java.io.IOException: not the first
Caused by: java.io.EOFException: Unexpected end of input stream
\t... 34 more
"""
PYTHON = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'keylane'
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (JAVA, "java.io.EOFException: Unexpected end of input stream"),
        (JAVA.partition("Caused")[0], "org.apache.spark.SparkException: Job aborted due to stage failure"),
        (PYTHON, "ModuleNotFoundError: No module named 'keylane'"),
        ("\n one line \n and another", "one line"),
        ("", ""),
    ],
)
def test_what_is_at_the_bottom_of_it(text: str, told: str) -> None:
    assert cause(text) == told


def test_a_full_disk_by_number_or_by_words() -> None:
    for error in (OSError(errno.ENOSPC, "?"), PySparkException("java.io.IOException: No space left on device")):
        found = translated(error, 3)
        assert isinstance(found, TargetError)
        assert "batch 3" in str(found)


def test_a_file_that_spark_cannot_read_is_named() -> None:
    told = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a b.gz.  SQLSTATE: KD001"
    found = translated(PySparkException(f"{told}\n{JAVA}"))
    assert isinstance(found, DataError)
    assert "/in/a b.gz" in str(found)


def test_a_record_whose_time_spark_cannot_read_is_named() -> None:
    told = "Exception: Record at topic raw.x partition 3 offset 17 has timestamp value 4611686018427387904"
    found = translated(
        PySparkException(f"{told} that overflows\nCaused by: java.lang.ArithmeticException: long overflow"), 2
    )
    assert isinstance(found, DataError)
    assert "record raw.x/3/17" in str(found)
    assert "4611686018427387904 milliseconds" in str(found)


def test_a_worker_without_keylane_gets_a_hint() -> None:
    found = translated(PySparkException(PYTHON), 0)
    assert isinstance(found, SparkError)
    assert str(found).endswith("docs/how-to/clusters.md")
    assert "Python workers" in str(found)
    assert "hint" not in str(translated(PySparkException(JAVA), 0))


def test_columns_that_spark_refuses_are_the_datas_fault() -> None:
    found = translated(AnalysisException("[SOME_CLASS] no such column\nand its plan"), 0)
    assert isinstance(found, DataError)
    assert "plan" not in str(found)


def test_own_errors_and_strange_ones_pass() -> None:
    for error in (UsageError("mine"), ZeroDivisionError("planted"), OSError(errno.EACCES, "no")):
        assert translated(error, 0) is error
