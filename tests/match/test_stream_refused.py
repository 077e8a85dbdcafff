"""What a running match refuses: a checkpoint that is older, restored or damaged; sources that are other ones."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.damaged_states import DAMAGES, Damageable, swap
from tests.match.stream_traffic import world

from keylane.contract.parse import parse_contract
from keylane.errors import MissingExtraError, TargetError, UsageError
from keylane.pipelines.match.follow import Following, MatchHead, follow
from keylane.pipelines.match.options import Options
from keylane.pipelines.stateful.block_files import BlockFiles
from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder, open_state, write_sealed
from keylane.systems.checkpoint import batch_offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

FEW = Following(max_files=1, available_now=True, tasks=2)
LOG = '{"logOffset":%d}'
NO = random.Random(0)


def logged(path: str, batch: int) -> str:
    """A file as Spark's source logs it."""
    found = {"path": f"file://{path}", "timestamp": batch, "batchId": batch}
    return "v1\n" + json.dumps(found, separators=(",", ":"))


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """The folder of a match whose batches 0 and 1 are committed, with all that is compared before Spark begins."""
    made = world(files=1, drivers=2, riders=2)
    sides, target = made.write(tmp_path / "in"), tmp_path / "out"
    head = MatchHead(str(sides[0]), str(sides[1]), str(target), 4, 3000.0, None, None, None)
    checkpoint = target / "_state" / "checkpoint"
    with open_state(target / "_state", head):
        pass
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"q"}')
    for batch in range(2):
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{LOG % batch}")
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")
        named = json.dumps(
            {"path": f"file:///blocks/{batch}", "timestamp": batch, "batchId": batch}, separators=(",", ":")
        )
        (checkpoint / "sources" / "0" / str(batch)).write_text(f"v1\n{named}")
    with open_state(target / "_state", head) as state:
        for batch in range(2):
            state.commit(BatchManifest(batch, "t", "q", batch_offsets(checkpoint, batch)), target)
    return tmp_path


def again(folder: Path, **more: Any) -> Any:
    sides = str(folder / "in" / "drivers"), str(folder / "in" / "riders")
    given = Options(radius=3000.0)
    return follow(*sides, str(folder / "out"), given, FEW, contract=geo_contract(4), **more)


class BegunError(Exception):
    """Spark would begin."""


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object) -> None:
        raise BegunError

    monkeypatch.setattr("keylane.pipelines.match.follow.session_for", begun)


def restored(checkpoint: Path) -> None:
    for log in ("offsets", "commits", "sources/0"):
        (checkpoint / log / "1").unlink()


def other_records(checkpoint: Path) -> None:
    (checkpoint / "sources" / "0" / "1").write_text('v1\n{"path":"file:///blocks/7","timestamp":1,"batchId":1}')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, None),
        (restored, "older than the target"),
        (other_records, "older than the target"),
        (lambda at: (at / "metadata").write_text('{"id":"other"}'), "not the one they were written with"),
        (lambda at: (at / "metadata").unlink(), "not the one they were written with"),
        (lambda at: (at / "offsets" / "1").write_text(""), r"damaged: .*offsets/1"),
        (lambda at: (at / "offsets" / "3").write_text(f"v1\n{{}}\n{LOG % 3}"), "does not belong to this target"),
        (lambda at: (at / "commits" / "2").write_text("v1\n{}"), "the target is older"),
    ],
    ids=["twin: as it was", "restored", "other records", "another query", "no query", "cut", "ahead", "target older"],
)
@pytest.mark.usefixtures("no_spark")
def test_a_checkpoint_that_is_not_that_of_the_last_batch_is_refused_before_spark_begins(
    committed: Path, change: Callable[[Path], Any], message: str | None
) -> None:
    change(committed / "out" / "_state" / "checkpoint")
    with pytest.raises(BegunError if message is None else TargetError, match=message):
        again(committed)


def damageable(spark: SparkSession, folder: Path, options: Options, steps: tuple[str, ...]) -> Damageable:
    made = world(files=3, drivers=20, riders=30)
    sides = str(folder / "in" / "drivers"), str(folder / "in" / "riders")

    def run() -> Any:
        return follow(*sides, str(folder / "out"), options, FEW, contract=geo_contract(4), spark=spark)

    state = Damageable.of(folder, lambda batch: made.write(folder / "in", range(batch, batch + 1)), run, steps)
    assert state.expected[0] == made.expected(3000.0, made.watermark)
    return state


@pytest.fixture(scope="module")
def of_pairs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Damageable:
    return damageable(spark, tmp_path_factory.mktemp("pairs"), Options(radius=3000.0), ("lanes", "homes"))


@pytest.fixture(scope="module")
def of_offers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Damageable:
    options = Options(radius=3000.0, assign="greedy", window=4.0, offer_for=21.0)
    made = damageable(spark, tmp_path_factory.mktemp("offers"), options, ("offers", "lanes", "homes"))
    assert made.expected[-1]
    return made


@pytest.mark.faults
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_of_the_state_is_named_or_does_no_harm(of_pairs: Damageable, damage: str) -> None:
    assert of_pairs.silent(damage) == []


@pytest.mark.faults
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_of_the_ledger_of_offers_is_named_or_does_no_harm(
    of_offers: Damageable, damage: str
) -> None:
    assert of_offers.silent(damage, "checkpoint/state/0/**/*") == []


@pytest.mark.faults
def test_twin_a_match_that_finds_other_pairs_after_damage_is_noticed(of_pairs: Damageable) -> None:
    other = replace(of_pairs, expected=(set(), 0, []))
    assert other.silent("gone", "checkpoint/commits/.0.crc") == ["checkpoint/commits/.0.crc"]


def both_gone(state: Path) -> None:
    for name in ("files", "blocks"):
        shutil.rmtree(state / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, None),
        (lambda at: (at / "blocks" / "0000000001.parquet").unlink(), r"blocks/0000000001.parquet.*not read yet"),
        (lambda at: (at / "blocks" / "0000000002.json").write_text("{"), r"damaged.*0000000002.json"),
        (lambda at: swap(at / "blocks" / "0000000002.json", at / "blocks" / "0000000001.json", NO), "that of batch 1"),
        (lambda at: (at / "blocks" / "0000000002.parquet").write_text("x"), r"0000000002.parquet.*digest differs"),
        (lambda at: (at / "files" / "offsets" / "2").unlink(), "older than the target"),
        (both_gone, "older than the match, which has read 1"),
        (lambda at: (at / "checkpoint/sources/0/0").write_text(logged("/blocks/q.parquet", 0)), "q.parquet is no file"),
    ],
    ids=[
        "twin: as it was",
        *("blocks are gone", "damaged", "swapped", "other blocks", "names restored", "both restored", "other name"),
    ],
)
def test_blocks_of_files_that_are_not_what_was_read_are_refused(
    committed: Path, change: Callable[[Path], Any], message: str | None
) -> None:
    nothing: Any = None
    at = committed / "out" / "_state"
    for folder in ("offsets", "commits", "sources/0"):
        (at / "files" / folder).mkdir(parents=True)
    (at / "files" / "metadata").write_text('{"id":"f"}')
    for batch in range(3):
        (at / "files" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{LOG % batch}")
        (at / "files" / "sources" / "0" / str(batch)).write_text(logged(f"/in/{batch}", batch))
        offsets = batch_offsets(at / "files", batch)
        nothing_in_it = hashlib.sha256().hexdigest()[:32]
        known = {"batch": batch, "taken": {}, "made": nothing_in_it, "query": "f", "offsets": offsets}
        write_sealed(at / "blocks" / f"{batch:010d}.json", known)
        (at / "blocks" / f"{batch:010d}.parquet").touch()
    change(at)
    body = BlockFiles(StateFolder(at, nothing))
    if message is None:
        body.check()
        return
    with pytest.raises(TargetError, match=message):
        body.check()


@pytest.mark.parametrize("place", ["in/drivers/out", "in/riders", "in/drivers/_state"])
@pytest.mark.usefixtures("no_spark")
def test_a_target_or_state_in_a_source_is_refused(tmp_path: Path, place: str) -> None:
    sides = world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    before = sorted(tmp_path.rglob("*"))
    given, places = Options(radius=3000.0), (str(sides[0]), str(sides[1]))
    how = replace(FEW, state=str(tmp_path / place))
    for target, following in ((tmp_path / place, FEW), (tmp_path / "out", how)):
        with pytest.raises((UsageError, TargetError), match=r"lies in the source|is not empty"):
            follow(*places, str(target), given, following, contract=geo_contract(4))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("no_spark")
def test_a_state_of_files_that_was_moved_is_refused(tmp_path: Path) -> None:
    drivers, riders = world(files=1, drivers=2, riders=2).write(tmp_path / "in")

    def begin(state: str) -> None:
        how = replace(FEW, state=str(tmp_path / state))
        follow(str(drivers), str(riders), str(tmp_path / "out"), Options(radius=3000.0), how, contract=geo_contract(4))

    for _ in range(2):
        with pytest.raises(BegunError):
            begin("one")
    (tmp_path / "one").rename(tmp_path / "two")
    with pytest.raises(TargetError, match=rf"was moved.*{tmp_path / 'two'}.*allowed: {tmp_path / 'one'}"):
        begin("two")


@pytest.mark.usefixtures("no_spark")
def test_sources_of_the_same_names_in_another_folder_are_those_of_another_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = replace(FEW, state=str(tmp_path / "state"))
    for name, error in (("one", BegunError), ("one", BegunError), ("two", TargetError)):
        world(files=1, drivers=2, riders=2).write(tmp_path / name / "in")
        monkeypatch.chdir(tmp_path / name)
        with pytest.raises(error, match="another match" if error is TargetError else None):
            follow(
                "in/drivers", "in/riders", str(tmp_path / "out"), Options(radius=3000.0), how, contract=geo_contract(4)
            )


@pytest.mark.parametrize("name", ["out[1]", "out{a,b}", "a?b", "a*b", "a\\b"])
@pytest.mark.usefixtures("no_spark")
def test_a_state_of_files_whose_path_spark_would_read_as_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    sides = str(tmp_path / "in" / "drivers"), str(tmp_path / "in" / "riders")
    given, contract = Options(radius=3000.0), geo_contract(4)
    with pytest.raises(UsageError, match="pattern"):
        follow(*sides, str(tmp_path / name), given, FEW, contract=contract)
    assert not (tmp_path / name).exists()
    with pytest.raises(BegunError):
        follow(*sides, str(tmp_path / name), given, replace(FEW, state=str(tmp_path / "state")), contract=contract)


def test_what_a_running_match_cannot_do_is_refused_before_it_leaves_anything(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    other = geo_contract(4).model_dump(mode="json", by_alias=True, exclude_none=True)
    other["spec"]["partitioner"] = "kafkajs-1"
    sides = str(tmp_path / "in" / "drivers"), str(tmp_path / "in" / "riders"), str(tmp_path / "out")
    with pytest.raises(UsageError, match="kafkajs-1"):
        follow(*sides, Options(radius=3000.0), FEW, contract=parse_contract(json.dumps(other)), spark=spark)
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patched:
        patched.setattr("keylane.pipelines.match.follow_plan.h3_archives", lambda _: None)
        with pytest.raises(MissingExtraError, match="keylane dev jars geo"):
            again(tmp_path, spark=spark)
    assert not any((tmp_path / "out" / "_state" / "batches").iterdir())


def test_spark_connect_is_refused_with_what_to_do(tmp_path: Path) -> None:
    sides = world(files=1, drivers=2, riders=2).write(tmp_path / "in")
    command = ["match", "--follow", "--radius", "1000", "--to", str(tmp_path / "out")]
    command += ["--drivers", str(sides[0]), "--riders", str(sides[1])]
    done = subprocess.run(
        [sys.executable, "-m", "keylane", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        # Refused before anybody is called: nobody is there.
        env={**os.environ, "SPARK_REMOTE": "sc://127.0.0.1:1/;token=canary"},
    )
    assert done.returncode == 2
    assert "Spark Connect" in done.stderr
    assert "canary" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not any((tmp_path / "out").rglob("*.json*"))
