"""Which files Spark has handed over, by the log of its file source; the form of that log is `systems.checkpoint`'s.

A batch has the files of all entries since the batch before. Spark leaves out, without a word, those of its own log that
are away when it reads them; so the log and not Spark's frame says what a batch is made of (`handover`).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from keylane.systems.checkpoint import entry_file, last_entry, log_lines, log_numbers, unreadable

if TYPE_CHECKING:
    from keylane.systems.checkpoint import Folder

_ENTRY: Final = re.compile(r'"batchId":(\d+)\}$')


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file as Spark has listed it: its path, and the time of its last change in milliseconds."""

    path: str
    modified: int


@dataclass(slots=True)
class SparkLog:
    """The log of a source of a checkpoint. `known` are all files that were handed over, as far as it was read.

    `source` is its number: a route has one, a match of files may have two.
    """

    checkpoint: Folder
    source: int = 0
    known: dict[str, int] = field(default_factory=dict)
    _read: int = -1

    def of_batch(self, batch: int) -> list[LoggedFile]:
        """The files of a batch that has begun. Without the end of the batch before, all files would be its."""
        for number in range(max(0, batch - 1), batch + 1):
            log_lines(self.checkpoint / "offsets" / str(number))
        ends = [last_entry(self.checkpoint, number, self.source) for number in (batch - 1, batch)]
        return [file for entry in range(ends[0] + 1, ends[1] + 1) for file in self._files(entry)]

    def refresh(self) -> list[LoggedFile]:
        """Read what was added since the last time, and return it: all of it the first time."""
        log, before = self.checkpoint / "sources" / str(self.source), self._read
        numbers = log_numbers(log)
        last = max(numbers, default=-1)
        merged = max((n for n in numbers if (log / f"{n}.compact").exists()), default=-1)
        new: list[LoggedFile] = []
        if merged > before:
            new += _logged_in(log / f"{merged}.compact", range(before + 1, merged + 1))
        for entry in range(max(before, merged) + 1, last + 1):
            new += self._files(entry)
        self._read = last
        self.known.update((file.path, file.modified) for file in new)
        return new

    def _files(self, entry: int) -> list[LoggedFile]:
        return _logged_in(entry_file(self.checkpoint, self.source, entry), range(entry, entry + 1))


def _logged_in(path: Folder, entries: range) -> list[LoggedFile]:
    """Of a file of the log, those of some entries: a merged one has those of all, and the others are not parsed."""
    numbered = [(line, _ENTRY.search(line)) for line in log_lines(path)[1:]]
    if any(number is None for _, number in numbered):
        raise unreadable(path, "a line is cut")
    return [_logged(path, line) for line, number in numbered if number and int(number[1]) in entries]


def _logged(path: Folder, line: str) -> LoggedFile:
    try:
        file: dict[str, Any] = json.loads(line)
        address = str(file["path"])
        # The path is a URL, in which Java escapes what its grammar asks for, and leaves other letters as they are.
        local = address.removeprefix("file:")
        if "%" in local or not local.isascii():
            local = os.fsdecode(unquote_to_bytes(local))
        return LoggedFile("/" + local.lstrip("/"), int(file["timestamp"]))
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(path, line[:80]) from error
