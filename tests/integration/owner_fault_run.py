"""Three owners and a spare under faults, with live traffic: `python -m tests.integration.owner_fault_run --help`.

Runs in the hub of `namespaces`: the broker there, the servers of ZooKeeper and the workers in namespaces of their own.
After each fault everything is healed, and the next comes when all ids are served again. Prints one JSON object.

    kill       an owner is killed, and started again
    stop       an owner is paused beyond its lease, and goes on
    stop-in-batch  the same, between its last look at the lease and its write
    cut        an owner is cut off from everybody, in silence, beyond its lease
    partial    an owner is cut off from ZooKeeper and not from the broker
    twin       a second process is started with the id of an owner; then the owner is killed
    zk-kill    a server of ZooKeeper is killed and started again; zk-restart: all three at once
    zk-cut     a server of ZooKeeper is cut off from the two others, and not from its clients
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.integration.namespaces import NETWORK, Namespaces
from tests.integration.owner_run import OwnerRun, judged, pause, resume, wrong_states
from tests.integration.zookeeper_servers import ZooKeeperServers, zookeeper_running

from keylane.systems.broker import running

KINDS = ("kill", "stop", "stop-in-batch", "cut", "partial", "twin", "zk-kill", "zk-restart", "zk-cut")
LANES, INSTANCES, WORKERS = 6, 3, 4
#: Namespaces: workers, the second process with one id, then the servers.
TWIN, SERVERS = WORKERS + 1, (WORKERS + 2, WORKERS + 3, WORKERS + 4)
NAMESPACES = WORKERS + 1 + len(SERVERS)
PORT = 29_092


@dataclass
class FaultRun:
    """What the faults act on, and what they found."""

    net: Namespaces
    run: OwnerRun
    zookeeper: ZooKeeperServers
    rng: random.Random
    homes: dict[int, int] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)

    def start(self, home: int, instance: int | None = None) -> int:
        pid = self.run.start(self.net.enter(home), instance)
        self.homes[pid] = home
        return pid

    def inject(self, kind: str) -> None:
        """One fault, healed at its end; all ids are served behind it."""
        before = self.run.owners()
        instance = self.rng.randrange(INSTANCES)
        victim, since = before[instance]["pid"], time.monotonic()
        about: dict[str, Any] = {"kind": kind, "at": since}
        if kind.startswith("zk"):
            getattr(self, kind.replace("-", "_"))()
        else:
            getattr(self, kind.replace("-", "_"))(victim, instance, about)
        self.settle()
        now = self.run.owners()
        spared = [k for k in range(INSTANCES) if kind.startswith("zk") or k != instance]
        self.moved += [f"{kind}: id {k}" for k in spared if now[k]["term"] != before[k]["term"]]
        self.faults.append(about)
        print(json.dumps(about), file=sys.stderr, flush=True)

    def taken_over(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        """Wait until another process owns the id and serves it; note how long it was without an owner."""
        begun = about.setdefault("fault_at", time.monotonic())
        self.run.wait_until(lambda: self._successor(victim, instance, begun) is not None, f"id {instance} owned again")
        owned = self._successor(victim, instance, begun)
        assert owned is not None
        about |= {"instance": instance, "term": owned["term"], "owned_again_seconds": round(owned["at"] - begun, 2)}
        self.run.wait_for("serving", since=begun, instance=instance, term=owned["term"])

    def _successor(self, victim: int, instance: int, since: float) -> dict[str, Any] | None:
        owned = self.run.owners()[instance]
        return owned if owned["pid"] != victim and owned["at"] >= since else None

    def settle(self) -> None:
        """Return when every id is served by the process that owns it."""
        for instance in range(INSTANCES):
            owned = self.run.owners()[instance]
            self.run.wait_for("serving", pid=owned["pid"], instance=instance, term=owned["term"])
        self.run.wait_for_outputs()

    def again(self, home: int) -> None:
        since = time.monotonic()
        pid = self.start(home)
        self.run.wait_for("started", since=since, pid=pid)

    # Faults of owners.

    def kill(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        about["fault_at"] = time.monotonic()
        self.run.end(victim)
        self.taken_over(victim, instance, about)
        self.again(self.homes.pop(victim))

    def stop(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        about["fault_at"] = time.monotonic()
        pause(victim)
        self.wake(victim, instance, about)

    def stop_in_batch(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        self.run.stop_in_batch(victim)
        about["fault_at"] = time.monotonic()
        self.wake(victim, instance, about)

    def wake(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        try:
            self.taken_over(victim, instance, about)
            self.run.wait_for_outputs()
        finally:
            resume(victim)
        self.run.wait_for("lost", since=about["fault_at"], pid=victim)

    def cut(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        about["fault_at"] = time.monotonic()
        self.net.cut(self.homes[victim])
        try:
            self.taken_over(victim, instance, about)
        finally:
            self.net.heal(self.homes[victim])
        self.run.wait_for("lost", since=about["fault_at"], pid=victim)

    def partial(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        about["fault_at"] = time.monotonic()
        self.net.blind(self.homes[victim], SERVERS)
        try:
            self.taken_over(victim, instance, about)
        finally:
            self.net.see(self.homes[victim], SERVERS)
        self.run.wait_for("lost", since=about["fault_at"], pid=victim)

    def twin(self, victim: int, instance: int, about: dict[str, Any]) -> None:
        since = time.monotonic()
        twin = self.start(TWIN, instance)
        self.run.wait_for("started", since=since, pid=twin)
        time.sleep(self.run.ttl / 2)
        assert self.run.owners()[instance]["pid"] == victim, "the second process waits"
        self.kill(victim, instance, about)
        since = time.monotonic()
        was_owner = self.run.owners()[instance]["pid"] == twin
        assert self.run.end(twin, signal.SIGTERM) == 0
        if was_owner:
            self.run.wait_for("owned", since=since, instance=instance)

    # Faults of ZooKeeper: nobody loses anything.

    def zk_kill(self) -> None:
        number = self.rng.randint(1, len(SERVERS))
        self.zookeeper.end(number)
        time.sleep(self.run.ttl / 4)
        self.zookeeper.start(number)
        self.zookeeper.wait([number])

    def zk_restart(self) -> None:
        for number in list(self.zookeeper.running):
            self.zookeeper.end(number)
        for number in range(1, len(SERVERS) + 1):
            self.zookeeper.start(number)
        self.zookeeper.wait()

    def zk_cut(self) -> None:
        one = self.rng.choice(SERVERS)
        others = [other for other in SERVERS if other != one]
        self.net.blind(one, others)
        for other in others:
            self.net.blind(other, [one])
        time.sleep(1.5 * self.run.ttl)
        self.net.see(one, others)
        for other in others:
            self.net.see(other, [one])
        self.zookeeper.wait()


def planned(rng: random.Random, faults: int, kinds: list[str]) -> list[str]:
    """Each kind as often as the others, in any order."""
    every = [kinds[n % len(kinds)] for n in range(faults)]
    rng.shuffle(every)
    return every


def summary(fault_run: FaultRun, seed: int) -> dict[str, Any]:
    run = fault_run.run
    sources, (outputs, _) = run.sources(), run.outputs(raw=True)
    verdict = judged(run.topic, sources, outputs)
    told = [event["event"] for event in run.events()]
    again = [fault["owned_again_seconds"] for fault in fault_run.faults if "owned_again_seconds" in fault]
    return {
        "seed": seed,
        "fence": run.fence,
        "ttl": run.ttl,
        "faults": len(fault_run.faults),
        "by_kind": {kind: sum(fault["kind"] == kind for fault in fault_run.faults) for kind in KINDS},
        "records": sum(map(len, sources.values())),
        "accepted": len(outputs),
        "terms": len({one.term for one in outputs}),
        "broken_rules": {rule: count for rule, count in verdict.counts.items() if count},
        "wrong_states": wrong_states(sources, outputs),
        "healthy_moved": fault_run.moved,
        "fenced": told.count("fenced"),
        "interrupted": told.count("interrupted"),
        "failed": told.count("failed"),
        "owned_again_seconds": {
            "most": max(again, default=0),
            "median": sorted(again)[len(again) // 2] if again else 0,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", required=True, help="of the namespaces that are there")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--ttl", type=float, default=6.0)
    parser.add_argument("--fence", default="transactions")
    given = parser.parse_args()
    net, rng = Namespaces(given.prefix, NAMESPACES), random.Random(given.seed)
    listening = {
        "listeners": f"PLAINTEXT://0.0.0.0:{PORT},CONTROLLER://127.0.0.1:{PORT + 1}",
        "advertised.listeners": f"PLAINTEXT://{NETWORK}.1:{PORT}",
        "controller.quorum.voters": f"1@127.0.0.1:{PORT + 1}",
    }
    hosts = [net.host(number) for number in SERVERS]
    with (
        running(given.folder / "broker", extra=listening, port=PORT),
        zookeeper_running(given.folder, hosts, [2181] * len(hosts), [net.enter(n) for n in SERVERS]) as zookeeper,
    ):
        brokers = f"{NETWORK}.1:{PORT}"
        client = AdminClient({"bootstrap.servers": brokers})
        for made in client.create_topics([NewTopic("owned", LANES), NewTopic("made", LANES)]).values():
            made.result(60)
        leases = f"zookeeper://{zookeeper.address}/keylane"
        run = OwnerRun(given.folder / "run", brokers, leases, "owned", "made", LANES, INSTANCES, given.ttl, given.fence)
        with run:
            fault_run = FaultRun(net, run, zookeeper, rng)
            for home in range(1, WORKERS + 1):
                fault_run.again(home)
            for instance in range(INSTANCES):
                run.wait_for("serving", instance=instance)
            fault_run.settle()
            for kind in planned(rng, given.faults, given.kinds):
                fault_run.inject(kind)
            run.finish()
            print(json.dumps(summary(fault_run, given.seed)))


if __name__ == "__main__":
    main()
