"""Columns of times whose instants are known: in every form that a time is written in, mixed, with strays, or none.

    drawn_times    a case from a seed: the known instants, how they are written, and what may be claimed of them
    judged         what is wrong in the windows that were claimed for a case: counted here, record by record

The writer of each form is below, and there is no reader: what a value means is what it was written from.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: A few records that lie far from all others: the first moment, New Year of 2100, the last day that can be written.
STRAYS: Final = (0, 4_102_444_800 * SECOND, 253_402_214_400 * SECOND)
WINDOWS: Final = 8


@dataclass(frozen=True, slots=True)
class Form:
    """How a time is written: what `--time` has to say, the type in Parquet, a second's part that it keeps."""

    name: str
    write: Callable[[int], Any]
    kind: Any = None
    #: None where nothing that could be given is right.
    given: str | None = ""
    #: In microseconds: finer times cannot be written so.
    grain: int = SECOND
    #: Whether the value says by itself what it is, so that nothing has to be given.
    plain: bool = True


def _at(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _clock(pattern: str) -> Callable[[int], str]:
    return lambda micros: _at(micros).strftime(pattern)


def _bare(micros: int) -> str:
    at = _at(micros)
    return f"{at.day}/{at.month}/{at.year:04} {at.hour}:{at.minute:02}:{at.second:02}"


FORMS: Final = (
    Form("seconds", lambda m: m // SECOND, pa.int64()),
    Form("narrow seconds", lambda m: m // SECOND, pa.uint64()),
    Form("milliseconds", lambda m: m // 1000, pa.int64(), grain=1000),
    Form("microseconds", lambda m: m, pa.int64(), grain=1),
    Form("nanoseconds", lambda m: m * 1000, pa.int64(), grain=1),
    Form("seconds with a point", lambda m: m / SECOND, pa.float64(), grain=1000),
    Form("seconds as decimals", lambda m: Decimal(m) / SECOND, pa.decimal128(24, 6), grain=1),
    Form("seconds as text", lambda m: str(m // SECOND), pa.string()),
    Form("decimals as text", lambda m: f"{m // SECOND}.{m % SECOND:06}", pa.string(), grain=1),
    Form("milliseconds as text", lambda m: f" {m // 1000} ", pa.string(), grain=1000),
    Form("timestamps", lambda m: _at(m).replace(tzinfo=None), pa.timestamp("us"), grain=1),
    Form("timestamps of a zone", _at, pa.timestamp("ms", "America/New_York"), grain=1000),
    Form("text", _clock("%Y-%m-%d %H:%M:%S"), pa.string()),
    Form("text of UTC", _clock("%Y-%m-%dT%H:%M:%S.%fZ"), pa.string(), grain=1),
    Form("text of a zone", lambda m: f"{_at(m + 19_800 * SECOND):%Y-%m-%d %H:%M:%S}+05:30", pa.string()),
    Form("text to the minute", _clock("%Y-%m-%d %H:%M"), pa.string(), grain=60 * SECOND),
    Form("days first", _bare, pa.string(), given="%d/%m/%Y %H:%M:%S", plain=False),
    Form("months first", _clock("%m/%d/%Y %I:%M:%S %p"), pa.string(), given="%m/%d/%Y %I:%M:%S %p", plain=False),
    Form("logs", _clock("%d/%b/%Y:%H:%M:%S +0000"), pa.string(), given="%d/%b/%Y:%H:%M:%S %z", plain=False),
    Form("digits", lambda m: int(_at(m).strftime("%Y%m%d%H%M%S")), pa.int64(), given="%Y%m%d%H%M%S", plain=False),
    Form("clocks", _clock("%H:%M"), pa.string(), given=None, grain=60 * SECOND, plain=False),
    Form("small numbers", lambda m: m // SECOND % 1_000_000, pa.int64(), given=None, plain=False),
)
#: Pairs of forms whose values in one column are of no one unit.
MIXED: Final = (("seconds", "milliseconds"), ("milliseconds", "microseconds"), ("text", "seconds as text"))


@dataclass(frozen=True, slots=True)
class TimeCase:
    """A source of records with a key and a time; `known` are their instants, None of records without one.

    `given` is the format to name, "" where none is needed. `refused`: nothing may be claimed, as the times cannot be
    told. `strays` are how many at the end of `known` lie far from the others.
    """

    seed: int
    form: str
    ending: str
    known: tuple[int | None, ...]
    values: tuple[Any, ...]
    kind: Any
    given: str
    refused: bool
    strays: int

    def write(self, folder: Path) -> Path:
        """The file of it."""
        path = folder / f"case-{self.seed}.{self.ending}"
        keys = [f"k{number % 7}" for number in range(len(self.values))]
        if self.ending == "parquet":
            pq.write_table(pa.table({"k": keys, "at": pa.array(self.values, self.kind)}), path)
        elif self.ending == "jsonl":
            path.write_text(
                "".join(json.dumps({"k": k, "at": v}) + "\n" for k, v in zip(keys, self.values, strict=True))
            )
        else:
            cells = (f'{k},"{"" if v is None else v}"\n' for k, v in zip(keys, self.values, strict=True))
            path.write_text("k,at\n" + "".join(cells))
        return path

    @property
    def time(self) -> str:
        """What `--time` gets."""
        return f"at:{self.given}" if self.given else "at"


def drawn_times(seed: int) -> TimeCase:
    """A case; the same seed is the same case."""
    rng = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    fault = rng.choice(["", "", "strays", "nulls", "ungiven" if not form.plain and form.given else "", "mixed"])
    span = rng.choice([600, 3_600, 86_400, 40 * 86_400]) * SECOND
    first = rng.randrange(1_300_000_000, 1_800_000_000) * SECOND
    many = rng.choice([300, 1_000, 2_500])
    drawn = sorted(first + rng.randrange(span) for _ in range(many))
    known: list[int | None] = [one // form.grain * form.grain for one in (first, *drawn, first + span - 1)]
    values = [form.write(one) for one in known if one is not None]
    kind, refused, strays = form.kind, form.given is None, 0
    if fault == "mixed":
        pair = next((pair for pair in MIXED if form.name in pair), None)
        if pair is not None:
            other = next(one for one in FORMS if one.name == pair[pair[0] == form.name])
            part = rng.uniform(0.05, 0.9)
            values = [other.write(at) if rng.random() < part else form.write(at) for at in known if at is not None]
            refused = True
    elif fault == "strays" and form.kind is not None and not refused:
        odd = [rng.choice(STRAYS) for _ in range(rng.choice([1, 2, 3]))]
        values += [form.write(one) for one in odd]
        known, strays = [*known, *odd], len(odd)
    elif fault == "nulls" and not refused:
        values += [None] * (many // 20)
        known += [None] * (many // 20)
    refused = refused or fault == "ungiven"
    typed = form.kind is not None and not pa.types.is_string(form.kind) and not pa.types.is_integer(form.kind)
    ending = "parquet" if typed else rng.choice(["parquet", "jsonl", "csv"])
    given = "" if fault == "ungiven" or form.given is None else form.given
    return TimeCase(seed, form.name, ending, tuple(known), tuple(values), kind, given, refused, strays)


def judged(case: TimeCase, edges: Sequence[str], records: Sequence[int]) -> list[str]:
    """What is false in the windows that were claimed: between which times, and how many records in each."""
    if case.refused:
        return ["windows were claimed for times that cannot be told"]
    cuts = [_micros(one) for one in edges]
    kept = [one for one in case.known[: len(case.known) - case.strays] if one is not None]
    others = len(case.known) - len(kept)
    faults = []
    if not cuts[0] <= min(kept) or not max(kept) < cuts[-1]:
        faults.append(f"windows from {edges[0]} to {edges[-1]} do not hold {_at(min(kept))} to {_at(max(kept))}")
    span, size = max(kept) - min(kept), cuts[1] - cuts[0]
    if size > 1.1 * span / WINDOWS + 2 * SECOND:
        faults.append(f"windows of {size} us cut a span of {span} us into {WINDOWS}")
    counted = [0] * (len(cuts) - 1)
    for one in kept:
        counted[min(max(bisect_right(cuts, one) - 1, 0), len(counted) - 1)] += 1
    even = -(-others // len(counted))
    if any(not known <= claimed <= known + even for known, claimed in zip(counted, records, strict=True)):
        faults.append(f"{list(records)} records by window are {counted}, and {others} that lie in none")
    if sum(records) != len(case.known):
        faults.append(f"{sum(records)} records of {len(case.known)}")
    return faults


def _micros(edge: str) -> int:
    return (datetime.fromisoformat(edge) - _EPOCH) // timedelta(microseconds=1)


def reached(cases: Sequence[TimeCase]) -> Mapping[str, int]:
    """How many cases there are of each form, of each file, of those that must be refused and of those with strays."""
    found: dict[str, int] = {}
    for case in cases:
        for name in (
            case.form,
            case.ending,
            "refused" if case.refused else "read",
            "strays" if case.strays else "near",
        ):
            found[name] = found.get(name, 0) + 1
    return found
