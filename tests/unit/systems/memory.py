"""A made-up system, `memory://here/NAME`: streams in a dict of Arrow tables. All that a new system has to write.

Rows of a stream have the fields of a record and `lane`, `offset`; those that came from another stream also `source` and
`position`, their row there. A route into a stream writes it anew.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from keylane.history.digests import of_columns
from keylane.router import Router
from keylane.spark.read_parquet import LANE, PLACE, POSITION, Batch, SourceFile
from keylane.spark.scan import Rows, scan_rows
from keylane.spark.write_lanes import decided
from keylane.systems.endpoint import Endpoint, System, register, unregister
from keylane.systems.flow import Origin, Routed, RouteTarget, RowsFollowed, Start
from keylane.systems.folders.folder import Counts
from keylane.systems.journal import hold_journal
from keylane.systems.streams import POSITIONS, Description, Part, Stream, position_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STREAMS: Final[dict[str, pa.Table]] = {}
_ADDED: Final = ("lane", "offset", "source", "position")
SYSTEM: Final = System("memory", "memory://here/name", re.compile(r"(here)/([a-z-]+)"), f"{__name__}:MemoryEndpoint")


@contextmanager
def registered(**streams: pa.Table) -> Iterator[None]:
    """The system with these streams, for as long as this is open."""
    register(SYSTEM)
    STREAMS.update(streams)
    try:
        yield
    finally:
        STREAMS.clear()
        unregister(SYSTEM.scheme)


class MemoryEndpoint(Endpoint):
    @property
    def table(self) -> pa.Table:
        return STREAMS[self.address.name]

    @property
    def lanes(self) -> int:
        return int(np.max(self.table.column("lane").to_numpy())) + 1

    def describe(self, fields: Any) -> Description:
        names = tuple(self.table.column_names)
        return Description(str(self.address), names, (Part(""),), self._columns, self.lanes, "k", "lane")

    def _columns(self, _part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches()

    @contextmanager
    def scan(self, run: Any, wanted: Any) -> Iterator[Any]:
        table = self.table.select(wanted.columns)
        table = table.append_column(LANE, self.table.column("lane").cast(pa.int32()))
        table = table.append_column(POSITION, pa.array(np.arange(len(table))))
        with self.session(run) as spark:
            rows = Rows(spark.createDataFrame(table), len(table), len(table))
            yield scan_rows(rows, wanted, lanes=self.lanes, size=table.nbytes)

    def as_source(self, target: Stream, contract: Any) -> Stream:
        return Stream(str(self.address), (Part("", self.address.name),), self._sent, values="")

    def as_target(self, source: Endpoint, contract: Any) -> Stream:
        name = contract.spec.streams[0] if contract else self.address.name
        parts = tuple(Part("", name, lane) for lane in range(self.lanes))
        return Stream(str(self.address), parts, self._read, lanes={name: self.lanes}, values="")

    def _sent(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self.table.combine_chunks().to_batches()[0]
        yield _batch(rows, fields, source=pa.repeat(part.stream, len(rows)), position=pa.array(range(len(rows))))

    def _read(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self.table.filter(pa.compute.equal(self.table["lane"], part.lane)).combine_chunks().to_batches()[0]
        own = {name: rows.column(name) for name in ("lane", "offset", "source", "position")}
        same = {"stream": pa.repeat(part.stream, len(rows)), "dead": pa.repeat(pa.scalar(False), len(rows))}
        yield _batch(rows, fields, **same, **own)

    def origin(self, known: Origin | None) -> Origin:
        return Origin(str(self.address))

    def follow(self, spark: Any, contract: Any, origin: Origin) -> Any:
        return MemoryFollowed(spark, self.address.name, self.table)

    @contextmanager
    def target(self, run: Any, contract: Any, source: Endpoint, lanes: Any, stream: Any) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as folder, hold_journal(Path(folder)) as journal:
            target = MemoryTarget()
            target.router, target.origin = Router(contract, lanes=lanes, stream=stream), source.origin(None)
            target.name, target.lock, target.checkpoint = self.address.name, journal.lock, journal.checkpoint
            yield target


def _batch(rows: pa.RecordBatch, fields: Sequence[str], **known: pa.Array) -> pa.RecordBatch:
    own = {name: rows.column(name) for name in rows.schema.names if name not in _ADDED}
    columns = [*position_columns(len(rows), digest=of_columns(own), **known), *(own[name] for name in fields)]
    return pa.RecordBatch.from_arrays(columns, names=[*POSITIONS.names, *fields])


@dataclass
class MemoryFollowed(RowsFollowed):
    spark: Any
    name: str
    table: pa.Table

    def stream(self) -> Any:
        return self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()

    def taken(self, frame: Any) -> list[Any]:
        return [SourceFile("", "", self.name, 0, 0)]

    def rows(self, frame: Any, taken: Sequence[Any], last: Any) -> Any:
        own, at = self.table.drop_columns(["lane", "offset"]), pa.array(range(len(self.table)))
        made = self.spark.createDataFrame(own.append_column(PLACE, at).append_column(POSITION, at))
        return Batch(made, tuple(own.column_names), made.schema, (len(at),), (len(at),))


class MemoryTarget(RouteTarget):
    name: str

    def write(self, frame: Any, batch: int) -> None:
        (taken,) = self.source.taken(frame)
        rows = self.source.rows(frame, [taken], Start())
        table = decided(rows, self.router).sort("lane", PLACE).toArrow()
        lanes = table.column("lane").to_numpy()
        columns = {
            **{name: table.column(name) for name in rows.columns},
            "lane": lanes,
            "position": table.column(PLACE),
        }
        offsets = np.arange(len(lanes)) - np.searchsorted(lanes, lanes)
        STREAMS[self.name] = pa.table({**columns, "offset": offsets, "source": [taken.name] * len(lanes)})

    def result(self, source: str, *, stopped: bool) -> Routed:
        lanes = np.bincount(STREAMS[self.name].column("lane").to_numpy(), minlength=self.router.lane_count).tolist()
        counts = Counts(sum(lanes), sum(lanes)).checked("this run")
        return Routed(source, self.name, counts, counts, {self.router.stream: lanes}, 1, stopped)
