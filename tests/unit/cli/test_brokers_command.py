"""`keylane brokers` from its options to its exit code, on a cluster in memory. Real brokers: tests/integration."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from tests.interrupts import interruptible
from tests.unit.brokers.example_clusters import Admin, lane, layout, on_two_brokers

from keylane.brokers.layout import Layout, figures
from keylane.cli.brokers import bytes_of
from keylane.cli.interrupts import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[3]
ADDRESS = "kafka://b:9092"
EVEN = layout(lane(0, 1, 2), lane(1, 2, 3), lane(2, 3, 1))
HURT = layout(lane(0, 1, 2, isr=(1,)), lane(1, 2, 3), lane(2, 3, 1))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Admin:
    """What the command finds at its address."""
    there = Admin(on_two_brokers())

    @contextmanager
    def found(_: object) -> Iterator[Admin]:
        yield there

    monkeypatch.setattr("keylane.systems.kafka.reassign.open_admin", found)
    monkeypatch.setattr("keylane.systems.kafka.reassign.POLL_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    return there


def valid(text: str) -> Any:
    document = json.loads(text)
    name = document["schema"].removeprefix("keylane.").partition("/")[0]
    schema = json.loads(files("keylane").joinpath("schemas", f"{name}.json").read_text("utf-8"))
    Draft202012Validator(schema).validate(document)
    return document


@pytest.mark.parametrize(
    ("there", "options", "code"),
    [
        pytest.param(EVEN, [], 0, id="in balance"),
        pytest.param(on_two_brokers(), [], 3, id="a reassignment is proposed"),
        pytest.param(
            layout(lane(0, 1, 2, leader=2), lane(1, 2, 3), lane(2, 3, 1)), [], 3, id="an election is proposed"
        ),
        pytest.param(HURT, [], 4, id="a copy behind"),
        pytest.param(EVEN, ["--limit", "1"], 4, id="over the limit"),
        pytest.param(layout(*(lane(p, 1, 2, isr=(1,)) for p in range(4))), [], 4, id="uneven, and nothing may move"),
        pytest.param(on_two_brokers(size=None), [], 3, id="sizes unknown"),
        pytest.param(layout(), [], 0, id="nothing there"),
    ],
)
def test_the_exit_code_says_what_was_found_and_nothing_is_written(
    there: Layout, options: list[str], code: int, cluster: Admin, run: Run, tmp_path: Path
) -> None:
    cluster.now = there
    got, out, err = run("brokers", ADDRESS, *options, "-o", "json")
    assert (got, err) == (code, "")
    document = valid(out)
    assert document["ok"] is (code == 0 or not document["findings"])
    assert (document["plan"] is not None) is (code == 3)
    assert cluster.written == []
    assert list(tmp_path.iterdir()) == []


def test_without_an_address_the_configured_brokers_are_asked(
    cluster: Admin, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.now = EVEN
    monkeypatch.delenv("KEYLANE_KAFKA", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    code, out, err = run("brokers")
    assert (code, out) == (2, "")
    assert "no cluster is named, and none is configured: hint: kafka://host:port, KEYLANE_KAFKA=host:port" in err
    asked = []
    access = "keylane.systems.kafka.reassign.kafka_access"
    monkeypatch.setattr(access, lambda brokers, properties: asked.append((brokers, tuple(properties))))
    (tmp_path / "keylane.toml").write_text(
        '[kafka]\nbrokers = "b:9092"\n[kafka.properties]\n"security.protocol" = "SSL"\n', "utf-8"
    )
    code, out, _ = run("brokers", "-o", "json")
    assert (code, valid(out)["cluster"]) == (0, "kafka://b:9092")
    # What is configured for these brokers goes to them, and to no others.
    assert run("brokers", "kafka://other:9092", "-o", "json")[0] == 0
    assert asked == [("b:9092", (("security.protocol", "SSL"),)), ("other:9092", ())]


def test_the_table_shows_each_broker_and_what_is_proposed(cluster: Admin, run: Run) -> None:
    _, out, _ = run("brokers", ADDRESS)
    row = next(line for line in out.splitlines() if line.lstrip().startswith("1 "))
    assert row.split() == ["1", "-", "6", "3", "5.7", "MiB", "0", "B", "1.9", "MiB", "4", "2"]
    assert "Moves, by the brokers of the replicas:" in out
    moves = out.partition("Moves,")[2].splitlines()[2:]
    assert len([line for line in moves if line.startswith("t")]) >= 4, "which partition goes where"
    assert "alert of 1.3" in out
    assert "4 replicas to move, 3.8 MiB" in out


def test_a_plan_is_written_with_the_way_back_and_the_cluster_is_not(cluster: Admin, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("brokers", ADDRESS, "--out", "r.json", "-o", "json")
    assert (code, cluster.written) == (3, [])
    assert valid(out)["files"] == {"reassignment": "r.json", "rollback": "r.rollback.json", "plan": "r.plan.json"}
    there, back = (json.loads((tmp_path / name).read_text()) for name in ("r.json", "r.rollback.json"))
    before = {one.partition: list(one.replicas) for one in cluster.now.lanes}
    assert all(one["replicas"] == before[one["partition"]] for one in back["partitions"])
    assert [one["partition"] for one in there["partitions"]] == [one["partition"] for one in back["partitions"]]
    assert {name for one in there["partitions"] for name in one} == {"topic", "partition", "replicas"}
    assert there["version"] == 1


def test_the_way_back_of_another_plan_is_not_overwritten(cluster: Admin, run: Run, tmp_path: Path) -> None:
    run("brokers", ADDRESS, "--out", "r.json")
    assert run("brokers", ADDRESS, "--out", "r.json")[0] == 3
    cluster.now = Layout(cluster.now.brokers, (*cluster.now.lanes, lane(6, 1)))
    kept = (tmp_path / "r.rollback.json").read_text()
    code, _, err = run("brokers", ADDRESS, "--out", "r.json", "--apply", "--yes")
    assert (code, cluster.written) == (1, [])
    assert "overwritten" in err
    assert (tmp_path / "r.rollback.json").read_text() == kept


def test_apply_writes_the_files_and_fixes_the_cluster(cluster: Admin, run: Run, tmp_path: Path) -> None:
    code, out, _ = run("brokers", ADDRESS, "--apply", "--yes", "-o", "json")
    document = valid(out)
    assert (code, document["ok"], document["applied"]["not_elected"]) == (0, True, 0)
    assert figures(cluster.now).replicas.counts == (4, 4, 4)
    assert cluster.left == {}
    assert (tmp_path / "reassignment.rollback.json").exists()
    assert run("brokers", ADDRESS)[0] == 0


AGAIN = ("brokers", ADDRESS, "--plan", "reassignment.plan.json")


def test_a_plan_applied_once_more_says_that_nothing_is_left_and_asks_nothing(cluster: Admin, run: Run) -> None:
    assert run("brokers", ADDRESS, "--apply", "--yes")[0] == 0
    cluster.written.clear()
    for options in ((), ("--apply",), ("--apply", "--yes")):
        code, out, err = run(*AGAIN, *options)
        assert (code, err, cluster.written) == (0, "", [])
        assert out.splitlines()[0] == "nothing is left to do: this plan has been carried out"
    found = valid(run(*AGAIN, "--apply", "-o", "json")[1])
    assert (found["ok"], found["plan"], found["applied"]) == (True, None, None)


@pytest.mark.parametrize("left", ["a throttle", "a leader", "a move"])
def test_what_a_killed_run_has_left_is_still_to_do(left: str, cluster: Admin, run: Run) -> None:
    before = cluster.now
    assert run("brokers", ADDRESS, "--apply", "--yes")[0] == 0
    if left == "a throttle":
        cluster.settings["topic", "t"] = dict(cluster.set_when_started["topic", "t"])
        cluster.settings["broker", "1"] = dict(cluster.set_when_started["broker", "1"])
    elif left == "a leader":
        moved = [one for one in cluster.now.lanes if 3 in one.replicas]
        other = [replace(one, leader=one.replicas[-1]) if one == moved[0] else one for one in cluster.now.lanes]
        cluster.now = Layout(cluster.now.brokers, tuple(other))
    else:
        cluster.now = before
    cluster.written.clear()
    code, out, _ = run(*AGAIN, "--apply", "--yes")
    assert (code, cluster.left) == (0, {})
    assert cluster.written, "something was left to do"
    assert "this plan has been carried out" not in out
    assert "this plan has been carried out" in run(*AGAIN, "--apply", "--yes")[1]


def test_where_nobody_answers_nothing_is_changed(cluster: Admin, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, out, err = run("brokers", ADDRESS, "--apply")
    assert (code, out, cluster.written) == (2, "", [])
    assert "hint: --yes" in err


def test_without_a_yes_nothing_is_carried_out(cluster: Admin, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def no(text: str, **_: Any) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr("click.confirm", no)
    code, out, _ = run("brokers", ADDRESS, "--apply", "-o", "json")
    assert (code, valid(out)["applied"], cluster.written) == (3, None, [])
    assert len(asked) == 1
    assert asked[0].startswith("4 replicas to move, 3.8 MiB")


def test_a_stale_plan_is_refused_before_anybody_is_asked(cluster: Admin, run: Run) -> None:
    run("brokers", ADDRESS, "--out", "r.json")
    cluster.now = Layout(cluster.now.brokers, cluster.now.lanes[1:])
    for options in (["--apply", "--yes"], ["--apply"], []):
        code, out, err = run("brokers", ADDRESS, "--plan", "r.plan.json", *options)
        assert (code, out, cluster.written) == (1, "", [])
        assert "changed since" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_it_says_in_one_line_how_to_go_on(number: signal.Signals, cluster: Admin, run: Run) -> None:
    def interrupt() -> None:
        if cluster.moving:
            signal.raise_signal(number)

    cluster.on_look = interrupt
    with interruptible():
        code, out, err = run("brokers", ADDRESS, "--apply", "--yes")
    assert (code, out) == (130, "")
    assert [line for line in err.splitlines() if line and "lanes moved" not in line] == [
        (
            "interrupted; removing the throttles, the cluster goes on with what is under way; "
            f"finish it: keylane brokers {ADDRESS} --plan reassignment.plan.json --apply"
        )
    ]
    assert cluster.left == {}
    assert interrupts.line != "interrupted"
    cluster.finish()
    assert run("brokers", ADDRESS)[0] in (0, 3)
    assert interrupts.line == "interrupted", "the next command has its own"


#: A cluster that takes its time to remove throttles, under the real handler of Ctrl-C.
SLOW = """
import os, signal, sys, time
from contextlib import contextmanager
from tests.unit.brokers.example_clusters import Admin, on_two_brokers
import keylane.cli.interrupts as interrupts
import keylane.systems.kafka.reassign as reassign
from keylane.cli import main

class Slow(Admin):
    def alter_configs(self, resources, **options):
        if interrupts.interrupts.came:
            time.sleep(0.15)
        found = super().alter_configs(resources, **options)
        open("left", "w").write(repr(self.left))
        return found

cluster = Slow(on_two_brokers(), steps=1000)
def look():
    if cluster.moving:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
cluster.on_look = look

@contextmanager
def found(_):
    yield cluster

reassign.open_admin = found
reassign.POLL_SECONDS = 0.0
interrupts.PATIENCE = interrupts.interrupts.patience = 0.3
if {twin}:
    interrupts.Interrupts.costly = contextmanager(lambda self, line, patience: iter([None]))
sys.argv = ["keylane", "brokers", "kafka://b:9092", "--apply", "--yes"]
main.main()
"""


@pytest.mark.parametrize("twin", [False, True])
def test_throttles_are_removed_however_long_it_takes(twin: bool, tmp_path: Path) -> None:
    """Four settings of 0.15 s each, where any other command has 0.3 s; twin: without more of it they stay."""
    script = SLOW.replace("{twin}", str(twin))
    with interruptible():
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT / "src", ROOT]))},
        )  # fmt: skip
    left = (tmp_path / "left").read_text()
    assert done.returncode == 130, done.stderr
    if twin:
        assert left != "{}"
        return
    assert left == "{}"
    said = [line for line in done.stderr.splitlines() if "lanes moved" not in line]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("interrupted; removing the throttles")


def test_while_a_cluster_is_busy_nothing_is_proposed_and_the_status_says_with_what(cluster: Admin, run: Run) -> None:
    cluster.moving, cluster.steps = {("t", 5): (1, 3)}, 100
    cluster.settings["broker", "1"] = {"leader.replication.throttled.rate": "77"}
    code, out, _ = run("brokers", ADDRESS, "-o", "json")
    assert (code, valid(out)["plan"], valid(out)["under_way"]) == (4, None, 1)
    code, _, err = run("brokers", ADDRESS, "--apply", "--yes")
    assert (code, cluster.written) == (1, [])
    assert "t-5" in err
    code, out, _ = run("brokers", ADDRESS, "--status", "-o", "json")
    status = valid(out)
    assert code == 0
    assert status["under_way"] == [{"topic": "t", "partition": 5, "adding": [3], "removing": [2]}]
    assert [one["value"] for one in status["throttles"]] == ["77"]


def test_waiting_ends_when_nothing_is_under_way(cluster: Admin, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    cluster.moving, cluster.steps = {("t", 5): (1, 3)}, 3
    assert valid(run("brokers", ADDRESS, "--status", "--wait", "-o", "json")[1])["under_way"] == []
    assert cluster.looks > 3


def test_only_the_topics_that_are_named_move(cluster: Admin, run: Run) -> None:
    cluster.now = layout(*(lane(p, 1, 2, topic=topic) for topic in ("a", "b") for p in range(12)))
    found = valid(run("brokers", ADDRESS, "--topic", "b", "-o", "json")[1])
    assert {one["topic"] for one in found["plan"]["partitions"]} == {"b"}
    code, _, err = run("brokers", ADDRESS, "--topic", "c")
    assert code == 2
    assert "unknown topic: got 'c'; allowed: a, b" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--yes"],
        ["--wait"],
        ["--status", "--apply"],
        ["--status", "--out", "r.json"],
        ["--plan", "p.json", "--out", "r.json"],
        ["--plan", "p.json", "--topic", "t"],
        ["--plan", "nowhere.json"],
        ["--throttle", "fast"],
        ["--throttle", "0"],
        ["--limit", "0"],
        ["--kafka", "acks=all"],
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_refused(options: list[str], cluster: Admin, run: Run) -> None:
    code, out, err = run("brokers", ADDRESS, *options)
    assert (code, out) == (2, "")
    assert err
    assert cluster.written == []


@pytest.mark.parametrize(
    ("text", "rate"), [("20MB", 20_000_000), ("500kB", 500_000), ("1g", 10**9), ("750", 750), ("none", None)]
)
def test_a_throttle_is_bytes_a_second(text: str, rate: int | None) -> None:
    assert bytes_of(text) == rate


@pytest.mark.parametrize(
    "change",
    [
        {"ok": True},
        {"findings": []},
        {"plan": None, "files": {"reassignment": None, "rollback": None, "plan": "p"}},
        {"brokers": []},
        {"fingerprint": "abc"},
        {"extra": 1},
        {"limit": 0},
    ],
    ids=str,
)
def test_a_document_with_other_values_is_not_valid(change: dict[str, Any], cluster: Admin, run: Run) -> None:
    document = valid(run("brokers", ADDRESS, "-o", "json")[1])
    schema = json.loads(files("keylane").joinpath("schemas", "brokers.json").read_text("utf-8"))
    assert not Draft202012Validator(schema).is_valid({**document, **change})
    for name in document:
        assert not Draft202012Validator(schema).is_valid({key: document[key] for key in document if key != name})
