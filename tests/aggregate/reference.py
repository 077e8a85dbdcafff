"""What results should be, by a plain loop over all events: Python's own conditions, sums and sorting, and no Spark.

A query of these tests comes with its filter as a function of Python, so that nothing is shared with what is tested.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Event = dict[str, Any]
START = 1_700_000_040_000
MINUTE = 60_000


@dataclass(frozen=True)
class Reference:
    """A query, its filter in Python, and its window and slide in milliseconds."""

    definition: dict[str, Any]
    matches: Callable[[Event], bool]
    window: int = MINUTE
    slide: int = MINUTE
    #: Of each aggregate: its column, and the value of a list of events.
    values: dict[str, Callable[[list[Event]], Any]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.definition["id"])

    def expected(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The results, in order and numbered."""
        groups: dict[tuple[Any, ...], list[Event]] = {}
        fields = self.definition.get("group_by") or []
        for event in events:
            if event.get("ts") is None or not self.matches(event):
                continue
            start = event["ts"] // self.slide * self.slide
            while start > event["ts"] - self.window:
                key = (start, *(event.get(name) for name in fields))
                groups.setdefault(key, []).append(event)
                start -= self.slide
        made = []
        for sequence, key in enumerate(sorted(groups)):
            row = {"query_id": self.id, "window_start": moment(key[0]), "window_end": moment(key[0] + self.window)}
            row |= dict(zip(fields, key[1:], strict=True))
            row |= {name: value(groups[key]) for name, value in self.values.items()}
            made.append({**row, "sequence": sequence})
        return made


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def percentile(values: list[float], share: float) -> float:
    ordered, position = sorted(values), (len(values) - 1) * share
    low, high = math.floor(position), math.ceil(position)
    if low == high or ordered[low] == ordered[high]:
        return ordered[low]
    return (high - position) * ordered[low] + (position - low) * ordered[high]


def top(values: list[str], many: int) -> list[dict[str, Any]]:
    counts = sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))
    return [{"item": item, "count": count} for item, count in counts[:many]]


def amounts(events: list[Event]) -> list[float]:
    return [event["amount"] for event in events if event["amount"] is not None]


QUERIES = [
    Reference(
        {
            "id": "clicks",
            "filter": "type = 'click' and amount > 10",
            "group_by": ["country"],
            "aggregates": {"n": "count(*)", "total": "sum(amount)"},
            "window": "1 minute",
            "slide": None,
            "lateness": "10 seconds",
            "time": "ts",
        },
        lambda event: event["type"] == "click" and event["amount"] is not None and event["amount"] > 10,
        values={"n": len, "total": lambda events: math.fsum(amounts(events))},
    ),
    Reference(
        {
            "id": "sliding",
            "filter": "country in ('de', 'fr') or country = 'us'",
            "aggregates": {
                "seen": "count(amount)",
                "low": "min(amount)",
                "high": "max(user)",
                "mean": "avg(amount)",
                "people": "count(distinct user)",
                "halves": "percentile(amount, array(0.5, 0.9))",
                "middle": "median(amount)",
                "often": "top_k(user, 2)",
                "items": "sum(items * 2)",
            },
            "window": "2 minutes",
            "slide": "30 seconds",
        },
        lambda event: event["country"] in {"de", "fr", "us"},
        window=2 * MINUTE,
        slide=MINUTE // 2,
        values={
            "seen": lambda events: len(amounts(events)),
            "low": lambda events: min(amounts(events)),
            "high": lambda events: max(event["user"] for event in events),
            "mean": lambda events: math.fsum(amounts(events)) / len(amounts(events)),
            "people": lambda events: len({event["user"] for event in events}),
            "halves": lambda events: [percentile(amounts(events), share) for share in (0.5, 0.9)],
            "middle": lambda events: percentile(amounts(events), 0.5),
            "often": lambda events: top([event["user"] for event in events], 2),
            "items": lambda events: sum(event["items"] * 2 for event in events),
        },
    ),
    Reference(
        {
            "id": "unindexed",
            "filter": "amount between 20 and 40 and user like 'u1%'",
            "group_by": ["type", "country"],
            "aggregates": {"n": "count(*)"},
            "window": "5 minutes",
        },
        lambda event: event["amount"] is not None and 20 <= event["amount"] <= 40 and event["user"].startswith("u1"),
        window=5 * MINUTE,
        slide=5 * MINUTE,
        values={"n": len},
    ),
]


def events(many: int, seed: int = 1, begin: int = START, end: int = START + 10 * MINUTE) -> list[Event]:
    """Events in any order, some without an amount."""
    chance = random.Random(seed)
    return [
        {
            "type": chance.choice(["click", "view", "buy"]),
            "amount": None if chance.random() < 0.05 else chance.choice([chance.uniform(0, 100), 1e-9, 1e12]),
            "country": chance.choice(["de", "fr", "us", "uk"]),
            "user": f"u{chance.randrange(30)}",
            "items": chance.randrange(5),
            "ts": chance.randrange(begin, end),
        }
        for _ in range(many)
    ]


def write_lines(path: Path, lines: Iterable[Event | str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    waiting = path.with_suffix(".tmp")
    waiting.write_text(text, encoding="utf-8")
    waiting.rename(path)


def results(target: Path, kind: str = "results") -> list[dict[str, Any]]:
    """The results of a folder by query, in the order of their sequence; each with the columns of its query only."""
    own = {query.id: query for query in QUERIES}
    rows = []
    for path in sorted((target / kind).rglob("*.parquet")):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            query = own[row["query_id"]]
            names = ["query_id", "window_start", "window_end", *(query.definition.get("group_by") or []), *query.values]
            rows.append({name: row[name] for name in (*names, "sequence")})
    return sorted(rows, key=lambda row: (row["query_id"], row["sequence"]))


def expected(given: list[Event], queries: Iterable[Reference] = QUERIES) -> list[dict[str, Any]]:
    return [row for query in sorted(queries, key=lambda one: one.id) for row in query.expected(given)]
