"""The Java steps of a running match without Spark's streaming: blocks are packed and read here, byte by byte."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.match.batch_traffic import geo_contract

from keylane.geo.cells import cells_of
from keylane.pipelines.match.follow_plan import MatchPlan, MatchRules
from keylane.pipelines.match.options import Options
from keylane.placement.cell_lanes import cell_lanes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from keylane.placement.cell_lanes import CellLanes

TIME, LEFT, UNAVAILABLE, AVAILABLE, REQUEST, PROGRESS, PAIR, COUNTS, DEAD = 1, 2, 3, 4, 5, 6, 64, 65, 66
SAME, UNKNOWN = -2, -1
LANES = cell_lanes(geo_contract(4), 4)


class Record(NamedTuple):
    """A record of a block: its kind, and its fields as bytes."""

    kind: int
    fields: bytes

    @property
    def packed(self) -> bytes:
        return struct.pack("<ib", len(self.fields) + 5, self.kind) + self.fields

    @property
    def text(self) -> str:
        return self.fields.decode()

    @property
    def who(self) -> str:
        return self.fields[36:].decode()

    @property
    def ts(self) -> int:
        return int(struct.unpack_from("<iq", self.fields)[1])


def placed(kind: int, who: str, ts: int, offset: int, lat: float, lng: float, lane: int | None = None) -> Record:
    """A ping, a tombstone or a request."""
    own = int(LANES.of(cells_of([lat], [lng]))[0]) if lane is None else lane
    return Record(kind, struct.pack("<iqqdd", own, ts, offset, lat, lng) + who.encode())


def time_record(source: int, partition: int, newest: int, unread: int = UNKNOWN, records: int = 0) -> Record:
    """How far a partition of a source is."""
    return Record(TIME, struct.pack("<iiqqqq", source, partition, newest, unread, records, 0))


def progress(watermark: int, kept_from: int) -> Record:
    """What homes send to lanes."""
    return Record(PROGRESS, struct.pack("<qq", watermark, kept_from))


def unpacked(block: bytes) -> list[Record]:
    """The records of a block."""
    out, at = [], 0
    while at < len(block):
        length, kind = struct.unpack_from("<ib", block, at)
        out.append(Record(kind, bytes(block[at + 5 : at + length])))
        at += length
    return out


@dataclass
class Steps:
    """A plan with its rules, and one slot of a step after the other."""

    spark: SparkSession
    slots: int = 2
    tables: Sequence[CellLanes] = (LANES,)
    options: dict[str, Any] = field(default_factory=lambda: {"radius": 1000.0})
    rules: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = MatchRules(**{"late": 10, "keep": 100, "slots": self.slots, **self.rules})
        self.plan = MatchPlan.of(self.spark, Options(**self.options), rules, self.tables)
        self.java = self.plan.loader
        self.gateway: Any = self.spark.sparkContext._gateway

    def new(self, name: str, *arguments: Any) -> Any:
        """A Java object."""
        gateway = self.gateway
        given = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
        for at, one in enumerate(arguments):
            given[at] = one
        makers = self.java.loadClass(f"keylane.{name}").getConstructors()
        (maker,) = [one for one in makers if one.getParameterCount() == len(arguments)]
        return maker.newInstance(given)

    def step(self, name: str, slot: int = 0) -> Slot:
        """A slot of `match.Homes` or `match.Lanes` that knows nothing."""
        step = self.new(name, self.plan.rules)
        return Slot(self, step, slot, step.empty())


@dataclass
class Slot:
    """A slot of a step, and what it knows."""

    steps: Steps
    step: Any
    slot: int
    memory: Any

    def take(self, records: Iterable[Record], *, silent: bool = False) -> dict[int, list[Record]]:
        """Give it a batch; what it sends, by slot of the next step. `silent` as when it is made again."""
        block = b"".join(one.packed for one in records)
        blocks = self.steps.gateway.jvm.java.util.ArrayList()
        blocks.add(bytearray(block))
        slots = self.steps.new("blocks.Slots", self.steps.slots)
        out = None if silent else self.steps.new("blocks.Output", slots)
        self.step.take(self.memory, self.slot, blocks, out)
        sent: dict[int, list[Record]] = defaultdict(list)
        for row in out.rows() if out is not None else ():
            sent[slots.slotOfKey(row._1())] += unpacked(bytes(row._2()))
        return sent

    def decided(self) -> list[Record]:
        """What it decided in its last batch: with the records of the batch, this is in its log."""
        return unpacked(bytes(self.step.decided(self.memory)))

    def again(self) -> Slot:
        """The same slot, made again from its snapshot."""
        made = Slot(self.steps, self.step, self.slot, self.step.empty())
        self.step.restore(made.memory, self.step.snapshot(self.memory))
        return made
