"""kill -9 of a running match, with its Java: started again it finds the same pairs as one that nothing disturbed."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.killable_matches import kill_at_random, run_and_die, run_to_the_end, start
from tests.match.stream_traffic import World, matches, world

from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: The steps of a batch of files that become blocks, then those of a batch of the match.
POINTS = ["read", "known", "put", "begun", "answered", "staged", "forced", "committed", "renamed", "moved"]
KILLS = 30


def right(target: Path, made: World) -> bool:
    """Whether the target has the pairs of the definition, each once."""
    return matches(target) == made.expected(3000.0, made.watermark)


def test_killed_before_a_batch_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    made = world(files=2)
    sides, target = made.write(tmp_path / "in"), tmp_path / "out"
    assert run_and_die(*sides, target, point="staged", batch=1)[-1] == ["staged", 1]
    early, steps = matches(target), list[tuple[str, int]]()
    document = follow(
        str(sides[0]),
        str(sides[1]),
        str(target),
        Options(radius=3000.0),
        Following(max_files=1, available_now=True, tasks=2),
        contract=geo_contract(4),
        spark=spark,
        probe=lambda point, batch: steps.append((point, batch)),
    )
    assert [batch for point, batch in steps if point == "begun"] == [1], "a batch that was not committed is made again"
    assert early <= matches(target)
    assert right(target, made)
    assert (document.pings, document.pairs) == (made.pings.num_rows, len(matches(target)))


@pytest.mark.faults
def test_killed_before_and_after_a_batch_is_committed(tmp_path: Path) -> None:
    made = world(files=3)
    sides, target = made.write(tmp_path / "in"), tmp_path / "out"
    steps = run_and_die(*sides, target, point="staged", batch=1)
    assert steps[-1] == ["staged", 1]
    early = matches(target)
    assert run_and_die(*sides, target, point="renamed", batch=1)[0] == ["begun", 1], "a batch that was not committed"
    assert early <= matches(target)
    steps, document = run_to_the_end(*sides, target)
    begun = [batch for point, batch in steps if point == "begun"]
    assert begun == [2], "a committed batch is moved, and not made again"
    assert right(target, made)
    assert document["pings"] == made.pings.num_rows
    assert document["pairs"] == len(matches(target))


@pytest.mark.faults
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(tmp_path: Path, point: str) -> None:
    made = world(files=3)
    sides, target = made.write(tmp_path / "in"), tmp_path / "out"
    run_and_die(*sides, target, point=point, batch=1)
    run_to_the_end(*sides, target)
    assert right(target, made)


@pytest.mark.faults
@pytest.mark.parametrize("point", ["answered", "committed"])
def test_offers_are_the_same_after_a_kill(tmp_path: Path, point: str) -> None:
    made = world(files=3, drivers=25, riders=120)
    sides = made.write(tmp_path / "in")
    more: dict[str, Any] = {"options": {"assign": "optimal", "window": 4.0, "offer_for": 21.0}}
    run_to_the_end(*sides, tmp_path / "whole", **more)
    run_and_die(*sides, tmp_path / "out", point=point, batch=1, **more)
    run_to_the_end(*sides, tmp_path / "out", **more)
    found, expected = (offers(tmp_path / name) for name in ("out", "whole"))
    assert found == expected
    assert len(expected) > 10


def offers(target: Path) -> list[dict[str, Any]]:
    tables = [pq.read_table(path) for path in sorted((target / "offers").glob("batch=*/*.parquet"))]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda one: str(one["offer_id"]))


@pytest.mark.faults
def test_killed_thirty_times_at_random(tmp_path: Path) -> None:
    made, rng, kills, rounds = world(files=8), random.Random(17), 0, 0
    sides = made.write(tmp_path / "in")
    while kills < KILLS:
        # One that has ended before its kill is compared, and the next one begins.
        target, alive = tmp_path / f"out{rounds}", True
        while alive and kills < KILLS:
            alive = kill_at_random(start(*sides, target), rng)
            kills += alive
        _, document = run_to_the_end(*sides, target)
        assert right(target, made)
        assert (document["pings"], document["pairs"]) == (made.pings.num_rows, len(matches(target)))
        rounds += 1


@pytest.mark.faults
def test_on_fewer_and_more_cores_a_match_goes_on_with_the_slots_that_it_began_with(tmp_path: Path) -> None:
    made = world(files=4)
    target = tmp_path / "out"
    for number, cores in enumerate((2, 1, 4, 2)):
        sides = made.write(tmp_path / "in", range(number, number + 1))
        run_to_the_end(*sides, target, master=f"local[{cores}]", tasks=None)
    assert right(target, made)
    assert json.loads((target / "_state" / "match.json").read_text())["slots"] == 2
