"""The example service, as its README starts it: killed, replaced, deployed anew; balances stay right all the time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.owner_run import messages_of, reader_of
from tests.route.killable_routes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.broker import Cluster

SECONDS = 90.0


def test_balances_are_kept_through_a_kill_and_a_deploy(
    broker: Cluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    payments, balances = topic(4, "payments"), topic(4, "balances")
    paid: Counter[str] = Counter()

    def pay(count: int) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for number in range(count):
            account = f"a-{number % 13}"
            paid[account] += number
            producer.produce(payments, json.dumps({"account": account, "amount": number}), account)
        producer.produce(payments, b"no payment", b"a-1")
        assert producer.flush(SECONDS) == 0

    def start() -> subprocess.Popen[str]:
        options = {"brokers": broker.bootstrap, "payments": payments, "balances": balances, "instances": 1, "ttl": 2}
        places = {"leases": tmp_path / "leases.db", "snapshots": tmp_path / "snapshots", "snapshot-seconds": 0.5}
        given = [f"--{name}={value}" for name, value in (options | places).items()]
        command = [sys.executable, str(ROOT / "examples" / "balances" / "service.py"), *given]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)

    def written() -> list[dict[str, Any]]:
        return balances_in(broker, balances, 4)

    services = [start(), start()]
    try:
        port = int(event(services[0], "health")["port"])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=120) as answer:
            assert json.load(answer)["group"] == "balances"
        pay(200)
        until(lambda: len(written()) == 200)
        until(lambda: any(one.is_file() for one in (tmp_path / "snapshots").rglob("*")))
        pay(50)
        owner = 0 if health(port)["instance"] == 0 else 1
        services[owner].kill()
        pay(100)
        until(lambda: len(written()) == 350)
        services[owner].communicate()
        services[owner] = start()
        services[1 - owner].terminate()
        assert services[1 - owner].wait(SECONDS) == 0
        pay(30)
        until(lambda: len(written()) == 380)
    finally:
        for service in services:
            service.kill()
            service.communicate()
    last = {one["account"]: one for one in written()}
    assert {account: one["balance"] for account, one in last.items()} == dict(paid)
    assert sum(one["payments"] for one in last.values()) == 380
    seen: Counter[str] = Counter()
    for one in written():
        seen[one["account"]] += 1
        assert one["payments"] == seen[one["account"]], "each behind the one before it"


def test_half_a_state_is_an_error(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> None:
    """The first records of a lane are gone, and there is no snapshot of what they made."""
    payments, balances = topic(1, "payments"), topic(1, "balances")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(10):
        producer.produce(payments, json.dumps({"account": "a", "amount": 1}))
    assert producer.flush(SECONDS) == 0
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in client.delete_records([TopicPartition(payments, 0, 4)]).values():
        done.result(SECONDS)
    given = {"brokers": broker.bootstrap, "payments": payments, "balances": balances, "instances": 1}
    places = {"leases": tmp_path / "leases.db", "snapshots": tmp_path / "snapshots"}
    options = [f"--{name}={value}" for name, value in (given | places).items()]
    command = [sys.executable, str(ROOT / "examples" / "balances" / "service.py"), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=tmp_path)
    assert ended.returncode == 1
    assert "cannot be rebuilt" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert balances_in(broker, balances, 1) == []


def balances_in(broker: Cluster, topic: str, lanes: int) -> list[dict[str, Any]]:
    """What a reader of committed records sees, lane by lane."""
    reader = reader_of(broker.bootstrap)
    try:
        ends = [reader.get_watermark_offsets(TopicPartition(topic, lane), SECONDS) for lane in range(lanes)]
        found = [
            message for lane, (low, high) in enumerate(ends) for message in messages_of(reader, topic, lane, low, high)
        ]
    finally:
        reader.close()
    return [json.loads(message.value()) for message in found]


def event(service: subprocess.Popen[str], what: str) -> dict[str, Any]:
    assert service.stderr is not None
    for line in service.stderr:
        if line.startswith("{") and (found := json.loads(line))["event"] == what:
            return dict(found)
    raise AssertionError(what)


def health(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=120) as answer:
        return dict(json.load(answer))


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.1)
