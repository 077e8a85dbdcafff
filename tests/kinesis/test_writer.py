"""Writing: the order of each key under refusals, limits of each shard, what is checked before anything is sent."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kinesis.model import ModelService, made_at
from tests.kinesis.replayed import ACCESS

from keylane.errors import DeliveryError
from keylane.placement.ranges import KeySpace
from keylane.systems.delivery import OutMessage
from keylane.systems.kinesis.aggregated import parsed
from keylane.systems.kinesis.messages import key_of, own_headers
from keylane.systems.kinesis.reader import ShardReader
from keylane.systems.kinesis.shards import shards_of
from keylane.systems.kinesis.writer import ShardBatches, Slot, WriteError, Writing

if TYPE_CHECKING:
    from collections.abc import Iterator


def writing(lanes: int, **more: Any) -> Writing:
    space = KeySpace.equal(lanes)
    slots = tuple(Slot("s", lane, space.range_of(lane), 1 << 20) for lane in range(lanes))
    return Writing(ACCESS, slots, (("keylane.epoch", "1"),), more.pop("attempt", 1), **more)


def row(n: int, key: bytes | None, slot: int, **more: Any) -> dict[str, Any]:
    usual = {"slot": slot, "key": key, "value": b"%d" % n, "time": None, "source": b"f/%d" % n, "headers": None}
    return {**usual, "part": 0, "place": n, "letter": None, **more}


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    letter = [("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64()), ("headers", HEADERS)]
    kinds = {"slot": pa.int32(), "time": pa.int64(), "headers": HEADERS, "letter": pa.struct(letter)}
    kinds |= dict.fromkeys(("key", "value", "source"), pa.binary())
    names = list(rows[0])
    columns = [pa.array([one[name] for one in rows], kinds.get(name)) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def stored(service: ModelService) -> Iterator[tuple[str, Any]]:
    """Shards and user records, in the order of each shard."""
    for shard, records in sorted(service.streams["s"].records.items()):
        for record in records:
            for user in parsed(record["Data"]) or []:
                yield shard, user


def write(service: ModelService, rows: list[dict[str, Any]], lanes: int = 2, **more: Any) -> dict[int, int]:
    service.create_stream(StreamName="s", ShardCount=lanes)
    (counts,) = writing(lanes, **more)([batch(rows)], 0)
    return dict(zip(counts["slot"].to_pylist(), counts["records"].to_pylist(), strict=True))


def test_the_order_of_each_key_holds_under_refusals(service: ModelService) -> None:
    chance = random.Random(7)
    service.refuses = lambda _: chance.random() < 0.4
    rows = [row(n, b"k%d" % (n % 9), n % 9 % 2, value=b"%d" % n + b"x" * 20_000) for n in range(150)]
    assert sum(write(service, rows).values()) == 150
    seen = defaultdict(list)
    for _, user in stored(service):
        seen[user.partition_key].append(int(user.data.rstrip(b"x")))
    assert {key: numbers == sorted(numbers) for key, numbers in seen.items()} == {f"k{n}": True for n in range(9)}
    assert sorted(n for numbers in seen.values() for n in numbers) == list(range(150))


def test_a_full_shard_is_waited_for_and_the_others_are_not(service: ModelService) -> None:
    service.throttles = True
    rows = [row(n, b"k%d" % n, 0, value=b"x" * 1000) for n in range(3000)]
    rows += [row(3000 + n, b"o%d" % n, 1) for n in range(100)]
    began = service.now
    assert write(service, rows) == {0: 3000, 1: 100}
    assert 1.5 < service.now - began < 30
    stored_in = service.streams["s"].records
    last = {shard: made_at(records[-1]) - began for shard, records in stored_in.items()}
    assert last["shardId-000000000001"] < last["shardId-000000000000"]


def test_a_shard_that_never_takes_anything_is_given_up(service: ModelService) -> None:
    service.refuses = lambda _: True
    with pytest.raises(WriteError, match=r"keylane.WriteError: 2 records were not written.*ProvisionedThroughput"):
        write(service, [row(0, b"a", 0), row(1, b"b", 1)])


def test_records_of_a_hot_key_go_together_and_stay_below_the_limits(service: ModelService) -> None:
    write(service, [row(n, b"hot", 0, value=b"x" * 500) for n in range(1000)])
    sizes = [len(one["Data"]) for records in service.streams["s"].records.values() for one in records]
    assert len(sizes) < 20
    assert max(sizes) <= 51_200 + 1000


def test_every_record_names_its_source_and_later_attempts_say_so(service: ModelService) -> None:
    service.create_stream(StreamName="s", ShardCount=1)
    for attempt, retries in ((1, 0), (1, 1), (3, 0)):
        list(
            writing(1, attempt=attempt)(
                [batch([row(7, b"k", 0, time=5, headers=[{"key": "h", "value": b"\xff"}])])], retries
            )
        )
    tags = [dict(user.tags) for _, user in stored(service)]
    assert [one.get("keylane.attempt") for one in tags] == [None, "2", "3"]
    assert {(one["keylane.source"], one["keylane.time"], one["h;base64"]) for one in tags} == {("f/7", "5", "/w==")}


def test_keys_that_the_service_does_not_take_come_back(service: ModelService) -> None:
    keys = [None, b"", b"\xff\xfe", "\U0001f600".encode() * 200]
    write(service, [row(n, key, 0) for n, key in enumerate(keys)])
    assert [key_of(user) for _, user in sorted(stored(service), key=lambda one: one[1].data)] == keys


def test_what_is_too_large_is_refused_and_a_dead_letter_goes_without_its_value(service: ModelService) -> None:
    service.create_stream(StreamName="s", ShardCount=1)
    with pytest.raises(WriteError, match="not to be tried again"):
        list(writing(1)([batch([row(0, b"k", 0, value=b"x" * (1 << 20))])], 0))
    assert service.streams["s"].records == {}
    letter = {"key": b"k", "value": b"x" * (1 << 20), "time": None, "headers": [{"key": "why", "value": b"large"}]}
    list(writing(1)([batch([row(0, b"k", 0, letter=letter)])], 0))
    ((_, user),) = stored(service)
    assert own_headers(user)[:2] == [("why", b"large"), ("__keylane.errors.value.bytes", b"1048576")]


def test_the_error_of_a_batch_of_results_repeats_no_secret(
    service: ModelService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint may be anyone's, and its answer may repeat what it was sent."""
    service.create_stream(StreamName="s")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-tests")

    def put_records(**_: object) -> None:
        raise RuntimeError("refused: canary-of-tests")

    monkeypatch.setattr(service, "put_records", put_records)
    with pytest.raises(DeliveryError, match=r"refused: \*\*\*") as caught:
        ShardBatches(ACCESS).write(0, [OutMessage("s", b"k", b"v")])
    assert "canary" not in f"{caught.value} {caught.value.records}"


def test_results_keep_headers_and_keys_that_the_service_does_not_take(service: ModelService) -> None:
    """A dead letter has its reason in a header, and a key that was cut inside of a character."""
    service.create_stream(StreamName="s")
    letter = OutMessage("s", "ä".encode()[:1], b"v", (("keylane.dead.reason", b"too-late"),))
    ShardBatches(ACCESS).write(0, [OutMessage("s", b"k", b"plain"), letter])
    (shard,) = shards_of(ACCESS, "s").open
    plain, dead = (one.user for turn in ShardReader(ACCESS, "s", shard).turns() for one in turn)
    assert (plain.partition_key, plain.data, plain.tags) == ("k", b"plain", ())
    assert (key_of(dead), dead.data) == (b"\xc3", b"v")
    assert own_headers(dead) == [("keylane.dead.reason", b"too-late")]
