"""The Spark session that the tests of `route` share; those that kill have processes of their own (`worlds`)."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from tests.route.worlds import ROOT, quick_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session of this process. Asked for anew by each module: another test may have stopped it."""
    from keylane.spark import local_session

    os.environ.setdefault("KEYLANE_CACHE", str(ROOT / "build" / "cache"))
    return local_session("local[2]", quick_conf(), app="tests")
