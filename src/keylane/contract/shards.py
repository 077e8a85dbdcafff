"""The `shards` section of a contract: the text form of a hash key, the files that the section names, what is wrong.

A layout is a JSON file as `keylane shards plan --write` makes it, or a list in the contract; explicit hash keys are a
CSV file of account,hash_key as `keylane shards keys list -o csv` prints it, or a mapping in the contract. A file is
read when the contract is: from then on the contract holds what was in it, and its fingerprint is of that. So a file
that changes makes another contract, and a change is a new epoch. A registry is not named: it changes while records
flow.

Layouts with loads, parents and splits: `keyspace.layout`. The hash keys of accounts: `keyspace.hash_keys`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from itertools import islice
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import shorten
from keylane.formulas import unguarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.contract.yaml_tree import Path, Tree

    Problem = tuple[Path, str]

SPACE: Final = 1 << 128
#: Keys that a shard has at least.
NARROWEST: Final = 2
HASH_KEY_PATTERN: Final = r"^(0|[1-9][0-9]{0,38})$"
HASH_KEY_FORM: Final = "0 to 2**128 - 1 as decimal text: ASCII digits, no sign, no space, no leading zero"
#: UTF-16 units that a partition key has at most.
MOST_UNITS: Final = 256
MAX_HASH_KEYS: Final = 100_000
MAX_FILE_BYTES: Final = 1 << 24
#: Of a layout that is wrong throughout the first problems will do.
MOST_NAMED: Final = 10
AT: Final[Path] = ("spec", "shards")
_FORM: Final = re.compile(r"0|[1-9][0-9]{0,38}", re.ASCII)


def hash_key_problem(text: object) -> str:
    """Why this is no hash key; nothing when it is one.

    >>> [hash_key_problem(text) for text in ("0", "007", str(2**128))]
    ['', 'not a hash key', 'a hash key beyond the key space']
    """
    if not isinstance(text, str) or _FORM.fullmatch(text) is None:
        return "not a hash key"
    return "" if int(text) < SPACE else "a hash key beyond the key space"


def hash_key_in(text: str) -> int | None:
    """The hash key that a text spells; None where `hash_key_problem` has something to say.

    >>> hash_key_in("12"), hash_key_in("012"), hash_key_in(str(2**128))
    (12, None, None)
    """
    number = int(text) if _FORM.fullmatch(text) is not None else SPACE
    return number if number < SPACE else None


def partition_key_units(text: str) -> int | None:
    r"""How many UTF-16 units a partition key has; None where it has half of a surrogate pair.

    >>> partition_key_units("a😀"), partition_key_units("\ud800")
    (3, None)
    """
    try:
        return len(text.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        return None


def gaps(ranges: Iterable[tuple[str, int, int]]) -> Iterator[str]:
    """Holes and overlaps of (id, start, end), ends included, that are in the order of their starts.

    >>> list(gaps([("a", 0, 9), ("b", 8, 2**128 - 1)]))
    ["an overlap from 8 to 9: 'a' and 'b'"]
    """
    last, before = -1, ""
    for id_, start, end in ranges:
        if start > last + 1:
            yield f"a hole from {last + 1} to {start - 1}, before {id_!r}"
        elif start <= last:
            yield f"an overlap from {start} to {min(last, end)}: {before!r} and {id_!r}"
        if end > last:
            last, before = end, id_
    if last < SPACE - 1:
        yield f"a hole from {last + 1} to {SPACE - 1}, behind {before!r}"


# What one field requires of another; hash keys that are none were found when the files were read.


def shard_problems(spec: dict[Any, Any], lanes: int | None, *, live: bool, ranges: bool | None) -> Iterator[Problem]:
    """Every contradiction of the section; `ranges`: whether the partitioner has any, None where it is not known."""
    shards = spec.get("shards")
    if not isinstance(shards, dict):
        return
    if ranges is False:
        yield AT, "only a partitioner with ranges has shards; hint: partitioner: kinesis-md5"
    layout, hash_keys = shards.get("layout"), shards.get("hash_keys")
    if layout and live:
        hint = "hint: lanes: N, or leave layout out and let the stream be asked"
        yield (*AT, "layout"), f"lanes: live asks the stream for its shards, and a layout has them already; {hint}"
    if isinstance(layout, list):
        yield from islice(_layout_problems(layout, lanes), MOST_NAMED)
    if isinstance(hash_keys, dict):
        yield from _hash_key_problems(spec, hash_keys)


def _layout_problems(layout: list[Any], lanes: int | None) -> Iterator[Problem]:
    path: Path = (*AT, "layout")
    if lanes is not None and len(layout) != lanes:
        yield path, f"got {len(layout)} shards; allowed: {lanes}, as many as lanes"
    rows = [row for row in layout if isinstance(row, dict) and {"id", "start", "end"} <= row.keys()]
    counted = Counter(str(row["id"]) for row in rows)
    yield from ((path, f"{count} shards have the id {id_!r}") for id_, count in counted.items() if count > 1)
    known = sorted(((str(row["id"]), int(row["start"]), int(row["end"])) for row in rows), key=lambda one: one[1:])
    for id_, start, end in known:
        if end < start:
            yield path, f"{id_!r} ends before it begins: {start} to {end}"
        elif end - start + 1 < NARROWEST:
            yield path, f"{id_!r} is one key wide, {start}: a shard has at least {NARROWEST} keys"
    if known and len(known) == len(layout):
        yield from ((path, found) for found in gaps(known))


def _hash_key_problems(spec: dict[Any, Any], hash_keys: dict[Any, Any]) -> Iterator[Problem]:
    path: Path = (*AT, "hash_keys")
    if spec.get("table"):
        yield path, "a table gives every key its lane, and hash keys would give some another; hint: one of the two"
    key = spec.get("key")
    fields = key.get("fields") if isinstance(key, dict) else None
    if isinstance(fields, list) and len(fields) > 1:
        yield path, f"an account is one value, and the key has {len(fields)} fields; hint: a key of one field"
    if len(hash_keys) > MAX_HASH_KEYS:
        yield path, f"got {len(hash_keys)} accounts; allowed: up to {MAX_HASH_KEYS}"
    hot = {str(one) for one in _hot_keys(spec)}
    for account in hash_keys:
        units = partition_key_units(str(account))
        if units is None or not 1 <= units <= MOST_UNITS:
            got = "half of a surrogate pair" if units is None else f"{units} UTF-16 units"
            yield path, f"not a partition key: {shorten(account)}: got {got}; allowed: 1 to {MOST_UNITS}"
        if str(account) in hot:
            yield (*path, account), f"given twice: {shorten(account)} has a rule in hot_keys too; hint: one of the two"


def _hot_keys(spec: dict[Any, Any]) -> Iterator[Any]:
    """The keys that have a rule, in whichever form they are written."""
    for rule in _dicts(spec.get("hot_keys")):
        keys = rule.get("keys")
        yield from keys if isinstance(keys, list) else ()
        yield from (one.get("key") for one in _dicts(rule.get("pins")))


def _dicts(value: Any) -> list[dict[Any, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


# Files that the section names, and the hash keys in them.


def read_shard_files(tree: Tree, folder: FilePath | None) -> None:
    """Put what the named files hold in their place.

    A file that cannot be read, and a hash key that is none, is a problem of the tree; what holds it is left out,
    because it would be reported a second time.

    A file lies in the contract's folder or below it. A contract that was given as text has no folder, and names none.
    """
    spec = tree.data.get("spec") if isinstance(tree.data, dict) else None
    shards = spec.get("shards") if isinstance(spec, dict) else None
    if not isinstance(shards, dict):
        return
    if not shards.get("layout") and not shards.get("hash_keys"):
        tree.problem(AT, "layout or hash_keys is required")
    for name, ending, read in (("layout", ".json", _layout), ("hash_keys", ".csv", _accounts)):
        given = shards.get(name)
        try:
            found = _read(given, ending, folder, read) if isinstance(given, str) else given
        except ValueError as error:
            tree.problem((*AT, name), str(error))
            del shards[name]
            continue
        wrong = list(_hash_keys_of(name, found))
        for path, value in wrong:
            tree.problem(path, _not_a_hash_key(value))
        if wrong:
            del shards[name]
        elif isinstance(given, str):
            shards[name] = found


def _hash_keys_of(name: str, found: Any) -> Iterator[tuple[Path, Any]]:
    """The hash keys of a layout, or of accounts, that are none, each with its path."""
    path: Path = (*AT, name)
    if isinstance(found, dict):
        for account, given in found.items():
            if hash_key_problem(given):
                yield (*path, account), given
    for n, row in enumerate(found if isinstance(found, list) else ()):
        for end in ("start", "end"):
            if isinstance(row, dict) and end in row and hash_key_problem(row[end]):
                yield (*path, n, end), row[end]


def _not_a_hash_key(given: Any) -> str:
    hint = '; hint: put it in quotes, "0"' if isinstance(given, int | float) and not isinstance(given, bool) else ""
    return f"{hash_key_problem(given)}: got {shorten(given)}; allowed: {HASH_KEY_FORM}{hint}"


def _read(given: str, ending: str, folder: FilePath | None, read: Callable[[str], Any]) -> Any:
    if folder is None:
        hint = "hint: load the contract from its file, or write them in the contract"
        raise ValueError(f"a contract that is given as text cannot name a file: got {given!r}; {hint}")
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or "\\" in given or path.suffix != ending:
        allowed = f"a {ending} file in the folder of the contract or below it"
        raise ValueError(f"not such a file: got {given!r}; allowed: {allowed}")
    try:
        with (folder / path).open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}: {given}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"the file is too large: {given}; allowed: {MAX_FILE_BYTES} bytes")
    try:
        return read(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not UTF-8: {given}, byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None


def _layout(text: str) -> list[Any]:
    """The open shards of a layout, without their loads and parents."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    rows = document.get("shards") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError('no list of shards; allowed: {"shards": [{"id": "a", "start": "0", "end": "340…455"}, …]}')
    kept = ("id", "start", "end")
    return [
        {name: row[name] for name in kept if name in row} if isinstance(row, dict) else row
        for row in rows
        if not (isinstance(row, dict) and row.get("closed") is True)
    ]


def _accounts(text: str) -> dict[str, str]:
    """The accounts of a CSV with their hash keys."""
    reader = csv.reader(io.StringIO(text, newline=""))
    found: dict[str, str] = {}
    try:
        names = next(reader, [])
        missing = [name for name in ("account", "hash_key") if name not in names]
        if missing:
            raise ValueError(f"no column {' and '.join(missing)}: got {', '.join(names) or 'no line'}")
        account_at, key_at = names.index("account"), names.index("hash_key")
        for row in reader:
            if not row:
                continue
            if len(row) <= max(account_at, key_at):
                raise ValueError(f"line {reader.line_num} has {len(row)} cells; allowed: {len(names)}")
            account, given = unguarded(row[account_at], names), row[key_at]
            if found.setdefault(account, given) != given:
                raise ValueError(f"line {reader.line_num}: {account!r} has two hash keys")
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not CSV: {error}") from None
    if not found:
        raise ValueError("no account; allowed: account,hash_key as the first line, and a line for each account")
    return found
