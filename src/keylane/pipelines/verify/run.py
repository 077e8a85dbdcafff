"""`verify`: are the records of a source each where they belong in a target? The rules are `keylane.testing.history`'s.

    systems.endpoint            two addresses -> streams, part by part
    pipelines.verify.rows       their records -> rows of a history
    testing.history, here       rows -> a verdict, on this machine
    spark.history, on Spark     the same rows, dealt out by a shuffle

What a source holds counts as sent, and acknowledged; what is in the lanes of the target counts as read. So a record
that the target has not taken yet is lost, until it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.errors import UsageError
from keylane.history.check import check
from keylane.history.verdict import Settings
from keylane.pipelines.verify.rows import Plan, source_of, source_rows, target_rows
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.history.verdict import Mode, Verdict
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.folders.folder import Counts
    from keylane.systems.streams import Part, Stream

    Tasks = tuple[tuple[bool, Part], ...]

__all__ = ["Engine", "Verified", "verify"]

Engine: TypeAlias = Literal["auto", "local", "spark"]
#: From this many records on, `auto` is Spark where it is installed: about half a minute of one core.
MANY: Final = 10_000_000


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
    there = open_endpoint(target, topics).as_target(origin, contract)
    given = origin.as_source(there, contract)
    _check_contract(contract, there)
    plan = Plan.of(given, there, contract, lanes)
    tasks: Tasks = (*((True, part) for part in given.parts), *((False, part) for part in there.parts))
    chosen = _engine(engine, given, there, spark)
    settings = Settings(mode=mode, keep=keep, sends_complete=True)
    if chosen == "spark":
        verdict = _on_spark(plan, tasks, settings, _both(given, there), spark)
    else:
        verdict = check(watch(chain.from_iterable(_rows(plan, *task) for task in tasks)), settings)
    _check_any_placed(contract, verdict)
    return _verified(given, there, contract, plan, _told(verdict, plan, contract), chosen)


def _check_contract(contract: Contract | None, target: Stream) -> None:
    if contract is not None and target.fingerprint not in {None, contract.fingerprint}:
        raise _another(contract, f"{target.contract} {target.fingerprint}")


def _check_any_placed(contract: Contract | None, verdict: Verdict) -> None:
    """A contract that placed no record of the target is not the target's."""
    if contract is not None and 0 < verdict.records == verdict.facts.get("unplaced", 0):
        raise _another(contract, "the contract that its records name in `keylane.contract`")


def _another(contract: Contract, allowed: str) -> UsageError:
    return UsageError.of(
        "the target was made under another contract",
        got=f"{contract.metadata.name} {contract.fingerprint}",
        allowed=allowed,
        hint="use the version of the contract that the target was routed by",
    )


def _engine(asked: Engine, given: Stream, target: Stream, spark: SparkSession | None) -> Engine:
    if asked != "auto":
        return asked
    records = _both(given, target)
    many = spark is not None or (records is not None and records > MANY)
    return "spark" if many and find_spec("pyspark") else "local"


def _both(given: Stream, target: Stream) -> int | None:
    """Records of source and target together, where they are known."""
    known = [side.records for side in (given, target) if side.records is not None]
    return max(known) * 2 if known else None


def _rows(plan: Plan, is_source: bool, part: Part) -> Iterator[pa.RecordBatch]:
    return source_rows(plan, part) if is_source else target_rows(plan, part)


def _on_spark(plan: Plan, tasks: Tasks, settings: Settings, records: int | None, spark: SparkSession | None) -> Verdict:
    from keylane.spark.history import ROWS_DDL, bits_for, judged
    from keylane.spark.session import local_session

    session = spark or local_session()

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _rows(plan, *tasks[number])

    slices = max(1, min(len(tasks), 4 * session.sparkContext.defaultParallelism))
    numbers = session.range(0, len(tasks), 1, slices)
    return judged(numbers.mapInArrow(read, ROWS_DDL), settings, bits_for(records))


def _told(verdict: Verdict, plan: Plan, contract: Contract | None) -> Verdict:
    """The verdict with sources by their names; rules that cannot be checked without a contract are marked."""
    named = tuple(replace(one, **source_of(plan, one.writer, one.seq)) for one in verdict.violations)
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
    given: Stream, target: Stream, contract: Contract | None, plan: Plan, verdict: Verdict, engine: Engine
) -> Verified:
    remarks = [*given.remarks, *target.remarks]
    if contract is None:
        remarks.append("order was checked per lane and source, which is stricter than per key")
    if plan.gone:
        remarks.append(f"{len(plan.gone)} source(s) are gone: their records were not compared")
    unasked = verdict.facts.get("unasked", 0)
    if contract is not None and unasked:
        remarks.append(
            f"the lanes of {unasked:,} record(s) were not checked: they are placed by position, or by another contract"
        )
    return Verified(
        source=given.address,
        target=target.address,
        verdict=verdict,
        engine=engine,
        contract=contract.metadata.name if contract else target.contract,
        fingerprint=contract.fingerprint if contract else target.fingerprint,
        epoch=contract.metadata.epoch if contract else target.epoch,
        claimed=target.claimed,
        miscounted=tuple(_miscounted(target.claimed, verdict)),
        not_taken=_not_taken(given, target),
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
    for name, said, found in (
        ("out", claimed.out, verdict.records - facts.get("repeats", 0)),
        ("dead", claimed.dead, facts.get("dead", 0) - (facts.get("dead_repeats", 0) if again else 0)),
    ):
        if said != found:
            yield f"the manifests report {name} {said}, but {found} are in the target"


def _not_taken(given: Stream, target: Stream) -> tuple[str, ...]:
    if target.taken is None:
        return ()
    return tuple(part.stream for part in given.parts if part.stream is not None and part.stream not in target.taken)
