"""Tests of `aggregate` as a whole, on Spark; what a query is, and the lanes, are held in `tests/unit/aggregation`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
