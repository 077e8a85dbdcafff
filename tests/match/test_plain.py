"""Records that are read where they are, as plain JSON, against the same read by Spark: one verdict, one result."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
from tests.match.steps import DEAD, TIME, Steps, unpacked

from keylane.geo.coordinates import EARTH, Region
from keylane.pipelines.match.options import Columns, Options
from keylane.pipelines.match.records import as_rows
from keylane.pipelines.match.sources import MatchSource, raw_messages
from keylane.pipelines.route import KafkaOptions
from keylane.spark.topic_blocks import CLOCK, MESSAGE
from keylane.systems.endpoint import parse_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_763_208_000_000
CLOCK_US = NOW * 1000
#: Numbers of the unit that their size has, and of one that was given.
FORMS = {0: Columns(), 1000: Columns(time="ts:ms")}
MANY = 600
NAMES = ("id", "ts", "lat", "lng", "available", "more")
#: What a field may have; the first ones are plain, and each is as likely as all others together.
VALUES: dict[str, tuple[str, ...]] = {
    "id": (
        '"d1"',
        '"d 2/3"',
        '""',
        '"é"',
        '"a\\"b"',
        '"a\\u0062"',
        "7",
        "007",
        "null",
        "1.5",
        '"\\ud83d"',
        '"a\tb"',
        "true",
    ),
    "ts": (
        *(str(NOW), f"{NOW - 1}", "0", "-5", "1.5", "1e12", f"{NOW}.0", f'"{NOW}"', '"2025-11-15T12:00:00Z"', "null"),
        *(
            "999999999999999",
            "9999999999999999",
            "-999999999999999",
            "1763208000",
            "1763208000123456",
            "-1763208000",
            "20251115120000",
            "9" * 18,
            "9" * 25,
            "-0",
            "01",
            "+1",
            '""',
            "true",
        ),
    ),
    "lat": (
        *("51.5", "-12.25", "0", "0.0", "-0.0", "90", "90.0", "90.0000001", "-90", "91", "51.12345678901234"),
        *("51.1234567890123", "5e1", "1e-7", "NaN", '"51.5"', "null", ".5", "5.", "true", "00.5", "1E1", "-"),
    ),
    "lng": ("-0.12", "180", "-180", "180.0", "180.1", "0", "0.0", "179.99999999999", '"1"', "null", "1e2", "-0"),
    "available": ("true", "false", "null", '"yes"', '"true"', '""', "1", "0", "tru", "True"),
    "more": ('"x"', "1", "null", '{"id":"inner"}', '["id"]', '"\\n"', "1e400", '"\x01"', "-1.5", "truefalse"),
}


def text(rng: random.Random) -> str:
    """A value: mostly an object with all fields, plain but for one or two of them."""
    names = [name for name in NAMES if rng.random() < (0.97 if name not in {"available", "more"} else 0.5)]
    rng.shuffle(names)
    if rng.random() < 0.05:
        names.append(rng.choice(NAMES))
    if rng.random() < 0.03:
        names = [name.upper() if rng.random() < 0.5 else name for name in names]
    space = rng.choice(["", "", "", " ", "\n", "\t", "\u00a0"])
    fields = []
    for name in names:
        values = VALUES[name.lower()]
        value = values[0] if rng.random() < 0.7 else rng.choice(values)
        fields.append(f'{space}"{name}"{space}:{space}{value}')
    whole = "{" + ",".join(fields) + space + "}"
    spoiled = (whole, whole + "x", whole[:-1], "\ufeff" + whole, "[" + whole + "]", whole + whole, "", "null", "{}")
    return whole if rng.random() < 0.93 else rng.choice(spoiled)


def packed(steps: Steps, texts: list[str], region: Region, source: int, *, plain: bool, tick: int = 0) -> list[Any]:
    """The records of values by a packer that reads plain JSON itself, or leaves all to Spark; -0.0 counts as 0.0."""
    columns_of = FORMS[tick]
    side = MatchSource(("drivers", "riders")[source], parse_address("kafka://nowhere:9092/t"), columns_of)
    given = Options(radius=1.0, kafka=KafkaOptions(value="json"))
    values = [value.encode("utf-8", "surrogatepass") for value in texts]
    rows = [(None, value, "t", 3, at, None, CLOCK_US) for at, value in enumerate(values)]
    frame = steps.spark.createDataFrame(steps.spark.sparkContext.parallelize(rows, 1), MESSAGE)
    judged = as_rows(raw_messages(frame, side, given, CLOCK), columns_of, region, drivers=source == 0)
    names = [*columns_of.needed, *(["available"] if source == 0 else [])]
    own = {"names": names, "tick": tick, "region": [region.south, region.west, region.north, region.east]}
    columns = steps.plan.columns(judged)
    packer = steps.plan.plan.packer(steps.plan.rules, source, own if plain else None, columns).packer(CLOCK_US)
    taken = 0
    for at, row in enumerate(frame._jdf.queryExecution().executedPlan().executeCollect()):
        if packer.pack(3, at, None, bytearray(values[at])):
            taken += 1
        else:
            assert packer.packRow(row)
    assert (taken > 0) == plain
    packer.end(3, 0)
    records = sorted(one for block in packer.rows() for one in unpacked(bytes(block._2())))
    return [
        one if one.kind in {TIME, DEAD} else (one.kind, one.who, *struct.unpack_from("<iqqdd", one.fields))
        for one in records
    ]


@pytest.mark.parametrize("tick", FORMS)
@pytest.mark.parametrize("source", [0, 1], ids=["drivers", "riders"])
@pytest.mark.parametrize("region", [EARTH, Region(51.5, 170.0, 90.0, -0.12)], ids=["earth", "over the antimeridian"])
def test_plain_records_come_to_what_spark_makes_of_them(
    spark: SparkSession, source: int, region: Region, tick: int
) -> None:
    steps, rng = Steps(spark), random.Random(f"{source} {region}")
    texts = [text(rng) for _ in range(MANY)]
    found, expected = (packed(steps, texts, region, source, plain=plain, tick=tick) for plain in (True, False))
    dead = sum(one[0] == DEAD for one in expected)
    assert min(dead, len(expected) - dead) > MANY / 20
    assert [one for one in found if one not in expected] == []
    assert found == expected


def test_twin_a_value_that_is_read_otherwise_is_noticed(spark: SparkSession) -> None:
    steps = Steps(spark)
    value = json.dumps({"id": "d", "ts": NOW, "lat": 51.5, "lng": 1})
    found = packed(steps, [value], EARTH, 0, plain=True)
    other = packed(steps, [value.replace("51.5", "51.6")], EARTH, 0, plain=False) if found else []
    assert found != other
