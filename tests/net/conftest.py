"""What the Spark part of the net shares: folders that were routed, profiled and matched once, in the run's session."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.net.fixed_inputs import contract_file, write_source
from tests.net.running import keylane

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.net.running import Ended

if any(find_spec(name) is None for name in ("pyspark", "h3", "scipy")):
    collect_ignore_glob = ["test_commands.py", "test_formats.py"]


class Routed(NamedTuple):
    """A folder with `in`, `out` and `tier-changed.yaml`, and how the two runs that filled `out` ended."""

    base: Path
    first: Ended
    second: Ended

    @property
    def contract(self) -> Path:
        return self.base / "tier-changed.yaml"


@pytest.fixture(scope="session")
def routed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Routed:
    """Three files in batches of two, some of their keys null; then two files more, all of them right."""
    base = tmp_path_factory.mktemp("net")
    contract = contract_file(base, "tier", lanes=4, key={"fields": ["k"], "on_null": "reject"})
    asked = ["route", contract, "--from", base / "in", "--to", base / "out", "--max-files", 2, "-o", "json"]
    write_source(base / "in", range(3), nulls=True)
    first = keylane(*asked)
    write_source(base / "in", range(3, 5))
    return Routed(base, first, keylane(*asked))
