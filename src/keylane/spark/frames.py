"""`with_placements(df, contract)` and `lane(contract)`: `keylane.router` for batch and streaming frames.

Both are expressions over the frame's columns, and run wherever Spark runs them; the parts come from `keys`,
`overrides` and `decide`; for locations, from `cells`. Contracts of cells, and those whose overrides are too many for an
expression, go over Arrow (`hashes.placed`).
Writing a frame to its lanes is not done here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keylane.contract.fields import absent_name, fields_of
from keylane.errors import UsageError
from keylane.router import Router
from keylane.spark.cells import placed_natively, routed_places
from keylane.spark.decide import Inputs, SubKey, decide, divided_by, empty_by_digest, sub_keys
from keylane.spark.hashes import hash_column, placed
from keylane.spark.java_calls import java_backend
from keylane.spark.keys import ADDED, PREFIX, Bytes, Keys, check_frame, column_named, field_of, read_keys
from keylane.spark.lanes import WRITTEN_OUT, divided_lanes
from keylane.spark.overrides import by_joins, by_literals, few_enough, without

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.contract.given import GivenContract
    from keylane.placement.overrides import Overrides
    from keylane.spark.java_calls import JavaBackend
    from keylane.spark.overrides import LookedUp


def lane(contract: GivenContract | Router, *, lanes: int | None = None, position: str | None = None) -> Column:
    """The lane of each row as an int column; null where there is none, and only `with_placements` says why.

    Takes a contract, its path or its text, with `lanes` as in `Router`, or a router.
    `position` names an integer column with the record's
    position in the source, which keyless rules and position spreads read. Needs an active session. A column alone
    cannot know the frame: one that lacks a field is Spark's own error, a name with dots is the name of a column, and
    nested fields, as a window over a `timestamp_ntz` column, need `with_placements`.
    """
    router = _router(contract, lanes)
    at = None if position is None else column_named(position).cast("bigint")
    backend = java_backend(SparkSession.active())
    overrides, hash_keys = _looked_up(router, backend)
    if router.cells is not None or not few_enough(overrides, joins=False):
        fields = fields_of(router.contract)
        return placed(router, fields, [column_named(name) for name in fields], at)["lane"].alias("lane")
    keys = read_keys(router.contract.spec.key, None, backend)
    look_ups = by_literals(overrides, keys.base)
    subs = sub_keys(router.overrides, None, backend)
    hashed = _hash(router, keys, backend)
    inputs = Inputs(router, keys, hashed, look_ups, subs, at, backend, written_out=False, hash_keys=hash_keys)
    return decide(inputs).lane_column().alias("lane")


def with_placements(
    df: DataFrame,
    contract: GivenContract | Router,
    *,
    lanes: int | None = None,
    stream: str | None = None,
    position: str | None = None,
    prefix: str = "",
) -> DataFrame:
    """The frame with `stream`, `lane`, `routing_key` and `reason`; no row more or less, and in the same order.

    Takes a contract, its path or its text, with `lanes` and `stream` as in `Router`, or a router: for many frames, or
    for a key space. `prefix` is put before the names of the four columns, for frames that have such names already.
    `reason` is null where there is a lane, otherwise one of `keylane.Reason`. `position` names an integer column with
    the record's position in the source; rows that need it and have none get the reason `no-position`.
    """
    router = _router(contract, lanes, stream)
    if prefix:
        return _prefixed(df, router, position, prefix)
    check_frame(df, router.contract, position)
    at = None if position is None else column_named(position).cast("bigint")
    if placed_natively(router):
        return _with_added(*routed_places(df, router))
    backend, schema = java_backend(df.sparkSession), df.schema
    overrides, hash_keys = _looked_up(router, backend)
    if router.cells is not None or not few_enough(overrides, joins=True):
        return _over_arrow(df, router, at)
    keys = read_keys(router.contract.spec.key, schema, backend)
    frame, keys = _staged(df, keys)
    frame, look_ups = by_joins(frame, overrides, keys.base)
    frame, hashed = _hash_staged(frame, _hash(router, keys, backend))
    frame, subs = _subs_staged(frame, router, look_ups, sub_keys(router.overrides, schema, backend))
    few = backend == "static" and divided_lanes(router.overrides) <= WRITTEN_OUT
    inputs = Inputs(router, keys, hashed, look_ups, subs, at, backend, written_out=few, hash_keys=hash_keys)
    decision = decide(inputs)
    added = (decision.stream_column(), decision.lane_column(), keys.routing.binary, decision.reason_column())
    return _with_added(frame, added)


def _looked_up(router: Router, backend: JavaBackend) -> tuple[Overrides, dict[bytes, int] | None]:
    """The overrides to look up by key, and the hash keys that are found by the digest instead, which is faster.

    A digest finds them where it is of the whole key, with nothing of a window in it.
    """
    if not router.explicit_hash_keys or backend != "static" or router.contract.spec.key.window is not None:
        return router.overrides, None
    lane_of = {key: router.key_space.lane_of(number) for key, number in router.explicit_hash_keys.items()}
    return without(router.overrides, router.explicit_hash_keys), lane_of


def _router(contract: GivenContract | Router, lanes: int | None, stream: str | None = None) -> Router:
    if not isinstance(contract, Router):
        return Router(contract, lanes=lanes, stream=stream)
    if lanes is not None or stream is not None:
        raise UsageError.of("a router has its own lanes and stream", hint="give them to Router, or give the contract")
    return contract


def _prefixed(df: DataFrame, router: Router, position: str | None, prefix: str) -> DataFrame:
    """The columns under other names; those of the frame that stand in the way step aside meanwhile."""
    # Column names are case-insensitive in Spark by default.
    made = {f"{prefix}{name}".lower() for name in ADDED}
    taken = [name for name in df.columns if name.lower() in made]
    if taken:
        raise UsageError.of("the frame has columns of these names", got=", ".join(taken), hint="another prefix")
    aside = {name: f"{prefix}{PREFIX}{name}" for name in df.columns if name.lower() in ADDED}
    used = {*fields_of(router.contract), *([position] if position else [])} & set(aside)
    if used:
        hint = "rename them in the frame and in the contract"
        raise UsageError.of("the key is read from columns of these names", got=", ".join(sorted(used)), hint=hint)
    placed_frame = with_placements(df.withColumnsRenamed(aside), router, position=position)
    back = {name: own for own, name in aside.items()}
    return placed_frame.withColumnsRenamed({name: f"{prefix}{name}" for name in ADDED}).withColumnsRenamed(back)


def _hash(router: Router, keys: Keys, backend: JavaBackend) -> Column | None:
    if router.partitioner.hash is None:
        return None
    refused = router.on_empty == "reject" and not empty_by_digest(router, keys, backend)
    hashed = _without_empty(keys) if refused else keys.routing
    return hash_column(router.partitioner.hash.name, hashed, backend)


def _without_empty(keys: Keys) -> Bytes:
    """Null where the key is empty: then the hash is null there, and so is the lane, without a branch.

    Inside a branch Spark computes a hash again for each expression that reads it. Digests: `decide.empty_by_digest`.
    """
    there = F.octet_length(keys.base.binary) > 0

    binary, number = keys.routing.binary, keys.routing.number
    kept = None if number is None else F.when(there, number)
    return Bytes(F.when(there, binary), kept, keys.routing.width)


def _hash_staged(frame: DataFrame, hashed: Column | None) -> tuple[DataFrame, Column | None]:
    """A column of its own for the hash: tiers and spreads read it too, and Spark shares nothing between branches."""
    if hashed is None:
        return frame, None
    return frame.select("*", hashed.alias(f"{PREFIX}hash")), F.col(f"{PREFIX}hash")


def _subs_staged(
    frame: DataFrame, router: Router, look_ups: LookedUp, subs: Mapping[str, SubKey]
) -> tuple[DataFrame, dict[str, SubKey]]:
    """The same for the hashes of sub-keys: each lane of a spread reads it."""
    names = {field: f"{PREFIX}sub_{number}" for number, field in enumerate(subs)}
    made = [
        F.when(divided_by(field, router.overrides, look_ups), sub.hash).alias(names[field])
        for field, sub in subs.items()
    ]
    staged = {field: replace(sub, hash=F.col(names[field])) for field, sub in subs.items()}
    return frame.select("*", *made), staged


def _staged(df: DataFrame, keys: Keys) -> tuple[DataFrame, Keys]:
    """Give the keys columns of their own, so that each is computed once."""
    made: dict[str, Column] = {}

    def stage(name: str, column: Column | None) -> Column | None:
        if column is None:
            return None
        made[f"{PREFIX}{name}"] = column
        return F.col(f"{PREFIX}{name}")

    def stage_bytes(name: str, part: Bytes) -> Bytes:
        made[f"{PREFIX}{name}"] = part.binary
        return Bytes(F.col(f"{PREFIX}{name}"), stage(f"{name}_number", part.number), part.width)

    base = stage_bytes("base", keys.base)
    routing = base if keys.routing is keys.base else stage_bytes("routing", keys.routing)
    staged = Keys(base, routing, stage("malformed", keys.malformed), stage("missing", keys.missing))
    return df.select("*", *(column.alias(name) for name, column in made.items())), staged


def _with_added(frame: DataFrame, added: Sequence[Column]) -> DataFrame:
    own = [name for name in frame.columns if name.startswith(PREFIX)]
    return frame.select("*", *(column.alias(name) for name, column in zip(ADDED, added, strict=True))).drop(*own)


def _over_arrow(df: DataFrame, router: Router, position: Column | None) -> DataFrame:
    fields = [field_of(name, df.schema) for name in fields_of(router.contract)]
    columns = {field.name: field.column for field in fields}
    columns |= {absent_name(field.name): field.absent for field in fields if field.absent is not None}
    placement = placed(router, list(columns), list(columns.values()), position)
    frame = df.select("*", placement.alias(f"{PREFIX}placed"))
    return _with_added(frame, [F.col(f"{PREFIX}placed")[name] for name in ADDED])
