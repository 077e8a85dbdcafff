"""What a folder of source files is: its kind, which of its files count, and the columns that are written in paths.

One rule for all commands. A file counts when its name has an ending of the kind (in capitals too, and packed), or
whatever its name when the kind was given; and when neither it nor a folder above it is hidden or a marker: names that
begin with `.` or `_`, unless they are a column (`_day=1`), and copies under way (`._COPYING_`). Links are followed, and
a file counts once: under its own name where it has one in the source, and otherwise under that of the link. Two links
to the same are refused, because neither name is the right one, and so is a link to a folder that is in the source
already: Spark would follow it, and one that leads back again and again. Hard links are files of their own.

A folder that is a table of Delta Lake, Iceberg or Hudi is refused, and so is what lies in one and a folder that holds
one: which of its files are data is known to its log, and not to their names.

Everything here looks at names and sizes only. Their records as Arrow batches: `data`, `stream`; as frames:
`keylane.spark`. What Spark's source hands over is compared with this list by `follow`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote

from keylane.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: The kinds of source files, and the endings by which they are known.
KINDS: Final = {"parquet": ("parquet", "pq"), "json": ("json", "jsonl", "ndjson"), "csv": ("csv",)}
ENDINGS: Final = ", ".join(f".{ending}" for endings in KINDS.values() for ending in endings)
_PACKED: Final = ("gz", "bz2", "zst")
_ARROW: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_PATTERN_SIGNS = re.compile(r"[\\{}\[\]*?]")
_PATH_VALUE = re.compile(r"([^=]+)=(.*)")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Folders of a keylane target: where a record was, not what it is.
_FOLDERS: Final = ("stream", "lane")
_LANE: Final = re.compile(r"lane=(\d{1,9})")
_STREAM: Final = re.compile(r"stream=(.*)")


def kind_of(path: Path, given: str | None) -> str:
    """The kind of a source: as given, or by the endings of its files, which have to agree."""
    if not path.exists():
        raise DataError.of("no such source", got=str(path), allowed="a file or folder of Parquet, JSON lines or CSV")
    refuse_patterns(path, "the source")
    _refuse_tables(path)
    if given is not None:
        return given
    kinds = kinds_in(path)
    if len(kinds) != 1:
        got = ", ".join(sorted(kinds)) or "no file of a known kind"
        hint = "--format" if kinds or not _by_tabs(path) else "--format csv --delimiter tab"
        raise DataError.of(f"the kind of {path} is not clear", got=got, allowed=", ".join(KINDS), hint=hint)
    return kinds.pop()


def _by_tabs(path: Path) -> bool:
    """Whether a source has files whose endings say that tabs separate their cells."""
    return any(_ending(file.path.name) == "tsv" for file in _walk(path, lambda name: _ending(name) == "tsv"))


def refuse_patterns(path: Path, what: str) -> None:
    """Refuse a folder that Spark would read others in place of, or none."""
    if _PATTERN_SIGNS.search(str(path)):
        hint = "rename it, or give another"
        raise UsageError.of(f"{what}'s path has a character that Spark reads as a pattern", got=str(path), hint=hint)


def kinds_in(path: Path) -> set[str]:
    """The kinds of the files of a source, by their endings; a file of no known kind has none."""
    known = _walk(path, lambda name: any(_is_of(name, kind) for kind in KINDS))
    return {kind for file in known for kind in KINDS if _is_of(file.path.name, kind)}


def pattern_of(kind: str, given: str | None) -> str:
    """Which file names count: those with the kind's endings, or all when the kind was given."""
    if given is not None:
        return "*"
    endings = [ending for one in KINDS[kind] for ending in (one, *(f"{one}.{packed}" for packed in _PACKED))]
    return f"*.{{{','.join(endings)}}}"


def source_files(path: Path, kind: str | None) -> Iterator[Path]:
    """The files of a source that count, of a kind or, with None, of any name."""
    return (file.path for file in listed(path, kind))


def data_files(path: Path, kind: str | None) -> list[Path]:
    """The files of a source that hold records: those without a byte hold none, of any kind."""
    return [file for file in source_files(path, kind) if os.stat(file).st_size]  # noqa: PTH116  many of them


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that holds records: its path, its name in the source, its size, and the columns in its path, as text."""

    path: str
    name: str
    size: int
    values: dict[str, str | None]


def sized_files(path: Path, kind: str | None) -> list[DataFile]:
    """The files that hold records, in the order of their names, which is the order of positions."""
    found = [(name_in(path, str(file)), str(file), file.stat().st_size) for file in data_files(path, kind)]
    return [DataFile(file, name, size, path_values(name)) for name, file, size in sorted(found)]


def lanes_in(paths: Sequence[str]) -> list[int] | None:
    """The lane that each file lies in, where all lie in lanes of one stream."""
    parts = [path.split("/")[:-1] for path in paths]
    lanes = [[match[1] for part in one if (match := _LANE.fullmatch(part))] for one in parts]
    streams = {tuple(part for part in one if _STREAM.fullmatch(part)) for one in parts}
    return [int(one[-1]) for one in lanes] if all(lanes) and len(streams) == 1 else None


def stream_in(path: str) -> str | None:
    """The stream whose folder a file lies in."""
    streams = [match[1] for part in path.split("/") if (match := _STREAM.fullmatch(part))]
    return streams[-1] if streams else None


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a source, and where it really is when it was reached through a link."""

    path: Path
    real: str | None = None


def listed(path: Path, kind: str | None) -> Iterator[Listed]:
    """As `source_files`, with what links lead to."""
    return _walk(path, _accepts(kind))


def as_listed(source: Path, name: str, kind: str | None) -> Listed | None:
    """A file that somebody else has listed, by its name in the source; None where it does not count here."""
    if source.is_file():
        return Listed(source)
    at, accept = _Folder.root_of(source), _accepts(kind)
    *folders, last = name.split("/")
    for part in folders:
        entered = at.entered(part, is_link=(at.path / part).is_symlink()) if _is_shown(part) else None
        if entered is None:
            return None
        at = entered
    if not _is_shown(last) or not accept(last):
        return None
    return at.file(last, accept, is_link=(at.path / last).is_symlink())


def _accepts(kind: str | None) -> Callable[[str], bool]:
    return lambda name: kind is None or _is_of(name, kind)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder on the way through a source: its path there, where it really is, and the real folders above it.

    `root` is where the source really is. A folder is `plain` when no link has led to it from there.
    """

    path: Path
    real: str
    root: str
    above: frozenset[str] = frozenset()
    plain: bool = True

    @classmethod
    def root_of(cls, source: Path) -> Self:
        """The source itself."""
        real = os.path.realpath(source)
        return cls(source, real, real)

    def entered(self, name: str, *, is_link: bool) -> _Folder | None:
        """A folder in it; None for one that is in the source by itself, or that leads back to where we are."""
        plain, real = self._resolved(name, is_link=is_link)
        above = self.above | {self.real}
        if not plain and (real in above or self._has_of_its_own(real)):
            return None
        return _Folder(self.path / name, real, self.root, above, plain)

    def file(self, name: str, accept: Callable[[str], bool], *, is_link: bool) -> Listed | None:
        """A file in it; None for one that counts under its own name."""
        plain, real = self._resolved(name, is_link=is_link)
        if not plain and self._has_of_its_own(real) and accept(real.rpartition("/")[2]):
            return None
        return Listed(self.path / name, None if plain else real)

    def _resolved(self, name: str, *, is_link: bool) -> tuple[bool, str]:
        real = os.path.realpath(self.path / name) if is_link else f"{self.real.rstrip('/')}/{name}"
        return self.plain and not is_link, real

    def _has_of_its_own(self, real: str) -> bool:
        """Whether the source has it under a name that no link leads to."""
        if real == self.root:
            return True
        inside = f"{self.root.rstrip('/')}/"
        return real.startswith(inside) and all(map(_is_shown, real.removeprefix(inside).split("/")))


#: Tables: the folder of the log, what lies in it, and who writes it. Where a folder in the source is named so, and
#: nothing of the kind lies in it, it is a folder as any other.
_TABLES: Final = (
    ("_delta_log", re.compile(r"\d{20}\..*|_last_checkpoint"), "Delta Lake"),
    ("metadata", re.compile(r".*\.metadata\.json(\.gz)?|version-hint\.text"), "Iceberg"),
    (".hoodie", re.compile(r"hoodie\.properties|.*\.commit"), "Hudi"),
)


def _refuse_tables(path: Path) -> None:
    """Refuse a source that is a table, lies in one, or holds one: removed records are in its files, too."""
    real = Path(os.path.realpath(path))
    for folder in dict.fromkeys((path, *path.absolute().parents, real, *real.parents)):
        _refuse_table(folder, path)
    if path.is_dir():
        for entry in _entries(path, is_root=True):
            if entry.is_dir():
                _refuse_table(Path(entry.path), path)


def _refuse_table(folder: Path, source: Path) -> None:
    for log, named, system in _TABLES:
        try:
            names = os.listdir(folder / log)  # noqa: PTH208  names alone
        except OSError:
            continue
        if any(map(named.fullmatch, names)):
            what = f"{folder} is a table of {system}, whose log says which of its files are data"
            got = f"{source}, which is it"
            if folder != source:
                got = f"{source}, which {'holds it' if folder.is_relative_to(source) else 'lies in it'}"
            hint = "read the table with its own engine, and write its records to a folder of Parquet"
            raise DataError.of(what, got=got, allowed="a file or folder of Parquet, JSON lines or CSV", hint=hint)


def _walk(path: Path, accept: Callable[[str], bool]) -> Iterator[Listed]:
    _refuse_tables(path)
    if path.is_file():
        yield Listed(path)
        return
    reached: dict[str, Path] = {}
    folders = [_Folder.root_of(path)]
    while folders:
        here = folders.pop()
        _refuse_table(here.path, path)
        inner: list[_Folder] = []
        for entry in _entries(here.path, is_root=here.path == path):
            if entry.is_dir():
                folder = here.entered(entry.name, is_link=entry.is_symlink())
                if folder is None:
                    what = f"{entry.path} leads to a folder that the source has already: its files would be read twice"
                    raise DataError.of(what, got=os.path.realpath(entry.path), hint="remove the link")
                _once(reached, folder.real, folder.path, plain=folder.plain)
                inner.append(folder)
            elif accept(entry.name):
                file = here.file(entry.name, accept, is_link=entry.is_symlink())
                if file is not None:
                    _refuse_special(entry)
                    _once(reached, file.real or "", file.path, plain=file.real is None)
                    yield file
        folders += reversed(inner)


def _entries(folder: Path, *, is_root: bool) -> list[os.DirEntry[str]]:
    """Files and folders that are not hidden, in the order of their names."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if _is_shown(entry.name)), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not is_root:
            return []  # removed since it was listed
        raise DataError.of("no such source", got=str(folder)) from error
    except OSError as error:
        raise DataError.of(f"folder {folder} cannot be listed", got=error.strerror) from error


def _once(reached: dict[str, Path], real: str, path: Path, *, plain: bool) -> None:
    """Refuse what two links lead to."""
    if not plain and reached.setdefault(real, path) != path:
        what = f"{reached[real]} and {path} are links to the same, and its records would be read twice"
        raise DataError.of(what, hint=f"remove one of the two links to {real}")


def _refuse_special(entry: os.DirEntry[str]) -> None:
    if not entry.is_file():
        lost = entry.is_symlink() and not Path(entry.path).exists()
        what = "is a link to a file that is not there" if lost else "is neither a file nor a folder"
        raise DataError.of(f"{entry.path} {what}", hint="bring the file back, or remove the name from the source")


def weigh(path: Path, kind: str | None) -> tuple[int, int]:
    """How many files a source has, and how many bytes, as far as it can be listed: for progress only."""
    sizes: list[int] = []
    with suppress(DataError):
        for file in source_files(path, kind):
            with suppress(FileNotFoundError):
                sizes.append(file.stat().st_size)
    return len(sizes), sum(sizes)


def compression_of(name: str) -> str | None:
    """How a file is packed, by its ending, as Arrow calls it; of either case, as Spark reads it.

    >>> compression_of("a.json.GZ"), compression_of("a.csv")
    ('gzip', None)
    """
    return _ARROW.get(name.rpartition(".")[2].lower())


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
    """As Spark: `_SUCCESS` and `.part.crc` are not data, but `_day=1` is a column. `_metadata` is none of a record."""
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
    return not hidden


def _is_of(name: str, kind: str) -> bool:
    return _ending(name) in KINDS[kind]


def _ending(name: str) -> str:
    """The ending of a file's name that says what is in it, without the one of its compression; empty without any."""
    endings = name.lower().split(".")[1:]
    packed = len(endings) > 1 and endings[-1] in _PACKED
    return endings[-2 if packed else -1] if endings else ""
