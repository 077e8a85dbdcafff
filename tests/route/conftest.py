"""Tests of `route` use the session of the whole run; those that kill, processes of their own (`killable_routes`)."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]
