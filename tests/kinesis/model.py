"""A small exact model of the service, in this process: a client with the calls of boto3 that keylane makes.

What it has that no server on loopback has, all at once: exact bounds, closed shards that are refused, ChildShards,
limits of each shard in records, bytes and reads of a second, partial failures, streams that do not heed keys (AUTO),
expired iterators and trimmed records. Time is a number that the test moves. Property tests hold it equal to kinesalite,
where that is right (`test_model.py`).

Rules, as `keyspace.layout` has them for shards; beyond that:
    PutRecords    each record is taken or refused on its own; one that is refused leaves no trace
    limits        buckets of 1,000 records and 1 MiB a second for writes, 5 calls a second for reads; full at first
    GetRecords    an iterator names a shard and a place in it; behind the last record of a closed shard
                  there is none
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from keylane.errors import UsageError
from keylane.keyspace.layout import ShardLayout, new_layout

RECORDS_A_SECOND: Final = 1000
BYTES_A_SECOND: Final = 1 << 20
READS_A_SECOND: Final = 5
MOST_RECORDS: Final = 500
MOST_BYTES: Final = 5 << 20
ITERATOR_SECONDS: Final = 300
#: Queries of a request for metrics, and results of one page.
MOST_QUERIES: Final = 500
METRICS_PAGE: Final = 300
THROTTLED: Final = "ProvisionedThroughputExceededException"


def refused(code: str, text: str = "") -> ClientError:
    """An error as boto3 raises it."""
    return ClientError({"Error": {"Code": code, "Message": text}}, "Model")


@dataclass
class Bucket:
    """So many of something a second, one second deep."""

    rate: float
    left: float
    at: float

    def take(self, amount: float, now: float) -> bool:
        self.left, self.at = min(self.rate, self.left + (now - self.at) * self.rate), now
        if self.left < amount:
            return False
        self.left -= amount
        return True


@dataclass
class ModelStream:
    layout: ShardLayout
    made: float
    auto: bool = False
    record_bytes: int = 1 << 20
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    trimmed: dict[str, int] = field(default_factory=dict)
    buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)
    put: int = 0
    metrics: list[str] = field(default_factory=list)


@dataclass
class ModelService:
    """The service. `now` is its clock in seconds; `throttles` is whether limits hold; `fails` makes calls fail.

    `fails` gets the name of a call and returns an error to raise, or None; `refuses` gets a record of PutRecords, and
    says whether it is refused for no reason, as happens.
    """

    now: float = 1_800_000_000.0
    throttles: bool = True
    streams: dict[str, ModelStream] = field(default_factory=dict)
    fails: Any = None
    refuses: Any = None
    calls: list[str] = field(default_factory=list)
    forbidden: str = ""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += max(0.0, seconds)

    def clock(self) -> float:
        """The time."""
        return self.now

    def _called(self, name: str) -> None:
        self.calls.append(name)
        error = self.fails(name) if self.fails else None
        if error is not None:
            raise error

    def _stream(self, name: str) -> ModelStream:
        if name not in self.streams:
            raise refused("ResourceNotFoundException", f"Stream {name} not found")
        return self.streams[name]

    def _is_allowed(self, stream: ModelStream, shard: str, **amounts: tuple[float, float]) -> bool:
        if not self.throttles:
            return True
        full = {
            what: stream.buckets.setdefault((shard, what), Bucket(rate, rate, self.now))
            for what, (_, rate) in amounts.items()
        }
        before = {what: (one.left, one.at) for what, one in full.items()}
        if all(one.take(amounts[what][0], self.now) for what, one in full.items()):
            return True
        for what, one in full.items():
            one.left, one.at = before[what]
        return False

    def create_stream(self, *, StreamName: str, ShardCount: int = 1) -> dict[str, Any]:  # noqa: N803  boto3's names
        self._called("create_stream")
        if StreamName in self.streams:
            raise refused("ResourceInUseException")
        self.streams[StreamName] = ModelStream(new_layout(ShardCount), self.now)
        return {}

    def describe_stream_summary(self, *, StreamName: str) -> dict[str, Any]:  # noqa: N803  boto3's names
        self._called("describe_stream_summary")
        stream = self._stream(StreamName)
        summary = {
            "StreamName": StreamName,
            "StreamARN": f"arn:aws:kinesis:eu-west-1:0:stream/{StreamName}",
            "StreamStatus": "ACTIVE",
            "StreamModeDetails": {"StreamMode": "ON_DEMAND" if stream.auto else "PROVISIONED"},
            "StreamCreationTimestamp": datetime.fromtimestamp(stream.made, UTC),
            "RetentionPeriodHours": 24,
            "MaxRecordSizeInKiB": stream.record_bytes >> 10,
            "OpenShardCount": len(stream.layout.open),
            "EnhancedMonitoring": [{"ShardLevelMetrics": stream.metrics}],
            "RecordDistributionStrategy": "AUTO" if stream.auto else "USER_PARTITION_KEY",
        }
        return {"StreamDescriptionSummary": summary}

    def list_shards(self, *, StreamName: str = "", NextToken: str = "") -> dict[str, Any]:  # noqa: N803  boto3's names
        self._called("list_shards")
        name, _, first = NextToken.rpartition("/") if NextToken else (StreamName, "", "0")
        shards = sorted(self._stream(name).layout.shards, key=lambda one: one.id)
        page = [
            {
                "ShardId": one.id,
                "HashKeyRange": {"StartingHashKey": str(one.start), "EndingHashKey": str(one.end)},
                "SequenceNumberRange": {
                    "StartingSequenceNumber": "0",
                    **({"EndingSequenceNumber": "9"} if one.closed else {}),
                },
                **dict(zip(("ParentShardId", "AdjacentParentShardId"), one.parents, strict=False)),
            }
            for one in shards[int(first) : int(first) + 1000]
        ]
        more = int(first) + 1000 < len(shards)
        return {"Shards": page, **({"NextToken": f"{name}/{int(first) + 1000}"} if more else {})}

    def split_shard(
        self,
        *,
        StreamName: str,  # noqa: N803  boto3's names
        ShardToSplit: str,  # noqa: N803  boto3's names
        NewStartingHashKey: str,  # noqa: N803  boto3's names
    ) -> dict[str, Any]:
        self._called("split_shard")
        stream = self._stream(StreamName)
        try:
            stream.layout = stream.layout.split(ShardToSplit, int(NewStartingHashKey))
        except UsageError as error:
            raise refused("InvalidArgumentException", str(error)) from None
        return {}

    def merge_shards(
        self,
        *,
        StreamName: str,  # noqa: N803  boto3's names
        ShardToMerge: str,  # noqa: N803  boto3's names
        AdjacentShardToMerge: str,  # noqa: N803  boto3's names
    ) -> dict[str, Any]:
        self._called("merge_shards")
        stream = self._stream(StreamName)
        try:
            stream.layout = stream.layout.merge(ShardToMerge, AdjacentShardToMerge)
        except UsageError as error:
            raise refused("InvalidArgumentException", str(error)) from None
        return {}

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803  boto3's
        self._called("put_records")
        stream = self._stream(StreamName)
        sizes = [len(one["Data"]) + len(one["PartitionKey"].encode()) for one in Records]
        if not 1 <= len(Records) <= MOST_RECORDS or sum(sizes) > MOST_BYTES or max(sizes) > stream.record_bytes:
            raise refused("ValidationException", f"{len(Records)} records of {sum(sizes)} bytes, at most {max(sizes)}")
        answers = [self._put(stream, one, size) for one, size in zip(Records, sizes, strict=True)]
        return {"FailedRecordCount": sum("ErrorCode" in one for one in answers), "Records": answers}

    def put_record(self, *, StreamName: str, **record: Any) -> dict[str, Any]:  # noqa: N803  boto3's names
        answer = self.put_records(StreamName=StreamName, Records=[record])["Records"][0]
        if "ErrorCode" in answer:
            raise refused(answer["ErrorCode"], answer["ErrorMessage"])
        return answer

    def _put(self, stream: ModelStream, record: dict[str, Any], size: int) -> dict[str, Any]:
        key, explicit = record["PartitionKey"], record.get("ExplicitHashKey")
        number = int(explicit) if explicit else int.from_bytes(hashlib.md5(key.encode()).digest(), "big")
        if not 1 <= len(key.encode("utf-16-le")) // 2 <= 256 or not 0 <= number < 1 << 128:
            raise refused("InvalidArgumentException", key)
        shards = stream.layout.open
        shard = shards[stream.put % len(shards) if stream.auto else stream.layout.key_space.lane_of(number)]
        limits = {"records": (1.0, RECORDS_A_SECOND), "bytes": (float(size), BYTES_A_SECOND)}
        if (self.refuses and self.refuses(record)) or not self._is_allowed(stream, shard.id, **limits):
            return {"ErrorCode": THROTTLED, "ErrorMessage": f"Rate exceeded for shard {shard.id}"}
        stream.put += 1
        sequence = str(10**55 + stream.put)
        stream.records.setdefault(shard.id, []).append(
            {
                "SequenceNumber": sequence,
                "ApproximateArrivalTimestamp": datetime.fromtimestamp(self.now, UTC),
                "Data": record["Data"],
                "PartitionKey": key,
            }
        )
        return {"ShardId": shard.id, "SequenceNumber": sequence}

    def trim(self, stream: str, shard: str, records: int) -> None:
        """Forget the oldest records of a shard."""
        self.streams[stream].trimmed[shard] = records

    def get_shard_iterator(
        self,
        *,
        StreamName: str,  # noqa: N803  boto3's names
        ShardId: str,  # noqa: N803  boto3's names
        ShardIteratorType: str,  # noqa: N803  boto3's names
        StartingSequenceNumber: str = "",  # noqa: N803  boto3's names
        Timestamp: float = 0.0,  # noqa: N803  boto3's names
    ) -> dict[str, Any]:
        self._called("get_shard_iterator")
        stream = self._stream(StreamName)
        stream.layout.named(ShardId)
        records, after = stream.records.get(ShardId, []), int(StartingSequenceNumber or 0)
        at = {
            "TRIM_HORIZON": 0,
            "LATEST": len(records),
            "AFTER_SEQUENCE_NUMBER": sum(int(one["SequenceNumber"]) <= after for one in records),
            "AT_TIMESTAMP": sum(one["ApproximateArrivalTimestamp"].timestamp() < Timestamp for one in records),
        }[ShardIteratorType]
        return {"ShardIterator": f"{StreamName}|{ShardId}|{at}|{self.now}"}

    def get_records(self, *, ShardIterator: str, Limit: int = 10_000) -> dict[str, Any]:  # noqa: N803  boto3's names
        self._called("get_records")
        name, shard, place, made = ShardIterator.split("|")
        stream = self._stream(name)
        if self.now - float(made) > ITERATOR_SECONDS:
            raise refused("ExpiredIteratorException")
        if not self._is_allowed(stream, shard, reads=(1.0, READS_A_SECOND)):
            raise refused(THROTTLED, f"Rate exceeded for shard {shard}")
        records = stream.records.get(shard, [])
        start = max(int(place), stream.trimmed.get(shard, 0))
        taken = records[start : start + Limit]
        end, closed = start + len(taken), stream.layout.named(shard).closed
        behind = 0 if end == len(records) else max(1, int(1000 * (self.now - made_at(records[end]))))
        answer: dict[str, Any] = {"Records": taken, "MillisBehindLatest": behind}
        if closed and end == len(records):
            children = [one for one in stream.layout.shards if shard in one.parents]
            answer["ChildShards"] = [{"ShardId": one.id, "ParentShards": list(one.parents)} for one in children]
        else:
            answer["NextShardIterator"] = f"{name}|{shard}|{end}|{self.now}"
        return answer

    def get_metric_data(
        self,
        *,
        MetricDataQueries: list[dict[str, Any]],  # noqa: N803  boto3's names
        StartTime: datetime,  # noqa: N803  boto3's names
        EndTime: datetime,  # noqa: N803  boto3's names
        NextToken: str = "0",  # noqa: N803  boto3's names
    ) -> dict[str, Any]:
        """What CloudWatch has of shards, a value a minute; some of the queries on each page."""
        self._called("get_metric_data")
        if len(MetricDataQueries) > MOST_QUERIES:
            raise refused("ValidationError", f"{len(MetricDataQueries)} queries")
        first, status = int(NextToken), "Forbidden" if self.forbidden else "Complete"
        results = []
        for query in MetricDataQueries[first : first + METRICS_PAGE]:
            about = query["MetricStat"]["Metric"]
            of = {one["Name"]: one["Value"] for one in about["Dimensions"]}
            minutes: dict[int, float] = {}
            for record in self._stream(of["StreamName"]).records.get(of["ShardId"], []):
                at = record["ApproximateArrivalTimestamp"]
                if StartTime <= at < EndTime:
                    size = len(record["Data"]) + len(record["PartitionKey"].encode())
                    minute = int(at.timestamp()) // 60
                    minutes[minute] = minutes.get(minute, 0) + (1 if about["MetricName"] == "IncomingRecords" else size)
            messages = [{"Code": status, "Value": self.forbidden}] if self.forbidden else []
            values = list(minutes.values())
            results.append({"Id": query["Id"], "Values": values, "StatusCode": status, "Messages": messages})
        more = first + METRICS_PAGE < len(MetricDataQueries)
        return {"MetricDataResults": results, **({"NextToken": str(first + METRICS_PAGE)} if more else {})}


def made_at(record: dict[str, Any]) -> float:
    """When a record arrived."""
    return float(record["ApproximateArrivalTimestamp"].timestamp())
