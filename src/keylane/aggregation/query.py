"""A standing query: id, filter, group, aggregates, window and lateness, checked when it is registered.

    {"id": "q1", "filter": "type = 'click' and amount > 10", "group_by": ["country"],
     "aggregates": {"n": "count(*)", "total": "sum(amount)"},
     "window": "1 minute", "slide": null, "lateness": "10 seconds", "late": "drop", "time": "ts"}

Windows are aligned to 1970-01-01 UTC, as Spark's are. A window is delivered when event time has passed its end by
`lateness`; `late` says what becomes of events that come after that: `drop`, or `correct`, a window of their own among
the corrections. All aggregates are exact. What an expression may be: `expressions`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from keylane.aggregation.expressions import call_of, check_column, expression_of
from keylane.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

Late: TypeAlias = Literal["drop", "correct"]
AggregateKind: TypeAlias = Literal["count", "sum", "average", "least", "most", "distinct", "quantiles", "top"]

MICROS: Final = 1_000_000
MOST_AGGREGATES: Final = 32
MOST_GROUP_FIELDS: Final = 8
#: Windows that one event may be in.
MOST_WINDOWS: Final = 1_440
MOST_TOP: Final = 1_000
LONGEST: Final = 366 * 86_400 * MICROS
#: Columns that every result has.
RESERVED: Final = ("query_id", "window_start", "window_end", "sequence")
_FIELDS: Final = ("id", "filter", "group_by", "aggregates", "window", "slide", "lateness", "late", "time")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}(\.[A-Za-z_][A-Za-z0-9_-]{0,99}){0,5}")
_DURATION: Final = re.compile(r"(\d{1,9})\s*(milliseconds?|ms|seconds?|s|minutes?|m|hours?|h|days?|d|weeks?)")
_UNITS: Final = {
    "ms": 1_000,
    "mi": 60 * MICROS,
    "s": MICROS,
    "m": 60 * MICROS,
    "h": 3600 * MICROS,
    "d": 86_400 * MICROS,
}
_KINDS: Final[Mapping[str, AggregateKind]] = {
    "count": "count",
    "sum": "sum",
    "avg": "average",
    "average": "average",
    "mean": "average",
    "min": "least",
    "max": "most",
    "percentile": "quantiles",
    "quantile": "quantiles",
    "median": "quantiles",
    "distinct": "distinct",
    "count_distinct": "distinct",
    "top_k": "top",
}
_DISTINCT: Final = re.compile(r"distinct\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of a query: its column, what it is, the expression it is of, and the numbers that go with it.

    `argument` is None for `count(*)`. `given` are the quantiles, or how many of the most frequent. `is_list` is whether
    several quantiles were asked for.
    """

    name: str
    kind: AggregateKind
    argument: str | None
    given: tuple[float, ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A query that is allowed. Times are microseconds; `columns` are the fields of an event that it reads."""

    id: str
    filter: str
    group_by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    window: int
    slide: int
    lateness: int
    late: Late
    time: str
    columns: tuple[str, ...]
    #: The same with the fields of structs that it reads.
    paths: tuple[tuple[str, ...], ...]
    #: As it was given, with defaults: what a registry keeps.
    definition: str

    @property
    def fingerprint(self) -> str:
        """The same for the same definition."""
        return hashlib.sha256(self.definition.encode()).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """As it is given to `queries add`."""
        return dict(json.loads(self.definition))


def duration_of(text: object, what: str, least: int = 1) -> int:
    """A length of time in microseconds.

    >>> duration_of("1 minute", "the window"), duration_of("500 milliseconds", "the slide")
    (60000000, 500000)
    """
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is not None:
        unit = found[2]
        size = 7 * _UNITS["d"] if unit.startswith("week") else _UNITS[_unit(unit)]
        if least <= int(found[1]) * size <= LONGEST:
            return int(found[1]) * size
    allowed = "a number and a unit, as 500 milliseconds, 10 seconds, 1 minute, 1 hour; at most 366 days"
    raise UsageError.of(f"{what} is not a length of time", got=text, allowed=allowed)


def _unit(word: str) -> str:
    return "ms" if word.startswith("milli") or word == "ms" else word[0]


def query_of(given: object) -> Query:
    """Check a query as it was given: everything that can be known without an event."""
    if not isinstance(given, dict):
        raise UsageError.of("a query is an object", got=type(given).__name__, allowed="with " + ", ".join(_FIELDS))
    name = given.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        allowed = "letters, digits and . _ : -, at most 200 of them, beginning with a letter or digit"
        raise UsageError.of("a query has no usable id", got=name, allowed=allowed)
    try:
        return _checked(name, given)
    except UsageError as error:
        raise UsageError(f"query {name}: {error}") from None


def _checked(name: str, given: dict[str, Any]) -> Query:
    for field in given:
        if field not in _FIELDS:
            hint = did_you_mean(str(field), _FIELDS)
            raise UsageError.of("a query has no such field", got=field, allowed=", ".join(_FIELDS), hint=hint)
    condition = expression_of(given.get("filter"), "the filter")
    groups = _groups(given.get("group_by"))
    aggregates, read = _aggregates(given.get("aggregates"))
    taken = [name.lower() for name in RESERVED]
    # Readers of results as Spark tell no capitals from small letters.
    for name_of_column in (*groups, *(one.name for one in aggregates)):
        if name_of_column.lower() in taken:
            hint = "rename an aggregate; capitals make no difference"
            raise UsageError.of("two columns of the result have one name", got=name_of_column, hint=hint)
        taken.append(name_of_column.lower())
    window = duration_of(given.get("window"), "the window", 1_000)
    slide = window if given.get("slide") is None else duration_of(given["slide"], "the slide", 1_000)
    if slide > window or -(-window // slide) > MOST_WINDOWS:
        allowed = f"at most the window, and an event in at most {MOST_WINDOWS} windows"
        raise UsageError.of("the slide does not fit the window", got=given.get("slide"), allowed=allowed)
    lateness = 0 if given.get("lateness") is None else duration_of(given["lateness"], "the lateness", 0)
    late, time = given.get("late", "drop"), given.get("time", "ts")
    if late not in {"drop", "correct"}:
        raise UsageError.of("late events are not treated so", got=late, allowed="drop, correct")
    if not isinstance(time, str) or not _PATH.fullmatch(time):
        raise UsageError.of("time is not the name of a field", got=time, allowed="as ts, or header.sent_at")
    paths = [*condition.paths, *(tuple(one.split(".")) for one in groups), *read, tuple(time.split("."))]
    for path in paths:
        check_column(path[0], "a query")
    kept = {
        "id": name,
        "filter": condition.text,
        "group_by": list(groups),
        "aggregates": dict(given["aggregates"]),
        "window": given["window"],
        "slide": given.get("slide"),
        "lateness": given.get("lateness") or "0 seconds",
        "late": late,
        "time": time,
    }
    return Query(
        *(name, condition.text, groups, aggregates, window, slide, lateness, cast("Late", late), time),
        columns=tuple(dict.fromkeys(path[0] for path in paths)),
        paths=tuple(dict.fromkeys(paths)),
        definition=json.dumps(kept, ensure_ascii=False),
    )


def _groups(given: object) -> tuple[str, ...]:
    fields = [] if given is None else given
    if not isinstance(fields, list) or len(fields) > MOST_GROUP_FIELDS or len(set(map(str, fields))) < len(fields):
        raise UsageError.of(
            "group_by is no list of fields", got=given, allowed=f"at most {MOST_GROUP_FIELDS}, each once"
        )
    for field in fields:
        if not isinstance(field, str) or not _PATH.fullmatch(field) or field in RESERVED:
            raise UsageError.of(
                "group_by has what is not the name of a field", got=field, allowed="as country, user.city"
            )
    return tuple(fields)


def _aggregates(given: object) -> tuple[tuple[Aggregate, ...], list[tuple[str, ...]]]:
    if not isinstance(given, dict) or not 1 <= len(given) <= MOST_AGGREGATES:
        allowed = f'1 to {MOST_AGGREGATES}, by name, as {{"n": "count(*)"}}'
        raise UsageError.of("aggregates are missing or too many", got=given, allowed=allowed)
    made, paths = [], list[tuple[str, ...]]()
    for name, text in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError.of("not a name of an aggregate", got=name, allowed="letters, digits and _")
        aggregate, read = _aggregate(name, text)
        made.append(aggregate)
        paths += read
    return tuple(made), paths


def _aggregate(name: str, text: object) -> tuple[Aggregate, tuple[tuple[str, ...], ...]]:
    what = f"the aggregate {name}"
    call = call_of(text, what)
    kind = _KINDS.get(call.name)
    if kind is None:
        allowed = "count, sum, min, max, avg, distinct, percentile, median, top_k"
        hint = did_you_mean(call.name, _KINDS) or "all aggregates are exact; there are no approximate ones"
        raise UsageError.of(f"{what} is of no known kind", got=call.name, allowed=allowed, hint=hint)
    if kind == "count" and call.arguments == ("*",):
        return Aggregate(name, "count", None), ()
    if not call.arguments:
        raise UsageError.of(f"{what} is of nothing", got=text, allowed="as sum(amount)")
    argument, *rest = call.arguments
    if _DISTINCT.match(argument):
        if kind != "count":
            raise UsageError.of(f"{what}: distinct goes with count only", got=text)
        kind, argument = "distinct", argument[len("distinct") :].strip()
    found = expression_of(argument, what)
    given, is_list = _given(what, call.name, kind, rest, text)
    return Aggregate(name, kind, found.text, given, is_list), found.paths


def _given(what: str, name: str, kind: AggregateKind, rest: list[str], text: object) -> tuple[tuple[float, ...], bool]:
    """The numbers after the argument: quantiles from 0 to 1, or how many of the most frequent."""
    if kind == "quantiles":
        if name == "median" and not rest:
            return (0.5,), False
        listed = re.fullmatch(r"array\s*\((.*)\)", rest[0], re.DOTALL) if len(rest) == 1 else None
        numbers = listed[1].split(",") if listed else rest
        if (listed or len(rest) == 1) and name != "median" and all(_is_share(one) for one in numbers):
            return tuple(float(one) for one in numbers), listed is not None
        allowed = "a number from 0 to 1, or array(0.5, 0.9)"
        raise UsageError.of(f"{what} has no quantile", got=text, allowed=allowed)
    if kind == "top":
        if len(rest) == 1 and re.fullmatch(r"\d{1,4}", rest[0]) and 1 <= int(rest[0]) <= MOST_TOP:
            return (float(rest[0]),), False
        raise UsageError.of(f"{what} does not say how many", got=text, allowed=f"top_k(field, K) with K to {MOST_TOP}")
    if rest:
        raise UsageError.of(f"{what} has too many arguments", got=text, allowed="one")
    return (), False


def _is_share(text: str) -> bool:
    return re.fullmatch(r"\s*(0?\.\d{1,12}|[01]|[01]\.\d{0,12})\s*", text) is not None and 0 <= float(text) <= 1


def queries_of(given: object) -> list[Query]:
    """One query or a list of them; each id once."""
    made = [query_of(one) for one in (given if isinstance(given, list) else [given])]
    if not made:
        raise UsageError.of("there is no query in the file")
    seen: set[str] = set()
    for query in made:
        if query.id in seen:
            raise UsageError.of("two queries of the file have one id", got=query.id)
        seen.add(query.id)
    return made
