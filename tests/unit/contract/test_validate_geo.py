"""What lanes by place promise: each contradiction alone, with its line, and its twin without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keylane.contract.lane_table import finest_leaf, leaves_checksum

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.records import Finding

PLACE = "key: {fields: [lat, lng], encoding: place}\n"
CELL = "key: {fields: [cell], encoding: h3}\n"
GEO = "geo: {resolution: 3}"
SUM = leaves_checksum(["8329b6"])


def leaves(*texts: str, resolution: int = 3, more: str = "") -> str:
    """A place contract with this lane table."""
    listed = ", ".join(f'"{text}"' for text in texts)
    return PLACE + f"geo: {{resolution: {resolution}, leaves: [{listed}]{more}}}"


def region(text: str) -> str:
    return PLACE + f"geo: {{resolution: 3, region: {text}}}"


#: what is wrong: (the spec with it, where it is reported, part of the message, the spec without it)
CONTRADICTIONS = {
    "a scale of cells": (
        "key: {fields: [cell], encoding: h3}\ngeo: {resolution: 3, scale: 10000000}",
        "spec.geo.scale",
        "a scale is of latitudes and longitudes",
        PLACE + "geo: {resolution: 3, scale: 10000000}",
    ),
    "a scale to multiply by": (
        PLACE + "geo: {resolution: 3, scale: 0.0000001}",
        "spec.geo.scale",
        "100",
        PLACE + "geo: {resolution: 3, scale: 100}",
    ),
    "a place without geo": (
        PLACE,
        "spec.key.encoding",
        "needs `geo`",
        PLACE + GEO,
    ),
    "a place of one field": (
        "key: {fields: [at], encoding: place}\n" + GEO,
        "spec.key.fields",
        "got at; allowed: [latitude, longitude]",
        PLACE + GEO,
    ),
    "a place of three fields": (
        "key: {fields: [a, b, c], encoding: place}\n" + GEO,
        "spec.key.fields",
        "a location has two fields",
        PLACE + GEO,
    ),
    "a place beside another encoding": (
        "key: {fields: [lat, lng], encoding: [place, utf8]}\n" + GEO,
        "spec.key.encoding",
        "got place, utf8; allowed: encoding: place",
        "key: {fields: [lat, lng], encoding: [place, place]}\n" + GEO,
    ),
    "a place that is joined": (
        "key: {fields: [lat, lng], encoding: place, join: '-'}\n" + GEO,
        "spec.key.join",
        "`join` does not apply: got '-'",
        PLACE + GEO,
    ),
    "lanes by place for text": (GEO, "spec.key.encoding", "got 'utf8'; allowed: place", CELL + GEO),
    "lanes by place for two cells": (
        "key: {fields: [a, b], encoding: h3}\n" + GEO,
        "spec.key.fields",
        "got a, b",
        CELL + GEO,
    ),
    "a window": (
        "key: {fields: [cell], encoding: h3, window: {field: at, size: 1h}}\n" + GEO,
        "spec.key.window",
        "one lane",
        "key: {fields: [cell], encoding: h3, window: {field: at, size: 1h}}",
    ),
    "a table too": (
        CELL + GEO + "\ntable: {values: {8929b6d357bffff: 1}}",
        "spec.table",
        "hint: leave one",
        CELL + "table: {values: {8929b6d357bffff: 1}}",
    ),
    "hot keys too": (
        CELL + GEO + "\nhot_keys: [{keys: [8929b6d357bffff], pin: {lanes: [1]}}]",
        "spec.hot_keys",
        "geo.leaves",
        CELL + "hot_keys: [{keys: [8929b6d357bffff], pin: {lanes: [1]}}]",
    ),
    "a client that ignores keys": (
        "partitioner: librdkafka-random\n" + PLACE + GEO,
        "spec.geo",
        "ignores keys",
        "partitioner: librdkafka-murmur2\n" + PLACE + GEO,
    ),
    "a client of text": (
        "partitioner: kinesis-md5\n" + PLACE + GEO,
        "spec.key.encoding",
        "got 'place'; allowed: utf8",
        "partitioner: abs-long-hashcode\n" + PLACE + GEO,
    ),
    "a leaf that is no cell": (
        leaves("8329b6", "8329bz"),
        "spec.geo.leaves[1]",
        "got '8329bz'",
        leaves("8329b6", "8329b0"),
    ),
    "a leaf too coarse": (
        leaves("8229b7"),
        "spec.geo.leaves[0]",
        "got '8229b7'; allowed: geo.resolution, 3",
        leaves("8229b7", resolution=2),
    ),
    "a leaf too fine": (
        leaves("8a29b6d3578"),
        "spec.geo.leaves[0]",
        "a leaf of resolution 10",
        leaves("8929b6d357b"),
    ),
    "a leaf inside another": (
        leaves("8329b6", "8429b6d"),
        "spec.geo.leaves[1]",
        "got 8429b6d, which lies in 8329b6",
        leaves("8329b6", "8428309"),
    ),
    "a leaf inside another of its lane": (
        leaves("8429b6d 8329b6"),
        "spec.geo.leaves[0]",
        "lies in 8329b6",
        leaves("8429b6d 8329b0"),
    ),
    "a leaf twice": (
        leaves("8329b6", "", "8329b6fffffffff"),
        "spec.geo.leaves[2]",
        "got 8329b6",
        leaves("8329b6", "", "8329b0"),
    ),
    "leaves of lanes that there are not": (
        leaves("8329b6", *[""] * 11, "8329b0"),
        "spec.geo.leaves[12]",
        "got 13 texts; allowed: up to 12",
        leaves("8329b6", *[""] * 10, "8329b0"),
    ),
    "another table's checksum": (
        leaves("8329b0", more=f", checksum: {SUM}"),
        "spec.geo.checksum",
        f"got {SUM[:16]}…; allowed: {leaves_checksum(['8329b0'])}",
        leaves("8329b6", more=f", checksum: {SUM}"),
    ),
    "a checksum without leaves": (
        PLACE + f"geo: {{resolution: 3, checksum: {SUM}}}",
        "spec.geo.checksum",
        "leaves",
        leaves("8329b6fff", more=f", checksum: {SUM}"),
    ),
    "a region upside down": (
        region("[50, -125, 24, -66]"),
        "spec.geo.region",
        "got 50 to 24",
        region("[24, -125, 50, -66]"),
    ),
    "a region beyond the pole": (
        region("[24, 0, 91, 5]"),
        "spec.geo.region",
        "not a range of latitudes",
        region("[24, 0, 90, 5]"),
    ),
    "a region beyond the date line": (
        region("[24, 170, 50, 190]"),
        "spec.geo.region",
        "got 170 to 190",
        region("[24, 170, 50, -170]"),
    ),
    "a region without width": (
        region("[1, 5, 2, 5]"),
        "spec.geo.region",
        "not a range of longitudes",
        region("[1, 5, 2, 5.5]"),
    ),
    "a golden place of two values": (
        PLACE + GEO + "\ngolden: [{key: [8929b6d357bffff, 3], lane: 1}]",
        "spec.golden[0].key",
        "got 2 values; allowed: 1",
        PLACE + GEO + "\ngolden: [{key: 8929b6d357bffff, lane: 1}]",
    ),
    "a float that is no place": (
        "golden: [{record: {merchant: 1.5}, lane: 0}]",
        "spec.golden[0].record.merchant",
        "got 1.5",
        PLACE + GEO + "\ngolden: [{record: {lat: 1.5, lng: -2}, lane: 0}]",
    ),
}


@pytest.mark.parametrize(("spec", "where", "message", "_"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradiction_is_reported_where_it_stands(
    spec: str, where: str, message: str, _: str, findings: Callable[..., list[Finding]]
) -> None:
    (found,) = [finding for finding in findings(spec) if finding.where == where]
    assert message in found.message
    assert found.severity == "error"
    assert found.line is not None


@pytest.mark.parametrize("spec", [without for *_, without in CONTRADICTIONS.values()], ids=CONTRADICTIONS)
def test_the_same_without_it_is_a_contract(spec: str, contract: Callable[..., Contract]) -> None:
    assert contract(spec).spec.lanes == 12


def test_one_of_many_wrong_leaves_of_a_lane_is_enough(findings: Callable[..., list[Finding]]) -> None:
    found = findings(leaves(" ".join(["zz"] * 500), "8229b7 8229b7"))
    assert [one.where for one in found] == ["spec.geo.leaves[0]", "spec.geo.leaves[1]", "spec.geo.leaves[1]"]


def test_a_wrong_field_of_geo_is_named(findings: Callable[..., list[Finding]]) -> None:
    (found,) = findings(PLACE + "geo: {resolution: 3, leafs: []}")
    assert "did you mean 'leaves'?" in found.message


@pytest.mark.parametrize("leaf", ["7", "[8329b6]", "{a: b}"])
def test_leaves_of_another_type_are_the_models_to_refuse(leaf: str, findings: Callable[..., list[Finding]]) -> None:
    assert findings(PLACE + f"geo: {{resolution: 3, leaves: [{leaf}]}}")


@pytest.mark.parametrize("leaf", ["838e06", "832830"])
def test_a_cell_that_reads_as_a_number_needs_quotes(leaf: str, findings: Callable[..., list[Finding]]) -> None:
    bare = findings(PLACE + f"geo: {{resolution: 3, leaves: [{leaf}]}}")
    assert any("quotes" in finding.message for finding in bare)
    assert findings(leaves(leaf)) == []


def test_the_finest_leaf_is_known_without_reading_cells() -> None:
    assert [finest_leaf(text) for text in ((), ("", " "), ("8329b6", "8929b6d357b 8429b6d"))] == [0, 0, 9]
