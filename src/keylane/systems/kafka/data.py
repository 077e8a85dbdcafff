"""A topic as data to look at: the columns that were asked for, a batch at a time, of what is there now.

`key`, `timestamp`, `lane` (or `partition`) and `offset` are of the record; every other column is a field of its value,
whose form the user says. Files as the same: `systems.files.data`. A topic as `verify` reads it: `stream`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.errors import DataError
from keylane.measure.conformance import fields_of
from keylane.systems.kafka.access import kafka_access
from keylane.systems.kafka.cluster import open_cluster
from keylane.systems.kafka.reader import TopicReader, level_of
from keylane.systems.kafka.values import fields_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Address
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import Stretch
    from keylane.systems.kafka.reader import Lot
    from keylane.systems.kafka.values import TopicFields
    from keylane.systems.streams import TopicOptions

__all__ = ["TopicData", "open_topic"]

_PLACES: Final = ("lane", "partition", "offset")


@dataclass(frozen=True, slots=True)
class TopicData:
    """A topic that was found, and how far its lanes went then; nothing of it has been read.

    `key` is the name under which the record's key is asked for: `key`, or that of a contract's only key field.
    """

    path: str
    topic: str
    access: KafkaAccess
    stretches: tuple[Stretch, ...]
    contract: Contract | None
    said: TopicOptions
    key: str

    @property
    def lanes(self) -> int:
        """The lane count, as the cluster says it."""
        return len(self.stretches)

    @property
    def columns(self) -> list[str]:
        """Column names, without the fields of values, which nobody can list."""
        return [self.key, *_PLACES, "timestamp"]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns, in this order, lane after lane."""
        own = [name for name in columns if name not in _PLACES or name == self.key]
        fields = fields_for(own, self.contract, self.said.values, self.key)
        reader = TopicReader(self.access, values=bool(fields.of_value), times=fields.of_time)
        for lane, stretch in enumerate(self.stretches):
            for lot in reader.lots(self.topic, lane, stretch.start, stretch.end):
                found = {**_placed(lot, lane), **dict(zip(own, _read(fields, lot), strict=True))}
                yield pa.RecordBatch.from_arrays([found[name] for name in columns], names=list(columns))


def _placed(lot: Lot, lane: int) -> dict[str, pa.Array]:
    lanes = pa.array(np.full(len(lot), lane, np.int32))
    return {"lane": lanes, "partition": lanes, "offset": pa.array(lot.offsets, pa.int64())}


def _read(fields: TopicFields, lot: Lot) -> list[pa.Array]:
    values = pa.array(lot.values, pa.binary()) if fields.of_value else None
    times = pa.array(lot.times, pa.timestamp("ms", "UTC")) if fields.of_time else None
    return fields.columns(pa.array(lot.keys, pa.binary()), values, times)


def open_topic(address: Address, contract: Contract | None, said: TopicOptions) -> TopicData:
    """Ask the cluster what there is of a topic."""
    access = kafka_access(address.authority, said.properties)
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([address.name])[address.name]
        if not lanes:
            raise DataError.of(f"no such topic at {access.brokers}", got=address.name)
        found = cluster.stretches(address.name, lanes, committed=level_of(access) == "read_committed")
    return TopicData(str(address), address.name, access, tuple(found), contract, said, _key_name(contract, said))


def _key_name(contract: Contract | None, said: TopicOptions) -> str:
    """Without a word on values, the only key field of a contract is the record's key, as producers send it."""
    if contract is None or said.values.form is not None or len(contract.spec.key.fields) != 1:
        return "key"
    return contract.spec.key.fields[0] if "key" not in fields_of(contract) else "key"
