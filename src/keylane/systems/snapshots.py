"""Snapshots of the state of lanes: one file for each lane, term and position, whole or not there.

    FOLDER/GROUP/TOPIC-LANE/TERM-POSITION.snapshot      a line of JSON about it, then the state as its step wrote it

A snapshot is written under another name, forced to the disk and renamed. No owner ever writes over another's: the
term is part of the name, and the newest term is read first, so that a former owner that wakes up cannot put an old
state in the place of a newer one. One that does not match its checksum is passed over, for the one before it and a
longer replay.

Who writes them: `keylane.systems.kafka.owner`. The folder is the machine's own, or one that all machines share; where a
spare finds none, it rebuilds the state from the beginning of the lane.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError
from keylane.systems.atomic import make_folder, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION: Final = "keylane.snapshot/2"
#: How many of a lane are kept: the newest, and one to fall back on.
KEPT: Final = 2
_ENDING: Final = ".snapshot"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a lane when all records before `position` were applied, by the step of its group."""

    group: str
    topic: str
    lane: int
    term: int
    position: int
    state: bytes
    #: By which a topic that was made anew under the same name is known; empty where brokers have none.
    topic_id: str = ""

    @property
    def name(self) -> str:
        """Sorts by term, then by position."""
        return f"{self.term:020d}-{self.position:020d}{_ENDING}"


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots of a group in a folder, which several groups may share."""

    folder: Path
    group: str

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and remove those that are older than the newest two."""
        home = self._home(snapshot.topic, snapshot.lane)
        if not home.is_dir():
            make_folder(home)
        about = {
            "version": VERSION,
            "group": snapshot.group,
            "topic": snapshot.topic,
            "lane": snapshot.lane,
            "term": snapshot.term,
            "position": snapshot.position,
            "topic_id": snapshot.topic_id,
            "sha256": hashlib.sha256(snapshot.state).hexdigest(),
        }
        write_bytes(home / snapshot.name, json.dumps(about).encode() + b"\n" + snapshot.state)
        for old in self._files(snapshot.topic, snapshot.lane)[KEPT:]:
            old.unlink(missing_ok=True)

    def highest_term(self, topic: str, lane: int) -> int:
        """The highest term of which there is a snapshot of a lane; 0 where there is none."""
        terms = (file.name.partition("-")[0] for file in self._files(topic, lane))
        return max((int(term) for term in terms if term.isdecimal()), default=0)

    def newest(self, topic: str, lane: int) -> tuple[Snapshot | None, list[str]]:
        """The newest snapshot of a lane that is whole, and what is wrong with newer ones."""
        problems: list[str] = []
        for found in self._read(topic, lane):
            if isinstance(found, Snapshot):
                return found, problems
            problems.append(found)
        return None, problems

    def _read(self, topic: str, lane: int) -> Iterator[Snapshot | str]:
        for path in self._files(topic, lane):
            try:
                yield _whole(path.read_bytes(), (self.group, topic, lane))
            except (DataError, OSError) as error:
                yield f"{path}: {error}"

    def _files(self, topic: str, lane: int) -> list[Path]:
        """Newest first."""
        return sorted(self._home(topic, lane).glob(f"[0-9]*{_ENDING}"), reverse=True)

    def _home(self, topic: str, lane: int) -> Path:
        return self.folder / self.group / f"{topic}-{lane}"


def _whole(content: bytes, of: tuple[str, str, int]) -> Snapshot:
    line, _, state = content.partition(b"\n")
    try:
        about: dict[str, Any] = json.loads(line)
        version = about["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError.of("not a snapshot", got=line[:60]) from None
    if version != VERSION:
        raise DataError.of("a snapshot of another version of keylane", got=version, allowed=VERSION)
    try:
        place = about["group"], about["topic"], about["lane"]
        found = Snapshot(*place, about["term"], about["position"], state, about["topic_id"])
        digest = about["sha256"]
    except KeyError:
        raise DataError.of("not a snapshot", got=line[:60]) from None
    if (found.group, found.topic, found.lane) != of or hashlib.sha256(state).hexdigest() != digest:
        raise DataError("the snapshot is damaged")
    return found
