"""Which engine counts a source, this process or Spark, and what both are asked and give.

    Options, ProfileRequest   what is asked
    chosen_engine             by Arrow and NumPy in this process, or on Spark
    profile_of_rows           counted rows -> a profile, whichever engine has counted them

Small sources are counted here: Spark takes longer to start than this takes to answer. Both give the same document.
Sketches, and whatever asks for a cluster or for settings of Spark run on Spark (`spark_counts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow.compute as pc

from keylane.contract.model import Key
from keylane.errors import CountError, DataError, UsageError, did_you_mean
from keylane.geo.coordinates import checked_scale, scale_hint
from keylane.keys.cells import region_of
from keylane.keys.time_forms import split_time
from keylane.numbers import count
from keylane.profile.build import UNTIMED, observed_lanes, profile_of
from keylane.profile.cells import CELL, REASONS, reasons_of
from keylane.profile.scan import ScanRequest
from keylane.profile.writers import writers_in
from keylane.records import Reason
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.geo.coordinates import Region
    from keylane.profile.build import ProfileMetadata
    from keylane.profile.cells import Numbers
    from keylane.profile.count import TooManyKeysError
    from keylane.profile.model import Profile
    from keylane.profile.scan import LocalScan
    from keylane.spark.context import Say
    from keylane.spark.scan import Scan
    from keylane.systems.endpoint import Endpoint

    #: Passes batches through, to show how far they are.
    Watch = Callable[[Iterator[Any]], Iterator[Any]]

Engine: TypeAlias = Literal["auto", "local", "spark"]
#: Records that are counted in this process where no engine was asked for.
MOST_RECORDS: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a profile beside its source and its key.

    `time` is the column that windows are cut by, and how it is written (`keys.times.TimeField`); `size` is the column
    with the size of a record, `lane` that of its lane. `kind` as in `route`. `seconds` is how long a topic is listened
    to. `scale` is how many of a location's numbers make a degree; None: as in the contract, otherwise 1. `configured`:
    `master` and `conf` are not of this call, but of a configuration: where Spark runs, not that it has to.
    """

    time: str | None = None
    size: str | None = None
    lane: str | None = None
    windows: int | None = None
    seconds: float | None = None
    scale: float | None = None
    approximate: bool = False
    engine: Engine = "auto"
    kind: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    configured: bool = False
    kafka: StreamOptions = field(default_factory=StreamOptions)

    def request(self, key: Key, contract: Contract | None, written: Sequence[str] = ()) -> ScanRequest:
        """What is asked of the source; `written` are fields of the key that are read as they are written."""
        time, form = (None, None) if self.time is None else split_time(self.time)
        asked = (time, form, self.size, self.windows, self.seconds)
        return ScanRequest(key, *asked, of_contract=contract is not None, written=tuple(written), lane=self.lane)


def region_read(contract: Contract | None, columns: Sequence[str], scale: float | None) -> Region:
    """Where locations may be, and the unit they are in: a contract's is that of its own columns, and no other."""
    known = region_of(contract.spec.geo if contract is not None else None)
    own = contract is not None and contract.spec.key.is_place and tuple(columns) == contract.spec.key.fields
    if scale is None:
        return known if own else replace(known, scale=1.0)
    checked_scale(scale)
    if own and scale != known.scale:
        hint = "leave --scale out, or change geo.scale of the contract"
        raise UsageError.of("--scale contradicts the contract", got=f"{scale:g}", allowed=f"{known.scale:g}", hint=hint)
    return replace(known, scale=scale)


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What is asked of which source: the same for both engines."""

    source: str
    endpoint: Endpoint
    options: Options
    read: Key
    place: tuple[str, ...]
    contract: Contract | None
    request: ScanRequest
    region: Region

    @property
    def key(self) -> Key:
        """The key of the profile: of locations their home cells."""
        return Key(fields=(CELL,), encoding="h3") if self.place else self.read

    @property
    def place_facts(self) -> dict[str, Any]:
        """What a profile keeps of how its cells were made."""
        scale = {} if self.region.scale == 1 else {"scale": self.region.scale}
        return {"place": list(self.place), **scale}


def chosen_engine(endpoint: Endpoint, options: Options, spark: SparkSession | None) -> Literal["local", "spark"]:
    """The engine that was asked for, or the one that answers first."""
    if options.engine == "spark":
        return "spark"
    why = _why_spark(options, spark)
    if options.engine == "local" and why:
        hint = f"--engine spark, or leave {why} out"
        raise UsageError.of("only Spark can do this", got=f"--engine local with {why}", hint=hint)
    if why:
        return "spark"
    records = endpoint.estimated_records()
    if options.engine == "local":
        if records is None:
            what = "such a source is not counted without Spark"
            raise UsageError.of(what, got=str(endpoint.address), hint="--engine spark, or leave --engine out")
        return "local"
    return "local" if records is not None and records <= MOST_RECORDS else "spark"


def _why_spark(options: Options, spark: SparkSession | None) -> str:
    """What was asked for that only Spark has."""
    asked = {
        "a session": spark is not None,
        "--approximate": options.approximate,
        "--for": options.seconds is not None,
        "--master": options.master is not None and not options.configured,
        "--conf": bool(options.conf) and not options.configured,
        "--spark-jars": options.kafka.jars is not None,
        "--spark-packages": options.kafka.packages is not None,
    }
    return next((name for name, given in asked.items() if given), "")


def switch_to_spark(error: TooManyKeysError, options: Options, say: Say | None) -> None:
    """Report that Spark counts what has more keys than this process does; an error where that was ruled out."""
    if options.engine == "local":
        raise error
    if say is None:
        from keylane.spark.context import warn

        say = warn
    say(f"{str(error).partition('; hint')[0]}; counting on Spark instead")


def profile_of_rows(
    rows: pa.Table,
    scan: Scan | LocalScan,
    metadata: ProfileMetadata,
    contract: Contract | None,
    outlier: Callable[[], Numbers | None] = lambda: None,
) -> Profile:
    """Counted rows as a profile, whichever engine has counted them; `outlier` reads a location that is too far out."""
    facts = dict(scan.facts)
    if "place" in facts:
        facts["no_place"] = reasons_of(rows, len(metadata.windows), metadata.packing)
        if not pc.any(pc.greater_equal(rows.column(CELL), len(REASONS))).as_py():
            raise no_location(metadata.source, facts["no_place"], outlier(), scan.facts.get("scale", 1.0))
        if contract is not None:
            spec = contract.spec.model_copy(update={"key": metadata.key})
            contract = contract.model_copy(update={"spec": spec})
    untimed = int(pc.sum(rows.column(UNTIMED)).as_py() or 0) if UNTIMED in rows.column_names else 0
    untimed -= sum(facts.get("strays", ())[:2])
    metadata = replace(metadata, facts=profile_facts(facts, scan, untimed))
    if scan.lanes is not None:
        promised = contract.spec.lanes if contract is not None and contract.spec.lanes != "live" else 1
        known = scan.lanes if scan.lanes > 1 else None
        found = writers_in(rows, metadata, known, scan.key_space) if contract is None and "place" not in facts else None
        metadata = replace(metadata, facts=(*metadata.facts, *([("writers", found)] if found else [])))
        rows, lanes = observed_lanes(rows, metadata, max(scan.lanes, promised), contract, scan.key_space)
        metadata = replace(metadata, lanes=lanes)
    if scan.key_space is not None:
        shards = [[id_, str(start)] for id_, start in zip(scan.key_space.ids, scan.key_space.starts, strict=True)]
        metadata = replace(metadata, facts=(*metadata.facts, ("shards", shards)))
    return checked(profile_of(rows, metadata), scan)


def no_location(source: str, dead: Mapping[str, int], outlier: Numbers | None, scale: float) -> DataError:
    """The error of a source none of whose records has a location, with the scale that it would have one by."""
    got = ", ".join(f"{count(n)} {reason}" for reason, n in dead.items()) or "no records"
    hint = "check the columns of latitude and longitude"
    if max(dead, key=lambda reason: dead[reason], default="") == Reason.PLACE_UNSCALED:
        hint = f"the numbers are degrees already: leave out the scale of {scale:g}"
    elif outlier is not None and (fits := scale_hint(*outlier)):
        hint = f"{fits} (--scale)"
        got = f"{got}, as {outlier[0]:.12g}, {outlier[1]:.12g}"
    return DataError.of(f"no record of {source} has a location", got=got, hint=hint)


def profile_facts(facts: Mapping[str, Any], scan: Scan | LocalScan, untimed: int) -> tuple[tuple[str, Any], ...]:
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
        unread = f"{count(keyless.malformed)} unreadable or without a lane"
        got = f"{count(keyless.null)} null, {count(keyless.empty)} empty, {unread}"
        known = scan.names()
        near = " ".join(filter(None, (did_you_mean(name, known) for name in made.key.fields)))
        hint = near or "check the columns of key and lane, and the encoding"
        raise DataError.of(f"no record has a key in {names}", got=got, allowed=", ".join(known[:40]), hint=hint)
    return made
