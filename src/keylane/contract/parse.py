"""File or text -> Contract, or every problem of it at once, each with its line and path.

The bounds on the YAML itself are in `yaml_tree`, the fields in `model`, contradictions in `validate`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from keylane.contract import model
from keylane.contract.validate import cross_problems
from keylane.contract.yaml_tree import MAX_BYTES, Path, Tree, path_of, read_tree, show_path
from keylane.errors import ContractError, did_you_mean, shorten
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
    ("spec", "expect"): model.Expect,
    ("spec", "golden"): model.Golden,
}


def load_contract(path: str | FilePath) -> Contract:
    """Read a contract file.

    Raises ContractError with every problem of the file in `.findings`; OSError when it cannot be read.
    """
    return _or_raise(*examine_file(path), str(path))


def parse_contract(text: str, name: str = "contract") -> Contract:
    """Read a contract from text; `name` is what messages call it."""
    return _or_raise(*examine(text), name)


def _or_raise(contract: Contract | None, findings: list[Finding], name: str) -> Contract:
    if contract is None:
        lines = "\n".join(f"  {finding}" for finding in findings)
        raise ContractError(f"{name} has {len(findings)} problem(s):\n{lines}", findings)
    return contract


def examine_file(path: str | FilePath) -> tuple[Contract | None, list[Finding]]:
    """As `examine`, for a file; a file that is no text, or too much of it, is a finding too."""
    with FilePath(path).open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    try:
        # A file too large is cut, maybe inside a letter; its size is what is wrong with it.
        return examine(raw.decode("utf-8", "replace" if len(raw) > MAX_BYTES else "strict"))
    except UnicodeDecodeError as error:
        got = raw[error.start : error.start + 8]
        return None, [Finding("error", "(file)", f"not UTF-8 text: got {got!r} at byte {error.start}")]


def located(findings: Iterable[Finding], text: str) -> list[Finding]:
    """Give findings about a contract the lines of its text, for what was found after it was read."""
    tree = read_tree(text)
    return [replace(f, line=tree.line(path_of(f.where))) if f.where.startswith("spec") else f for f in findings]


def examine(text: str) -> tuple[Contract | None, list[Finding]]:
    """Read a contract and everything that is wrong with it, in file order, without raising."""
    tree = read_tree(text)
    if tree.findings and tree.data is None:
        return None, tree.findings
    if not isinstance(tree.data, dict):
        tree.problem((), f"a contract must be a mapping: got {type(tree.data).__name__}")
        return None, tree.findings
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
            wants = " or ".join(dict.fromkeys(_wants(d) for d in details))
            near = next(filter(None, map(_near_value, details)), "")
            return f"got {shorten(first['input'])}; allowed: {wants}" + (f"; hint: {near}" if near else "")


def _wants(details: ErrorDetails) -> str:
    return details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")


def _near_value(details: ErrorDetails) -> str:
    """For a closed list, the member that was probably meant."""
    expected = str(details.get("ctx", {}).get("expected", ""))
    value = details["input"]
    return (
        did_you_mean(value, expected.replace(" or ", ", ").replace("'", "").split(", "))
        if isinstance(value, str)
        else ""
    )


def _known_fields(path: Path) -> list[str]:
    stands = _MODELS.get(tuple(part for part in path if isinstance(part, str)))
    fields: dict[str, Any] = stands.model_fields if stands else {}
    return [info.alias or name for name, info in fields.items()]
