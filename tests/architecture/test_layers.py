"""Who may import whom, and which library is known in which room. Read from the syntax of every source file."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from scripts.house import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The way a record goes. A room imports from its own floor and from those above it.
FLOORS: list[tuple[str, ...]] = [
    ("first_moment", "moved", "errors", "extras", "records", "private", "numbers", "formulas"),
    ("geo",),
    ("contract",),
    ("keys",),
    ("hashing",),
    ("placement",),
    ("keyspace",),
    ("groups",),
    ("router", "batch_router"),
    ("matching",),
    ("migration",),
    ("aggregation",),
    ("history",),
    ("documents",),
    ("measure",),
    ("profile",),
    ("plan",),
    ("brokers",),
    ("testing",),
    ("spark",),
    ("systems",),
    ("pipelines",),
    ("report",),
    ("api",),
    ("cli",),
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
#: The names of the package, which load on first use, and `python -m keylane`: they stand before all rooms.
DOORS = ("", "__main__")

ARRAYS = {"numpy", "pyarrow"}
SDKS = {"kazoo", "confluent_kafka", "fastavro", "kafka", "aiokafka", "boto3", "botocore", "google"}
LIBRARIES: dict[str, set[str]] = {
    "aggregation": {"sqlglot"},
    "contract": {"pydantic", "pydantic_core", "yaml"},
    "documents": {"pydantic", "pydantic_core"},
    "keys": ARRAYS,
    "hashing": ARRAYS,
    "placement": ARRAYS,
    "batch_router": ARRAYS,
    "geo": {"h3", "numpy"},
    "keyspace": ARRAYS,
    "groups": ARRAYS,
    "matching": ARRAYS | {"scipy"},
    "profile": ARRAYS,
    "measure": ARRAYS,
    "plan": ARRAYS,
    "brokers": ARRAYS,
    "history": ARRAYS,
    "spark": ARRAYS | {"pyspark", "py4j"},
    "systems": ARRAYS | SDKS,
    "pipelines": ARRAYS | {"pyspark", "py4j"},
    "cli": {"click"},
    "api": {"click"},
    "testing": ARRAYS,
}
#: Libraries a room may speak of in its types and must not load.
TYPES_ONLY: dict[str, set[str]] = {"router": ARRAYS, "systems": {"pyspark"}, "api": ARRAYS | {"pyspark"}}

PURE = {
    "aggregation",
    "geo",
    "matching",
    "contract",
    "keys",
    "hashing",
    "placement",
    "router",
    "batch_router",
    "profile",
    "plan",
} | {
    "brokers",
    "documents",
    "groups",
    "history",
    "keyspace",
    "migration",
}
CHANCE = {"random", "secrets", "time"}
CLOCKS = {"now", "utcnow", "today"}
#: Whose they are: a contract of today is none.
TELLING = {"datetime", "date"}


class Import(NamedTuple):
    target: str
    types_only: bool
    line: int


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def imports(source: str) -> Iterator[Import]:
    """Every import of a source: at the top, inside functions, and those for types only."""
    tree = parsed(source)
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, id(node) in guarded, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = (
                [f"keylane.{alias.name}" for alias in node.names] if node.module == "keylane" else [str(node.module)]
            )
            yield from (Import("." * node.level + name, id(node) in guarded, node.lineno) for name in names)


def layer_problems(module: str, source: str) -> list[str]:
    """Imports of keylane that go down, or by a relative path."""
    room, problems = room_of(module), []
    for found in imports(source):
        target = room_of(found.target)
        if found.target.startswith("."):
            problems.append(f"{module}:{found.line} is relative")
        elif found.target.partition(".")[0] != "keylane" or target == room or room in DOORS or target == "__version__":
            continue
        elif FLOOR[target] > FLOOR[room]:
            problems.append(f"{module}:{found.line} imports {found.target}")
    return problems


def library_problems(module: str, source: str) -> list[str]:
    """Libraries outside their rooms."""
    room, problems = room_of(module), []
    for found in imports(source):
        library = found.target.partition(".")[0]
        if library in sys.stdlib_module_names or library == "keylane":
            continue
        allowed = LIBRARIES.get(room, set()) | (TYPES_ONLY.get(room, set()) if found.types_only else set())
        if library not in allowed:
            problems.append(f"{module}:{found.line} imports {found.target}")
    return problems


def purity_problems(module: str, source: str) -> list[str]:
    """Chance and clocks in the rooms that must give the same answer tomorrow."""
    if room_of(module) not in PURE:
        return []
    nodes = ast.walk(parsed(source))
    clocks = [node for node in nodes if isinstance(node, ast.Attribute) and is_clock(node)]
    return [
        *(f"{module}:{found.line} imports {found.target}" for found in imports(source) if found.target in CHANCE),
        *(f"{module}:{node.lineno} asks for {node.attr}" for node in clocks),
    ]


def is_clock(node: ast.Attribute) -> bool:
    return node.attr in CLOCKS and ast.unparse(node.value).rpartition(".")[2] in TELLING


def test_every_room_has_its_floor(sources: dict[str, str]) -> None:
    assert {room_of(module) for module in sources} - set(DOORS) == set(FLOOR)


def test_a_room_imports_only_from_those_above_it(sources: dict[str, str]) -> None:
    assert [problem for module, source in sources.items() for problem in layer_problems(module, source)] == []


def test_a_library_is_known_only_in_its_rooms(sources: dict[str, str]) -> None:
    assert [problem for module, source in sources.items() for problem in library_problems(module, source)] == []


def test_nothing_pure_knows_chance_or_a_clock(sources: dict[str, str]) -> None:
    assert [problem for module, source in sources.items() for problem in purity_problems(module, source)] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("keylane.errors", "from keylane.contract.names import HASHES"),
        ("keylane.contract.model", "import keylane.router"),
        ("keylane.keys.read", "def f():\n    from keylane.hashing import HASHES"),
        ("keylane.hashing.md5", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from keylane import router"),
        ("keylane.measure.skew", "from keylane.systems.files.data import read"),
        ("keylane.measure.hot_lanes", "from keylane.plan.cost import cost"),
        ("keylane.plan.cost", "from keylane.spark.columns import lane"),
        ("keylane.brokers.layout", "from keylane.systems.kafka.reassign import observed"),
        ("keylane.history.check", "from keylane.spark.history import judged"),
        ("keylane.testing.folders", "from keylane.systems.folders.folder import read_head"),
        ("keylane.router", "from keylane.testing.golden import hash_vectors"),
        ("keylane.documents.profile", "from keylane.profile.model import Profile"),
        ("keylane.measure.trace", "from keylane.profile.build import LANE"),
        ("keylane.api.verbs", "def plan():\n    from keylane.cli.plan import request_of"),
        ("keylane.keys.read", "from .encode import encode"),
    ],
    ids=[
        "up",
        "plain import",
        "inside a function",
        "for types",
        "side door",
        "measure of plan",
        "plan on Spark",
        "plan on a system",
        "testing on Spark",
        "testing of systems",
        "of testing",
        "a shape of its maker",
        "measure of a profile",
        "the library on the command line",
        "relative",
    ],
)
def test_a_planted_import_against_the_order_is_reported(module: str, source: str) -> None:
    assert len(layer_problems(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("keylane.router", "import pyarrow as pa"),
        ("keylane.contract.model", "import numpy"),
        ("keylane.cli.main", "import yaml"),
        ("keylane.documents.plan", "import numpy"),
        ("keylane.measure.skew", "from confluent_kafka import Producer"),
        ("keylane.measure.balance", "import h3"),
        ("keylane.plan.sizing", "import scipy"),
        ("keylane.systems.files.data", "import pyspark"),
        ("keylane", "import numpy"),
    ],
)
def test_a_planted_library_outside_its_room_is_reported(module: str, source: str) -> None:
    assert len(library_problems(module, source)) == 1


@pytest.mark.parametrize(
    "source",
    ["import random", "from time import monotonic", "def f():\n    from datetime import datetime\n    datetime.now()"],
)
def test_planted_chance_or_a_clock_is_reported(source: str) -> None:
    assert len(purity_problems("keylane.placement.keyless", source)) == 1
    assert purity_problems("keylane.cli.main", source) == []


@pytest.mark.parametrize(
    "module",
    ["pipelines.route", "pipelines.profile", "systems.kafka.target", "plan.choose", "cli.main", "cli.plan"],
)
def test_what_is_no_place_needs_no_library_of_places(module: str) -> None:
    code = f"import sys\nfor name in ('h3', 'scipy'): sys.modules[name] = None\nimport keylane.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_what_is_read_without_spark_is_imported_without_it() -> None:
    """Endpoints and what `identify`, `check` and `verify` read through them; the twin: what scans needs Spark."""
    modules = ["files.endpoint", "files.data", "files.stream", "kafka.endpoint", "kafka.data", "kafka.stream"]
    code = "import sys\nsys.modules['pyspark'] = None\nimport {}"
    without = code.format(", ".join(f"keylane.systems.{name}" for name in modules))
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    twin = [sys.executable, "-c", code.format("keylane.systems.kafka.frames")]
    assert subprocess.run(twin, capture_output=True, text=True, check=False).returncode != 0
