"""`profile`: the keys of a source, from one pass over it: in this process where it is small, on Spark otherwise.

    pipelines.engine         which of the two
    systems.endpoint         a source -> keys, each with its time or its position (`scan_local`, `scan`)
    profile.scan             batches of Arrow -> one row for each key, by window
    pipelines.spark_counts   the same on Spark
    profile.build            rows -> a profile
    systems.profiles         a profile -> a folder, for `plan`

Both engines give the same profile, to the last count. Before the pass, only the first and last time are read, because
windows are cut between them: in the footers of Parquet files where they have them, otherwise in the one column.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from keylane.contract.model import Key
from keylane.errors import CountError, DataError, UsageError, did_you_mean
from keylane.keys.cells import region_of
from keylane.pipelines.engine import chosen_engine, switched
from keylane.profile.build import UNTIMED, ProfileMetadata, observed_lanes, profile_of
from keylane.profile.cells import CELL, home_cell_keys, reasons_of
from keylane.profile.count import TooManyKeysError
from keylane.profile.scan import ScanRequest, count_keys
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.profiles import staged, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.pipelines.engine import Engine
    from keylane.profile.model import Profile
    from keylane.profile.scan import LocalScan
    from keylane.profile.times import Unit
    from keylane.spark.context import Say
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Endpoint

    #: Passes batches through, to show how far they are.
    Watch = Callable[[Iterator[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a profile beside its source and its key.

    `time` is the column that windows are cut by, `unit` the unit of its integers, `size` the column with the
    size of a record, `lane` that of its lane. `kind` as in `route`. `seconds` is how long a topic is listened to.
    """

    time: str | None = None
    unit: Unit | None = None
    size: str | None = None
    lane: str | None = None
    windows: int | None = None
    seconds: float | None = None
    approximate: bool = False
    engine: Engine = "auto"
    kind: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: StreamOptions = field(default_factory=StreamOptions)

    def request(self, key: Key, contract: Contract | None, written: Sequence[str] = ()) -> ScanRequest:
        """What is asked of the source; `written` are fields of the key that are read as they are written."""
        times = (self.time, self.unit, self.size, self.windows, self.seconds)
        return ScanRequest(key, *times, of_contract=contract is not None, written=tuple(written), lane=self.lane)


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
    say: Say | None = None,
    watch: Watch = iter,
) -> Profile:
    """Count the records of every key of a source, by window; with `out` the profile is stored there too.

    The key is the contract's, without its window, or the fields that are named; or, with `place`, latitude and
    longitude, the home cell of each record. With a session in `spark` it runs there. `watch` sees the batches of a
    count in this process go by.
    """
    options = options or Options()
    endpoint = open_endpoint(source, replace(options.kafka, kind=options.kind))
    place = place_of(place, key, contract, approximate=options.approximate)
    read = Key(fields=place) if place else key_of(key, encoding, contract, endpoint)
    asked = Asked(source, endpoint, options, read, place, contract, options.request(read, contract, place))
    endpoint.check_scan(asked.request.columns)
    target = None if out is None else Path(out).absolute()
    with staged(target, replace=replace_profile) as folder:
        made = None
        if chosen_engine(endpoint, options, spark) == "local":
            try:
                made = _locally(asked, watch)
            except TooManyKeysError as error:
                switched(error, options, say)
        if made is None:
            from keylane.pipelines.spark_counts import profile_on_spark

            made = profile_on_spark(asked, folder, spark, say)
        if target is not None:
            write_profile(made, folder)
        return made


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of which source: the same for both engines."""

    source: str
    endpoint: Endpoint
    options: Options
    read: Key
    place: tuple[str, ...]
    contract: Contract | None
    request: ScanRequest

    @property
    def key(self) -> Key:
        """The key of the profile: of locations their home cells."""
        return Key(fields=(CELL,), encoding="h3") if self.place else self.read


def _locally(asked: Asked, watch: Watch) -> Profile:
    found = asked.endpoint.scan_local(asked.request)
    scan = replace(found, batches=lambda: watch(found.batches()))
    keyed = None
    if asked.place:
        region = region_of(asked.contract.spec.geo if asked.contract is not None else None)
        keyed = partial(home_cell_keys, place=asked.place, text=not scan.typed, region=region)
        scan = replace(scan, facts={**scan.facts, "place": list(asked.place)})
    metadata = ProfileMetadata(asked.source, asked.key, scan.windows, 1, scan.size)
    rows = count_keys(scan, asked.key, keyed=keyed, sized=asked.request.size is not None)
    return profile_of_rows(rows, scan, metadata, asked.contract)


def profile_of_rows(
    rows: pa.Table, scan: Scan | LocalScan, metadata: ProfileMetadata, contract: Contract | None
) -> Profile:
    """Counted rows as a profile, whichever engine has counted them."""
    facts = dict(scan.facts)
    if "place" in facts:
        facts["no_place"] = reasons_of(rows, len(metadata.windows), metadata.packing)
        if contract is not None:
            spec = contract.spec.model_copy(update={"key": metadata.key})
            contract = contract.model_copy(update={"spec": spec})
    untimed = int(pc.sum(rows.column(UNTIMED)).as_py() or 0) if UNTIMED in rows.column_names else 0
    metadata = replace(metadata, facts=facts_of(facts, scan, untimed))
    if scan.lanes is not None:
        promised = contract.spec.lanes if contract is not None and contract.spec.lanes != "live" else 1
        rows, lanes = observed_lanes(rows, metadata, max(scan.lanes, promised), contract)
        metadata = replace(metadata, lanes=lanes)
    return checked(profile_of(rows, metadata), scan)


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


def key_of(
    fields: Sequence[str], encoding: Encoding | Sequence[Encoding], contract: Contract | None, endpoint: Endpoint
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
    elif endpoint.messages:
        key = Key(fields=("key",), encoding="raw")
    else:
        hint = "--key COLUMN, or --contract FILE"
        raise UsageError.of("a profile of files needs a key", allowed=columns_there(endpoint), hint=hint)
    if key.is_place:  # the same two coordinates hardly ever occur twice
        what, hint = "coordinates cannot be counted as keys", "their home cells: --place LAT,LNG"
        raise UsageError.of(what, got=", ".join(key.fields), allowed="cells", hint=hint)
    return key


def columns_there(endpoint: Endpoint, most: int = 40) -> str:
    """The columns of a source, for an error that lacks one."""
    names = endpoint.field_names()
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def facts_of(facts: Mapping[str, Any], scan: Scan | LocalScan, untimed: int) -> tuple[tuple[str, Any], ...]:
    """What is known of how a profile was made; records without a time too, where windows are cut by time."""
    return tuple({**facts, **({"without_time": untimed} if scan.windows.kind == "time" else {})}.items())


def checked(made: Profile, scan: Scan | LocalScan) -> Profile:
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
