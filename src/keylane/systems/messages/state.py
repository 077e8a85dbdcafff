"""The state of a route into messages, in a folder of its own: `STATE/_keylane/`.

    head.json          the metadata of the route: its name, contract, source, topics and their lane counts when it began
    parked.json        the keys that are set aside
    plans/B.json       the plan of batch B, written before anything of it is sent
    done/B.json        the result of batch B, written after all of it was committed
    checkpoint/        Spark's own: which records make a batch
    lock               one route at a time

This folder defines what a batch is. One that has a plan and is not done is repeated by that plan: the same records,
lanes and writers, whatever has changed since. One that is done is not repeated. So a kill between any two of these
files changes nothing. A batch is bound to its offsets in Spark's checkpoint, here and, where the system can remember
them, beside its records (`kafka.progress`): an older copy of this folder, or of a part of it, is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from keylane.errors import DataError, TargetError, UsageError
from keylane.records import Parked, RecordLimits
from keylane.systems.checkpoint import batch_offsets, check_checkpoint, drop_unforced
from keylane.systems.folders.folder import Counts, TakenFile
from keylane.systems.identity import same_stream, stream_in
from keylane.systems.journal import (
    OWN,
    Journalled,
    check_oldest,
    damaged,
    decoded,
    document_file,
    documents,
    hold_journal,
    last_document,
    missing,
    read_document,
    write_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.endpoint import ContractChange

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
    csv_null: list[str] = field(default_factory=list)
    delimiter: str = ","

    def differences(self, other: RouteHead) -> list[str]:
        """What differs: this one's value, then the other's. Lane counts and ids are not compared here.

        A stream that has the same name and id at another address is the same one: brokers move, and have many names.
        """
        same = {"route", "topics", "source_id", "topic_ids"}
        if same_stream(self.source, other.source, self.source_id, other.source_id):
            same.add("source")
        if same_stream(self.target, other.target, self.target_id, other.target_id):
            same.add("target")
        return [
            f"{f.name}: {getattr(self, f.name)} here, {getattr(other, f.name)} given"
            for f in fields(self)
            if f.name not in same and getattr(self, f.name) != getattr(other, f.name)
        ]

    @property
    def target_id(self) -> str:
        """What the system knows the target by; nothing where that is not known."""
        return self.topic_ids.get(stream_in(self.target), "")

    def following(self, former: RouteHead, change: ContractChange | None) -> RouteHead:
        """The former head as this one follows it: with the contract and the stream that a change has put in its place.

        Where the change is not that from the former contract to this one, the former head as it is.
        """
        if change is None or (former.fingerprint, self.fingerprint) != (change.old, change.new):
            return former
        streams = (stream_in(former.target), stream_in(self.target))
        return replace(
            former,
            contract=self.contract,
            epoch=self.epoch,
            fingerprint=self.fingerprint,
            target=self.target if streams == (change.old_stream, change.new_stream) else former.target,
            topics=self.topics,
            topic_ids=self.topic_ids,
        )


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch is, beside its records: lane counts, writers (0: one for each source partition), keys it sets aside.

    `dead` is the topic of its dead letters, and `offsets` are those in Spark's checkpoint. `attempt` counts the
    attempts of a batch that is written at least once; those of the others do not differ. `taken` are the files that
    it is made of, as they were then; a topic has none. `limits` are what each topic took of a record then. `begun` is
    set when the cluster has noted that the batch is begun, before its first record.
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
    limits: dict[str, RecordLimits] = field(default_factory=dict)
    begun: bool = False

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read it."""
        parked, taken = (document[name] for name in ("parked", "taken"))
        parts = {"parked": tuple(Parked(**key) for key in parked), "taken": tuple(TakenFile(**one) for one in taken)}
        limits = {topic: RecordLimits(**one) for topic, one in document["limits"].items()}
        return cls(**{**document, **parts, "limits": limits})


@dataclass(frozen=True, slots=True)
class BatchDone:
    """The result of a batch, and of all batches up to it. `lanes` are records by topic and lane, of all batches.

    `taken` are the files of this batch; a topic has none. `parked` is a digest of the keys that are set aside after it.
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
    parked: str = ""

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
class RouteState(Journalled):
    """A state folder whose lock is held."""

    head: RouteHead

    def plan(self, batch: int) -> BatchPlan | None:
        """The plan of a batch, if it has one."""
        plan = self.journal.document("plans", batch)
        return None if plan is None else decoded(document_file(self.path, "plans", batch), plan, BatchPlan.from_json)

    def write_plan(self, plan: BatchPlan) -> None:
        """Write a plan; it survives a power failure once this returns."""
        self.journal.write("plans", plan.batch, asdict(plan))

    def last(self) -> BatchDone:
        """The last batch that is done."""
        return read_last(self.path, self.head)

    def taken(self) -> Iterator[TakenFile]:
        """The source files of the batches that are done and kept, oldest first."""
        yield from taken_files(self.path)

    def write_done(self, done: BatchDone) -> None:
        """Write the result of a batch, and remove what is not needed any more."""
        self.journal.write("done", done.batch, done.as_json(), keep=KEPT)
        self.journal.forget("plans", KEPT)

    def offsets(self, batch: int) -> str:
        """Which records make a batch, by Spark's checkpoint."""
        return batch_offsets(self.checkpoint, batch)

    def check_whole(self) -> None:
        """Refuse a state of which a part is missing, or older than the rest; done before the first batch of a run."""
        # All of them, so that a damaged one is found before it is needed.
        for kind in ("plans", "done"):
            check_oldest(self.path, kind, KEPT)
        plans, _ = documents(self.path, "plans"), documents(self.path, "done")
        last, planned = self.last(), plans[-1]["batch"] if plans else -1
        if planned > last.batch + 1:
            raise missing(document_file(self.path, "done", last.batch + 1))
        if planned < last.batch:
            raise missing(document_file(self.path, "plans", last.batch))
        self._check_parked(last, self.plan(last.batch + 1))
        drop_unforced(self.checkpoint, last.batch, planned)
        check_checkpoint(self.checkpoint, last.batch, last.query, last.offsets)
        if planned > last.batch:
            self.check_same(planned, self.offsets(planned))

    def check_same(self, batch: int, offsets: str) -> None:
        """Refuse a batch that has the number of an earlier one but other records: skipped, they would be lost."""
        written = self.journal.document("done", batch) or self.journal.document("plans", batch)
        if written is None or written.get("offsets") != offsets:
            raise TargetError.of(
                f"batch {batch} was written before, with other records: the Spark checkpoint is older than the route",
                got=offsets,
                allowed=str(written.get("offsets")) if written else "a checkpoint as new as the route",
                hint="restore the newest checkpoint; or start a new route with --start and another --state",
            )

    def parked(self) -> list[Parked]:
        """The keys that are set aside by batches that are done."""
        file = self.journal.own / "parked.json"
        document = read_document(file) or {"parked": []}
        return decoded(file, document, lambda read: [Parked(**key) for key in read["parked"]])

    def write_parked(self, parked: list[Parked]) -> None:
        """Write all keys that are set aside; written before the batch that adds to them is done."""
        write_document(self.journal.own / "parked.json", {"parked": [asdict(key) for key in parked]})

    def _check_parked(self, last: BatchDone, begun: BatchPlan | None) -> None:
        """Refuse keys that are not those of the last batch, nor those that the batch after it adds."""
        parked = self.parked()
        added = {(key.kind, key.key) for key in begun.parked} if begun is not None else set()
        without = [key for key in parked if (key.kind, key.key) not in added]
        if last.parked not in {parked_digest(parked), parked_digest(without)}:
            raise damaged(self.journal.own / "parked.json", f"it is not the one of batch {last.batch}")


def with_parked(known: Sequence[Parked], more: Sequence[Parked]) -> list[Parked]:
    """All keys that are set aside, each once; those of a batch that is done are parked from their first record."""
    by_key = {(key.kind, key.key): key for key in known}
    by_key |= {(key.kind, key.key): replace(key, part=-1, place=-1) for key in more}
    return list(by_key.values())


def parked_digest(parked: Sequence[Parked]) -> str:
    """What a batch remembers of the keys that are set aside; nothing where there are none."""
    if not parked:
        return ""
    return hashlib.sha256(json.dumps([asdict(key) for key in parked], sort_keys=True).encode()).hexdigest()


@contextmanager
def open_state(path: Path, head: RouteHead, change: ContractChange | None = None) -> Iterator[RouteState]:
    """The state of this route, created if missing; locked. That of another route is refused.

    With a `change` it goes on under the contract that has taken the place of the one that it began with.
    """
    check_state(path, head, change)
    with hold_journal(path, "plans", "done") as journal:
        known = check_state(path, head, change)
        if known is None or known.differences(head):
            # Of an attempt that planned nothing: another contract or source may have come after it.
            shutil.rmtree(journal.checkpoint, ignore_errors=True)
            agreed = replace(head, route=uuid4().hex[:16])
        else:
            # Ids that were not known before are: they were compared where the cluster was asked for them.
            ids = replace(known, source_id=head.source_id, topic_ids=head.topic_ids)
            agreed = replace(ids, source=head.source, target=head.target)
        if agreed != read_head(path):
            write_document(journal.own / "head.json", {"format": FORMAT, **asdict(agreed)})
        yield RouteState(journal, agreed)


def check_state(path: Path, head: RouteHead, change: ContractChange | None = None) -> RouteHead | None:
    """Refuse a folder that cannot be the state of this route; nothing in it is changed. What it knows of the route.

    A state without a batch may be recreated, for a command that was refused in its first batch. With a `change` the
    head is given as it goes on behind that.
    """
    if path.exists() and not path.is_dir():
        raise TargetError.of("the state is not a folder", got=str(path), hint="--state")
    if path.exists() and not (path / OWN).exists() and any(path.iterdir()):
        raise TargetError.of("not a state folder of keylane; nothing in it was changed", got=str(path), hint="--state")
    known, begun = read_head(path), _has_begun(path)
    if known is None and begun:
        raise missing(path / OWN / "head.json")
    known = None if known is None else head.following(known, change)
    if known is not None and begun and (differences := known.differences(head)):
        hint = "another --state, or the contract, addresses and options (--csv-null) that this one was made with"
        raise TargetError.of(f"{path} belongs to another route", got="; ".join(differences), hint=hint)
    return known


def read_head(path: Path) -> RouteHead | None:
    """The metadata of a route, without its lock; None when there is no such route."""
    file = path / OWN / "head.json"
    head = read_document(file, FORMAT)
    if head is None:
        return None
    return decoded(file, head, lambda read: RouteHead(**{f.name: read[f.name] for f in fields(RouteHead)}))


def read_begun(path: Path) -> RouteHead | None:
    """The metadata of a route that has begun a batch. A state without one is of a refused command, and binds nobody."""
    return read_head(path) if _has_begun(path) else None


def _has_begun(path: Path) -> bool:
    return last_planned(path) >= 0 or last_document(path, "done")[0] >= 0


def read_last(path: Path, head: RouteHead) -> BatchDone:
    """The last batch that is done, without the lock."""
    number, done = last_document(path, "done")
    nothing = BatchDone.before_all(head)
    if done is None:
        return nothing
    last = decoded(document_file(path, "done", number), done, BatchDone.from_json)
    # Lanes that the streams were given behind this batch, and streams that it did not have, are empty.
    had = {topic: last.lanes.get(topic, []) for topic in nothing.lanes}
    return replace(
        last, lanes={topic: [*had[topic], *none[len(had[topic]) :]] for topic, none in nothing.lanes.items()}
    )


def taken_files(path: Path) -> Iterator[TakenFile]:
    """The source files of the batches that are done and kept, oldest first, without the lock."""
    for done in documents(path, "done"):
        yield from decoded(document_file(path, "done", done["batch"]), done, BatchDone.from_json).taken


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


# Where a state is when nobody says so: one folder for a user, wherever the command is started.

#: Where it was in versions that kept it beside the command.
OLD_STATES: Final = "keylane-state"


def default_state(contract: str, target: str, environment: Mapping[str, str], here: Path) -> Path:
    """The state of a route without `--state`. One in the working folder, of an earlier version, has to be named."""
    name = state_name(contract, target)
    old = here / OLD_STATES / name
    if old.exists():
        raise TargetError.of(
            "this route has a state in the working folder, where an earlier version kept it",
            got=str(old),
            hint=f"--state {old} continues with it; move it away to start a new route",
        )
    given = Path(environment.get("XDG_STATE_HOME", ""))
    if not given.is_absolute():
        try:
            given = Path.home() / ".local" / "state"
        except RuntimeError:
            what = "there is no home folder to keep the state of the route in"
            raise UsageError.of(what, hint="--state DIR, or XDG_STATE_HOME") from None
    return given / "keylane" / "routes" / name


def state_name(contract: str, target: str) -> str:
    """The folder's name when none is given: contract and target, in characters that every file system allows.

    A digest of both keeps apart what these characters do not.

    >>> state_name("payments", "kafka://b1:9092,b2:9092/payments.tx")
    'payments-b1_9092_b2_9092_payments.tx-ada36d33'
    """
    digest = hashlib.sha256(f"{contract}\0{target}".encode()).hexdigest()[:8]
    return f"{contract}-{re.sub(r'[^A-Za-z0-9._-]+', '_', re.sub('^[a-z]+://', '', target))}"[:190] + f"-{digest}"
