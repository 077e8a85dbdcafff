"""What a stream carries a second over its key space: by reading its records, or by the metrics of its shards.

    read_load       records of all shards, closed ones too, at their hash keys
    reported_load   IncomingRecords or IncomingBytes of each shard, from CloudWatch

Rule: a record counts at the hash key that placed it. The service does not give explicit hash keys back, so that of the
record's account is taken where it is known and lies in the record's shard, and the hash of the partition key otherwise.
Where that lies outside the shard, the record had another, and counts evenly over its shard. An aggregated record is one
record for the limits of the service, so each of the n records inside counts as 1/n of it. Loads are means over the time
that was looked at.

Worked example: a shard with 600 records of the last minute, 200 of them of one key: 10 records a second, of which 3.33
are at the hash key of that key.

When not to use it: for a peak within the time, which a mean hides; look at a shorter time. The load of a topic's lanes:
`profile`.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, DataError, UsageError
from keylane.keyspace.load import MeasuredLoad
from keylane.numbers import duration, percent, plural
from keylane.systems.kinesis.access import METRICS, calling, masked
from keylane.systems.kinesis.reader import ShardReader
from keylane.systems.kinesis.shards import describe_stream, in_lineage, shards_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.keyspace.layout import Shard
    from keylane.keyspace.load import LoadUnit
    from keylane.systems.kinesis.access import KinesisAccess
    from keylane.systems.kinesis.aggregated import UserRecord
    from keylane.systems.kinesis.reader import ReadRecord
    from keylane.systems.kinesis.shards import StreamFacts

#: Shards that are read at a time.
THREADS: Final = 16
#: Metrics of one request, seconds that one value stands for, and for how long the service keeps such values.
QUERIES: Final = 500
PERIOD: Final = 60
KEPT_SECONDS: Final = 15 * 86_400
_METRIC: Final[dict[LoadUnit, str]] = {"records": "IncomingRecords", "bytes": "IncomingBytes"}


def read_load(
    access: KinesisAccess, stream: str, unit: LoadUnit, last: float | None, hash_keys: Mapping[str, int]
) -> MeasuredLoad:
    """Read the last so many seconds of a stream, or all of it."""
    facts, now = _placed_by_key(access, stream), access.timing.wall()
    since = None if last is None else now - last
    shards = in_lineage(shards_of(access, stream))
    counts = [_ShardCount(shard, unit, hash_keys) for shard in shards]
    with ThreadPoolExecutor(THREADS) as pool:
        for read in [pool.submit(one.read, access, stream, since, now) for one in counts]:
            read.result()
    oldest = min((one.oldest_ms for one in counts if one.oldest_ms), default=None)
    if oldest is None:
        of_last, hint = ("", "") if last is None else (f" of the last {duration(last)}", "a longer --last")
        raise DataError.of(f"the stream has no records{of_last}", got=stream, hint=hint)
    seconds = max(1.0, now - (_begun(facts, now, last) if last is not None else oldest / 1000))
    points: defaultdict[int, float] = defaultdict(float)
    for key, load in (point for one in counts for point in one.points.items()):
        points[key] += load
    unknown = sum(one.unknown for one in counts)
    total = sum(points.values()) + unknown
    notes = [f"measured: {plural(sum(one.records for one in counts), 'record')} read, the mean of {duration(seconds)}"]
    if unknown:
        what = f"{percent(unknown / total)} of the load has explicit hash keys that are not known"
        notes.append(f"{what}, and counts evenly over its shard; --registry has those of accounts")
    return MeasuredLoad(
        {key: load / seconds for key, load in points.items()},
        [(one.shard.start, one.shard.end, one.unknown / seconds) for one in counts if one.unknown],
        {key: text for one in counts for key, text in one.keys.items()},
        tuple(notes),
    )


def reported_load(access: KinesisAccess, stream: str, unit: LoadUnit, last: float) -> MeasuredLoad:
    """Ask CloudWatch what each shard took in the last so many seconds, in whole minutes."""
    if last > KEPT_SECONDS:
        allowed = "up to 15d, for which the service keeps counts by the minute"
        raise UsageError.of("metrics by shard do not go back so far", got=duration(last), allowed=allowed)
    facts, metric = _placed_by_key(access, stream), _METRIC[unit]
    hint = f"aws kinesis enable-enhanced-monitoring --stream-name {stream} --shard-level-metrics {metric}"
    if not {metric, "ALL"} & set(facts.shard_metrics):
        raise DataError.of("the service does not count by shard for this stream", got=stream, hint=hint)
    end = access.timing.wall() // PERIOD * PERIOD
    start = end - ceil(last / PERIOD) * PERIOD
    shards = in_lineage(shards_of(access, stream))
    sums = [0.0] * len(shards)
    queries = [_query(stream, shard.id, metric, n) for n, shard in enumerate(shards)]
    for first in range(0, len(queries), QUERIES):
        for n, values in _values(access, stream, queries[first : first + QUERIES], start, end):
            sums[n] += sum(values)
    if not any(sums):
        raise DataError.of(f"the service counted nothing in the last {duration(end - start)}", got=stream, hint=hint)
    seconds = max(PERIOD, end - max(start, _begun(facts, end, last)))
    return MeasuredLoad(
        {},
        [(shard.start, shard.end, load / seconds) for shard, load in zip(shards, sums, strict=True) if load],
        {},
        (f"measured: {metric} of each shard, the mean of {duration(seconds)}",),
    )


def _placed_by_key(access: KinesisAccess, stream: str) -> StreamFacts:
    facts = describe_stream(access, stream)
    if not facts.heeds_keys:
        what = "the service places records of this stream without their keys, so no hash key has a load"
        raise DataError.of(what, got="RecordDistributionStrategy AUTO", allowed="USER_PARTITION_KEY")
    return facts


def _begun(facts: StreamFacts, now: float, last: float) -> float:
    """From when on there can be records: a stream that is younger, or forgets sooner, carried nothing before."""
    return max(now - last, facts.made_at, now - facts.retention_hours * 3600)


class _ShardCount:
    """What one shard carried: at hash keys, and without one that is known."""

    def __init__(self, shard: Shard, unit: LoadUnit, hash_keys: Mapping[str, int]) -> None:
        self.shard, self.unit, self.hash_keys = shard, unit, hash_keys
        self.points: defaultdict[int, float] = defaultdict(float)
        self.keys: dict[int, str] = {}
        self.unknown, self.records, self.oldest_ms = 0.0, 0, 0

    def read(self, access: KinesisAccess, stream: str, since: float | None, now: float) -> None:
        """All of it up to now."""
        since_ms = None if since is None else int(since * 1000)
        for taken in ShardReader(access, stream, self.shard, since_ms=since_ms).turns(int(now * 1000)):
            self.oldest_ms = self.oldest_ms or (taken[0].arrived_ms if taken else 0)
            for _, inside in groupby(taken, key=lambda one: one.sequence):
                self._add(list(inside))

    def _add(self, inside: Sequence[ReadRecord]) -> None:
        """A record of the service, with the records that it holds."""
        self.records += 1
        for one in inside:
            amount = one.size if self.unit == "bytes" else 1 / len(inside)
            key = self._hash_key(one.user)
            if key is not None:
                self.points[key] += amount
                self.keys[key] = one.user.partition_key
            else:
                self.unknown += amount

    def _hash_key(self, user: UserRecord) -> int | None:
        """That of the record itself, of its account, or of its partition key: the first that its shard can have."""
        account = self.hash_keys.get(user.partition_key) if user.explicit_hash_key is None else None
        tried = (account, user.hash_key)
        return next((key for key in tried if key is not None and self.shard.start <= key <= self.shard.end), None)


def _query(stream: str, shard: str, metric: str, number: int) -> dict[str, Any]:
    dimensions = [{"Name": "StreamName", "Value": stream}, {"Name": "ShardId", "Value": shard}]
    of = {"Namespace": "AWS/Kinesis", "MetricName": metric, "Dimensions": dimensions}
    return {"Id": f"s{number}", "MetricStat": {"Metric": of, "Period": PERIOD, "Stat": "Sum"}, "ReturnData": True}


def _values(
    access: KinesisAccess, stream: str, queries: Sequence[dict[str, Any]], start: float, end: float
) -> Iterator[tuple[int, list[float]]]:
    """The values of each query, page by page."""
    between = {"StartTime": datetime.fromtimestamp(start, UTC), "EndTime": datetime.fromtimestamp(end, UTC)}
    asked: dict[str, Any] = {"MetricDataQueries": list(queries), **between}
    while asked:
        with calling(access, stream, service=METRICS):
            answer = access.client(service=METRICS).get_metric_data(**asked)
        for one in answer["MetricDataResults"]:
            if one.get("StatusCode") in {"InternalError", "Forbidden"}:
                why = "; ".join(str(text.get("Value", "")) for text in one.get("Messages", ()))
                raise BrokerError.of(f"CloudWatch in {access.where} answered with an error", got=masked(why))
            yield int(one["Id"][1:]), [float(value) for value in one["Values"]]
        asked = {**asked, "NextToken": answer["NextToken"]} if answer.get("NextToken") else {}
