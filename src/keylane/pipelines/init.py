"""`init`: the first contract of a stream, from what its data shows, written beside its schema. Writers: `identify`.

    init          a topic, a file or a folder -> the contract that its data keeps, in a file, and its document
    write_first   a first contract and the schema that its first line names

A file that exists is never replaced. Nothing here needs Spark.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.contract.fields import FieldSpec
from keylane.contract.first import SCHEMA_FILE, FirstContract, schema_text, stream_name
from keylane.contract.names import PARTITIONERS
from keylane.documents.identify import InitDocument
from keylane.errors import KeylaneError, NotShownError, UnknownNameError, UsageError, listed_names
from keylane.keys.arrow_bytes import plain
from keylane.keys.times import TEXT_TIME, is_text, micros_of
from keylane.pipelines.identify import document_of, identify, remarks
from keylane.systems.atomic import write_text
from keylane.systems.endpoint import StreamOptions, open_endpoint, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.pipelines.engine import Watch
    from keylane.pipelines.identify import IdentifiedData
    from keylane.systems.endpoint import Endpoint

USUAL: Final = "kafka-java"
#: Columns of files among which a column of times is looked for, and rows of each.
_LOOKED_AT, _ROWS = 100, 1_000
#: Rows that are looked at for empty cells.
_EMPTY_ROWS: Final = 100_000

#: Where the partitioner of a contract comes from: the data, the caller, or nowhere.
PartitionerSource: TypeAlias = Literal["identified", "given", "assumed"]


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What is looked at: the data, and which of its columns hold what."""

    data: str
    key: str | None = None
    lane: str | None = None
    lanes: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Initialised:
    """The document of a first contract, and what its data showed; None where the data has no lanes."""

    document: InitDocument
    seen: IdentifiedData | None


def init(
    asked: InitRequest,
    *,
    partitioner: str | None = None,
    out: str | None = None,
    salt: bytes | None = None,
    options: StreamOptions | None = None,
    watch: Watch = iter,
    again: str = "",
) -> Initialised:
    """Look at data, find who wrote it, and write its first contract to `out`, by default NAME.yaml here.

    `salt` goes into the hashes of keys, which are whole without one. `again` are options that say how the data is
    read, for the commands that come next.
    """
    if partitioner is not None and partitioner not in PARTITIONERS:
        raise UnknownNameError.among("partitioner", partitioner, list(PARTITIONERS))
    reading = options or StreamOptions()
    to = out or f"{stream_name(parse_address(asked.data).name)}.yaml"
    _check_new(to)
    asked, has_lanes = _with_lanes(asked, reading)
    notes: list[str] = []
    if empty := _cells_for_null(asked, reading):
        # Read so by this command and by those that it proposes: otherwise `check` takes them for misplaced keys.
        reading, again = replace(reading, csv_null=("",)), f"{again} --csv-null ''"
        notes.append(empty)
    seen = None
    if has_lanes:
        columns = {"key": asked.key, "lane": asked.lane, "time": asked.time}
        seen = identify(asked.data, **columns, lanes=asked.lanes, options=reading, watch=watch)
    contract, source = _contract(asked, seen, partitioner)
    # Data may take minutes to read, and the file may have come meanwhile.
    _check_new(to)
    write_first(to, contract.text(_remarks(seen, source)))
    document = InitDocument(
        contract=to,
        stream=contract.stream,
        key=contract.key,
        encoding=contract.encoding,
        lanes=contract.lanes,
        partitioner=contract.partitioner,
        partitioner_from=source,
        identified=document_of(seen, salt, to) if seen else None,
        notes=notes,
        next=list(_next(replace(asked, time=asked.time or _only_time(asked, reading)), to, again, has_lanes=has_lanes)),
    )
    return Initialised(document, seen)


def write_first(path: str, text: str) -> None:
    """A first contract, and beside it the schema that its first line names; one that is there is left as it is."""
    schema = Path(path).absolute().with_name(SCHEMA_FILE)
    if not schema.exists():
        write_text(schema, schema_text())
    write_text(Path(path), text)


def _check_new(path: str) -> None:
    if Path(path).exists():
        raise UsageError.of(f"{path} is there already", hint="another file, or remove it first")
    if not Path(path).absolute().parent.is_dir():
        raise UsageError.of(f"there is no folder for {path}")


def _with_lanes(asked: InitRequest, reading: StreamOptions) -> tuple[InitRequest, bool]:
    """The column of lanes by its usual names, and whether there are lanes: otherwise the stream is still to be."""
    endpoint = open_endpoint(asked.data, reading)
    if endpoint.messages:
        return asked, True
    there = endpoint.describe(FieldSpec((asked.key,) if asked.key else ()))
    columns = there.columns
    if asked.key is None or asked.key not in columns:
        if there.misread is not None:
            raise there.misread
        what = "the key of files has to be named" if asked.key is None else "no such column"
        raise UsageError.of(what, got=asked.key, allowed=listed_names(columns), hint="--key COLUMN")
    lane = asked.lane or endpoint.lane_column([name for name in (asked.key, asked.time) if name])
    if lane is None and asked.lanes is None:
        hint = "--lanes N for the stream to be, or --lane COLUMN"
        raise UsageError.of("the data has no column of lanes", allowed=listed_names(columns), hint=hint)
    return replace(asked, lane=lane), lane is not None


def _cells_for_null(asked: InitRequest, reading: StreamOptions) -> str:
    """That empty cells of the key stand for null, in words; nothing where there are none, or they may be empty keys.

    A partitioner puts all empty keys in one lane, and null ones anywhere.
    """
    endpoint = open_endpoint(asked.data, reading)
    if asked.key is None or not endpoint.empty_cells((asked.key,)):
        return ""
    lanes: set[int] = set()
    empty = rows = 0
    columns = [asked.key, *([asked.lane] if asked.lane else [])]
    for batch in endpoint.describe(FieldSpec((asked.key,))).batches(columns):
        some = batch.filter(pc.equal(plain(batch.column(0)), ""))
        empty, rows = empty + len(some), rows + len(batch)
        lanes |= set(some.column(1).to_pylist()) if asked.lane else set()
        if len(lanes) > 1 or rows >= _EMPTY_ROWS:
            break
    if asked.lane and len(lanes) < 2:
        return ""
    where = ", in several lanes, as null keys lie" if asked.lane else ""
    return (
        f"{numbers.count(empty)} of the first {numbers.plural(rows, 'row')} have an empty cell in {asked.key}{where}: "
        "read as null (--csv-null '')"
    )


def _only_time(asked: InitRequest, reading: StreamOptions) -> str | None:
    """The one column of files that holds times, by its type or its first values; None where it is none, or several.

    Whole numbers are no proof: an amount may look like seconds.
    """
    endpoint = open_endpoint(asked.data, reading)
    if endpoint.messages:
        return None
    columns = endpoint.describe(FieldSpec((asked.key,) if asked.key else ())).columns
    others = [name for name in columns if name not in (asked.key, asked.lane)]
    if len(others) > _LOOKED_AT:
        return None
    found = [name for name in others if _holds_times(endpoint, name)]
    return found[0] if len(found) == 1 else None


def _holds_times(endpoint: Endpoint, name: str) -> bool:
    """Whether each of the first values is a time; a column that cannot be read as one of text or times holds none."""
    try:
        batch = next(endpoint.describe(FieldSpec((name,))).batches([name]), None)
    except KeylaneError:
        return False
    if batch is None:
        return False
    column = plain(batch.column(0).slice(0, _ROWS)).drop_null()
    if is_text(column.type):
        column = column.filter(pc.not_equal(column, ""))
        # Numbers of ten digits may be times, and as well be telephones.
        if not pc.all(pc.match_substring_regex(column, TEXT_TIME)).as_py():
            return False
    elif not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return False
    return len(column) > 0 and not micros_of(column, None)[1].any()


def _contract(
    asked: InitRequest, seen: IdentifiedData | None, given: str | None
) -> tuple[FirstContract, PartitionerSource]:
    found = seen.contract if seen else None
    if found is not None:
        if given in (None, found.partitioner):
            return found, "identified"
        return replace(found, partitioner=given), "given"
    if seen is not None and given is None:
        why, settles = seen.found.no_contract or ("no partitioner explains the lanes", "a larger sample")
        hint = "--partitioner NAME writes a contract without proof"
        raise NotShownError.of(f"{asked.data} does not show its contract", got=why, allowed=settles, hint=hint)
    name = stream_name(parse_address(asked.data).name)
    lanes = asked.lanes or (seen.found.lanes if seen else 1)
    key = asked.key or (seen.key if seen else "key")
    return FirstContract(name, lanes, key, "utf8", given or USUAL), "given" if given else "assumed"


def _remarks(seen: IdentifiedData | None, source: PartitionerSource) -> Iterator[str]:
    if seen is not None and seen.contract is not None:
        yield from remarks(seen)
    elif seen is not None:
        why, _ = seen.found.no_contract or ("no partitioner explains the lanes", "")
        yield f"The data does not show this contract: {why}; its lane count is the least that it can be."
    if source == "given":
        yield "The partitioner is the one that was asked for."
    if source == "assumed":
        yield "The data has no lanes: the partitioner is the default of Java's client, and the key is written as text."


def _next(asked: InitRequest, to: str, again: str, *, has_lanes: bool) -> Iterator[str]:
    data, file = shlex.quote(asked.data), shlex.quote(to)
    lane = f" --lane {shlex.quote(asked.lane)}" if asked.lane and asked.lane != "lane" else ""
    timed = f" --time {shlex.quote(asked.time)}" if asked.time else ""
    # Data without lanes has nothing that a first contract could be compared with.
    if has_lanes:
        yield f"keylane check {file} --data {data}{lane}{again}"
    yield f"keylane profile {data} --contract {file}{lane}{timed}{again} --report profile.html"
    yield f"keylane plan {data} --contract {file}{timed}{again} --out plan.json --report plan.html"
