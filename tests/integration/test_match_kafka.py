"""`match` of two real topics: all that is there, into a folder and into a topic; and topics that do not fit."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from confluent_kafka import Producer
from tests.integration.topics import read_back
from tests.match.batch_traffic import expected, found_in, geo_contract, pings, requests

from keylane.errors import DataError, TargetError, UsageError
from keylane.geo.cells import cells_of
from keylane.pipelines.match.batch import agreed_work, match
from keylane.pipelines.match.options import Options
from keylane.pipelines.route import KafkaOptions
from keylane.placement.cell_lanes import cell_lanes
from keylane.systems.broker import librdkafka_settings
from keylane.systems.messages.headers import dead_topic
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

LANES, RADIUS = 4, 2500.0


def filled(broker: Cluster, topic: str, table: pa.Table) -> Any:
    """Every row as JSON in the lane of its cell, under the cell's eight bytes; the order of rows of one time."""
    cells = cells_of(table["lat"].to_numpy(), table["lng"].to_numpy())
    lanes = cell_lanes(geo_contract(LANES), LANES).of(cells)
    counts: dict[int, int] = defaultdict(int)
    writer, places = Producer(librdkafka_settings(broker)), []
    for row, cell, lane in zip(table.to_pylist(), cells.tolist(), lanes.tolist(), strict=True):
        writer.produce(topic, json.dumps(row).encode(), int(cell).to_bytes(8, "big"), partition=lane)
        writer.poll(0)
        places.append(counts[lane] << 17 | lane)
        counts[lane] += 1
    assert writer.flush(60) == 0
    return np.array(places)


@pytest.fixture(scope="module")
def topics(broker: Cluster, topic: Callable[..., str]) -> tuple[str, str, Any, Any]:
    """driver-locations and rider-requests, filled; with one record that is none."""
    drivers, riders = topic(LANES, "driver-locations"), topic(LANES, "rider-requests")
    order = filled(broker, drivers, pings()), filled(broker, riders, requests())
    writer = Producer(librdkafka_settings(broker))
    writer.produce(drivers, b"no JSON", b"\x00" * 8, partition=0)
    assert writer.flush(60) == 0
    return drivers, riders, *order


def at(broker: Cluster, topic: str) -> str:
    return f"kafka://{broker.bootstrap}/{topic}"


@pytest.mark.parametrize("into", [pytest.param("folder", marks=pytest.mark.faults), "topic"])
def test_topics_give_what_brute_force_gives(
    into: str,
    spark: SparkSession,
    broker: Cluster,
    topic: Callable[..., str],
    topics: tuple[str, str, Any, Any],
    tmp_path: Path,
) -> None:
    drivers, riders, *order = topics
    wanted = expected(pings(), requests(), RADIUS, offsets=(order[0], order[1]))
    target = str(tmp_path / "out") if into == "folder" else at(broker, topic(3, "matches"))
    options = Options(RADIUS, co_partitioned=True, kafka=KafkaOptions(value="json", create=True))
    sides, geo = (at(broker, drivers), at(broker, riders)), geo_contract(LANES)
    document = match(*sides, target, options, contract=geo, spark=spark).document.as_json()
    assert (document["pairs"], document["pings"]) == (len(wanted), 2400)
    assert document["dead"] == {"drivers": {"malformed-record": 1}, "riders": {}}
    if into == "folder":
        assert sorted(found_in(tmp_path / "out")) == sorted(wanted)
        return
    name = target.rpartition("/")[2]
    records = read_back(broker, name)
    values = [json.loads(record.value or b"") for record in records]
    assert sorted((one["rider_id"], one["driver_id"]) for one in values) == sorted((r, d) for r, _, d in wanted)
    assert {record.key for record in records} == {one["rider_id"].encode() for one in values}
    assert [letter.value for letter in read_back(broker, dead_topic(name))] == [b"no JSON"]


def test_the_topic_with_other_lanes_is_named_before_anything_is_read(
    broker: Cluster, topic: Callable[..., str], topics: tuple[str, str, Any, Any], tmp_path: Path
) -> None:
    odd = topic(5, "rider-requests")
    options = Options(RADIUS, co_partitioned=True)
    with pytest.raises(DataError, match=f"riders.*co-partitioned.*{odd}: 5 lanes.*4 lanes"):
        match(at(broker, topics[0]), at(broker, odd), str(tmp_path / "out"), options, contract=geo_contract(LANES))
    with pytest.raises(DataError, match=f"topic.*got '{odd}-gone'"):
        match(at(broker, topics[0]), at(broker, f"{odd}-gone"), str(tmp_path / "out"), options)
    with pytest.raises(TargetError, match="--create"):
        match(at(broker, topics[0]), at(broker, topics[1]), at(broker, f"{odd}-gone"), options)


def test_a_window_bounds_what_is_read_of_both_topics_and_is_stated(
    broker: Cluster, topics: tuple[str, str, Any, Any], tmp_path: Path
) -> None:
    drivers, riders = (f"kafka://{broker.bootstrap}/{name}" for name in topics[:2])
    given = Options(RADIUS, kafka=KafkaOptions(value="json", read_range=ReadRange(most=40)))
    work = agreed_work(drivers, riders, str(tmp_path / "out"), given, geo_contract(LANES))
    for side in (work.drivers, work.riders):
        assert 0 < sum(end - start for start, end in side.ranges) <= 40
        assert any(note.startswith(f"not all of the {side.side} were read, but ") for note in work.notes)
    whole = agreed_work(drivers, riders, str(tmp_path / "out"), Options(RADIUS), geo_contract(LANES))
    assert sum(end - start for start, end in whole.drivers.ranges) > 40, "the twin: without a window all is read"
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(UsageError, match="only a topic can be read in part"):
        agreed_work(str(tmp_path / "a.jsonl"), str(tmp_path / "a.jsonl"), str(tmp_path / "out"), given, None)
