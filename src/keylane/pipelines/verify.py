"""`verify`: is every record of a source where it belongs in a target? The rules are those of `keylane.history`.

    systems.endpoint       two addresses -> streams, part by part
    here                   their records -> rows of a history: a source's are sends, a target's reads or dead letters
    history.check, here    rows -> a verdict, on this machine
    spark.history          the same rows, distributed by a shuffle

Records of the source count as sent and acknowledged; records in the lanes of the target count as read. So a record that
the target has not taken yet is lost, until it has. A record is known by its position in the source. Where the target
records the order in which it took its sources, they count as one writer, so that order is judged across them;
otherwise each source is a writer of its own. The functions that make rows run here and in Spark's workers alike.

A target is certified when every rule that its contract calls for was checked on all records, and none is broken. What
was not checked is listed (`Unproven`): then it is not proven, whatever was found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.contract.fields import fields_of
from keylane.contract.fingerprint import abbreviated
from keylane.errors import DataError, UsageError
from keylane.history.check import check
from keylane.history.rows import DEAD, READ, SCHEMA, SEND
from keylane.history.verdict import RULES, Settings, Unproven, outcome_of
from keylane.keys.arrow_bytes import plain
from keylane.keys.read import read_batch, sent_keys
from keylane.measure.conformance import order_scopes
from keylane.numbers import agree, count, plural
from keylane.records import REASON_CODES, Reason
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.identity import recreated_source
from keylane.systems.streams import LEFT_OUT, POSITIONS
from keylane.systems.texts import SPENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from keylane.batch_router import Decided
    from keylane.contract.model import Contract
    from keylane.history.verdict import Mode, Outcome, Rule, Verdict
    from keylane.keys.read import BatchKeys
    from keylane.pipelines.engine import Engine
    from keylane.placement.ranges import KeySpace
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.folders.folder import Counts
    from keylane.systems.streams import Part, Read, Stream

    #: A part and the function that makes rows of it.
    Task = tuple[Callable[["VerifyPlan", Part], Iterator[pa.RecordBatch]], Part]

#: From this many records on, `auto` is Spark where it is installed: about half a minute of one core.
MANY: Final = 10_000_000


#: The outcomes of sends: of records, and of what is no record and must not be read.
OK, FAILED = (pa.scalar(number, pa.int8()) for number in (2, 0))
UNKNOWN: Final = 1
#: More than any position.
ALL: Final = 1 << 62
#: The one writer that sources taken in a known order make up. No file has such a name.
IN_ORDER: Final = "//"
_ROW_BITS: Final = 40
#: Stray files that are named; the others are counted.
_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a comparison: the verdict, and what a certificate reports beside it.

    `rules` are those that the contract and the target call for, and `unproven` those of them that were not checked on
    all records. `not_taken` are records in source files that no manifest of the target names: they count as lost, and
    may only be late. `miscounted`: where the target's own account is wrong. `cost` is what comparing contents took:
    seconds of the processor for digests, and for all; None where it was not measured. `located` gives the shard of an
    offset and the position in it, where lanes are shards. `sources` are the names of what was read of the source.
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
    rules: tuple[Rule, ...] = ()
    unproven: tuple[Unproven, ...] = ()
    cost: tuple[float, float] | None = None
    located: Callable[[int], tuple[str, int]] | None = None
    sources: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether anything was found wrong."""
        return not self.verdict.ok or bool(self.miscounted)

    @property
    def ok(self) -> bool:
        """Whether it is certified."""
        return not self.broken and not self.unproven

    @property
    def outcome(self) -> Outcome:
        """What the certificate says."""
        return outcome_of(broken=bool(self.broken), unproven=bool(self.unproven))


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
    values: bool = True,
    ends: tuple[Sequence[int], Sequence[int]] | None = None,
) -> Verified:
    """Compare a target with its source.

    `watch` is passed every batch on its way, for progress. `lanes` is the lane count that a `live` contract
    was routed with; otherwise the target's own. `topics` are options of both streams. Without `values` contents are not
    compared, and so nothing is certified. `ends` are the offsets up to which the lanes of both streams are compared,
    where these have offsets.
    """
    began, spent = time.process_time(), SPENT.seconds
    options = replace(topics or StreamOptions(), values=values)
    upto = (None, None) if ends is None else (tuple(ends[0]), tuple(ends[1]))
    origin = open_endpoint(source, replace(options, ends=upto[0]))
    target_stream = open_endpoint(target, replace(options, ends=upto[1])).as_target(origin, contract)
    source_stream = origin.as_source(target_stream, contract)
    if contract is not None and target_stream.fingerprint not in {None, contract.fingerprint}:
        raise _another(contract, f"{target_stream.contract} {target_stream.fingerprint}")
    _check_same_source(origin, target_stream)
    plan = VerifyPlan.of(source_stream, target_stream, contract, lanes)
    tasks = [(source_rows, part) for part in source_stream.parts]
    tasks += [(target_rows, part) for part in target_stream.parts]
    known = [stream.records for stream in (source_stream, target_stream) if stream.records is not None]
    records = max(known) * 2 if known else None
    if engine == "auto":
        many = spark is not None or (records is not None and records > MANY)
        engine = "spark" if many and find_spec("pyspark") else "local"
    by = {"dense": target_stream.dense, "by_key": target_stream.by_key}
    settings = Settings(mode=mode, keep=keep, sends_complete=True, **by)
    cost = None
    if engine == "spark":
        verdict = _on_spark(plan, tasks, settings, records, spark)
    else:
        verdict = check(watch(chain.from_iterable(rows(plan, part) for rows, part in tasks)), settings)
        cost = (SPENT.seconds - spent, time.process_time() - began) if values else None
    if contract is not None and 0 < verdict.records == verdict.facts.get("unplaced", 0):
        raise _another(contract, "the contract that its records name in `keylane.contract`")
    verdict = _named_verdict(_without_hidden(verdict) if target_stream.hidden else verdict, plan)
    found = _verified(source_stream, target_stream, contract, plan, verdict, engine)
    return replace(found, cost=cost)


def _check_same_source(source: Endpoint, target: Stream) -> None:
    """Refuse a source that has the name of the one that was routed, and is another."""
    now = source.identity() if target.source_id else ""
    if now and now != target.source_id:
        raise recreated_source(str(source.address), target.source_id, now)


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


def _without_hidden(verdict: Verdict) -> Verdict:
    """A verdict on a target that cannot be read to its end yet: what is not seen there is not known to be lost."""
    lost = verdict.counts["lost"]
    counts: dict[Rule, int] = {**verdict.counts, "lost": 0}
    seen = tuple(one for one in verdict.violations if one.rule != "lost")
    return replace(verdict, counts=counts, violations=seen, facts={**verdict.facts, "not_seen": lost})


def _named_verdict(verdict: Verdict, plan: VerifyPlan) -> Verdict:
    """The verdict with sources by their names."""
    named = (replace(violation, **source_of(plan, violation.writer, violation.seq)) for violation in verdict.violations)
    return replace(verdict, violations=tuple(named))


def _verified(
    source: Stream, target: Stream, contract: Contract | None, plan: VerifyPlan, verdict: Verdict, engine: Engine
) -> Verified:
    remarks = [*source.remarks, *target.remarks, *source.noticed(), *target.noticed()]
    if engine == "spark":
        remarks += dict.fromkeys(filter(None, (source.unnoticed, target.unnoticed)))
    if contract is None:
        remarks.append("order was checked per lane and source, which is stricter than per key")
    named = {part.stream: None for part in source.parts}
    rules = tuple(_called_for(target, plan))
    open_rules = [one for one in _unproven(source, target, plan, verdict) if one.rule in rules]
    return Verified(
        source=source.address,
        target=target.address,
        verdict=verdict,
        engine=engine,
        contract=contract.metadata.name if contract else target.contract,
        fingerprint=contract.fingerprint if contract else target.fingerprint,
        epoch=contract.metadata.epoch if contract else target.epoch,
        claimed=target.claimed,
        miscounted=tuple(_miscounted(source, target, plan, verdict)),
        not_taken=() if target.taken is None else tuple(name for name in named if name and name not in target.taken),
        remarks=tuple(remarks),
        rules=rules,
        unproven=tuple(open_rules),
        located=target.located,
        sources=tuple(filter(None, named)),
    )


def _called_for(target: Stream, plan: VerifyPlan) -> Iterator[Rule]:
    """The rules that the contract and the kind of target call for; all that need a key, where there is no contract."""
    keyless = plan.router is not None and plan.router.partitioner.hash is None
    left_out: set[Rule] = {"two_owners", "early_applies"}
    left_out |= set() if target.dense else {"offset_gaps", "unsorted"}
    left_out |= set() if target.epochs else {"stale_epochs"}
    left_out |= {"reordered", "split_keys"} if keyless else set()
    return (rule for rule in RULES if rule not in left_out)


def _unproven(source: Stream, target: Stream, plan: VerifyPlan, verdict: Verdict) -> Iterator[Unproven]:
    """What was not checked on all records: on how many, why, and what to do about it."""
    facts, records = verdict.facts, verdict.records + verdict.facts.get("dead", 0)
    yield from (*source.unproven, *target.unproven)
    if not_seen := facts.get("not_seen", 0):
        yield Unproven("lost", not_seen, f"they were not seen; {target.hidden}", "verify again when it has ended")
    if not records:
        yield Unproven("lost", None, "there is no record in the target, so nothing was compared")
    elif not verdict.records:
        why = "every record of the target is a dead letter, so no lane was compared"
        yield Unproven("misrouted", records, why, "look at their reasons")
    if plan.gone or plan.begins:
        unvouched, hint = facts.get("unknown_read", 0), "verify before records of the source are deleted"
        why = "the source no longer has their records" if unvouched else "the source no longer has all of its records"
        yield Unproven("lost", unvouched or None, why, hint)
    yield from _unproven_values(source, target, facts, records)
    if awaited := facts.get("awaited", 0):
        why = "the target ends inside of a rewrite: behind these records it has older ones of their key, and no later"
        yield Unproven("duplicated", awaited, why, "start the route again, which finishes the batch, then verify")
    if missing := facts.get("no_epoch", 0):
        yield Unproven("stale_epochs", missing, "they do not name their contract and epoch", "route them by keylane")
    if plan.contract is not None and (foreign := facts.get("foreign_epochs", 0)):
        why = f"they name the contract with another epoch than its own, {plan.contract.metadata.epoch}"
        yield Unproven("stale_epochs", foreign, why, "find out who writes them: keylane does not")
    # Of records of another contract the key is not known: their scope is the lane.
    if source.apart and plan.router is not None and not facts.get("unplaced") and (several := facts.get("several", 0)):
        yield _between_partitions(several, facts)
    if plan.router is None:
        why, hint = "no contract was given, so the keys are not known", "give --contract"
        yield Unproven("split_keys", verdict.records, why, hint)
        yield Unproven("misrouted", records, why, hint)
        return
    yield from _unproven_lanes(plan.router, facts, verdict.records)


def _between_partitions(several: int, facts: Mapping[str, int]) -> Unproven:
    """Keys that are in several partitions of the source: what order their records have is in no offset."""
    back = facts.get("backward", 0)
    of_these = f"; {count(back)} of them {agree(back, 'goes', 'go')} back in time in the target" if back else ""
    keys = f"{plural(several, 'key')} {agree(several, 'is', 'are')} in several partitions of the source"
    hint = "export the source to one file in the order of a field, and route that into a new target"
    why = f"{keys}, between which there is no order{of_these}"
    return Unproven("reordered", facts.get("several_records", 0), why, hint)


def _unproven_values(source: Stream, target: Stream, facts: Mapping[str, int], records: int) -> Iterator[Unproven]:
    for stream in (source, target):
        if stream.values:
            hint = "leave out --no-values" if stream.values == LEFT_OUT else ""
            yield Unproven("changed", records, f"contents were not compared: {stream.values}", hint)
            return
    if missing := facts.get("uncompared", 0):
        gone = min(missing, facts.get("unknown_read", 0))
        if gone:
            yield Unproven("changed", gone, "the source no longer has their records")
        if missing > gone:
            yield Unproven("changed", missing - gone, "what was written of them has no form that can be compared")


def _unproven_lanes(router: Router, facts: Mapping[str, int], records: int) -> Iterator[Unproven]:
    other = facts.get("unplaced", 0)
    if other:
        hint = "verify with the version of the contract that they name"
        yield Unproven("misrouted", other, "another contract, or another version of this one, placed them", hint)
    if by_position := facts.get("unasked", 0) - other:
        why = "they are placed by position, and at which position their source began is not known"
        yield Unproven("misrouted", by_position, why, "reject null keys, or route into a folder")
    if letters := facts.get("unasked_dead", 0):
        why = "whether the contract has a lane for these dead letters cannot be seen in them"
        yield Unproven("misrouted", letters, why, "look at their reasons")
    if 0 < records == facts.get("no_key", 0) and router.partitioner.hash is not None:
        names = ", ".join(router.contract.spec.key.fields)
        why = f"no record has a key: {names} is null in all of them, under a contract that places by key"
        yield Unproven("misrouted", records, why, "look at the names of the key's fields in the contract")


def _miscounted(source: Stream, target: Stream, plan: VerifyPlan, verdict: Verdict) -> Iterator[str]:
    """Where the target's own counts are wrong: in themselves, or against its files and records, repeats left out.

    A batch that was written again is counted once there.
    """
    yield from _strays(target)
    if target.hidden:
        # Its own counts are of records that cannot be read yet, too.
        return
    claimed, facts, again = target.claimed, verdict.facts, verdict.mode == "at-least-once"
    yield from _short_lanes(target, verdict)
    if claimed is None:
        return
    if claimed.in_ != claimed.out + claimed.dead + claimed.filtered:
        yield f"in {claimed.in_} is not out {claimed.out} + dead {claimed.dead} + filtered {claimed.filtered}"
    counted = {
        "out": (claimed.out, verdict.records - facts.get("repeats", 0), "are in the target"),
        "dead": (
            claimed.dead,
            facts.get("dead", 0) - (facts.get("dead_repeats", 0) if again else 0),
            "are in the target",
        ),
    }
    if (
        not plan.gone
        and not plan.begins
        and target.taken == frozenset(filter(None, (part.stream for part in source.parts)))
    ):
        counted["filtered"] = (claimed.filtered, facts.get("failed", 0), "are in the source")
    for name, (reported, seen, where) in counted.items():
        if reported != seen:
            yield f"the manifests report {name} {reported}, but {seen} {where}"


def _strays(target: Stream) -> Iterator[str]:
    for name in target.strays[:_NAMED]:
        yield f"{name} is not a file that keylane wrote there: readers that list files would read it, or miss it"
    if more := len(target.strays[_NAMED:]):
        yield f"so are {more} more files"


def _short_lanes(target: Stream, verdict: Verdict) -> Iterator[str]:
    """Lanes that do not end where the target says that they do."""
    if target.ends is None:
        return
    seen = {(lane.stream, lane.lane): lane.last + 1 for lane in verdict.lanes}
    for stream, ends in target.ends.items():
        for lane, end in enumerate(ends):
            if seen.get((stream, lane), 0) != end:
                there = seen.get((stream, lane), 0)
                yield f"the manifests report {end} as the next offset of {stream} lane {lane}, but it ends at {there}"


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
    bases: Mapping[str, int] | None = None
    source_keys: bool = False
    target_keys: bool = False
    epochs: bool = False
    fields: tuple[str, ...] = field(default=())
    key_space: KeySpace | None = None

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
            # Without a contract the order of a lane is checked, in which sources may interleave.
            target.order or (source.order if contract else None) or (),
            frozenset((target.taken or frozenset()) - named),
            source.begins,
            target.excused,
            target.bases if target.bases is not None or len(named) != 1 else dict.fromkeys(filter(None, named), 0),
            source.keys,
            target.keys,
            target.epochs,
            tuple(fields_of(contract)) if contract else (),
            target.key_space if live else None,
        )

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """The number of each source in the order in which they were taken."""
        return {name: rank for rank, name in enumerate(self.order)}

    @cached_property
    def router(self) -> Router | None:
        """The contract, ready to decide."""
        if self.contract is None:
            return None
        return Router(self.contract, lanes=self.lanes, stream=self.stream, key_space=self.key_space)


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
            outcome = pc.if_else(known.column("filtered").fill_null(False), FAILED, OK)
            content = {name: known.column(name) for name in ("digest", "letter", "stamp")}
            keys = _base_keys(plan, known, fields)
            yield _rows(known, SEND, **_identity(plan, known), outcome=outcome, **content, **keys)


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
        content = {name: known.column(name) for name in ("digest", "stamp", "offset", "place")}
        if part.dead:
            yield _rows(known, DEAD, **identity, **content, **_lanes_of_dead(plan, known, fields))
        else:
            where = {name: known.column(name) for name in ("stream", "lane", "replay")}
            where |= {"epoch": _epochs(plan, known), "who": _foreign_epochs(plan, known)}
            yield _rows(known, READ, **identity, **content, **where, **_promise(plan, known, fields))


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


def _epochs(plan: VerifyPlan, known: pa.RecordBatch) -> pa.Array:
    """Epochs, of records that name their contract, too: the epoch is the contract's."""
    epochs = known.column("epoch")
    if not plan.epochs:
        return epochs
    return pc.if_else(known.column("fingerprint").is_valid(), epochs, pa.scalar(None, epochs.type))


def _foreign_epochs(plan: VerifyPlan, known: pa.RecordBatch) -> pa.Array:
    """Who writes an epoch under the name of the given contract that is not its own: the epoch, as text."""
    epochs, named = known.column("epoch"), known.column("fingerprint")
    nobody = pa.nulls(len(known), pa.string())
    if not plan.epochs or plan.contract is None:
        return nobody
    own = pc.and_(named.is_valid(), pc.invert(_by_another(named, plan.contract.fingerprint)))
    other = pc.not_equal(epochs, plan.contract.metadata.epoch).fill_null(False)
    return pc.if_else(pc.and_(own, other), epochs.cast(pa.string()), nobody)


def _base_keys(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> dict[str, pa.Array]:
    """Keys of the source as bytes, to be compared, and whether they are known: null is a key, too."""
    if plan.contract is None or not set(plan.contract.spec.key.fields) <= set(fields.schema.names):
        return {"key": known.column("key"), "keyed": _same(plan.source_keys, pa.bool_(), known)}
    keys = read_batch(fields, plan.contract.spec.key, plan.contract.spec.geo).base
    return {"key": keys, "keyed": _same(True, pa.bool_(), known)}


def _positions(plan: VerifyPlan, known: pa.RecordBatch) -> NDArray[np.int64] | None:
    """The positions that rules of position read; None where it is not known at which a source begins."""
    if plan.bases is None:
        return None
    coded = plain(known.column("source")).dictionary_encode()
    begins = [plan.bases.get(name, 0) for name in coded.dictionary.to_pylist()]
    first = np.array(begins, np.int64)[coded.indices.to_numpy()]
    return np.asarray(first + known.column("position").to_numpy(), np.int64)


def _promise(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> dict[str, pa.Array]:
    """Key, scope and lane as the contract has them; without it, or under another, the lane is what keeps an order."""
    lane = pc.binary_join_element_wise(known.column("stream"), known.column("lane").cast(pa.string()), "/")
    if plan.router is None:
        return {"scope": lane, "key": known.column("key"), "keyed": _same(plan.target_keys, pa.bool_(), known)}
    sent = _sent_keys(plan.router, known, fields)
    decided = decide(plan.router, fields, _positions(plan, known), keys=sent)
    other = _by_another(known.column("fingerprint"), plan.router.contract.fingerprint)
    scope = order_scopes(plan.router, decided)
    if pc.any(other).as_py():
        apart = pc.binary_join_element_wise(lane, known.column("fingerprint"), "\0").cast(pa.binary())
        scope = pc.if_else(other, apart, scope)
    keyed = _same(sent is None or plan.target_keys, pa.bool_(), known)
    unread = known.column("confirmed").fill_null(False).to_numpy(zero_copy_only=False)
    return {"key": decided.keys.base, "keyed": keyed, "scope": scope, **_expected(decided, other, unread)}


def _lanes_of_dead(plan: VerifyPlan, known: pa.RecordBatch, fields: pa.RecordBatch) -> dict[str, pa.Array]:
    """The lane that the contract has for each dead letter: -1 for none; null where its record does not decide it."""
    router, reason = plan.router, known.column("reason")
    if router is None:
        return {}
    malformed = pc.equal(reason, Reason.MALFORMED_RECORD).fill_null(False)
    confirmed = pc.and_(malformed, known.column("confirmed").fill_null(False))
    nowhere = pc.if_else(confirmed, pa.scalar(-1, pa.int32()), pa.scalar(None, pa.int32()))
    if not _has_key(plan, router, known, fields):
        return {"expected_lane": nowhere}
    try:
        decided = decide(router, fields, keys=_sent_keys(router, known, fields))
    except DataError:
        # The JSON of a dead letter has not the types of the columns that it came from.
        return {"expected_lane": nowhere}
    # A key that is null here may have been unreadable there, unless the dead letter's reason is a null key.
    keyed = pc.or_(decided.keys.routing.is_valid(), pc.equal(reason, Reason.NULL_KEY).fill_null(False))
    unfit = pc.and_(pa.array(decided.keys.malformed), pc.equal(reason, Reason.MALFORMED_KEY).fill_null(False))
    lacking = pc.and_(
        pa.array(decided.reason == REASON_CODES[Reason.MISSING_FIELD]),
        pc.equal(reason, Reason.MISSING_FIELD).fill_null(False),
    )
    keyed = pc.or_(pc.or_(keyed, unfit), lacking)
    excused = pc.is_in(reason, value_set=pa.array(sorted(plan.excused), pa.string()))
    other = _by_another(known.column("fingerprint"), router.contract.fingerprint)
    asked = pc.and_not(keyed, pc.or_(excused, other)).to_numpy(zero_copy_only=False)
    placed = (decided.reason < 0) | (decided.reason == REASON_CODES[Reason.NO_POSITION])
    return {
        "expected_lane": pc.coalesce(nowhere, pa.array(np.where(placed, decided.lane, -1), pa.int32(), mask=~asked))
    }


def _has_key(plan: VerifyPlan, router: Router, known: pa.RecordBatch, fields: pa.RecordBatch) -> bool:
    spec = router.contract.spec.key
    needed = {*spec.fields, *([spec.window.field] if spec.window else [])}
    as_bytes = plan.target_keys or known.column("key").null_count < len(known)
    return needed <= set(fields.schema.names) or (spec.window is None and as_bytes)


def _by_another(carried: pa.Array, whole: str) -> pa.Array:
    """Whether a record names another contract; one that names none was placed by this one."""
    return pc.invert(pc.is_in(carried, value_set=pa.array([whole, abbreviated(whole), None], pa.string())))


def _sent_keys(router: Router, known: pa.RecordBatch, fields: pa.RecordBatch) -> BatchKeys | None:
    """Keys that came as bytes, where the fields they were made of are not available."""
    spec = router.contract.spec.key
    if set(spec.fields) <= set(fields.schema.names) or spec.window is not None:
        return None
    return sent_keys(known.column("key"), np.zeros(len(known), bool), spec, router.contract.spec.geo)


def _expected(decided: Decided, other: pa.Array, unread: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Where the contract puts each record: lane -1 for nowhere, null where its key does not decide it.

    Under another contract there is no stream either. A record that cannot be read (`unread`) has no lane.
    """
    lane = np.where((decided.reason >= 0) | unread, -1, decided.lane)
    by_other = other.to_numpy(zero_copy_only=False)
    by_position = (decided.reason == REASON_CODES[Reason.NO_POSITION]) & ~unread
    streams = pa.array(decided.streams, pa.string()).take(pa.array(decided.stream))
    placed = pa.array(((lane >= 0) | by_position) & ~by_other)
    return {
        "expected_lane": pa.array(lane, pa.int32(), mask=by_position | by_other),
        "expected_stream": pc.if_else(placed, streams, pa.scalar(None, pa.string())),
    }
