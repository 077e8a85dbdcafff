"""A made-up system, `memory://here/NAME`: streams in a dict of Arrow tables. All that a new system has to write.

Rows of a stream have the fields of a record and `lane`, `offset`; those that came from another stream also `source` and
`position`, their place there.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.errors import DataError
from keylane.systems.endpoint import Endpoint, System, register, unregister
from keylane.systems.streams import PLACES, Description, Part, Stream, places

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.fields import FieldSpec
    from keylane.contract.model import Contract
    from keylane.spark.context import RunContext
    from keylane.spark.scan import Scan, ScanRequest

STREAMS: Final[dict[str, pa.Table]] = {}
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
    """A stream in memory."""

    @property
    def table(self) -> pa.Table:
        """The records."""
        if self.address.name not in STREAMS:
            raise DataError.of("no such stream", got=str(self.address), allowed=", ".join(STREAMS))
        return STREAMS[self.address.name]

    @property
    def lanes(self) -> int:
        """The lane count."""
        return int(np.max(self.table.column("lane").to_numpy())) + 1

    def describe(self, fields: FieldSpec) -> Description:  # noqa: ARG002  columns have types of their own
        """All of it, as one part."""
        names, parts = tuple(self.table.column_names), (Part(self.address.name),)
        return Description(str(self.address), names, parts, self._columns, self.lanes, "k", "lane")

    def _columns(self, _part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches()

    @contextmanager
    def scan(self, run: RunContext, wanted: ScanRequest) -> Iterator[Scan]:
        """The table as a frame, with its rows for positions."""
        from keylane.spark.read_parquet import LANE, POSITION
        from keylane.spark.scan import Rows, scan_rows

        table = self.table.select(wanted.columns)
        table = table.append_column(LANE, self.table.column("lane").cast(pa.int32()))
        table = table.append_column(POSITION, pa.array(np.arange(len(table))))
        with self.session(run) as spark:
            rows = Rows(spark.createDataFrame(table), len(table), len(table))
            yield scan_rows(rows, wanted, lanes=self.lanes, size=table.nbytes)

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:  # noqa: ARG002  it is all there is
        """Records in lanes, each with its offset for a position."""
        lanes = range(self.lanes)
        return Stream(str(self.address), tuple(Part("", self._lane(n), n) for n in lanes), self._sent)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:  # noqa: ARG002  rows say their source
        """Records in lanes, which say where they came from."""
        name = contract.spec.streams[0] if contract else self.address.name
        parts = tuple(Part("", name, lane) for lane in range(self.lanes))
        return Stream(str(self.address), parts, self._read, lanes={name: self.lanes})

    def _lane(self, lane: int | None) -> str:
        return f"{self.address.name}/{lane}"

    def _sent(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self._rows(part)
        known = places(len(rows), source=pa.repeat(part.stream, len(rows)), position=rows.column("offset"))
        yield self._with_fields(known, rows, fields)

    def _read(self, part: Part, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self._rows(part)
        own = {name: rows.column(name) for name in ("lane", "offset", "source", "position")}
        dead = pa.repeat(pa.scalar(False), len(rows))
        yield self._with_fields(
            places(len(rows), stream=pa.repeat(part.stream, len(rows)), dead=dead, **own), rows, fields
        )

    def _rows(self, part: Part) -> pa.RecordBatch:
        wanted = np.flatnonzero(self.table.column("lane").to_numpy() == part.lane)
        return self.table.take(wanted).combine_chunks().to_batches(max_chunksize=None)[0]

    @staticmethod
    def _with_fields(known: list[pa.Array], rows: pa.RecordBatch, fields: Sequence[str]) -> pa.RecordBatch:
        columns = [*known, *(rows.column(name) for name in fields)]
        return pa.RecordBatch.from_arrays(columns, names=[*PLACES.names, *fields])
