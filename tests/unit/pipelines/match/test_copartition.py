"""What is refused before a match starts: the odd source is named, with what it has and what was wanted."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

pytest.importorskip("pyspark")

from keylane.contract.parse import parse_contract
from keylane.errors import DataError, LaneCountError, UsageError
from keylane.pipelines.match.options import Columns, Options, agreed, lie_by_place, location_columns
from keylane.pipelines.match.sources import MatchSource
from keylane.systems.endpoint import parse_address


def contract(**spec: Any) -> Any:
    usual = {"streams": ["d"], "lanes": 60, "key": {"fields": ["lat", "lng"], "encoding": "place"}}
    usual |= {"partitioner": "kafka-java", "geo": {"resolution": 3}}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "geo"}}
    return parse_contract(yaml.safe_dump({**document, "spec": {**usual, **spec}}))


GEO = contract()


def found(side: str, lanes: int | None = None, fingerprint: str | None = None) -> MatchSource:
    where = parse_address(f"kafka://broker:9092/{side}" if lanes and not fingerprint else f"data/{side}")
    return MatchSource(side, where, Columns(), lanes, fingerprint, "other" if fingerprint else None)


@pytest.mark.parametrize(
    ("drivers", "riders", "said"),
    [
        (60, 48, "riders.*co-partitioned.*riders: 48 lanes.*60 lanes.*'geo'"),
        (48, 60, "drivers.*co-partitioned.*drivers: 48 lanes"),
    ],
)
def test_a_topic_with_other_lanes_than_the_contract_is_named(drivers: int, riders: int, said: str) -> None:
    with pytest.raises(DataError, match=said):
        agreed(found("drivers", drivers), found("riders", riders), GEO, Options(1000.0))


def test_locations_are_in_the_columns_of_a_contract_that_routes_by_them() -> None:
    pickups = contract(key={"fields": ["pickup_lat", "pickup_lng"], "encoding": "place"})
    assert location_columns(pickups) == {"lat": "pickup_lat", "lng": "pickup_lng"}
    by_cell = contract(key={"fields": ["cell"], "encoding": "h3"})
    assert location_columns(by_cell) == location_columns(None) == {"lat": "lat", "lng": "lng"}


def test_lanes_that_another_contract_has_filled_are_refused() -> None:
    sides = found("drivers", 60, GEO.fingerprint), found("riders", 60, "ab" * 32)
    with pytest.raises(DataError, match=r"riders.*co-partitioned.*abababababab"):
        agreed(*sides, GEO, Options(1000.0))
    assert agreed(sides[0], found("riders", 60), GEO, Options(1000.0)) == (GEO, 60, [])


def test_two_topics_that_differ_are_refused_without_a_contract_too() -> None:
    with pytest.raises(DataError, match=r"got .*drivers: 60 lanes; riders .*riders: 48 lanes"):
        agreed(found("drivers", 60), found("riders", 48), None, Options(1000.0))
    with pytest.raises(DataError, match=r"drivers: 60 lanes.*12 lanes, as in --lanes"):
        agreed(found("drivers", 60), found("riders", 60), None, Options(1000.0, lanes=12))


def test_routed_folders_need_their_contract() -> None:
    with pytest.raises(UsageError, match=r"'other'.*--contract FILE"):
        agreed(found("drivers", 60, "ab" * 32), found("riders"), None, Options(1000.0))


def test_without_a_contract_cells_are_hashed_and_that_is_said() -> None:
    plain, lanes, notes = agreed(found("drivers"), found("riders"), None, Options(1000.0))
    assert (lanes, plain.spec.geo and plain.spec.geo.resolution) == (12, 4)
    (note,) = notes
    assert "resolution 4, over 12" in note
    assert note.endswith("--lanes 12 --radius 1000 --write places.yaml makes a contract for this radius")
    assert agreed(found("drivers", 60), found("riders", 60), None, Options(1000.0))[1] == 60
    assert agreed(found("drivers"), found("riders"), None, Options(1000.0, lanes=7))[1] == 7


def test_what_is_to_be_co_partitioned_lies_in_lanes() -> None:
    with pytest.raises(UsageError, match=r"riders .*data/riders"):
        agreed(found("drivers", 60), found("riders"), GEO, Options(1000.0, co_partitioned=True))
    assert agreed(found("drivers", 60), found("riders", 60), GEO, Options(1000.0, co_partitioned=True))[1] == 60


@pytest.mark.parametrize(
    ("key", "by"),
    [
        ({"fields": ["home_lat", "home_lng"], "encoding": "place"}, "home_lat, home_lng"),
        ({"fields": ["cell"], "encoding": "h3"}, "cell"),
    ],
)
def test_drivers_that_lie_by_something_else_than_the_matched_place_are_put_in_lanes_anew_or_refused(
    key: dict[str, Any], by: str
) -> None:
    other = contract(key=key)
    sides = found("drivers", 60, other.fingerprint), found("riders", 60, other.fingerprint)
    notes = agreed(*sides, other, Options(1000.0))[2]
    (note,) = notes
    assert re.search(rf"drivers .*{by}.*lat, lng", note)
    assert not lie_by_place(sides[0], other)
    assert lie_by_place(sides[0], GEO)
    with pytest.raises(UsageError, match=rf"drivers .*{by}.*lat, lng"):
        agreed(*sides, other, Options(1000.0, co_partitioned=True))


def test_a_contract_that_does_not_place_by_place_alone_is_refused() -> None:
    plain = contract(key={"fields": ["id"]}, geo=None)
    with pytest.raises(UsageError, match="the contract '"):
        agreed(found("drivers"), found("riders"), plain, Options(1000.0))


def test_a_lane_count_that_the_contract_does_not_have_is_refused() -> None:
    with pytest.raises(LaneCountError, match="got 12; allowed: 60"):
        agreed(found("drivers"), found("riders"), GEO, Options(1000.0, lanes=12))
    live = contract(lanes="live")
    with pytest.raises(LaneCountError, match="takes its lane count from the cluster"):
        agreed(found("drivers"), found("riders"), live, Options(1000.0))
    assert agreed(found("drivers", 24), found("riders"), live, Options(1000.0))[1] == 24


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"radius": 0.0}, "got 0.0"),
        ({"radius": float("nan")}, "got nan"),
        ({"radius": 50_001.0}, "got 50001.0"),
        ({"radius": 1.0, "expire": -1.0}, "--expire .*got -1.0"),
        ({"radius": 1.0, "window": 0.0}, "--window"),
        ({"radius": 1.0, "window": 1e-7}, "--window .*got 1e-07"),
        ({"radius": 1.0, "offer_for": float("inf")}, "--offer-for"),
        ({"radius": 1.0, "lanes": 0}, "--lanes .*got 0"),
        ({"radius": 1.0, "nearest": 0}, "--nearest .*got 0"),
        ({"radius": 1.0, "assign": "best"}, "got 'best'; allowed: greedy, optimal"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Options(**options).checked()
