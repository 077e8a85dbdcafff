"""Figures of the source tree: its size, its seams, its walks. And the parts of docs/architecture.md made from it.

    python scripts/house.py                             # the figures that are read from the source, in a second or two
    python scripts/house.py --walks                     # and the modules that commands pass; needs Java, some minutes
    python scripts/house.py --list asks,cycles          # what stands behind these figures, line by line
    python scripts/house.py --json
    python scripts/house.py --src ../old/src/keylane    # another tree, by the same rules
    python scripts/house.py --write-map                 # the file map, from the first lines of docstrings
    python scripts/house.py --write-walks               # the walks, as `scripts/walk.py` traces them
    python scripts/house.py --ceilings                  # lines of code for each package, and the ceilings of house.toml
    python scripts/house.py --write-ceilings            # lower the ceilings to today's figures; none is raised

What each figure counts is said where it is counted. Nothing of keylane is imported here; the commands are traced by
`scripts/walk.py`, in processes of their own.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src/keylane"
PAGE: Final = ROOT / "docs/architecture.md"
SYSTEMS: Final = frozenset({"kafka", "kinesis", "files"})
#: Under `systems/`, modules whose name begins so belong to one system. The later names are those of trees without a
#: package for each system.
OWN: Final = ("kafka", "kinesis", "files", "folders", "topic", "stream_", "sources", "manifest", "footers", "values")
#: Where addresses become systems: the one module that may know them all.
REGISTRY: Final = frozenset({"systems.endpoint", "systems.address"})
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
    def lines(self) -> int:
        """Lines, as `wc -l` counts them."""
        return self.source.count("\n")

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, and what it counts, item by item."""

    name: str
    title: str
    value: int
    items: tuple[str, ...] = field(default=(), repr=False)


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


# --- Imports ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module of the tree by another; `types_only` where it stands under TYPE_CHECKING."""

    source: str
    target: str
    line: int
    types_only: bool


def imports(tree: Mapping[str, Module]) -> list[Import]:
    """Imports inside the tree, also those inside functions."""
    return [found for module in tree.values() for found in imports_of(module, tree)]


def imports_of(module: Module, tree: Mapping[str, Module]) -> Iterator[Import]:
    """The imports of one module. `from keylane.a import b` is of `a.b` where that is a module, otherwise of `a`."""
    guarded = {
        id(inner)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        targets = {target for name in names if (target := _module_named(name, tree)) not in {None, module.name}}
        yield from (Import(module.name, str(target), node.lineno, id(node) in guarded) for target in sorted(targets))


def _module_named(name: str, tree: Mapping[str, Module]) -> str | None:
    first, _, rest = name.partition(".")
    if first != "keylane":
        return None
    return rest if rest in tree else rest.rpartition(".")[0]


def cycles(edges: Iterable[Import]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other, directly or not: strongly connected, of two and more (Tarjan)."""
    targets: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        targets[edge.source].add(edge.target)
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in sorted(targets[name]):
            if target not in order:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], order[target])
        if lowest[name] == order[name]:
            at = stack.index(name)
            group = tuple(sorted(stack[at:]))
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for name in sorted(targets):
        if name not in order:
            visit(name)
    return sorted(found)


# --- Systems ----------------------------------------------------------------------------------------------------------


def asks(module: Module) -> list[str]:
    """Where a module asks which system an address is of.

    A comparison with the name of a system or with an attribute `system`; such a set in an intersection; a look-up by
    `.system`; `match x.system`; `startswith("kafka:")`; `isinstance` of a class that a system's own module defines.
    """
    own = {
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module and _is_of_a_system(node.module.removeprefix("keylane."))
        for alias in node.names
    }
    found = {getattr(node, "lineno", 0): node for node in ast.walk(module.tree) if _asks(node, own)}
    return [f"{module.name}:{line}  {ast.unparse(node).splitlines()[0]}" for line, node in sorted(found.items())]


def _asks(node: ast.AST, own: set[str]) -> bool:  # noqa: PLR0911  a form a case
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=ast.Constant()):
            return _has_system(node)  # "files" in document: a field, and no system
        case ast.Compare():
            return _has_system(node) or any(_names_a_system(side) for side in (node.left, *node.comparators))
        case ast.BinOp(op=ast.BitAnd()):
            return _names_a_system(node.left) or _names_a_system(node.right)
        case ast.Subscript():
            return _has_system(node.slice)
        case ast.Match():
            return _has_system(node.subject)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
            return _has_system(key)
        case ast.Call(func=ast.Attribute(attr="startswith" | "removeprefix"), args=[ast.Constant(value=str(text))]):
            return text.partition(":")[0] in SYSTEMS and ":" in text
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
            return any(isinstance(inner, ast.Name) and inner.id in own for inner in ast.walk(kind))
        case _:
            return False


def _has_system(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr == "system" for inner in ast.walk(node))


def _names_a_system(node: ast.AST) -> bool:
    constants = [node] if isinstance(node, ast.Constant) else getattr(node, "elts", [])
    return any(isinstance(one, ast.Constant) and one.value in SYSTEMS for one in constants)


def _is_of_a_system(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package == "systems" and rest.startswith(OWN)


def asking(tree: Mapping[str, Module]) -> tuple[str, ...]:
    """All places that ask for a system by name, outside the systems' own modules and the registry."""
    outside = [module for name, module in tree.items() if not _is_of_a_system(name) and name not in REGISTRY]
    return tuple(line for module in outside for line in asks(module))


def reaching(edges: Iterable[Import]) -> tuple[str, ...]:
    """Imports of a system's own modules by commands and pipelines."""
    return tuple(
        f"{edge.source}:{edge.line}  {edge.target}"
        for edge in edges
        if edge.source.startswith(("pipelines.", "cli.")) and _is_of_a_system(edge.target) and not edge.types_only
    )


# --- Signatures, names, sizes -----------------------------------------------------------------------------------------


def functions(module: Module) -> Iterator[Function]:
    """Every function and method of a module."""
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def untyped(tree: Mapping[str, Module], kind: str) -> tuple[str, ...]:
    """Annotations of parameters and returns that hold `dict[str, Any]` (or another `kind` of it), also by an alias."""
    aliases = {
        name: {alias for node in module.tree.body for alias, value in _alias(node) if _is_untyped(value, kind, ())}
        for name, module in tree.items()
    }
    return tuple(
        f"{module.name}:{annotation.lineno}  {function.name}: {ast.unparse(annotation)}"
        for module in tree.values()
        for known in [aliases[module.name] | _imported(module, aliases)]
        for function in functions(module)
        for annotation in annotated(function)
        if _is_untyped(annotation, kind, known)
    )


def _imported(module: Module, aliases: Mapping[str, set[str]]) -> set[str]:
    """The aliases of other modules under their names in this one."""
    return {
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name in aliases.get(node.module.removeprefix("keylane."), ())
    }


def _alias(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        return [(node.target.id, node.value)] if "TypeAlias" in ast.unparse(node.annotation) else []
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        return [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
    return []


def annotated(function: Function) -> Iterator[ast.expr]:
    """The annotations of a signature."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    yield from (one.annotation for one in every if one and one.annotation)
    if function.returns:
        yield function.returns


def _is_untyped(node: ast.expr, kind: str, aliases: Iterable[str]) -> bool:
    return any(
        (isinstance(inner, ast.Subscript) and re.fullmatch(rf"{kind}\[str, Any\]", ast.unparse(inner)))
        or (isinstance(inner, ast.Name) and inner.id in aliases)
        for inner in ast.walk(node)
    )


def repeated_classes(tree: Mapping[str, Module]) -> tuple[str, ...]:
    """Names of classes that more than one module defines, private ones left out."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in tree.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    return tuple(f"{name}  {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 1)


def private_functions(module: Module) -> Iterator[tuple[Function, int]]:
    """Private functions and methods of a module, and how often their name is used in it."""
    used = Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )
    for function in functions(module):
        if function.name.startswith("_") and not function.name.endswith("__"):
            yield function, used[function.name]


def figures(package: Path) -> list[Figure]:
    """Every figure that the source alone gives."""
    tree = modules(package)
    edges = imports(tree)
    private = [(module, *found) for module in tree.values() for found in private_functions(module)]
    once = tuple(f"{module.name}:{function.lineno}  {function.name}" for module, function, used in private if used == 1)
    at_run_time = [edge for edge in edges if not edge.types_only]

    def listed(name: str, title: str, items: Iterable[str]) -> Figure:
        every = tuple(items)
        return Figure(name, title, len(every), every)

    return [
        Figure("modules", "modules", len(tree)),
        Figure("plain_modules", "modules without __init__", sum(not module.is_package for module in tree.values())),
        Figure("lines", "lines of Python", sum(module.lines for module in tree.values())),
        Figure("code", "lines of code, without comments and docstrings", sum(code_by_package(tree).values())),
        listed("asks", "places that ask for a system by name outside its package", asking(tree)),
        listed("reaches", "imports of one system's modules by pipelines and commands", reaching(edges)),
        listed("dicts", "dict[str, Any] in signatures", untyped(tree, "dict")),
        listed("mappings", "Mapping[str, Any] in signatures", untyped(tree, "Mapping")),
        listed("classes", "class names defined more than once", repeated_classes(tree)),
        listed("cycles", "import cycles, function-level imports included", map(", ".join, cycles(at_run_time))),
        listed("type_cycles", "import cycles, imports for types included", map(", ".join, cycles(edges))),
        Figure("private", "private functions", len(private)),
        listed("once", "private functions used once", once),
    ]


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
    """Print the figures, or write a part of the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--src", type=Path, default=SOURCE, help="the package to look at; default: src/keylane")
    parser.add_argument("--json", action="store_true", help="print JSON, with what is behind each figure")
    parser.add_argument("--list", default="", metavar="NAMES", help="print what is behind these figures, or `all`")
    parser.add_argument("--walks", action="store_true", help="trace the commands, too")
    parser.add_argument("--write-map", action="store_true", help="write the file map into docs/architecture.md")
    parser.add_argument("--write-walks", action="store_true", help="trace, and write the walks into it")
    parser.add_argument("--ceilings", action="store_true", help="print lines of code and ceilings of each package")
    parser.add_argument("--write-ceilings", action="store_true", help="lower the ceilings of house.toml to today's")
    options = parser.parse_args()
    package = options.src.resolve()
    if options.write_ceilings:
        write_ceilings(code_by_package(modules(package)))
    if options.ceilings or options.write_ceilings:
        found = code_by_package(modules(package))
        sys.stdout.write(ceilings_table(found, ceilings(CEILINGS.read_text(encoding="utf-8"))) + "\n")
        return
    if options.write_map:
        written("file map", file_map(package))
    if options.write_walks:
        written("walks", drawn_walks(traced(package, {name for _, names in DRAWN for name in names})))
    if not options.write_map and not options.write_walks:
        report(figures(package), traced(package) if options.walks else {}, options.json, options.list.split(","))


def report(found: list[Figure], walks: Mapping[str, Any], as_json: bool, lists: list[str]) -> None:
    """Print figures and walks."""
    show: Callable[[str], None] = print
    if as_json:
        document = {one.name: {"title": one.title, "value": one.value, "items": one.items} for one in found}
        show(json.dumps({"figures": document, "walks": walks}, indent=2))
        return
    for one in found:
        show(f"{one.title:62}{one.value:7,}   {one.name}")
        if one.name in lists or "all" in lists:
            show("".join(f"    {item}\n" for item in one.items).rstrip())
    for name, walk in walks.items():
        passed, at_run_time, changes = len(walk["passed"]), len(walk["at_run_time"]), walk["changes"]
        show(f"modules passed by {name + ':':44}{passed:7,}   {at_run_time} at run time; {changes:,} changes of module")


if __name__ == "__main__":
    main()
