"""How large each package may be, and the parts of docs/architecture.md that are made from the source.

    python scripts/house.py --ceilings          lines of code for each package, and the ceilings of house.toml
    python scripts/house.py --write-ceilings    lower the ceilings to today's figures; none is raised
    python scripts/house.py --write-map         the file map, from the first lines of docstrings: `make map`
    python scripts/house.py --write-walks       the walks, as `scripts/walk.py` traces them: `make walks`; some minutes

Nothing of keylane is imported here. `tests/architecture` reads the source by what is here.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src/keylane"
PAGE: Final = ROOT / "docs/architecture.md"
CEILINGS: Final = ROOT / "house.toml"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the tree: its name without `keylane.`, its source, its syntax tree."""

    name: str
    is_package: bool
    source: str
    tree: ast.Module

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[0]


@cache
def parsed(source: str) -> ast.Module:
    """The syntax of a source, read once: it is asked for many things, and never changed."""
    return ast.parse(source)


def modules(package: Path) -> dict[str, Module]:
    """Every module of a tree, by name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        source = path.read_text(encoding="utf-8")
        found[name] = Module(name, is_package, source, parsed(source))
    return found


# --- Ceilings ---------------------------------------------------------------------------------------------------------

#: What Python's tokenizer yields without a character of code.
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


@dataclass(frozen=True, slots=True)
class Raise:
    """A ceiling that was raised: by how many lines, and what for."""

    package: str
    by: int
    why: str


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What house.toml holds: a figure for each package as it was lowered last, and the raises since."""

    lowered: dict[str, int]
    raised: tuple[Raise, ...] = ()

    @property
    def lines(self) -> dict[str, int]:
        """The ceiling of each package."""
        more: Counter[str] = Counter()
        for one in self.raised:
            more[one.package] += one.by
        return {package: lines + more[package] for package, lines in self.lowered.items()}


def code_lines(source: str) -> int:
    """Lines that hold a token which is neither a comment nor part of a docstring."""
    with_code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            with_code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(source)):
        first = node.body[0] if isinstance(node, ast.Module | ast.ClassDef | Function) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            with_code.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(with_code)


def code_by_package(tree: Mapping[str, Module]) -> dict[str, int]:
    """Lines of code of each package with the packages in it; modules beside them are `keylane`."""
    found: Counter[str] = Counter()
    packages = {name for name, module in tree.items() if module.is_package}
    for name, module in tree.items():
        top = name.partition(".")[0]
        found[top if top in packages and top else "keylane"] += code_lines(module.source)
    return dict(sorted(found.items()))


def ceilings(text: str) -> Ceilings:
    """The ceilings of a house.toml. A raise without a reason, of nothing, or of no package is refused."""
    given = tomllib.loads(text)
    lowered = {str(package): int(lines) for package, lines in given["lines"].items()}
    raised = tuple(Raise(one["package"], int(one["by"]), one["why"].strip()) for one in given.get("raised", ()))
    for one in raised:
        if not one.why or one.by < 1 or one.package not in lowered:
            sys.exit(f"house: a raise names a package with a ceiling, lines from 1 up, and why: {one}")
    return Ceilings(lowered, raised)


def over(found: Mapping[str, int], allowed: Ceilings) -> list[str]:
    """Packages with more lines than their ceiling, or without one; and ceilings of packages that are gone."""
    lines = allowed.lines
    beyond = [
        f"{package}: {count} lines of code, ceiling {lines.get(package, 'none')}"
        for package, count in found.items()
        if count > lines.get(package, -1)
    ]
    return beyond + [f"{package}: a ceiling, and no such package" for package in lines if package not in found]


def lowered(found: Mapping[str, int], allowed: Ceilings) -> Ceilings:
    """The same ceilings, and where a package has fewer lines, its figure; its raises are used up then."""
    lines = allowed.lines
    falls = {package for package, count in found.items() if count < lines.get(package, -1)}
    kept = {package: count if package in falls else allowed.lowered[package] for package, count in found.items()}
    return Ceilings(kept, tuple(one for one in allowed.raised if one.package in found and one.package not in falls))


def ceilings_text(given: Ceilings, head: str) -> str:
    """As house.toml has it, below the comment at its head."""
    lines = [*head.splitlines(), "[lines]", *(f"{package} = {count}" for package, count in given.lowered.items())]
    for one in given.raised:
        why = json.dumps(one.why, ensure_ascii=False)
        lines += ["", "[[raised]]", f'package = "{one.package}"', f"by = {one.by}", f"why = {why}"]
    return "\n".join(lines) + "\n"


def ceilings_table(found: Mapping[str, int], allowed: Ceilings) -> str:
    """A row for each package: its lines of code, its ceiling, and how much of it was raised."""
    lines = allowed.lines
    rows = [f"{'package':16}{'code':>8}{'ceiling':>9}{'raised':>8}"]
    for package, count in found.items():
        ceiling, more = lines.get(package), lines.get(package, 0) - allowed.lowered.get(package, 0)
        rows.append(f"{package:16}{count:8,}{'none' if ceiling is None else f'{ceiling:,}':>9}{more or '-':>8}")
    total = sum(lines.values()), sum(one.by for one in allowed.raised)
    return "\n".join([*rows, f"{'all':16}{sum(found.values()):8,}{total[0]:9,}{total[1] or '-':>8}"])


def write_ceilings(found: Mapping[str, int]) -> None:
    """Lower the ceilings of house.toml."""
    text = CEILINGS.read_text(encoding="utf-8")
    CEILINGS.write_text(ceilings_text(lowered(found, ceilings(text)), text[: text.index("[lines]")]), encoding="utf-8")


# --- Walks ------------------------------------------------------------------------------------------------------------


def traced(package: Path, only: Iterable[str] = ()) -> dict[str, Any]:
    """The walks, by `scripts/walk.py`."""
    command = [sys.executable, str(Path(__file__).with_name("walk.py")), "--json", "--src", str(package)]
    done = subprocess.run([*command, "--only", ",".join(only)], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603  ours
    found: dict[str, Any] = json.loads(done.stdout)
    return found


#: The walks that docs/architecture.md draws: heading, and the commands it consists of.
DRAWN: Final = (
    ("explain", ("explain",)),
    ("route into a folder", ("route files",)),
    ("route into Kafka", ("route Kafka",)),
    ("profile and plan", ("profile", "plan with report")),
    ("verify", ("verify",)),
)


def drawn_walks(walks: Mapping[str, Any]) -> str:
    """The walks as text: a module stands under the one that called it first, in the order of first entry."""
    return "\n".join(_drawn(title, [walks[name] for name in names]) for title, names in DRAWN)


def _drawn(title: str, runs: list[Any]) -> str:
    count = len({step["module"] for walk in runs for step in walk["at_run_time"]})
    lines = [f"### {title}", "", f"{count} modules.", "", "```"]
    for walk in runs:
        lines.append(walk["command"])
        lines.extend(tree_lines(walk["at_run_time"]))
    return "\n".join([*lines, "```", ""])


def tree_lines(steps: list[dict[str, str]]) -> list[str]:
    """Steps as an indented tree, each with the function that was entered first."""
    below: dict[str, list[dict[str, str]]] = defaultdict(list)
    for step in steps:
        below[step["caller"]].append(step)
    lines = []

    def draw(step: dict[str, str], depth: int) -> None:
        lines.append(f"{'  ' * depth + step['module']:44}{step['function']}".rstrip())
        for child in below[step["module"]]:
            draw(child, depth + 1)

    for step in below[""]:
        if lines:
            lines.append("(in the thread that Spark calls back)")
        draw(step, 0)
    return lines


# --- The page ---------------------------------------------------------------------------------------------------------

#: Packages in the order of a record; a package imports from those above it (tests/architecture).
ORDER: Final = (
    *(
        "first_moment",
        "moved",
        "errors",
        "records",
        "private",
        "numbers",
        "formulas",
        "geo",
        "contract",
        "keys",
        "hashing",
        "placement",
        "router",
        "batch_router",
        "keyspace",
        "groups",
        "matching",
        "migration",
        "aggregation",
    ),
    *("history", "documents", "profile", "measure", "plan", "brokers", "testing", "spark", "systems", "pipelines"),
    *("report", "cli", "api"),
)


def file_map(package: Path) -> str:
    """Every module with the first line of its docstring, by package."""
    tree = modules(package)
    groups: dict[str, list[Module]] = defaultdict(list)
    for name, module in tree.items():
        if name and name != "__main__":
            groups[name.partition(".")[0]].append(module)
    known = [name for name in ORDER if name in groups]
    alone = [module for name in known for module in groups[name] if len(groups[name]) == 1]
    parts = [_map_of("keylane", "", alone)]
    for name in [*known, *sorted(set(groups) - set(known))]:
        if len(groups[name]) > 1:
            head = next((module.summary for module in groups[name] if module.name == name), "")
            parts.append(_map_of(name, head, [module for module in groups[name] if module.name != name]))
    return "\n".join(parts)


def _map_of(title: str, head: str, rows: list[Module]) -> str:
    lines = [f"### `{title}`", "", *([head, ""] if head else []), "| module | what is in it |", "|---|---|"]
    for module in rows:
        name = module.name.removeprefix(f"{title}.") + (".*" if module.is_package else "")
        lines.append(f"| `{name}` | {module.summary.replace('|', chr(92) + '|')} |")
    return "\n".join([*lines, ""])


def marked(page: str, part: str, text: str) -> str:
    """The page with the text between the markers of a part. A page without the markers is refused."""
    begin, end = f"<!-- {part}: written by scripts/house.py; do not edit -->", f"<!-- end of {part} -->"
    if begin not in page or end not in page:
        sys.exit(f"house: no markers of {part!r} in the page")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}"


def written(part: str, text: str) -> None:
    """Write one part of docs/architecture.md."""
    PAGE.write_text(marked(PAGE.read_text(encoding="utf-8"), part, text), encoding="utf-8")


def main() -> None:
    """Print the ceilings, or write what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ceilings", action="store_true", help="print lines of code and ceilings of each package")
    parser.add_argument("--write-ceilings", action="store_true", help="lower the ceilings of house.toml to today's")
    parser.add_argument("--write-map", action="store_true", help="write the file map into docs/architecture.md")
    parser.add_argument("--write-walks", action="store_true", help="trace the commands, and write the walks into it")
    options = parser.parse_args()
    if not any(vars(options).values()):
        parser.error("nothing to do: give one of the options")
    if options.write_ceilings:
        write_ceilings(code_by_package(modules(SOURCE)))
    if options.ceilings or options.write_ceilings:
        found = code_by_package(modules(SOURCE))
        sys.stdout.write(ceilings_table(found, ceilings(CEILINGS.read_text(encoding="utf-8"))) + "\n")
    if options.write_map:
        written("file map", file_map(SOURCE))
    if options.write_walks:
        written("walks", drawn_walks(traced(SOURCE, {name for _, names in DRAWN for name in names})))


if __name__ == "__main__":
    main()
