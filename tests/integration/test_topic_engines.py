"""One topic, two engines: what is counted in this process is what Spark counts, to the last record."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.timed_records import BEGAN, send
from tests.integration.topics import create_topic

from keylane.pipelines.engine import chosen_engine
from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.profile import Options, profile
from keylane.profile.document import overview
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.messages import local_scan
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.integration.timed_records import Sent

    from keylane.profile.model import Profile
    from keylane.systems.broker import Cluster

KEYS = [
    b"acme",
    b"ACME",
    b" acme",
    b"",
    None,
    b"\xff\xfe",
    bytes(7) + b"\x05",
    b"\x00\x00\x00\x07",
    "caf\u00e9".encode(),
]
#: Values that are read as no record, as one without the field, or as another type than most.
ODD = [
    b"no json",
    b"",
    b"[]",
    b'{"shop": 1.5}',
    b'{"shop": 12, "at": 1763195400000}',
    b'{"shop": "a"} {"shop": "b"}',
    b'{"other": 1}',
    b'{"shop": {"x": 1}}',
    b'{"shop": null, "at": null}',
    b'\x00\x00\x00\x00\x07{"shop": "s1", "lat": 40.7, "lng": -74.0}',
    b'{"shop": "s\xff"}',
    b'{"shop": "n", "at": "soon", "lat": "x", "lng": 1e400}',
]


@pytest.fixture(scope="module")
def written(broker: Cluster) -> str:
    """A topic with keys and values of every kind, gaps of aborted transactions, and a lane that is empty."""
    name = create_topic(broker, "two-engines", 4)
    random = Random(5)
    records: list[Sent] = []
    for n in range(900):
        value: dict[str, Any] = {"shop": f"s{int(random.paretovariate(1))}", "n": random.randint(-3, 3)}
        value |= {"at": None if n % 31 == 0 else 1_763_195_400_000 + n * 60_000, "lat": random.uniform(-90, 90)}
        value |= {"lng": random.choice([None, 200.0, random.uniform(-180, 180)])}
        key = random.choice(KEYS) if n % 3 else b"key-%d" % int(random.paretovariate(1))
        records.append((key, json.dumps(value).encode(), BEGAN + random.randrange(3_000_000)))
    records += [(random.choice(KEYS), value, BEGAN + n) for n, value in enumerate(ODD)]
    records += [(b"gone", None, BEGAN + 5)]  # type: ignore[list-item]  # a tombstone
    send(broker, name, records[:400])
    send(broker, name, [(b"aborted", b"x", BEGAN)] * 20, **{"transactional.id": "engines-abort"})
    send(broker, name, records[400:])
    return f"kafka://{broker.bootstrap}/{name}"


@dataclass(frozen=True)
class Case:
    """How the topic is profiled."""

    key: tuple[str, ...] = ("key",)
    encoding: Any = "utf8"
    place: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


JSON = StreamOptions(value="json")
CASES = {
    "its own keys as text": Case(options=Options(windows=7)),
    "its own keys as bytes": Case(encoding="raw"),
    "its own keys as numbers": Case(encoding="int64be"),
    "a field, by a time of the value": Case(("shop",), options=Options(time="at", kafka=JSON)),
    "two fields, by its own time": Case(
        ("shop", "n"), ("utf8", "int64be"), options=Options(time="timestamp", kafka=JSON)
    ),
    "places": Case((), place=("lat", "lng"), options=Options(kafka=JSON)),
    "some lanes": Case(options=Options(kafka=StreamOptions(read_range=ReadRange(partitions=(0, 2), most=200)))),
}
#: What runs every time.
FEW = ("its own keys as text", "a field, by a time of the value", "places")


def made(case: Case, source: str, options: Options, spark: SparkSession | None) -> Profile:
    return profile(source, case.key, place=case.place, encoding=case.encoding, options=options, spark=spark)


def document(found: Profile) -> dict[str, Any]:
    return overview(found, salt=b"same").as_json()


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in FEW else pytest.mark.faults) for one in CASES])
def test_both_engines_give_one_document(name: str, written: str, spark: SparkSession) -> None:
    case = CASES[name]
    here = made(case, written, replace(case.options, engine="local"), None)
    there = made(case, written, case.options, spark)
    assert document(here) == document(there)
    assert here.keys.to_pylist() == there.keys.to_pylist()
    assert (here.by_window == there.by_window).all()
    assert here.bytes_total == there.bytes_total
    assert here.without_key == there.without_key


def test_both_engines_give_one_table(written: str, spark: SparkSession) -> None:
    wish, options = TableWish(lanes=3), Options(kafka=JSON, engine="local")
    here = geo_table(written, wish=wish, options=options)
    there = geo_table(written, wish=wish, options=replace(options, engine="auto"), spark=spark)
    assert here.document.as_json() == there.document.as_json()
    assert here.contract == there.contract


def test_a_time_that_is_off_is_seen(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: were times counted otherwise here, the comparison would show it."""
    case = replace(CASES["its own keys as text"], options=Options(windows=7, engine="local"))
    right = document(made(case, written, case.options, None))
    monkeypatch.setattr(local_scan, "_MILLISECOND", 1_007)
    assert document(made(case, written, case.options, None)) != right


def test_a_small_topic_needs_no_java(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_engine(open_endpoint(written), Options(), None) == "local"
    monkeypatch.setattr("keylane.pipelines.engine.MOST_RECORDS", 100)
    assert chosen_engine(open_endpoint(written), Options(), None) == "spark"
