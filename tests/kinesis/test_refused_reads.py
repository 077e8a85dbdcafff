"""Reads that the service refuses for now, and iterators that expire, under every command that reads a stream."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from tests.kinesis.model import refused
from tests.kinesis.replayed import ADDRESS, batches, feed_of

from keylane.errors import BrokerError
from keylane.pipelines.identify import identify
from keylane.pipelines.profile import profile
from keylane.pipelines.shards import plan_shards
from keylane.systems.endpoint import parse_address
from keylane.systems.kinesis import reader
from keylane.systems.kinesis.access import access_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kinesis.model import ModelService
    from tests.kinesis.servers import KinesisServer

EXPIRED = "ExpiredIteratorException"
RECORDS, KEYS = 60, 7


def planned(address: str, _folder: Path) -> Any:
    """How many records were read: loads are of a second, and waiting takes some."""
    return plan_shards(address, cap=1e6, measure="read").notes[0].partition(" read,")[0]


def profiled(address: str, _folder: Path) -> Any:
    found = profile(address)
    return found.total, found.lanes and [sum(one) for one in found.lanes.by_window]


def identified(address: str, _folder: Path) -> Any:
    found = identify(address).found
    return [(one.partitioner, one.share) for one in found.writers], found.rows


def followed(address: str, folder: Path) -> Any:
    at = parse_address(address)
    feed = feed_of(access_of(at), at.name, folder)
    return [json.loads(row["value"])["n"] for _, rows in batches(feed) for row in rows]


ASKED: list[Callable[[str, Path], Any]] = [planned, profiled, identified, followed]


def filled(client: Any, stream: str) -> None:
    for n in range(RECORDS):
        client.put_record(StreamName=stream, Data=json.dumps({"n": n}).encode(), PartitionKey=f"k{n % KEYS}")


def codes() -> Callable[[], str]:
    """The error of each read, in turn: refused for now, an old iterator, both in a row, or none."""
    numbers = count()
    return lambda: ("", reader.THROTTLED, "", EXPIRED, reader.THROTTLED, EXPIRED)[next(numbers) % 6]


@pytest.fixture
def a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small stream takes many reads."""
    monkeypatch.setattr(reader, "AT_ONCE", 4)


@pytest.mark.usefixtures("a_few_at_once")
@pytest.mark.parametrize("asked", ASKED)
def test_refused_reads_and_old_iterators_change_no_answer(
    asked: Callable[[str, Path], Any], service: ModelService, tmp_path: Path
) -> None:
    service.create_stream(StreamName="s", ShardCount=2)
    filled(service, "s")
    calm = asked(ADDRESS.format("s"), tmp_path / "calm")
    reads, code_of = service.calls.count("get_records"), codes()
    service.fails = lambda name: refused(code) if name == "get_records" and (code := code_of()) else None
    assert asked(ADDRESS.format("s"), tmp_path / "rough") == calm
    assert service.calls.count("get_records") > 2 * reads


@pytest.mark.usefixtures("a_few_at_once")
def test_twin_that_begins_anew_after_an_old_iterator_is_found(
    service: ModelService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.create_stream(StreamName="s", ShardCount=1)
    filled(service, "s")
    calm = followed(ADDRESS.format("s"), tmp_path / "calm")

    def forgetful(self: reader.ShardReader, client: Any) -> str:
        return str(
            client.get_shard_iterator(StreamName="s", ShardId=self.shard.id, ShardIteratorType="TRIM_HORIZON")[
                "ShardIterator"
            ]
        )

    monkeypatch.setattr(reader.ShardReader, "_started", forgetful)
    failures = iter(["", "", EXPIRED])
    service.fails = lambda name: refused(code) if name == "get_records" and (code := next(failures, "")) else None
    assert len(followed(ADDRESS.format("s"), tmp_path / "rough")) > len(calm)


def test_iterators_that_are_always_old_are_given_up(service: ModelService, tmp_path: Path) -> None:
    service.create_stream(StreamName="s", ShardCount=1)
    filled(service, "s")
    service.fails = lambda name: refused(EXPIRED) if name == "get_records" else None
    with pytest.raises(BrokerError, match="refused every read"):
        followed(ADDRESS.format("s"), tmp_path / "rough")


@pytest.mark.usefixtures("a_few_at_once")
@pytest.mark.node
def test_answers_of_a_real_server_are_the_same_when_its_reads_are_refused(
    kinesalite: KinesisServer, tmp_path: Path
) -> None:
    """The server itself refuses nothing, so its answer is replaced before it is asked; the client reads both."""
    stream = kinesalite.fresh_stream(2)
    filled(kinesalite.client(), stream)
    address, code_of = kinesalite.address(stream), codes()
    calm = [asked(address, tmp_path / f"calm-{asked.__name__}") for asked in ASKED]
    events, refusals = access_of(parse_address(address)).client().meta.events, count()

    def refuse(request: Any, **_: Any) -> AWSResponse | None:
        code = code_of()
        if not code:
            return None
        next(refusals)
        body = json.dumps({"__type": code, "message": "as the service says it"}).encode()
        answer = AWSResponse(request.url, 400, {"content-type": "application/x-amz-json-1.1"}, None)
        answer._content = body
        return answer

    events.register("before-send.kinesis.GetRecords", refuse)
    try:
        assert [asked(address, tmp_path / f"rough-{asked.__name__}") for asked in ASKED] == calm
    finally:
        events.unregister("before-send.kinesis.GetRecords", refuse)
    assert next(refusals) > 20
