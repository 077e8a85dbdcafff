"""Tests of the Spark room itself; that it places as the router does is held in `tests/parity`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
