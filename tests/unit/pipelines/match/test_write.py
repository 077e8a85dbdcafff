"""The parts of a match that need no Spark session: windows of offers, the target, the verdict; each with its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("scipy")

from keylane.documents.match import MatchVerified
from keylane.errors import TargetError, UsageError
from keylane.pipelines.match.batch import _compared, shown_cells
from keylane.pipelines.match.offers import Sums, _window, windows
from keylane.pipelines.match.options import Options, plain_contract
from keylane.pipelines.match.write import check_target, staged
from keylane.placement.cell_lanes import cell_lanes
from keylane.systems.endpoint import parse_address

if TYPE_CHECKING:
    from pathlib import Path


def pairs(*rows: tuple[str, int, str, float]) -> pa.Table:
    names = ("rider", "rider_ts", "driver", "distance_m")
    kinds = (pa.string(), pa.int64(), pa.string(), pa.float64())
    columns = zip(*rows, strict=True) if rows else ([],) * 4
    return pa.table({n: pa.array(list(c), k) for n, c, k in zip(names, columns, kinds, strict=True)})


def test_windows_are_whole_however_the_tables_are_cut() -> None:
    whole = pairs(*((f"r{n}", n, "d", 1.0) for n in (0, 3, 9, 10, 11, 35)))
    for cut in range(1, 6):
        tables = iter([whole.slice(0, cut), whole.slice(cut)])
        found = [(end, table["rider_ts"].to_pylist()) for end, table in windows(tables, 10)]
        assert found == [(10, [0, 3, 9]), (20, [10, 11]), (40, [35])]
    assert list(windows(iter([]), 10)) == []


def offered(assign: Any, offer_for: float, *several: pa.Table) -> tuple[list[tuple[str, str]], Sums]:
    sums, found = Sums(), []
    for n, table in enumerate(several, 1):
        given = Options(1000.0, assign=assign, offer_for=offer_for)
        rows = _window(table, n * 5_000_000, given, sums).to_pylist()
        found += [(row["rider_id"], row["driver_id"]) for row in rows]
    return found, sums


def test_a_driver_that_is_held_is_offered_to_nobody_else_until_the_offer_ends() -> None:
    first = pairs(("r1", 1, "a", 100.0))
    second = pairs(("r2", 5_000_001, "a", 50.0), ("r2", 5_000_001, "b", 90.0))
    third = pairs(("r3", 10_000_001, "a", 70.0))
    found, sums = offered("greedy", 11, first, second, third)
    assert found == [("r1", "a"), ("r2", "b")]
    assert (sums.granted, sums.refused, sums.metres) == (2, 1, 190.0)
    assert offered("greedy", 10, first, second, third)[0] == [("r1", "a"), ("r2", "b"), ("r3", "a")]
    assert offered("greedy", 5, first, second, third)[0] == [("r1", "a"), ("r2", "a"), ("r3", "a")]


def test_optimal_serves_more_than_greedy_where_arrival_takes_the_only_driver() -> None:
    window = pairs(("r1", 1, "a", 100.0), ("r1", 1, "b", 200.0), ("r2", 2, "a", 150.0))
    assert offered("greedy", 15, window)[0] == [("r1", "a")]
    assert sorted(offered("optimal", 15, window)[0]) == [("r1", "b"), ("r2", "a")]


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = parse_address(str(tmp_path / "deep" / "out"))
    with staged(target) as folder:
        (folder / "matches").mkdir()
        assert not (tmp_path / "deep" / "out").exists()
    assert [one.name for one in (tmp_path / "deep" / "out").iterdir()] == ["matches"]
    other = parse_address(str(tmp_path / "other"))
    with pytest.raises(RuntimeError), staged(other):
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir()] == ["deep"]


def test_a_folder_that_was_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    target = parse_address(str(tmp_path / "out"))

    def somebody_else() -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").touch()

    with pytest.raises(TargetError, match="was filled by another process"), staged(target):
        somebody_else()
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_target_that_holds_something_is_refused(tmp_path: Path) -> None:
    check_target(parse_address(str(tmp_path)), Options(1.0))
    (tmp_path / "mine").touch()
    for path in (tmp_path, tmp_path / "mine"):
        with pytest.raises(TargetError, match="is not empty"):
            check_target(parse_address(str(path)), Options(1.0))
    with pytest.raises(UsageError, match="to a folder"):
        check_target(parse_address("kafka://nowhere:1/t"), Options(1.0, assign="greedy"))


def verdict(*rows: tuple[str, int, str, int]) -> pa.Table:
    names = ("rider", "rider_ts", "driver", "driver_ts")
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def test_a_pair_that_is_missing_wrong_or_twice_is_counted() -> None:
    truth = verdict(("r", 1, "a", 1), ("r", 1, "b", 1))
    assert _compared(truth, truth, [])[:2] == (MatchVerified(pairs=2, missing=0, extra=0), 1.0)
    assert _compared(truth, truth.slice(0, 1), [])[:2] == (MatchVerified(pairs=2, missing=1, extra=0), 0.5)
    older = verdict(("r", 1, "a", 1), ("r", 1, "b", 0))
    assert _compared(truth, older, [])[:2] == (MatchVerified(pairs=2, missing=1, extra=1), 0.5)
    twice = pa.concat_tables([truth, truth.slice(0, 1)])
    assert _compared(truth, twice, [])[:2] == (MatchVerified(pairs=2, missing=0, extra=1), 1.0)
    assert _compared(truth.slice(0, 0), truth.slice(0, 0), [])[:2] == (MatchVerified(pairs=0, missing=0, extra=0), 1.0)


def test_a_cell_of_the_picture_is_as_coarse_as_its_lane_allows() -> None:
    cell = np.array([0x89283082803FFFF])
    coarse = plain_contract(8)
    assert f"{shown_cells(cell_lanes(coarse, 8), cell)[0]:x}" == "85283083fffffff"
    assert coarse.spec.geo is not None
    fine = coarse.spec.model_copy(update={"geo": coarse.spec.geo.model_copy(update={"resolution": 7})})
    finer = coarse.model_copy(update={"spec": fine})
    assert f"{shown_cells(cell_lanes(finer, 8), cell)[0]:x}" == "872830828ffffff"
