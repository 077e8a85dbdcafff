"""Spark's checkpoint as a file format: which records make a batch, forced to the disk, and compared with the target.

    metadata          the identity of the query
    offsets/B         the offsets at which batch B ends; of files a number: {"logOffset":7}
    sources/0/7       the names of the files that are behind that number; 9.compact has those of 0 to 9
    commits/B         batch B has ended

Spark writes `offsets/B` (and `sources`) before a batch, `commits/B` after it, each under another name and renamed, and
forces none of them to the disk. So a batch calls `force_batch` before it writes anything that depends on them, and
what was written last and never forced may be empty after a power failure: `drop_unforced` removes it, because nothing
depends on it. `check_checkpoint` compares the rest with the last batch of the target, by its `batch_offsets`: every
manifest, plan and committed number is bound to them. `check_sums` names what is damaged, once Spark has failed.
Running a query: `spark.streaming`.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from keylane.errors import TargetError
from keylane.systems.atomic import force_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How Spark spells the offset of a source of files.
_FILES: Final = re.compile(r'\{"logOffset":(\d+)\}')
_VERSION: Final = "v1"
#: Version, time and settings; then a line for each source.
_BEFORE_OFFSETS: Final = 2
_SUMS_HEAD: Final = 8
WAYS_ON: Final = "restore the newest checkpoint; or start anew, with another target and state"


class Folder(Protocol):
    """What is asked of a checkpoint, and of what is in it: a Path, or the same on another file system."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def parent(self) -> Self:
        """The folder that it is in."""

    def __truediv__(self, name: str, /) -> Self: ...

    def with_name(self, name: str, /) -> Self:
        """Another file of the same folder."""

    def exists(self) -> bool:
        """Whether it is there."""

    def is_file(self) -> bool:
        """Whether it is there, and no folder."""

    def glob(self, pattern: str, /) -> Iterable[Self]:
        """What is in this folder under names of a pattern."""

    def read_text(self, encoding: str) -> str:
        """Its contents."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove a file."""


AnyFolder = TypeVar("AnyFolder", bound=Folder)


def query_id(checkpoint: Folder) -> str:
    """The identity that Spark gave the query when its checkpoint was created; empty when there is none."""
    metadata = checkpoint / "metadata"
    try:
        return str(json.loads(metadata.read_text(encoding="utf-8"))["id"])
    except TargetError:
        # A file system that does not answer: an empty identity would be committed, and every later run refused.
        if metadata.exists():
            raise
        return ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def batch_offsets(checkpoint: Folder, batch: int) -> str:
    """Which records make a batch: its offsets, without time and settings; of files also a digest of their names."""
    lines = log_lines(checkpoint / "offsets" / str(batch))
    if len(lines) <= _BEFORE_OFFSETS:
        raise unreadable(checkpoint / "offsets" / str(batch), "it has no offsets")
    return "\n".join(
        f"{line}{_names_digest(checkpoint, batch, at, line)}" for at, line in enumerate(lines[_BEFORE_OFFSETS:])
    )


def offsets_digest(offsets: str) -> str:
    """Short enough to stand beside a number in Kafka, long enough that no two batches share it by chance.

    >>> offsets_digest('{"raw":{"0":40}}')
    'b8cbc92bb56d381d39f083878336f4b5'
    """
    return hashlib.sha256(offsets.encode()).hexdigest()[:32]


def force_batch(checkpoint: Folder, batch: int) -> None:
    """Force all that Spark has written up to the start of this batch to the disk, before anything depends on it.

    Another file system than this machine's keeps what was closed by its own rules.
    """
    if not isinstance(checkpoint, Path):
        return
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    files = [checkpoint / "metadata", offsets / str(batch), commits / str(batch - 1)]
    for at, line in enumerate(log_lines(offsets / str(batch))[_BEFORE_OFFSETS:]):
        entries = _entries(checkpoint, batch, at, line)
        # A topic has one entry, the offsets at which the route began.
        files += [entry_file(checkpoint, at, entry) for entry in entries or range(1)]
    sums = [file.with_name(f".{file.name}.crc") for file in files]
    there = [file for file in (*files, *sums) if file.exists()]
    sources = checkpoint / "sources"
    folders = [
        *(file.parent for file in there),
        *([sources] if sources.exists() else []),
        checkpoint,
        checkpoint.parent,
    ]
    force_all([*there, *folders])


def drop_unforced(checkpoint: AnyFolder, last: int, planned: int) -> list[AnyFolder]:
    """Remove what a power failure left empty or cut, where nothing depends on it; the files that were removed.

    `last` is the last batch that is committed, and `planned` the last that anything was written for: what Spark wrote
    up to that batch was forced before, so that a fault in it is damage, and stays to be reported.
    """
    broken: list[AnyFolder] = []
    if planned >= 0 and not (checkpoint / "offsets" / str(planned)).exists():
        return broken
    if planned < 0 and not query_id(checkpoint):
        broken += _cut([checkpoint / "metadata"], whole=False)
    broken += _cut(_numbered_after(checkpoint / "offsets", planned))
    # Spark writes a commit after ours: without it the batch is handed over again, and is found committed.
    broken += _cut(_numbered_after(checkpoint / "commits", last - 1))
    for source in (checkpoint / "sources").glob("[0-9]*"):
        known = last_entry(checkpoint, planned, int(source.name)) if planned >= 0 else -1
        broken += _cut(_numbered_after(source, known))
    for file in broken:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return broken


def check_checkpoint(checkpoint: Folder, batch: int, query: str, offsets: str | None = None) -> None:
    """Refuse a checkpoint that the target was not written with, or an older one of it; None leaves offsets uncompared.

    `batch`, `query` and `offsets` are of the target's last batch. Spark is at that batch, or has begun the next one.
    """
    known = query_id(checkpoint)
    if batch >= 0 and known != query:
        raise TargetError.of(
            f"the target has records, but the Spark checkpoint is not the one they were written with: {checkpoint}",
            got=known or "no readable metadata",
            allowed=query,
            hint="restore the checkpoint folder; or start anew, with another target and state",
        )
    if not known and (checkpoint / "offsets").exists():
        raise unreadable(checkpoint / "metadata", "it is missing")
    if offsets is None:
        return
    begun, ended = (max(log_numbers(checkpoint / log), default=-1) for log in ("offsets", "commits"))
    if ended > batch:
        raise TargetError.of(
            f"the record of a batch is missing that Spark has committed: the target is older than {checkpoint}",
            got=f"batch {ended} in the checkpoint, batch {batch} in the target",
            hint="restore the files of the target or state from the same moment; or start anew, with others",
        )
    if begun > batch + 1:
        raise _not_of(checkpoint, f"batch {begun}", f"batch {batch} or {batch + 1}")
    if begun < batch:
        raise _older(checkpoint, f"batch {begun}" if begun >= 0 else "no batch", f"batch {batch}")
    if batch >= 0 and batch_offsets(checkpoint, batch) != offsets:
        raise _older(checkpoint, batch_offsets(checkpoint, batch), offsets)


def _not_of(checkpoint: Folder, got: str, allowed: str) -> TargetError:
    what = "Spark's checkpoint does not belong to this target: it would repeat or lose records"
    return TargetError.of(f"{what}: {checkpoint}", got=got, allowed=allowed, hint=WAYS_ON)


def _older(checkpoint: Folder, got: str, allowed: str) -> TargetError:
    what = "the Spark checkpoint is older than the target: it would repeat or lose records"
    return TargetError.of(f"{what}: {checkpoint}", got=got, allowed=allowed, hint=WAYS_ON)


def unreadable(path: Folder, how: str) -> TargetError:
    """What a file of a checkpoint is refused with that is not what Spark wrote."""
    return TargetError.of(f"the Spark checkpoint is damaged: {path}", got=how, hint=WAYS_ON)


def check_sums(checkpoint: Path) -> None:
    """Refuse a file that is not what its checksum says, or that is missing where its checksum is there.

    For after a failure: Spark reports what it could not do with a file, and often not which file that was. Checksums
    are those of Hadoop's local file system, `.NAME.crc` beside each file: a head of 8 bytes with the length of a
    chunk, then the CRC-32 of each. Another file system keeps its own, and files without one are not looked at. The
    head is the same in all of them: with another length Spark may run out of memory, and a short file's sum is right.
    """
    found = {sums: _read(sums)[:_SUMS_HEAD] for sums in sorted(checkpoint.rglob(".*.crc"))}
    usual = max(found.values(), key=list(found.values()).count, default=b"")
    for sums, head in found.items():
        if head != usual and sums.exists():
            raise unreadable(sums, "it does not begin as the checksums of other files do")
    for sums in found:
        path = sums.with_name(sums.name[1:].removesuffix(".crc"))
        try:
            known = sums.read_bytes()
            content = path.read_bytes()
        except FileNotFoundError as error:
            # Spark removes what it needs no more, the checksum together with its file.
            if error.filename == str(path) and sums.exists():
                raise unreadable(path, "it is missing") from None
            continue
        if known != known[:_SUMS_HEAD] + _sums(content, int.from_bytes(known[4:_SUMS_HEAD], "big")):
            raise unreadable(path, "its checksum differs: one of the two is not what was written")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _sums(content: bytes, chunk: int) -> bytes:
    """The checksums of all chunks; nothing for a length that is none."""
    starts = range(0, len(content), chunk) if chunk else range(0)
    return b"".join(zlib.crc32(content[at : at + chunk]).to_bytes(4, "big") for at in starts)


# The logs of a checkpoint: files of lines, the first of which is their version.


def log_lines(path: Folder) -> list[str]:
    """The lines of a file of a log, ended by line feeds only: a file name may have other characters that end one."""
    try:
        # The connector for Kafka writes a zero byte first.
        lines = path.read_text(encoding="utf-8").removeprefix("\0").rstrip("\n").split("\n")
    except FileNotFoundError:
        raise unreadable(path, "it is missing") from None
    except ValueError as error:
        raise unreadable(path, str(error)) from None
    if lines[0] != _VERSION:
        raise unreadable(path, "it is empty or cut")
    return lines


def log_numbers(log: Folder) -> list[int]:
    """The numbers of the files of a log."""
    return [int(file.name.partition(".")[0]) for file in log.glob("[0-9]*") if file.name.partition(".")[0].isdigit()]


def _numbered_after(log: AnyFolder, number: int) -> list[AnyFolder]:
    return [file for file in log.glob("[0-9]*") if int(re.split(r"\D", file.name)[0]) > number]


def _cut(files: list[AnyFolder], *, whole: bool = True) -> list[AnyFolder]:
    """Those that are there and empty, or end within a line of their log."""
    return [file for file in files if file.is_file() and (not whole or not _is_whole(file))]


def _is_whole(file: Folder) -> bool:
    try:
        lines = log_lines(file)
        return len(lines) > 1 and all(isinstance(json.loads(line), dict) for line in lines[1:])
    except (TargetError, ValueError, RecursionError):
        return False


# Files: a batch ends at an entry of the source's log, and has all entries since the batch before.


def _names_digest(checkpoint: Folder, batch: int, source: int, line: str) -> str:
    """Files have a number for an offset, and their names in a log of their own: a digest of those."""
    entries = _entries(checkpoint, batch, source, line)
    if not entries:
        return ""
    digest = hashlib.sha256()
    for entry in entries:
        for file in sorted(_entry(checkpoint, source, entry), key=lambda file: str(file.get("path"))):
            digest.update(f"{file.get('path')}\n{file.get('timestamp')}\n".encode("utf-8", "surrogatepass"))
    return f" {digest.hexdigest()}"


def _entries(checkpoint: Folder, batch: int, source: int, line: str) -> range:
    match = _FILES.fullmatch(line)
    return range(0) if match is None else range(last_entry(checkpoint, batch - 1, source) + 1, int(match[1]) + 1)


def last_entry(checkpoint: Folder, batch: int, source: int) -> int:
    """The entry of a source's log at which a batch ends; -1 before the first."""
    path = checkpoint / "offsets" / str(batch)
    if batch < 0 or not path.exists():
        return -1
    lines = log_lines(path)[_BEFORE_OFFSETS:]
    match = _FILES.fullmatch(lines[source]) if source < len(lines) else None
    return -1 if match is None else int(match[1])


def _entry(checkpoint: Folder, source: int, entry: int) -> Iterator[dict[str, Any]]:
    """The files of an entry. Spark merges entries now and then, and later removes those that it has merged."""
    path = entry_file(checkpoint, source, entry)
    try:
        files = [json.loads(line) for line in log_lines(path)[1:]]
        return iter([file for file in files if file["batchId"] == entry])
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(path, f"{type(error).__name__}: {error}") from None


def entry_file(checkpoint: AnyFolder, source: int, entry: int) -> AnyFolder:
    """The file that has an entry of a source's log: its own, or one that it was merged into."""
    log = checkpoint / "sources" / str(source)
    if (plain := log / str(entry)).exists():
        return plain
    merged = sorted(number for number in log_numbers(log) if number >= entry and (log / f"{number}.compact").exists())
    return log / f"{merged[0]}.compact" if merged else plain
