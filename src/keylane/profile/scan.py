"""What is asked of a source that is to be counted, and the source that answers, for the engine in this process.

    ScanRequest   the key, a time, a length: what is read of each record
    LocalScan     the answer: batches of keys with their times or positions, windows, and what is known unread
    watched       a LocalScan whose batches are seen as they go by, with how many records there are
    count_keys    a LocalScan -> the rows of a profile

The same on Spark: `spark.scan` and `spark.count_keys`. Who scans: `systems.endpoint.Endpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError
from keylane.keys.time_forms import UNITS
from keylane.keys.times import ODD, WRITTEN
from keylane.profile.build import MALFORMED, SIZE, UNTIMED
from keylane.profile.count import MOST_BYTES, MOST_KEYS, CountedBatch, KeyCounter, window_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.model import Key
    from keylane.keys.times import TimeRange
    from keylane.placement.ranges import KeySpace
    from keylane.profile.model import Windows


#: Lanes that a column may name, and the number of none: that of a line that cannot be read.
MOST_LANES: Final = 1_000_000
NO_LANE: Final = -1


def no_lane(name: str, got: object) -> DataError:
    """The error for a value in a column of lanes that is the number of none."""
    return DataError.of(
        f"column {name!r} holds no lane", got="null" if got is None else got, allowed=f"0 to {MOST_LANES - 1}"
    )


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What is asked of a source.

    `time` is the column windows are cut by, `form` how it is written (`keys.times.TimeField`); `size` is the column
    with a record's length, `lane` that of its lane, `windows` their number where it was given. Records without a lane
    count as unread, unless `all_laned` refuses them: nobody has named the column then. `seconds` is how long to listen
    to a stream, instead of reading what is there. `of_contract` is whether the key is a contract's; `written` are the
    fields of the key that are read as text and parsed later: the degrees of a location.
    """

    key: Key
    time: str | None = None
    form: str | None = None
    size: str | None = None
    windows: int | None = None
    seconds: float | None = None
    of_contract: bool = False
    written: tuple[str, ...] = ()
    lane: str | None = None
    all_laned: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([*self.key.fields, *filter(None, (self.time, self.size, self.lane))]))


def time_facts(form: str | None, unit: str | None, sizes: Sequence[int], found: TimeRange) -> dict[str, Any]:
    """What a profile keeps of its times: how they were read, and which of them are set aside.

    `unit` is that of numbers whose sizes were counted (`keys.times.sizes_of`).
    """
    facts: dict[str, Any] = {}
    if form is not None:
        facts |= {"unit": form} if form in UNITS else {"time_format": form}
    if unit is not None:
        facts |= {"unit": unit, "unit_by_size": True}
        others = sum(sizes[:ODD]) - max(sizes[:ODD])
        facts |= {"other_units": int(others)} if others else {}
    if sizes and sizes[WRITTEN]:
        facts["written_times"] = True
    if found.odd is not None:
        facts["strays"] = [found.before, found.after, *found.odd]
    return facts


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """Some records: the fields of their keys, the time or position of each, and what else was measured.

    `untimed` marks records without a time, `malformed` those that could not be read; None where there are none.
    """

    fields: Mapping[str, Any]
    at: NDArray[np.int64]
    untimed: NDArray[np.bool_] | None = None
    size: NDArray[np.int64] | None = None
    lane: NDArray[np.int64] | None = None
    malformed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, slots=True)
class LocalScan:
    """A source that is ready to be counted in this process; the fields are those of `spark.scan.Scan`.

    `malformed`: whether records may be unreadable; `unread` names the first such line, once all were read. `sized`:
    whether batches have the size of each record. `key_space` are the lanes as ranges, where such. `batches`
    reads the source once more each time it is called.
    """

    batches: Callable[[], Iterator[ScannedBatch]]
    windows: Windows
    records: int | None
    exact: bool
    lanes: int | None = None
    size: int | None = None
    untimed: bool = False
    typed: bool = True
    malformed: bool = False
    sized: bool = False
    unread: Callable[[], str] = str
    facts: dict[str, Any] = field(default_factory=dict)
    names: Callable[[], list[str]] = list
    key_space: KeySpace | None = None


class ExpectedBatches(Iterator[ScannedBatch]):
    """Batches, and how many records there are in all of them, or at most; for progress, which shows the time left."""

    def __init__(self, batches: Iterator[ScannedBatch], total: int | None) -> None:
        self._batches, self.total = batches, total

    def __next__(self) -> ScannedBatch:
        return next(self._batches)


def watched(scan: LocalScan, watch: Callable[[Iterator[ScannedBatch]], Iterator[ScannedBatch]]) -> LocalScan:
    """The same source, whose batches `watch` passes on."""
    return replace(scan, batches=lambda: watch(ExpectedBatches(scan.batches(), scan.records)))


def count_keys(
    scan: LocalScan,
    key: Key,
    *,
    keyed: Callable[[ScannedBatch], Mapping[str, Any]] | None = None,
    most_keys: int = MOST_KEYS,
    most_bytes: int = MOST_BYTES,
) -> pa.Table:
    """One row for each key, as `profile.build.profile_of` takes them; `keyed` makes the key out of a batch."""
    kept = {SIZE: scan.sized, MALFORMED: scan.malformed, UNTIMED: scan.untimed}
    measured = [name for name, wanted in kept.items() if wanted]
    counter = KeyCounter(key, scan.windows, measured, scan.lanes is not None, most_keys, most_bytes)
    for batch in scan.batches():
        counter.add(
            CountedBatch(
                batch.fields if keyed is None else keyed(batch),
                window_numbers(batch.at, scan.windows),
                batch.lane,
                batch.size,
                batch.malformed,
                batch.untimed,
            )
        )
    return counter.rows()
