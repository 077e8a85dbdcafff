"""What a running match refuses: a checkpoint that is older, restored or damaged; sources that are other ones."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.match.batch_traffic import geo_contract
from tests.match.stream_traffic import World, matches, world

from keylane.contract.parse import parse_contract
from keylane.errors import KeylaneError, MissingExtraError, TargetError, UsageError
from keylane.pipelines.match.follow import Following, follow
from keylane.pipelines.match.follow_sources import FileBlocks
from keylane.pipelines.match.follow_state import BatchManifest, MatchHead, MatchState, open_state, write_sealed
from keylane.pipelines.match.options import Options
from keylane.systems.checkpoint import batch_offsets

if TYPE_CHECKING:
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
    ("change", "said"),
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
    committed: Path, change: Callable[[Path], Any], said: str | None
) -> None:
    change(committed / "out" / "_state" / "checkpoint")
    with pytest.raises(BegunError if said is None else TargetError, match=said):
        again(committed)


@dataclass(frozen=True)
class Copies:
    """The state after the first batch and after the last, to damage copies of."""

    first: Path
    last: Path

    def other(self, name: Path) -> Path | None:
        """What may stand in the place of a file after a wrong restore: the same file as it was, or one like it."""
        content = (self.last / name).read_bytes()
        like = [path for path in sorted(self.last.rglob(f"*{name.suffix}")) if path.is_file()]
        # The nearest first: of the same name in another slot or step, then of the same folder.
        like.sort(key=lambda path: (path.name != name.name, path.parent.name != name.parent.name))
        found = [self.first / name, *like]
        return next((path for path in found if path.exists() and path.read_bytes() != content), None)


Damage = Callable[[Path, "Path | None", random.Random], object]


def flip(path: Path, _other: Path | None, rng: random.Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def swap(path: Path, other: Path | None, _rng: random.Random) -> None:
    if other is not None:
        path.write_bytes(other.read_bytes())


def swap_with_checksum(path: Path, other: Path | None, _rng: random.Random) -> None:
    """As a restore does it: nothing that Spark checks by itself is then wrong."""
    if other is None:
        return
    path.write_bytes(other.read_bytes())
    check, own = (one.with_name(f".{one.name}.crc") for one in (other, path))
    if check.exists():
        own.write_bytes(check.read_bytes())


DAMAGES: dict[str, Damage] = {
    "gone": lambda path, _other, _rng: path.unlink(),
    "empty": lambda path, _other, _rng: path.write_bytes(b""),
    "cut": lambda path, _other, _rng: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path, _other, _rng: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": flip,
    "swapped": swap,
    "restored": swap_with_checksum,
}


@dataclass(frozen=True)
class Damageable:
    """A match of two batches with a third to come, to damage copies of: made once for all kinds of damage."""

    folder: Path
    made: World
    options: Options
    #: Steps with a state, as Spark numbers them: from the end of its plan.
    steps: tuple[str, ...]
    expected: tuple[Any, ...]

    @property
    def state(self) -> Path:
        return self.folder / "out" / "_state"

    @property
    def copies(self) -> Copies:
        return Copies(self.folder / "kept0" / "_state", self.folder / "kept1" / "_state")

    def run(self, spark: SparkSession) -> Any:
        sides = str(self.folder / "in" / "drivers"), str(self.folder / "in" / "riders")
        return follow(*sides, str(self.folder / "out"), self.options, FEW, contract=geo_contract(4), spark=spark)

    def restore(self) -> None:
        """Back to the end of the second batch."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        shutil.copytree(self.folder / "kept1", self.folder / "out")

    def found(self, document: Any) -> tuple[Any, ...]:
        offers = sorted((self.folder / "out" / "offers").glob("batch=*/*.parquet"))
        offered = [pq.read_table(path)["offer_id"].to_pylist() for path in offers]
        return matches(self.folder / "out"), document.pairs, sorted(one for ids in offered for one in ids)

    def is_named(self, name: Path, error: str) -> bool:
        """Whether an error names a file, or the one that it has the checksum of.

        Of a slot's state the slot is enough. What tells a state, or a checkpoint in it, from an older or another one
        may be named by its folder: that is what has to be restored.
        """
        slot = re.match(r"checkpoint/state/(\d)/(\d)/", str(name))
        if slot is None:
            return str(self.state) in error
        step = self.steps[int(slot[1])]
        file = self.state / name.with_name(name.name.removeprefix(".").removesuffix(".crc"))
        return any(one in error for one in (str(file), f"{step}/{slot[2]}", f"{step} {slot[2]}"))

    def silent(self, spark: SparkSession, damage: str, match: str = "*") -> list[str]:
        """Damage files of the state one by one, and go on: those that were not noticed, and changed what is found.

        Also those that were noticed by an error that names nothing.
        """
        self.restore()
        found = (path for path in self.state.rglob(match) if path.is_file() and path.name != "lock")
        files, rng, silent, named = sorted(path.relative_to(self.state) for path in found), random.Random(damage), [], 0
        assert files
        for name in files:
            self.restore()
            DAMAGES[damage](self.state / name, self.copies.other(name), rng)
            try:
                document = self.run(spark)
            except KeylaneError as error:
                named += 1
                silent += [] if self.is_named(name, str(error)) else [f"{name}: {error}"]
                continue
            if self.found(document) != self.expected:
                silent.append(str(name))
        print(f"{damage}: {len(files)} files, {named} named, {len(files) - named - len(silent)} harmless")
        return silent


def damageable(spark: SparkSession, folder: Path, options: Options, steps: tuple[str, ...]) -> Damageable:
    made = world(files=3, drivers=20, riders=30)
    plain = Damageable(folder, made, options, steps, ())
    for upto in range(2):
        made.write(folder / "in", range(upto + 1))
        plain.run(spark)
        shutil.copytree(folder / "out", folder / f"kept{upto}")
    made.write(folder / "in")
    expected = plain.found(plain.run(spark))
    assert expected[0] == made.expected(3000.0, made.watermark)
    return replace(plain, expected=expected)


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
def test_every_damaged_file_of_the_state_is_named_or_does_no_harm(
    spark: SparkSession, of_pairs: Damageable, damage: str
) -> None:
    assert of_pairs.silent(spark, damage) == []


@pytest.mark.faults
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_of_the_ledger_of_offers_is_named_or_does_no_harm(
    spark: SparkSession, of_offers: Damageable, damage: str
) -> None:
    assert of_offers.silent(spark, damage, "checkpoint/state/0/**/*") == []


@pytest.mark.faults
def test_twin_a_slot_that_is_not_compared_with_the_batch_before_is_damaged_in_silence(
    spark: SparkSession, of_pairs: Damageable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.pipelines.match.follow_state._check_slots", lambda *_: None)
    assert of_pairs.silent(spark, "restored", "checkpoint/state/*/*/2.changelog")


def both_gone(state: Path) -> None:
    for name in ("files", "blocks"):
        shutil.rmtree(state / name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, None),
        (lambda at: (at / "blocks" / "0000000001.parquet").unlink(), r"blocks/0000000001.parquet.*not read yet"),
        (lambda at: (at / "blocks" / "0000000002.json").write_text("{"), r"damaged.*0000000002.json"),
        (lambda at: swap(at / "blocks" / "0000000002.json", at / "blocks" / "0000000001.json", NO), "that of batch 1"),
        (lambda at: (at / "blocks" / "0000000002.parquet").write_text("x"), r"0000000002.parquet.*digest differs"),
        (lambda at: (at / "files" / "offsets" / "2").unlink(), "older than the target"),
        (both_gone, "older than the match, which has read 1"),
    ],
    ids=["twin: as it was", "blocks are gone", "damaged", "swapped", "other blocks", "names restored", "both restored"],
)
def test_blocks_of_files_that_are_not_what_was_read_are_refused(
    committed: Path, change: Callable[[Path], Any], said: str | None
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
    body = FileBlocks((), nothing, nothing, nothing, MatchState(at, nothing))
    if said is None:
        body.check()
        return
    with pytest.raises(TargetError, match=said):
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
