"""Random queries over random events whose fields are mostly not there, beside a plain loop in Python."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tests.aggregate.reference import MINUTE, START, Event, moment, percentile

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[list[Event]], Any]


def value(event: Event, path: str) -> Any:
    found: Any = event
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def values(events: list[Event], path: str) -> list[Any]:
    return [found for event in events if (found := value(event, path)) is not None]


def total(numbers: list[float]) -> float | None:
    exact = sum((Fraction(one) for one in numbers), Fraction(0))
    try:
        return float(exact) if numbers else None
    except OverflowError:
        return math.copysign(math.inf, exact)


def share(numbers: list[float], at: float) -> float | None:
    return float(percentile(numbers, at)) if numbers else None


def often(texts: list[str]) -> list[dict[str, Any]]:
    counts = sorted(Counter(texts).items(), key=lambda one: (-one[1], one[0].encode()))
    return [{"item": item, "count": count} for item, count in counts[:2]]


FILTERS: Final[list[tuple[str, Callable[[Event], bool]]]] = [
    ("type = 'click'", lambda e: e["type"] == "click"),
    ("amount > 10", lambda e: value(e, "amount") is not None and e["amount"] > 10),
    ("country is null", lambda e: value(e, "country") is None),
    (
        "country in ('de', 'größe') and items >= 2",
        lambda e: e.get("country") in {"de", "größe"} and (e.get("items") or 0) >= 2,
    ),
    ("user.city like 'b%n'", lambda e: re.fullmatch("b.*n", value(e, "user.city") or "") is not None),
    ("note like '%a_b%c%'", lambda e: re.search("(?s)a.b.*c", value(e, "note") or "") is not None),
    ("coalesce(amount, 0) <= 50 or type <> 'buy'", lambda e: (e.get("amount") or 0) <= 50 or e["type"] != "buy"),
    ("type = 'view' or type = 'buy'", lambda e: e["type"] in {"view", "buy"}),
    ("flag", lambda e: e.get("flag") is True),
    ("not flag and items = 1", lambda e: e.get("flag") is False and e.get("items") == 1),
]
AGGREGATES: Final[list[tuple[str, Read]]] = [
    ("count(*)", len),
    ("count(amount)", lambda es: len(values(es, "amount"))),
    ("sum(amount)", lambda es: total(values(es, "amount"))),
    ("sum(items)", lambda es: sum(values(es, "items")) if values(es, "items") else None),
    ("avg(items)", lambda es: sum(values(es, "items")) / len(values(es, "items")) if values(es, "items") else None),
    ("min(country)", lambda es: min(values(es, "country"), key=str.encode, default=None)),
    ("max(note)", lambda es: max(values(es, "note"), key=str.encode, default=None)),
    ("max(user.city)", lambda es: max(values(es, "user.city"), key=str.encode, default=None)),
    ("min(amount)", lambda es: min(values(es, "amount"), default=None)),
    ("count(distinct country)", lambda es: len(set(values(es, "country")))),
    ("count(distinct amount)", lambda es: len(set(values(es, "amount")))),
    ("percentile(items, 0.3)", lambda es: share(values(es, "items"), 0.3)),
    ("median(amount)", lambda es: share(values(es, "amount"), 0.5)),
    ("top_k(country, 2)", lambda es: often(values(es, "country"))),
]
GROUPS: Final[list[list[str]]] = [
    [],
    [],
    ["country"],
    ["user.city"],
    ["type", "flag"],
    ["mixed"],
    ["country", "user.zip"],
]
#: Windows and slides in milliseconds.
WINDOWS: Final = [(MINUTE, MINUTE), (MINUTE, MINUTE // 3), (90_000, MINUTE), (60 * MINUTE, 60 * MINUTE), (1_000, 1_000)]
CHOICES: Final[dict[str, list[Any]]] = {
    "amount": [None, -7.25, 10.0, 50.0, 1e308, -1e308, 1e-300, 0.1],
    "country": [None, "de", "fr", "größe", "", "日本", "🙂", "\uffff", 'a"b\\'],
    "items": [None, 1, 2, 3, 2**53 + 1, -7],
    "user": [{}, {"city": "berlin"}, {"city": "bonn", "zip": "5"}, {"zip": "1"}, None],
    "note": ["xx", "a-bc", "axb  c", "ab c", "x\na\nb\nc\nx", None, "a🙂b c"],
    "flag": [True, False, None],
    "mixed": [1, 2, 3],
}


@dataclass(frozen=True)
class RandomRun:
    """Queries, events as they come, and how they are cut into files."""

    queries: list[dict[str, Any]]
    events: list[Event]
    cuts: list[int]
    options: dict[str, Any]

    @staticmethod
    def of(seed: int) -> RandomRun:
        chance = random.Random(seed)
        begin, span = START + chance.choice([0, -(86_400_000 * 365 * 60)]), chance.choice([1_000, 120_000, 10_800_000])
        made = [_event(chance, begin, span) for _ in range(chance.choice([5, 60, 300]))]
        # Whole numbers become doubles in some later file.
        for event in made[len(made) // 2 :]:
            if "mixed" in event and chance.random() < 0.3:
                event["mixed"] = 2.5
        queries = [_query(chance, number) for number in range(chance.choice([2, 5]))]
        cuts = sorted(chance.sample(range(1, len(made)), min(4, len(made) - 1)))
        options = {
            "max_files": chance.choice([1, 2, 100]),
            "partial": chance.random() < 0.7,
            "by": chance.choice(["query", "query-window"]),
        }
        return RandomRun(queries, made, cuts, options)

    def parts(self) -> list[list[Event]]:
        return [self.events[a:b] for a, b in zip([0, *self.cuts], [*self.cuts, len(self.events)], strict=True)]

    def expected(self) -> list[dict[str, Any]]:
        """The results without nulls, by query and sequence."""
        return [row for query in self.queries for row in _expected(query, self.events)]


def _event(chance: random.Random, begin: int, span: int) -> Event:
    time = begin + chance.randrange(span)
    # One in ten is at the border of a window, or beside it.
    time = time // MINUTE * MINUTE + chance.choice([0, -1, 1]) if chance.random() < 0.1 else time
    event = {"type": chance.choice(["click", "view", "buy"]), "ts": time}
    return event | {name: chance.choice(given) for name, given in CHOICES.items() if chance.random() < 0.5}


def _query(chance: random.Random, number: int) -> dict[str, Any]:
    window, slide = chance.choice(WINDOWS)
    chosen = chance.sample(AGGREGATES, chance.choice([1, 3, 6]))
    return {
        "id": f"q{number}",
        "filter": chance.choice(FILTERS)[0],
        "group_by": chance.choice(GROUPS),
        "aggregates": {f"a{number}_{at}": text for at, (text, _) in enumerate(chosen)},
        "window": f"{window} ms",
        "slide": f"{slide} ms",
        "lateness": "366 days",
    }


def _expected(query: dict[str, Any], events: list[Event]) -> list[dict[str, Any]]:
    matches, reads = dict(FILTERS)[query["filter"]], dict(AGGREGATES)
    window, slide = (int(query[name].removesuffix(" ms")) for name in ("window", "slide"))
    windows: dict[tuple[Any, ...], list[Event]] = {}
    for event in filter(matches, events):
        start = event["ts"] // slide * slide
        while start > event["ts"] - window:
            windows.setdefault((start, *(value(event, path) for path in query["group_by"])), []).append(event)
            start -= slide
    made = []
    for sequence, key in enumerate(sorted(windows, key=lambda key: [*map(_order, key)])):
        row = {"query_id": query["id"], "window_start": moment(key[0]), "window_end": moment(key[0] + window)}
        row |= dict(zip(query["group_by"], key[1:], strict=True))
        row |= {name: reads[text](windows[key]) for name, text in query["aggregates"].items()}
        made.append({name: one for name, one in row.items() if one is not None} | {"sequence": sequence})
    return made


def _order(part: Any) -> tuple[int, Any]:
    return (0, 0) if part is None else (1, part.encode() if isinstance(part, str) else part)
