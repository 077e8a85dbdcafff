"""What a folder of source files is: its kind, which of its files count, and the columns that are written in paths.

Everything here looks at names and sizes only, and every command lists files by it. Their records as Arrow batches:
`data`, `stream`; as frames: `keylane.spark`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from keylane.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The kinds of source files, and the endings by which they are known.
KINDS: Final = {"parquet": ("parquet", "pq"), "json": ("json", "jsonl", "ndjson"), "csv": ("csv",)}
ENDINGS: Final = ", ".join(f".{ending}" for endings in KINDS.values() for ending in endings)
_PACKED: Final = ("gz", "bz2", "zst")
_PATTERN_SIGNS = re.compile(r"[\\{}\[\]*?]")
_PATH_VALUE = re.compile(r"([^=]+)=(.*)")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Folders of a keylane target: where a record was, not what it is.
_FOLDERS: Final = ("stream", "lane")


def kind_of(path: Path, given: str | None) -> str:
    """The kind of a source: as given, or by the endings of its files, which have to agree."""
    if not path.exists():
        raise DataError.of("no such source", got=str(path), allowed="a file or folder of Parquet, JSON lines or CSV")
    if _PATTERN_SIGNS.search(str(path)):
        raise UsageError.of("the source's path has a character that Spark reads as a pattern", got=str(path))
    if given is not None:
        return given
    kinds = kinds_in(path)
    if len(kinds) != 1:
        got = ", ".join(sorted(kinds)) or "no file of a known kind"
        raise DataError.of(f"the kind of {path} is not clear", got=got, allowed=", ".join(KINDS), hint="--format")
    return kinds.pop()


def kinds_in(path: Path) -> set[str]:
    """The kinds of the files of a source, by their endings; a file of no known kind has none."""
    return {kind for file in source_files(path, None) for kind in KINDS if _is_of(file.name, kind)}


def pattern_of(kind: str, given: str | None) -> str:
    """Which file names count: those with the kind's endings, or all when the kind was given."""
    if given is not None:
        return "*"
    endings = [ending for one in KINDS[kind] for ending in (one, *(f"{one}.{packed}" for packed in _PACKED))]
    return f"*.{{{','.join(endings)}}}"


def source_files(path: Path, kind: str | None) -> Iterator[Path]:
    """The files of a source, hidden ones and markers left out and links followed, as Spark does it."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if _is_shown(name))
        yield from (Path(folder, n) for n in sorted(names) if _is_shown(n) and (kind is None or _is_of(n, kind)))


def weigh(path: Path, kind: str | None) -> tuple[int, int]:
    """How many files a source has, and how many bytes."""
    sizes = []
    for file in source_files(path, kind):
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:
            continue
    return len(sizes), sum(sizes)


def name_in(source: Path, path: str) -> str:
    """A file's name from the source, which is what a record's position names."""
    return Path(path).name if str(source) == path else Path(path).relative_to(source).as_posix()


def path_values(name: str) -> dict[str, str | None]:
    """The columns that are written in a path.

    >>> path_values("day=2026-11-15/shop=a%2Fb/part-0.parquet")
    {'day': '2026-11-15', 'shop': 'a/b'}
    """
    matches = [_PATH_VALUE.fullmatch(part) for part in Path(name).parts[:-1]]
    pairs = {unquote(part[1]): unquote(part[2]) for part in matches if part}
    return {name: None if value == _NULL else value for name, value in pairs.items() if name not in _FOLDERS}


def _is_shown(name: str) -> bool:
    """As Spark: `_SUCCESS` and `.part.crc` are not data, but `_day=1` is a column."""
    return not name.startswith(".") and not (name.startswith("_") and "=" not in name)


def _is_of(name: str, kind: str) -> bool:
    endings = name.lower().split(".")[1:]
    packed = len(endings) > 1 and endings[-1] in _PACKED
    return bool(endings) and endings[-2 if packed else -1] in KINDS[kind]
