"""`keylane identify`: which client's partitioner wrote this data, and whether a second writer disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from keylane.cli.options import reading_from, reading_options
from keylane.cli.output import Result, Section, output_option

if TYPE_CHECKING:
    from keylane.measure.identify import Identification, Writer


@click.command(short_help="Which client's partitioner wrote this data, and does a second writer disagree?")
@click.argument("data", type=click.Path())
@click.option("--key", "-k", metavar="COLUMN", help="The column that holds the key; of a topic: the record's key.")
@click.option("--lane", "-l", metavar="COLUMN", help="The column that holds the lane; of a topic: the partition.")
@click.option("--lanes", "-n", type=int, help="The stream's lane count; default: derived, where the data proves it.")
@reading_options
@output_option
def identify(
    data: str, key: str | None, lane: str | None, lanes: int | None, output: str, **options: Any
) -> tuple[Result, str]:
    """Find which client's partitioner wrote DATA, and whether a second writer disagrees.

    DATA is a file or folder of Parquet, CSV or JSON lines, or a topic. Writers are ranked by their share of the
    records, with the evidence; a sample that is too small to decide is reported as that.

    \b
    keylane identify export.parquet --key merchant_id --lane partition
    keylane identify kafka://broker:9092/payments

    A topic is read at read_committed, up to where it ends when this begins; its lane count is the cluster's.
    """
    from keylane.cli.progress import counted
    from keylane.pipelines.identify import identify as run

    found = run(
        data,
        key=key,
        lane=lane,
        lanes=lanes,
        options=reading_from(options),
        watch=lambda rows: counted(rows, "identify"),
    )
    return as_result(found), output


def as_result(found: Identification) -> Result:
    """The answer as document, table and lines."""
    from keylane.pipelines.identify import document_of

    document = document_of(found)
    columns = ("partitioner", "share", "encoding", "fitting_keys", "chance", "also")
    lines = [_headline(found), *(f"  {note}" for note in found.notes)]
    return Result(document, [Section(columns, document.writers)], lines)


def _headline(found: Identification) -> str:
    of = f"{found.keyed_rows:,} keyed rows on {found.lanes} lanes"
    if found.verdict == "unknown":
        return f"unknown: the data does not say who wrote it ({of})"
    if found.verdict == "one-writer":
        return f"one writer: {found.writers[0].partitioner} ({of})"
    parts = ", ".join(f"{_named(w)} {w.share:.2%}" for w in found.writers)
    return f"mixed writers: {parts} ({of})"


def _named(writer: Writer) -> str:
    return (writer.partitioner or "unexplained") + (f" on {writer.lanes} lanes" if writer.lanes else "")
