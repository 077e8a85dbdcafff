"""Tests of `match` as a whole, on Spark; the rules of matching themselves are held in `tests/unit/matching`."""

from __future__ import annotations

from importlib.util import find_spec

if any(find_spec(name) is None for name in ("pyspark", "h3", "scipy")):
    collect_ignore_glob = ["test_*.py"]
