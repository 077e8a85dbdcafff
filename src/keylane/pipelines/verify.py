"""`verify`: is every record of a source where it belongs in a target? The rules are those of `keylane.history`.

    systems.endpoint       two addresses -> streams, part by part
    here                   their records -> rows of a history: a source's are sends, a target's reads or dead letters
    history.check, here    rows -> a verdict, on this machine
    spark.history          the same rows, distributed by a shuffle

Records of the source count as sent and acknowledged; records in the lanes of the target count as read. So a record that
the target has not taken yet is lost, until it has. A record is known by its position in the source. Where the target
records the order in which it took its sources, they count as one writer, so that order is judged across them;
otherwise each source is a writer of its own. The functions that make rows run here and in Spark's workers alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.contract.fields import fields_of
from keylane.contract.fingerprint import abbreviated
from keylane.errors import DataError, UsageError
from keylane.history.check import check
from keylane.history.rows import DEAD, READ, SCHEMA, SEND
from keylane.history.verdict import Settings
from keylane.keys.arrow_bytes import plain
from keylane.keys.read import read_batch, sent_keys
from keylane.measure.conformance import order_scopes
from keylane.records import REASON_CODES, Reason
from keylane.router import Router
from keylane.systems.endpoint import open_endpoint
from keylane.systems.streams import POSITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from keylane.batch_router import Decided
    from keylane.contract.model import Contract
    from keylane.history.verdict import Mode, Verdict
    from keylane.keys.read import BatchKeys
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.folders.folder import Counts
    from keylane.systems.streams import Part, Read, Stream

    #: A part and the function that makes rows of it.
    Task = tuple[Callable[["VerifyPlan", Part], Iterator[pa.RecordBatch]], Part]

Engine: TypeAlias = Literal["auto", "local", "spark"]
#: From this many records on, `auto` is Spark where it is installed: about half a minute of one core.
MANY: Final = 10_000_000


OK, UNKNOWN = 2, 1
#: More than any position.
ALL: Final = 1 << 62
#: The one writer that sources taken in a known order make up. No file has such a name.
IN_ORDER: Final = "//"
_ROW_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a comparison: the verdict, and what a certificate reports beside it.

    `not_taken` are records in source files that no manifest of the target names: they count as lost, and may only be
    late. `unvouched` are records of sources that are gone. `miscounted`: where the target's own counts are wrong.
    """

    source: str
    target: str
    verdict: Verdict
    engine: Engine
    contract: str | None
    fingerprint: str | None
    epoch: int | None
    claimed: Counts | None
    miscounted: tuple[str, ...]
    not_taken: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict.ok and not self.miscounted


def verify(
    source: str,
    target: str,
    contract: Contract | None = None,
    *,
    mode: Mode = "exactly-once",
    engine: Engine = "auto",
    keep: int = 10,
    spark: SparkSession | None = None,
    watch: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]] = iter,
    lanes: int | None = None,
    topics: StreamOptions | None = None,
) -> Verified:
    """Compare a target with its source.

    `watch` is passed every batch on its way, for progress. `lanes` is the lane count that a `live` contract
    was routed with; otherwise the target's own. `topics` are options of both streams.
    """
    origin = open_endpoint(source, topics)
    target_stream = open_endpoint(target, topics).as_target(origin, contract)
    source_stream = origin.as_source(target_stream, contract)
    if contract is not None and target_stream.fingerprint not in {None, contract.fingerprint}:
        raise _another(contract, f"{target_stream.contract} {target_stream.fingerprint}")
    plan = VerifyPlan.of(source_stream, target_stream, contract, lanes)
    tasks = [(source_rows, part) for part in source_stream.parts]
    tasks += [(target_rows, part) for part in target_stream.parts]
    known = [stream.records for stream in (source_stream, target_stream) if stream.records is not None]
    records = max(known) * 2 if known else None
    if engine == "auto":
        many = spark is not None or (records is not None and records > MANY)
        engine = "spark" if many and find_spec("pyspark") else "local"
    settings = Settings(mode=mode, keep=keep, sends_complete=True)
    if engine == "spark":
        verdict = _on_spark(plan, tasks, settings, records, spark)
    else:
        verdict = check(watch(chain.from_iterable(rows(plan, part) for rows, part in tasks)), settings)
    if contract is not None and 0 < verdict.records == verdict.facts.get("unplaced", 0):
        raise _another(contract, "the contract that its records name in `keylane.contract`")
    return _verified(source_stream, target_stream, contract, plan, _named_verdict(verdict, plan, contract), engine)


def _another(contract: Contract, allowed: str) -> UsageError:
    return UsageError.of(
        "the target was made under another contract",
        got=f"{contract.metadata.name} {contract.fingerprint}",
        allowed=allowed,
        hint="use the version of the contract that the target was routed by",
    )


def _on_spark(
    plan: VerifyPlan, tasks: Sequence[Task], settings: Settings, records: int | None, spark: SparkSession | None
) -> Verdict:
    from keylane.spark.history import ROWS_DDL, bits_for, judged
    from keylane.spark.session import local_session

    session = spark or local_session()

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows, part = tasks[number]
                yield from rows(plan, part)

    slices = max(1, min(len(tasks), 4 * session.sparkContext.defaultParallelism))
    numbers = session.range(0, len(tasks), 1, slices)
    return judged(numbers.mapInArrow(read, ROWS_DDL), settings, bits_for(records))


def _named_verdict(verdict: Verdict, plan: VerifyPlan, contract: Contract | None) -> Verdict:
    """The verdict with sources by their names; rules that cannot be checked without a contract are marked."""
    named = tuple(
        replace(violation, **source_of(plan, violation.writer, violation.seq)) for violation in verdict.violations
    )
    unchecked: dict[Any, str] = dict(verdict.unchecked)
    for rule in ("two_owners", "early_applies"):
        unchecked[rule] = "streams do not record who owned a lane or applied a record"
    if "stale_epochs" in unchecked:
        unchecked["stale_epochs"] = "the records of the target carry no epochs"
    if contract is None:
        why = "no contract was given, so keys are not known"
        unchecked |= {"split_keys": why, "misrouted": why}
    return replace(verdict, violations=named, unchecked=unchecked)


def _verified(
    source: Stream, target: Stream, contract: Contract | None, plan: VerifyPlan, verdict: Verdict, engine: Engine
) -> Verified:
    remarks = [*source.remarks, *target.remarks]
    if contract is None:
        remarks.append("order was checked per lane and source, which is stricter than per key")
    if plan.gone:
        remarks.append(f"{len(plan.gone)} source(s) are gone: their records were not compared")
    unasked = verdict.facts.get("unasked", 0)
    if contract is not None and unasked:
        remarks.append(
            f"the lanes of {unasked:,} record(s) were not checked: they are placed by position, or by another contract"
        )
    named = [part.stream for part in source.parts]
    return Verified(
        source=source.address,
        target=target.address,
        verdict=verdict,
        engine=engine,
        contract=contract.metadata.name if contract else target.contract,
        fingerprint=contract.fingerprint if contract else target.fingerprint,
        epoch=contract.metadata.epoch if contract else target.epoch,
        claimed=target.claimed,
        miscounted=tuple(_miscounted(target.claimed, verdict)),
        not_taken=() if target.taken is None else tuple(name for name in named if name and name not in target.taken),
        remarks=tuple(remarks),
    )


def _miscounted(claimed: Counts | None, verdict: Verdict) -> Iterator[str]:
    """Where the target's own counts are wrong: in themselves, or against its records, repeats left out.

    A batch that was written again is counted once there.
    """
    if claimed is None:
        return
    if claimed.in_ != claimed.out + claimed.dead + claimed.filtered:
        yield f"in {claimed.in_} is not out {claimed.out} + dead {claimed.dead} + filtered {claimed.filtered}"
    facts, again = verdict.facts, verdict.mode == "at-least-once"
    for name, reported, counted in (
        ("out", claimed.out, verdict.records - facts.get("repeats", 0)),
        ("dead", claimed.dead, facts.get("dead", 0) - (facts.get("dead_repeats", 0) if again else 0)),
    ):
        if reported != counted:
            yield f"the manifests report {name} {reported}, but {counted} are in the target"


# Records -> rows of a history.


@dataclass(frozen=True)
class VerifyPlan:
    """All that is needed to turn a part of source or target into rows. Handed to Spark's workers."""

    read_source: Read
    read_target: Read
    contract: Contract | None
    lanes: int | None
    stream: str | None
    order: tuple[str, ...]
    gone: frozenset[str]
    begins: Mapping[str, int]
    excused: frozenset[str]
    fields: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, source: Stream, target: Stream, contract: Contract | None, lanes: int | None = None) -> VerifyPlan:
        """The plan for two streams; `lanes` is the count of a `live` contract, otherwise the target's own."""
        named = {part.stream for part in source.parts}
        streams = [name for name in target.lanes if contract and name in contract.spec.streams]
        live = contract is not None and contract.spec.lanes == "live"
        return cls(
            source.read,
            target.read,
            contract,
            (lanes or target.lanes[streams[0]]) if streams and live else lanes if live else None,
            streams[0] if streams else None,
            target.order or (),
            frozenset((target.taken or frozenset()) - named),
            source.begins,
            target.excused,
            tuple(fields_of(contract)) if contract else (),
        )

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The number of each source in the order in which they were taken."""
        return {name: rank for rank, name in enumerate(self.order)}

    @cached_property
    def router(self) -> Router | None:
        """The contract, ready to decide."""
        return Router(self.contract, lanes=self.lanes, stream=self.stream) if self.contract else None


def source_of(plan: VerifyPlan, writer: str, seq: int) -> dict[str, Any]:
    """A writer and its number as the source and the position that they stand for."""
    if writer != IN_ORDER:
        return {"writer": writer, "seq": seq}
    return {"writer": plan.order[seq >> _ROW_BITS], "seq": seq & (1 << _ROW_BITS) - 1}


def source_rows(plan: VerifyPlan, part: Part) -> Iterator[pa.RecordBatch]:
    """A part of the source as sends, all of them acknowledged."""
    for batch in plan.read_source(part, plan.fields):
        if len(batch):
            known, fields = _apart(batch)
            keys = _base_keys(plan, known, fields)
            yield _rows(known, SEND, **_identity(plan, known), outcome=_same(OK, pa.int8(), known), key=keys)


def target_rows(plan: VerifyPlan, part: Part) -> Iterator[pa.RecordBatch]:
    """A part of the target as reads or dead letters; what came from a source that is gone is a send unknown, too."""
    for batch in plan.read_target(part, plan.fields):
        if not len(batch):
            continue
        known, fields = _apart(batch)
        identity = _identity(plan, known)
        if plan.gone or plan.begins:
            sends = _rows(known, SEND, **identity, outcome=_same(UNKNOWN, pa.int8(), known))
            yield sends.filter(pa.array(_unvouched(plan, known)))
        if part.dead:
            yield _rows(known, DEAD, **identity, offset=known.column("offset"), **_lanes_of_dead(plan, known, fields))
        else:
            where = {name: known.column(name) for name in ("stream", "lane", "offset", "epoch", "replay")}
            yield _rows(known, READ, **identity, **where, **_promise(plan, known, fields))


def _apart(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Positions, and the record's own fields: `key` or `source` may be the name of either."""
    fields = pa.schema(list(batch.schema)[len(POSITIONS) :])
    known = pa.RecordBatch.from_arrays(batch.columns[: len(POSITIONS)], schema=POSITIONS)
    return known, pa.RecordBatch.from_arrays(batch.columns[len(POSITIONS) :], schema=fields)


def _unvouched(plan: VerifyPlan, known: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which records came from a source that is gone, or from before its first retained position."""
    coded = plain(known.column("source")).dictionary_encode()
    first = [ALL if name in plan.gone else plan.begins.get(name, 0) for name in coded.dictionary.to_pylist()]
    begins = np.array(first, np.int64)[coded.indices.to_numpy()]
    return np.asarray(known.column("position").to_numpy() < begins, bool)


def _rows(batch: pa.RecordBatch, what: int, **columns: Any) -> pa.RecordBatch:
    columns |= {"what": _same(what, pa.int8(), batch), "generation": _same(0, pa.int32(), batch)}
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(len(batch), f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _same(value: Any, kind: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), len(batch))


def _identity(plan: VerifyPlan, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Writer and number of every record."""
    source, position = batch.column("source"), batch.column("position")
    if source.null_count or position.null_count:
        hint = "records must carry their position in the source, as those of `keylane route` do"
        raise DataError.of("a record has no position in the source", got=f"{source.null_count} such records", hint=hint)
    coded = plain(source).dictionary_encode()
    names = coded.dictionary.to_pylist()
    rank = np.array([plan.ranks.get(name, -1) for name in names], np.int64)[coded.indices.to_numpy()]
    row = position.to_numpy(zero_copy_only=False)
    labels = pa.array([IN_ORDER if name in plan.ranks else name for name in names], pa.string())
    return {"writer": labels.take(coded.indices), "seq": pa.array(np.where(rank < 0, row, rank << _ROW_BITS | row))}


def _base_keys(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> pa.Array:
    """Keys of the source as bytes, to be compared; null where they are not available."""
    if plan.contract is None or not set(plan.contract.spec.key.fields) <= set(fields.schema.names):
        return known.column("key")
    return read_batch(fields, plan.contract.spec.key, plan.contract.spec.geo).base


def _promise(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> dict[str, pa.Array]:
    """Key, scope and lane as the contract has them; without it, or under another, the lane is what keeps an order."""
    lane = pc.binary_join_element_wise(known.column("stream"), known.column("lane").cast(pa.string()), "/")
    if plan.router is None:
        return {"scope": lane}
    decided = decide(plan.router, fields, keys=_sent_keys(plan.router, known, fields))
    other = _by_another(known.column("fingerprint"), plan.router.contract.fingerprint)
    scope = order_scopes(plan.router, decided)
    if pc.any(other).as_py():
        apart = pc.binary_join_element_wise(lane, known.column("fingerprint"), "\0").cast(pa.binary())
        scope = pc.if_else(other, apart, scope)
    return {"key": decided.keys.base, "scope": scope, **_expected(decided, other)}


def _lanes_of_dead(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> dict[str, pa.Array]:
    """The lane that the contract has for each dead letter: -1 for none; null where its record does not decide it."""
    router, reason = plan.router, known.column("reason")
    if router is None or not _has_key(router, known, fields):
        return {}
    try:
        decided = decide(router, fields, keys=_sent_keys(router, known, fields))
    except DataError:
        # The JSON of a dead letter has not the types of the columns that it came from.
        return {}
    # A key that is null here may have been unreadable there, unless the dead letter's reason is a null key.
    keyed = pc.or_(decided.keys.routing.is_valid(), pc.equal(reason, Reason.NULL_KEY).fill_null(False))
    excused = pc.is_in(reason, value_set=pa.array(sorted(plan.excused), pa.string()))
    other = _by_another(known.column("fingerprint"), router.contract.fingerprint)
    asked = pc.and_not(keyed, pc.or_(excused, other)).to_numpy(zero_copy_only=False)
    placed = (decided.reason < 0) | (decided.reason == REASON_CODES[Reason.NO_POSITION])
    return {"expected_lane": pa.array(np.where(placed, decided.lane, -1), pa.int32(), mask=~asked)}


def _has_key(router: Router, known: pa.RecordBatch, fields: pa.RecordBatch) -> bool:
    spec = router.contract.spec.key
    needed = {*spec.fields, *([spec.window.field] if spec.window else [])}
    return needed <= set(fields.schema.names) or (spec.window is None and known.column("key").null_count < len(known))


def _by_another(carried: pa.Array, whole: str) -> pa.Array:
    """Whether a record names another contract; one that names none was placed by this one."""
    return pc.invert(pc.is_in(carried, value_set=pa.array([whole, abbreviated(whole), None], pa.string())))


def _sent_keys(router: Router, known: pa.RecordBatch, fields: pa.RecordBatch) -> BatchKeys | None:
    """Keys that came as bytes, where the fields they were made of are not available."""
    spec = router.contract.spec.key
    if set(spec.fields) <= set(fields.schema.names) or spec.window is not None:
        return None
    return sent_keys(known.column("key"), np.zeros(len(known), bool), spec, router.contract.spec.geo)


def _expected(decided: Decided, other: pa.Array) -> dict[str, pa.Array]:
    """Where the contract puts each record: lane -1 for nowhere, null where its key does not decide it.

    Under another contract there is no stream either.
    """
    lane = np.where(decided.reason >= 0, -1, decided.lane)
    by_other = other.to_numpy(zero_copy_only=False)
    by_position = (decided.reason == REASON_CODES[Reason.NO_POSITION]) | decided.by_position
    streams = pa.array(decided.streams, pa.string()).take(pa.array(decided.stream))
    placed = pa.array(((lane >= 0) | by_position) & ~by_other)
    return {
        "expected_lane": pa.array(lane, pa.int32(), mask=by_position | by_other),
        "expected_stream": pc.if_else(placed, streams, pa.scalar(None, pa.string())),
    }
