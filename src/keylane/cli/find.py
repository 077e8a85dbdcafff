"""`keylane find`: where is this key in a topic? Reads only the lanes that it may be in, the newest records first."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import click

from keylane.cli.explain import encoding_option, key_bytes, record_of
from keylane.cli.options import (
    Applies,
    check_applies,
    range_from,
    range_options,
    reading_applies,
    reading_from,
    topic_options,
)
from keylane.cli.output import Result, Section, output_option
from keylane.contract.names import PARTITIONERS
from keylane.numbers import count, plural
from keylane.numbers import lanes as lanes_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.names import Encoding
    from keylane.documents.find import FindDocument

NOT_FOUND = 4


@click.command(short_help="Where is this key in a topic? Reads only the lanes that it may be in.")
@click.argument("key", required=False)
@click.option("--from", "source", required=True, metavar="ADDRESS", help="The topic: kafka://host:port/topic.")
@click.option("--contract", "-c", "path", type=click.Path(), help="Read the lanes that the contract may give the key.")
@click.option("--field", "-f", "fields", multiple=True, metavar="NAME=VALUE", help="A field of the key; repeatable.")
@click.option(
    "--partitioner",
    "-p",
    "partitioners",
    multiple=True,
    type=click.Choice(PARTITIONERS),
    metavar="PARTITIONER",
    help="Read the lane that this client gives it; repeatable. Default, without a contract: every client's.",
)
@click.option("--all-lanes", is_flag=True, help="Read every lane, whoever may have written the key.")
@encoding_option
@click.option(
    "--count", "most_found", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Stop at so many."
)
@range_options
@topic_options
@output_option
def find(
    key: str | None,
    source: str,
    path: str | None,
    fields: tuple[str, ...],
    partitioners: tuple[str, ...],
    all_lanes: bool,
    encoding: str,
    most_found: int,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Find the newest records of KEY in a topic, without reading all of it.

    Read are the lanes that the key may be in: by the contract, with its hot keys, tables and windows; by the named
    partitioners; otherwise by every client that explain knows. Each is read from its end back, up to 1,000,000 records
    in all unless --max-records sets another number. The answer states what was read, and what was not.

    \b
    keylane find TT0124 --from kafka://broker:9092/payments
    keylane find TT0124 --from kafka://broker:9092/payments --contract payments.yaml
    keylane find TT0124 --from kafka://broker:9092/payments -p kafka-java --last 6h
    keylane find TT0124 --from kafka://broker:9092/payments --all-lanes

    Exit codes: 0 found, 1 the topic cannot be read, 2 usage, 4 not found in what was read.
    """
    from keylane.cli.progress import counted
    from keylane.pipelines.find import Sought
    from keylane.pipelines.find import find as run

    if path is not None and partitioners:
        raise click.UsageError("--contract and --partitioner both say which lanes to read; hint: leave one out")
    check_applies(Applies(("fields",), path is not None, "--contract"), *reading_applies(source))
    reading = replace(reading_from(options), read_range=range_from(options, time.time()))
    if path is not None:
        from keylane.contract.parse import load_contract

        given = click.get_current_context().get_parameter_source("encoding")
        if given is not None and given.name == "COMMANDLINE":
            raise click.UsageError("--encoding is the contract's; hint: leave it out: KEY is what the field holds")
        if key is None and not fields:
            raise click.UsageError("KEY or --field is needed")
        contract = load_contract(path)
        record = record_of(contract, key, fields, null=False)
        typed = key if key is not None else ", ".join(fields)
        sought = Sought(typed, record=record, contract=contract, all_lanes=all_lanes)
    else:
        if key is None:
            raise click.UsageError("KEY is needed")
        named = dict.fromkeys(partitioners)
        held = cast("Encoding", encoding)
        sought = Sought(key, key_bytes(key, held), partitioners=tuple(named), encoding=held, all_lanes=all_lanes)

    def seen(batches: Iterator[Any]) -> Iterator[Any]:
        return counted(batches, "find")

    return as_result(run(source, sought, most_found=most_found, options=reading, watch=seen)), output


def as_result(document: FindDocument) -> Result:
    """Whether it is there and where, or that it was not found in what was read; then the lanes, and what was not."""
    records = Section(("lane", "offset", "time"), document.records)
    lanes = Section(
        ("lane", "by", "first", "end", "compared", "found", "whole"), document.lanes, "Lanes that were read:"
    )
    code = 0 if document.found else NOT_FOUND
    return Result(document, [records, lanes], document.notes, code, answer=[_answer(document)])


def _answer(document: FindDocument) -> str:
    where = lanes_in_words([row.lane for row in document.lanes if row.found or not document.found]) or "none"
    read = f"{plural(document.compared, 'record')} compared in {count(len(document.lanes))} of"
    read += f" {plural(document.lanes_there, 'lane')}"
    if not document.found:
        known = "there is none" if document.everywhere else "not found in what was read"
        return f"{known}: {read}" + (f" (lanes {where})" if document.lanes else "")
    newest = document.records[0]
    at = f"lane {newest.lane}, offset {newest.offset}" + (f", {newest.time}" if newest.time else "")
    many = plural(document.found, "record")
    least = "" if document.whole else "at least "
    return f"found: {least}{many} in lanes {where}, the newest at {at}; {read}"
