"""`keylane shards keys`: hash keys for accounts, handed out evenly and kept in a registry."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.output import Result, Section, output_option
from keylane.cli.shards_plan import along
from keylane.cli.terminal import note
from keylane.formulas import KEYS_HEAD, unguarded
from keylane.numbers import count, percent, plural
from keylane.pipelines.shards_files import csv_rows, text_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.documents.shards import AccountKey, ReplacedWeight
    from keylane.systems.hash_key_registry import AddedKey, HandedOut, ImportedAccount

#: Why a key is not changed lightly.
FENCE: Final = (
    "another hash key moves an account to another shard, and its records there may overtake those that are still "
    "unread in the old one: it needs a fence (stop writing, read the old shard to its end, go on). Moving a boundary "
    "of a shard needs none"
)
MOVES: Final = ("account", "former_key", "hash_key")
#: Rows of a change that a table shows; all of them are in the other formats.
SHOWN: Final = 50
#: Names to copy.
_NAMES: Final = ("account", "hash_key")
#: Columns of the drawing, which has a power of two of them; levels of the tree, and of the halves.
_WIDTH, _TREE_LEVELS, _HALF_LEVELS = 64, 5, 3
_SMALL: Final = (
    "{} below 2**96, such as {}: small numbers like these all lie on the first shard. A hash key is a place in the "
    "space of 2**128, not the number of a shard"
)

_registry: Final = click.option(
    "--registry",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The registry, one SQLite file; `add` and `import` make it.",
)
_sequence: Final = click.option(
    "--sequence",
    type=click.Choice(["tree", "left-right", "halves", "golden"]),
    help="The order of keys; default: that of the registry, which is tree unless it was begun with another.",
)


def plain_number(text: str) -> float:
    """A number in ASCII digits; ValueError for what `float` takes beside it, as other digits and underscores."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def _weight_given(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    from keylane.errors import UsageError
    from keylane.systems.hash_key_registry import thousandths

    try:
        return None if text is None else thousandths(plain_number(text))
    except UsageError as error:
        raise click.UsageError(f"{option.opts[0]}: {error}") from None
    except ValueError:
        raise click.UsageError(f"{option.opts[0]} takes a number, got {text!r}") from None


@click.group(short_help="Hash keys for accounts, handed out evenly and kept.")
def keys() -> None:
    """Hand out explicit hash keys to accounts, evenly over the key space, and keep them in a registry.

    A key is handed out once; an account that is asked for again has the key that it had. Several processes may write
    to one registry, and one that is killed leaves it as it was.

    \b
    keylane shards keys add acme --registry keys.sqlite
    keylane shards keys import today.csv --registry keys.sqlite
    keylane shards keys redistribute --registry keys.sqlite --dry-run
    """


@keys.command(short_help="The hash key of an account: the one it has, or the next balanced one.")
@click.argument("account", metavar="ACCOUNT")
@_registry
@click.option(
    "--weight",
    callback=_weight_given,
    metavar="FLOAT",
    help="Its volume beside the others', 0.001 or more; default: 1.",
)
@_sequence
@click.option("--explain", is_flag=True, help="Draw the tree and the halves, and the steps to the key.")
@output_option
def add(
    account: str, registry: Path, weight: int | None, sequence: Any, explain: bool, output: str
) -> tuple[Result, str]:
    """Print the hash key of an account; one that has none gets the next balanced key.

    With --sequence tree, the key goes where the lighter half is, level by level, around keys that were removed or
    imported. An account that has a key keeps it; --weight replaces its weight.
    """
    from keylane.documents.shards import ShardKeyDocument
    from keylane.keyspace.hash_keys import at_share
    from keylane.systems.hash_key_registry import check_account, open_registry

    check_account(account)
    with open_registry(registry, create=True) as found:
        done = found.add(account, weight, sequence)
        entries = found.entries() if explain else []
        number = len(entries) if explain else found.size()
    entry = done.entry
    document = ShardKeyDocument(
        account=account,
        hash_key=str(entry.key),
        at=at_share(entry.key),
        weight=_weight(entry.weight),
        former_weight=None if done.former_weight is None else _weight(done.former_weight),
        origin=entry.origin,
        new=done.is_new,
        accounts=number,
        registry=str(registry),
        steps=_steps(done) if explain else None,
    )
    answer = [f"{account}: hash key {entry.key}, {percent(document.at)} along the key space"]
    answer += [] if done.is_new else ["the account had it already"]
    lines = [*_walked(done), "", *drawn(entries, entry.key)] if explain else []
    return Result(document, [Section(KEYS_HEAD, [_shown(entry)], unbroken=_NAMES)], lines, answer=answer), output


@keys.command("list", short_help="All accounts with their hash keys.")
@_registry
@output_option
def list_(registry: Path, output: str) -> tuple[Result, str]:
    """Print every account with its hash key, in the order they came."""
    from keylane.documents.shards import ShardKeysDocument
    from keylane.systems.hash_key_registry import open_registry

    with open_registry(registry) as found:
        entries, sequence = found.entries(), found.sequence
    warnings = _warnings(entry.key for entry in entries)
    document = ShardKeysDocument(
        registry=str(registry),
        sequence=sequence,
        total_weight=_weight(sum(entry.weight for entry in entries)),
        keys=[_account_key(entry) for entry in entries],
        warnings=warnings,
    )
    answer = [f"{plural(len(entries), 'account')}, heaviest eighth of the space: {percent(_heaviest(entries))}"]
    rows = [_shown(entry) for entry in entries]
    return Result(document, [Section(KEYS_HEAD, rows, unbroken=_NAMES)], warnings, answer=answer), output


@keys.command(short_help="Free the hash key of an account.")
@click.argument("account", metavar="ACCOUNT")
@_registry
@output_option
def remove(account: str, registry: Path, output: str) -> tuple[Result, str]:
    """Remove an account. Its hash key is free, and the next account may get it."""
    from keylane.documents.shards import ShardKeyRemovedDocument
    from keylane.systems.hash_key_registry import open_registry

    with open_registry(registry) as found:
        entry = found.remove(account)
        number = found.size()
    document = ShardKeyRemovedDocument(
        account=account, hash_key=str(entry.key), accounts=number, registry=str(registry)
    )
    answer = [f"removed {account}: hash key {entry.key} is free", f"{plural(number, 'account')} left"]
    rows = [{"account": account, "hash_key": str(entry.key)}]
    return Result(document, [Section(_NAMES, rows, unbroken=_NAMES)], answer=answer), output


@keys.command("import", short_help="Take over accounts from a list, with the keys they have.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@_registry
@output_option
def import_(file: Path, registry: Path, output: str) -> tuple[Result, str]:
    """Take over accounts from CSV with the columns account, hash_key and, if there is one, weight; or from JSON.

    What `list` prints with -o csv or -o json is taken as it is.

    A row without a hash key gets the next balanced one, the heaviest account first. All rows are taken, or none: a key
    that belongs to another account, another key for a known account, or an account in two rows that differ, is an
    error. A weight that is given for a known account replaces the one it had.
    """
    from keylane.documents.shards import ShardKeysImportDocument
    from keylane.systems.hash_key_registry import check_rows, open_registry

    rows = rows_of(file)
    check_rows(rows)
    with open_registry(registry, create=True) as found:
        done = found.bring_in(rows)
        number = found.size()
    without = {row.account for row in rows if row.key is None}
    handed_out = sum(entry.account in without for entry in done.new)
    warnings = _warnings(row.key for row in rows if row.key is not None)
    document = ShardKeysImportDocument(
        imported=len(done.new),
        handed_out=handed_out,
        known=done.known,
        reweighed=[_reweighed(one) for one in done.reweighed],
        accounts=number,
        registry=str(registry),
        keys=[_account_key(entry) for entry in done.new],
        warnings=warnings,
    )
    _note(warnings, output)
    known = f"{count(done.known)} {'was' if done.known == 1 else 'were'} known"
    answer = [f"imported {plural(len(done.new), 'account')}, {known}; {plural(number, 'account')} in the registry now"]
    answer += [f"{count(handed_out)} came without a key and got one"] if handed_out else []
    sections = [
        *_first_shown(Section(KEYS_HEAD, [_shown(entry) for entry in done.new], unbroken=_NAMES)),
        Section(("account", "former_weight", "weight"), document.reweighed, "Weights that were replaced:"),
    ]
    return Result(document, sections, warnings, answer=answer), output


@keys.command(short_help="Hand out all keys anew; with --dry-run only say which would change.")
@_registry
@_sequence
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would move.")
@output_option
def redistribute(registry: Path, sequence: Any, dry_run: bool, output: str) -> tuple[Result, str]:
    """Hand out all keys from scratch, the heaviest account first, and print the accounts that get another key.

    An account whose key is among the new ones for its weight keeps it. Re-keying an account needs a fence.
    """
    from keylane.documents.shards import KeyMove, ShardKeysMovedDocument
    from keylane.systems.hash_key_registry import open_registry

    with open_registry(registry) as found:
        old = found.entries()
        moved = found.redistribute(sequence, dry_run=dry_run)
        chosen = sequence or found.sequence or "tree"
    new_keys = {one.account: one.key for one in moved}
    after = [(new_keys.get(one.account, one.key), one.weight) for one in old]
    warnings = [FENCE] if moved else []
    document = ShardKeysMovedDocument(
        dry_run=dry_run,
        sequence=chosen,
        accounts=len(old),
        moved=len(moved),
        heaviest_eighth_before=_heaviest(old),
        heaviest_eighth_after=_heaviest_of(after),
        registry=str(registry),
        moves=[KeyMove(account=one.account, former_key=str(one.former), hash_key=str(one.key)) for one in moved],
        warnings=warnings,
    )
    _note(warnings, output)
    would = "would get" if dry_run else "have"
    before, now = document.heaviest_eighth_before, document.heaviest_eighth_after
    answer = [
        f"{count(len(moved))} of {count(len(old))} accounts {would} another hash key",
        f"heaviest eighth of the space: {percent(before)} of the weight before, {percent(now)} after",
    ]
    short = dict.fromkeys(("former_key", "hash_key"), along)
    section = Section(MOVES, document.moves, "Accounts:", unbroken=_NAMES, short=short)
    return Result(document, _first_shown(section), warnings, answer=answer), output


# What is read.


def rows_of(file: Path) -> list[ImportedAccount]:
    """The accounts of a file; every problem of it in one error."""
    from keylane.contract.shards import HASH_KEY_FORM, hash_key_problem
    from keylane.errors import UsageError
    from keylane.systems.hash_key_registry import ImportedAccount, thousandths

    rows, problems, text = [], [], text_in(file)
    is_json = text.lstrip().startswith("{")
    columns = "account,hash_key as the first line, and weight where accounts differ"
    for line, row in _listed(file, text) if is_json else csv_rows(file, ("account",), columns):
        key, weight, kept = row.get("hash_key", ""), row.get("weight", ""), None
        try:
            kept = thousandths(plain_number(weight)) if weight else None
        except (ValueError, UsageError):
            problems.append(f"line {line}: not a weight: got {weight!r}")
        if key and (problem := hash_key_problem(key)):
            problems.append(f"line {line}: {problem}: got {key!r}; allowed: {HASH_KEY_FORM}")
        elif not row["account"]:
            problems.append(f"line {line}: no account")
        else:
            try:
                account = row["account"] if is_json else unguarded(row["account"], [*row])
            except ValueError as error:
                problems.append(f"line {line}: {error}")
            else:
                rows.append(ImportedAccount(line, account, int(key) if key else None, kept))
    if problems:
        more = f"; and {len(problems) - 5} more" if problems[5:] else ""
        raise UsageError.of(f"nothing was imported: {'; '.join(problems[:5])}{more}")
    return rows


def _listed(file: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of the JSON that `list -o json` prints, each with its number."""
    from keylane.documents.shards import ShardKeysDocument
    from keylane.errors import UsageError

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError.of(f"the file is not JSON: {error}", got=str(file)) from None
    for number, one in enumerate(ShardKeysDocument.from_json(found).keys, 1):
        yield number, {"account": one.account, "hash_key": one.hash_key, "weight": str(one.weight)}


# What is shown.


def _first_shown(section: Section) -> list[Section]:
    """A section whose table has only its first rows where there are many: an import may have thousands."""
    rows = len(section.rows)
    if rows <= SHOWN:
        return [section]
    first = replace(section, rows=section.rows[:SHOWN], title=f"Accounts, the first {SHOWN} of {count(rows)}:")
    return [replace(section, for_programs=True), first]


def _steps(done: AddedKey) -> list[Any]:
    from keylane.documents.shards import KeyStep

    return [
        KeyStep(middle=str(one.middle), left=_weight(one.left), right=_weight(one.right), went=one.went)
        for one in done.steps
    ]


def _walked(done: AddedKey) -> list[str]:
    """The walk in words, a line for each level."""
    lines = [
        f"level {level}: {_power(one.middle)} is in use; before it {_weight(one.left):g}, from it on "
        f"{_weight(one.right):g}: go {one.went}"
        for level, one in enumerate(done.steps, 1)
    ]
    last = f"level {len(lines) + 1}: {_power(done.entry.key)} is free: taken"
    return [*lines, last] if done.is_new and done.entry.origin == "tree" else lines


def _power(key: int) -> str:
    """A key as an odd number times a power of two, where that is shorter.

    >>> _power(2**127), _power(3 * 2**126), _power(2**90 + 1)
    ('2**127', '3 * 2**126', '1237940039285380274899124225')
    """
    zeros = (key & -key).bit_length() - 1 if key else 0
    odd = key >> zeros
    if zeros < _WIDTH:
        return str(key)
    return f"2**{zeros}" if odd == 1 else f"{odd} * 2**{zeros}"


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a node of the drawn tree is: in use, free, or the key that was asked for."""

    used: frozenset[int]
    key: int

    def of(self, node: int) -> str:
        return "*" if node == self.key else "o" if node in self.used else "."


def drawn(entries: Sequence[HandedOut], key: int) -> list[str]:
    """The upper levels of the tree and the weight of the halves, quarters and eighths, as text.

    A node is `o` in use, `.` free, `*` the key of the account; it stands where it lies in the space.
    """
    mark = _Mark(frozenset(entry.key for entry in entries), key)
    lines = ["the tree: o in use, . free, * this key; 0 to the left, 2**128 to the right"]
    for level in range(1, _TREE_LEVELS + 1):
        cells = [" "] * _WIDTH
        for n in range(1 << (level - 1)):
            node = (2 * n + 1) << (128 - level)
            cells[node * _WIDTH >> 128] = mark.of(node)
        lines.append("".join(cells).rstrip())
    deeper = sum(entry.key & ((1 << (128 - _TREE_LEVELS)) - 1) != 0 for entry in entries)
    under = [" "] * _WIDTH
    under[key * _WIDTH >> 128] = "*"
    lines += [f"{''.join(under).rstrip()} this key", f"{plural(deeper, 'key')} deeper than drawn", "the halves:"]
    return [*lines, *(_half_line(entries, level) for level in range(1, _HALF_LEVELS + 1))]


def _half_line(entries: Sequence[HandedOut], level: int) -> str:
    weights = [0] * (1 << level)
    for entry in entries:
        weights[entry.key >> (128 - level)] += entry.weight
    room = _WIDTH >> level
    return "".join(f"|{_weight(weight):g}".ljust(room, " ")[:room] for weight in weights) + "|"


def _shown(entry: HandedOut) -> dict[str, Any]:
    from keylane.keyspace.hash_keys import at_share

    at = percent(at_share(entry.key))
    return {
        "account": entry.account,
        "hash_key": str(entry.key),
        "at": at,
        "weight": _weight(entry.weight),
        "origin": entry.origin,
    }


def _account_key(entry: HandedOut) -> AccountKey:
    from keylane.documents.shards import AccountKey

    return AccountKey(account=entry.account, hash_key=str(entry.key), weight=_weight(entry.weight), origin=entry.origin)


def _reweighed(done: AddedKey) -> ReplacedWeight:
    from keylane.documents.shards import ReplacedWeight

    former = done.entry.weight if done.former_weight is None else done.former_weight
    return ReplacedWeight(account=done.entry.account, former_weight=_weight(former), weight=_weight(done.entry.weight))


def _weight(kept: int) -> float:
    """A weight as it was given; a whole one without a fraction."""
    from keylane.systems.hash_key_registry import UNIT

    return kept // UNIT if kept % UNIT == 0 else kept / UNIT


def _heaviest(entries: Sequence[HandedOut]) -> float:
    return _heaviest_of([(entry.key, entry.weight) for entry in entries])


def _heaviest_of(weighed: Iterable[tuple[int, int]]) -> float:
    """The share of the heaviest of eight equal ranges."""
    eighths = [0] * 8
    for key, weight in weighed:
        eighths[key >> 125] += weight
    return max(eighths) / sum(eighths) if any(eighths) else 0.0


def _warnings(keys_: Iterable[int]) -> list[str]:
    from keylane.keyspace.hash_keys import small

    found = small(keys_)
    return [_SMALL.format(plural(len(found), "hash key"), ", ".join(map(str, found[:3])))] if found else []


def _note(warnings: Sequence[str], output: str) -> None:
    """Warnings of a document that only programs see are for people too."""
    for one in warnings if output in ("json", "jsonl", "csv") else ():
        note(f"warning: {one}")
