"""From a topic to its contract and back: `init`, `profile`, `plan` and `apply` on a broker, and what they refuse."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.timed_records import BEGAN, send
from tests.integration.topics import create_topic
from tests.running import keylane

from keylane import load_contract, partitioner
from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

LANES, HOT = 6, 2
#: So that a topic that is deleted is gone before one of its name is made.
DELETED_SECONDS = 120.0


def shops(count: int) -> list[str]:
    """Keys of records, of which a few heavy ones share a lane by their hash."""
    java, chance = partitioner("kafka-java"), random.Random(3)
    names = [f"shop-{n}" for n in range(600)]
    heavy = [name for name in names if java.lane(name.encode(), LANES) == HOT][:5]
    return [chance.choice(heavy if chance.random() < 0.4 else names) for _ in range(count)]


@pytest.fixture(scope="module")
def name(broker: Cluster, topic: Callable[..., str]) -> str:
    made = topic(LANES, "shops")
    send(broker, made, [(key.encode(), b"v", BEGAN + n * 200) for n, key in enumerate(shops(12_000))])
    return made


@pytest.fixture(scope="module")
def folder(broker: Cluster, name: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contract of the topic as `init` writes it, its profile, and the plan that was saved."""
    made, address = tmp_path_factory.mktemp("shops"), f"kafka://{broker.bootstrap}/{name}"
    first = keylane("init", address, "--out", made / "shops.yaml", "-o", "json")
    assert first.code == 0, first.err
    assert json.loads(first.out)["next"][0] == f"keylane check {made}/shops.yaml --data {address}"
    ended = keylane("profile", address, "--contract", made / "shops.yaml", "--out", made / "shops.profile")
    assert ended.code == 0, ended.err
    planned(made, made / "shops.profile", "plan.json")
    return made


def planned(folder: Path, source: object, saved: str) -> dict[str, Any]:
    asked = ("--contract", folder / "shops.yaml", "--out", folder / saved, "--force")
    ended = keylane("plan", source, *asked)
    assert ended.code == 3, ended.err
    found: dict[str, Any] = json.loads((folder / saved).read_text("utf-8"))
    return found


def applied(*arguments: object) -> tuple[int, dict[str, Any]]:
    ended = keylane("apply", *arguments, "-o", "json")
    assert ended.err == ""
    return ended.code, json.loads(ended.out)


def test_the_first_contract_of_a_topic_is_the_one_that_it_keeps(broker: Cluster, name: str, folder: Path) -> None:
    contract = load_contract(folder / "shops.yaml")
    assert (contract.spec.streams, contract.spec.lanes, contract.spec.partitioner) == ((name,), LANES, "kafka-java")
    assert keylane("check", folder / "shops.yaml", "--data", f"kafka://{broker.bootstrap}/{name}").code == 0


def test_a_plan_of_a_topic_is_dry_by_default_and_then_carried_out(
    broker: Cluster, name: str, folder: Path, tmp_path: Path
) -> None:
    today = (folder / "shops.yaml").read_text("utf-8")
    for file in ("shops.yaml", "plan.json"):
        (tmp_path / file).write_text((folder / file).read_text("utf-8"), "utf-8")
    planned(tmp_path, folder / "shops.profile", "plan.json")
    code, found = applied(tmp_path / "plan.json")
    assert (code, found["applied"], found["contract"]["action"]) == (3, False, "write")
    assert [(one["stream"], one["there"], one["action"]) for one in found["streams"]] == [(name, LANES, "in-place")]
    assert (tmp_path / "shops.yaml").read_text("utf-8") == today
    # What comes later is checked, in the topic; the records that were counted keep their placement for ever.
    after = next(one for one in found["by_hand"] if one["who"] == "afterwards")
    assert after["commands"] == [
        f"keylane check {tmp_path}/shops.yaml --data kafka://{broker.bootstrap}/{name} --last 10m"
    ]
    lag = next(one for one in found["by_hand"] if one["who"] == "consumers")["commands"]
    assert lag == [f"kafka-consumer-groups.sh --bootstrap-server {broker.bootstrap} --describe --all-groups"]
    assert applied(tmp_path / "plan.json", "--yes")[0] == 0
    text = (tmp_path / "shops.yaml").read_text("utf-8")
    assert text.startswith("# yaml-language-server: $schema=./keylane-contract.schema.json\n")
    assert parse_contract(text).metadata.epoch == 2


def test_topics_that_are_missing_are_created_and_only_with_yes(
    broker: Cluster, folder: Path, tmp_path: Path, topic: Callable[..., str]
) -> None:
    more = f"{topic(LANES, 'there')}-more"
    text = (folder / "shops.yaml").read_text("utf-8").replace("streams: [", f'streams: ["{more}", ')
    (tmp_path / "shops.yaml").write_text(text, "utf-8")
    planned(tmp_path, folder / "shops.profile", "plan.json")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert [one["action"] for one in applied(tmp_path / "plan.json")[1]["streams"]] == ["create", "in-place"]
    assert more not in admin.list_topics(timeout=30).topics
    code, found = applied(tmp_path / "plan.json", "--yes")
    assert (code, [one["action"] for one in found["streams"]]) == (0, ["created", "in-place"])
    assert len(admin.list_topics(timeout=30).topics[more].partitions) == LANES
    code, found = applied(tmp_path / "plan.json", "--yes")
    assert (code, [one["action"] for one in found["streams"]]) == (0, ["in-place", "in-place"])


def test_a_topic_that_has_grown_or_is_another_is_refused(
    broker: Cluster, folder: Path, tmp_path: Path, topic: Callable[..., str], spark: SparkSession
) -> None:
    other, admin = topic(LANES, "again"), AdminClient({"bootstrap.servers": broker.bootstrap})
    records = [(key.encode(), b"v", BEGAN + n * 200) for n, key in enumerate(shops(12_000))]
    send(broker, other, records)
    text = (folder / "shops.yaml").read_text("utf-8").replace("shops-", "again-")
    (tmp_path / "shops.yaml").write_text(text, "utf-8")
    address = f"kafka://{broker.bootstrap}/{other}"
    assert keylane("profile", address, "--contract", tmp_path / "shops.yaml", "--out", tmp_path / "p.profile").code == 0
    by_profile = planned(tmp_path, tmp_path / "p.profile", "of-profile.json")
    bound = by_profile["bound"]["source"]
    assert (bound["address"], bound["lanes"], len(bound["id"])) == (address, LANES, 32)
    admin.delete_topics([other], operation_timeout=DELETED_SECONDS)[other].result()
    until = time.monotonic() + DELETED_SECONDS
    while other in admin.list_topics(timeout=30).topics and time.monotonic() < until:
        time.sleep(0.2)
    create_topic(broker, other, LANES)
    send(broker, other, records)
    before = (tmp_path / "shops.yaml").read_bytes()
    for more in ((), ("--yes",)):
        refused = keylane("apply", tmp_path / "of-profile.json", *more)
        assert (refused.code, refused.out) == (1, "")
        assert f"{other} was deleted and created again; nothing was done" in refused.err
    from confluent_kafka.cimpl import NewPartitions

    admin.create_partitions([NewPartitions(other, LANES + 2)])[other].result(30)
    refused = keylane("apply", tmp_path / "of-profile.json", "--yes")
    assert "has another lane count than when the plan was made" in refused.err
    assert (tmp_path / "shops.yaml").read_bytes() == before
