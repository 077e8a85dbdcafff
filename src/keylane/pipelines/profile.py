"""`profile`: the keys of a source, from one pass of Spark over it.

    systems.endpoint   a source -> a frame of keys, each with its time or its position (`scan`)
    spark.count_keys   the frame -> one row for each key, by window
    profile.build      rows -> a profile
    systems.profiles   a profile -> a folder, for `plan`

Before the pass, only the first and last time are read, because windows are cut between them: in the footers of
Parquet files where they have them, otherwise by a job over the one column.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from keylane.contract.model import Key
from keylane.errors import CountError, DataError, UsageError, did_you_mean
from keylane.keys.cells import region_of
from keylane.profile.build import PRECISION, TRACKED, ProfileMetadata, observed_lanes, profile_of, sketched_profile
from keylane.spark.context import RunContext, translated, warn
from keylane.spark.count_cells import CELL, home_cell_keys, reasons_of
from keylane.spark.count_keys import UNTIMED, Counting, counted, distinct_keys, packing_for, sketched
from keylane.spark.keys import column_named
from keylane.spark.scan import ScanRequest
from keylane.spark.session import active_session_kept
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.profiles import read_rows, staged, write_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.profile.model import Profile
    from keylane.spark.context import Say
    from keylane.spark.scan import Scan

Unit: TypeAlias = Literal["s", "ms", "us"]
#: Many keys are looked up once each: the second, smaller map before the large one finds little of them.
_ONE_MAP: Final = "spark.sql.codegen.aggregate.map.twolevel.enabled"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a profile beside its source and its key.

    `time` is the column that windows are cut by, `unit` the unit of its integers, `size` the column with the
    size of a record. `kind` as in `route`. `seconds` is how long a topic is listened to.
    """

    time: str | None = None
    unit: Unit | None = None
    size: str | None = None
    windows: int | None = None
    seconds: float | None = None
    approximate: bool = False
    kind: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: StreamOptions = field(default_factory=StreamOptions)

    def request(self, key: Key, contract: Contract | None, written: Sequence[str] = ()) -> ScanRequest:
        """What is asked of the source; `written` are fields of the key that are read as they are written."""
        times = (self.time, self.unit, self.size, self.windows, self.seconds)
        return ScanRequest(key, *times, of_contract=contract is not None, written=tuple(written))


def profile(
    source: str,
    key: Sequence[str] = (),
    *,
    place: Sequence[str] = (),
    encoding: Encoding | Sequence[Encoding] = "utf8",
    contract: Contract | None = None,
    options: Options | None = None,
    out: str | Path | None = None,
    replace_profile: bool = False,
    spark: SparkSession | None = None,
    say: Say = warn,
) -> Profile:
    """Count the records of every key of a source, by window; with `out` the profile is stored there too.

    The key is the contract's, without its window, or the fields that are named; or, with `place`, latitude and
    longitude, the home cell of each record.
    """
    options = options or Options()
    endpoint = open_endpoint(source, replace(options.kafka, kind=options.kind))
    place = place_of(place, key, contract, approximate=options.approximate)
    read = Key(fields=place) if place else key_of(key, encoding, contract, of_messages=endpoint.messages)
    wanted = Key(fields=(CELL,), encoding="h3") if place else read
    target = None if out is None else Path(out).absolute()
    with staged(target, replace=replace_profile) as folder:
        try:
            run = RunContext(spark, options.master, {_ONE_MAP: "false", **options.conf}, say=say)
            with active_session_kept(), endpoint.scan(run, options.request(read, contract, place)) as scan:
                scanned = _in_cells(scan, place, contract) if place else scan
                metadata = ProfileMetadata(source, wanted, scanned.windows, packing_for(scanned.records), scanned.size)
                made = (
                    _sketched(scanned, metadata) if options.approximate else _made(scanned, metadata, contract, folder)
                )
        except Exception as error:
            raise translated(error, work="the profile") from error
        if target is not None:
            write_profile(made, folder)
        return made


def place_of(
    place: Sequence[str], key: Sequence[str], contract: Contract | None, *, approximate: bool
) -> tuple[str, ...]:
    """Latitude and longitude where the key is a location: as named, or as the contract names them; otherwise empty."""
    named = contract.spec.key.fields if contract is not None and contract.spec.key.is_place else ()
    if place and (key or (contract is not None and tuple(place) != named)):
        allowed = ", ".join(named or key) or "the contract's"
        hint = "leave --place out" if contract is not None else "--place or --key, not both"
        what = "--place conflicts with the contract's key" if contract is not None else "--place conflicts with --key"
        raise UsageError.of(what, got=f"--place {','.join(place)}", allowed=allowed, hint=hint)
    if key and named and tuple(key) != named:
        raise UsageError.of("--key conflicts with the contract's key", got=", ".join(key), allowed=", ".join(named))
    fields = tuple(place) or named
    if fields and (len(fields) != 2 or fields[0] == fields[1]):
        raise UsageError.of("--place takes two fields", got=", ".join(fields), allowed="LATITUDE,LONGITUDE")
    if fields and approximate:
        raise UsageError.of("home cells cannot be counted approximately", got="--approximate", hint="leave it out")
    return fields


def _in_cells(scan: Scan, place: tuple[str, ...], contract: Contract | None) -> Scan:
    """The source with home cells as its key. Lines and the values of a topic are read as text."""
    region = region_of(contract.spec.geo if contract is not None else None)
    frame = home_cell_keys(scan.frame, place, text=not scan.typed, region=region)
    return replace(scan, frame=frame, facts={**scan.facts, "place": list(place)})


def key_of(
    fields: Sequence[str], encoding: Encoding | Sequence[Encoding], contract: Contract | None, *, of_messages: bool
) -> Key:
    """The key of a profile: the contract's without its window, or as named, or the key of messages."""
    named = ", ".join(fields)
    if contract is not None:
        key = contract.spec.key.model_copy(update={"window": None})
        if fields and tuple(fields) != key.fields:
            what, allowed = "--key conflicts with the contract's key", ", ".join(key.fields)
            raise UsageError.of(what, got=named, allowed=allowed, hint="leave --key out")
    elif fields:
        if not isinstance(encoding, str) and len(encoding) != len(fields):
            what, got = "the number of encodings does not match the key fields", f"{len(encoding)} for {len(fields)}"
            raise UsageError.of(what, got=got, allowed="one for all, or one for each")
        if len(set(fields)) < len(fields) or not all(fields):
            raise UsageError.of("key fields must be distinct and not empty", got=named)
        key = Key(fields=tuple(fields), encoding=encoding if isinstance(encoding, str) else tuple(encoding))
    elif of_messages:
        key = Key(fields=("key",), encoding="raw")
    else:
        raise UsageError.of("a profile of files needs a key", hint="--key COLUMN, or --contract FILE")
    if key.is_place:  # the same two coordinates hardly ever occur twice
        what, hint = "coordinates cannot be counted as keys", "their home cells: --place LAT,LNG"
        raise UsageError.of(what, got=", ".join(key.fields), allowed="cells", hint=hint)
    return key


def _made(scan: Scan, metadata: ProfileMetadata, contract: Contract | None, folder: Path) -> Profile:
    raw = folder / "raw"
    how = Counting(metadata.key, metadata.windows, metadata.packing, untimed=scan.untimed)
    counted(scan.frame, how).write.parquet(f"file://{raw}")
    rows = read_rows(raw)
    shutil.rmtree(raw)
    if "place" in scan.facts:
        scan = replace(
            scan, facts={**scan.facts, "no_place": reasons_of(rows, len(metadata.windows), metadata.packing)}
        )
        if contract is not None:
            spec = contract.spec.model_copy(update={"key": metadata.key})
            contract = contract.model_copy(update={"spec": spec})
    untimed = int(pc.sum(rows.column(UNTIMED)).as_py() or 0) if UNTIMED in rows.column_names else 0
    metadata = replace(metadata, facts=_facts(scan, untimed))
    if scan.lanes is not None:
        promised = contract.spec.lanes if contract is not None and contract.spec.lanes != "live" else 1
        rows, lanes = observed_lanes(rows, metadata, max(scan.lanes, promised), contract)
        metadata = replace(metadata, lanes=lanes)
    return _checked(profile_of(rows, metadata), scan)


def _sketched(scan: Scan, metadata: ProfileMetadata) -> Profile:
    """By sketches. Lanes are left out: a sketch per lane and window would need more memory than it saves."""
    rows = sketched(scan.frame, metadata.key, metadata.windows, TRACKED, PRECISION)
    sketches = {row["keylane_w"]: row["distinct"] for row in rows}
    distinct = distinct_keys(scan.frame.sparkSession, [sketches.get(n) for n in range(len(metadata.windows))])
    metadata = replace(metadata, facts=_facts(scan, sum(row["untimed"] for row in rows)))
    types = to_arrow_schema(scan.frame.select(*map(column_named, metadata.key.fields)).schema)
    return _checked(sketched_profile(rows, metadata, types, distinct, TRACKED), scan)


def _facts(scan: Scan, untimed: int) -> tuple[tuple[str, Any], ...]:
    return tuple({**scan.facts, **({"without_time": untimed} if scan.windows.kind == "time" else {})}.items())


def _checked(made: Profile, scan: Scan) -> Profile:
    """No record is lost: the count agrees with the source, where its size is known without counting."""
    counted_up = made.approximate is None or made.approximate.most_over == 0
    if scan.exact and counted_up and made.total != scan.records:
        what = "the source changed while it was counted, or records were lost"
        raise CountError.of(what, got=made.total, allowed=str(scan.records))
    if made.total == 0:
        raise DataError.of("no records", got=made.source, hint="the source is empty")
    if not made.keys.num_rows:
        names, keyless = ", ".join(made.key.fields), made.without_key
        got = f"{keyless.null:,} null, {keyless.empty:,} empty, {keyless.malformed:,} malformed"
        known = scan.names()
        near = " ".join(filter(None, (did_you_mean(name, known) for name in made.key.fields)))
        hint = near or "check the column's name and encoding"
        raise DataError.of(f"no record has a key in {names}", got=got, allowed=", ".join(known[:40]), hint=hint)
    return made
