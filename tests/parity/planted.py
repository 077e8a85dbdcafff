"""Pairs of cases of which the first is a wrong answer to the second."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tests.parity.cases.case import Case, key, of, window
from tests.parity.cases.encodings import HEADED
from tests.parity.cases.partitioners import DIGITS, MD5, MIXED, TEXTS, TWINS, sharded, uneven
from tests.parity.cases.places import E7, EVERY, SEVEN, US, columns, place


def rules(**first: Any) -> list[Case]:
    """A case, and the same with another rule."""
    columns = {**of(["a", None, "", "b"]), **of([-1, -1, -1, -1], name="t")}
    return [Case(key(**given), columns) for given in (first, {})]


PLANTED = {
    "null for empty": [Case({}, of([""])), Case({}, of([None]))],
    "another order of rows": [Case({}, of(TEXTS[::-1])), Case({}, of(TEXTS))],
    "another partitioner": [Case({"partitioner": "murmur2-big-endian"}, of(TEXTS)), Case({}, of(TEXTS))],
    "another rule for nulls": rules(on_null="random"),
    "another rule for empty keys": rules(on_empty="reject"),
    "a registry header that stays": [
        Case(key("raw", registry_header=rule), of(HEADED[:1])) for rule in ("keep", "strip")
    ],
    "times rounded towards zero": [
        Case(key(**window("1h")), {**of(["a"]), **of([time], name="t")}) for time in (-1, 1)
    ],
    "equal shards for uneven ones": [Case(MD5, of(TEXTS)), Case(MD5, of(TEXTS), key_space=uneven(16))],
    "shards cut elsewhere": [Case(MD5, of(TEXTS), key_space=uneven(16, turn=turn)) for turn in (3, 0)],
    "hash keys that are not read": [Case(sharded(7, names), MIXED) for names in (DIGITS[:9], DIGITS[:99])],
    "a hash key by MD5 and not by key": [Case(sharded(uneven(17), [twin]), of(TWINS)) for twin in TWINS],
    "another lane table": [Case(place(leaves=leaves), EVERY) for leaves in (["8329b6"], ["", "8329b6"])],
    "another region": [Case(place(region=region), EVERY) for region in (US, None)],
    "another scale": [Case(place(scale=scale), columns(E7, pa.int64())) for scale in (SEVEN / 10, SEVEN)],
    "a scale that is not divided by": [
        Case(place(), columns([(33.4484, -112.0740)])),
        Case(place(scale=SEVEN), columns([(33.4484, -112.0740)])),
    ],
    "latitude for longitude": [Case(place(), columns([(33.4, -45.0)])), Case(place(), columns([(-45.0, 33.4)]))],
}
