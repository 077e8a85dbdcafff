"""The model is the service: equal to kinesalite where that is exact, and to the documented limits beyond that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kinesis.model import ModelService

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
