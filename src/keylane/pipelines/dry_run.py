"""`route --dry-run`: what a route would read, decide, create and write. Nothing is written.

What the route would refuse is refused here, by the same checks and with the same errors. Lanes are decided for a
sample, by the router that a route has, without Spark, which is started only to read a `--schema`. The route itself:
`route`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.batch_router import REASONS, decide
from keylane.contract.fields import FieldSpec, absent_name, fields_of, no_such_field
from keylane.documents.route import DryRunDocument, RoutedLane
from keylane.errors import DataError, NoRecordsError, NoSuchFieldError, UnknownNameError
from keylane.numbers import count
from keylane.records import Reason
from keylane.systems.endpoint import open_endpoint
from keylane.systems.flow import check_every
from keylane.systems.read_range import ReadRange
from keylane.systems.streams import Description

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.pipelines.engine import Watch
    from keylane.router import Router
    from keylane.systems.endpoint import Endpoint, StreamOptions

#: Records that are decided.
SAMPLE: Final = 10_000


def dry_run(
    contract: Contract,
    source: str,
    target: str,
    *,
    options: StreamOptions,
    lanes: int | None = None,
    stream: str | None = None,
    every: str = "1 second",
    most: int = SAMPLE,
    watch: Watch = iter,
    say: Callable[[str], None] = lambda _: None,
) -> DryRunDocument:
    """Look at source and target, and decide the lanes of a sample; `watch` sees its batches go by."""
    check_every(every)
    start, end = open_endpoint(source, options), open_endpoint(target, options)
    end.check_apart(start)
    start.check_source(contract, end)
    plan = end.outlook(contract, start, lanes, stream, say)
    if options.schema is not None:
        _check_schema(options.schema)
    try:
        described = _described(start, contract, options, most)
    except NoRecordsError:
        described = Description(str(start.address), (), (), lambda *_: iter(()), sampled="no records")
    sample = DecidedSample(plan.router, fields_of(contract), most)
    for batch in watch(_batches(described, fields_of(contract))):
        sample.take(batch)
        if sample.is_enough:
            break
    else:
        # Of files the reader itself has refused, at their end, a field that no record has.
        if start.messages and sample.lacking:
            _refuse_lacking(_described(start, contract, options, options.max_records), sample.lacking)
    if described.skipped.lines:
        sample.dead[str(Reason.MALFORMED_RECORD)] = described.skipped.lines
    whole = f"the first {count(sample.read)} records" if sample.read >= most else "all records"
    return DryRunDocument(
        contract=contract.metadata.name,
        fingerprint=contract.fingerprint,
        source=str(start.address),
        target=str(end.address),
        sampled=sample.read,
        sample=described.sampled or whole,
        lanes=[
            RoutedLane(stream=name, lane=lane, records=int(records))
            for name, several in sample.counts.items()
            for lane, records in enumerate(several)
        ],
        dead=sample.dead,
        dead_letters=plan.dead_letters,
        creates=list(plan.creates),
        writes=list(plan.writes),
    )


class DecidedSample:
    """The records that are decided, and which fields none of those that were read has."""

    def __init__(self, router: Router, fields: list[str], most: int) -> None:
        self.router, self.most, self.read = router, most, 0
        self.lacking = set(fields)
        self.counts: dict[str, NDArray[np.int64]] = {}
        self.dead: dict[str, int] = {}

    @property
    def is_enough(self) -> bool:
        """Not before every field was seen in a record: a route refuses a source none of whose records has one."""
        return self.read >= self.most and not self.lacking

    def take(self, batch: pa.RecordBatch) -> None:
        """Decide the records of a batch, as far as the sample goes, and look for fields in all of them."""
        self.lacking = {name for name in self.lacking if _lacks(batch, name)}
        some = batch.slice(0, self.most - self.read)
        if not len(some):
            return
        decided = decide(self.router, some, np.arange(self.read, self.read + len(some)))
        self.read += len(some)
        for code, number in zip(*np.unique(decided.reason[decided.reason >= 0], return_counts=True), strict=True):
            self.dead[str(REASONS[code])] = self.dead.get(str(REASONS[code]), 0) + int(number)
        for number, name in enumerate(decided.streams):
            width = self.router.contract.tiers.get(name, self.router.lane_count)
            here = decided.lane[(decided.reason < 0) & (decided.stream == number)]
            self.counts[name] = self.counts.get(name, np.zeros(width, np.int64)) + np.bincount(here, minlength=width)


def _lacks(batch: pa.RecordBatch, name: str) -> bool:
    """Whether records are marked for the lack of a field, and all of them are; columns of other files all have it."""
    return absent_name(name) in batch.schema.names and bool(np.all(batch.column(absent_name(name))))


def _described(start: Endpoint, contract: Contract, options: StreamOptions, most: int) -> Description:
    fields = FieldSpec.of(contract)
    if not start.messages:
        return start.describe(fields)
    fields = fields.keyed_by(contract.spec.key) if options.value is None else fields
    return open_endpoint(start.address, replace(options, read_range=ReadRange(most=most))).describe(fields)


def _batches(described: Description, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The batches; a column that files lack is named as a route does, and no line is too bad."""
    read = 0
    try:
        for batch in described.batches(names):
            read += len(batch)
            yield batch
    except UnknownNameError as error:
        raise NoSuchFieldError(str(error)) from error
    except DataError:
        # Lines none of which can be read are dead letters, all of them.
        if read or not described.skipped.lines:
            raise


def _refuse_lacking(described: Description, names: set[str]) -> None:
    """Refuse messages none of which has a field; as many are read as the first batch of a route has."""
    read = 0
    for batch in described.batches(sorted(names)):
        names = {name for name in names if _lacks(batch, name)}
        read += len(batch)
        if not names:
            return
    for name in sorted(names) if read else ():
        raise no_such_field("no record has a field that the lane depends on", name, [])


def _check_schema(text: str, conf: Mapping[str, str] | None = None) -> None:
    """Spark's own parser decides what a list of columns is."""
    import keylane.pipelines.with_spark  # noqa: F401  imported for its error
    from keylane.spark.context import session_beside
    from keylane.spark.read_parquet import schema_of

    session_beside(None, None, conf or {})
    schema_of(text)
