"""Whether a stream of results is what delivery promises: windows of a query in order, none missing, none twice.

Rule: by query, in the order in which results were delivered, `sequence` is 0, 1, 2 … without a gap; windows never go
back; no window and group comes twice; and every window is as long as the others. Example: sequences 0, 1, 3 have a gap
at 2, which is a result that was lost; 0, 1, 1 one that was delivered twice. Results of several queries may interleave
in any way. What was never delivered at all is not noticed here but for its number: compare with the counts of the
state (`pipelines.aggregate.verify`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: More of a kind would bury the rest.
MOST: Final = 20


@dataclass(frozen=True, slots=True)
class Delivered:
    """A result as it was delivered: `group` are the values of its group, `where` it was found."""

    query: str
    start: int
    end: int
    sequence: int
    group: tuple[Any, ...] = ()
    where: str = ""


@dataclass(slots=True)
class _SeenWindows:
    next: int = 0
    start: int | None = None
    length: int | None = None
    windows: set[tuple[Any, ...]] = field(default_factory=set)
    sequences: set[int] = field(default_factory=set)


@dataclass(slots=True)
class OrderCheck:
    """Takes results in the order in which they were delivered."""

    problems: list[str] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    results: int = 0
    _seen: dict[str, _SeenWindows] = field(default_factory=dict)

    def take(self, results: Iterable[Delivered]) -> OrderCheck:
        """Compare each with what came before it."""
        for one in results:
            self.results += 1
            seen = self._seen.setdefault(one.query, _SeenWindows())
            self._take(one, seen)
        return self

    def _take(self, one: Delivered, seen: _SeenWindows) -> None:
        if one.sequence in seen.sequences:
            self._problem("twice", one, f"sequence {one.sequence} was delivered before")
        elif one.sequence != seen.next:
            kind = "missing" if one.sequence > seen.next else "order"
            self._problem(kind, one, f"sequence {seen.next} should come, and {one.sequence} does")
        if seen.start is not None and one.start < seen.start:
            self._problem("order", one, "its window is before the one that came before it")
        if (one.start, one.group) in seen.windows:
            self._problem("twice", one, "its window and group were delivered before")
        if seen.length is not None and one.end - one.start != seen.length:
            self._problem("window", one, "its window is of another length")
        seen.windows.add((one.start, one.group))
        seen.sequences.add(one.sequence)
        seen.next = max(seen.next, one.sequence + 1)
        seen.start, seen.length = one.start, one.end - one.start

    def counted(self, query: str, expected: int) -> None:
        """Compare how many results a query has with how many were committed."""
        found = len(self._seen[query].sequences) if query in self._seen else 0
        if found != expected:
            self.count["missing" if found < expected else "more"] += 1
            if len(self.problems) < MOST:
                self.problems.append(f"query {query}: {found} results, and {expected} were committed")

    def _problem(self, kind: str, one: Delivered, text: str) -> None:
        self.count[kind] += 1
        if len(self.problems) < MOST:
            self.problems.append(f"query {one.query}, window at {one.start}{one.where and f', {one.where}'}: {text}")

    @property
    def queries(self) -> int:
        """How many queries have results."""
        return len(self._seen)
