"""Times as Spark columns against the same of Arrow: every form, every unit, hostile values, to the microsecond."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from keylane.errors import KeylaneError
from keylane.keys.times import TimeEnds, micros_of, sizes_of, unit_of
from keylane.spark.keys import field_of
from keylane.spark.times import micros_of as spark_micros
from keylane.spark.times import range_in, unit_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_DRAWN: Final = random.Random(5)
_EDGES: Final = [least * 1000**power + off for power in range(4) for least in (315_532_800,) for off in (-1, 0)]
_ENDS: Final = [10 ** (10 + 3 * power) + off for power in range(3) for off in (-1, 0)]
NUMBERS: Final = [
    *(None, 0, -1, 1, 2**63 - 1, -(2**63), 1 - 2**63, -1_763_000_000, -1_763_000_000_123, *_EDGES, *_ENDS),
    *(int(10 ** _DRAWN.uniform(7, 18.9)) for _ in range(150)),
]
TEXTS: Final = [
    *(
        None,
        "",
        "x",
        "02:30",
        " 1763000000 ",
        "\t1763000000",
        "+1763000000",
        "1763000000\n",
        "1.7e9",
        "1.763208000123E9",
        "-1.7E+12",
        "5e400",
        "1e-3",
        "٣",
        "9" * 20,
    ),
    *("-1763000000.5", "1763000000.1234567", "1763000000123.999", "1763000000123456.9", "1763000000123456789.5"),
    *("0.0", "-0.5", "2026-11-15", "2026-11-15 08:30", "2026-11-15T08:30:00.123456789Z", "2026-02-30", "9999-12-31"),
    *("2026-11-15 08:30:00 +05:30", "5/1/2014 0:02:00", "31/2/2014 1:1:1", "5/13/2014 23:59:59", "5/1/2014 0:02:60"),
    *("15/Nov/2026:08:30:00 +0100", "15/nov/2026:08:30:00 -1130", "15/Nov/2026:08:30:00 Z"),
    *("15/Nov/2026:08:30:00 +1900", "15/Foo/2026:08:30:00 +0100", "Nov 5, 2026 8:30 PM", "Nov 5, 2026 12:30 AM"),
    *("Nov 5, 2026 13:30 AM", "Nov  5, 2026 0:30 AM", "5.1.14 0:2", "5.1.70 24:00", "29.2.23 1:00", "29.2.24 1:00"),
    *("20261115083000", "5/1/2014 0:02:00\n", "5/1/2014 0:02:00.5", "5/1/2014 0:02:00.123456789012"),
    *(str(one) for one in NUMBERS if one is not None),
    *(f"{one}.{_DRAWN.randrange(10**6)}" for one in NUMBERS if one is not None),
]
FLOATS: Final = [
    *(None, float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e300, -1_763_000_000.5, 315_532_799.9999),
    *(1_763_000_000.1234565, 1_763_000_000_123.4567, 1.763e15, 1.763e18, 9_999_999_999.999999),
    *(10 ** _DRAWN.uniform(7, 20) for _ in range(150)),
]
COLUMNS: Final = {
    "numbers": pa.array(NUMBERS, pa.int64()),
    "text": pa.array(TEXTS, pa.string()),
    "floats": pa.array(FLOATS, pa.float64()),
    "decimals": pa.array([None, Decimal("1763000000.123"), Decimal("-5.5"), Decimal(10**15)], pa.decimal128(25, 3)),
    "dates": pa.array([date(9999, 12, 31), date(1, 1, 1), None]),
}
UNITS: Final = (None, "s", "ms", "us", "ns")
FORMATS: Final = (
    *("%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%b/%Y:%H:%M:%S %z", "%b %d, %Y %I:%M %p", "%d.%m.%y %H:%M"),
    *("%Y%m%d%H%M%S", "%d/%m/%Y %H:%M:%S.%f"),
)


@pytest.mark.parametrize("forms", [UNITS, FORMATS], ids=["units", "formats"])
@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_is_the_same_time(name: str, forms: Any, spark: SparkSession, tmp_path: Path) -> None:
    column = COLUMNS[name]
    pq.write_table(pa.table({"at": column, "row": range(len(column))}), tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet"))
    field = field_of("at", frame.schema)
    for form in forms:
        times, missing = micros_of(column, form)
        rows = frame.select("row", spark_micros(field, form).alias("micros")).orderBy("row").collect()
        expected = [None if none else int(one) for one, none in zip(times, missing, strict=True)]
        odd = [
            (column[at].as_py(), one, row.micros)
            for at, (one, row) in enumerate(zip(expected, rows, strict=True))
            if one != row.micros
        ]
        assert odd == [], form
    assert _unit(lambda: unit_of("at", sizes_of(column).tolist(), text=name == "text")) == _unit(
        lambda: unit_in(frame, field)[0]
    )


def _unit(found: Any) -> str:
    try:
        return str(found())
    except KeylaneError as error:
        return str(error)


def test_strays_are_the_same(spark: SparkSession) -> None:
    seen = set()
    for seed in range(12):
        drawn = random.Random(seed)
        base, hour = 1_763_000_000 * 10**6, 3_600 * 10**6
        times = [base + int(drawn.expovariate(1) * hour) for _ in range(drawn.choice([1, 9, 60, 1_000]))]
        times += [
            drawn.choice([0, 4_102_444_800 * 10**6, base + 10 * hour]) for _ in range(drawn.choice([0, 1, 2, 40]))
        ]
        ends = TimeEnds()
        for part in np.array_split(np.array(times), 3):
            ends.add(part)
        frame = spark.createDataFrame([(one,) for one in times], "at bigint")
        found, without = range_in(frame, F.col("at"), field_of("at", frame.schema), None)
        assert (found, without) == (ends.range(), 0), seed
        seen.add((found.before > 0, found.after > 0))
    assert {(True, True), (False, False)} <= seen
