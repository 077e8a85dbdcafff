"""Values of types that an argument does not take: each is refused with what is taken, before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import keylane
from keylane.api import verbs
from keylane.api.arguments import check_type
from keylane.errors import ArgumentError, DataError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

#: The library as callers without a type checker have it.
untyped: Any = keylane

TEXT = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [payments], lanes: 12, key: {fields: [merchant]}, partitioner: kafka-java}
"""


@pytest.mark.parametrize(
    ("verb", "named", "taken"),
    [
        ("profile", {"key": 3}, "a list of texts"),
        ("profile", {"key": "k", "windows": "3"}, "a whole number"),
        ("profile", {"key": "k", "windows": True}, "a whole number"),
        ("profile", {"key": "k", "show_keys": "no"}, "True or False"),
        ("profile", {"key": "k", "options": {"value": "json"}}, "StreamOptions"),
        ("profile", {"key": "k", "progress": 3}, "a function"),
        ("profile", {"key": "k", "conf": "spark.x=1"}, "a mapping"),
        ("profile", {"place": "lat,lng"}, "a list of texts"),
        ("plan", {"key": "k", "lanes": "4"}, "a pair of whole numbers"),
        ("plan", {"key": "k", "lanes": (1, 2, 3)}, "a pair of whole numbers"),
        ("plan", {"key": "k", "joined_with": "c.yaml"}, "a list of contracts"),
        ("plan", {"key": "k", "growth": "2"}, "a number"),
        ("identify", {"key": 3}, "text"),
        ("init", {"key": "k", "out": 3}, "a path or an address"),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_is_taken(verb: str, named: dict[str, Any], taken: str) -> None:
    with pytest.raises(ArgumentError, match=taken) as caught:
        getattr(keylane, verb)("there/is/no/such.parquet", **named)
    assert isinstance(caught.value, TypeError)


def test_by_position_too() -> None:
    with pytest.raises(ArgumentError, match="source of profile"):
        untyped.profile(pa.table({"k": ["a"]}), "k")
    with pytest.raises(ArgumentError, match="target of verify"):
        untyped.verify("there", 3)


@pytest.mark.parametrize("name", verbs.__all__)
def test_every_default_is_of_the_type_that_is_taken(name: str) -> None:
    function: Any = getattr(verbs, name).__wrapped__
    for argument, value in (function.__kwdefaults__ or {}).items():
        check_type(name, argument, value, function.__annotations__[argument])


@pytest.mark.parametrize(
    "call",
    [
        lambda: untyped.load_contract(3),
        lambda: untyped.parse_contract(b"x"),
        lambda: untyped.partitioner("kafka-java").lane("TT0124", 15),
        lambda: untyped.partitioner("librdkafka-consistent-random").lane(0, 15),
        lambda: untyped.identify(3),
        lambda: untyped.identify([1, 2]),
        lambda: untyped.identify(pa.table({"k": ["a"]})),
    ],
    ids=["load", "parse", "text for bytes", "number for bytes", "no stream", "no batches", "one column"],
)
def test_a_wrong_type_is_an_argument_error(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        call()


def test_an_unknown_partitioner_of_any_type_is_one() -> None:
    with pytest.raises(UnknownNameError):
        untyped.partitioner(3)


def test_two_columns_of_one_name_are_not_chosen_from() -> None:
    router = keylane.Router(TEXT)
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["merchant", "merchant"])
    with pytest.raises(DataError, match="more than one column"):
        router.lanes(twice)
    assert len(router.lanes(twice.select([0]))) == 1


def test_identify_takes_tables_readers_and_frames_by_the_names_of_their_columns() -> None:
    router = keylane.Router(TEXT)
    keys = [f"m-{n}" for n in range(2_000)]
    table = pa.table({"at": [0] * 2_000, "partition": router.lanes_of_keys(keys), "merchant": keys})
    for source in (table, table.to_reader(), table.to_pandas(), table.to_batches()):
        found = keylane.identify(source, key="merchant", lane="partition")
        assert (found.verdict, found.writers[0].partitioner, found.rows) == ("one-writer", "kafka-java", 2_000)
    assert keylane.identify(table.select(["merchant", "partition"])).verdict == "one-writer"
    with pytest.raises(UnknownNameError, match="merchant"):
        keylane.identify(table, key="merchnt", lane="partition")
    # The twin: by position, a column that is no key shows no writer.
    assert keylane.identify(table).verdict != "one-writer"
