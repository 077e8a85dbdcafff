"""`keylane init`: the first contract of a stream, from what its data shows. How it is made: `pipelines.init`."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from keylane import numbers
from keylane.cli.identify import identify_lines
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
)
from keylane.cli.output import Result, Section, output_option
from keylane.contract.names import PARTITIONERS

if TYPE_CHECKING:
    from keylane.pipelines.identify import IdentifiedData
    from keylane.pipelines.init import Initialised


@click.command(short_help="Write the first contract of a stream, from what its data shows.")
@click.argument("data", type=click.Path())
@click.option("--key", "-k", metavar="COLUMN", help="The column that holds the key; of a topic: the record's key.")
@click.option("--lane", "-l", metavar="COLUMN", help="The column that holds the lane; default: lane or partition.")
@click.option("--lanes", "-n", type=LANE_COUNT, help="The lane count; needed where the data has no lanes.")
@click.option(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    metavar="NAME",
    help="The partitioner, where the data does not show it; default of data without lanes: kafka-java.",
)
@time_option("The column of times, to find when a second writer started.", "-t")
@click.option(
    "--write", "--out", "out", type=click.Path(), metavar="FILE", help="The contract; default: NAME.yaml here."
)
@range_options
@reading_options
@output_option
def init(data: str, partitioner: str | None, out: str | None, output: str, **options: Any) -> tuple[Result, str]:
    """Look at DATA, find which client's partitioner wrote it, write the first contract, and say what to do next.

    DATA is a topic, or a file or folder of Parquet, CSV or JSON lines. Of files name the key with --key. Files without
    a column of lanes take --lanes, for the stream that they are going to be. A file that exists is never replaced.

    \b
    keylane init kafka://broker:9092/payments
    keylane init export.parquet --key merchant_id --lane partition
    keylane init payments.csv --key merchant_id --lanes 12

    Exit codes: 0 written; 1 the data cannot be read; 2 usage, or the file exists; 4 the data does not show who wrote.
    """
    check_sources(data)
    check_applies(*reading_applies(data))
    from keylane.cli.progress import counted
    from keylane.pipelines.init import InitRequest
    from keylane.pipelines.init import init as run
    from keylane.systems.masks import salt_of

    read_range = range_from(options, time.time())
    asked = InitRequest(data, **{name: options.pop(name) for name in ("key", "lane", "lanes", "time")})
    salt = salt_of(data, secrets.token_bytes(16))
    made = run(
        asked,
        partitioner=partitioner,
        out=out,
        salt=salt,
        options=replace(reading_from(options), read_range=read_range),
        watch=lambda rows: counted(rows, "init"),
        again=read_alike(),
    )
    return as_result(made, salt), output


def as_result(made: Initialised, salt: bytes) -> Result:
    """What was written, and why; then what the data showed, and the commands that come next."""
    document, seen = made.document, made.seen
    row = {**document.as_json(), "lanes (partitions)": document.lanes}
    table = Section(("partitioner", "lanes (partitions)", "key", "encoding"), [row])
    answer = [f"wrote {document.contract}: {document.partitioner}, {_why(document.partitioner_from, seen)}"]
    notes = [f"note: {one}" for one in document.notes]
    lines = [*(identify_lines(seen, salt) if seen else []), *notes, "next:", *(f"  {one}" for one in document.next)]
    return Result(document, [table], lines, answer=answer)


def _why(source: str, seen: IdentifiedData | None) -> str:
    if source == "identified" and seen is not None:
        share = seen.found.writers[seen.found.leading].share
        return f"found in {numbers.share(share)} of {numbers.plural(seen.found.keyed_rows, 'record')} with a key"
    return "as asked for" if source == "given" else "assumed: the data has no lanes"
