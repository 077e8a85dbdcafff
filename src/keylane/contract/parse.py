"""File or text -> Contract, or every problem of it at once, each with its line and path.

The bounds on the YAML itself are in `yaml_tree`, the fields in `model`, contradictions in `validate`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from keylane.contract import model
from keylane.contract.allowed import allowed_at, near_in, shown
from keylane.contract.shards import read_shard_files
from keylane.contract.validate import cross_problems
from keylane.contract.yaml_tree import MAX_BYTES, Path, Tree, path_of, read_tree, show_path
from keylane.errors import ArgumentError, ContractError, did_you_mean
from keylane.numbers import plural
from keylane.records import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

    from keylane.contract.model import Contract

#: Which model stands at a path (list positions left out), for "did you mean".
_MODELS: Final[dict[tuple[str, ...], type[BaseModel]]] = {
    (): model.Contract,
    ("metadata",): model.Metadata,
    ("spec",): model.Spec,
    ("spec", "key"): model.Key,
    ("spec", "key", "window"): model.Window,
    ("spec", "hot_keys"): model.HotKeys,
    ("spec", "hot_keys", "pin"): model.Pin,
    ("spec", "hot_keys", "pins"): model.PinnedKey,
    ("spec", "hot_keys", "spread"): model.Spread,
    ("spec", "hot_keys", "tier"): model.Tier,
    ("spec", "hot_keys", "tier", "spread"): model.Spread,
    ("spec", "table"): model.Table,
    ("spec", "table", "ranges"): model.TableRange,
    ("spec", "geo"): model.Geo,
    ("spec", "shards"): model.Shards,
    ("spec", "shards", "layout"): model.ShardRange,
    ("spec", "expect"): model.Expect,
    ("spec", "golden"): model.Golden,
}


def load_contract(path: str | FilePath) -> Contract:
    """Read a contract file.

    Raises ContractError with every problem of the file in `.findings`; OSError when it cannot be read.
    """
    given: Any = path
    if not isinstance(given, str | PathLike):
        raise ArgumentError.of("not the path of a contract", got=given, allowed="text or a path")
    return _or_raise(*examine_file(path), str(path))


def parse_contract(text: str, name: str = "contract") -> Contract:
    """Read a contract from text; `name` is what messages call it."""
    given: Any = text
    if not isinstance(given, str):
        hint = "load_contract(path) reads a file" if isinstance(given, PathLike) else ""
        raise ArgumentError.of("not the text of a contract", got=given, allowed="text", hint=hint)
    return _or_raise(*examine(text), name)


def _or_raise(contract: Contract | None, findings: list[Finding], name: str) -> Contract:
    if contract is None:
        lines = "\n".join(f"  {finding}" for finding in findings)
        raise ContractError(f"{name} has {plural(len(findings), 'problem')}:\n{lines}", findings)
    return contract


def examine_file(path: str | FilePath) -> tuple[Contract | None, list[Finding]]:
    """As `examine`, for a file; a file that is no text, or too much of it, is a finding too."""
    with FilePath(path).open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    try:
        # A file too large is cut, maybe inside a letter; its size is what is wrong with it.
        text = raw.decode("utf-8", "replace" if len(raw) > MAX_BYTES else "strict")
    except UnicodeDecodeError as error:
        got = raw[error.start : error.start + 8]
        return None, [Finding("error", "(file)", f"not UTF-8 text: got {got!r} at byte {error.start}")]
    return examine(text, FilePath(path).parent)


def located(findings: Iterable[Finding], text: str) -> list[Finding]:
    """Give findings about a contract the lines of its text, for what was found after it was read."""
    tree = read_tree(text)
    return [replace(f, line=tree.line(path_of(f.where))) if f.where.startswith("spec") else f for f in findings]


def examine(text: str, folder: FilePath | None = None) -> tuple[Contract | None, list[Finding]]:
    """Read a contract and everything that is wrong with it, in file order, without raising.

    `folder` is where files that it names lie; without one it may name none.
    """
    tree = read_tree(text)
    if tree.findings and tree.data is None:
        return None, tree.findings
    if not isinstance(tree.data, dict):
        tree.problem(
            (), f"a contract is a mapping: got {shown(tree.data)}; hint: it begins with `apiVersion: keylane/v1`"
        )
        return None, tree.findings
    read_shard_files(tree, folder)
    contract = _validate(tree)
    for path, message in cross_problems(tree.data):
        tree.problem(path, message)
    findings = sorted(dict.fromkeys(tree.findings), key=lambda f: (f.line or 0, f.where))
    return (None if findings else contract), findings


def _validate(tree: Tree) -> Contract | None:
    try:
        return model.Contract.model_validate(tree.data)
    except ValidationError as error:
        known = {finding.where for finding in tree.findings}
        for path, details in _merged(error, tree):
            if show_path(path) not in known:
                tree.problem(path, _message(path, details))
    return None


def _merged(error: ValidationError, tree: Tree) -> list[tuple[Path, list[ErrorDetails]]]:
    """Group pydantic's errors by the path they speak of: a union reports one for each of its members.

    What pydantic reports of a list because of its members (too short without them) goes: the members have their own.
    """
    groups: dict[Path, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        groups.setdefault(_real_path(details["loc"], tree), []).append(details)
    around = {path[:end] for path in groups for end in range(len(path))}
    return [(path, details) for path, details in groups.items() if path not in around]


def _real_path(loc: tuple[str | int, ...], tree: Tree) -> Path:
    """Drop from pydantic's location what is not in the file: names of union members."""
    path: Path = ()
    for part in loc[:-1]:
        if (*path, part) in tree.lines:
            path = (*path, part)
    last = loc[-1] if loc else ""
    in_file = (*path, last) in tree.lines
    is_member = isinstance(last, str) and (last in _MEMBERS or "[" in last)
    return path if is_member and not in_file else (*path, last)


_MEMBERS: Final = {"int", "float", "str", "constrained-int", "constrained-str", "literal['live']", "tuple"}


def _message(path: Path, details: list[ErrorDetails]) -> str:
    first = details[0]
    name = str(path[-1]) if path else ""
    known = _known_fields(path[:-1])
    match first["type"]:
        case "extra_forbidden":
            near = did_you_mean(name, known)
            return f"unknown field; {near or 'allowed: ' + ', '.join(known)}"
        case "missing":
            return "required, but missing"
        case _:
            schema = _schema()
            hint = near_in(schema, path, first["input"])
            return f"got {shown(first['input'])}; allowed: {allowed_at(schema, path)}" + (
                f"; hint: {hint}" if hint else ""
            )


@cache
def _schema() -> dict[str, Any]:
    """Made once: a contract may have thousands of wrong values."""
    return model.Contract.model_json_schema(by_alias=True)


def _known_fields(path: Path) -> list[str]:
    stands = _MODELS.get(tuple(part for part in path if isinstance(part, str)))
    fields: dict[str, Any] = stands.model_fields if stands else {}
    return [info.alias or name for name, info in fields.items()]
