"""`keylane identify`: which client's partitioner wrote this data, and whether a second writer disagrees.

The way on from there: since when, which keys, what to set, and the contract that was found (`--write`). `init` is the
same in one step.
"""

from __future__ import annotations

import secrets
import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from keylane import numbers
from keylane.cli.options import (
    LANE_COUNT,
    check_applies,
    check_sources,
    range_from,
    range_options,
    read_alike,
    reading_applies,
    reading_from,
    reading_options,
    time_option,
    written_applies,
)
from keylane.cli.output import Result, Section, check_free, output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.documents.identify import IdentifyDocument
    from keylane.measure.identify import Identification
    from keylane.pipelines.identify import IdentifiedData

NOT_PROVEN = 4


@click.command(short_help="Which client's partitioner wrote this data, and does a second writer disagree?")
@click.argument("data", type=click.Path())
@click.option("--key", "-k", metavar="COLUMN", help="The column that holds the key; of a topic: the record's key.")
@click.option("--lane", "-l", metavar="COLUMN", help="The column that holds the lane; default: lane or partition.")
@click.option(
    "--lanes", "-n", type=LANE_COUNT, help="The stream's lane count; default: derived, where the data proves it."
)
@time_option("The column of times; default: row numbers; of a topic: its own.", "-t")
@click.option("--show-keys", is_flag=True, help="Show whole keys; otherwise they are cut and hashed.")
@click.option(
    "--write", "--out", "contract", type=click.Path(), metavar="FILE", help="Write the contract that was found."
)
@click.option("--force", is_flag=True, help="Replace the file of --write.")
@range_options
@reading_options
@output_option
def identify(
    data: str, contract: str | None, show_keys: bool, force: bool, output: str, **options: Any
) -> tuple[Result, str]:
    """Find which client's partitioner wrote DATA, and whether a second writer disagrees.

    DATA is a file or folder of Parquet, CSV or JSON lines, a topic, or a Kinesis stream. Writers are ranked by their
    share of the records, with the evidence; a sample that is too small to decide is reported as that. Where there are
    several: since when, three keys of each with the lane seen and the lane expected, and the setting that fixes it.

    \b
    keylane identify export.parquet --key merchant_id --lane partition
    keylane identify kafka://broker:9092/payments --write payments.yaml

    A topic is read at read_committed, up to where it ends when this begins; its lane count is the cluster's. Of a
    large one a sample over all of it is read, which the answer states; --max-records sets its size.
    """
    check_sources(data)
    check_applies(
        written_applies(contract, options="--write"),
        *reading_applies(data),
    )
    from keylane.cli.progress import counted
    from keylane.pipelines.identify import identify as run
    from keylane.pipelines.identify import remarks
    from keylane.pipelines.init import write_first
    from keylane.systems.masks import salt_of

    check_free(contract, force=force)
    asked = {name: options.pop(name) for name in ("key", "lane", "lanes", "time")}
    reading = replace(reading_from(options), read_range=range_from(options, time.time()))
    seen = run(data, **asked, options=reading, watch=lambda rows: counted(rows, "identify"))
    shown = None if show_keys else salt_of(data, secrets.token_bytes(16))
    result = as_result(seen, shown, contract if seen.contract else None)
    if contract is None:
        return result, output
    if seen.contract is None:
        why, settles = seen.found.no_contract or ("", "")
        result.lines.append(f"{contract} was not written: {why}; what would settle it: {settles}")
        return replace(result, exit_code=NOT_PROVEN), output
    write_first(contract, seen.contract.text(remarks(seen)))
    lane = f" --lane {shlex.quote(asked['lane'])}" if asked["lane"] not in (None, "lane") else ""
    again = f"keylane check {shlex.quote(contract)} --data {shlex.quote(data)}{lane}{read_alike()}"
    result.lines.extend([f"wrote {contract}", f"check it: {again}"])
    return result, output


def as_result(seen: IdentifiedData, salt: bytes | None, written: str | None = None) -> Result:
    """The answer as document, tables and lines; `salt` goes into the hashes of keys, which are whole without one."""
    from keylane.pipelines.identify import document_of, named

    document = document_of(seen, salt, written)
    found = seen.found
    # Since when is a line of the answer: of the leading writer it would be the first row that no other rule fits too.
    columns = ("writer", "share", "encoding", "fitting_keys", "chance", "also")
    forms: dict[str, Callable[[Any], str]] = {"share": numbers.share, "chance": numbers.chance}
    rows = [{**one.as_json(), "writer": named(one)} for one in document.writers]
    sections = [Section(columns, rows, forms=forms), _rows(document), *_examples(seen, document)]
    lines = [*_fix_lines(seen, document), *(f"note: {note}" for note in found.notes)]
    return Result(document, sections, lines, answer=[_headline(found), *_since(seen, document)])


def identify_lines(seen: IdentifiedData, salt: bytes | None) -> list[str]:
    """The same in a few lines, for `init`: the answer, what to set, and the notes."""
    shown = as_result(seen, salt)
    return [*shown.answer, *(line for line in shown.lines if not line.startswith("Keys are cut"))]


def _rows(document: IdentifyDocument) -> Section:
    kinds = {
        "with a key": document.keyed_rows,
        "null key": document.null_rows,
        "empty key": document.empty_rows,
        "key too long": document.long_rows,
    }
    kinds["without a lane"] = document.rows - sum(kinds.values())
    rows = [
        {"records": name, "count": number, "share": number / document.rows}
        for name, number in kinds.items()
        if document.rows and (number or name not in ("key too long", "without a lane"))
    ]
    return Section(("records", "count", "share"), rows, forms={"share": numbers.share})


def _examples(seen: IdentifiedData, document: IdentifyDocument) -> Iterator[Section]:
    from keylane.pipelines.identify import named

    rows = [
        {"partitioner": named(writer), **example.as_json()}
        for writer in document.writers
        for example in writer.examples
    ]
    if rows:
        where = "offset" if seen.has_offsets else "row"
        title = f"Keys that are not where {named(seen.found.writers[seen.found.leading])} puts them"
        names = ("partitioner", "key", "lane", "expected", where)
        yield Section(names, rows, title, forms={"expected": str})


def _headline(found: Identification) -> str:
    from keylane.pipelines.identify import named

    of = f"{numbers.count(found.keyed_rows)} keyed rows on {found.lanes} lanes"
    if found.verdict == "unknown":
        return f"unknown: the data does not say who wrote it ({of})"
    if found.verdict == "one-writer":
        return f"one writer: {named(found.writers[0])} ({of})"
    parts = ", ".join(f"{named(w)} {numbers.share(w.share)}" for w in found.writers)
    known = [w for w in found.writers if w.rule]
    return f"{'mixed writers' if len(known) > 1 else 'one rule explains a part'}: {parts} ({of})"


def _since(seen: IdentifiedData, document: IdentifyDocument) -> Iterator[str]:
    from keylane.pipelines.identify import named

    for number, writer in enumerate(document.writers):
        first = writer.since or (f"row {numbers.count(writer.since_row)}" if writer.since_row else None)
        last = writer.until or (f"row {numbers.count(writer.until_row)}" if writer.until_row else None)
        if number != seen.found.leading and first and last:
            end = "to the end of what was read" if writer.to_the_end else f"until {last}"
            only = f"{numbers.count(writer.only or 0)} records that no other rule explains"
            yield f"{named(writer)}: since {first}, {end}; {only}"


def _fix_lines(seen: IdentifiedData, document: IdentifyDocument) -> Iterator[str]:
    from keylane.pipelines.identify import named

    leading = seen.found.leading
    others = [fix for n, writer in enumerate(document.writers) for fix in writer.fixes if n != leading]
    own = document.writers[leading].fixes if document.writers else []
    if others:
        first = seen.found.writers[leading]
        yield f"To place as {named(first)} does, which wrote {numbers.share(first.share)}:"
    yield from (f"  {fix.client}: {fix.action}" for fix in others)
    if own:
        yield "To place by a rule that a contract can name:"
    yield from (f"  {fix.client}: {fix.action}" for fix in own)
    if any("…" in example.key for writer in document.writers for example in writer.examples):
        yield "Keys are cut and hashed; --show-keys shows them whole."
