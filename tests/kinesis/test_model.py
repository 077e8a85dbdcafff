"""The model is the service: equal to kinesalite where that is exact, and to the documented limits beyond that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kinesis.model import BYTES_A_SECOND, RECORDS_A_SECOND, ModelService

from keylane.keyspace.hash_keys import hash_key_of

if TYPE_CHECKING:
    from tests.kinesis.servers import KinesisServer

KEYS = st.one_of(st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable()), st.sampled_from("abc"))
HASH_KEYS = st.sampled_from(["", "0", str(2**127 - 1), str(2**127), str(2**128 - 1), str(2**126)])
PUTS = st.lists(st.tuples(KEYS, HASH_KEYS), min_size=1, max_size=6)
CHANGES = st.one_of(
    st.tuples(st.just("put"), PUTS),
    st.tuples(st.just("split"), st.integers(0, 9), st.sampled_from([0.25, 0.5, 0.9])),
    st.tuples(st.just("merge"), st.integers(0, 9)),
)


def change(client: Any, stream: str, step: tuple[Any, ...]) -> Any:
    """One step of a stream's life; the shards that records went to."""
    shards = sorted(
        (one for one in client.list_shards(StreamName=stream)["Shards"] if not is_closed(one)),
        key=lambda one: int(one["HashKeyRange"]["StartingHashKey"]),
    )
    if step[0] == "put":
        records = [
            {"Data": str(n).encode(), "PartitionKey": key, **({"ExplicitHashKey": explicit} if explicit else {})}
            for n, (key, explicit) in enumerate(step[1])
        ]
        return [one["ShardId"] for one in client.put_records(StreamName=stream, Records=records)["Records"]]
    one = shards[step[1] % len(shards)]
    if step[0] == "split":
        first, last = (int(one["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
        at = str(first + max(2, int((last - first) * step[2])))
        client.split_shard(StreamName=stream, ShardToSplit=one["ShardId"], NewStartingHashKey=at)
    elif step[1] % len(shards) + 1 < len(shards):
        other = shards[step[1] % len(shards) + 1]["ShardId"]
        client.merge_shards(StreamName=stream, ShardToMerge=one["ShardId"], AdjacentShardToMerge=other)
    return None


def is_closed(shard: dict[str, Any]) -> bool:
    return "EndingSequenceNumber" in shard["SequenceNumberRange"]


def state(client: Any, stream: str) -> list[Any]:
    """Shards with ranges, parents and records, in their order."""
    found = []
    for one in sorted(client.list_shards(StreamName=stream)["Shards"], key=lambda one: str(one["ShardId"])):
        at = client.get_shard_iterator(StreamName=stream, ShardId=one["ShardId"], ShardIteratorType="TRIM_HORIZON")
        records = client.get_records(ShardIterator=at["ShardIterator"])["Records"]
        parents = {one.get("ParentShardId"), one.get("AdjacentParentShardId")} - {None}
        put = [(record["PartitionKey"], record["Data"]) for record in records]
        found.append((one["ShardId"], one["HashKeyRange"], parents, is_closed(one), put))
    return found


@given(shards=st.sampled_from([1, 2, 3]), steps=st.lists(CHANGES, max_size=5))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_equal_to_kinesalite(kinesalite: KinesisServer, shards: int, steps: list[tuple[Any, ...]]) -> None:
    model, client = ModelService(throttles=False), kinesalite.client()
    name = kinesalite.fresh_stream(shards, client)
    model.create_stream(StreamName=name, ShardCount=shards)
    for step in steps:
        there = change(client, name, step)
        if step[0] != "put":
            kinesalite.until_active(name, client)
        assert change(model, name, step) == there
    assert state(model, name) == state(client, name)


#: Of sums of floats.
ROUNDING = 1e-3
#: Seconds to wait, records to put, and the bytes of each.
BURSTS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.4, 1.5]), st.integers(1, 500), st.sampled_from([10, 9_000])))


@given(bursts=BURSTS)
@settings(max_examples=20)
def test_no_shard_takes_more_than_its_limits_and_none_less(bursts: list[tuple[float, int, int]]) -> None:
    held_to_limits(bursts)


@pytest.mark.parametrize("rate", [900, 1100])
def test_twins_of_another_rate_are_found(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kinesis.model.RECORDS_A_SECOND", rate)
    with pytest.raises(AssertionError):
        held_to_limits([(0.0, 500, 10)] * 3)


def held_to_limits(bursts: list[tuple[float, int, int]]) -> None:
    """Put these bursts into one shard: it takes what its limits leave, no more and no less."""
    model = ModelService()
    model.create_stream(StreamName="s", ShardCount=2)
    taken: list[tuple[float, int, int]] = []
    for wait, records, size in bursts:
        model.sleep(wait)
        one = {"Data": b"x" * (size - 1), "PartitionKey": "a"}
        failed = model.put_records(StreamName="s", Records=[one] * records)["FailedRecordCount"]
        taken.append((model.now, records - failed, size))
        if failed:
            # What is refused is refused because one of the limits is used up, and leaves no trace.
            records_left = left(RECORDS_A_SECOND, [(at, float(many)) for at, many, _ in taken])
            bytes_left = left(BYTES_A_SECOND, [(at, float(many * each)) for at, many, each in taken])
            assert records_left < 1 + ROUNDING or bytes_left < size + ROUNDING
    assert len(model.streams["s"].records.get("shardId-000000000000", [])) == sum(one[1] for one in taken)
    for first in range(len(taken)):
        window = taken[first:]
        seconds = 1 + window[-1][0] - window[0][0]
        assert sum(records for _, records, _ in window) <= RECORDS_A_SECOND * seconds + ROUNDING
        assert sum(records * size for _, records, size in window) <= BYTES_A_SECOND * seconds + 1
    # The other shard has its own limits: full, whatever the first took.
    other = {"Data": b"x", "PartitionKey": "a", "ExplicitHashKey": str(2**128 - 1)}
    assert model.put_records(StreamName="s", Records=[other] * 500)["FailedRecordCount"] == 0


def left(rate: float, taken: list[tuple[float, float]]) -> float:
    """What a bucket that began full, and gets so much a second, still has."""
    room, before = rate, taken[0][0]
    for at, amount in taken:
        room, before = min(rate, room + (at - before) * rate) - amount, at
    return room


@given(
    keys=st.lists(st.tuples(KEYS, HASH_KEYS), min_size=1, max_size=30),
    shards=st.integers(1, 4),
    at=st.integers(0, 30),
)
def test_auto_deals_records_out_whatever_their_keys_and_keys_count_again_afterwards(
    keys: list[tuple[str, str]], shards: int, at: int
) -> None:
    model = ModelService(throttles=False)
    model.create_stream(StreamName="s", ShardCount=shards)
    model.streams["s"].auto = True
    into: list[str] = []
    for n, (key, explicit) in enumerate(keys):
        model.streams["s"].auto = n < at
        more = {"ExplicitHashKey": explicit} if explicit else {}
        into.append(model.put_record(StreamName="s", Data=b"", PartitionKey=key, **more)["ShardId"])
    dealt = Counter(into[:at])
    assert max(dealt.values(), default=0) - min(dealt.get(f"shardId-{n:012d}", 0) for n in range(shards)) <= 1
    space = model.streams["s"].layout.key_space
    expected = [space.lane_of(int(explicit) if explicit else hash_key_of(key)) for key, explicit in keys[at:]]
    assert into[at:] == [f"shardId-{lane:012d}" for lane in expected]


def test_a_shard_takes_so_many_records_and_bytes_a_second() -> None:
    model = ModelService()
    model.create_stream(StreamName="s", ShardCount=2)
    one = {"Data": b"x" * 100, "PartitionKey": "a"}
    failed = [model.put_records(StreamName="s", Records=[one] * 500)["FailedRecordCount"] for _ in range(3)]
    assert failed == [0, 0, 500]
    other = {**one, "ExplicitHashKey": str(2**128 - 1)}
    assert model.put_records(StreamName="s", Records=[one, other])["FailedRecordCount"] == 1
    model.sleep(0.5)
    assert model.put_records(StreamName="s", Records=[one] * 500)["FailedRecordCount"] == 0
    model.sleep(1)
    large = {"Data": b"x" * 600_000, "PartitionKey": "a"}
    assert model.put_records(StreamName="s", Records=[large] * 2)["FailedRecordCount"] == 1


def test_a_shard_is_read_so_often_a_second_and_an_iterator_lives_five_minutes() -> None:
    model = ModelService()
    model.create_stream(StreamName="s")
    at = model.get_shard_iterator(StreamName="s", ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    for _ in range(5):
        model.get_records(ShardIterator=at)
    with pytest.raises(ClientError, match="ProvisionedThroughputExceeded"):
        model.get_records(ShardIterator=at)
    model.sleep(301)
    with pytest.raises(ClientError, match="ExpiredIterator"):
        model.get_records(ShardIterator=at)


def test_a_stream_that_does_not_heed_keys_puts_one_key_into_every_shard() -> None:
    model = ModelService()
    model.create_stream(StreamName="s", ShardCount=3)
    model.streams["s"].auto = True
    answers = model.put_records(StreamName="s", Records=[{"Data": b"", "PartitionKey": "a"}] * 6)["Records"]
    assert len({one["ShardId"] for one in answers}) == 3
