"""Bounded YAML: text -> plain data, with a line for every path. Knows nothing of contracts.

What is not YAML's usual: only `true`, `false`, `null` and numbers that would be written back just the same are not
text, so that `no`, `0123`, `+49170`, `12:30` and `2026-11-15` stay the keys they look like. A key given twice
is a problem, as is every tag. Size, depth, nodes, aliases and digits are bounded before anything is built, so an alias
bomb costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from keylane.records import Finding

MAX_BYTES: Final = 1 << 18
MAX_DEPTH: Final = 24
MAX_NODES: Final = 50_000
MAX_ALIASES: Final = 16
MAX_DIGITS: Final = 20
HALF: Final = "half of a surrogate pair has no bytes; hint: write the character itself"
BOUNDS: Final = {"levels": MAX_DEPTH, "values": MAX_NODES, "aliases": MAX_ALIASES, "documents": 1}

Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*")
FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)?\.[0-9]+([eE][-+]?[0-9]{1,3})?|-?(0|[1-9][0-9]*)[eE][-+]?[0-9]{1,3}")
SURROGATE: Final = re.compile("[\ud800-\udfff]")
WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "~": None, "": None}

Path = tuple[str | int, ...]
#: Tags by line and column, which the composed nodes no longer distinguish from YAML's own.
Tags = dict[tuple[int, int], str]


@dataclass(slots=True)
class Tree:
    """Plain data, the line of each path, and what was wrong while reading."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest thing around it."""
        known = (self.lines.get(path[:end]) for end in range(len(path), -1, -1))
        return next((line for line in known if line), None)

    def problem(self, path: Path, message: str) -> None:
        """Note an error at a path."""
        self.findings.append(Finding("error", show_path(path), message, self.line(path)))


def show_path(path: Path) -> str:
    """Show `("spec", "hot_keys", 0)` as `spec.hot_keys[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "(file)"


def path_of(where: str) -> Path:
    """Read `spec.hot_keys[0]` back as a path."""
    return tuple(int(i) if i else name for name, i in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", where))


def read_tree(text: str) -> Tree:
    """Read one YAML document within bounds; what is wrong is in `findings`, never an exception."""
    tree = Tree()
    if SURROGATE.search(text):
        tree.problem((), HALF)
        return tree
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_BYTES:
        tree.problem((), f"too large: got {size} bytes; allowed: {MAX_BYTES}")
        return tree
    try:
        tags: Tags = {}
        if bound := _bound_broken(text, tags):
            tree.findings.append(bound)
        elif (node := yaml.compose(text, Loader=Loader)) is None:
            tree.problem((), "the file is empty; hint: a contract begins with `apiVersion: keylane/v1`")
        elif _expanded(node, {}, set()) > MAX_NODES:
            tree.problem((), f"aliases expand to too many values: allowed: {MAX_NODES}")
        else:
            tree.data = _Builder(tree, tags).build(node, ())
    except yaml.YAMLError as error:
        tree.findings.append(_syntax(error))
    return tree


def _bound_broken(text: str, tags: Tags) -> Finding | None:
    """Walk the parser's events, which build nothing, noting tags, and stop at the first bound that breaks."""
    counts = dict.fromkeys(BOUNDS, 0)
    for event in yaml.parse(text, Loader=Loader):
        counts["levels"] += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        counts["values"] += isinstance(event, yaml.NodeEvent)
        counts["aliases"] += isinstance(event, yaml.AliasEvent)
        counts["documents"] += isinstance(event, yaml.DocumentStartEvent)
        if getattr(event, "tag", None) is not None:
            tags[event.start_mark.line, event.start_mark.column] = event.tag
        for what, most in BOUNDS.items():
            if counts[what] > most:
                return Finding("error", "(file)", f"too many {what}: allowed: {most}", event.start_mark.line + 1)
    return None


def _expanded(node: yaml.Node, known: dict[int, int], around: set[int]) -> int:
    """How many values a node stands for once its aliases are written out; counted once for each node, built never."""
    if id(node) in around:
        return MAX_NODES + 1
    if id(node) not in known:
        around.add(id(node))
        known[id(node)] = 1 + sum(_expanded(child, known, around) for child in _children(node))
        around.discard(id(node))
    return known[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _syntax(error: yaml.YAMLError) -> Finding:
    mark = getattr(error, "problem_mark", None)
    text = getattr(error, "problem", None) or str(error).splitlines()[0]
    return Finding("error", "(file)", f"not YAML: {text}", mark.line + 1 if mark else None)


class _Builder:
    """Builds data from composed nodes, whose expansion has been found to be bounded."""

    def __init__(self, tree: Tree, tags: Tags) -> None:
        self.tree = tree
        self.tags = tags

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.tree.lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > MAX_DEPTH:
            raise yaml.YAMLError(f"aliases nest too deep: allowed: {MAX_DEPTH}")
        self._untagged(node, path)
        return self._value(node, path)

    def _untagged(self, node: yaml.Node, path: Path) -> None:
        # A block mapping begins where its first key does: the tag is one problem, so it is taken out.
        tag = self.tags.pop((node.start_mark.line, node.start_mark.column), None)
        if tag is not None:
            self.tree.problem(path, f"tags are not allowed: got {tag!r}")

    def _value(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node, path) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str | int) or isinstance(key, bool):
                self.tree.problem(path, "a field name must be text or a whole number; hint: quote it")
                continue
            inner = (*path, key)
            self._untagged(key_node, inner)
            self.tree.lines[inner] = key_node.start_mark.line + 1
            if key in out:
                self.tree.problem(inner, "given twice; hint: keep one of them")
            out[key] = self.build(value_node, inner)
        return out

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        if SURROGATE.search(text):
            self.tree.problem(path, HALF)
        if getattr(node, "style", None):
            return text
        if INTEGER.fullmatch(text):
            return self._integer(text, path)
        if FLOAT.fullmatch(text):
            return float(text)
        return WORDS.get(text, text)

    def _integer(self, text: str, path: Path) -> int | None:
        if len(text) > MAX_DIGITS:
            self.tree.problem(path, f"number too long: got {len(text)} digits; allowed: {MAX_DIGITS}")
            return None
        return int(text)
