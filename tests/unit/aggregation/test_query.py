"""Queries as they are given: what is allowed, and what is refused, with the position of the problem."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from keylane.aggregation.expressions import FUNCTIONS, call_of, expression_of
from keylane.aggregation.query import queries_of, query_of
from keylane.errors import UsageError

FORM = (
    """{"id": "q1", "filter": "type = 'click' and amount > 10", "group_by": ["country"], """
    """"aggregates": {"n": "count(*)", "total": "sum(amount)"}, "window": "1 minute", "slide": null, """
    """"lateness": "10 seconds", "time": "ts"}"""
)


def given(**changed: Any) -> dict[str, Any]:
    return {**json.loads(FORM), **changed}


def test_a_query_in_the_published_form_is_taken() -> None:
    query = query_of(json.loads(FORM))
    assert (query.window, query.slide, query.lateness) == (60_000_000, 60_000_000, 10_000_000)
    assert query.columns == ("type", "amount", "country", "ts")
    assert [(one.name, one.kind, one.argument) for one in query.aggregates] == [
        ("n", "count", None),
        ("total", "sum", "amount"),
    ]
    assert query_of(query.as_json()) == query


@pytest.mark.parametrize(
    "text",
    [
        "type = 'click'",
        "a.b.c = 1 and `odd name` is not null",
        "country in ('de', 'fr') or not (amount between 1 and 2)",
        "name like 'a%' and upper(name) <> 'X' and name not ilike '%q%'",
        "case when a > 1 then true else false end",
        "cast(a as int) = 1 and try_cast(b as double) > 0.5 and m['k'] = 2",
        "ts > timestamp '2024-01-01' and date_trunc('day', ts) = ts and a <=> b",
        "coalesce(a, b, 0) % 2 = 0 and abs(-a) div 2 = 1 and a & 1 = 1",
        "status = 'now' and round(a, 2) = 1.5 and floor(b, -3) > 0 and replace(c, 'ab', 'c') in ('today', 'x')",
    ],
)
def test_expressions_of_one_event_are_allowed(text: str) -> None:
    assert expression_of(text, "the filter").text == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not an expression"),
        ("amount >", "at character 8"),
        ("type = = 3", "at character 8"),
        ("a = 1\nand and b = 2", "at character 11"),
        ("a in (select b from c)", "not allowed"),
        ("exists (select 1)", "at character 1"),
        ("(select max(a) from t) = 1", "not allowed"),
        ("reflect('java.lang.System', 'exit', 1) = 1", "at character 1"),
        ("a = 1 and java_method('x', 'y') = 1", "at character 11"),
        ("my_udf(a) = 1", "my_udf"),
        ("rand() > 0.5", "rand"),
        ("now() > ts", "now"),
        ("current_user() = 'a'", "current_user"),
        ("repeat(a, 1000000) = 'a'", "repeat"),
        ("rlike(a, '(a+)+b')", "rlike"),
        ("a rlike '(a+)+b'", "not allowed"),
        ("transform(a, x -> x + 1) is null", "transform"),
        ("sum(a) > 1", "sum"),
        ("a > 1; drop table x", "one expression"),
        ("a > 1 -- b", "without comments"),
        ("a > 1 /* b */", "without comments"),
        ("count(*) over () > 1", "count"),
        ("a like '%a%b%c%d%e%f%g%h%i%'", "pattern"),
        ("a like b", "pattern"),
        ("a like 'x' escape '!'", "not allowed"),
        ("current_timestamp > ts", "reads a clock"),
        ("day < current_date", "reads a clock"),
        ("user = current_user", "reads a clock"),
        ("ts > timestamp 'now'", "reads a clock"),
        ("day = date 'Today UTC'", "reads a clock"),
        ("cast('tomorrow' as date) > day", "reads a clock"),
        ("try_cast(' yesterday' as timestamp) < ts", "reads a clock"),
        ("to_date('today') = day and to_timestamp('now') > ts", "reads a clock"),
        ("replace(replace(a, 'a', 'aaaaaaaa'), 'a', 'aaaaaaaa') = 'x'", "may grow"),
        ("replace(a, b, 'x') = 'x'", "may grow"),
        ("round(a, 2000000000) = 1", "digits"),
        ("ceil(a, 1000 * 1000 * 1000) = 1", "digits"),
        ("bround(a, b) = 1", "digits"),
        ("`` = 1", "of a name that is not allowed"),
        ("`a``b` = 1", "of a name that is not allowed"),
        ("keylane_time_0 > 0", "of a name that is not allowed"),
        ("a = " + "1 + " * 400 + "1", "too large"),
        ("(" * 200 + "a" + ")" * 200, "too large"),
        ("a = '" + "x" * 5000 + "'", "too long"),
    ],
)
def test_what_is_not_an_expression_of_one_event_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        expression_of(text, "the filter")
    assert problem in str(refused.value)


def test_the_fields_of_structs_are_known_by_their_paths() -> None:
    found = expression_of("user.city = 'x' and a.b.c.d.e.f = 1 and m['k'].z = 2 and amount > 1", "the filter")
    assert sorted(found.paths) == [("a", "b", "c", "d", "e", "f"), ("amount",), ("m",), ("user", "city")]
    assert sorted(found.columns) == ["a", "amount", "m", "user"]


def test_the_functions_that_are_allowed_have_none_that_reaches_out() -> None:
    reaching = {"reflect", "java_method", "try_reflect", "rand", "uuid", "now", "current_timestamp", "input_file_name"}
    growing = {"repeat", "space", "lpad", "rpad", "sequence", "array_repeat", "explode", "rlike", "regexp_replace"}
    assert not FUNCTIONS & (reaching | growing)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("count(*)", "count", ("*",)),
        ("SUM( amount * 2 )", "sum", ("amount * 2",)),
        ("percentile(a, array(0.5, 0.9))", "percentile", ("a", "array(0.5, 0.9)")),
        ("top_k(concat(a, ','), 3)", "top_k", ("concat(a, ',')", "3")),
    ],
)
def test_a_call_is_taken_apart(text: str, name: str, arguments: tuple[str, ...]) -> None:
    found = call_of(text, "")
    assert (found.name, found.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"id": ""}, "no usable id"),
        ({"id": "a/b"}, "no usable id"),
        ({"filtr": "a = 1"}, "no such field"),
        ({"filter": 3}, "the filter"),
        ({"aggregates": {"n": "count(*)", "N": "sum(a)"}}, "one name"),
        ({"aggregates": {"Country": "count(*)"}}, "one name"),
        ({"group_by": ["Sequence"]}, "one name"),
        ({"group_by": ["city", "City"]}, "one name"),
        ({"group_by": ["keylane_partition"]}, "of a name that is not allowed"),
        ({"time": "keylane_time_0"}, "of a name that is not allowed"),
        ({"window": "1 parsec"}, "the window"),
        ({"window": "0 seconds"}, "the window"),
        ({"window": "1 minute", "slide": "2 minutes"}, "slide"),
        ({"window": "10 days", "slide": "1 second"}, "slide"),
        ({"lateness": "soon"}, "the lateness"),
        ({"late": "ignore"}, "late"),
        ({"time": "a b"}, "time"),
        ({"aggregates": {}}, "aggregates"),
        ({"aggregates": {"n": "amount"}}, "the aggregate n"),
        ({"aggregates": {"n": "count(*) + 1"}}, "the aggregate n"),
        ({"aggregates": {"n": "stddev(amount)"}}, "no known kind"),
        ({"aggregates": {"n": "approx_count_distinct(amount)"}}, "no known kind"),
        ({"aggregates": {"n": "sum(reflect('a', 'b'))"}}, "reflect"),
        ({"aggregates": {"n": "percentile(amount)"}}, "quantile"),
        ({"aggregates": {"n": "percentile(amount, 1.5)"}}, "quantile"),
        ({"aggregates": {"n": "top_k(amount, 0)"}}, "how many"),
        ({"aggregates": {"n": "sum(distinct amount)"}}, "distinct"),
        ({"aggregates": {"country": "count(*)"}}, "one name"),
        ({"aggregates": {"sequence": "count(*)"}}, "one name"),
        ({"group_by": "country"}, "group_by"),
        ({"group_by": ["country", "country"]}, "group_by"),
        ({"group_by": ["query_id"]}, "group_by"),
    ],
)
def test_a_query_that_is_not_allowed_is_refused_by_its_id(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        query_of(given(**changed))
    assert problem in str(refused.value)
    if "id" not in changed:
        assert str(refused.value).startswith("query q1: ")


def test_one_query_or_a_list_of_them() -> None:
    assert [one.id for one in queries_of(given())] == ["q1"]
    assert [one.id for one in queries_of([given(), given(id="q2")])] == ["q1", "q2"]
    with pytest.raises(UsageError, match="one id"):
        queries_of([given(), given()])
    with pytest.raises(UsageError, match="no query"):
        queries_of([])
    with pytest.raises(UsageError, match="is an object"):
        queries_of(["q1"])


def test_the_functions_that_are_allowed_are_in_the_docs() -> None:
    """The error for any other one sends its reader there."""
    page = (Path(__file__).parents[3] / "docs" / "commands" / "aggregate.md").read_text(encoding="utf-8")
    listed = page.split("| of | functions |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == FUNCTIONS
