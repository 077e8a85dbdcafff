"""Owners on a real broker with leases in a file: paused beyond the lease, killed, stopped; with the twins.

The long run, with ZooKeeper and cut networks: `test_owner_faults.py`.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.owner_run import OwnerRun, judged, resume, wrong_states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.broker import Cluster

TTL = 3.0


def paused_and_killed(run: OwnerRun) -> tuple[float, float]:
    """An owner that stops in the middle of a batch, beyond its lease, and wakes up; then its successor is killed.

    Returns how long the id was without an owner, each time from the fault on.
    """
    first, second = run.start(), run.start()
    run.wait_for("serving")
    run.wait_for_outputs()
    paused = next(iter(run.owners().values()))["pid"]
    successor = second if paused == first else first
    run.stop_in_batch(paused)
    stopped = time.monotonic()
    owned = run.wait_for("owned", since=stopped, pid=successor)
    run.wait_for("serving", since=stopped, pid=successor)
    run.wait_for_outputs()
    resume(paused)
    run.wait_for("lost", since=stopped, pid=paused)
    killed = time.monotonic()
    run.end(successor)
    again = run.wait_for("owned", since=killed, pid=paused)
    assert (owned["epoch"], again["epoch"]) == (2, 3)
    run.wait_for("serving", since=killed, pid=paused)
    run.wait_for_outputs()
    return owned["at"] - stopped, again["at"] - killed


@pytest.fixture
def run_of(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> Callable[[str], OwnerRun]:
    def make(fence: str) -> OwnerRun:
        source, output = topic(2, "owned"), topic(2, "made")
        return OwnerRun(tmp_path / "run", broker.bootstrap, str(tmp_path / "l.db"), source, output, 2, 1, TTL, fence)

    return make


def test_a_paused_owner_gets_no_record_accepted_by_the_broker(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("transactions") as run:
        free = paused_and_killed(run)
        run.finish()
        assert run.wait_for("fenced")["why"].startswith("another owner has taken id 0")
        sources, (outputs, _) = run.sources(), run.outputs(raw=True)
    verdict = judged(run.topic, sources, outputs)
    assert verdict.ok, verdict.violations
    assert {one.epoch for one in outputs} == {1, 2, 3}
    assert wrong_states(sources, outputs) == 0
    assert max(free) <= 2 * TTL


def test_a_paused_owner_gets_no_record_accepted_by_readers_of_epochs(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("headers") as run:
        free = paused_and_killed(run)
        run.finish()
        sources, (outputs, fence), (raw, _) = run.sources(), run.outputs(), run.outputs(raw=True)
    verdict = judged(run.topic, sources, outputs)
    # At least once: what a killed owner wrote behind its last snapshot is written again.
    allowed = {"duplicated", "reordered"}
    assert {rule for rule, count in verdict.counts.items() if count} <= allowed, verdict.violations
    assert wrong_states(sources, outputs) == 0
    assert max(free) <= 2 * TTL
    assert fence.counts["stale"] > 0
    assert judged(run.topic, sources, raw).counts["stale_epochs"] > 0, "twin: a reader without the filter"
    assert judged(run.topic, sources, raw).counts["two_owners"] > 0


@pytest.mark.faults
def test_an_owner_without_a_fence_is_caught(run_of: Callable[[str], OwnerRun]) -> None:
    with run_of("none") as run:
        paused_and_killed(run)
        run.finish()
        verdict = judged(run.topic, run.sources(), run.outputs(raw=True)[0])
    assert verdict.counts["stale_epochs"] > 0
    assert verdict.counts["two_owners"] > 0


def test_a_rolling_deploy_replays_nothing_and_moves_nothing_else(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, output = topic(2, "owned"), topic(2, "made")
    with OwnerRun(tmp_path / "run", broker.bootstrap, str(tmp_path / "l.db"), source, output, 2, 2, TTL) as run:
        owners = [run.start() for _ in range(2)]
        for instance in (0, 1):
            run.wait_for("serving", instance=instance)
        other = run.owners()[1]
        leaving = run.owners()[0]["pid"]
        spare = run.start()
        assert run.end(leaving, signal.SIGTERM) == 0
        run.wait_for("serving", pid=spare, instance=0)
        assert run.owners()[1] == other
        assert other["pid"] in owners
        run.finish()
        assert not [event for event in run.events() if event["event"] in ("lost", "fenced", "interrupted", "failed")]
        sources, (outputs, _) = run.sources(), run.outputs(raw=True)
    assert judged(run.topic, sources, outputs).ok
    assert wrong_states(sources, outputs) == 0
