"""What a frame must be before it can be routed, said before anything runs and all at once. The routing is in `frames`.

What kind of values a column may hold is asked where they are read: `kinds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StructType

from keylane.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from keylane.contract.model import Contract

__all__ = ["ADDED", "PREFIX", "check_frame", "needed"]

#: The columns that `route` adds, in this order.
ADDED: Final = ("stream", "lane", "routing_key", "reason")
#: How the columns begin that routing needs on its way, and drops.
PREFIX: Final = "__keylane_"
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)


def needed(contract: Contract) -> list[str]:
    """The fields that a placement may look at."""
    spec = contract.spec
    spreads = [rule.spread or (rule.tier.spread if rule.tier else None) for rule in spec.hot_keys]
    names = [
        *_key_fields(contract),
        *(spread.by for spread in spreads if spread),
        spec.table.by if spec.table else None,
    ]
    return list(dict.fromkeys(name for name in names if name))


def _key_fields(contract: Contract) -> list[str]:
    key = contract.spec.key
    return [*key.fields, *([key.window.field] if key.window else [])]


def check_frame(df: DataFrame, contract: Contract, position: str | None) -> None:
    """Raise DataError for a frame that lacks a column, has one twice, or has one that routing adds."""
    places = [position] if position else []
    _all_there(df, [*_key_fields(contract), *places])
    _each_once(df, [*needed(contract), *places])
    # Spark tells names apart by more than their case only when it is told to.
    taken = [name for name in df.columns if name.lower() in ADDED or name.startswith(PREFIX)]
    if taken:
        hint = "rename or drop them first"
        raise DataError.of("the frame has columns that routing adds", got=", ".join(taken), hint=hint)
    if position and not isinstance(df.schema[position].dataType, _INTEGERS):
        kind = df.schema[position].dataType.simpleString()
        raise DataError.of(f"column {position!r} holds no positions", got=kind, allowed="integers")


def _all_there(df: DataFrame, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in df.columns]
    if missing:
        hints = dict.fromkeys(_hint(df, name) for name in missing)
        raise DataError.of(
            "the frame lacks a column" if len(missing) == 1 else "the frame lacks columns",
            got=", ".join(missing),
            allowed=", ".join(df.columns),
            hint=", ".join(hint for hint in hints if hint),
        )


def _hint(df: DataFrame, name: str) -> str:
    """A field of a struct is no column: a name with dots in it is a name with dots in it."""
    outer = name.partition(".")[0]
    if outer in df.columns and isinstance(df.schema[outer].dataType, StructType):
        return f"make it one: withColumn({name!r}, col({name!r}))"
    otherwise_written = [one for one in df.columns if one.lower() == name.lower()]
    return f"did you mean {otherwise_written[0]!r}?" if otherwise_written else did_you_mean(name, df.columns)


def _each_once(df: DataFrame, names: Sequence[str]) -> None:
    twins = {name: [one for one in df.columns if one.lower() == name.lower()] for name in names}
    twice = {name: found for name, found in twins.items() if len(found) > 1}
    if any(found.count(name) > 1 for name, found in twice.items()) or (twice and not _tells_cases_apart(df)):
        got = ", ".join(dict.fromkeys(one for found in twice.values() for one in found))
        raise DataError.of("the frame has a column more than once", got=got, hint="rename or drop the others first")


def _tells_cases_apart(df: DataFrame) -> bool:
    return df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
