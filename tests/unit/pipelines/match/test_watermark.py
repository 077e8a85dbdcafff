"""How far time has gone in the sources of a running match, and which contracts are still in use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("h3")

from keylane.errors import CountError
from keylane.pipelines.match.follow_batch import Asked, Loads, Records, _check_counts
from keylane.pipelines.match.follow_sources import InUse, after_batch
from keylane.pipelines.match.follow_state import Epoch, Happened
from keylane.pipelines.match.options import Columns
from keylane.pipelines.match.sources import MatchSource
from keylane.pipelines.match.watermark import Lags, Unread, _read_to, passed, ripe_before
from keylane.pipelines.watermark import BEGINNING
from keylane.systems.endpoint import parse_address
from keylane.systems.kafka.cluster import OffsetRange

if TYPE_CHECKING:
    from pathlib import Path

NOW = Happened()


def stand(drivers: dict[str, int], riders: dict[str, int], unread: Unread, last: Happened = NOW) -> tuple[int, int]:
    found = passed(last, drivers, riders, unread, late=10, keep=100)
    return found.watermark, found.kept_from


def test_the_watermark_is_behind_the_newest_ping_and_never_goes_back() -> None:
    assert stand({"0": 500}, {"0": 480}, Unread()) == (490, 470)
    after = passed(NOW, {"0": 500}, {"0": 480}, Unread(), 10, 100)
    assert passed(after, {"0": 300}, {}, Unread(), 10, 100).watermark == 490
    assert passed(after, {}, {}, Unread(), 10, 100) == after


def test_a_lane_with_records_unread_holds_time_and_one_that_is_read_to_its_end_does_not() -> None:
    assert stand({"0": 500, "1": 300}, {}, Unread((0, 7), (0, 0))) == (290, 280)
    assert stand({"0": 500, "1": 300}, {}, Unread((7, 0), (0, 0))) == (490, 480)
    assert stand({"0": 500}, {}, Unread((0, 7), (0, 0)))[0] == BEGINNING, "nobody knows what lane 1 begins with"


def test_what_has_come_since_a_batch_took_all_there_was_holds_nothing() -> None:
    # Lane 1 has bad records only, and lane 2 a clock that is behind: more of both comes all the time.
    assert stand({"0": 500, "2": 100}, {}, Unread((3, 7, 9), (0, 0, 0), cut=False))[0] == 490
    assert stand({"0": 500, "2": 100}, {}, Unread((3, 7, 9), (0, 0, 0), cut=True))[0] == BEGINNING


@dataclass(frozen=True)
class Topics:
    """A cluster in which every lane begins at 100 and ends at 1,000."""

    def offset_ranges(self, topic: str, lanes: int, *, committed: bool) -> list[OffsetRange]:
        assert (topic, committed) == ("t", True)
        return [OffsetRange(100, 1000, 1000)] * lanes


@pytest.mark.parametrize(("batch", "cut"), [(0, False), (1, True), (2, False)])
def test_a_batch_that_took_as_much_as_it_may_was_cut(tmp_path: Path, batch: int, cut: bool) -> None:
    where = parse_address("kafka://broker:9092/t")
    sides = MatchSource("drivers", where, Columns(), 2), MatchSource("riders", where, Columns(), 2)
    (tmp_path / "offsets").mkdir()
    for number, offsets in enumerate([(120, 120), (170, 169), (190, 200)]):
        said = json.dumps({"t": {"0": offsets[0], "1": offsets[1]}})
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{said}\n{said}")
    cluster: Any = Topics()
    found = Lags(sides, (cluster, None), most=100).of(tmp_path, batch)
    assert found.cut == cut
    assert found.riders is None
    assert found.drivers == {0: (880, 880), 1: (830, 831), 2: (810, 800)}[batch]
    assert not Lags(sides, (None, None), most=100).of(tmp_path, batch).cut, "files say nothing of what is unread"


def test_lanes_remember_for_requests_that_are_unread_but_not_for_ever() -> None:
    assert stand({"0": 500}, {"0": 450}, Unread((0,), (3,))) == (490, 440)
    assert stand({"0": 500}, {"0": 10}, Unread((0,), (3,))) == (490, 390)
    assert stand({"0": 500}, {}, Unread())[1] == 390, "files do not say what is still to come"


@pytest.mark.parametrize(("window", "kept"), [(1, 480), (50, 450), (5, 480)], ids=["none", "longer than late", "short"])
def test_lanes_remember_for_requests_that_wait_for_the_end_of_their_window(window: int, kept: int) -> None:
    found = passed(NOW, {"0": 500}, {"0": 495}, Unread(), late=10, keep=100, window=window)
    assert found.kept_from == kept <= ripe_before(found.watermark, window)


def test_lag_is_of_both_sides_by_lane() -> None:
    assert Unread((1, 2), (3, 0)).by_lane() == [{"lane": 0, "records": 4}, {"lane": 1, "records": 2}]
    assert Unread().by_lane() is None


def test_what_was_read_stands_in_the_log_of_offsets(tmp_path: Path) -> None:
    log = tmp_path / "0"
    log.write_text("\n".join(["v1", "{}", json.dumps({"logOffset": 3}), json.dumps({"t": {"0": 5}})]))
    assert _read_to(log) == {"t": {"0": 5}}


def used(*newest: int) -> list[InUse]:
    nothing: Any = None
    return [InUse(Epoch("e", number, str(number), "", at), nothing) for number, at in enumerate(newest)]


def test_an_old_contract_is_in_use_while_a_ping_that_it_placed_can_be_seen() -> None:
    assert [one.epoch for one in after_batch(used(100, 200), {"0": 250}, 100)] == [0, 1]
    assert after_batch(used(100, 200), {"0": 250}, 101)[-1].newest == 250
    assert [one.epoch for one in after_batch(used(100, 200), {}, 101)] == [1]
    assert [one.epoch for one in after_batch(used(100, 200), {}, None)] == [1]


@pytest.mark.parametrize(
    ("dead", "said"),
    [
        ({"drivers": {"place-zero": 2}, "riders": {"late-request": 1}}, None),
        ({"drivers": {"place-zero": 1}, "riders": {"late-request": 1}}, "drivers .*got '8 good, 1"),
        ({"drivers": {"place-zero": 2}, "riders": {}}, "riders .*got '4 good, 0 dead'; allowed: 5"),
    ],
    ids=["all there", "twin: a ping is lost", "twin: a late request is lost"],
)
def test_good_records_and_dead_letters_of_a_batch_are_all_there_are(dead: dict[str, Any], said: str | None) -> None:
    nothing: Any = None
    loads, asked = Loads({0: 5, 3: 3}, 0, {}), Asked(5, 1, {})
    read = Records(nothing, nothing, nothing, loads, asked, {}, {"drivers": 10, "riders": 5})
    if said is None:
        _check_counts(read, dead)
        return
    with pytest.raises(CountError, match=said):
        _check_counts(read, dead)
