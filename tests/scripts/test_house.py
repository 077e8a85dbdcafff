"""The figures of `scripts/house.py` on made-up trees, each with a twin that does not count; and traced walks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from scripts import house, walk

if TYPE_CHECKING:
    from pathlib import Path


def tree(folder: Path, **sources: str) -> Path:
    """A package of modules; `cli__main` is `cli/main.py`, and packages get an empty `__init__`."""
    package = folder / "keylane"
    for name, source in {"__init__": "", **sources}.items():
        path = package / (name.replace("__", "/") if name != "__init__" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(source)
        if not (path.parent / "__init__.py").exists():
            (path.parent / "__init__.py").write_text("")
    return package


def figure(name: str, package: Path) -> house.Figure:
    return next(one for one in house.figures(package) if one.name == name)


def test_modules_and_lines_are_counted_as_they_are(tmp_path: Path) -> None:
    package = tree(tmp_path, cli__main="a = 1\n", errors="b = 1\nc = 2\n")
    values = {one.name: one.value for one in house.figures(package)}
    assert (values["modules"], values["plain_modules"], values["lines"]) == (4, 2, 3)


@pytest.mark.parametrize(
    "source",
    [
        'if address.system == "kafka": pass',
        'if kind != "files": pass',
        'if kind in ("kafka", "kinesis"): pass',
        'if {"kafka"} & {one.system for one in every}: pass',
        "run = TABLE[address.system]",
        "run = TABLE.get(address.system)",
        "match address.system:\n    case _: pass",
        'if text.startswith("kafka:"): pass',
        "from keylane.systems.kafka.endpoint import Topics\nif isinstance(found, Topics): pass",
    ],
)
def test_a_place_that_asks_for_a_system_counts_outside_its_package_only(tmp_path: Path, source: str) -> None:
    package = tree(tmp_path, pipelines__route=source, systems__kafka__data=source, systems__endpoint=source)
    assert [item.partition(":")[0] for item in figure("asks", package).items] == ["pipelines.route"]


@pytest.mark.parametrize(
    "source",
    [
        'extra = "kafka"',
        'if "files" in document: pass',
        'if text.startswith("kafka-java"): pass',
        "if address.authority == where: pass",
        "if isinstance(found, dict): pass",
    ],
)
def test_what_asks_for_no_system_does_not_count(tmp_path: Path, source: str) -> None:
    assert figure("asks", tree(tmp_path, pipelines__route=source)).value == 0


def test_imports_of_a_systems_modules_count_in_pipelines_and_commands(tmp_path: Path) -> None:
    reach = "def f():\n    from keylane.systems.kafka import data\n"
    package = tree(tmp_path, cli__route=reach, spark__frames=reach, systems__kafka__data="", systems__streams=reach)
    assert figure("reaches", package).items == ("cli.route:2  systems.kafka.data",)


def test_untyped_dicts_count_in_signatures_also_by_an_alias(tmp_path: Path) -> None:
    alias = (
        "from typing import Any\nDocument = dict[str, Any]\ndef f(a: Document, b: int) -> dict[str, Any] | None: ...\n"
    )
    other = "from keylane.report import Document\ndef g(*, many: list[Document]) -> None: ...\n"
    twin = (
        "Document = dict[str, int]\ndef h(a: Document) -> dict[str, int]:\n    b: dict[str, Any] = {}\n    return b\n"
    )
    found = figure("dicts", tree(tmp_path, report=alias, cli=other, plan=twin)).items
    assert [item.split("  ")[1] for item in found] == [
        "g: list[Document]",
        "f: Document",
        "f: dict[str, Any] | None",
    ]


def test_class_names_that_two_modules_define_are_named(tmp_path: Path) -> None:
    package = tree(tmp_path, a="class Plan: ...\nclass _Own: ...", b="class Plan: ...\nclass _Own: ...\nclass One: ...")
    assert figure("classes", package).items == ("Plan  a, b",)


def test_a_cycle_counts_also_where_an_import_stands_in_a_function(tmp_path: Path) -> None:
    lazy = "def f():\n    from keylane import {}\n"
    package = tree(tmp_path, a=lazy.format("b"), b=lazy.format("c"), c=lazy.format("a"), d=lazy.format("a"))
    assert figure("cycles", package).items == ("a, b, c",)


def test_imports_for_types_close_no_cycle_at_run_time(tmp_path: Path) -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from keylane import a\n"
    package = tree(tmp_path, a="from keylane import b\n", b=types)
    assert (figure("cycles", package).value, figure("type_cycles", package).value) == (0, 1)


def test_private_functions_are_counted_by_their_uses(tmp_path: Path) -> None:
    package = tree(
        tmp_path, a="def _once(): ...\ndef _twice(): ...\n_once()\n_twice()\n_twice()\ndef __getattr__(n): ..."
    )
    assert (figure("once", package).items, figure("private", package).value) == (("a:1  _once",), 2)


def test_the_file_map_has_a_line_for_each_module(tmp_path: Path) -> None:
    package = tree(
        tmp_path, errors='"""Errors | all."""', cli__main='"""Entry point.\n\nMore.\n"""', zoo__a='"""New."""'
    )
    text = house.file_map(package)
    assert "| `errors` | Errors \\| all. |" in text
    assert "### `cli`" in text
    assert "| `main` | Entry point. |" in text
    assert "| `a` | New. |" in text


def test_a_part_of_a_page_is_replaced_and_nothing_else() -> None:
    begin, end = "<!-- walks: written by scripts/house.py; do not edit -->", "<!-- end of walks -->"
    assert house.marked(f"a\n{begin}\nold\n{end}\nb", "walks", "new") == f"a\n{begin}\n\nnew\n{end}\nb"
    with pytest.raises(SystemExit):
        house.marked("a page without markers", "walks", "new")


MADE_UP = {
    "cli__main": """
import sys
import threading
from keylane import helper, unused
class Body:
    value = helper.at_import()
def main():
    from keylane import late
    late.step()
    threading.Thread(target=helper.in_thread).start()
    sys.exit(int(sys.argv[1]))
""",
    "helper": "def at_import(): ...\ndef in_thread(): ...\n",
    "late": "from keylane import only_at_import\nTABLE = only_at_import.made()\ndef step(): ...\n",
    "only_at_import": "def made(): ...\n",
    "unused": "class Never:\n    value = 1\n",
}


def test_a_walk_has_modules_whose_functions_were_called_in_order_of_entry(tmp_path: Path) -> None:
    package = tree(tmp_path, **MADE_UP)
    found = walk.run(package, walk.Walk("made up", ("0",)), {}, tmp_path)
    assert found["command"] == "keylane 0"
    assert [(step["module"], step["function"], step["caller"]) for step in found["at_run_time"]] == [
        ("cli.main", "main", ""),
        ("late", "step", "cli.main"),
        ("helper", "in_thread", ""),
    ]
    assert found["passed"] == ["cli.main", "only_at_import", "late", "helper"]


def test_a_walk_that_fails_ends_with_its_command(tmp_path: Path) -> None:
    package = tree(tmp_path, **MADE_UP)
    with pytest.raises(SystemExit, match="'made up' ended with 1: 1"):
        walk.run(package, walk.Walk("made up", ("1",)), {}, tmp_path)


def test_a_walk_is_drawn_as_a_tree_with_threads_apart() -> None:
    steps = [
        {"module": "cli.main", "function": "main", "caller": ""},
        {"module": "late", "function": "step", "caller": "cli.main"},
        {"module": "helper", "function": "in_thread", "caller": ""},
    ]
    assert [line.split() for line in house.tree_lines(steps)] == [
        ["cli.main", "main"],
        ["late", "step"],
        ["(in", "the", "thread", "that", "Spark", "calls", "back)"],
        ["helper", "in_thread"],
    ]
    assert house.tree_lines(steps)[1].startswith("  late")


def test_the_figures_are_printed_as_a_table_and_as_json(tmp_path: Path) -> None:
    package = tree(tmp_path, a='if kind == "kafka": pass\n')
    command = [sys.executable, house.__file__, "--src", str(package)]
    table = subprocess.run([*command, "--list", "asks"], capture_output=True, text=True, check=True).stdout
    assert "    a:1  kind == 'kafka'\n" in table
    document = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert document["figures"]["asks"]["value"] == 1
