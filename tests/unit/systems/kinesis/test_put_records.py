"""Many records at once into Kinesis: what is refused is put again in the order of its key, or named."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber

from keylane.errors import DeliveryError, UnplacedError, UsageError
from keylane.router import Router
from keylane.systems.kinesis.put import MOST_BYTES, put_arguments, put_records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

FULL = "ProvisionedThroughputExceededException"


class Service:
    """A stand-in that refuses some records of a request and applies the others in any order, as the service may."""

    def __init__(self, refuse: float = 0.3, seed: int = 1, deaf: bool = False) -> None:
        self.rng, self.refuse, self.deaf = random.Random(seed), refuse, deaf
        self.records: list[tuple[str, str, bytes]] = []
        self.requests: list[int] = []

    def put_records(self, *, StreamName: str, Records: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803  boto3's
        self.requests.append(len(Records))
        taken = [self.rng.random() >= self.refuse and not self.deaf for _ in Records]
        order = [i for i, ok in enumerate(taken) if ok]
        self.rng.shuffle(order)
        self.records += [(StreamName, Records[i]["PartitionKey"], Records[i]["Data"]) for i in order]
        answers = [
            {"ShardId": "shardId-0", "SequenceNumber": str(i)} if ok else {"ErrorCode": FULL, "ErrorMessage": "full"}
            for i, ok in enumerate(taken)
        ]
        return {"FailedRecordCount": taken.count(False), "Records": answers}

    def per_key(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _, key, data in self.records:
            found.setdefault(key, []).append(int(data.partition(b" ")[0]))
        return found


@pytest.fixture
def router(contract: Make) -> Router:
    return Router(contract(lanes=4, partitioner="kinesis-md5"))


def rows(count: int, keys: int) -> list[tuple[dict[str, Any], bytes]]:
    return [({"k": f"m-{i % keys}"}, b"%d" % i) for i in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_refused_is_put_again_once_and_in_the_order_of_its_key(seed: int, router: Router) -> None:
    service = Service(seed=seed)
    written = put_records(service, router, rows(3_000, 170), sleep=lambda _: None)
    assert len(written) == len(service.records) == 3_000
    assert all(numbers == sorted(numbers) for numbers in service.per_key().values())
    assert max(service.requests) <= 500


def test_twin_all_in_one_request_and_the_refused_again_breaks_the_order(router: Router) -> None:
    service = Service()
    left = [put_arguments(router, record, data) for record, data in rows(500, 50)]
    while left:
        found = service.put_records(StreamName="t", Records=left)["Records"]
        left = [one for one, answer in zip(left, found, strict=True) if "ErrorCode" in answer]
    assert Counter(data for _, _, data in service.records).total() == 500
    assert any(numbers != sorted(numbers) for numbers in service.per_key().values())


def test_a_service_that_takes_nothing_is_an_error_that_names_every_record(router: Router) -> None:
    pauses: list[float] = []
    with pytest.raises(
        DeliveryError, match=rf"^7 records not written: record 0, t lane \d, key b'm-0': {FULL}"
    ) as caught:
        put_records(Service(deaf=True), router, rows(7, 5), tries=4, sleep=pauses.append)
    assert [one.key for one in caught.value.records] == [f"m-{i % 5}".encode() for i in range(7)]
    assert [one.error for one in caught.value.records[5:]] == ["not sent"] * 2
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_a_request_that_fails_leaves_its_outcome_unknown_and_the_rest_not_sent(router: Router) -> None:
    class Broken(Service):
        def put_records(self, **arguments: Any) -> dict[str, Any]:
            if self.requests:
                raise ConnectionError("reset")
            return super().put_records(**arguments)

    service = Broken(refuse=0)
    with pytest.raises(DeliveryError) as caught:
        put_records(service, router, rows(3, 1))
    assert [one.error for one in caught.value.records] == ["outcome unknown: reset", "not sent"]
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        ([{"ShardId": "s", "SequenceNumber": "1"}], [0, 1, 2]),
        ([], [0, 1, 2]),
        ([{"ShardId": "s", "SequenceNumber": "1"}, {}], [1, 2]),
        ([{"ErrorCode": FULL}, {"SequenceNumber": "1"}], [0, 1, 2]),
    ],
)
def test_records_without_an_answer_are_not_taken_for_written(
    answers: list[dict[str, str]], lost: list[int], router: Router
) -> None:
    class Short(Service):
        def put_records(self, **arguments: Any) -> dict[str, Any]:
            super().put_records(**arguments)
            return {"Records": answers}

    service = Short(refuse=0)
    with pytest.raises(DeliveryError, match="its `number` among those given") as caught:
        put_records(service, router, [({"k": "a"}, b"0"), ({"k": "b"}, b"1"), ({"k": "b"}, b"2")])
    assert len(service.requests) == 1
    assert [one.number for one in caught.value.records] == lost
    assert [one.error for one in caught.value.records][-1] == "not sent"
    assert "outcome unknown" in caught.value.records[-2].error


def test_a_request_is_no_larger_than_the_service_takes(router: Router) -> None:
    service = Service(refuse=0)
    large = [({"k": f"m-{i}"}, b"%d " % i + b"x" * 900_000) for i in range(12)]
    put_records(service, router, large)
    assert sum(service.requests) == 12
    assert max(service.requests) * 900_000 <= MOST_BYTES


def test_nothing_is_sent_when_one_record_cannot_be(router: Router) -> None:
    service = Service()
    wrong: list[tuple[dict[str, Any], bytes, type[Exception]]] = [
        ({"k": "m"}, b"x" * 2**20, UsageError),
        ({"k": "x" * 300}, b"", UsageError),
        ({"k": None}, b"", UnplacedError),
    ]
    for record, data, error in wrong:
        with pytest.raises(error):
            put_records(service, router, [*rows(3, 3), (record, data)])
    assert service.requests == []
    put_records(service, router, [({"k": "m"}, b"1 " + b"x" * 2**20)], record_bytes=10 * 2**20, sleep=lambda _: None)


def test_a_tier_goes_to_its_own_stream(contract: Make) -> None:
    hot = [{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 2}}]
    service = Service(refuse=0)
    put_records(
        service,
        Router(contract(lanes=4, partitioner="kinesis-md5", hot_keys=hot)),
        [({"k": "vip"}, b"1"), ({"k": "a"}, b"2")],
    )
    assert {(stream, key) for stream, key, _ in service.records} == {("t.vip", "vip"), ("t", "a")}


def test_botos_own_client_takes_the_requests(router: Router) -> None:
    client = boto3.client("kinesis", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    entry = {"Data": b"0", "PartitionKey": "m-0"}
    with Stubber(client) as stub:
        stub.add_response("put_records", {"FailedRecordCount": 1, "Records": [{"ErrorCode": FULL, "ErrorMessage": ""}]})
        answer = {"Records": [{"ShardId": "shardId-3", "SequenceNumber": "7"}]}
        stub.add_response("put_records", answer, {"StreamName": "t", "Records": [entry]})
        (one,) = put_records(client, router, rows(1, 1), sleep=lambda _: None)
    assert (one.stream, one.shard, one.sequence) == ("t", "shardId-3", "7")


@pytest.mark.skipif("KEYLANE_KINESIS" not in os.environ, reason="KEYLANE_KINESIS is the address of a Kinesis API")
def test_a_real_api_has_every_record_once_in_order_and_on_its_shard(contract: Make) -> None:
    client = boto3.client(
        "kinesis",
        endpoint_url=os.environ["KEYLANE_KINESIS"],
        region_name="eu-west-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    name = f"t-{time.time_ns()}"
    client.create_stream(StreamName=name, ShardCount=4)
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    router = Router(contract(streams=[name], lanes=4, partitioner="kinesis-md5"))
    given = [({"k": f"m-{i % 170}"}, b"%d " % i + b"x" * 1_000) for i in range(6_000)]
    assert len(put_records(client, router, given)) == 6_000
    shards = client.list_shards(StreamName=name)["Shards"]
    seen: dict[str, list[int]] = {}
    for lane, shard in enumerate(sorted(shards, key=lambda one: int(one["HashKeyRange"]["StartingHashKey"]))):
        for record in shard_records(client, name, shard["ShardId"]):
            assert router.lane({"k": record["PartitionKey"]}) == lane
            seen.setdefault(record["PartitionKey"], []).append(int(record["Data"].partition(b" ")[0]))
    assert sorted(number for numbers in seen.values() for number in numbers) == list(range(6_000))
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def shard_records(client: Any, stream: str, shard: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            answer = client.get_records(ShardIterator=at, Limit=2_000)
        except client.exceptions.ProvisionedThroughputExceededException:
            time.sleep(0.3)
            continue
        found += answer["Records"]
        if not answer["Records"]:
            break
        at = answer["NextShardIterator"]
    return found
