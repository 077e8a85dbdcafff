"""Locations -> records of each home cell: what `geo table` and a profile by place count, here on Arrow.

    PlaceCounts       records of each home cell by hour, in two halves, and reasons for those without a cell
    count_places      a LocalScan -> PlaceCounts
    home_cell_keys    a batch -> its home cells as keys, with the numbers of reasons where there is none

The half of a record is a hash of its location and its time (or position): the same source, the same halves, on either
engine. The same on Spark: `spark.count_cells`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.model import Key
from keylane.errors import DataError
from keylane.geo.bits import curve_end
from keylane.geo.coordinates import EARTH, PLACE_REASONS, place_problems
from keylane.keys.arrow_bytes import nulls_of, plain
from keylane.keys.times import is_text
from keylane.profile.build import WINDOW, unpacked
from keylane.profile.count import CountedBatch, KeyCounter
from keylane.profile.model import Windows
from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.geo.coordinates import Region
    from keylane.profile.scan import LocalScan, ScannedBatch

#: Latitude and longitude as a source writes them.
Numbers: TypeAlias = tuple[float, float]
HOURS: Final = 24
REASONS: Final = (*PLACE_REASONS, Reason.MALFORMED_KEY, Reason.MALFORMED_RECORD)
#: The column of the home cells.
CELL: Final = "cell"
#: Home cells that are counted in this process: each has a sum for each hour and half.
MOST_CELLS: Final = 2_000_000
HOUR: Final = 3_600_000_000
_NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_SPECIAL: Final = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_SUFFIX: Final = re.compile(_NUMBER[1:-1] + "[dDfF]")


@dataclass(frozen=True, slots=True)
class PlaceCounts:
    """Cells along the curve; records of each by half and hour, those without an hour last; dead records by reason."""

    cells: NDArray[np.int64]
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]
    dead: dict[str, int]
    #: Of a source without any location, one that is too far out, as it is written.
    outlier: Numbers | None = None


def place_counts(
    cells: NDArray[np.int64], good: NDArray[np.bool_], first: NDArray[np.int64], second: NDArray[np.int64]
) -> PlaceCounts:
    """Counted rows as counts: `cells` of rows that are not `good` are the numbers of reasons."""
    dead: dict[str, int] = {}
    for code, records in zip(cells[~good], (first + second)[~good].sum(1), strict=True):
        dead[REASONS[code].value] = dead.get(REASONS[code].value, 0) + int(records)
    order = np.argsort(curve_end(cells[good]))
    halves = first[good][order], second[good][order]
    return PlaceCounts(cells[good][order], halves, dict(sorted(dead.items())))


def count_places(scan: LocalScan, place: Sequence[str], *, timed: bool, region: Region = EARTH) -> PlaceCounts:
    """Count the locations of a source."""
    hours = HOURS + 1 if timed else 1
    slots = Windows("position", tuple(range(2 * hours + 1)))
    counter = KeyCounter(Key(fields=(CELL,), encoding="h3"), slots, most_keys=MOST_CELLS)
    for batch in scan.batches():
        located = _Located.of(batch, place, region, text=not scan.typed)
        hour = np.zeros(len(batch), np.int64)
        if timed:
            hour = batch.at // HOUR % HOURS
            hour = hour if batch.untimed is None else np.where(batch.untimed, HOURS, hour)
        counter.add(CountedBatch({CELL: pa.array(located.keys)}, 2 * hour + located.halves(batch)))
    rows = counter.rows()
    counts = np.stack([rows.column(f"{WINDOW}{n}").to_numpy() for n in range(2 * hours)], axis=1).astype(np.int64)
    cells = rows.column(CELL).to_numpy()
    return place_counts(cells, cells >= len(REASONS), counts[:, 0::2], counts[:, 1::2])


def home_cell_keys(
    batch: ScannedBatch, place: Sequence[str], *, text: bool, region: Region = EARTH
) -> dict[str, pa.Array]:
    """The home cell of each record, or the number of its reason."""
    return {CELL: pa.array(_Located.of(batch, place, region, text=text).keys)}


def outlying(scan: LocalScan, place: Sequence[str], region: Region) -> Numbers | None:
    """The first location that is out of range, as the source writes it."""
    for batch in scan.batches():
        located = _Located.of(batch, place, region, text=not scan.typed)
        found = np.flatnonzero(located.keys == REASONS.index(Reason.PLACE_OUT_OF_RANGE))
        if len(found):
            lat, lng = (round(float(column.data[found[0]]) * region.scale, 6) for column in located.place)
            return lat, lng
    return None


def reasons_of(rows: pa.Table, windows: int, packing: int) -> dict[str, int]:
    """Records with an invalid location, by reason, from the counted rows of such keys."""
    few = rows.filter(pc.less(rows.column(CELL), len(REASONS)))
    records = unpacked(few, windows, packing).sum(axis=1, dtype="int64").tolist()
    reasons: dict[str, int] = {}
    for code, count in zip(few.column(CELL).to_pylist(), records, strict=True):
        reasons[REASONS[code].value] = reasons.get(REASONS[code].value, 0) + count
    return dict(sorted(reasons.items()))


@dataclass(frozen=True, slots=True)
class _Located:
    """The locations of a batch: latitude and longitude, masked where null, and the home cell or a reason's number."""

    place: tuple[Any, Any]
    keys: NDArray[np.int64]

    @classmethod
    def of(cls, batch: ScannedBatch, place: Sequence[str], region: Region, *, text: bool) -> _Located:
        numbers = [_degrees(batch.fields[name], name, text=text) for name in place]
        (lat, bad_lat), (lng, bad_lng) = ((region.degrees(found), bad) for found, bad in numbers)
        code = place_problems(lat, lng, region).astype(np.int64)
        code[bad_lat | bad_lng] = REASONS.index(Reason.MALFORMED_KEY)
        if batch.malformed is not None:
            code[batch.malformed] = REASONS.index(Reason.MALFORMED_RECORD)
        good = np.flatnonzero(code < 0)
        if len(good):
            from keylane.geo.cells import cells_of

            code[good] = cells_of(lat.data[good], lng.data[good])
        return cls((lat, lng), code)

    def halves(self, batch: ScannedBatch) -> NDArray[np.int64]:
        """The half of each record, by the hash that Spark has."""
        seed = np.full(len(batch), _SEED, np.uint64)
        for column in self.place:
            values = np.where(column.data == 0, 0.0, column.data)
            values = np.where(np.isnan(values), np.nan, values)
            seed = np.where(column.mask, seed, _hashed(values.view(np.uint64), seed))
        last = _hashed(batch.at.astype(np.int64).view(np.uint64), seed)
        seed = last if batch.untimed is None else np.where(batch.untimed, seed, last)
        return (seed & np.uint64(1)).astype(np.int64)


def _degrees(column: Any, name: str, *, text: bool) -> tuple[Any, NDArray[np.bool_]]:
    """A column as numbers, masked where there is none, and which rows hold something else."""
    array = plain(column)
    kind = array.type
    nothing = np.zeros(len(array), bool)
    if pa.types.is_null(kind):
        return np.ma.array(np.zeros(len(array)), mask=True), nothing
    if is_text(kind) and text:
        return _of_text(array)
    if pa.types.is_decimal(kind):
        array = array.cast(pa.string())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError.of(f"column {name!r} holds no degrees", got=str(kind), allowed="numbers")
    numbers = array.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.ma.array(numbers, mask=nulls_of(array)), nothing


def _of_text(array: pa.Array) -> tuple[Any, NDArray[np.bool_]]:
    trimmed = pc.utf8_trim(array, " ")
    plainly = pc.match_substring_regex(trimmed, _NUMBER)
    numbers = pc.if_else(plainly, trimmed, pa.scalar(None, pa.string())).cast(pa.float64())
    others = pc.and_(trimmed.is_valid(), numbers.is_null()).to_numpy(zero_copy_only=False)
    values = np.array(numbers.fill_null(0.0).to_numpy(zero_copy_only=False))
    missing = nulls_of(numbers)
    bad = np.zeros(len(array), bool)
    for row in np.flatnonzero(others):
        found = _odd_number(trimmed[int(row)].as_py())
        if found is not None:
            values[row], missing[row] = found, False
        else:
            bad[row] = trimmed[int(row)].as_py() != ""
    return np.ma.array(values, mask=missing), bad


def _odd_number(text: str) -> float | None:
    """A number as Java writes and reads it too: with a letter for its type, infinite, or none."""
    bare = text.strip()
    if _SUFFIX.fullmatch(bare):
        return float(bare[:-1])
    sign, word = ("-", bare[1:]) if bare.startswith("-") else ("", bare.removeprefix("+"))
    known = _SPECIAL.get(word.lower())
    if known is not None:
        return float(sign + known)
    return float(bare) if re.fullmatch(_NUMBER, bare) else None


# Spark's xxhash64 of numbers of 64 bits, one after the other; null leaves the hash as it is.

_SEED: Final = np.uint64(42)
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _hashed(numbers: NDArray[np.uint64], seed: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of the hash."""
    with np.errstate(over="ignore"):
        mixed = seed + _P5 + np.uint64(8)
        mixed = mixed ^ (_turned(numbers * _P2, 31) * _P1)
        mixed = _turned(mixed, 27) * _P1 + _P4
        mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
        out: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(32))
        return out


def _turned(numbers: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    out: NDArray[np.uint64] = (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))
    return out
