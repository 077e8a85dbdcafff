"""Pairs of contracts of listed partitioners, as text and as rules, and the share of keys that really changes lane.

Nothing here comes from keylane: keys are placed by the grammar's own hashes and folds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests.worlds.producers import LISTED, Recipe, Writer, made

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Populations whose keys fall evenly under any hash, and the key bytes that keylane's contract has for them.
_EVEN: Final[dict[str, tuple[str, ...]]] = {
    "uuid": ("utf8", "uuid"),
    "words": ("utf8",),
    "spread-ints": ("utf8", "int32be", "int64be"),
    "bytes": ("raw",),
}
KEYS: Final = 5_000
#: What is changed, and how often it is drawn.
CHANGES: Final = ("count", "fold", "hash", "bytes", "count and fold", "count and hash", "nothing", "another name")


@dataclass(frozen=True, slots=True)
class Change:
    """One change: the names and the rules of both contracts, and a population of keys."""

    what: str
    names: tuple[str, str]
    rules: tuple[Writer, Writer]
    population: str
    seed: int

    def keys(self) -> tuple[Any, ...]:
        """So many keys that both contracts can place."""
        return _keys(self.population, self.seed % 5)

    def moved(self) -> float:
        """The share of keys that changes lane, counted."""
        keys = self.keys()
        return float((self.rules[0].place(keys) != self.rules[1].place(keys)).mean())

    def texts(self) -> tuple[str, str]:
        """Both contracts as YAML."""
        first, second = self.rules
        return contract_text(first, self.names[0]), contract_text(second, self.names[1], epoch=2)

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.what}: {self.names[0]} {self.rules[0]} -> {self.names[1]} {self.rules[1]}"


def contract_text(rule: Writer, name: str | None = None, *, epoch: int = 1, field: str = "key") -> str:
    """A contract that places as the rule does, under one of its names."""
    return "\n".join(
        [
            "apiVersion: keylane/v1",
            "kind: RoutingContract",
            f"metadata: {{name: case, epoch: {epoch}}}",
            "spec:",
            "  streams: [case]",
            f"  lanes: {rule.lanes}",
            f"  key: {{fields: [{field}], encoding: {rule.encoding}}}",
            f"  partitioner: {name or rule.names[0]}",
            "",
        ]
    )


def draw_change(seed: int, what: str | None = None) -> Change:
    """A change from a seed."""
    rng = np.random.default_rng([seed, 32])

    def pick(among: Sequence[Any]) -> Any:
        return among[int(rng.integers(len(among)))]

    what = what or pick(CHANGES)
    population = pick([name for name, forms in _EVEN.items() if what != "bytes" or len(forms) > 1])
    encoding = pick(_EVEN[population])
    first = pick(_rules(encoding))
    old = Writer(first[0], first[1], encoding, int(2 * 100 ** rng.random()))
    new = old
    if what == "bytes":
        other = pick([form for form in _EVEN[population] if form != encoding and first in _rules(form)] or [encoding])
        new = replace(old, encoding=other)
    if "fold" in what:
        first = pick([pair for pair in _rules(encoding) if _sibling(pair)])
        old = Writer(first[0], first[1], encoding, old.lanes)
        new = replace(old, fold=pick([pair[1] for pair in LISTED if pair[0] == first[0] and pair != first]))
    if "hash" in what:
        second = pick([pair for pair in _rules(encoding) if pair[0] != first[0]])
        new = Writer(second[0], second[1], encoding, old.lanes)
    if "count" in what:
        new = replace(new, lanes=pick([old.lanes * 2, old.lanes * 3 // 2, old.lanes + 1, int(2 * 100 ** rng.random())]))
    names = pick(old.names), pick(new.names) if new != old or what == "another name" else ""
    return Change(what, (names[0], names[1] or names[0]), (old, new), population, seed)


@cache
def _keys(population: str, seed: int) -> tuple[Any, ...]:
    recipe = Recipe(seed, "listed", population, KEYS, KEYS, (Writer("sum", "unsigned", "raw", 1),), (1.0,), skew="once")
    return made(recipe).distinct


def _sibling(pair: tuple[str, str]) -> bool:
    return any(other[0] == pair[0] and other != pair for other in LISTED)


def _rules(encoding: str) -> list[tuple[str, str]]:
    """The pairs of hash and fold that keylane's contract allows for these key bytes."""
    text, numbers = encoding == "utf8", encoding in {"int32be", "int64be"}
    allowed = {
        "java-string": text,
        "murmur3-32": text,
        "md5-128": text,
        "spark-murmur3": not numbers,
        "spark-number": numbers,
        "java-long": encoding == "int64be",
    }
    return [pair for pair in LISTED if allowed.get(pair[0], True)]
