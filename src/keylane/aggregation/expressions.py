"""Expressions of queries: Spark SQL's own syntax, parsed without Spark, and compared with a list of what is allowed.

An expression sees the columns of one event and nothing else. Allowed are comparisons, arithmetic, `and`, `or`, `not`,
`in`, `between`, `like`, `is null`, `case`, casts, and the functions in FUNCTIONS. So there are no subqueries, no calls
of Java or Python, nothing that reads a clock, a file or a random number; no function whose result may be far larger
than its arguments, and no regular expressions, whose time may be. Size and depth are bounded.

A clock may be no function: `current_date` stands without brackets, and `timestamp 'now'` is a text. A result may grow
by what looks small: `replace`, one in the other, multiplies, and `round` writes out as many digits as it is asked for.

The parser is sqlglot's, for its positions and because it needs no Java. Spark parses the same text with its own parser
when a query is first used, and compares the functions with the same list (`Queries.java`): neither is relied on alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from keylane.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from sqlglot.tokens import Token

MOST_CHARACTERS: Final = 4_000
MOST_NODES: Final = 500
MOST_DEPTH: Final = 60
#: Each makes a pattern dearer to compare.
MOST_WILDCARDS: Final = 8
FUNCTIONS: Final = frozenset(
    (
        *("abs", "ceil", "ceiling", "floor", "round", "bround", "sqrt"),
        *("cbrt", "power", "pow", "exp", "ln", "log", "log2"),
        *("log10", "sign", "signum", "mod", "pmod", "greatest", "least"),
        *("negative", "positive", "degrees", "radians", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "atan2", "try_add", "try_subtract", "try_multiply"),
        *("try_divide", "coalesce", "nvl", "nvl2", "ifnull", "nullif", "if"),
        *("isnull", "isnotnull", "isnan", "nanvl", "lower", "lcase", "upper"),
        *("ucase", "trim", "ltrim", "rtrim", "btrim", "length", "char_length"),
        *("octet_length", "substring", "substr", "left", "right", "concat", "concat_ws"),
        *("contains", "startswith", "endswith", "instr", "locate", "position", "replace"),
        *("translate", "split_part", "reverse", "ascii", "initcap", "md5", "sha1"),
        *("sha2", "crc32", "hash", "xxhash64", "year", "quarter", "month"),
        *("day", "dayofmonth", "dayofweek", "dayofyear", "weekday", "weekofyear", "hour"),
        *("minute", "second", "date_trunc", "trunc", "to_date", "to_timestamp", "date_add"),
        *("date_sub", "datediff", "date_diff", "months_between", "unix_seconds", "unix_millis", "unix_micros"),
        *("timestamp_seconds", "timestamp_millis", "timestamp_micros", "unix_date", "cast", "try_cast", "int"),
        *("bigint", "double", "float", "string", "boolean", "date", "timestamp"),
        *("decimal", "size", "array_contains", "array_size", "element_at", "get_json_object"),
    )
)
_ALLOWED: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.Column, exp.Identifier, exp.Dot, exp.Bracket, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Neg),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.DPipe),
    *(exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var, exp.Func),
    *(exp.Distinct, exp.Star, exp.Tuple, exp.Array),
)
#: Of these there are classes that count as functions.
_REFUSED: Final = (exp.AggFunc, exp.Subquery, exp.Exists, exp.Lambda, exp.RegexpLike, exp.RegexpILike, exp.Window)
#: Clocks and users that stand without brackets.
_READERS: Final = tuple(set(Dialect.get_or_raise("spark").parser_class.NO_PAREN_FUNCTIONS.values()))
#: Texts that are a clock where they become a time.
_CLOCK: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_TIMES: Final = (exp.Cast, exp.TsOrDsToDate, exp.TsOrDsAdd, exp.TsOrDsDiff, exp.DateDiff)
#: Functions that take how many digits are kept: numbers of Java's have as many as they are asked for.
_ROUNDING: Final = frozenset({"round", "bround", "ceil", "floor"})
MOST_DIGITS: Final = 38
#: Columns that the pipeline adds to an event.
OWN_COLUMNS: Final = "keylane_"
#: Words that stand before a bracket and are none of a function.
_WORDS: Final = frozenset({"and", "or", "not", "in", "when", "then", "else", "between", "like", "ilike", "case", "is"})
_SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that is allowed: its text, and the columns of an event that it reads, by their first names.

    `paths` are the same with the fields of structs: of `user.city = 'x'` it is ("user", "city").
    """

    text: str
    columns: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one function: its name, and its arguments as they were written."""

    name: str
    arguments: tuple[str, ...]


def expression_of(text: object, what: str) -> Expression:
    """Check an expression; `what` it is, for the error, which has the position of the problem.

    >>> expression_of("type = 'click' and amount > 10", "the filter").columns
    ('type', 'amount')
    >>> expression_of("amount >", "the filter")
    Traceback (most recent call last):
    keylane.errors.UsageError: the filter cannot be parsed: at character 8, at '>': got 'amount >'
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError.of(f"{what} is not an expression", got=text, allowed="text, as type = 'click' and amount > 10")
    if len(text) > MOST_CHARACTERS:
        allowed = f"at most {MOST_CHARACTERS} characters"
        raise UsageError.of(f"{what} is too long", got=f"{len(text)} characters", allowed=allowed)
    tokens = _tokens(text, what)
    for number, token in enumerate(tokens):
        _check_token(text, what, token, tokens[number + 1] if number + 1 < len(tokens) else None)
    try:
        (found,) = Dialect.get_or_raise(_SPARK).parse_into(exp.Condition, text)
    except ParseError as error:
        raise _unparsed(text, what, error) from None
    except ValueError:
        raise UsageError.of(f"{what} is not one expression", got=text) from None
    except RecursionError:
        raise UsageError.of(f"{what} is too large", allowed=f"at most {MOST_DEPTH} levels deep") from None
    if found is None:
        raise UsageError.of(f"{what} is not an expression", got=text)
    nodes = list(found.walk())
    _check_nodes(text, what, nodes)
    paths = [_path(node) for node in nodes if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)]
    for path in paths:
        check_column(path[0], what)
    return Expression(text, tuple(dict.fromkeys(path[0] for path in paths)), tuple(dict.fromkeys(paths)))


def _check_nodes(text: str, what: str, nodes: list[exp.Expr]) -> None:
    if len(nodes) > MOST_NODES or max(node.depth for node in nodes) > MOST_DEPTH:
        allowed = f"at most {MOST_NODES} parts, {MOST_DEPTH} levels deep"
        raise UsageError.of(f"{what} is too large", got=f"{len(nodes)} parts", allowed=allowed)
    for node in nodes:
        _check_node(text, what, node)


def _path(column: exp.Column) -> tuple[str, ...]:
    names = [part.name for part in column.parts]
    child: exp.Expr = column
    while (node := child.parent) and isinstance(node, exp.Dot) and node.this is child:
        names.append(node.expression.name)
        child = node
    return tuple(names)


def check_column(name: str, what: str) -> None:
    """Refuse a field that no event can have, and one that the pipeline adds itself."""
    if not name or "`" in name or name.lower().startswith(OWN_COLUMNS):
        allowed = f"a name without '`' that does not begin with {OWN_COLUMNS}"
        raise UsageError.of(f"{what} reads a field of a name that is not allowed", got=name, allowed=allowed)


def _tokens(text: str, what: str) -> list[Token]:
    try:
        return list(Dialect.get_or_raise(_SPARK).tokenize(text))
    except TokenError as error:
        problem = str(error).partition("\n")[0]
        raise UsageError.of(f"{what} cannot be parsed: {problem}", got=text) from None


def _check_token(text: str, what: str, token: Token, after: Token | None) -> None:
    if token.token_type == TokenType.SEMICOLON or token.comments:
        shown = ";" if token.token_type == TokenType.SEMICOLON else "a comment"
        raise UsageError.of(f"{what} is one expression, without comments{_at(text, token.start)}", got=shown)
    is_called = after is not None and after.token_type == TokenType.L_PAREN
    if not is_called or not token.text.replace("_", "").isalnum() or token.token_type == TokenType.STRING:
        return
    name = token.text.lower()
    if name not in FUNCTIONS | _WORDS and not name[:1].isdigit():
        near = did_you_mean(name, FUNCTIONS)
        hint = near or "docs/commands/aggregate.md lists the functions that are allowed"
        raise UsageError.of(f"{what} calls a function that is not allowed{_at(text, token.start)}", got=name, hint=hint)


def _check_node(text: str, what: str, node: exp.Expr) -> None:
    name = node.key.replace("_", " ")
    if isinstance(node, (exp.Select | exp.Query, _REFUSED)) or not isinstance(node, _ALLOWED):
        raise UsageError.of(f"{what} has what is not allowed in it: {name}", got=text, hint=_HINT)
    if isinstance(node, exp.Star | exp.Distinct):
        raise UsageError.of(f"{what} is of one event: there is no {name} in it", got=text)
    is_clock = isinstance(node, exp.Literal) and isinstance(node.parent, _TIMES) and _CLOCK.fullmatch(str(node.this))
    if isinstance(node, _READERS) or is_clock:
        raise UsageError.of(f"{what} reads a clock or who runs it", got=node.sql(_SPARK), hint=_HINT)
    _check_growth(what, node)
    if isinstance(node, exp.Like | exp.ILike):
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or str(pattern.this).count("%") > MOST_WILDCARDS:
            allowed = f"a text with at most {MOST_WILDCARDS} '%'"
            raise UsageError.of(f"{what} has a pattern that is not allowed", got=pattern.sql(_SPARK), allowed=allowed)


def _check_growth(what: str, node: exp.Expr) -> None:
    if not isinstance(node, exp.Func):
        return
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    given = list(node.iter_expressions())
    if name in _ROUNDING and not all(_is_digits(one) for one in given[1:]):
        allowed = f"a whole number up to {MOST_DIGITS}"
        raise UsageError.of(f"{what} rounds to digits that are not allowed", got=node.sql(_SPARK), allowed=allowed)
    if name == "replace":
        texts = [one.name if isinstance(one, exp.Literal) and one.is_string else None for one in given[1:]]
        if None in texts or (len(texts) > 1 and len(str(texts[1])) > len(str(texts[0]))):
            allowed = "texts, the second no longer than the first"
            raise UsageError.of(f"{what} replaces what may grow", got=node.sql(_SPARK), allowed=allowed)


def _is_digits(node: exp.Expr) -> bool:
    number = node.this if isinstance(node, exp.Neg) else node
    is_number = isinstance(number, exp.Literal) and not number.is_string and str(number.this).isdecimal()
    return is_number and int(number.name) <= MOST_DIGITS


_HINT: Final = "an expression of the columns of one event; docs/commands/aggregate.md lists what is allowed"


def _at(text: str, start: int) -> str:
    return f", at character {start + 1}, at {text[start : start + 20]!r}"


def _unparsed(text: str, what: str, error: ParseError) -> UsageError:
    """The problem with its position: sqlglot counts to the end of what it has marked."""
    first = error.errors[0] if error.errors else {}
    marked, line, column = first.get("highlight") or "", first.get("line") or 1, first.get("col") or 1
    before = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    start = max(0, before + column - len(marked))
    return UsageError.of(f"{what} cannot be parsed{_at(text, start)}".replace(",", ":", 1), got=text)


def call_of(text: object, what: str) -> Call:
    """A text that is one call of a function, taken apart; its arguments are not looked at.

    >>> call_of("percentile(amount, 0.5)", "")
    Call(name='percentile', arguments=('amount', '0.5'))
    >>> call_of("count(distinct user)", "").arguments
    ('distinct user',)
    """
    allowed = "one call, as count(*), sum(amount), count(distinct user), percentile(amount, 0.9), top_k(page, 3)"
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise UsageError.of(f"{what} is not an aggregate", got=text, allowed=allowed)
    tokens = _tokens(text, what)
    kinds = [token.token_type for token in tokens]
    least = 3
    if len(tokens) < least or kinds[1] != TokenType.L_PAREN or kinds[-1] != TokenType.R_PAREN:
        raise UsageError.of(f"{what} is not an aggregate", got=text, allowed=allowed)
    depth, begin, arguments = 0, tokens[1].end + 1, []
    for number, token in enumerate(tokens[1:], 1):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and number < len(tokens) - 1:
            raise UsageError.of(f"{what} is not an aggregate", got=text, allowed=allowed)
        if (depth == 1 and token.token_type == TokenType.COMMA) or depth == 0:
            arguments.append(text[begin : token.start].strip())
            begin = token.end + 1
    return Call(tokens[0].text.lower(), tuple(argument for argument in arguments if argument))


_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET)
