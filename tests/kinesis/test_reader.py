"""Reading shards: positions, what is inside of aggregated records, limits of the service, and where reading ends."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from tests.kinesis.model import THROTTLED, ModelService, refused
from tests.kinesis.replayed import ACCESS, ADDRESS, batches, feed_of, written

from keylane.cli.check import as_result as check_result
from keylane.cli.output import as_json
from keylane.cli.profile import lanes_table
from keylane.contract.fields import FieldSpec
from keylane.documents.check import CheckedData
from keylane.errors import BrokerError, DataError, UsageError
from keylane.hashing.md5 import md5_128
from keylane.history.check import check
from keylane.measure import identify as evidence
from keylane.pipelines.check import check_contract
from keylane.pipelines.identify import identify
from keylane.pipelines.profile import document_of, profile
from keylane.pipelines.verify import verify
from keylane.placement.ranges import KeySpace
from keylane.plan.planner import assumed, heat_of
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.kinesis.aggregated import UserRecord, packed
from keylane.systems.kinesis.messages import message_of
from keylane.systems.kinesis.reader import Cursor, ShardReader
from keylane.systems.kinesis.shards import readable, shards_of
from keylane.systems.kinesis.stream import UNCOUNTED, ShardChunks
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.profiles import read_profile
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from keylane.contract.model import Contract
    from keylane.history.verdict import Settings, Verdict
    from keylane.pipelines.verify import VerifyPlan


def reader_of(service: ModelService, **more: Any) -> ShardReader:
    return ShardReader(ACCESS, "s", service.streams["s"].layout.shards[0], **more)


def put(service: ModelService, *data: bytes, key: str = "a") -> None:
    for one in data:
        service.put_record(StreamName="s", Data=one, PartitionKey=key)


@pytest.fixture
def stream(service: ModelService) -> ModelService:
    service.create_stream(StreamName="s")
    return service


def test_positions_count_user_records_and_a_cursor_goes_on(stream: ModelService) -> None:
    three = packed([UserRecord("a", b"%d" % n) for n in range(3)])
    put(stream, three, b"plain")
    reader = reader_of(stream)
    first = reader.turn(1)
    assert [(one.position, one.sub, one.user.data) for one in first] == [(0, 0, b"0"), (1, 1, b"1"), (2, 2, b"2")]
    assert (reader.cursor.records, reader.caught_up) == (3, False)
    again = reader_of(stream, cursor=reader.cursor).turn()
    assert [(one.position, one.sub, one.user.data) for one in again] == [(3, None, b"plain")]


def test_a_record_without_a_partition_key_has_none(stream: ModelService) -> None:
    put(stream, b"1")
    del stream.streams["s"].records["shardId-000000000000"][0]["PartitionKey"]
    assert [message_of(one).key for one in reader_of(stream).turn()] == [None]


def test_refused_reads_and_expired_iterators_are_tried_again(stream: ModelService) -> None:
    put(stream, b"1", b"2")
    reader, stream.throttles = reader_of(stream), True
    assert len(reader.turn(1)) == 1
    stream.sleep(301)
    assert [one.position for one in reader.turn(1)] == [1]
    errors = [refused(THROTTLED)] * 3
    stream.fails = lambda name: errors.pop() if name == "get_records" and errors else None
    began = stream.now
    assert reader.turn() == []
    assert stream.now - began >= 0.25 + 0.5 + 1
    stream.fails = lambda name: refused(THROTTLED) if name == "get_records" else None
    with pytest.raises(BrokerError, match="refused every read"):
        reader.turn()


def test_a_reader_keeps_to_five_reads_a_second(stream: ModelService) -> None:
    stream.throttles, began, reader = True, stream.now, reader_of(stream)
    for _ in range(11):
        reader.turn()
    assert stream.now - began == pytest.approx(2.0)


def test_a_child_waits_for_its_parents_and_forgotten_parents_for_nobody(stream: ModelService) -> None:
    stream.split_shard(StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    layout = shards_of(ACCESS, "s")
    assert [one.id[-1] for one in readable(layout, lambda _: False)] == ["0"]
    assert [one.id[-1] for one in readable(layout, lambda id_: id_.endswith("0"))] == ["1", "2"]
    assert [one.id[-1] for one in readable(type(layout)(layout.open), lambda _: False)] == ["1", "2"]


def test_a_batch_read_again_is_the_same_and_one_that_is_gone_is_refused(stream: ModelService, tmp_path: Path) -> None:
    put(stream, *(b"%d" % n for n in range(50)))
    feed = feed_of(ACCESS, "s", tmp_path / "a", most=20)
    (first, kept), *_ = batches(feed)
    elsewhere = feed_of(ACCESS, "s", tmp_path / "b", most=20)
    (part,) = elsewhere.parts(elsewhere.first(), first)
    again = [row for batch in elsewhere.read(part) for row in batch.to_pylist()]
    assert (len(again), again) == (20, kept)
    stream.trim("s", "shardId-000000000000", 5)
    with pytest.raises(DataError, match="no longer in the source"):
        list(elsewhere.read(part))


@pytest.mark.parametrize(("start", "expected"), [("earliest", 6), ("latest", 0), ("2027-01-15T08:00:02+00:00", 3)])
def test_a_new_route_begins_where_it_is_asked_to(
    stream: ModelService, tmp_path: Path, start: str, expected: int
) -> None:
    for second in range(6):
        stream.now = 1_800_000_000.0 + second - 1
        put(stream, b"%d" % second)
    feed = feed_of(ACCESS, "s", tmp_path / "a")
    feed.start = start
    assert sum(len(rows) for _, rows in batches(feed)) == expected


@pytest.mark.parametrize("start", ["yesterday", "2027-01-15T08:00:00", '{"0": 1}', "1960-01-01T00:00Z"])
def test_what_is_no_start_is_refused(stream: ModelService, tmp_path: Path, start: str) -> None:
    feed = feed_of(ACCESS, "s", tmp_path / "a")
    feed.start = start
    with pytest.raises(UsageError, match="start at"):
        feed.first()


def test_discarded_records_are_counted_and_read(service: ModelService) -> None:
    service.create_stream(StreamName="s", ShardCount=2)
    wrong = packed([UserRecord("a", b"", 0), UserRecord("b", b"", 2**127)])
    service.put_record(StreamName="s", Data=wrong, PartitionKey="a", ExplicitHashKey="0")
    right = packed([UserRecord(f"k{n}", b"", n) for n in range(40)])
    service.put_record(StreamName="s", Data=right, PartitionKey="a", ExplicitHashKey="0")
    found = identify(ADDRESS.format("s"))
    assert [note for note in found.found.notes if note.startswith("2 records in aggregated")] != []
    assert found.found.rows == 42


@pytest.fixture
def uneven(service: ModelService) -> ModelService:
    """A stream of shards of unequal width, written by the hash of its keys."""
    service.create_stream(StreamName="s", ShardCount=2)
    service.split_shard(StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**125))
    for n in range(200):
        service.put_record(StreamName="s", Data=b"{}", PartitionKey=f"k{n % 60}")
    return service


def test_the_writer_of_shards_of_unequal_width_is_identified(uneven: ModelService) -> None:
    assert len(uneven.streams["s"].layout.open) == 3
    found = identify(ADDRESS.format("s")).found
    assert [(one.partitioner, one.share) for one in found.writers] == [("kinesis-md5", 1.0)]
    data = open_endpoint(ADDRESS.format("s")).describe(FieldSpec())
    as_if_equal = evidence.identify(data.batches(["key", "lane"]), data.lanes)
    assert [one.partitioner for one in as_if_equal.writers] != ["kinesis-md5"], "the twin takes shards for equal"


def test_a_profile_of_unequal_shards_finds_no_record_misplaced(
    uneven: ModelService, contract: Callable[..., Contract]
) -> None:
    assert uneven.streams["s"].put == 200
    live = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    found = profile(ADDRESS.format("s"), contract=live)
    assert found.lanes is not None
    assert (found.total, found.lanes.misplaced, len(found.lanes.by_window)) == (200, 0, 3)


def test_a_hot_shard_of_unequal_ones_is_not_taken_for_a_second_writer(uneven: ModelService, tmp_path: Path) -> None:
    for n in range(400):
        uneven.put_record(StreamName="s", Data=b"{}", PartitionKey=f"more{n}")
    saved = profile(ADDRESS.format("s"), out=str(tmp_path / "s.profile"))
    assert saved.key.encodings == ("utf8",), "keys of a stream are text"
    found = read_profile(tmp_path / "s.profile")
    assert found.key_space == shards_of(ACCESS, "s").key_space
    table = lanes_table(document_of(found, None, show_keys=True, out=str(tmp_path / "s.profile")))
    assert table is not None
    assert [as_json(row)["shard"] for row in table.rows] == list(found.key_space.ids)
    heat = heat_of(found, assumed(found), seed=1)
    assert heat is not None
    assert (heat.cause, heat.alarm) == ("wide-range", False)
    equal = replace(found, facts=tuple(one for one in found.facts if one[0] != "shards"))
    twin = heat_of(equal, assumed(equal), seed=1)
    assert twin is not None
    assert twin.cause == "mixed-writer", "the twin takes shards for equal"


def test_open_shards_are_lanes_and_a_part_can_be_asked_for(service: ModelService) -> None:
    service.create_stream(StreamName="s", ShardCount=3)
    for n in range(90):
        service.put_record(StreamName="s", Data=b"{}", PartitionKey=f"k{n}")
    service.split_shard(StreamName="s", ShardToSplit="shardId-000000000001", NewStartingHashKey=str(2**127))
    for n in range(90):
        service.put_record(StreamName="s", Data=b"{}", PartitionKey=f"k{n}")
    whole = open_endpoint(ADDRESS.format("s")).describe(FieldSpec())
    lanes = {lane for batch in whole.batches(["lane"]) for lane in batch["lane"].to_pylist()}
    assert (whole.lanes, lanes, "1 closed shard" in whole.sampled) == (4, {0, 1, 2, 3}, True)
    options = StreamOptions(read_range=ReadRange(most=8, partitions=(0, 3)))
    part = open_endpoint(ADDRESS.format("s"), options).describe(FieldSpec())
    rows = [row for batch in part.batches(["lane"]) for row in batch["lane"].to_pylist()]
    assert (sorted(rows), part.noticed() != []) == ([0, 0, 3, 3], True)
    with pytest.raises(UsageError, match="no such lane"):
        open_endpoint(ADDRESS.format("s"), StreamOptions(read_range=ReadRange(partitions=(9,)))).describe(FieldSpec())


@pytest.fixture
def split(service: ModelService) -> ModelService:
    """Two shards with 200 records, each split since: all records are in closed shards."""
    service.create_stream(StreamName="s", ShardCount=2)
    for n in range(200):
        service.put_record(StreamName="s", Data=b"{}", PartitionKey=f"k{n}")
    for n, at in ((0, 2**126), (1, 3 * 2**126)):
        service.split_shard(StreamName="s", ShardToSplit=f"shardId-{n:012d}", NewStartingHashKey=str(at))
    return service


def test_after_a_reshard_check_and_identify_name_the_closed_shards(
    split: ModelService, contract: Callable[..., Contract]
) -> None:
    live = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    found = check_contract(live, ADDRESS.format("s"))
    assert (found.verdict, [one.severity for one in found.findings]) == ("not-shown", ["warning", "info"])
    assert "200 records are in 2 closed shards that were split, not judged" in found.findings[0].message
    assert any("200 records are in 2 closed shards" in note for note in identify(ADDRESS.format("s")).found.notes)
    split.create_stream(StreamName="empty", ShardCount=1)
    split.split_shard(StreamName="empty", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    twin = check_contract(live, ADDRESS.format("empty"))
    assert (twin.ok, "no rows" in twin.findings[0].message) == (False, True), "the twin holds nothing anywhere"


def test_after_a_reshard_profile_counts_where_hash_keys_lie_now(
    split: ModelService, contract: Callable[..., Contract]
) -> None:
    split.put_record(StreamName="s", Data=b"{}", PartitionKey="k1")
    live = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    said: list[str] = []
    found = profile(ADDRESS.format("s"), contract=live, say=said.append)
    assert found.lanes is not None
    assert (found.total, found.lanes.misplaced, len(found.lanes.by_window)) == (201, 0, 4)
    assert said == ["200 records of 2 closed shards that were split counted in the shard that has their hash key now"]


def test_closed_shards_that_were_merged_are_read_as_the_lane_they_are_in(
    service: ModelService, contract: Callable[..., Contract]
) -> None:
    service.create_stream(StreamName="s", ShardCount=4)
    for n in range(100):
        service.put_record(StreamName="s", Data=b"{}", PartitionKey=f"k{n}")
    pair = {"ShardToMerge": "shardId-000000000000", "AdjacentShardToMerge": "shardId-000000000001"}
    service.merge_shards(StreamName="s", **pair)
    live = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    found = check_contract(live, ADDRESS.format("s"))
    assert isinstance(found, CheckedData)
    assert (found.ok, found.data.rows, found.data.misplaced) == (True, 100, 0)
    # The planted bug: a record of the last shard lies in one of those that were merged.
    moved = service.streams["s"].records["shardId-000000000003"][0]
    service.streams["s"].records["shardId-000000000000"].append(moved)
    twin = check_contract(live, ADDRESS.format("s"))
    assert isinstance(twin, CheckedData)
    assert (twin.ok, twin.data.misplaced) == (False, 1)
    shown = check_result(twin).sections[1]
    row = twin.data.examples[0]
    assert (row.shard, row.expected_shard) == ("shardId-000000000004", "shardId-000000000003")
    assert shown.columns == ("key", "lane", "shard", "expected", "expected_shard", "offset")


def test_a_reader_is_sent_to_workers_as_it_is(stream: ModelService) -> None:
    put(stream, b"1", b"2")
    reader = ShardChunks(WantedColumns(headers=True, values=True), ACCESS, {"s": KeySpace.equal(2)}, between=(5, None))
    again = pickle.loads(pickle.dumps(reader))
    assert (again.access, again.spaces, again.between, again.wanted.headers) == (
        ACCESS,
        {"s": KeySpace.equal(2)},
        (5, None),
        True,
    )
    assert [chunk.values for chunk in again.chunks("s", 0, 0, None)] == [[b"1", b"2"]]


def test_a_cursor_at_the_end_of_a_closed_shard_stays_there(stream: ModelService) -> None:
    put(stream, b"1")
    stream.split_shard(StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    reader = ShardReader(ACCESS, "s", stream.streams["s"].layout.named("shardId-000000000000"))
    assert sum(len(taken) for taken in reader.turns()) == 1
    assert reader.cursor == Cursor(1, reader.cursor.sequence, ended=True)
    assert list(ShardReader(ACCESS, "s", reader.shard, reader.cursor).turns()) == []


def test_verify_names_discarded_records_of_a_source_or_that_nobody_counted(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s", "t"):
        service.create_stream(StreamName=name, ShardCount=2)
    low, high = (next(key for key in "abcdefgh" if (md5_128(key.encode()) >= 2**127) == side) for side in (0, 1))
    wrong = packed([UserRecord(low, b"{}"), UserRecord(high, b"{}")])
    service.put_record(StreamName="s", Data=wrong, PartitionKey=low)
    by = contract(streams=["t"], lanes=2, key={"fields": ["key"]}, partitioner="kinesis-md5")
    for _, rows in batches(feed_of(ACCESS, "s", tmp_path / "run")):
        if rows:
            written(rows, ACCESS, "t", by)
    found = verify(ADDRESS.format("s"), ADDRESS.format("t"), by)
    assert [text for text in found.remarks if text.startswith("2 records in aggregated records")] != []
    assert found.verdict.records == 2
    assert UNCOUNTED not in found.remarks

    def by_workers(plan: VerifyPlan, tasks: Sequence[Any], settings: Settings, *_: object) -> Verdict:
        """As Spark does it: what reads is a copy, whose counts nobody sees."""
        copied, sent = pickle.loads(pickle.dumps((plan, tasks)))
        return check(chain.from_iterable(rows(copied, part) for rows, part in sent), settings)

    monkeypatch.setattr("keylane.pipelines.verify._on_spark", by_workers)
    elsewhere = verify(ADDRESS.format("s"), ADDRESS.format("t"), by, engine="spark")
    assert elsewhere.verdict.records == 2
    assert UNCOUNTED in elsewhere.remarks


def test_verify_knows_the_lanes_of_a_tier_by_its_own_shards(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path
) -> None:
    for name, shards in (("s", 1), ("t", 4), ("vip", 2)):
        service.create_stream(StreamName=name, ShardCount=shards)
    high = next(key for key in "abcdefgh" if md5_128(key.encode()) >= 2**127)
    service.put_record(StreamName="s", Data=b"{}", PartitionKey=high)
    hot = [{"keys": [high], "tier": {"stream": "vip", "lanes": 2}}]
    by = contract(streams=["t"], lanes=4, key={"fields": ["key"]}, partitioner="kinesis-md5", hot_keys=hot)
    for _, rows in batches(feed_of(ACCESS, "s", tmp_path / "run")):
        if rows:
            written(rows, ACCESS, "vip", by, space=KeySpace.equal(2))
    found = verify(ADDRESS.format("s"), ADDRESS.format("t"), by)
    assert (found.verdict.records, found.outcome) == (1, "certified")
