"""Whatever the documentation of version 0.1 imported can still be imported, and warns where it has moved."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module

import pytest

from keylane.moved import MOVED, PACKAGES, Moved

#: Every `from keylane… import …` of docs/ and the README at version 0.1 and since, beyond `keylane` itself.
DOCUMENTED = {
    "budget.layout": "Broker Lane Layout figures",
    "budget.rebalance": "kafka_json reassignment",
    "cli.main": "main",
    "contract.moved": "moved_share",
    "contract.fingerprint": "placement_fingerprint",
    "contract.schema": "FILES",
    "errors": "ContractError LaneCountError UnknownNameError UsageError UnplacedError DataError TargetError CountError"
    " SparkError JarError BrokerError MissingExtraError",
    "geo.bits": "ancestor",
    "geo.cells": "cell_of",
    "geo.pack": "pack_along_curve pack_by_hour",
    "geo.rebalance": "Rebalanced hour_cvs rebalance",
    "geo.split": "Leaves split",
    "hashing.fnv1a": "fnv1a",
    "hashing.java": "java_long java_string",
    "hashing.kafkajs_legacy": "kafkajs_legacy",
    "hashing.murmur2": "murmur2",
    "measure.alarm": "alarm",
    "pipelines.geo_table": "geo_table",
    "pipelines.match.options": "Options",
    "pipelines.match.stream": "Following follow",
    "pipelines.profile": "Options profile",
    "pipelines.route": "Options route",
    "placement.accounts": "concentrate",
    "placement.fold": "absolute masked positive unsigned",
    "placement.ranges": "SPACE range_start",
    "plan.budget": "Broker Lane Layout figures",
    "plan.ceiling": "useful_lanes",
    "plan.make": "Question make_plan",
    "plan.reassign": "kafka_json reassignment",
    "plan.written": "Means",
    "spark": "lane local_session route",
    "spark.history": "judged",
    "spark.session": "missing_in",
    "systems.broker": "librdkafka_settings running",
    "systems.broker.faults": "kill9 paused restart",
    "systems.jars": "connector_settings",
    "systems.kafka": "KeyedProducer kafka_python_partitioner kafka_python_settings producer_settings",
    "systems.kinesis": "put_arguments",
    "systems.profiles": "read_profile",
    "testing.golden": "client_placements",
    "testing.history": "Settings check rows",
}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Old names are imported anew by each test, so that each sees the warning."""
    for old in MOVED.keys() | {one for one in PACKAGES if one == "budget"}:
        sys.modules.pop(f"keylane.{old}", None)


@pytest.mark.parametrize("module", DOCUMENTED)
def test_a_documented_name_is_there(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        loaded = import_module(f"keylane.{module}")
        missing = [name for name in DOCUMENTED[module].split() if not hasattr(loaded, name)]
    assert missing == []


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_module_that_has_moved_warns_with_its_new_name_and_is_the_same_module(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^keylane\.{old} has moved: import keylane\.{new}$"):
        loaded = import_module(f"keylane.{old}")
    assert loaded is import_module(f"keylane.{new}")
    assert loaded.__name__ == f"keylane.{new}"


def test_every_module_that_has_moved_was_documented() -> None:
    assert set(MOVED) <= set(DOCUMENTED)


@pytest.mark.parametrize(
    "name",
    [
        "keylane.budget.other",
        "budget",
        "keylane.plan.maker",
        "keylane.told",
        "keylane.pipelines.kafka.run",
        "plan.make",
    ],
)
def test_a_name_that_never_was_is_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module(name)


def test_the_warning_names_the_line_that_imports() -> None:
    code = "import warnings\nwarnings.simplefilter('error')\n\nfrom keylane.plan.ceiling import useful_lanes"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "line 4, in <module>" in done.stderr
    assert done.stderr.endswith("DeprecationWarning: keylane.plan.ceiling has moved: import keylane.plan.bounds\n")


def test_an_import_of_keylane_loads_no_module_that_has_moved() -> None:
    code = "import sys, keylane\nprint(sorted(name for name in sys.modules if name.startswith('keylane')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['keylane', 'keylane.first_moment', 'keylane.moved']\n"
    assert sum(isinstance(finder, type) and finder is Moved for finder in sys.meta_path) == 1
