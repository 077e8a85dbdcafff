"""A tour of the command line from click's own declaration: each option of each command right, wrong and without effect.

What is run: `tests.worlds.command_lines`, on the files of `tests.worlds.inputs`. What is asked of each run:

    right    ends as its mode does; the forms of output carry the same rows; JSON is valid by its schema
    wrong    exit code 1 or 2, one message that names option or file and the value, nothing on stdout, nothing written
    idle     an option that has no effect in this mode is refused, with exit code 2, and named
    files    a file that is absent, cut or of another kind: refused alike; or, where it can be read, taken

A `Tour` counts what it reached by command and kind of fault. What it holds against keylane is a list of complaints,
each with the command line that shows it.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import click
import jsonschema
from tests.worlds import face, inputs
from tests.worlds.command_lines import IDLE, MODES, ODD, REFUSED, SHOWN, WRONG, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

Tree = dict[str, tuple[int, int, bytes]]
FORMS: Final = ("json", "jsonl", "csv", "table", "wide", "md")
#: What keylane says of a fault of its own.
OWN_FAULT: Final = ("Traceback", "bug of keylane")


def prepared(folder: Path) -> None:
    """The files of a world, with what keylane makes of them."""
    inputs.write(folder)
    for line in inputs.PREPARED:
        done = face.run(line.split(), folder=folder)
        assert done.code in {0, 3}, (line, done.err)


def tree(folder: Path) -> Tree:
    """Every path with its size, its time and what is in it."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        seen = path.lstat()
        is_file = path.is_file() and not path.is_symlink()
        found[str(path.relative_to(folder))] = (
            seen.st_size if is_file else -1,
            seen.st_mtime_ns if is_file else 0,
            path.read_bytes() if is_file else b"",
        )
    return found


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that does something itself, by its words."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
        if path and command.invoke_without_command:
            yield " ".join(path), command
    else:
        yield " ".join(path), command


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command, each by its longest name, but for those of every command."""
    found = {max(one.opts, key=len): one for one in command.params if isinstance(one, click.Option)}
    return {name: one for name, one in found.items() if name not in SHOWN}


@cache
def commands() -> dict[str, Any]:
    return dict(leaves(face.declaration()))


@cache
def schemas() -> dict[str, Any]:
    """The published schema of each document, by what the document says it is."""
    found: dict[str, Any] = {}
    for path in resources.files("keylane").joinpath("schemas").iterdir():
        schema = json.loads(path.read_text(encoding="utf-8"))
        either = [schema["$defs"][one["$ref"].rpartition("/")[2]] for one in schema.get("anyOf", []) if "$ref" in one]
        for part in (schema, *either):
            if const := part.get("properties", {}).get("schema", {}).get("const"):
                found[const] = schema
    return found


@dataclass
class Tour:
    """Runs in one folder, which is as it was after each of them."""

    folder: Path
    complaints: list[str] = field(default_factory=list)
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    before: Tree = field(default_factory=dict)
    kept: Path = field(init=False)

    def __post_init__(self) -> None:
        self.kept = self.folder.with_name(f"{self.folder.name}.kept")
        self.folder.mkdir()
        prepared(self.folder)
        shutil.copytree(self.folder, self.kept, copy_function=shutil.copy2)
        self.before = tree(self.folder)

    def run(self, words: list[str]) -> tuple[face.Ran, list[str]]:
        """A run, and what it has changed; then all of it is put back."""
        # Without a secret that is kept, each run would hash keys in another way.
        ran = face.run(words, folder=self.folder, environ={"KEYLANE_MASKS": str(self.folder.with_name("masks"))})
        now = tree(self.folder)
        changed = [name for name in now.keys() | self.before.keys() if now.get(name) != self.before.get(name)]
        if changed:
            for name in sorted(changed, reverse=True):
                remove(self.folder / name)
            shutil.copytree(self.kept, self.folder, copy_function=shutil.copy2, dirs_exist_ok=True)
            self.before = tree(self.folder)
        return ran, sorted(changed)

    def hold(self, what: str, words: list[str], ran: face.Ran) -> None:
        self.complaints.append(f"{what}\n  keylane {shlex.join(words)}\n  => {ran.code}: {ran.err.strip()[-300:]!r}")

    # What a run should be.

    def fault(self, words: list[str], ran: face.Ran) -> bool:
        """Whether a run ended in a fault of keylane's own."""
        if any(sign in ran.err for sign in OWN_FAULT) or ran.code not in {0, 1, 2, 3, 4}:
            self.hold("a fault of keylane's own", words, ran)
            return True
        return False

    def refused(
        self, words: list[str], named: list[str], value: str | None = None, codes: tuple[int, ...] = (2,)
    ) -> None:
        """One message, which names one of these and the value; nothing on stdout, nothing written."""
        shown = ["-o", "json"] if words[0] not in {"completion", "help"} else []
        ran, changed = self.run([*words, *shown])
        if self.fault(words, ran):
            return
        if ran.code in {1, 2} and '"ok": false' in ran.out and words[0] == "check":
            return  # what is wrong with a contract is the result of `check`
        if ran.code not in codes:
            self.hold(f"{' or '.join(named)} was not refused with {codes}", words, ran)
            return
        if changed:
            self.hold(f"a refused command has changed {changed[:3]}", words, ran)
        if ran.out:
            self.hold("a refused command has printed a result", words, ran)
        errors = [line for line in ran.err.splitlines() if line.startswith(('{"schema": "keylane.error/1"', "error: "))]
        if len(errors) != 1:
            self.hold(f"{len(errors)} messages instead of one", words, ran)
            return
        message = errors[0]
        if shown:
            document = json.loads(message)
            jsonschema.validate(document, schemas()["keylane.error/1"])
            message = document["message"]
        if not any(name in message for name in named):
            self.hold(f"the message does not name {' or '.join(named)}", words, ran)
        if value is not None and not is_named(value, message):
            self.hold(f"the message does not name the value {value!r}", words, ran)

    def right(self, mode: Mode, words: list[str], codes: tuple[int, ...]) -> None:
        ran, _ = self.run(words)
        if not self.fault(words, ran) and ran.code not in codes:
            self.hold(f"a right command line does not end with {codes}", words, ran)

    # The parts of the tour.

    def forms(self, mode: Mode) -> None:
        """The same rows in every form."""
        words = mode.words()
        ran = {form: self.run([*words, "-o", form])[0] for form in FORMS}
        self.reached[mode.key, "forms"] += 1
        for one in ran.values():
            if self.fault(words, one) or one.code not in mode.codes:
                self.hold(f"a right command line does not end with {mode.codes}", words, one)
                return
        if len({one.code for one in ran.values()}) > 1:
            self.hold("the exit code depends on the form of output", words, ran["json"])
        document = json.loads(ran["json"].out)
        name = document.get("schema")
        if name not in schemas():
            self.hold(f"no schema is published for {name}", words, ran["json"])
        else:
            for error in jsonschema.Draft202012Validator(schemas()[name]).iter_errors(document):
                self.hold(f"not by its schema: {error.json_path}: {error.message[:100]}", words, ran["json"])
        rows = [json.loads(line) for line in ran["jsonl"].out.splitlines()]
        for problem in differing(rows, document, ran["csv"].out, ran["wide"].out):
            self.hold(problem, words, ran["csv"])

    def values(self, mode: Mode, random: Random, share: float) -> None:
        """Each option and argument of a mode with right, wrong and odd values."""
        taken = {**mode.given, **mode.takes}
        for option, (kind, value) in taken.items():
            words = (
                mode.words() if option in mode.given else [*mode.words(), option, *([value] if kind != "flag" else [])]
            )
            if option not in mode.given:
                self.right(mode, words, (*mode.codes, 3, 4) if kind in {"choice", "at least 1"} else mode.codes)
                self.reached[mode.key, "right"] += 1
            for wrong in some(WRONG[kind], random, share):
                line = mode.words(**{option: wrong}) if option in mode.given else [*mode.words(), option, wrong]
                self.reached[mode.key, "wrong"] += 1
                named = [wrong or "'.'", str(self.folder / wrong)] if kind in PATHS else []
                self.refused(line, [*names_of(mode.command, option), *named], wrong, (1, 2))
            bare = mode.words() if option not in mode.given else []
            for odd in some(ODD.get(kind, ()), random, share):
                self.odd(mode, [*bare, option, odd] if bare else mode.words(**{option: odd}))
        for n, (_, kind) in enumerate(mode.arguments):
            for wrong in some(WRONG[kind], random, share):
                self.reached[mode.key, "wrong"] += 1
                self.refused(mode.words(**{f"_{n}": wrong}), [""], wrong, (1, 2))
            for odd in some(ODD.get(kind, ()), random, share):
                self.odd(mode, mode.words(**{f"_{n}": odd}))

    def odd(self, mode: Mode, words: list[str]) -> None:
        """What may be taken or refused."""
        ran, changed = self.run(words)
        self.reached[mode.key, "odd"] += 1
        if not self.fault(words, ran) and ran.code in {1, 2} and changed:
            self.hold(f"a refused command has changed {changed[:3]}", words, ran)

    def idle(self, mode: Mode) -> None:
        """Every option that the command declares and that has no effect in this mode."""
        known = options_of(commands()[mode.command])
        for option in known.keys() - mode.given.keys() - mode.takes.keys() - mode.skip:
            param = known[option]
            value = IDLE.get(option, choice_of(param))
            words = [*mode.words(), option, *([] if param.is_flag else [value])]
            self.reached[mode.key, "idle"] += 1
            self.refused(words, names_of(mode.command, option))

    def files(self, mode: Mode, random: Random, share: float) -> None:
        """Each file that is read, with each fault."""
        read = {
            option: value for option, (kind, value) in {**mode.given, **mode.takes}.items() if kind in {"file", "made"}
        }
        read |= {f"_{n}": value for n, (value, kind) in enumerate(mode.arguments) if kind == "file"}
        kinds = {option: kind for option, (kind, _) in {**mode.given, **mode.takes}.items()}
        for place, name in read.items():
            for fault in some(inputs.FAULTS, random, share):
                bad = f"bad-{fault}{Path(name).suffix}"
                source = self.folder / name
                if not source.exists():
                    continue
                inputs.damaged(source, fault, self.folder / bad)
                words = mode.words(**{place: bad})
                words += [place, bad] if place in mode.takes else []
                before, self.before = self.before, tree(self.folder)
                self.reached[mode.key, f"file {fault}"] += 1
                if (
                    (fault == "absent" and kinds.get(place) == "made")
                    or (fault == "empty" and place == "--from")
                    or name.endswith(LINES)
                ):
                    self.odd(mode, words)
                else:
                    self.refused(words, [bad, *names_of(mode.command, place)], codes=(1, 2))
                remove(self.folder / bad)
                for more in [one for one in tree(self.folder) if one not in before]:
                    remove(self.folder / more)
                self.before = tree(self.folder)

    def tour(self, seed: int, share: float) -> None:
        random = Random(seed)
        for mode in MODES:
            if mode.forms:
                self.forms(mode)
            self.values(mode, random, share)
            self.idle(mode)
            self.files(mode, random, share)
        for mode in REFUSED:
            if mode.codes:
                self.refused(mode.words(), [""], codes=mode.codes)
            self.idle(mode)


#: Kinds of values that a message may name alone: it is the file, or the address, that is wrong.
PATHS: Final = frozenset({"file", "made", "target", "folder", "address", "profile"})
#: Files that are lines, some of which may be whole.
LINES: Final = (".csv", ".jsonl", ".txt", ".properties")


def remove(path: Path) -> None:
    """A file or a folder that may be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def names_of(command: str, option: str) -> list[str]:
    """All names of an option; of an argument anything."""
    param = options_of(commands()[command]).get(option)
    return list(param.opts) if param is not None else [""]


def choice_of(param: Any) -> str:
    kind = param.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[-1])
    return "5" if isinstance(kind, click.IntRange | click.FloatRange) or kind.name in {"integer", "float"} else "x"


def some(values: tuple[str, ...], random: Random, share: float) -> list[str]:
    """A share of the values, one at least."""
    many = max(1, round(len(values) * share)) if values else 0
    return random.sample(list(values), many)


def is_named(value: str, message: str) -> bool:
    """Whether a message names a value: as it is, or in a readable form."""
    forms = {value, repr(value), repr(value)[1:-1], value.encode("unicode_escape").decode()}
    if value in {"", "."} or "," in value:
        return not value.strip(",.") or all(is_named(one, message) for one in value.split(",")[-1:])
    number = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?|NaN|-?inf", value, re.IGNORECASE)
    if number:
        forms |= {f"{float(value):g}", str(float(value)), f"{float(value):,.0f}" if abs(float(value)) < 1e18 else value}
    return any(form in message for form in forms)


def plain(text: str) -> str:
    """A cell of CSV without the guard against formulas."""
    return text[1:] if re.match(r"'+\s*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]", text) else text


def flat(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from scalars(one)
    elif isinstance(value, list):
        for one in value:
            yield from scalars(one)
    else:
        yield value


def differing(rows: list[dict[str, Any]], document: Any, text: str, shown: str) -> Iterator[str]:
    """Where the forms do not carry the same."""
    cells = list(csv.reader(io.StringIO(text.removesuffix("\n"), newline=""), strict=True))
    head, lines = (cells[0], cells[1:]) if cells else ([], [])
    if len(lines) != len(rows):
        yield f"{len(lines)} lines of CSV, {len(rows)} of jsonl"
        return
    for line, row in zip(lines, rows, strict=True):
        for name, cell in zip(head, line, strict=True):
            if plain(cell) != flat(row.get(name)):
                yield f"CSV has {cell!r} as {name}, jsonl {row.get(name)!r}"
    known = {one for one in scalars(document) if isinstance(one, int | float) and not isinstance(one, bool)}
    whole = json.dumps(document, ensure_ascii=False)
    for row in rows:
        for name, value in row.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and value not in known and f"{value}" not in whole:
                yield f"{name} is {value!r} in jsonl and nowhere in the document"
