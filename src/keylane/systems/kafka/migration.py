"""A migration on Kafka: what a topic looks like, how it grows, how far groups are, and a journal in a topic.

    TopicMigrator   a topic as `keylane.systems.migrations` drives it
    committed_offsets, start_group   how far the copy of a mirror has read, and where groups begin in its target
    TopicJournal    plan, entries and acknowledgements as the records of one partition

The journal's fence is the broker's: entries are written in transactions of one transactional id, and whoever opens it
later ends all earlier ones. A driver reads the journal after that, so that nobody can append between its look and its
entry. Producers acknowledge by plain records beside the entries.

A journal in a folder: `keylane.systems.migration_journal`. Who reads and writes by it: `migration_clients`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.errors import BrokerError, DataError, FencedError, TargetError, UsageError
from keylane.numbers import plural
from keylane.systems.checkpoint import batch_offsets, log_numbers, unreadable
from keylane.systems.kafka.access import OF_READERS, OF_WRITERS, KafkaAccess
from keylane.systems.kafka.cluster import (
    ANSWER_SECONDS,
    IS_IT_RUNNING,
    SETTLE_SECONDS,
    abort_command,
    error_name,
    explained,
    is_permanent,
    open_cluster,
)
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.messages.chunks import WantedColumns
from keylane.systems.messages.headers import foreign_epochs, origin, written_by
from keylane.systems.migration_journal import (
    check_appended,
    check_producer,
    check_same_plan,
    entry_from_json,
    entry_to_json,
)
from keylane.systems.migration_marks import MigrationMark
from keylane.systems.migrations import ObservedStream, OpenTransaction, unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.migration.cutover import Entry
    from keylane.systems.kafka.cluster import KafkaCluster, OffsetRange

#: How long new partitions are waited for, and offsets that are looked at in one go for a record.
GROW_SECONDS: Final = 30.0
LOOK: Final = 1_000
#: How much of the address of a journal a mark has.
MOST_OF_A_PLACE: Final = 1_000
PLAN, ENTRY, STOPPED = b"plan", b"entry", b"stopped"
#: What a broker answers to offsets from outside of a group that has members.
ACTIVE: Final = frozenset({"UNKNOWN_MEMBER_ID", "GROUP_SUBSCRIBED_TO_TOPIC", "NON_EMPTY_GROUP", "ILLEGAL_GENERATION"})
#: How long a coordinator is asked.
COMMIT_SECONDS: Final = 20.0


class TopicMigrator:
    """A topic, through one client for as long as it is used."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self._reader = TopicReader(WantedColumns(), cluster.access)
        self._empty: dict[int, tuple[int, int]] = {}

    def observe(self) -> ObservedStream:
        """Its id, lanes, offsets and what it keeps."""
        found = self.cluster.topics_now([self.topic]).get(self.topic)
        if found is None:
            raise DataError.of(f"no such topic at {self.cluster.access.brokers}", got=self.topic)
        id_, lanes = found
        ranges = self.cluster.offset_ranges(self.topic, lanes, committed=False)
        settings = self.cluster.topic_settings(self.topic, must_answer=True)
        kept = int(settings.get("retention.ms", "-1"))
        return ObservedStream(
            f"kafka://{self.cluster.access.brokers}/{self.topic}",
            id_,
            lanes,
            tuple(one.start for one in ranges),
            tuple(one.high for one in ranges),
            None if kept < 0 else kept / 1000,
            settings.get("cleanup.policy", ""),
        )

    @property
    def _marks(self) -> str:
        """The group beside whose offset the mark is: nobody joins it."""
        return f"keylane-migrate-{self.topic}"

    def marked(self) -> MigrationMark | None:
        """Kept until offsets of the group expire."""
        return MigrationMark.from_text(self.cluster.noted(self._marks, self.topic)[1])

    def mark(self, mark: MigrationMark) -> None:
        """As the text of an offset: there is room for some thousands of bytes."""
        text = mark._replace(journal=mark.journal[:MOST_OF_A_PLACE]).as_text()
        self.cluster.note(self._marks, self.topic, mark.entries, text)

    def check(self, lanes: int, groups: Sequence[str]) -> None:
        """Refuse a compacted topic, a count that the cluster refuses, and groups whose records are gone already."""
        found = self.observe()
        if "compact" in found.cleanup:
            # The old record of a key would stay in its old lane for ever, beside the new one in another.
            hint = "--mode mirror, into a topic that has its lanes from the beginning"
            what = (
                "a compacted topic cannot be changed in place: what a key had in its old lane would never be replaced"
            )
            raise UsageError.of(what, got=f"cleanup.policy={found.cleanup}", allowed="delete", hint=hint)
        if lanes > found.lanes:
            self._check_growth(lanes)
        self.check_missed(groups)

    def committed(self, groups: Sequence[str], lanes: int) -> dict[str, tuple[int, ...]]:
        """By what the groups' coordinators keep."""
        return {group: tuple(self.cluster.committed(group, self.topic, lanes)) for group in groups}

    def check_missed(self, groups: Sequence[str]) -> None:
        """Refuse groups that have missed records: retention was shorter than they were behind."""
        starts = self.starts() if groups else ()
        for group, gone in unread(self.committed(groups, len(starts)), starts).items():
            hint = "let it catch up, or raise retention.ms; then commit where it is to go on"
            got = f"{plural(len(gone), 'lane')}: {', '.join(map(str, gone[:12]))}"
            raise UsageError.of(f"records were deleted before group {group} has applied them", got=got, hint=hint)

    def _check_growth(self, lanes: int) -> None:
        """Ask the cluster whether it would take so many partitions, without making them."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewPartitions

        asked = self.cluster.admin.create_partitions([NewPartitions(self.topic, lanes)], validate_only=True)
        try:
            asked[self.topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            why = explained(error, self.cluster.access.brokers, self.cluster.listener)
            raise UsageError.of(f"the cluster refuses {lanes} partitions: {why}", got=self.topic) from None
        except TimeoutError:
            raise BrokerError.of(f"no broker answers at {self.cluster.access.brokers}", hint=IS_IT_RUNNING) from None

    def ends(self) -> tuple[int, ...]:
        """The ends of the logs: what is in an open transaction is below the fence, too."""
        lanes = self.cluster.lanes_now(self.topic)
        if not lanes:
            raise BrokerError.of(f"no such topic at {self.cluster.access.brokers}", got=self.topic)
        return tuple(one.high for one in self.cluster.offset_ranges(self.topic, lanes, committed=False))

    def starts(self) -> tuple[int, ...]:
        """The beginnings of the logs."""
        lanes = self.cluster.lanes_now(self.topic)
        return tuple(one.start for one in self.cluster.offset_ranges(self.topic, lanes, committed=False))

    def open_transactions(self, ends: Sequence[int] = (), seconds: float = 0.0) -> tuple[OpenTransaction, ...]:
        """Where the last stable offset of a lane is below an end."""
        until = time.monotonic() + seconds
        lanes = len(ends) or self.cluster.lanes_now(self.topic)
        while True:
            ranges = self.cluster.offset_ranges(self.topic, lanes, committed=True)
            ends = ends or [one.high for one in ranges]
            found = tuple(
                OpenTransaction(
                    lane, one.end, end, abort_command(self.cluster.access.brokers, self.topic, lane, one.end)
                )
                for lane, (one, end) in enumerate(zip(ranges, ends, strict=True))
                if one.end < min(end, one.high)
            )
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.1)

    def grow(self, lanes: int) -> None:
        """Create partitions, and wait until they can be written."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewPartitions

        until = time.monotonic() + GROW_SECONDS
        while self.cluster.lanes_now(self.topic) < lanes:
            try:
                asked = self.cluster.admin.create_partitions([NewPartitions(self.topic, lanes)])
                asked[self.topic].result(ANSWER_SECONDS)
            except KafkaException as error:
                # Grown already, by a call whose answer was lost, or being grown: the next look shows it.
                if is_permanent(error) or time.monotonic() > until:
                    raise explained(error, self.cluster.access.brokers, self.cluster.listener) from None
            except TimeoutError:
                if time.monotonic() > until:
                    raise BrokerError.of(
                        f"no broker answers at {self.cluster.access.brokers}", hint=IS_IT_RUNNING
                    ) from None
            time.sleep(0.02)

    def applied(self, groups: Sequence[str], fences: Sequence[int]) -> tuple[int, ...]:
        """What all groups have committed. A lane that a group has committed nothing of is where it begins."""
        found = [self.cluster.committed(group, self.topic, len(fences)) for group in groups]
        lowest = [min(one[lane] for one in found) for lane in range(len(fences))]
        if all(at >= fence for at, fence in zip(lowest, fences, strict=True)):
            return tuple(lowest)
        ranges = self.cluster.offset_ranges(self.topic, len(fences), committed=True)
        each = enumerate(zip(lowest, fences, ranges, strict=True))
        return tuple(self.passed(lane, at, fence, there) for lane, (at, fence, there) in each)

    def passed(self, lane: int, committed: int, fence: int, there: OffsetRange) -> int:
        """How far a lane is, of which so much is committed: up to the fence, where no record is left between.

        `there` are the offsets that the lane has, up to the last stable one: behind it a transaction is open, and
        whether there are records is not known yet.
        """
        at = max(committed, there.start)
        return max(at, fence) if at >= fence or self._is_empty(lane, at, fence, there.end) else at

    def _is_empty(self, lane: int, start: int, end: int, stable: int) -> bool:
        """Whether there is no record between two offsets: only marks of transactions, or what is gone."""
        at, known = self._empty.get(lane, (-1, -1))
        if known == end and start <= at:
            # There is a record at or behind `at`, as was seen before.
            return False
        for first in range(start, min(end, stable), LOOK):
            chunk = next(self._reader.chunks(self.topic, lane, first, min(end, stable, first + LOOK)), None)
            if chunk is not None:
                self._empty[lane] = chunk.offsets[0], end
                return False
        return end <= stable

    def records(self, ranges: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """By the headers that keylane's producers and routes write."""
        reader = TopicReader(WantedColumns(headers=True), self.cluster.access)
        opened = {one.lane: one.offset for one in self.open_transactions([end for _, end in ranges], SETTLE_SECONDS)}
        for lane, (start, end) in enumerate(ranges):
            for chunk in reader.chunks(self.topic, lane, start, min(end, opened.get(lane, end))):
                writer, seq = origin(chunk.sources)
                columns = {
                    "lane": pa.repeat(pa.scalar(lane, pa.int32()), len(chunk)),
                    "offset": pa.array(chunk.offsets, pa.int64()),
                    "key": pa.array(chunk.keys, pa.binary()),
                    "writer": writer,
                    "seq": seq,
                    "epoch": written_by(chunk.writers, reader.writers)["epoch"],
                    "foreign": foreign_epochs(chunk.writers, reader.writers),
                }
                yield pa.RecordBatch.from_pydict(columns)


def committed_offsets(checkpoint: Path, topic: str, begins: Sequence[int]) -> tuple[int, ...]:
    """The offset of each lane up to which the batches of a checkpoint are committed; `begins` before the first one."""
    batch = max(log_numbers(checkpoint / "commits"), default=-1)
    if batch < 0:
        return tuple(begins)
    line = batch_offsets(checkpoint, batch).partition("\n")[0]
    try:
        known = {int(lane): int(offset) for lane, offset in json.loads(line)[topic].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(checkpoint / "offsets" / str(batch), f"no offsets of {topic}: {error}") from None
    return tuple(known.get(lane, begin) for lane, begin in enumerate(begins))


def start_group(cluster: KafkaCluster, group: str, topic: str, starts: Sequence[int]) -> bool:
    """Commit where a group begins, in lanes of which it has committed nothing; False where it has members.

    Only a group without members takes offsets from outside. A member that honours the gate begins there by itself.
    """
    from confluent_kafka import TopicPartition

    there = cluster.committed(group, topic, len(starts))
    wanted = [TopicPartition(topic, lane, start) for lane, start in enumerate(starts) if there[lane] < 0]
    until = time.monotonic() + COMMIT_SECONDS
    while wanted:
        failed = cluster.commit_for(group, wanted)
        if failed is None:
            return True
        if error_name(failed) in ACTIVE:
            return False
        if is_permanent(failed) or time.monotonic() > until:
            raise explained(failed, cluster.access.brokers, cluster.listener)
        time.sleep(0.2)
    return True


class TopicJournal:
    """A journal in a topic of one partition, which `begin` makes. `drives` opens it for entries."""

    def __init__(self, access: KafkaAccess, topic: str) -> None:
        self.access, self.topic = access, topic
        # An entry that was aborted is none, whatever level was asked for to read records at.
        asked = tuple(one for one in access.properties if one[0] != "isolation.level")
        self._reader = TopicReader(WantedColumns(values=True), KafkaAccess(access.brokers, asked))
        self._at = 0
        self._plan: dict[str, Any] | None = None
        self._entries: list[Entry] = []
        self._stopped: dict[str, int] = {}
        self._writer: Any = None

    @property
    def place(self) -> str:
        """Its address."""
        return f"kafka://{self.access.brokers}/{self.topic}"

    def plan(self) -> dict[str, Any] | None:
        """The first record."""
        self._catch_up()
        return self._plan

    def begin(self, plan: dict[str, Any]) -> None:
        """Make the topic, and write the plan. A journal of this plan is left as it is: another driver may be at it."""
        if not check_same_plan(self.plan(), plan, self.place):
            return
        with open_cluster(self.access) as cluster:
            if cluster.lanes([self.topic])[self.topic]:
                self._check_keeps(cluster)
            else:
                cluster.create(self.topic, 1, {"retention.ms": "-1", "cleanup.policy": "delete"})
        self._open_writer()
        if check_same_plan(self.plan(), plan, self.place):
            self._write(PLAN, plan)

    def _check_keeps(self, cluster: KafkaCluster) -> None:
        """Refuse a topic that somebody made, and that would lose entries: without them the old contract holds."""
        settings = cluster.topic_settings(self.topic)
        needed = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        other = {name: settings[name] for name, text in needed.items() if settings.get(name, text) != text}
        lanes = cluster.lanes_now(self.topic)
        if other or lanes != 1:
            got = ", ".join(f"{name}={text}" for name, text in (other or {"partitions": str(lanes)}).items())
            allowed = ", ".join(f"{name}={text}" for name, text in needed.items())
            hint = "a topic that is not there: it is made as it has to be"
            what = f"{self.place} cannot be the journal of a migration"
            raise TargetError.of(what, got=got, allowed=f"one partition, {allowed}", hint=hint)

    def entries(self) -> tuple[Entry, ...]:
        """All entries that are committed."""
        self._catch_up()
        return tuple(self._entries)

    def append(self, entry: Entry) -> None:
        """In a transaction. An unknown outcome is resolved by a look that waits a while for open transactions."""
        if self._writer is None:
            self._open_writer()
        check_appended(self.entries(), entry)
        try:
            self._write(ENTRY, entry_to_json(entry))
        except BrokerError:
            self._writer = None
            entries = self.entries()
            if entry not in entries:
                raise
        self._catch_up()

    def stopped(self, hold: int) -> frozenset[str]:
        """By the last acknowledgement of each producer."""
        self._catch_up()
        return frozenset(name for name, number in self._stopped.items() if number == hold)

    def acknowledge(self, producer: str, hold: int) -> None:
        """A plain record, acknowledged by all replicas."""
        from confluent_kafka import KafkaException, Producer

        value = json.dumps({"producer": check_producer(producer), "hold": hold}).encode()
        failed: list[Any] = []
        writer = Producer({**self._of_writers(), "enable.idempotence": True, "acks": "all"})
        try:
            writer.produce(self.topic, value, STOPPED, partition=0, on_delivery=lambda error, _: failed.append(error))
            left = writer.flush(2 * ANSWER_SECONDS)
        except KafkaException as error:
            raise explained(error, self.access.brokers) from None
        if left or not failed:
            raise BrokerError.of(f"no broker answers at {self.access.brokers}", hint=IS_IT_RUNNING)
        if failed[0] is not None:
            raise explained(failed[0], self.access.brokers)

    def _of_writers(self) -> dict[str, Any]:
        settings = {
            name: text for name, text in self.access.librdkafka().items() if name not in OF_READERS | OF_WRITERS
        }
        return {**settings, "allow.auto.create.topics": False}

    def _open_writer(self) -> None:
        """Fence every earlier driver; whatever it had begun is over when this returns."""
        from confluent_kafka import KafkaException, Producer

        writer = Producer({**self._of_writers(), "transactional.id": f"keylane-migrate-{self.topic}"})
        try:
            writer.init_transactions(2 * ANSWER_SECONDS)
        except KafkaException as error:
            raise explained(error, self.access.brokers) from None
        self._writer = writer

    def _write(self, key: bytes, document: dict[str, Any]) -> None:
        from confluent_kafka import KafkaException

        try:
            self._writer.begin_transaction()
            self._writer.produce(self.topic, json.dumps(document).encode(), key, partition=0)
            self._writer.commit_transaction(ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].name() in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}:
                what = "another process drives this migration; nothing was done"
                raise FencedError.of(what, got=self.place) from None
            raise explained(error, self.access.brokers) from None

    def _catch_up(self) -> None:
        """Read what was committed since the last look."""
        with open_cluster(self.access) as cluster:
            if not cluster.lanes_now(self.topic):
                return
            (there,) = cluster.settled_ranges(self.topic, 1)
        for chunk in self._reader.chunks(self.topic, 0, self._at, there.end):
            for key, value in zip(chunk.keys, chunk.values, strict=True):
                self._take(key, value)
            # Where the read breaks off behind this chunk, the next one does not take it again.
            self._at = int(chunk.offsets[-1]) + 1
        self._at = max(self._at, there.end)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        if key not in (PLAN, ENTRY, STOPPED):
            hint = "a topic that is not there: it is made as it has to be"
            raise TargetError.of("the topic has records that are not of a migration", got=self.place, hint=hint)
        try:
            found = json.loads(value or b"")
            if key == PLAN and self._plan is None:
                self._plan = found
            elif key == ENTRY:
                self._entries.append(entry_from_json(found))
            elif key == STOPPED:
                self._stopped[str(found["producer"])] = int(found["hold"])
        except (ValueError, KeyError, TypeError) as error:
            raise TargetError.of("the journal of a migration is damaged", got=f"{self.place}: {error}") from None
