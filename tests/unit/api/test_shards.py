"""`keylane.shards_plan` and `shards_apply`: the options of their commands, typed, and their documents."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest

import keylane
from keylane.cli.shards_apply import apply
from keylane.cli.shards_plan import plan
from keylane.documents.shards import ShardsPlanDocument
from keylane.errors import UsageError
from keylane.keyspace.layout import layout_to_json, new_layout

if TYPE_CHECKING:
    from pathlib import Path

#: Options that only a terminal has: the form of what is printed, and files that a document replaces.
TERMINAL = {"output", "report", "write", "force", "color", "q"}


@pytest.mark.parametrize(("function", "command"), [(keylane.shards_plan, plan), (keylane.shards_apply, apply)])
def test_a_function_takes_what_its_command_takes(function: Any, command: Any) -> None:
    options = {one.opts[-1].lstrip("-").replace("-", "_") for one in command.params}
    assert options - TERMINAL == set(inspect.signature(function).parameters) - {"progress"}


def layouts(folder: Path) -> tuple[Path, Path]:
    made = folder / "four.json", folder / "three.json"
    for path, count in zip(made, (4, 3), strict=True):
        path.write_text(json.dumps(layout_to_json(new_layout(count))))
    return made


def test_a_plan_is_its_document_and_a_file(tmp_path: Path) -> None:
    four, three = layouts(tmp_path)
    document = keylane.shards_plan(four, to=three, out=tmp_path / "plan.json")
    assert isinstance(document, ShardsPlanDocument)
    assert (len(document.calls), document.after.shards) == (5, 3)
    assert ShardsPlanDocument.from_json(json.loads((tmp_path / "plan.json").read_text())) == document


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    four, three = layouts(tmp_path)
    wrong: list[dict[str, Any]] = [{}, {"cap": 1.0, "to": three}, {"cap": -1.0}, {"to": three, "shards": 3}]
    for given in [*wrong, {"cap": 1.0, "tolerance": 5}]:
        with pytest.raises(UsageError):
            keylane.shards_plan(four, **given)
    keylane.shards_plan(four, to=three, out=tmp_path / "plan.json")
    with pytest.raises(UsageError, match="--stream"):
        keylane.shards_apply(tmp_path / "plan.json")
