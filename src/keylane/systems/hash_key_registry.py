"""The registry of hash keys that were handed out: account -> explicit hash key, in one SQLite file.

Every change is one transaction that takes the write lock before it reads (`BEGIN IMMEDIATE`), so that two writers never
see the same free key; a unique index on the key is the second guard. A writer that is killed leaves the file as it was
before its transaction. A new file is made under another name and linked into place, so that a file that is there and
is empty is none of ours. The file needs a file system with locks that work: a local one.

    accounts   account, hash key (16 bytes, big-endian, so that the index is in order), weight in thousandths, origin,
               and a checksum of these, which is compared whenever the row is read
    sums       weights of the upper nodes of the tree, so that the next key needs no scan
    cursors    where the other sequences go on
    changes    the version that each change gave the registry, and a digest that no other copy gives it

An older copy in the place of the file would hand out keys that others have: it is found by the note beside it
(`last_change`). Which key is next: `keyspace.key_tree`. Who sends it: the producer, as the explicit hash key of each
record.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from keylane.contract.shards import MOST_UNITS, partition_key_units
from keylane.errors import TargetError, UnknownNameError, UsageError, did_you_mean
from keylane.keyspace.key_tree import KeyTree, cursor_after_removal, handed_out_anew, next_free, nodes_above, walk
from keylane.keyspace.sequences import SEQUENCES
from keylane.systems.atomic import behind
from keylane.systems.last_change import check_last_change, note_last_change
from keylane.systems.sqlite_transaction import force_commits, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Sequence as SequenceOf

    from keylane.keyspace.key_tree import Step
    from keylane.keyspace.sequences import Sequence

#: "klhk": how SQLite's file says whose it is.
APPLICATION: Final = 0x6B6C686B
VERSION: Final = 3
#: A registry of this version did not count its changes, and is given the table for it.
BEFORE_CHANGES: Final = 2
#: A file up to this size is compared with its indexes whenever it is opened.
COMPARED_BYTES: Final = 4 << 20
#: Seconds that a writer waits for others.
PATIENCE: Final = 60.0
#: Weights are kept as whole thousandths, so that sums are exact however accounts come and go.
UNIT: Final = 1_000
MOST_WEIGHT: Final = 1_000_000_000
ACCOUNT_FORM: Final = "text, not empty and without a null character"
#: A place in a sequence is a number that SQLite can keep.
MOST_CURSOR: Final = 2**63 - 1
Origin: TypeAlias = Literal["tree", "left-right", "halves", "golden", "imported"]

_CHANGES: Final = "CREATE TABLE changes (version INTEGER PRIMARY KEY, digest TEXT NOT NULL)"
_TABLES: Final = (
    """CREATE TABLE accounts (number INTEGER PRIMARY KEY, account TEXT NOT NULL UNIQUE, hash_key BLOB NOT NULL UNIQUE,
    weight INTEGER NOT NULL, origin TEXT NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE TABLE sums (node INTEGER PRIMARY KEY, weight INTEGER NOT NULL)",
    "CREATE TABLE cursors (sequence TEXT PRIMARY KEY, next INTEGER NOT NULL)",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    _CHANGES,
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


@dataclass(frozen=True, slots=True)
class HandedOut:
    """An account and its key; the weight in thousandths."""

    account: str
    key: int
    weight: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class AddedKey:
    """What `add` did: the entry, whether it is new, the weight it had before, and the steps to a key of the tree."""

    entry: HandedOut
    is_new: bool
    former_weight: int | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class ImportedAccount:
    """An account to import; without a key it gets one. `line` is where it stands in its file."""

    line: int
    account: str
    key: int | None
    weight: int | None

    @property
    def kept_weight(self) -> int:
        """Its weight, 1 where none is given."""
        return self.weight or UNIT


@dataclass(frozen=True, slots=True)
class ImportedKeys:
    """What `bring_in` did: entries that are new, known accounts, and those of them whose weight was replaced."""

    new: tuple[HandedOut, ...]
    known: int
    reweighed: tuple[AddedKey, ...]


@dataclass(frozen=True, slots=True)
class MovedKey:
    """An account that `redistribute` gives another key."""

    account: str
    former: int
    key: int


def thousandths(weight: float) -> int:
    """A weight as it is kept; UsageError outside 0.001 to a billion.

    >>> thousandths(1), thousandths(0.25)
    (1000, 250)
    """
    kept = round(weight * UNIT) if weight == weight and abs(weight) <= MOST_WEIGHT else 0  # noqa: PLR0124  NaN
    if kept < 1:
        raise UsageError.of("not a weight", got=weight, allowed=f"{1 / UNIT} to {MOST_WEIGHT}")
    return kept


def check_account(account: str) -> None:
    """UsageError for a text that is no account."""
    if problem := _account_problem(account):
        raise UsageError.of(problem, got=account, allowed=ACCOUNT_FORM)


def check_rows(rows: SequenceOf[ImportedAccount]) -> None:
    """UsageError for rows that no registry takes, so that a new one is not made for them."""
    _refuse_all(_sorted_out(rows, {}, {})[2])


class HashKeyRegistry:
    """An open registry. `open_registry` opens one."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._sql = connection

    def add(self, account: str, weight: int | None = None, sequence: Sequence | None = None) -> AddedKey:
        """The key of an account: the one it has, or the next. A weight that is given replaces the one it had."""
        check_account(account)
        with self._changing():
            known = self._find(account)
            if known is not None:
                return self._weighed(known, weight)
            chosen = sequence or self.sequence or "tree"
            self._sql.execute("INSERT OR IGNORE INTO settings VALUES ('sequence', ?)", (chosen,))
            steps: list[Step] = []
            if chosen == "tree":
                key, steps = walk(self)
            else:
                key, number = next_free(chosen, self, self._cursor(chosen))
                self._sql.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (chosen, number + 1))
            entry = HandedOut(account, key, weight or UNIT, chosen)
            self._insert([entry])
            return AddedKey(entry, True, None, tuple(steps))

    def remove(self, account: str) -> HandedOut:
        """Free the key of an account."""
        check_account(account)
        with self._changing():
            entry = self._find(account)
            if entry is None:
                names = (name for (name,) in self._sql.execute("SELECT account FROM accounts LIMIT 10000"))
                hint = did_you_mean(account, names) or "keys list shows those that have one"
                raise UnknownNameError.of("the account has no hash key", got=account, hint=hint)
            self._sql.execute("DELETE FROM accounts WHERE account = ?", (account,))
            self._count([(entry.key, -entry.weight)])
            for sequence in SEQUENCES[1:]:
                begin = cursor_after_removal(sequence, self._cursor(sequence), entry.key)
                self._sql.execute("UPDATE cursors SET next = ? WHERE sequence = ?", (begin, sequence))
            return entry

    def bring_in(self, rows: SequenceOf[ImportedAccount]) -> ImportedKeys:
        """Take over accounts, with the keys they have or with new ones; all of them, or none and an error.

        A weight that is given for a known account replaces the one it had. An account may be there twice only with
        the same key and weight, since otherwise the order of rows would decide.
        """
        with self._changing():
            known = {entry.account: entry for entry in self.entries()}
            owners = {entry.key: entry.account for entry in known.values()}
            fresh, old, problems = _sorted_out(rows, known, owners)
            _refuse_all(problems)
            weighed = [self._weighed(known[row.account], row.weight) for row in old]
            # New keys go where it is light by the weights that hold from now on.
            known |= {one.entry.account: one.entry for one in weighed}
            tree = KeyTree({entry.key: entry.weight for entry in known.values()})
            for row in fresh:
                if row.key is not None:
                    tree.add(row.key, row.kept_weight)
            # Heaviest first: the order in which the tree is most even.
            made = {row.account: tree.take(row.kept_weight) for row in sorted(fresh, key=_by_weight) if row.key is None}
            keys = {row.account: made.get(row.account, row.key or 0) for row in fresh}
            new = [HandedOut(row.account, keys[row.account], row.kept_weight, _origin(row)) for row in fresh]
            self._insert(new)
            reweighed = tuple(one for one in weighed if one.former_weight is not None)
            return ImportedKeys(tuple(new), len(old), reweighed)

    def redistribute(self, sequence: Sequence | None = None, *, dry_run: bool = False) -> list[MovedKey]:
        """Hand out all keys anew, heaviest account first, and return those that change; a dry run changes nothing.

        A sequence that is given is the registry's from then on, also where no key changes.
        """
        with self._changing(keep=not dry_run):
            old = self.entries()
            chosen = sequence or self.sequence or "tree"
            given = handed_out_anew(((one.account, one.key, one.weight) for one in old), chosen)
            moved = [MovedKey(one.account, one.key, given[one.account]) for one in old if given[one.account] != one.key]
            begins_anew = sequence is not None and sequence != self.sequence
            if (moved or begins_anew) and not dry_run:
                self._sql.execute("DELETE FROM accounts")
                self._sql.execute("DELETE FROM sums")
                self._sql.execute("DELETE FROM cursors")
                self._insert([HandedOut(one.account, given[one.account], one.weight, chosen) for one in old])
                self._sql.execute("INSERT OR REPLACE INTO settings VALUES ('sequence', ?)", (chosen,))
            return moved

    def version(self) -> int:
        """The number of changes, since it counts them."""
        return int(self._sql.execute("SELECT coalesce(max(version), 0) FROM changes").fetchone()[0])

    def digest_of(self, version: int) -> str:
        """Of a change; nothing where the registry never had one of that version."""
        found = self._sql.execute("SELECT digest FROM changes WHERE version = ?", (version,)).fetchone()
        return "" if found is None else str(found[0])

    def size(self) -> int:
        """How many accounts have a key."""
        return int(self._sql.execute("SELECT count(*) FROM accounts").fetchone()[0])

    def entries(self) -> list[HandedOut]:
        """Every account, in the order they came."""
        found = self._sql.execute("SELECT account, hash_key, weight, origin, checksum FROM accounts ORDER BY number")
        return [_entry(row) for row in found]

    @property
    def sequence(self) -> Sequence | None:
        """The sequence that the registry was begun with; None when nothing was handed out yet."""
        found = self._sql.execute("SELECT value FROM settings WHERE name = 'sequence'").fetchone()
        if found and found[0] not in SEQUENCES:
            raise _damaged(self.path, "its sequence is none")
        return cast("Sequence", found[0]) if found else None

    # What the walk asks: `key_tree.Weights`.

    def weight_of(self, key: int) -> int:
        """The weight of a key; 0 when it is not in use."""
        found = self._sql.execute("SELECT weight FROM accounts WHERE hash_key = ?", (_blob(key),)).fetchone()
        return int(found[0]) if found else 0

    def node(self, number: int) -> int:
        """The weight at and below a node of the upper levels."""
        found = self._sql.execute("SELECT weight FROM sums WHERE node = ?", (number,)).fetchone()
        return int(found[0]) if found else 0

    def between(self, low: int, high: int) -> tuple[int, int]:
        """Weight and number of the keys from `low` up to `high`."""
        asked = "SELECT coalesce(sum(weight), 0), count(*) FROM accounts WHERE hash_key BETWEEN ? AND ?"
        weight, number = self._sql.execute(asked, (_blob(low), _blob(high - 1))).fetchone() if high > low else (0, 0)
        return int(weight), int(number)

    def _find(self, account: str) -> HandedOut | None:
        asked = "SELECT account, hash_key, weight, origin, checksum FROM accounts WHERE account = ?"
        found = self._sql.execute(asked, (account,)).fetchone()
        return _entry(found) if found else None

    def _weighed(self, known: HandedOut, weight: int | None) -> AddedKey:
        if weight is None or weight == known.weight:
            return AddedKey(known, False, None, ())
        entry = HandedOut(known.account, known.key, weight, known.origin)
        changed = "UPDATE accounts SET weight = ?, checksum = ? WHERE account = ?"
        self._sql.execute(changed, (weight, _checksum(entry), known.account))
        self._count([(known.key, weight - known.weight)])
        return AddedKey(entry, False, known.weight, ())

    def _cursor(self, sequence: Sequence) -> int:
        found = self._sql.execute("SELECT next FROM cursors WHERE sequence = ?", (sequence,)).fetchone()
        if found and (not isinstance(found[0], int) or not 1 <= found[0] < MOST_CURSOR):
            raise _damaged(self.path, f"the place in {sequence} is none")
        return int(found[0]) if found else 1

    def _insert(self, entries: Iterable[HandedOut]) -> None:
        new = list(entries)
        rows = [(one.account, _blob(one.key), one.weight, one.origin, _checksum(one)) for one in new]
        into = "INSERT INTO accounts (account, hash_key, weight, origin, checksum) VALUES (?, ?, ?, ?, ?)"
        self._sql.executemany(into, rows)
        self._count((one.key, one.weight) for one in new)

    def _count(self, changes: Iterable[tuple[int, int]]) -> None:
        sums: Counter[int] = Counter()
        for key, weight in changes:
            for node in nodes_above(key):
                sums[node] += weight
        added = "INSERT INTO sums VALUES (?, ?) ON CONFLICT (node) DO UPDATE SET weight = weight + excluded.weight"
        self._sql.executemany(added, sums.items())

    @contextmanager
    def _changing(self, *, keep: bool = True) -> Iterator[None]:
        """One transaction, with the write lock from its beginning."""
        try:
            with transaction(self._sql, keep=keep):
                before = self._sql.total_changes
                yield
                changed = keep and self._sql.total_changes > before
                if changed:
                    # By chance, so that an older copy that is changed as this one was has another.
                    into = "INSERT INTO changes (digest) VALUES (?)"
                    self._sql.execute(into, (token_hex(8),))
            if changed:
                # Behind the commit, and one writer at a time.
                with transaction(self._sql, keep=False):
                    note_last_change(self.path, self.version(), self.digest_of(self.version()))
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error


@contextmanager
def open_registry(path: Path, *, create: bool = False) -> Iterator[HashKeyRegistry]:
    """Open a registry; with `create` a new one where there is no file."""
    if not create and not path.exists():
        raise UsageError.of("there is no registry", got=str(path), hint="keylane shards keys add makes one")
    there = path.exists()
    if (there and not path.is_file()) or not path.absolute().parent.is_dir():
        raise UsageError.of("not a place for a registry", got=str(path), allowed="a file in a folder that is there")
    try:
        if create and not there:
            _make(behind(path))
        found = _connected(path, "rw")
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    except OSError as error:
        raise TargetError.of(f"the registry cannot be made: {error.strerror}", got=str(path)) from error
    with closing(found) as connection:
        try:
            _check_whole(path, connection)
            registry = HashKeyRegistry(path, connection)
            check_last_change(path, registry.digest_of, registry.version())
            # Errors of whoever reads in the block come up here too.
            yield registry
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        except UnicodeDecodeError:
            raise _damaged(path, "a name is not text") from None


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)


def _make(path: Path) -> None:
    """A new registry, whole before it has its name; where another process was faster, that one's stays."""
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:
        new = Path(folder) / "new"
        with closing(_connected(new, "rwc")) as connection:
            force_commits(connection)
            for statement in _TABLES:
                connection.execute(statement)
        with suppress(FileExistsError):
            os.link(new, path)


def _check_whole(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that is something else, or that is damaged as far as can be seen without reading all of it."""
    force_commits(connection)
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner != APPLICATION:
        raise _foreign(path)
    if version == BEFORE_CHANGES:
        with transaction(connection):
            connection.execute(_CHANGES.replace("TABLE", "TABLE IF NOT EXISTS", 1))
            connection.execute(f"PRAGMA user_version = {VERSION}")
        version = VERSION
    if version != VERSION:
        raise UsageError.of("a registry of another version of keylane", got=version, allowed=str(VERSION))
    size = path.stat().st_size
    if size % connection.execute("PRAGMA page_size").fetchone()[0]:
        raise _damaged(path, "the file is cut")
    if size <= COMPARED_BYTES and (found := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise _damaged(path, found)


def _foreign(path: Path) -> UsageError:
    hint = "another --registry FILE; if it was one, restore it from a copy"
    what = (
        "the file is empty: not a registry of hash keys" if not path.stat().st_size else "not a registry of hash keys"
    )
    return UsageError.of(what, got=str(path), hint=hint)


def _damaged(path: Path | str, how: str) -> TargetError:
    hint = "restore it from a copy: keys that it hands out now may belong to others"
    return TargetError.of(f"the registry is damaged: {how}", got=str(path), hint=hint)


def _unusable(path: Path, error: sqlite3.Error) -> TargetError | UsageError:
    if "not a database" in str(error):
        return _foreign(path)
    if "decode" in str(error):
        return _damaged(path, "a name is not text")
    hint = "another writer holds it: try again" if "locked" in str(error) else ""
    hint = "the file is damaged: restore it from a copy" if "malformed" in str(error) else hint
    return TargetError.of(f"the registry cannot be used: {error}", got=str(path), hint=hint)


def _sorted_out(
    rows: SequenceOf[ImportedAccount], known: dict[str, HandedOut], owners: dict[int, str]
) -> tuple[list[ImportedAccount], list[ImportedAccount], list[str]]:
    """The rows that are new, those of known accounts, each account once, and what is wrong with the others."""
    fresh: list[ImportedAccount] = []
    old: list[ImportedAccount] = []
    problems: list[str] = []
    seen: dict[str, ImportedAccount] = {}
    owners = dict(owners)
    for row in rows:
        if problem := _account_problem(row.account):
            problems.append(f"line {row.line}: {problem}: got {row.account!r}")
            continue
        before, had = seen.setdefault(row.account, row), known.get(row.account)
        if before is not row:
            if (before.key, before.weight) != (row.key, row.weight):
                lines = f"lines {before.line} and {row.line}"
                problems.append(f"{row.account!r} is in {lines}, with another key or weight: leave one of them")
        elif had is not None:
            if row.key not in (None, had.key):
                fence = "re-keying needs a fence"
                problems.append(f"line {row.line}: {row.account!r} has another key in the registry; {fence}")
            old.append(row)
        elif row.key is not None and row.key in owners:
            problems.append(f"line {row.line}: the key of {row.account!r} belongs to {owners[row.key]!r}")
        else:
            fresh.append(row)
            if row.key is not None:
                owners[row.key] = row.account
    return fresh, old, problems


def _refuse_all(problems: SequenceOf[str]) -> None:
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if problems[5:] else "")
        raise UsageError.of(f"nothing was imported: {shown}")


def _account_problem(account: str) -> str:
    """What keeps a text from being an account; empty where nothing does."""
    units = partition_key_units(account)
    if units is None:
        return "an account is text"
    if units > MOST_UNITS:
        return f"an account is a partition key, of at most {MOST_UNITS} UTF-16 units"
    return "not an account" if not account or "\0" in account else ""


def _by_weight(row: ImportedAccount) -> int:
    return -row.kept_weight


def _origin(row: ImportedAccount) -> Origin:
    return "tree" if row.key is None else "imported"


def _blob(key: int) -> bytes:
    return key.to_bytes(16, "big")


def _entry(row: tuple[str, bytes, int, str, int]) -> HandedOut:
    """A row as it was written; an error where its checksum is another."""
    account, key, weight, origin, checksum = row
    kinds = [type(one) for one in row]
    if kinds == [str, bytes, int, str, int]:
        entry = HandedOut(account, int.from_bytes(key, "big"), weight, cast("Origin", origin))
        if len(key) == 16 and _checksum(entry) == checksum:
            return entry
    raise _damaged(f"account {account!r}", "a row is not what was written")


def _checksum(entry: HandedOut) -> int:
    text = "\0".join((entry.account, str(entry.key), str(entry.weight), entry.origin))
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")
