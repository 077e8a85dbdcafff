"""A contract as a caller has it: the `Contract`, the path of its file, or its text. What is in a file: `parse`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.errors import ArgumentError, UnreadableError, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from keylane.contract.model import Contract
    from keylane.records import Finding

    GivenContract: TypeAlias = Contract | str | os.PathLike[str]

TAKEN: Final = "a Contract, the path of its file, or its text"


def contract_from(given: GivenContract) -> Contract:
    """The contract. Text and path are distinguished by content: a path has no line break and no `apiVersion:`.

    Raises ContractError with every problem of it; UnreadableError where there is no such file.
    """
    from keylane.contract.model import Contract
    from keylane.contract.parse import load_contract, parse_contract

    if isinstance(given, Contract):
        return given
    if is_text(given):
        return parse_contract(str(given))
    with _readable(given) as path:
        return load_contract(path)


def text_of(given: GivenContract) -> str:
    """The text of a contract, line ends and all; that of a `Contract` is not known, and empty."""
    from keylane.contract.model import Contract

    if isinstance(given, Contract):
        return ""
    if is_text(given):
        return str(given)
    with _readable(given) as path:
        return path.read_bytes().decode("utf-8", "replace")


def examined(given: GivenContract) -> tuple[Contract | None, list[Finding]]:
    """The contract, or everything that is wrong with it, each with its line; never raises for what is in it."""
    from keylane.contract.model import Contract
    from keylane.contract.parse import examine, examine_file

    if isinstance(given, Contract):
        return given, []
    if is_text(given):
        return examine(str(given))
    with _readable(given) as path:
        return examine_file(path)


def located_in(findings: Iterable[Finding], given: GivenContract) -> list[Finding]:
    """Findings with the lines of the text they are about; of a `Contract`, which has none, as they are."""
    from keylane.contract.model import Contract
    from keylane.contract.parse import located

    if isinstance(given, Contract):
        return list(findings)
    if is_text(given):
        return located(findings, str(given))
    with _readable(given) as path:
        return located(findings, path.read_text(encoding="utf-8"))


def names_of(several: Sequence[GivenContract]) -> list[str]:
    """What messages call several contracts: by their paths, otherwise by their own names; no two alike.

    >>> names_of(["a.yaml", "a.yaml"])
    ['a.yaml', 'a.yaml (2)']
    """
    found: list[str] = []
    for given in several:
        name = _name(given)
        again = found.count(name) + sum(one.startswith(f"{name} (") for one in found)
        found.append(f"{name} ({again + 1})" if again else name)
    return found


def is_text(given: Any) -> bool:
    r"""Whether this is the text of a contract, not the path of one.

    >>> is_text("payments.yaml"), is_text("{apiVersion: keylane/v1}"), is_text("a: 1\nb: 2")
    (False, True, True)
    """
    return isinstance(given, str) and ("\n" in given or "apiVersion:" in given)


def _name(given: GivenContract) -> str:
    if is_text(given):
        return "contract"
    return os.fspath(given) if isinstance(given, str | os.PathLike) else given.metadata.name


@contextmanager
def _readable(given: Any) -> Iterator[Path]:
    """The path of a contract's file; that it cannot be read is keylane's error, and an OSError."""
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError.of("not a contract", got=given, allowed=TAKEN)
    try:
        yield Path(given)
    except OSError as error:
        text = error.strerror or str(error)
        raise UnreadableError(visible(f"{text[0].lower()}{text[1:]}: {os.fspath(given)}")) from error
