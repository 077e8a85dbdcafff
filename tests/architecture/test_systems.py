"""No command and no pipeline asks for a system by its name: what differs between systems is theirs to say."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from scripts.house import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {"kafka", "kinesis", "files"}
#: The registry and the systems themselves; commands that are of Kafka alone, and what only they use.
MAY_NAME = (
    "keylane.systems",
    "keylane.brokers",
    "keylane.documents.brokers",
    "keylane.cli.brokers",
    "keylane.cli.dev",
    "keylane.cli.demo_lesson",
    "keylane.cli.demo_migrate",
    "keylane.pipelines.demo.lesson",
    "keylane.pipelines.demo.migrate",
)
#: Of systems: the modules that belong to no system.
SHARED = tuple(f"keylane.systems.{name}" for name in ("streams", "flow", "journal", "profiles", "atomic"))
PREFIXES = {"startswith", "removeprefix", "partition", "split", "fullmatch", "match"}


def may_name(module: str) -> bool:
    return module.startswith(MAY_NAME) and not module.startswith(SHARED)


def names_in(node: ast.expr) -> Iterator[str]:
    """Names of systems that a side of a comparison is, or lists."""
    listed = node.elts if isinstance(node, ast.Set | ast.Tuple | ast.List) else [node]
    yield from (one.value for one in listed if isinstance(one, ast.Constant) and one.value in NAMES)


def questions(module: str, source: str) -> list[str]:
    """Where a module asks which system an address is of."""
    if may_name(module):
        return []
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute) and node.attr == "system":
            found.append(f"{module}:{node.lineno} asks for .system")
        elif isinstance(node, ast.Compare):
            equal = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
            sides = [*([node.left] if equal else []), *node.comparators]
            found += [f"{module}:{node.lineno} compares with {name}" for side in sides for name in names_in(side)]
        elif isinstance(node, ast.MatchValue):
            found += [f"{module}:{node.lineno} compares with {name}" for name in names_in(node.value)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PREFIXES:
            texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            schemes = [text for text in texts if text.partition(":")[0] in NAMES and ":" in text]
            found += [f"{module}:{node.lineno} looks for {text}" for text in schemes]
    return found


def test_nobody_asks_which_system_it_is(sources: dict[str, str]) -> None:
    assert [question for module, source in sources.items() for question in questions(module, source)] == []


@pytest.mark.parametrize(
    "source",
    [
        'if address.system == "kafka": pass',
        'x = "kafka" if kind != "files" else 1',
        "if {address.system} & known: pass",
        'if system in {"kafka", "kinesis"}: pass',
        'if source.startswith("kafka:"): pass',
        'path.lower().startswith("kafka://")',
        'match name:\n    case "kinesis":\n        pass',
    ],
)
def test_a_planted_question_is_reported(source: str) -> None:
    assert questions("keylane.pipelines.profile", source) != []
    assert questions("keylane.systems.streams", source) != []
    assert questions("keylane.systems.kafka.endpoint", source) == []
    assert questions("keylane.cli.brokers", source) == []


#: Packages that build on what they share (`systems.messages`), which knows none of them.
APART = ("kafka", "kinesis", "messages")


def acquaintances(module: str, source: str) -> list[str]:
    """Imports by which a system, or what systems share, knows a system."""
    room = module.split(".")[2] if module.count(".") > 2 else ""
    others = {f"keylane.systems.{name}" for name in APART if name not in {room, "messages"}} if room in APART else set()
    named = (
        found
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for found in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    )
    return [f"{module} imports {name}" for name in named if name.startswith(tuple(others) or ("-",))]


def test_no_system_knows_another(sources: dict[str, str]) -> None:
    assert [one for module, source in sources.items() for one in acquaintances(module, source)] == []


@pytest.mark.parametrize("module", ["keylane.systems.kinesis.target", "keylane.systems.messages.state"])
def test_a_planted_acquaintance_is_reported(module: str) -> None:
    source = "def f():\n    from keylane.systems.kafka.target import KafkaTarget"
    assert len(acquaintances(module, source)) == 1
    assert acquaintances("keylane.systems.kafka.endpoint", source) == []
    assert acquaintances(module, "from keylane.systems.messages.headers import EPOCH") == []


@pytest.mark.parametrize(
    "source", ['if "files" in facts: pass', 'spark.readStream.format("kafka")', 'name == "kafka-java"']
)
def test_what_is_no_question_is_not_reported(source: str) -> None:
    assert questions("keylane.pipelines.profile", source) == []
