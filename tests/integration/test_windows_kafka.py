"""Parts of a topic, and two writers on it: what `identify` and `check` read of a real broker, and what they state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.route_records import send
from tests.running import keylane

from keylane import partitioner
from keylane.keys.json_columns import json_columns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

#: A minute apart; the second writer from the 1,001st record on.
START, EVERY, RECORDS = 1_763_000_000_000, 60_000, 2_000
NOON = "2025-11-13T12:00:00+00:00"
BEFORE_NOON = (1_763_035_200_000 - START) // EVERY + 1


@pytest.fixture(scope="module")
def address(broker: Cluster, topic: Callable[..., str]) -> str:
    from confluent_kafka import Producer

    # Its records are of last year: without this the broker forgets them within a minute.
    name = topic(6, "windows", retention_ms="-1")
    java, crc = partitioner("kafka-java"), partitioner("librdkafka-consistent-random")
    # A batch that is sent again must not come behind a later one: times rise in each lane.
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for n in range(RECORDS):
        key = f"key-{n}".encode()
        lane = (crc if n > 1_000 and n % 2 else java).lane(key, 6)
        assert lane is not None
        producer.produce(name, b"v", key, partition=lane, timestamp=START + n * EVERY)
    producer.flush()
    return f"kafka://{broker.bootstrap}/{name}"


def identified(address: str, *options: str) -> dict[str, Any]:
    ended = keylane("identify", address, "-o", "json", *options)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_a_second_writer_on_a_topic_is_dated_by_record_times(address: str) -> None:
    found = identified(address, "--show-keys")
    first, second = found["writers"]
    assert (first["partitioner"], second["partitioner"]) == ("kafka-java", "librdkafka-consistent-random")
    assert "2025-11-13T18:" <= second["since"] < "2025-11-13T20:", second["since"]
    assert second["since"] > first["since"]
    for example in second["examples"]:
        assert example["expected"] == partitioner("kafka-java").lane(example["key"].encode(), 6)
        assert example["offset"] is not None


def test_a_window_of_time_takes_what_the_broker_has_in_it(address: str) -> None:
    assert identified(address, "--until", NOON)["rows"] == BEFORE_NOON
    assert identified(address, "--since", NOON)["rows"] == RECORDS - BEFORE_NOON
    assert identified(address, "--until", NOON)["verdict"] == "one-writer"
    assert identified(address, "--last", "10m")["rows"] == 0


def test_a_sample_is_bounded_over_the_whole_topic_and_stated(address: str) -> None:
    found = identified(address, "--max-records", "600")
    assert 0 < found["rows"] <= 600
    assert found["notes"][0].startswith("read a sample: ")
    assert found["verdict"] == "mixed"


def test_partitions_are_chosen_and_unknown_ones_refused(address: str) -> None:
    assert identified(address, "--partitions", "0-2")["rows"] != RECORDS
    assert identified(address, "--partitions", "0-5")["rows"] == RECORDS
    ended = keylane("identify", address, "--partitions", "6")
    assert (ended.code, ended.out) == (2, "")
    assert "no such partition" in ended.err


@pytest.fixture(scope="module")
def contract(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("windows") / "windows.yaml"
    ended = keylane("init", address, "--until", NOON, "--out", made, "-o", "json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["partitioner"], document["encoding"], document["lanes"]) == ("kafka-java", "utf8", 6)
    # What it proposes is about the same part of the topic.
    assert all(f" --until {NOON}" in one for one in document["next"])
    return made


def rows_checked(contract: Path, address: str, *options: str) -> tuple[int, int]:
    ended = keylane("check", contract, "--data", address, "-o", "json", *options)
    assert ended.err == ""
    return ended.code, json.loads(ended.out)["data"]["rows"]


def test_check_reads_the_part_that_it_is_asked_about(address: str, contract: Path) -> None:
    assert rows_checked(contract, address, "--until", NOON) == (0, BEFORE_NOON)
    assert rows_checked(contract, address, "--since", NOON) == (4, RECORDS - BEFORE_NOON)
    code, rows = rows_checked(contract, address, "--until", NOON, "--partitions", "0-2")
    assert (code, 0 < rows < BEFORE_NOON) == (0, True)
    code, rows = rows_checked(contract, address, "--until", NOON, "--max-records", "120")
    assert (code, 0 < rows <= 120) == (0, True)
    # The twin: without a window there are the records of the second writer, too.
    assert rows_checked(contract, address) == (4, RECORDS)


@pytest.mark.parametrize("verb", ["profile", pytest.param("plan", marks=pytest.mark.faults)])
def test_profile_and_plan_read_the_part_that_they_are_asked_about(
    address: str, contract: Path, verb: str, spark: SparkSession
) -> None:
    def records(*options: str) -> tuple[int, str]:
        ended = keylane(verb, address, "--contract", contract, "-o", "json", *options)
        assert ended.code in {0, 3}, ended.err
        document = json.loads(ended.out)
        found = document if verb == "profile" else document["profile"]
        return found["records"], found["how"].get("sampled", "")

    assert records("--until", NOON)[0] == BEFORE_NOON
    assert records("--since", NOON)[0] == RECORDS - BEFORE_NOON
    some, stated = records("--max-records", "600")
    assert 0 < some <= 600
    assert "a sample" in stated
    nothing = keylane(verb, address, "--contract", contract, "--last", "10m")
    assert (nothing.code, nothing.out) == (1, "")
    assert "the range that was asked for is empty" in nothing.err


def test_no_lane_is_hot_because_others_were_not_read(address: str, contract: Path, tmp_path: Path) -> None:
    kept = tmp_path / "some.profile"
    some = ("--contract", contract, "--until", NOON, "--partitions", "0-2")
    ended = keylane("profile", address, *some, "--max-records", "300", "--out", kept, "-o", "json")
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["lanes"]["read"], document["lanes"]["count"], document["hot"]) == ([0, 1, 2], 6, None)
    assert 0 < document["records"] <= 300
    assert "partitions 0–2" in document["how"]["sampled"]
    # A plan from keys that their hash put there would move most of them, and gain nothing.
    for source in ([address, *some], [kept, "--contract", contract]):
        refused = keylane("plan", *source)
        assert (refused.code, refused.out) == (2, "")
        assert "0–2" in refused.err
    # The twin: all partitions by their numbers are the topic.
    whole = ("--contract", contract, "--until", NOON, "--partitions", "0-5", "-o", "json")
    document = json.loads(keylane("profile", address, *whole).out)
    assert (document["lanes"]["read"], document["hot"] is None) == (None, False)
    assert keylane("plan", address, *whole).code in {0, 3}


def test_a_short_address_is_that_of_the_configured_brokers(
    broker: Cluster, address: str, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = f"kafka:{address.rpartition('/')[2]}"
    refused = keylane("identify", short)
    assert (refused.code, "no broker is configured" in refused.err) == (2, True)
    for command in ("brokers", "doctor"):
        monkeypatch.delenv("KEYLANE_KAFKA", raising=False)
        assert broker.bootstrap not in keylane(command, "-o", "json").out
    monkeypatch.setenv("KEYLANE_KAFKA", broker.bootstrap)
    assert identified(short)["rows"] == RECORDS
    assert rows_checked(contract, short, "--until", NOON) == (0, BEFORE_NOON)
    even = keylane("brokers", "-o", "json")
    assert (even.code, json.loads(even.out)["cluster"]) == (0, f"kafka://{broker.bootstrap}")
    parts = {one["part"]: one for one in json.loads(keylane("doctor", "-o", "json").out)["parts"]}
    assert (parts["broker"]["state"], parts["broker"]["needed"]) == ("ok", True)
    assert parts["broker"]["found"].startswith(f"{broker.bootstrap} answers")


def test_a_file_becomes_a_topic_that_java_might_have_written(broker: Cluster, tmp_path: Path) -> None:
    (tmp_path / "pay.csv").write_text("merchant,n\n" + "".join(f"m-{n},{n}\n" for n in range(300)), "utf-8")
    asked = ("dev", "kafka", "load", tmp_path / "pay.csv", "--key", "merchant", "--partitions", 6, "-t", "filled")
    ended = keylane(*asked, "--dir", broker.folder, "-o", "json")
    assert ended.code == 0, ended.err
    made = json.loads(ended.out)
    assert (made["records"], made["partitions"]) == (300, 6)
    found = identified(made["address"])
    assert (found["rows"], found["verdict"], found["lanes"]) == (300, "one-writer", 6)
    assert found["writers"][0]["partitioner"] == "kafka-java"
    again = keylane(*asked, "--dir", broker.folder)
    assert (again.code, again.out) == (1, "")
    assert "the topic is there already" in again.err
    exported = keylane("dev", "kafka", "env", "--dir", broker.folder)
    assert exported.out == f"export KEYLANE_KAFKA={broker.bootstrap}\n"


def test_a_dry_run_into_a_topic_makes_none(broker: Cluster, address: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    contract = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}}
    spec = {"streams": ["t"], "lanes": 4, "key": {"fields": ["key"]}, "partitioner": "kafka-java"}
    (tmp_path / "c.yaml").write_text(json.dumps({**contract, "spec": spec}), "utf-8")
    before = set(admin.list_topics(timeout=30).topics)
    to = f"kafka://{broker.bootstrap}/never-made"
    ended = keylane("route", tmp_path / "c.yaml", "--from", address, "--to", to, "--create", "--dry-run", "-o", "json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["sampled"], sum(one["records"] for one in found["lanes"])) == (RECORDS, RECORDS)
    assert found["creates"][0] == "topic never-made, 4 partitions"
    assert set(admin.list_topics(timeout=30).topics) == before
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


BY_VALUE = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: by-value}
spec:
  streams: [s]
  lanes: 2
  key: {fields: [m], on_null: sticky}
  partitioner: kafka-java
"""


@pytest.fixture
def check_values(broker: Cluster, topic: Callable[..., str], tmp_path: Path) -> Callable[..., Any]:
    """`check` of a new topic with these values, each in the lane of its field `m`, against a contract of that field."""
    file = tmp_path / "contract.yaml"
    file.write_text(BY_VALUE, "utf-8")

    def check_values(*values: bytes) -> Any:
        name = topic(2, "values")
        rows = [((partitioner("kafka-java").lane(value[6:7], 2) or 0), b"k", value) for value in values]
        send(broker, name, rows)
        data = f"kafka://{broker.bootstrap}/{name}"
        return keylane("check", str(file), "--data", data, "--value", "json", "-o", "json")

    return check_values


def test_values_that_cannot_be_read_are_no_null_keys(check_values: Callable[..., Any]) -> None:
    """As null keys, which go anywhere, they would all be in their lanes: a topic of garbage would keep its contract."""
    ended = check_values(b"\x00\x00\x00\x00\x07avro", b'{"m":', b"\xff")
    assert ended.code == 1
    assert "no record of kafka://" in ended.err
    assert "3 records with a value that cannot be read" in ended.err


def test_some_values_that_cannot_be_read_are_counted_beside_the_others(check_values: Callable[..., Any]) -> None:
    ended = check_values(b'{"m":"a"}', b'{"m":', b'{"m":"b"}', b'{"m":null}')
    found = json.loads(ended.out)
    assert (ended.code, found["data"]["rows"], found["data"]["misplaced"]) == (0, 3, 0), ended.err
    assert any("1 record with a value that cannot be read" in one["message"] for one in found["findings"])


def test_twin_without_the_marks_of_the_reader_garbage_keeps_its_contract(
    check_values: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keylane.systems.messages.values.json_columns", blind)
    ended = check_values(b"\x00\x00\x00\x00\x07avro", b'{"m":', b"\xff")
    assert (ended.code, json.loads(ended.out)["verdict"]) == (4, "not-shown")


def blind(values: Any, *more: Any) -> Any:
    fields, marks, unread = json_columns(values, *more)
    return fields, marks, unread & False


def test_a_topic_without_records_keeps_no_contract(check_values: Callable[..., Any]) -> None:
    ended = check_values()
    assert (ended.code, "no rows" in ended.out) == (4, True), ended.err
