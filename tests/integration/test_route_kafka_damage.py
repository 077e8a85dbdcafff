"""Every file of a route's state, damaged in five ways, and a power failure: named, or harmless. Never a wrong result.

The same for folders: `tests/route/test_damage.py`, `tests/route/test_power_cut.py`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.route_records import contract, numbered, read_committed, send
from tests.integration.topics import create_topic
from tests.route.forced_disks import ForcedDisk

from keylane.errors import KeylaneError
from keylane.pipelines.route import KafkaOptions, Options, Routed
from keylane.pipelines.route import route as run
from keylane.pipelines.verify import verify
from keylane.systems.messages import target as message_target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

pytestmark = pytest.mark.faults
WAYS = ["gone", "empty", "cut", "flipped", "older"]
#: A record that cannot be read is in every batch, and parks its key.
BATCHES, ROWS, POISON = 3, 12, 1


class Parking:
    """A route that parks keys, over two topics, with copies of its state before and after its last batch."""

    def __init__(self, broker: Cluster, topic: Callable[..., str], spark: SparkSession, folder: Path) -> None:
        self.broker, self.spark, self.folder = broker, spark, folder
        self.source, self.target = topic(2, "src"), topic(4, "dst")
        self.dead = create_topic(broker, f"{self.target}.dlq", 1)
        self.state = folder / "state"
        self.sent = 0

    def send(self) -> None:
        rows = [(part, key, b'{"k": "%s"}' % key) for part, key, _ in numbered(self.sent, ROWS)]
        send(self.broker, self.source, [*rows, (0, b"bad-%d" % self.sent, b"{broken")])
        self.sent += ROWS + POISON

    def route(self, **more: Any) -> Routed:
        said: dict[str, Any] = {
            "state": str(self.state),
            "on_poison": "dlq-and-park-key",
            "value": "json",
            "try_seconds": 20.0,
        }
        given = contract(self.target, **{"fields: [key]": "fields: [k]"})
        options = Options(kafka=KafkaOptions(**said))
        return run(given, self.at(self.source), self.at(self.target), options=options, spark=self.spark, **more)

    def at(self, name: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{name}"

    def check(self) -> None:
        """Every record is there once: in its lane, or among the dead letters."""
        assert len(read_committed(self.broker, self.target)) + len(read_committed(self.broker, self.dead)) == self.sent
        given = contract(self.target, **{"fields: [key]": "fields: [k]"})
        found = verify(self.at(self.source), self.at(self.target), given, topics=KafkaOptions(value="json"))
        assert not found.verdict.violations


@pytest.fixture(scope="module")
def parking(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Parking:
    made = Parking(broker, topic, spark, tmp_path_factory.mktemp("damage"))
    for _ in range(BATCHES):
        shutil.rmtree(made.folder / "before", ignore_errors=True)
        if made.state.exists():
            shutil.copytree(made.state, made.folder / "before")
        made.send()
        made.route()
    return made


def files() -> list[str]:
    log = ["0", "1", "2", ".0.crc", ".1.crc", ".2.crc"]
    logs = [f"checkpoint/{name}/{file}" for name in ("offsets", "commits") for file in log]
    own = [f"{kind}/{n:010d}.json" for kind in ("plans", "done") for n in range(BATCHES)]
    more = ["head.json", "parked.json", "lock", "checkpoint/metadata", "checkpoint/.metadata.crc"]
    return [*own, *more, *logs, "checkpoint/sources/0/0", "checkpoint/sources/0/.0.crc"]


def test_the_list_of_files_is_complete(parking: Parking) -> None:
    there = {str(path.relative_to(parking.state / "_keylane")) for path in parking.state.rglob("*") if path.is_file()}
    assert there == set(files())


def damage(file: Path, way: str, before: Path) -> bool:
    """Damage a file; whether that changes anything."""
    whole = file.read_bytes()
    if way == "gone":
        file.unlink()
        return True
    at = len(whole) // 3
    same = sorted(p for p in file.parent.iterdir() if p.is_file() and len(p.name) == len(file.name))
    older = (
        before.read_bytes()
        if before.exists() and before.read_bytes() != whole
        else same[same.index(file) - 1].read_bytes()
    )
    flipped = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] if whole else b""
    file.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "flipped": flipped, "older": older}[way])
    return file.read_bytes() != whole


@pytest.mark.parametrize("name", files())
def test_every_file_of_a_state_in_every_way(parking: Parking, tmp_path: Path, name: str) -> None:
    for way in WAYS:
        kept = tmp_path / way
        shutil.copytree(parking.state, kept)
        before = parking.folder / "before" / "_keylane" / name
        if not damage(parking.state / "_keylane" / name, way, before):
            continue
        read, found = len(read_committed(parking.broker, parking.target)), "harmless"
        try:
            parking.route()
        except KeylaneError as error:
            found = str(error)
        shutil.rmtree(parking.state)
        shutil.copytree(kept, parking.state)
        assert len(read_committed(parking.broker, parking.target)) == read, (way, name)
        plain = name.rpartition("/")[2].removeprefix(".").removesuffix(".crc")
        # Harmless is only a lock, and what Spark can do without.
        own = name.endswith(".json")
        assert plain in found or str(parking.state) in found or (found == "harmless" and not own), (way, name, found)


def test_after_all_of_it_the_route_goes_on(parking: Parking) -> None:
    parking.send()
    assert parking.route().total.in_ == parking.sent
    parking.check()


# A power failure: only what was forced is there.

STEPS = ["planned", "begun", "written", "parked", "done"]


@pytest.fixture
def cut(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> Parking:
    made = Parking(broker, topic, spark, tmp_path)
    made.state = tmp_path / "root" / "state"
    made.state.parent.mkdir()
    made.send()
    return made


class CutError(Exception):
    """The power is gone."""


def until_cut(parking: Parking, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Route a batch up to a step; then there is only what was forced."""
    disk = ForcedDisk(parking.state.parent)

    def probe(at: str, batch: int) -> None:
        if (at, batch) == (step, 1):
            raise CutError

    with monkeypatch.context() as patched:
        disk.record(patched)
        parking.route()
        parking.send()
        with pytest.raises(CutError):
            parking.route(probe=probe)
    parking.state = disk.rebuild(parking.folder / "after") / "state"
    disk.close()


@pytest.mark.parametrize("step", STEPS)
def test_a_route_recovers_from_what_was_forced(cut: Parking, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    until_cut(cut, step, monkeypatch)
    cut.send()
    assert cut.route().total.in_ == cut.sent
    cut.check()


def test_twin_without_forcing_sparks_log_nothing_can_go_on(cut: Parking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_target, "force_batch", lambda *_: None)
    until_cut(cut, "written", monkeypatch)
    with pytest.raises(KeylaneError, match="checkpoint"):
        cut.route()
