"""A compacted topic as a registry of standing queries: one record for each query, by its id.

    key    the id
    value  {"id", "definition", "status", "version", "digest"}; a removed query keeps its record, for its id stays taken

The topic has one partition, so that changes have one order, and is compacted, so that none is ever deleted. A change is
one transaction: readers see all of it or nothing. Of two writers at a time the later one ends the transaction of the
earlier, which then looks again. A reader keeps its position, and reads what was added since. The rules of a change:
`aggregation.registry`. Registries in files: `systems.query_registry`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from keylane.aggregation.registry import Registered, added, changed, next_digest, snapshot_of
from keylane.errors import DataError, TargetError, UsageError
from keylane.systems.kafka.cluster import explained, is_permanent, open_cluster
from keylane.systems.kafka.reader import TopicReader
from keylane.systems.kafka.transactions import transactional_producer
from keylane.systems.messages.chunks import WantedColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from keylane.aggregation.query import Query
    from keylane.aggregation.registry import RegistrySnapshot
    from keylane.systems.kafka.access import KafkaAccess
    from keylane.systems.kafka.cluster import KafkaCluster

#: How often a writer looks again after another one came between.
_TRIES: Final = 10
_SECONDS: Final = 30.0
_COMPACT: Final = {"cleanup.policy": "compact"}


@contextmanager
def open_query_topic(access: KafkaAccess, topic: str, *, create: bool) -> Iterator[TopicQueries]:
    """The registry in a topic, which is made where there is none and `create` says so."""
    with open_cluster(access) as cluster:
        lanes = cluster.lanes([topic])[topic]
        if not lanes:
            if not create:
                what = f"there is no registry of queries at {access.brokers}"
                raise UsageError.of(what, got=topic, hint="keylane aggregate queries add")
            cluster.create(topic, 1, _COMPACT)
            lanes = cluster.lanes([topic])[topic]
        if lanes != 1:
            what = "a registry of queries has one partition, so that its changes have one order"
            raise TargetError.of(what, got=f"{topic}: {lanes}", allowed="1", hint="another topic")
        if not cluster.is_compacted(topic):
            what = "the topic of a registry is not compacted: queries would be lost with its old records"
            raise TargetError.of(what, got=topic, allowed="cleanup.policy=compact")
        yield TopicQueries(cluster, topic)


@dataclass(slots=True)
class TopicQueries:
    """A registry in a topic."""

    cluster: KafkaCluster
    topic: str
    _known: dict[str, Registered] = field(default_factory=dict)
    _digests: dict[int, str] = field(default_factory=dict)
    _at: int = 0

    def add(self, queries: Sequence[Query]) -> tuple[int, list[str]]:
        """All or none."""
        return self._write(lambda version: added(self._known, queries, version))

    def change(self, ids: Sequence[str], what: str) -> tuple[int, list[str]]:
        """All or none."""
        return self._write(lambda version: changed(self._known, ids, what, version))

    def all(self) -> list[Registered]:
        """By id."""
        self._read()
        return [self._known[one] for one in sorted(self._known)]

    def snapshot(self) -> RegistrySnapshot:
        """Up to the last committed change."""
        self._read()
        return snapshot_of(self._known, self._version(), self._digests.get(self._version(), ""))

    def version(self) -> int:
        """That of the last change."""
        self._read()
        return self._version()

    def digest_of(self, version: int) -> str:
        """As a record of that version has it; nothing where all of them have been replaced, and compacted away."""
        self._read()
        return self._digests.get(version, "")

    def _version(self) -> int:
        return max((one.version for one in self._known.values()), default=0)

    def _read(self) -> None:
        (there,) = self.cluster.settled_ranges(self.topic, 1)
        reader = TopicReader(WantedColumns(values=True), self.cluster.access)
        for chunk in reader.chunks(self.topic, 0, max(self._at, there.start), there.end):
            for offset, key, value in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
                one, digest = _registered(f"{self.topic}/0/{offset}", key, value)
                self._known[one.id] = one
                self._digests[one.version] = digest
        self._at = max(self._at, there.end)

    def _write(self, rule: Callable[[int], list[Registered]]) -> tuple[int, list[str]]:
        from confluent_kafka import KafkaException

        for left in reversed(range(_TRIES)):
            # Behind the fence nobody else writes: what is read now is what is changed.
            producer = transactional_producer(self.cluster, f"keylane.queries.{self.topic}", _SECONDS)
            try:
                self._read()
                version = self._version() + 1
                new = rule(version)
                if new:
                    digest = next_digest(self._digests.get(version - 1, ""), new)
                    producer.begin_transaction()
                    for one in new:
                        producer.produce(self.topic, _text(one, digest), one.id.encode(), 0)
                    producer.commit_transaction(_SECONDS)
            except KafkaException as error:
                if not left or is_permanent(error):
                    raise explained(error, self.cluster.access.brokers, self.cluster.listener) from None
            else:
                self._read()
                return self._version(), [one.id for one in new]
        raise AssertionError


def _text(one: Registered, digest: str) -> bytes:
    document = {"id": one.id, "definition": one.definition, "status": one.status, "version": one.version}
    return json.dumps({**document, "digest": digest}, ensure_ascii=False).encode()


def _registered(place: str, key: bytes | None, value: bytes | None) -> tuple[Registered, str]:
    try:
        found: Any = json.loads(value or b"")
        one = Registered(found["id"], dict(found["definition"]), found["status"], int(found["version"]))
        if one.id.encode() == key and one.status in {"active", "paused", "removed"}:
            return one, str(found.get("digest", ""))
    except (ValueError, KeyError, TypeError):
        pass
    what = "the topic has a record that is no query of a registry"
    raise DataError.of(what, got=place, hint="another topic: one that only keylane writes to")
