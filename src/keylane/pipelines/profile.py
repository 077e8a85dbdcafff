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

import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import FieldSpec
from keylane.contract.model import Key
from keylane.errors import DataError, UsageError, listed_names
from keylane.pipelines.engine import (
    Options,
    ProfileRequest,
    chosen_engine,
    profile_of_rows,
    region_read,
    switch_to_spark,
)
from keylane.profile.build import ProfileMetadata, fingerprint_of
from keylane.profile.cells import home_cell_keys, outlying
from keylane.profile.count import TooManyKeysError
from keylane.profile.document import overview
from keylane.profile.scan import count_keys, watched
from keylane.systems.endpoint import open_endpoint, parse_address, resolved
from keylane.systems.masks import salt_of
from keylane.systems.profiles import is_profile, saved_salt, staged, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.documents.profile import Hot, ProfileDocument
    from keylane.pipelines.engine import Watch
    from keylane.profile.model import Profile
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Endpoint

__all__ = ["SEED", "Options", "document_of", "key_of", "mask_salt", "place_of", "profile", "saved_in"]

#: Fair hashes are drawn from it, to say what chance gives: the same profile has the same answer.
SEED: Final = 2026


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
    beside: Callable[[Profile, Path], None] = lambda *_: None,
) -> Profile:
    """Count the records of every key of a source, by window; with `out` the profile is stored there too.

    The key is the contract's, without its window, or the fields that are named; or, with `place`, latitude and
    longitude, the home cell of each record. With a session in `spark` it runs there. `watch` sees the batches of a
    count in this process go by. `beside` gets the profile and its folder before that is put in place at `out`.
    """
    options = options or Options()
    endpoint = open_endpoint(source, replace(options.kafka, kind=options.kind))
    place = place_of(place, key, contract, approximate=options.approximate)
    read = Key(fields=place) if place else key_of(key, encoding, contract, endpoint)
    usual = None
    if options.lane is None and not place:
        endpoint.check_scan(options.request(read, contract).columns)
        usual = _usual_lane(options, endpoint, read, say)
    if options.scale is not None and not place:
        raise UsageError.of("a scale is of locations", got=f"--scale {options.scale:g}", hint="--place LAT,LNG")
    region = region_read(contract, place, options.scale)
    # A short address means other brokers elsewhere; what is kept says which ones it meant here.
    named = resolved(source)
    asked = ProfileRequest(
        named, endpoint, options, read, place, contract, options.request(read, contract, place), region
    )
    endpoint.check_scan(asked.request.columns)
    target = None if out is None else Path(out).absolute()
    counted = partial(
        _counted, target=target, replace_profile=replace_profile, spark=spark, say=say, watch=watch, beside=beside
    )
    if not usual:
        return counted(asked)
    with_lane = replace(options, lane=usual)
    try:
        request = replace(with_lane.request(read, contract, place), all_laned=True)
        return counted(replace(asked, options=with_lane, request=request))
    except DataError as error:
        # A column that nobody named must not end a count that needs no lanes. Both engines have this text.
        if not str(error).startswith(f"column {usual!r} holds no lane"):
            raise
        if say is not None:
            say(f"counting again without lanes: not every record has one in column {usual}")
        return counted(asked)


def _counted(
    asked: ProfileRequest,
    *,
    target: Path | None,
    replace_profile: bool,
    spark: SparkSession | None,
    say: Say | None,
    watch: Watch,
    beside: Callable[[Profile, Path], None],
) -> Profile:
    """The profile, by the engine that fits; with `target` it is stored there, whole or not at all."""
    with staged(target, replace=replace_profile) as folder:
        made = None
        if chosen_engine(asked.endpoint, asked.options, spark) == "local":
            try:
                made = _locally(asked, watch, say)
            except TooManyKeysError as error:
                switch_to_spark(error, asked.options, say)
        if made is None:
            from keylane.pipelines.spark_counts import profile_on_spark

            made = profile_on_spark(asked, folder, spark, say)
        made = _marked_as_part(made, asked.options)
        if target is not None:
            write_profile(made, folder)
            beside(made, folder)
        return made


def _usual_lane(options: Options, endpoint: Endpoint, key: Key, say: Say | None) -> str | None:
    """The column of lanes by its usual names, as in `identify` and `check`; folders of lanes are read as such."""
    taken = [name for name in (*key.fields, options.time, options.size) if name]
    lane = endpoint.lane_column(taken, needed=False)
    if lane and say is not None:
        say(f"lanes are those in column {lane}; --lane COLUMN takes another")
    return lane


def _marked_as_part(made: Profile, options: Options) -> Profile:
    """Keep which partitions were read, where these are not all: their keys are there because of their hash."""
    read = options.kafka.read_range.partitions if options.kafka.read_range else ()
    if not read or len(read) == len(made.known.get("offsets", ())):
        return made
    marked = replace(made, facts=(*made.facts, ("partitions", list(read))))
    return replace(marked, fingerprint=fingerprint_of(marked))


def _locally(asked: ProfileRequest, watch: Watch, say: Say | None) -> Profile:
    found = asked.endpoint.scan_local(asked.request)
    scan = watched(found, watch)
    keyed = None
    if asked.place:
        keyed = partial(home_cell_keys, place=asked.place, text=not scan.typed, region=asked.region)
        scan = replace(scan, facts={**scan.facts, **asked.place_facts})
    metadata = ProfileMetadata(asked.source, asked.key, scan.windows, 1, scan.size)
    rows = count_keys(scan, asked.key, keyed=keyed)
    if say is not None and found.unread():
        say(found.unread())
    outlier = partial(outlying, scan, asked.place, asked.region)
    return profile_of_rows(rows, scan, metadata, asked.contract, outlier)


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
        key = Key(fields=("key",), encoding=endpoint.key_encoding)
    else:
        if (misread := endpoint.describe(FieldSpec()).misread) is not None:
            raise misread
        hint = "--key COLUMN, or --contract FILE"
        raise UsageError.of("a profile of files needs a key", allowed=listed_names(endpoint.field_names()), hint=hint)
    if key.is_place:  # the same two coordinates hardly ever occur twice
        what, hint = "coordinates cannot be counted as keys", "their home cells: --place LAT,LNG"
        raise UsageError.of(what, got=", ".join(key.fields), allowed="cells", hint=hint)
    return key


# The document of a profile, made or kept.


def saved_in(source: str) -> str | None:
    """The folder, where a source is a saved profile."""
    return source if parse_address(source).is_path and is_profile(Path(source)) else None


def document_of(
    made: Profile, contract: Contract | None, *, show_keys: bool, out: str | None, now_in: str | None = None
) -> ProfileDocument:
    """The document of a profile; `out` is where it is kept, if it is, and `now_in` where it is until then."""
    salt = mask_salt(made.source, now_in or out)
    return overview(made, salt=salt, show_keys=show_keys, stored=out, hot=_hot(made, contract))


def mask_salt(source: str, kept: str | None) -> bytes:
    """What keys are masked with: that of the source, so that every document names its keys alike.

    A profile that is kept has its salt with it: it shows the same masks elsewhere.
    """
    salt = salt_of(source, secrets.token_bytes(16))
    return salt if kept is None else saved_salt(Path(kept), salt)


def _hot(made: Profile, contract: Contract | None) -> Hot | None:
    """Why lanes are hot, by the contract; without one, by the hash of who wrote them, where the source has lanes."""
    # Against a mean of lanes that nobody read, every lane that was read is hot.
    if made.known.get("partitions"):
        return None
    if contract is None and (made.lanes is None or "place" in made.known or not _has_known_writers(made)):
        return None
    # Slow to import, and most profiles do without it.
    from keylane.plan.planner import assumed, heat_of

    return heat_of(made, contract or assumed(made), SEED)


def _has_known_writers(made: Profile) -> bool:
    """Whether it is known which hash put keys in their lanes: otherwise no cause can be named."""
    found = made.known.get("writers")
    return found is None or found["verdict"] != "unknown"
