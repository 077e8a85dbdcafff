"""The first hour with keylane: four problems of a new user, each from nothing to an answer in a few commands.

Each is typed on a pseudo-terminal, on a real broker or on files, and each has a twin without the problem, which must
not be found. `make first-hour` prints them.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyarrow import parquet as pq
from tests.integration.recorded_walks import proposed, walked
from tests.integration.topics import create_topic
from tests.running import keylane

from keylane import Router, load_contract, partitioner
from keylane.systems.broker import librdkafka_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from keylane.contract.model import Contract
    from keylane.systems.broker import Cluster

LANES = 12
HOUR = timedelta(hours=1)
#: A payment: its merchant, and when.
Payment = tuple[str, datetime]


def payments(seed: int, count: int, start: datetime, end: datetime) -> list[Payment]:
    """Payments of many merchants, few of which have many."""
    chance = random.Random(seed)
    step = (end - start) / count
    ranks = [int(40 * (chance.paretovariate(1.1) - 1)) % 4_000 for _ in range(count)]
    return [(f"merchant_{rank:06d}", start + n * step) for n, rank in enumerate(ranks)]


def by_kafka_python(broker: Cluster, topic: str, some: Iterable[Payment]) -> None:
    """A service with kafka-python, which places keys as Java does."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=50)
    for merchant, at in some:
        producer.send(topic, b'{"amount": 12.5}', merchant.encode(), timestamp_ms=int(at.timestamp() * 1000))
    producer.flush()
    producer.close()


def by_confluent_kafka(broker: Cluster, topic: str, some: Iterable[Payment], **settings: Any) -> None:
    """A service with confluent-kafka, as it comes, or with one setting more."""
    producer = Producer({**librdkafka_settings(broker), **settings})
    for merchant, at in some:
        producer.produce(topic, b'{"amount": 12.5}', merchant.encode(), timestamp=int(at.timestamp() * 1000))
        producer.poll(0)
    producer.flush()


def test_two_writers_on_my_topic(broker: Cluster, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    began, name = now - HOUR, create_topic(broker, "card-payments", LANES)
    by_kafka_python(broker, name, payments(1, 6_000, now - 3 * HOUR, now))
    by_confluent_kafka(broker, name, payments(2, 900, began, now))
    address = f"kafka://{broker.bootstrap}/{name}"

    with walked("two writers on my topic", tmp_path) as walk:
        found = walk.types(f"keylane identify {address} --show-keys")
        assert re.search(r"^mixed writers: kafka-java 8\d\.\d%, librdkafka-consistent-random 1\d\.\d%", found), found
        since = re.search(r"librdkafka-consistent-random: since (\S+Z)", found)
        assert since, found
        assert abs(datetime.fromisoformat(since[1]) - began) < timedelta(minutes=5), since[1]
        setting = re.search(r"librdkafka: set (\S+)=(\S+)", found)
        assert setting, found

        written = walk.types(f"keylane init {address}")
        assert f"wrote {name}.yaml: kafka-java" in written
        assert load_contract(tmp_path / f"{name}.yaml").spec.lanes == LANES

        restarted = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        walk.says(f"The second service is restarted with {setting[0].removeprefix('librdkafka: set ')}.")
        by_confluent_kafka(
            broker, name, payments(3, 600, restarted, restarted + timedelta(seconds=2)), **{setting[1]: setting[2]}
        )
        check = proposed(written, "check")
        kept = walk.types(f"{check} --since {restarted:%Y-%m-%dT%H:%M:%S}")
        assert kept.startswith("ok: "), kept
        assert "600 rows" in kept

    # The twin of the check: before the restart the promise was broken.
    again = check.replace(f" {name}.yaml", f" {tmp_path}/{name}.yaml").split()[1:]
    before = keylane(*again, "--until", f"{restarted:%Y-%m-%dT%H:%M:%S}")
    assert before.code == 4
    assert re.match(r"broken: \d+\.\d% of [\d,]+ rows are not in their lane", before.out), before.out


def test_twin_one_writer_is_no_finding(broker: Cluster, topic: Callable[..., str]) -> None:
    now, name = datetime.now(UTC), topic(LANES, "quiet")
    by_confluent_kafka(broker, name, payments(1, 4_000, now - 3 * HOUR, now), partitioner="murmur2_random")
    by_confluent_kafka(broker, name, payments(2, 600, now - HOUR, now), partitioner="murmur2_random")
    ended = keylane("identify", f"kafka://{broker.bootstrap}/{name}")
    assert ended.code == 0
    assert ended.out.startswith("one writer: kafka-java (4,600 keyed rows on 12 lanes)")
    assert "set partitioner" not in ended.out


def export(path: Path, some: list[Payment], moved: int = 0) -> None:
    """An export as a spreadsheet would like it: semicolons, a comma in the amount, some cells without a merchant."""
    java = partitioner("kafka-java")
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["paid_at", "merchant_id", "amount", "partition"])
        for n, (merchant, at) in enumerate(some):
            lane = java.lane(merchant.encode(), LANES)
            assert lane is not None
            keyless = n % 40 == 0
            seen = n // 40 % LANES if keyless else (lane + (n <= moved)) % LANES
            rows.writerow([f"{at:%Y-%m-%dT%H:%M:%SZ}", "" if keyless else merchant, f"{n % 90},50", seen])


def test_first_contract_for_a_csv_export(tmp_path: Path) -> None:
    day = datetime(2026, 11, 2, tzinfo=UTC)
    some = payments(4, 20_000, day, day + 24 * HOUR)
    export(tmp_path / "payments.csv", some)

    with walked("first contract for a CSV export", tmp_path) as walk:
        written = walk.types("keylane init payments.csv --key merchant_id --time paid_at --delimiter ';' --csv-null ''")
        assert "wrote payments.yaml: kafka-java, found in 100% of 19,500 records with a key" in written
        kept = walk.types(proposed(written, "check"))
        assert kept.startswith("ok: "), kept
        assert "20,000 rows" in kept
        counted = walk.types(proposed(written, "profile"))
        assert re.search(r"^LANE +RECORDS +SHARE", counted, re.MULTILINE), counted
        assert "500 null" in counted
        assert "</html>" in (tmp_path / "profile.html").read_text("utf-8")

    contract = load_contract(tmp_path / "payments.yaml")
    assert (contract.spec.partitioner, contract.spec.lanes, contract.spec.key.fields) == (
        "kafka-java",
        LANES,
        ("merchant_id",),
    )
    # The twin: an export in which records are elsewhere breaks the contract that was written.
    export(tmp_path / "payments.csv", some, moved=50)
    words = [word.strip("'") for word in proposed(written, "check").split(" ")[1:]]
    ended = keylane(*(word.replace("payments.", f"{tmp_path}/payments.") for word in words), "-o", "json")
    assert ended.code == 4
    assert any("not in the lane" in one["message"] for one in json.loads(ended.out)["findings"])


#: Of the large shops among each other.
SHARES = (9, 7, 6, 4, 4, 3)


def orders(seed: int, count: int, start: datetime, end: datetime, hot: int) -> list[Payment]:
    """Orders of many shops; six of the larger ones share a lane by their hash, and make a third of all."""
    java, chance = partitioner("kafka-java"), random.Random(seed)
    names = [f"shop-{n:05d}" for n in range(3_000)]
    large = [name for name in names if java.lane(name.encode(), LANES) == hot][: len(SHARES)]
    step = (end - start) / count
    return [
        (chance.choices(large, SHARES)[0] if chance.random() < 0.33 else chance.choice(names), start + n * step)
        for n in range(count)
    ]


def work_of(contract: Contract, some: Iterable[Payment]) -> float:
    """How many lanes' work the lanes do: all records by those of the fullest lane."""
    router = Router(contract)
    lanes = Counter(router.lane({"key": shop}) for shop, _ in some)
    return sum(lanes.values()) / max(lanes.values())


@pytest.mark.faults
def test_one_hot_partition(broker: Cluster, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    hot, name = 7, create_topic(broker, "shop-orders", LANES)
    by_confluent_kafka(broker, name, orders(5, 40_000, now - 6 * HOUR, now, hot), partitioner="murmur2_random")
    address = f"kafka://{broker.bootstrap}/{name}"

    with walked("one hot partition", tmp_path) as walk:
        walk.types(f"keylane init {address}")
        today = load_contract(tmp_path / f"{name}.yaml")
        counted = walk.types(
            f"keylane profile {address} --contract {name}.yaml --out orders.profile --report profile.html"
        )
        assert re.search(rf"^ +{hot} +[\d,]+ +3\d\.\d% +4\.\d+× +hot: unlucky-hash", counted, re.MULTILINE), counted
        said = walk.types(f"keylane plan orders.profile --contract {name}.yaml --out plan.json --report plan.html", 3)
        promised = re.search(r"^Worth it: 12 .* the work of (\S+) today; .* the work of (\S+)\.", said)
        assert promised, said
        done = walk.types("keylane apply plan.json --yes")
        assert "Done." in done

    # What was promised is what records get that nobody had seen when the plan was made.
    later = orders(6, 20_000, now, now + 3 * HOUR, hot)
    before, after = (work_of(one, later) for one in (today, load_contract(tmp_path / f"{name}.yaml")))
    assert abs(before - float(promised[1])) < 0.3
    assert abs(after - float(promised[2])) < 1.0
    assert after > 2 * before
    for page in ("profile.html", "plan.html"):
        assert "</html>" in (tmp_path / page).read_text("utf-8")


def test_twin_even_lanes_are_left_alone(tmp_path: Path) -> None:
    """From a file, which needs no broker: nothing is hot, so nothing is planned, and nothing is applied."""
    day = datetime(2026, 11, 2, tzinfo=UTC)
    some = [(f"shop-{n * 7919 % 3_000:05d}", day + n * timedelta(seconds=2)) for n in range(30_000)]
    pq.write_table(pa.table({"key": [key for key, _ in some], "at": [at for _, at in some]}), tmp_path / "even.parquet")
    source, contract = tmp_path / "even.parquet", tmp_path / "even.yaml"
    assert keylane("init", source, "--key", "key", "--lanes", LANES, "--out", contract).code == 0
    before = contract.read_bytes()
    saved = tmp_path / "plan.json"
    planned = keylane("plan", source, "--contract", contract, "--time", "at", "--out", saved)
    assert (planned.code, planned.out.partition(":")[0]) == (0, "Leave it")
    applied = keylane("apply", saved, "--yes")
    assert (applied.code, "Nothing to do" in applied.out) == (0, True)
    assert contract.read_bytes() == before


def city(seed: int, drivers: int, pings: int, riders: int) -> tuple[pa.Table, pa.Table]:
    """Drivers that move about the middle of a city for half an hour, and riders that ask there, one in ten far away."""
    chance, start = random.Random(seed), 1_793_606_400_000
    at = {f"driver-{n}": [40.75 + chance.gauss(0, 0.02), -73.98 + chance.gauss(0, 0.02)] for n in range(drivers)}
    rows = []
    for n in range(pings):
        driver = f"driver-{n % drivers}"
        at[driver] = [at[driver][0] + chance.gauss(0, 0.0006), at[driver][1] + chance.gauss(0, 0.0006)]
        rows.append({"id": driver, "ts": start + n * 1_800_000 // pings, "lat": at[driver][0], "lng": at[driver][1]})
    asked = [
        {
            "id": f"rider-{n}",
            "ts": start + 900_000 + n * 900_000 // riders,
            "lat": 40.75 + chance.gauss(0, 0.015) + (0.5 if n % 10 == 0 else 0),
            "lng": -73.98 + chance.gauss(0, 0.015),
        }
        for n in range(riders)
    ]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(asked)


@pytest.mark.faults
def test_drivers_and_riders_in_one_city(tmp_path: Path) -> None:
    pings, requests = city(7, 300, 12_000, 200)
    pq.write_table(pings, tmp_path / "pings.parquet")
    pq.write_table(requests, tmp_path / "requests.parquet")

    with walked("drivers and riders in one city", tmp_path) as walk:
        table = walk.types(
            "keylane geo table pings.parquet --time ts --lanes 4 --radius 500 --write places.yaml --report table.html"
        )
        assert "12,000 locations on 4 lanes (partitions)" in table
        found = walk.types(
            "keylane match --drivers pings.parquet --riders requests.parquet --radius 500 --contract places.yaml "
            "--to matches --verify --report match.html"
        )
        assert "recall 100%" in found

    # The riders far away are the twin: they have no driver, and are not given one.
    near = {row["rider_id"] for row in pq.read_table(tmp_path / "matches").to_pylist()}
    far = {f"rider-{n}" for n in range(0, 200, 10)}
    assert len(near) > 150
    assert not near & far
    for page in ("table.html", "match.html"):
        assert "</html>" in (tmp_path / page).read_text("utf-8")
