"""The load of a stream for `shards plan`: by reading its records, and by the metrics that the service counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kinesis.command import run
from tests.kinesis.replayed import ACCESS, ADDRESS
from tests.kinesis.servers import ACCESS as SECRETS

from keylane.errors import BrokerError, DataError, UsageError
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.load import from_ranges
from keylane.pipelines.shards import plan_shards
from keylane.systems.hash_key_registry import ImportedAccount, open_registry
from keylane.systems.kinesis.aggregated import UserRecord, packed
from keylane.systems.kinesis.load import read_load, reported_load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kinesis.model import ModelService
    from tests.kinesis.servers import KinesisServer

    from keylane.pipelines.shards import Measure

MIDDLE, LAST = 2**127, 2**128 - 1


def put(service: Any, key: str, records: int, explicit: int | None = None, data: bytes = b"x") -> None:
    more = {} if explicit is None else {"ExplicitHashKey": str(explicit)}
    for _ in range(records):
        service.put_record(StreamName="s", Data=data, PartitionKey=key, **more)


def on(side: int) -> str:
    """A key whose hash is on the lower or the upper half of the space."""
    return next(key for key in "abcdefgh" if (hash_key_of(key) >= MIDDLE) == side)


@pytest.fixture
def two(service: ModelService) -> ModelService:
    service.create_stream(StreamName="s", ShardCount=2)
    return service


def test_records_count_at_their_hash_keys_a_second(two: ModelService) -> None:
    low, high = on(0), on(1)
    put(two, low, 30)
    two.sleep(10)
    put(two, high, 60)
    two.sleep(10)
    whole = read_load(ACCESS, "s", "records", None, {})
    assert whole.points == pytest.approx({hash_key_of(low): 1.5, hash_key_of(high): 3.0}, rel=1e-3)
    assert (list(whole.ranges), whole.keys[hash_key_of(low)]) == ([], low)
    last = read_load(ACCESS, "s", "records", 15.0, {})
    assert last.points == pytest.approx({hash_key_of(high): 4.0}, rel=1e-3)
    # The stream is twenty seconds old: it carried nothing before.
    longer = read_load(ACCESS, "s", "records", 3600.0, {})
    assert longer.points == pytest.approx(whole.points, rel=1e-3)
    assert read_load(ACCESS, "s", "bytes", None, {}).points[hash_key_of(low)] == pytest.approx(3.0, rel=1e-3)


def test_an_explicit_hash_key_counts_over_its_shard_or_where_the_registry_has_it(two: ModelService) -> None:
    low = on(0)
    put(two, low, 10, explicit=MIDDLE + 7)
    two.sleep(10)
    found = read_load(ACCESS, "s", "records", None, {})
    assert (found.points, [one[:2] for one in found.ranges]) == ({}, [(MIDDLE, LAST)])
    assert "100% of the load has explicit hash keys that are not known" in found.notes[-1]
    known = read_load(ACCESS, "s", "records", None, {low: MIDDLE + 7})
    assert (list(known.points), list(known.ranges)) == ([MIDDLE + 7], [])
    # A registry that has another key for it than was sent says nothing of these records.
    other = read_load(ACCESS, "s", "records", None, {low: 3})
    assert other.ranges == found.ranges


def test_an_aggregated_record_is_one_for_the_limits_of_a_shard(two: ModelService) -> None:
    low = on(0)
    inside = packed([UserRecord(low, b"1"), UserRecord("other", b"2", explicit_hash_key=5)])
    put(two, low, 10, data=inside)
    two.sleep(10)
    found = read_load(ACCESS, "s", "records", None, {})
    assert found.points == pytest.approx({hash_key_of(low): 0.5, 5: 0.5}, rel=1e-3)


def test_records_of_closed_shards_count_where_their_hash_keys_are_now(two: ModelService) -> None:
    low = on(0)
    put(two, low, 20)
    two.split_shard(StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**126))
    two.sleep(10)
    found = plan_shards(ADDRESS.format("s"), cap=1.5, measure="read", show_keys=True)
    assert (found.load_from, found.load_unit, found.hot_keys) == ("stream", "records/s", 1)
    assert [(one.kind, one.key) for one in found.hot] == [("hot-key", low)]
    assert found.before.total_load == pytest.approx(2.0, rel=1e-3)


def test_a_plan_of_a_stream_that_is_read_keeps_its_cap(two: ModelService, tmp_path: Path) -> None:
    keys = {f"k{n}": n * 2**118 for n in range(40)}
    with open_registry(tmp_path / "r.sqlite", create=True) as registry:
        registry.bring_in([ImportedAccount(n, name, key, None) for n, (name, key) in enumerate(keys.items(), 1)])
    for name, key in keys.items():
        put(two, name, 5, explicit=key)
    two.sleep(10)
    blind = plan_shards(ADDRESS.format("s"), cap=12.0, measure="read")
    found = plan_shards(ADDRESS.format("s"), cap=12.0, measure="read", registry=tmp_path / "r.sqlite")
    assert found.within_cap is True
    # All accounts lie in the lowest part of the first shard; without the registry, where the hashes of their names are.
    (cut,), (guessed,) = found.calls, blind.calls
    assert sum(key < int(cut.at) for key in keys.values()) == 20
    assert int(guessed.at) > max(keys.values())


def test_the_service_is_asked_what_each_shard_took(two: ModelService) -> None:
    low, high = on(0), on(1)
    two.streams["s"].metrics = ["IncomingRecords", "IncomingBytes"]
    put(two, low, 1200)
    put(two, high, 300)
    two.sleep(600)
    found = reported_load(ACCESS, "s", "records", 300.0 + 300)
    assert [one[:2] for one in found.ranges] == [(0, MIDDLE - 1), (MIDDLE, LAST)]
    assert [one[2] for one in found.ranges] == pytest.approx([2.0, 0.5], rel=0.11)
    planned = plan_shards(ADDRESS.format("s"), cap=1.5, measure="service", unit="records", last=600.0)
    assert ([one.call for one in planned.calls], planned.load_from) == (["SplitShard"], "service")
    assert [one.kind for one in planned.hot] == ["unknown"]


def test_a_stream_younger_than_a_minute_counts_for_one(two: ModelService) -> None:
    two.streams["s"].metrics = ["IncomingRecords"]
    two.sleep(60 - two.now % 60 - 1)
    two.streams["s"].made = two.now
    put(two, "a", 120)
    two.sleep(2)
    found = reported_load(ACCESS, "s", "records", 600.0)
    assert [one[2] for one in found.ranges] == [2.0]


def test_counts_of_many_shards_come_page_by_page(service: ModelService) -> None:
    service.create_stream(StreamName="s", ShardCount=700)
    service.streams["s"].metrics = ["ALL"]
    for n in range(700):
        put(service, "a", 1, explicit=n * (2**128 // 700))
    service.sleep(120)
    found = reported_load(ACCESS, "s", "bytes", 300.0)
    assert (len(found.ranges), service.calls.count("get_metric_data") > 2) == (700, True)


def test_what_cannot_be_measured_is_refused(two: ModelService, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no records"):
        read_load(ACCESS, "s", "records", None, {})
    with pytest.raises(DataError, match=r"does not count by shard.*enable-enhanced-monitoring"):
        reported_load(ACCESS, "s", "records", 60.0)
    two.streams["s"].metrics = ["IncomingRecords"]
    with pytest.raises(DataError, match="counted nothing"):
        reported_load(ACCESS, "s", "records", 60.0)
    with pytest.raises(UsageError, match="15d"):
        reported_load(ACCESS, "s", "records", 16 * 86_400.0)
    put(two, "a", 1)
    two.forbidden = f"not for {SECRETS['AWS_SECRET_ACCESS_KEY']}"
    with pytest.raises(BrokerError, match=r"CloudWatch in .* answered with an error: got .not for \*\*\*"):
        reported_load(ACCESS, "s", "records", 60.0)
    two.streams["s"].auto = True
    measures: tuple[Measure, ...] = ("read", "service")
    for measure in measures:
        with pytest.raises(DataError, match="AUTO"):
            plan_shards(ADDRESS.format("s"), cap=1.0, measure=measure)
    file = tmp_path / "layout.json"
    file.write_text(json.dumps({"shards": [{"id": "a", "start": "0", "end": str(LAST), "load": 1}]}))
    wrong: list[dict[str, Any]] = [
        {"measure": "read"},
        {"measure": "read", "load": file},
        {"measure": "service", "registry": file},
        {"measure": "read", "profile": tmp_path},
        {"last": 5.0},
    ]
    for given_ in wrong:
        with pytest.raises(UsageError, match="--measure"):
            plan_shards(str(file), cap=1.0, **given_)


@given(
    st.dictionaries(st.integers(0, 63), st.floats(0.5, 9), max_size=9),
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63), st.floats(0.5, 9)), max_size=5),
)
def test_points_and_ranges_add_up(points: dict[int, float], drawn: list[tuple[int, int, float]]) -> None:
    ranges = [(min(a, b), max(a, b), load) for a, b, load in drawn]
    curve = from_ranges(points, ranges)
    for key in range(64):
        spread = sum(load / (end - start + 1) for start, end, load in ranges if start <= key <= end)
        assert curve.between(key, key + 1) == pytest.approx(points.get(key, 0) + spread)


@pytest.mark.node
def test_a_real_stream_is_read_and_planned(kinesalite: KinesisServer) -> None:
    stream = kinesalite.fresh_stream(2)
    client, low = kinesalite.client(), on(0)
    for n in range(20):
        client.put_record(StreamName=stream, Data=b"%d" % n, PartitionKey=low if n < 15 else on(1))
    address = kinesalite.address(stream)
    planned = ("shards", "plan", "--layout", address, "--measure")
    done = run(*planned, "read", "--cap", "0.01", "-o", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["load_unit"], document["hot_keys"]) == (4, "records/s", 2), done.stderr
    loads = [row["load"] for row in document["before"]["layout"]]
    assert loads[0] == pytest.approx(3 * loads[1])
    refused = run(*planned, "service", "--cap", "5")
    assert (refused.returncode, "enable-enhanced-monitoring" in refused.stderr) == (1, True)
