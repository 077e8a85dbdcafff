"""`keylane aggregate queries`: the registry of standing queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import check_applies, client_options, grouped, properties_from, reading_applies
from keylane.cli.output import Result, Section, output_option
from keylane.errors import UsageError
from keylane.numbers import agree, plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from keylane.aggregation.registry import QueryRegistry

COLUMNS: Final = ("query_id", "status", "version", "filter", "window", "aggregates")
_MOST_BYTES: Final = 64 << 20
_registry: Final = grouped(
    click.option(
        "--queries",
        "registry",
        required=True,
        metavar="REGISTRY",
        help="The registry: a SQLite file, or kafka://host:port/topic; `add` makes it.",
    ),
    client_options,
)


@click.group(short_help="The registry of standing queries: add, list, pause, resume, remove.")
def queries() -> None:
    """Change the standing queries, while aggregations run or not.

    A change takes effect at the border of a batch, and is written down with the batch. An id means one query for ever.

    \b
    keylane aggregate queries add queries.json --queries queries.sqlite
    keylane aggregate queries pause q1 --queries queries.sqlite
    """


@queries.command(short_help="Register one query or a list of them, from JSON or YAML.")
@click.argument("path", type=click.Path(path_type=Path), metavar="FILE")
@_registry
@output_option
def add(path: Path, registry: str, output: str, **options: Any) -> tuple[Result, str]:
    """Register the queries of a file: all of them, or, where one is not allowed, none.

    \b
    {"id": "q1", "filter": "type = 'click' and amount > 10", "group_by": ["country"],
     "aggregates": {"n": "count(*)", "total": "sum(amount)"},
     "window": "1 minute", "slide": null, "lateness": "10 seconds", "time": "ts"}

    Exit codes: 0 done, 2 a query is not allowed.
    """
    from keylane.aggregation.query import queries_of

    given = queries_of(_read(path))
    with _opened(registry, options, create=True) as found:
        _, new = found.add(given)
        known = len(given) - len(new)
        same = f"; {known} {agree(known, 'was', 'were')} registered already" if known else ""
        answer = f"{plural(len(new), 'query')} registered{same}"
        return _shown(registry, found, new, answer), output


@queries.command("list", short_help="The queries of a registry.")
@_registry
@click.option("--all", "every", is_flag=True, help="Removed ones too.")
@output_option
def list_(registry: str, every: bool, output: str, **options: Any) -> tuple[Result, str]:
    """Print the queries of a registry."""
    with _opened(registry, options) as found:
        return _shown(registry, found, [], "", every=every), output


#: The commands that change queries by their ids: what each is for, and what it prints.
_CHANGES: Final = {
    "pause": (
        "Match no more events, for now.",
        "Pause queries: no more events match them. Windows that are open are delivered when they are due.",
        "paused",
    ),
    "resume": ("Match events again.", "Let paused queries match events again.", "resumed"),
    "remove": (
        "Match no more events, for good.",
        "Remove queries. Windows that are open are delivered when they are due; the ids stay taken.",
        "removed",
    ),
}


def _changing(what: str) -> click.Command:
    short, text, word = _CHANGES[what]

    @click.command(what, short_help=short, help=text)
    @click.argument("ids", nargs=-1, required=True, metavar="ID...")
    @_registry
    @output_option
    def change(ids: tuple[str, ...], registry: str, output: str, **options: Any) -> tuple[Result, str]:
        with _opened(registry, options) as found:
            _, changed = found.change(ids, what)
            return _shown(registry, found, changed, f"{plural(len(changed), 'query')} {word}"), output

    return change


for _what in _CHANGES:
    queries.add_command(_changing(_what))


def _opened(registry: str, options: dict[str, Any], *, create: bool = False) -> AbstractContextManager[QueryRegistry]:
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.query_registry import open_queries

    check_applies(*reading_applies(registry))
    return open_queries(registry, StreamOptions(properties_from(options)), create=create)


def _shown(registry: str, found: QueryRegistry, changed: Sequence[str], answer: str, *, every: bool = False) -> Result:
    from keylane.documents.aggregate import QueriesDocument, RegisteredQuery

    kept = [
        RegisteredQuery(query_id=one.id, status=one.status, version=one.version, definition=one.definition)
        for one in found.all()
        if every or one.status != "removed"
    ]
    rows = [{**one.model_dump(), **_columns(one.definition)} for one in kept]
    document = QueriesDocument(registry=registry, version=found.version(), changed=list(changed), queries=kept)
    running = sum(one.status == "active" for one in kept)
    lines = [f"{plural(running, 'query')} active; version {document.version} of the registry"]
    shown = [Section(COLUMNS, rows)] if not answer else []
    return Result(document, shown, lines, answer=[answer] if answer else [])


def _columns(definition: dict[str, Any]) -> dict[str, str]:
    slide = f", every {definition['slide']}" if definition["slide"] else ""
    aggregates = ", ".join(f"{name}: {text}" for name, text in definition["aggregates"].items())
    return {"filter": definition["filter"], "window": f"{definition['window']}{slide}", "aggregates": aggregates}


def _read(file: Path) -> Any:
    """A file of JSON or YAML as plain data."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise UsageError.of("the file of queries is too large", got=str(file), allowed=f"{_MOST_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError.of("there is no such file of queries", got=str(file)) from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise UsageError.of("not a file of queries", got=f"{file}: {error}", allowed="JSON or YAML") from None
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            if file.suffix == ".json":
                raise UsageError.of(f"{file} is not JSON: {error}", allowed="one query, or a list of them") from None
    from keylane.contract.yaml_tree import read_tree

    tree = read_tree(text)
    if tree.findings:
        first = tree.findings[0]
        where = f", line {first.line}" if first.line else ""
        raise UsageError.of(f"{file}{where}: {first.message}", allowed="one query, or a list of them")
    return tree.data
