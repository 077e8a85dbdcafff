"""What Spark hands over of a folder, compared with what the folder has and with what was taken of it before.

Spark's file source is asked for names only, and is not believed: it leaves out files of its own log that are away at a
restart, files whose names its Java cannot read, and files that it takes for too old. So a batch is made of the names in
Spark's log (`spark_log`), each looked at here; and what this side lists (`listing`) has to be in that log, at the end
of a run or, while it is followed, from time to time. A file is read once: one that has changed since is refused.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import DataError, TargetError
from keylane.systems.checkpoint import WAYS_ON
from keylane.systems.files.listing import as_listed, listed, name_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from keylane.spark.read_parquet import SourceFile
    from keylane.systems.files.spark_log import SparkLog
    from keylane.systems.folders.folder import TakenFile

#: More than these would bury the rest of a message.
_SHOWN: Final = 3
#: A source that is followed is compared this often, and never for more than one part in fifty of the time.
LOOK_SECONDS: Final = 30.0
_PART_OF_TIME: Final = 50
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE: Final = "write a file elsewhere on the same disk, and rename it into the source when it is complete"
#: Size, and time of change in milliseconds.
State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HandedFile:
    """A file of a batch: its path and name, when it was changed by Spark's log, and what it is now."""

    path: str
    name: str
    listed: int
    size: int
    modified: int


@dataclass(slots=True)
class Handover:
    """The files of a source while a route or a match reads them.

    `kind` is of the names that count, None when all do. `there` are the names that the source had when the run began,
    `taken` the files that were read, as they were then, `links` the names of files that a link leads to, `encoding`
    that of file names in Spark's Java, and `batch` the one that is handed over.
    """

    source: Path
    kind: str | None
    there: frozenset[str]
    links: dict[str, str]
    encoding: str
    log: SparkLog | None = None
    taken: dict[str, State] = field(default_factory=dict)
    batch: int = -1
    _read_in: dict[str, int] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _seen: frozenset[str] = frozenset()
    _looked_at: datetime | None = None
    _next_look: float = 0.0

    @classmethod
    def of(cls, source: Path, kind: str | None, encoding: str) -> Handover:
        """The source as it is now; names that Spark cannot read are refused."""
        files = {name_in(source, str(file.path)): file.real for file in listed(source, kind)}
        check_names(files, encoding)
        links = {real: name for name, real in files.items() if real is not None}
        return cls(source, kind, frozenset(files), links, encoding)

    def begin(self, log: SparkLog, taken: Iterable[TakenFile]) -> None:
        """Begin a run that goes on after what was taken; refused when a file of that has changed since.

        So is a log that does not name all of it: Spark would hand it over again, and never what is named instead.
        """
        self.log = log
        self.taken = {file.name: (file.size, file.modified) for file in taken}
        if self.taken:
            log.refresh()
            self._refuse_foreign_log("does not name", [name for name in self.taken if not self._is_logged(name)])
        self._next_look = time.monotonic() + LOOK_SECONDS
        self.check_taken()

    def of_batch(self, batch: int) -> list[HandedFile]:
        """The files of a batch, oldest first, by name where they are of one age; those without a byte come last.

        All that Spark has logged have to be there. What counts under another name, or not at all, is left out. What
        an earlier batch has read is refused: its records would be there twice.
        """
        assert self.log is not None
        files, away = {}, []
        for file in self.log.of_batch(batch):
            name = name_in(self.source, file.path)
            counted = as_listed(self.source, name, self.kind)
            if counted is None:
                continue
            self._refuse_second_name(name, counted.real)
            now = _state(Path(file.path))
            if isinstance(now, str):
                away.append(f"{_printable(name)} ({now})")
            else:
                files[name] = HandedFile(file.path, name, file.modified, *now)
        again = [name for name in files if name in self.taken and self._read_in.get(name, -1) != batch]
        self._refuse_foreign_log("hands over again", again)
        if away:
            raise DataError.of(
                f"files of batch {batch} are not there to be read, and nothing of it was written: {_some(away)}",
                hint="bring them back (is the source mounted?) and run again; "
                "to leave one out for good, put an empty file in its place",
            )
        return sorted(files.values(), key=lambda file: (file.size == 0, file.listed, file.path))

    def read(self, files: Sequence[HandedFile]) -> None:
        """Remember what is read, as it is now."""
        self.taken |= {file.name: (file.size, file.modified) for file in files}
        self._read_in |= dict.fromkeys((file.name for file in files), self.batch)

    def check_taken(self) -> None:
        """Refuse a source with files that have changed since they were read. One that is gone has done its work."""
        changed = []
        for name, then in list(self.taken.items()):  # a batch may add to them meanwhile
            now = _state(self.source if self.source.is_file() else self.source / name)
            if isinstance(now, str) or now == then:
                continue
            changed.append(f"{_printable(name)} ({_shown(then)} then, {_shown(now)} now)")
        if changed:
            raise DataError.of(
                f"files have changed since they were read, and what is new would not be read: {_some(changed)}",
                hint="rename one that was empty then, and it is read as a new one; restore any other with its time of "
                f"change, or move it out of the source, and what is new into a file of another name; {_WHOLE}",
            )

    def check_complete(self) -> None:
        """Refuse to end a run while Spark has not handed over a file that was there when it began."""
        assert self.log is not None
        self.log.refresh()
        self._refuse_unread(name for name in self.there if not self._is_logged(name))
        self.check_taken()

    def look(self, progress: Callable[[], Any]) -> None:
        """The same while the source is followed, when it is time; `progress` asks for that of Spark's query.

        A file that is missing in Spark's log may only be waiting. It is not when Spark has listed the source since and
        found nothing new, or has handed over a younger one that came later: it takes the oldest first.
        """
        assert self.log is not None
        began = time.monotonic()
        if began < self._next_look:
            return
        new = self.log.refresh()
        later = max((file.modified for file in new if name_in(self.source, file.path) not in self._seen), default=None)
        idle = self._looked_at is not None and _idle_since(progress(), self._looked_at)
        self._refuse_unread(
            name
            for name, modified in self._missing.items()
            if not self._is_logged(name) and (idle or (later is not None and modified < later))
        )
        files = {name_in(self.source, str(file.path)): file.real for file in listed(self.source, self.kind)}
        check_names(files, self.encoding)
        self._seen, self._looked_at = frozenset(files), datetime.now(UTC)
        self._missing = {}
        for name in files:
            now = _state(self.source / name) if not self._is_logged(name) else ""
            if not isinstance(now, str):
                self._missing[name] = now[1]
        self.check_taken()
        ended = time.monotonic()
        self._next_look = ended + max(LOOK_SECONDS, _PART_OF_TIME * (ended - began))

    def _is_logged(self, name: str) -> bool:
        assert self.log is not None
        return str(self.source if self.source.is_file() else self.source / name) in self.log.known

    def _refuse_unread(self, names: Iterable[str]) -> None:
        """Those that are still there. One that was removed meanwhile is nobody's loss but its owner's."""
        single = self.source.is_file()
        unread = sorted(name for name in names if os.path.lexists(self.source if single else self.source / name))
        if not unread:
            return
        hint = "rename them into the source again, under other names"
        if (self.source / "_spark_metadata").exists():
            hint = "the source was written by a Spark stream that did not commit them (_spark_metadata): remove them"
        shown = _some([_printable(name) for name in unread])
        raise DataError.of(f"Spark does not see files of the source, and they were not read: {shown}", hint=hint)

    def _refuse_foreign_log(self, does: str, names: Sequence[str]) -> None:
        if names:
            shown = _some([_printable(name) for name in names])
            what = f"Spark's checkpoint does not belong to this target: it {does} files that were read: {shown}"
            raise TargetError.of(what, hint=WAYS_ON)

    def _refuse_second_name(self, name: str, real: str | None) -> None:
        if real is not None and (first := self.links.setdefault(real, name)) != name:
            what = f"{first} and {name} are links to the same, and its records would be read twice"
            raise DataError.of(what, hint=f"remove one of the two links to {real}")


def check_unchanged(files: Sequence[SourceFile]) -> None:
    """Refuse a batch one of whose files is not what it was when the batch began."""
    for file in files:
        now = _state(Path(file.path))
        if now != (file.size, file.modified):
            raise DataError.of(
                f"{file.path} has changed while it was read",
                got=now if isinstance(now, str) else _shown(now),
                allowed=_shown((file.size, file.modified)),
                hint=_WHOLE,
            )


def check_names(names: Iterable[str], encoding: str) -> None:
    """Refuse file names that Spark cannot read: it would pass over the files without a word.

    `encoding` is that of file names in Spark's Java, which its locale decides.
    """
    beyond = [name for name in names if not name.isascii() or ":" in name.rpartition("/")[2]]
    no_utf8 = [_printable(name) for name in beyond if not _is_utf8(name)]
    if no_utf8:
        what = f"the source has file names that are not UTF-8, which Spark cannot read: {_some(no_utf8)}"
        raise DataError.of(what, hint="rename them; convmv -f latin1 -t utf8 does it for many")
    with_colon = [_printable(name) for name in beyond if ":" in name.rpartition("/")[2]]
    if with_colon:
        what = f"the source has file names with a colon, which Spark cannot read: {_some(with_colon)}"
        raise DataError.of(what, hint="rename them")
    if beyond and not _means_utf8(encoding):
        what = f"the Java of this Spark session cannot read file names of the source: {_some(beyond)}"
        raise DataError.of(what, got=encoding, allowed="UTF-8", hint="start Python and Spark under LC_ALL=C.UTF-8")
    if beyond and not _means_utf8(sys.getfilesystemencoding()):
        what = f"this Python does not read file names as UTF-8, as Spark does: {_some(list(map(_printable, beyond)))}"
        raise DataError.of(what, got=sys.getfilesystemencoding(), hint="PYTHONUTF8=1")


def _means_utf8(encoding: str) -> bool:
    return encoding.upper().replace("-", "") == "UTF8"


def _is_utf8(name: str) -> bool:
    try:
        os.fsencode(name).decode()
    except ValueError:
        return False
    return True


def _state(path: Path) -> State | str:
    """What a file is now, or why it is none. The time is as fine as Java reports it."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return "gone"
    except OSError as error:
        return error.strerror or "not readable"
    if not stat.S_ISREG(now.st_mode):
        return "a folder" if stat.S_ISDIR(now.st_mode) else "no regular file"
    return now.st_size, now.st_mtime_ns // 1_000_000


def _shown(state: State) -> str:
    try:
        when = (_EPOCH + timedelta(milliseconds=state[1])).isoformat(timespec="milliseconds")
    except OverflowError:  # a file system may hold years beyond 9999
        when = f"{state[1] / 1000:.3f}"
    return f"{state[0]} bytes of {when}"


def _printable(name: str) -> str:
    """As it is, or escaped: half a character cannot be printed, and others do not belong on a terminal."""
    return name if name.isprintable() else repr(name)[1:-1]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(islice(names, _SHOWN)) + more


def _idle_since(progress: Any, then: datetime) -> bool:
    """Whether Spark has listed the source after that time, and found nothing new."""
    if progress is None or not progress.sources:
        return False
    began = datetime.fromisoformat(progress.timestamp)
    return began > then and all(source.startOffset == source.endOffset for source in progress.sources)
