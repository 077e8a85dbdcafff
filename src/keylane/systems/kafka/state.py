"""The state of a route into Kafka, in a folder of its own: `STATE/_keylane/`.

    head.json          the metadata of the route: its name, contract, source, topics and their lane counts when it began
    plans/B.json       the plan of batch B, written before anything of it is sent
    done/B.json        the result of batch B, written after all of it was committed
    checkpoint/        Spark's own: which records make a batch
    lock               one route at a time

The records and the numbers of their batches are in Kafka, together (`spark.kafka_writer`); this folder defines
what a batch is. One that has a plan and is not done is repeated by that plan: the same records, lanes and writers,
whatever has changed since. One that is done is not repeated. So a kill between any two of these files changes
nothing.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from keylane.errors import DataError, TargetError
from keylane.records import Parked
from keylane.systems.atomic import write_json
from keylane.systems.folders.folder import Counts, TakenFile
from keylane.systems.journal import OWN, documents, hold_journal, last_document, read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.atomic import Lock
    from keylane.systems.journal import Journal

FORMAT: Final = "keylane.kafka-route/2"
#: Each is cumulative or needed only until its batch is done; the others are kept for inspection.
KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class RouteHead:
    """What a route is: one contract, one source, one target. `topics` are in the order of their slots.

    `source_id` and `topic_ids` are what the systems know source and topics by, that of the dead letters included;
    nothing where a system has no such id, or did not report it.
    """

    contract: str
    epoch: int
    fingerprint: str
    source: str
    target: str
    topics: dict[str, int]
    kind: str = ""
    pattern: str = ""
    value: str = ""
    route: str = ""
    source_id: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)

    def differences(self, other: RouteHead) -> list[str]:
        """What differs: this one's value, then the other's. Lane counts and ids are not compared here."""
        return [
            f"{f.name}: {getattr(self, f.name)} here, {getattr(other, f.name)} given"
            for f in fields(self)
            if f.name not in {"route", "topics", "source_id", "topic_ids"}
            and getattr(self, f.name) != getattr(other, f.name)
        ]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch is, beside its records: lane counts, writers (0: one for each source partition), keys it sets aside.

    `dead` is the topic of its dead letters, and `offsets` are those in Spark's checkpoint. `attempt` counts the
    attempts of a batch that is written at least once; those of the others do not differ. `taken` are the files that
    it is made of, as they were then; a topic has none.
    """

    batch: int
    topics: dict[str, int]
    writers: int
    made: float
    parked: tuple[Parked, ...] = ()
    exactly_once: bool = True
    dead: str = ""
    offsets: str = ""
    attempt: int = 0
    taken: tuple[TakenFile, ...] = ()

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read it."""
        parked, taken = (document[name] for name in ("parked", "taken"))
        parts = {"parked": tuple(Parked(**key) for key in parked), "taken": tuple(TakenFile(**one) for one in taken)}
        return cls(**{**document, **parts})


@dataclass(frozen=True, slots=True)
class BatchDone:
    """The result of a batch, and of all batches up to it. `lanes` are records by topic and lane, of all batches.

    `taken` are the files of this batch; a topic has none.
    """

    batch: int
    query: str
    counts: Counts
    total: Counts
    lanes: dict[str, list[int]]
    repeated: int = 0
    next_position: int = 0
    taken_files: int = 0
    taken_bytes: int = 0
    schema: str = ""
    offsets: str = ""
    taken: tuple[TakenFile, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As it is written."""
        return {**asdict(self), "counts": self.counts.as_json(), "total": self.total.as_json()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `as_json`."""
        counts = {name: Counts.from_json(document[name]) for name in ("counts", "total")}
        return cls(**{**document, **counts, "taken": tuple(TakenFile(**one) for one in document["taken"])})

    @classmethod
    def before_all(cls, head: RouteHead) -> Self:
        """The state of a route before its first batch."""
        return cls(-1, "", Counts(), Counts(), {topic: [0] * lanes for topic, lanes in head.topics.items()})


@dataclass(frozen=True, slots=True)
class RouteState:
    """A state folder whose lock is held."""

    journal: Journal
    head: RouteHead

    @property
    def path(self) -> Path:
        """The folder."""
        return self.journal.path

    @property
    def lock(self) -> Lock:
        """The lock that is held."""
        return self.journal.lock

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.journal.checkpoint

    def plan(self, batch: int) -> BatchPlan | None:
        """The plan of a batch, if it has one."""
        plan = self.journal.document("plans", batch)
        return None if plan is None else BatchPlan.from_json(plan)

    def write_plan(self, plan: BatchPlan) -> None:
        """Write a plan; it survives a power failure once this returns."""
        self.journal.write("plans", plan.batch, asdict(plan))

    def last(self) -> BatchDone:
        """The last batch that is done."""
        return read_last(self.path, self.head)

    def taken(self) -> Iterator[TakenFile]:
        """The source files of the batches that are done and kept, oldest first."""
        for done in documents(self.path, "done"):
            yield from BatchDone.from_json(done).taken

    def write_done(self, done: BatchDone) -> None:
        """Write the result of a batch, and remove what is not needed any more."""
        self.journal.write("done", done.batch, done.as_json(), keep=KEPT)
        self.journal.forget("plans", KEPT)

    def offsets(self, batch: int) -> str:
        """Which records make a batch, by Spark's checkpoint, without its time and its settings."""
        lines = (self.checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        return "\n".join(f"{line}{self._files(line)}" for line in lines[2:])

    def _files(self, line: str) -> str:
        """Files have a number for an offset, and their names in a log of their own: a digest of those."""
        match = re.fullmatch(r'\{"logOffset":(\d+)\}', line)
        if match is None:
            return ""
        logs = (self.checkpoint / "sources" / "0" / f"{match[1]}{end}" for end in ("", ".compact"))
        return "".join(f" {hashlib.sha256(log.read_bytes()).hexdigest()}" for log in logs if log.exists())

    def check_same(self, batch: int, offsets: str) -> None:
        """Refuse a batch that has the number of an earlier one but other records: skipped, they would be lost."""
        written = self.journal.document("done", batch) or self.journal.document("plans", batch)
        if written is None or written["offsets"] != offsets:
            raise TargetError.of(
                f"batch {batch} was written before, with other records: the Spark checkpoint is older than the route",
                got=offsets,
                allowed=written["offsets"] if written else "a checkpoint as new as the route",
                hint="restore the newest checkpoint; or start a new route with --start and another --state",
            )

    def parked(self) -> list[Parked]:
        """The keys that are set aside by batches that are done."""
        return [Parked(**key) for key in read_document(self.journal.own / "parked.json") or []]

    def write_parked(self, parked: list[Parked]) -> None:
        """Write all keys that are set aside; written before the batch that adds to them is done."""
        write_json(self.journal.own / "parked.json", [asdict(key) for key in parked])


@contextmanager
def open_state(path: Path, head: RouteHead) -> Iterator[RouteState]:
    """The state of this route, created if missing; locked. That of another route is refused."""
    if path.exists() and not (path / OWN).exists() and any(path.iterdir()):
        raise TargetError.of("not a state folder of keylane; nothing in it was changed", got=str(path), hint="--state")
    with hold_journal(path, "plans", "done") as journal:
        yield RouteState(journal, _agreed(journal.own / "head.json", head))


def _agreed(path: Path, new: RouteHead) -> RouteHead:
    document = read_document(path)
    if document is None:
        head = RouteHead(**{**asdict(new), "route": uuid4().hex[:16]})
        write_json(path, {"format": FORMAT, **asdict(head)})
        return head
    if document.pop("format", None) != FORMAT:
        raise TargetError.of("the state folder has another format", got=str(path), allowed=FORMAT)
    head = RouteHead(**document)
    if differences := head.differences(new):
        hint = "another --state, or the contract and addresses that this one was made with"
        raise TargetError.of(f"{path.parent.parent} belongs to another route", got="; ".join(differences), hint=hint)
    # Ids that were not known before are: they were compared where the cluster was asked for them.
    agreed = replace(head, source_id=new.source_id, topic_ids=new.topic_ids)
    if agreed != head:
        write_json(path, {"format": FORMAT, **asdict(agreed)})
    return agreed


def read_head(path: Path) -> RouteHead | None:
    """The metadata of a route, without its lock; None when there is no such route."""
    head = read_document(path / OWN / "head.json")
    return None if head is None else RouteHead(**{f.name: head[f.name] for f in fields(RouteHead)})


def read_last(path: Path, head: RouteHead) -> BatchDone:
    """The last batch that is done, without the lock."""
    done = last_document(path, "done")[1]
    return BatchDone.before_all(head) if done is None else BatchDone.from_json(done)


def last_planned(path: Path) -> int:
    """The last batch that has a plan, without the lock; -1 when there is none."""
    return last_document(path, "plans")[0]


def check_planned(plan: BatchPlan, files: Sequence[SourceFile]) -> None:
    """Refuse to repeat a batch whose files have changed since its plan: what was sent of it is of the files then."""
    now = {file.name: (file.size, file.modified) for file in files}
    for one in plan.taken:
        if now.get(one.name) != (one.size, one.modified):
            got = "{} bytes of {}".format(*now[one.name]) if one.name in now else "gone"
            raise DataError.of(
                f"{one.name} has changed since batch {plan.batch} was begun, and part of that batch may be written",
                got=got,
                allowed=f"{one.size} bytes of {one.modified}",
                hint="restore the file with its time of change, or start a new route into new topics",
            )


def state_name(contract: str, target: str) -> str:
    """The folder's name when none is given: contract and target, in characters that every file system allows.

    >>> state_name("payments", "kafka://b1:9092,b2:9092/payments.tx")
    'payments-b1_9092_b2_9092_payments.tx'
    """
    return f"{contract}-{re.sub(r'[^A-Za-z0-9._-]+', '_', target.removeprefix('kafka://'))}"[:200]
