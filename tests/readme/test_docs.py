"""The pages tell the truth and leave nothing out: their code runs, what exists is named, and an omission is noticed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click
import pytest
from pydantic import BaseModel

import keylane
from keylane.cli.main import COMMANDS
from keylane.contract.model import Contract
from keylane.contract.names import ENCODINGS, PARTITIONERS
from keylane.contract.partitioners import FACTS
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.readme.conftest import Page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
#: Their commands are those of pages that `make test` runs, on streams: `make test-faults` runs them.
LONG = {"how-to/match-stream.md"}
SHELL_ONLY = {"completion", "help"}
#: Options that every command has: on the first page.
EVERYWHERE = {"--quiet", "--color"}


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def unnamed(names: list[str], page: str) -> list[str]:
    """Names that a page does not have in code quotes."""
    quoted = set(re.findall(r"`([^`\n]+)`", page))
    return [name for name in names if name not in quoted]


def fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Every (model, field as a contract writes it), from the contract downwards."""
    for name, info in model.model_fields.items():
        yield model.__name__, info.alias or name
        for inner in models_in(info.annotation):
            yield from fields(inner)


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def sections(page: str) -> dict[str, str]:
    """The text under each heading, by the heading."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


#: Where docs/contract.md describes each model.
HEADING = {
    "Contract": "Top level",
    "Metadata": "metadata",
    "Spec": "spec",
    "Key": "key",
    "Window": "window",
    "HotKeys": "hot_keys",
    "PinnedKey": "pins",
    "Pin": "pin",
    "Spread": "spread",
    "Tier": "tier",
    "Table": "table",
    "TableRange": "ranges",
    "Geo": "geo",
    "Shards": "shards",
    "ShardRange": "layout",
    "Expect": "expect",
    "Golden": "golden",
}


def undescribed(page: str) -> list[str]:
    """Fields of the contract that have no row in their own section of the page."""
    told = sections(page)
    return sorted(
        {
            f"{model}.{field}"
            for model, field in fields(Contract)
            if not re.search(rf"^\| `{re.escape(field)}` \|", told.get(HEADING[model], ""), re.MULTILINE)
        }
    )


def rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables, without quotes and emphasis, by their first cell."""
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.sub(r"[`*]", "", line).strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def misdescribed(page: str) -> list[str]:
    """Partitioners whose hash, fold, null or empty rule is not the one in the facts."""
    shown = rows(page)
    words = {"round_robin": "round robin", "reject": "refused"}
    return [
        name
        for name, facts in FACTS.items()
        if shown.get(name, [])[2:6]
        != [
            facts.hash or "none",
            facts.fold,
            words.get(facts.on_null, facts.on_null),
            words.get(facts.on_empty, facts.on_empty),
        ]
    ]


def dependencies(root: Path) -> list[str]:
    """The names of everything that pyproject.toml asks for."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(one for group in extras.values() for one in group),
        *project["dependency-groups"]["dev"],
    ]
    found = [match[0] for one in asked if (match := re.match(r"[a-zA-Z0-9-]+", one))]
    return [name for name in dict.fromkeys(found) if name != "keylane"]


# kafka-python reads its protocol by functions that the standard library has deprecated.
@pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.faults] if page in LONG else []) for page in PAGES]
)
def test_a_page_runs_as_it_stands(page: str, run_page_here: Callable[[str], Page]) -> None:
    assert run_page_here(text(page)).complaints == []


def test_every_partitioner_is_described_as_it_is() -> None:
    assert unnamed(list(PARTITIONERS), text("partitioners.md")) == []
    assert misdescribed(text("partitioners.md")) == []


def test_a_partitioner_left_out_or_wrong_is_noticed() -> None:
    page = text("partitioners.md")
    assert unnamed(["sarama-crc"], page.replace("`sarama-crc`", "")) == ["sarama-crc"]
    wrong = page.replace("| crc32 | unsigned | sticky | **sticky** |", "| crc32 | unsigned | sticky | hash |")
    assert misdescribed(wrong) == ["librdkafka-consistent-random"]


def test_every_public_name_is_a_heading_with_an_example() -> None:
    told = sections(text("api.md"))
    # `py` is Python that needs a broker, and is not run.
    assert [name for name in keylane.__all__ if "```py" not in told.get(f"`{name}`", "")] == []


def test_every_name_of_the_spark_room_is_a_heading_with_an_example() -> None:
    import keylane.spark

    told = sections(text("api.md"))
    assert [name for name in keylane.spark.__all__ if "```python" not in told.get(f"`keylane.spark.{name}`", "")] == []


def test_a_public_name_left_out_is_noticed() -> None:
    told = sections(text("api.md").replace("## `evolve`", "## evolving"))
    assert [name for name in keylane.__all__ if f"`{name}`" not in told] == ["evolve"]


def test_every_field_of_the_contract_has_its_row() -> None:
    assert {model for model, _ in fields(Contract)} == set(HEADING)
    assert undescribed(text("contract.md")) == []
    assert unnamed(list(ENCODINGS), text("contract.md")) == []


def test_a_field_left_out_is_noticed_also_when_another_model_has_its_name() -> None:
    page = text("contract.md")
    assert undescribed(page.replace("| `otherwise` |", "| |")) == ["Table.otherwise"]
    before, pin, after = page.partition("### pin")
    assert undescribed(before + pin + after.replace("| `lanes` |", "| |", 1)) == ["Pin.lanes"]


def test_every_reason_has_its_row() -> None:
    assert set(Reason) <= set(rows(text("guarantees.md")))


def test_every_dependency_has_its_reason(root: Path) -> None:
    told = text("architecture.md")
    assert len(dependencies(root)) > 20
    assert unnamed(dependencies(root), told) == []
    assert unnamed(["click"], told.replace("`click`", "click")) == ["click"]


def test_every_command_has_its_page() -> None:
    pages = {page.removeprefix("commands/") for page in PAGES if page.startswith("commands/")}
    assert pages == {f"{name}.md" for name in COMMANDS if name not in SHELL_ONLY}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in SHELL_ONLY])
def test_every_option_of_a_command_is_on_its_page(command: str) -> None:
    from keylane.cli.main import cli

    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    options = options_of(found)
    told = text(f"commands/{command}.md")
    assert options
    assert [option for option in options if option not in EVERYWHERE and not re.search(rf"`{option}\b", told)] == []


def test_options_of_every_command_are_on_the_first_page() -> None:
    assert unnamed(sorted(EVERYWHERE), text("index.md")) == []


def options_of(command: click.Command) -> list[str]:
    """The options of a command, or of all commands of a group."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    own = [max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)]
    return [*own, *(option for one in inner for option in options_of(one))]


def test_every_page_is_in_the_navigation(root: Path) -> None:
    navigation = (root / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in PAGES if f": {page}\n" not in navigation] == []
