"""Keys with a time window: every form of time, every unit, every way to write it, and both ends of all times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from tests.parity.cases.case import Case, Columns, crossed, key, window

TIMES = [
    datetime(2026, 11, 15, 5, 41, 16, 123456, tzinfo=UTC),
    datetime(2026, 11, 15, 5, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 11, 15, 6, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1700, 2, 28, 1, 2, 3, 4, tzinfo=UTC),
    None,
]
KEYS = ["a", "", "b", None, "d", "e", "f"]
ENDS = [-(2**63), -(2**63) + 1, 2**63 - 1]
WHOLE = [0, 1, -1, 3_599, 3_600, -3_600, -3_601, 1_794_720_076_123, 2**31, 2**62, -(2**62), *ENDS, None]
SIZES = ["1ms", "500ms", "30s", "5m", "1h", "7d", "99999d"]
FORMS = ["start_ms", "start_s", "index"]
UNITS = ["s", "ms", "us"]


def _whole() -> dict[str, Case]:
    """Every size, with the forms and units taken in turn; then every form with every unit."""
    turns = [(size, FORMS[i % 3], UNITS[i % 3]) for i, size in enumerate(SIZES)]
    turns += [("5m", form, unit) for form in FORMS for unit in UNITS]
    return {
        f"windows of {size} as {form}, of whole {unit}": Case(
            key(**window(size, unit=unit, **{"as": form})), crossed(k=["a", "", None], t=WHOLE)
        )
        for size, form, unit in turns
    }


def zoned(zone: str | None, unit: str = "us") -> Columns:
    ticks = {"s": 1_000_000, "ms": 1_000}.get(unit, 1)
    cut = [time and time.replace(microsecond=time.microsecond // ticks * ticks) for time in TIMES]
    values = [time if zone or not time else time.replace(tzinfo=None) for time in cut]
    return {"k": pa.array(KEYS), "t": pa.array(values, pa.timestamp(unit, zone))}


STAMPED = {
    "timestamps": Case(key(**window("1h")), zoned("UTC")),
    "timestamps of a zone": Case(key(**window("7d", **{"as": "start_s"})), zoned("Asia/Kolkata")),
    "timestamps in nanoseconds": Case(key(**window("1h")), zoned("UTC", "ns")),
    "timestamps in milliseconds": Case(key(**window("1h")), zoned("UTC", "ms")),
    "timestamps in seconds": Case(key(**window("1h")), zoned("UTC", "s")),
    "naive timestamps": Case(key(**window("1h", **{"as": "index"})), zoned(None), alone=False),
    "naive timestamps in nanoseconds": Case(key(**window("1h")), zoned(None, "ns"), alone=False),
    "naive timestamps in milliseconds": Case(key(**window("30s")), zoned(None, "ms"), alone=False),
    "naive timestamps in seconds": Case(key(**window("5m")), zoned(None, "s"), alone=False),
}

FAR = [2**62, 2**62 + 1, -(2**62), -(2**62) - 1, 2**63 - 1, -(2**63), 0]


def far_off(zone: str | None) -> Columns:
    return {"k": pa.array(KEYS), "t": pa.array(FAR, pa.int64()).cast(pa.timestamp("us", zone))}


FAR_OFF = {
    "timestamps of another age": Case(key(**window("1h")), far_off("UTC"), by_record=False),
    "naive timestamps of another age": Case(key(**window("1h")), far_off(None), alone=False, by_record=False),
}

NARROW = {
    f"windows over {kind}": Case(
        key(**window("1m", unit="s")), {"k": pa.array(["a", "", "b", None]), "t": pa.array([0, 59, 60, None], kind)}
    )
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint32(), pa.uint64())
}
NARROW["windows over what only fits unsigned"] = Case(
    key(**window("1h", unit="us")), {"k": pa.array(["a", "b"]), "t": pa.array([0, 2**63 + 5], pa.uint64())}
)


def _last_part(fields: tuple[str, ...], **more: Any) -> Case:
    columns = crossed(k=["a", "", None], n=[7, -1, 2**40, None], t=[0, -1, 3_600_000, 2**62, None])
    return Case(key(fields=fields, **window("1h", **{"as": "index"}), **more), columns)


PARTS = {
    "a window after two texts": _last_part(("k", "n")),
    "a window after a fixed width": _last_part(("n",), encoding="int32be"),
    "a window after a mixed key": _last_part(("n", "k"), encoding=["int64be", "utf8"]),
    "a window, joined": _last_part(("k",), join="::"),
    "a window after a fixed width, joined": _last_part(("n",), encoding="int32be", join="·"),
    "a window, null is hashed": _last_part(("k",), on_null="hash"),
    "a window, null is rejected": _last_part(("k",), on_null="reject"),
    "a window of no time at all": Case(
        key(**window("1h")), {"k": pa.array(["a", "", None]), "t": pa.array([None] * 3, pa.int64())}
    ),
    "a window of nothing but nulls": Case(key(**window("1h")), {"k": pa.array(["a", "", None]), "t": pa.nulls(3)}),
    "an empty key with no time": Case(
        key(on_null="reject", on_empty="hash", **window("1h")), crossed(k=["", "a"], t=[None, 5])
    ),
    "a hot key with a bad time": Case(
        {
            **key(**window("1h", unit="s")),
            "hot_keys": [
                {"keys": ["a"], "tier": {"stream": "vip", "lanes": 3}},
                {"keys": ["b"], "pin": {"lanes": [3]}},
            ],
        },
        crossed(k=["a", "b", "c"], t=[0, -3601, None, 2**62]),
    ),
}

CASES = {**_whole(), **STAMPED, **FAR_OFF, **NARROW, **PARTS}
