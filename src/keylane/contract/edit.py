"""A contract's text changed into another contract: only what differs, by its position in the text.

    edited_text   a person's file, with the fields in which another contract differs replaced, added or removed

Comments, order, quotes, defaults that are written out and line ends stay as they are, so a review shows the change and
nothing else. A rule:

    spec: {lanes: 6, key: {fields: [k], encoding: utf8}, ...}   # ours, and `lanes: 8` wanted
    spec: {lanes: 8, key: {fields: [k], encoding: utf8}, ...}   # ours

A mapping between braces that gets something longer than a line is opened first, an entry a line. Where a list of keys
is replaced, what people wrote above or beside a key that is still named goes with it; shares that a former plan wrote
there are replaced by the new ones. The result is parsed, and has to be the wanted contract: otherwise, as for a file
with aliases, the wanted text is taken whole.

What the wanted text is: `plan.contract_text`. Reading with positions for messages: `yaml_tree`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml
from pydantic import BaseModel

from keylane.contract.first import with_modeline
from keylane.contract.parse import parse_contract
from keylane.contract.yaml_tree import Loader
from keylane.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.contract.model import Contract, Golden

    Names: TypeAlias = tuple[str, ...]
    Pair: TypeAlias = tuple[yaml.Node, yaml.Node]

BOM: Final = "\ufeff"
#: Comments that a plan wrote: the share of a key, and what a lane has.
_WRITTEN: Final = re.compile(r"# (?:[<>]?[\d.]+%|lanes? [\d, ]+: [\d,]+ keys?, \S+ of the records)")
_COMMENT: Final = re.compile(r"(?:^|\s)(#[^\n]*)")
_SPEC: Final = ("spec",)
#: Where a contract names keys.
_NAMING: Final = ((*_SPEC, "hot_keys"), (*_SPEC, "table"))


class _UneditableError(Exception):
    """A text that cannot be changed in place."""


def edited_text(former: str, before: Contract, wanted: str, golden: Sequence[Golden] = ()) -> str:
    """The text of `before` as the contract `wanted`, with those golden examples of before that are given."""
    after = parse_contract(wanted)
    after = after.model_copy(update={"spec": after.spec.model_copy(update={"golden": tuple(golden)})})
    ends = "\r\n" if "\r\n" in former else "\n"
    mark = BOM if former.startswith(BOM) else ""
    try:
        text = _edited(former.removeprefix(mark), before, after, wanted, ends)
        if parse_contract(text) == after:
            return mark + text
    except (ContractError, _UneditableError, yaml.YAMLError):
        pass
    return with_modeline(wanted, former)


def _edited(text: str, before: Contract, after: Contract, wanted: str, ends: str) -> str:
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=Loader)):
        raise _UneditableError
    gone = [n for n, one in enumerate(before.spec.golden) if one not in after.spec.golden]
    if after.spec.golden:
        for number in reversed(gone):
            text = _without_item(text, (*_SPEC, "golden"), number)
    elif before.spec.golden:
        text = _without(text, (*_SPEC, "golden"))
    remarks = _Remarks()
    for field_of in _NAMING:
        if there := _pair(_root(text), field_of):
            remarks.collect(text, *there)
    for names in _differences(before, after):
        text = _changed(text, names, wanted, remarks, ends)
    return text


def _differences(before: BaseModel, after: BaseModel, names: Names = ()) -> Iterator[Names]:
    """Where two contracts differ in meaning: a default that is written out is no difference."""
    for name, info in type(after).model_fields.items():
        old, new, inner = getattr(before, name), getattr(after, name), (*names, info.alias or name)
        if old == new or inner == (*_SPEC, "golden"):
            continue
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from _differences(old, new, inner)
        else:
            yield inner


@dataclass(frozen=True, slots=True)
class _Entry:
    """A field to write: its value on the line of its name, or the lines below, set in from the name's own column."""

    name: str
    inline: str
    below: tuple[str, ...]
    value: yaml.Node

    def lines(self, column: int) -> list[str]:
        space = " " * column
        return [f"{space}{self.name}:{' ' * bool(self.inline)}{self.inline}", *(space + line for line in self.below)]


def _changed(text: str, names: Names, wanted: str, remarks: _Remarks, ends: str) -> str:
    """The text with one field as it is wanted."""
    source = _pair(_root(wanted), names)
    parent, there = _mapping(_root(text), names[:-1]), _pair(_root(text), names)
    if parent is None:
        return text if source is None else _changed(text, names[:-1], wanted, remarks, ends)
    if source is None:
        return text if there is None else _without(text, names)
    entry = _entry(wanted, source)
    if parent.flow_style and entry.below:
        return _changed(_opened(text, names[:-1], ends), names, wanted, remarks, ends)
    if there is None:
        return _added(text, parent, remarks.put(entry), _order(names), ends)
    if entry.below or (isinstance(there[1], yaml.CollectionNode) and not there[1].flow_style):
        return _replaced_block(text, there, remarks.put(entry), ends)
    start, end = there[1].start_mark.index, _end(there[1])
    return f"{text[:start]}{' ' * (start == end)}{entry.inline}{text[end:]}"


def _entry(text: str, pair: Pair) -> _Entry:
    name, value = pair
    column = name.start_mark.column
    written = str(name.value)
    if not isinstance(value, yaml.CollectionNode) or value.flow_style:
        return _Entry(written, text[value.start_mark.index : _end(value)], (), value)
    lines = text[_next_line(text, name.end_mark.index) : _line_end(text, _end(value))].split("\n")
    return _Entry(written, "", tuple(line[column:] for line in lines), value)


def _added(text: str, parent: yaml.MappingNode, entry: _Entry, order: Sequence[str], ends: str) -> str:
    """The text with another field: behind the one that comes before it in a contract, of those that are there."""
    known = {str(name.value): value for name, value in parent.value}
    earlier = [known[name] for name in order[: order.index(entry.name)] if name in known]
    if parent.flow_style:
        last = parent.value[-1][1] if parent.value else None
        at = parent.start_mark.index + 1 if last is None else _end(last)
        return f"{text[:at]}{', ' * (last is not None)}{entry.name}: {entry.inline}{text[at:]}"
    column = parent.value[0][0].start_mark.column
    block = ends.join(entry.lines(column))
    if not earlier:
        at = parent.value[0][0].start_mark.index - column
        return f"{text[:at]}{block}{ends}{text[at:]}"
    at = _line_end(text, max(map(_end, earlier)))
    return f"{text[:at]}{ends}{block}{text[at:]}"


def _replaced_block(text: str, there: Pair, entry: _Entry, ends: str) -> str:
    """The text with the lines of a value exchanged; comments of its name's line stay on it."""
    name, value = there
    colon = text.index(":", name.end_mark.index) + 1
    last = _end(value)
    stop = _line_end(text, last)
    # What stands behind a value that begins on the line of its name, or behind the name alone.
    beside = text[colon : _line_end(text, colon)] if value.start_mark.line > name.start_mark.line else text[last:stop]
    remark = beside.rstrip() if beside.strip().startswith("#") else ""
    column = name.start_mark.column
    below = [" " * column + line for line in entry.below]
    inline = f" {entry.inline}" if entry.inline else ""
    return text[:colon] + ends.join([f"{inline}{remark}", *below]) + text[stop:]


@dataclass(frozen=True, slots=True)
class _Remarks:
    """People's comments among the keys that a contract names: those about all of them, and those about one."""

    head: list[str] = field(default_factory=list)
    about: dict[str, list[str]] = field(default_factory=dict)

    def collect(self, text: str, name: yaml.Node, value: yaml.Node) -> None:
        """Those of one field: a comment is about the key that it stands above or beside."""
        keys, beside = defaultdict(list), {}
        for key, node in _named(value):
            keys[node.start_mark.line].append(key)
            behind = text[_end(node) : _line_end(text, _end(node))].strip().lstrip(",]} ")
            beside[key] = [behind] if behind.startswith("#") else []
        above: list[str] = []
        lines = text[: _line_end(text, _end(value))].split("\n")
        for number, line in enumerate(lines[name.start_mark.line + 1 :], name.start_mark.line + 1):
            bare = line.strip()
            if bare.startswith("#"):
                above.append(bare)
            elif bare and number in keys:
                for key in keys[number]:
                    self.about.setdefault(key, []).extend(_by_people([*above, *beside[key]]))
                    above = []
            elif bare:
                self.head.extend(_by_people(above))
                above = []

    def put(self, entry: _Entry) -> _Entry:
        """A field with the comments on the keys that it names, each above its key; those about all at its head."""
        keys = defaultdict(list)
        for key, node in _named(entry.value):
            keys[node.start_mark.line - entry.value.start_mark.line].append(key)
        if not keys or not entry.below:
            return entry
        below = [_indent(entry.below[0]) + one for one in self.head]
        # A value begins on its first line that is no comment.
        first = next(n for n, line in enumerate(entry.below) if not line.lstrip().startswith("#"))
        for n, line in enumerate(entry.below):
            below += [_indent(line) + one for key in keys[n - first] for one in self.about.get(key, [])]
            below.append(line)
        return replace(entry, below=tuple(below))


def _by_people(comments: Iterable[str]) -> list[str]:
    return [one for one in comments if not _WRITTEN.fullmatch(one)]


def _named(value: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """The keys that a value names, each with what ends its line: in pins, in lists of keys, in a table."""
    if isinstance(value, yaml.SequenceNode):
        for rule in value.value:
            yield from _named(rule)
    elif isinstance(value, yaml.MappingNode):
        fields = {str(name.value): inner for name, inner in value.value}
        if "pins" in fields or "keys" in fields:
            for pin in _items(fields.get("pins")):
                key = next((inner for name, inner in _pairs(pin) if name.value == "key"), None)
                yield _identity(key), pin
            yield from ((_identity(one), one) for one in _items(fields.get("keys")))
        elif "values" in fields:
            yield from _named(fields["values"])
        else:
            yield from ((_identity(name), inner) for name, inner in value.value)


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _pairs(node: yaml.Node) -> list[Pair]:
    return list(node.value) if isinstance(node, yaml.MappingNode) else []


def _identity(node: yaml.Node | None) -> str:
    """A key as its bytes distinguish it: 7 and '7' are one."""
    if isinstance(node, yaml.SequenceNode):
        return repr([_identity(one) for one in node.value])
    return "" if node is None else str(node.value)


def _opened(text: str, names: Names, ends: str) -> str:
    """The text with a mapping between braces as lines, an entry each; those around it first."""
    for end in range(len(names) + 1):
        node = _mapping(_root(text), names[:end])
        if node is None or not node.flow_style:
            continue
        around = _pair(_root(text), names[:end])
        column = around[0].start_mark.column + 2 if around else 0
        start, stop = node.start_mark.index, _end(node)
        lines, at = [], start + 1
        for name, value in node.value:
            lines += _COMMENT.findall(text[at : name.start_mark.index])
            written = text[value.start_mark.index : _end(value)]
            key = text[name.start_mark.index : name.end_mark.index]
            lines.append(f"{key}:{' ' * bool(written)}{written}")
            at = _end(value)
        lines += _COMMENT.findall(text[at : stop - 1])
        block = ends.join(" " * column + line for line in lines)
        if around is None:
            text = text[:start] + block + text[stop:]
        else:
            behind = text[stop : _line_end(text, stop)].rstrip()
            text = text[:start].rstrip() + behind + ends + block + text[_line_end(text, stop) :]
    return text


def _without(text: str, names: Names) -> str:
    """The text without a field, and without a mapping that has no other; a comment above it stays."""
    parent = _mapping(_root(text), names[:-1])
    place = next((n for n, (name, _) in enumerate(parent.value) if name.value == names[-1]), None) if parent else None
    if parent is None or place is None:
        return text
    if len(parent.value) == 1:
        return _without(text, names[:-1])
    spans = [(name.start_mark.index, _end(value)) for name, value in parent.value]
    return _cut(text, spans, place, flow=bool(parent.flow_style))


def _without_item(text: str, names: Names, number: int) -> str:
    """The text without one item of a list."""
    there = _pair(_root(text), names)
    if there is None or not isinstance(there[1], yaml.SequenceNode):
        raise _UneditableError
    spans = [(one.start_mark.index, _end(one)) for one in there[1].value]
    return _cut(text, spans, number, flow=bool(there[1].flow_style))


def _cut(text: str, spans: Sequence[tuple[int, int]], place: int, *, flow: bool) -> str:
    start, end = spans[place]
    if not flow:
        return text[: text.rfind("\n", 0, start) + 1] + text[_next_line(text, end) :]
    if place:
        return text[: spans[place - 1][1]] + text[end:]
    return text[:start] + text[spans[1][0] if len(spans) > 1 else end :]


def _order(names: Names) -> list[str]:
    """The fields beside one, in the order of a contract."""
    from keylane.contract import model

    found: type[BaseModel] = model.Contract
    for name in names[:-1]:
        info = next(one for key, one in found.model_fields.items() if (one.alias or key) == name)
        found = next(one for one in _types(info.annotation) if issubclass(one, BaseModel))
    return [info.alias or name for name, info in found.model_fields.items()]


def _types(annotation: object) -> list[type]:
    inner = [one for part in getattr(annotation, "__args__", ()) for one in _types(part)]
    return [annotation] if isinstance(annotation, type) and not inner else inner


def _root(text: str) -> yaml.MappingNode:
    node = yaml.compose(text, Loader=Loader)
    if not isinstance(node, yaml.MappingNode):
        raise _UneditableError
    return node


def _mapping(root: yaml.MappingNode, names: Names) -> yaml.MappingNode | None:
    found = _pair(root, names) if names else (root, root)
    return found[1] if found is not None and isinstance(found[1], yaml.MappingNode) else None


def _pair(root: yaml.MappingNode, names: Names) -> Pair | None:
    found: Pair | None = None
    node: yaml.Node = root
    for name in names:
        found = next((pair for pair in _pairs(node) if pair[0].value == name), None)
        if found is None:
            return None
        node = found[1]
    return found


def _end(node: yaml.Node) -> int:
    """Where a node ends; YAML's own mark of a block is where the next one begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _line_end(text: str, at: int) -> int:
    """Where the line ends that a position is in: before its line break."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
