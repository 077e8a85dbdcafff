"""`keylane init`: the first contract of a stream, from what its data shows. How writers are found: `identify`."""

from __future__ import annotations

import secrets
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from keylane import numbers
from keylane.cli.identify import identify_lines, write_first
from keylane.cli.options import read_alike, reading_from, reading_options, window_from, window_options
from keylane.cli.output import Result, Section, output_option
from keylane.contract.names import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.first import FirstContract
    from keylane.pipelines.identify import IdentifiedData
    from keylane.systems.endpoint import StreamOptions


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What is looked at: the data, and which of its columns hold what."""

    data: str
    key: str | None
    lane: str | None
    lanes: int | None
    time: str | None


#: Columns of files that hold the lane, where none is named.
LANE_COLUMNS = ("lane", "partition")
USUAL = "kafka-java"


@click.command(short_help="Write the first contract of a stream, from what its data shows.")
@click.argument("data", type=click.Path())
@click.option("--key", "-k", metavar="COLUMN", help="The column that holds the key; of a topic: the record's key.")
@click.option("--lane", "-l", metavar="COLUMN", help="The column that holds the lane; default: lane or partition.")
@click.option("--lanes", "-n", type=click.IntRange(min=1), help="The lane count; needed where the data has no lanes.")
@click.option(
    "--partitioner",
    type=click.Choice(PARTITIONERS),
    metavar="NAME",
    help="The partitioner, where the data does not show it; default of data without lanes: kafka-java.",
)
@click.option("--time", "-t", metavar="COLUMN", help="The column of times, for since when a second writer is there.")
@click.option("--out", type=click.Path(), metavar="FILE", help="The contract; default: NAME.yaml here.")
@window_options
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
    from keylane.contract.first import stream_name
    from keylane.systems.endpoint import parse_address

    to = out or f"{stream_name(parse_address(data).name)}.yaml"
    _check_new(to)
    window = window_from(options, time.time())
    asked = InitRequest(data, **{name: options.pop(name) for name in ("key", "lane", "lanes", "time")})
    reading = replace(reading_from(options), window=window)
    asked, has_lanes = _looked_at(asked, reading)
    seen = _identified(asked, reading) if has_lanes else None
    contract, source = _contract(asked, seen, partitioner)
    _check_new(to)
    write_first(to, contract.text(_remarks(seen, source)))
    return _result(asked, seen, contract, source, to), output


def _identified(asked: InitRequest, reading: StreamOptions) -> IdentifiedData:
    from keylane.cli.progress import counted
    from keylane.pipelines.identify import identify

    return identify(
        asked.data,
        key=asked.key,
        lane=asked.lane,
        lanes=asked.lanes,
        time=asked.time,
        options=reading,
        watch=lambda rows: counted(rows, "init"),
    )


def _check_new(path: str) -> None:
    if Path(path).exists():
        raise click.UsageError(f"{path} is there already; hint: --out FILE, or remove it first")
    if not Path(path).absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder for {path}")


def _looked_at(asked: InitRequest, reading: StreamOptions) -> tuple[InitRequest, bool]:
    """The column of lanes by its usual names, and whether there are lanes: otherwise the stream is still to be."""
    from keylane.contract.fields import FieldSpec
    from keylane.systems.endpoint import open_endpoint

    endpoint = open_endpoint(asked.data, reading)
    if endpoint.messages:
        return asked, True
    there = endpoint.describe(FieldSpec((asked.key,) if asked.key else ()))
    columns = there.columns
    if asked.key is None or asked.key not in columns:
        if there.misread is not None:
            raise there.misread
        wrong = "Missing option '--key' / '-k'" if asked.key is None else f"no such column: got {asked.key!r}"
        raise click.UsageError(f"{wrong}: one of the columns {', '.join(columns)}.")
    lane = asked.lane or next((name for name in LANE_COLUMNS if name in columns and name != asked.key), None)
    if lane is None and asked.lanes is None:
        raise click.UsageError(
            "the data has no column of lanes; hint: --lanes N for the stream to be, or --lane COLUMN"
        )
    return replace(asked, lane=lane), lane is not None


def _contract(
    asked: InitRequest, seen: IdentifiedData | None, given: str | None
) -> tuple[FirstContract, Literal["identified", "given", "assumed"]]:
    from keylane.contract.first import FirstContract, stream_name
    from keylane.errors import NotShownError
    from keylane.systems.endpoint import parse_address

    found = seen.contract if seen else None
    if found is not None:
        return (
            (found, "identified")
            if given in (None, found.partitioner)
            else (replace(found, partitioner=given), "given")
        )
    if seen is not None and given is None:
        why = "; ".join(seen.found.notes) or "no partitioner explains the lanes"
        raise NotShownError.of(
            f"{asked.data} does not show who wrote it",
            got=why,
            hint="--partitioner NAME writes a contract without proof",
        )
    name = stream_name(parse_address(asked.data).name)
    lanes = asked.lanes or (seen.found.lanes if seen else 1)
    key = asked.key or (seen.key if seen else "key")
    return FirstContract(name, lanes, key, "utf8", given or USUAL), "given" if given else "assumed"


def _remarks(seen: IdentifiedData | None, source: str) -> Iterator[str]:
    from keylane.pipelines.identify import remarks

    if seen is not None and seen.contract is not None:
        yield from remarks(seen)
    elif seen is not None:
        yield "The data does not show who wrote it; its lane count is the least that it can be."
    if source == "given":
        yield "The partitioner is the one that was asked for."
    if source == "assumed":
        yield "The data has no lanes: the partitioner is the default of Java's client, and the key is written as text."


def _result(asked: InitRequest, seen: IdentifiedData | None, contract: FirstContract, source: Any, to: str) -> Result:
    from keylane.documents.identify import InitDocument
    from keylane.pipelines.identify import document_of

    salt = secrets.token_bytes(16)
    document = InitDocument(
        contract=to,
        stream=contract.stream,
        key=contract.key,
        encoding=contract.encoding,
        lanes=contract.lanes,
        partitioner=contract.partitioner,
        partitioner_from=source,
        identified=document_of(seen, salt, to) if seen else None,
        next=list(_next(asked, to)),
    )
    row = {**document.as_json(), "lanes (partitions)": document.lanes}
    table = Section(("partitioner", "lanes (partitions)", "key", "encoding"), [row])
    answer = [f"wrote {to}: {contract.partitioner}, {_why(source, seen)}"]
    lines = [*(identify_lines(seen, salt) if seen else []), "next:", *(f"  {one}" for one in document.next)]
    return Result(document, [table], lines, answer=answer)


def _why(source: str, seen: IdentifiedData | None) -> str:
    if source == "identified" and seen is not None:
        share = seen.found.writers[seen.found.leading].share
        return f"found in {numbers.share(share)} of {numbers.count(seen.found.keyed_rows)} records with a key"
    return "as asked for" if source == "given" else "assumed: the data has no lanes"


def _next(asked: InitRequest, to: str) -> Iterator[str]:
    data, file = shlex.quote(asked.data), shlex.quote(to)
    lane = f" --lane {shlex.quote(asked.lane)}" if asked.lane and asked.lane != "lane" else ""
    timed, alike = f" --time {shlex.quote(asked.time)}" if asked.time else "", read_alike()
    yield f"keylane check {file} --data {data}{lane}{alike}"
    yield f"keylane profile {data} --contract {file}{lane}{timed}{alike} --report profile.html"
    yield f"keylane plan {data} --contract {file}{timed}{alike} --out plan.json --report plan.html"
