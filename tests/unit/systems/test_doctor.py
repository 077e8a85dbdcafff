"""What the doctor finds, on this machine and on one with a planted fault."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from keylane.cli.doctor import as_result
from keylane.extras import install_command
from keylane.systems import doctor, jars
from keylane.systems.doctor import Problem, clock_finding, enough, examined, is_well, lacking_for_kafka
from keylane.systems.endpoint import configure, unconfigure

if TYPE_CHECKING:
    from pathlib import Path

    from keylane.systems.doctor import Inspection

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYLANE_CACHE", str(tmp_path / "cache"))


def found(**options: str) -> dict[str, Inspection]:
    return {part.part: part for part in examined(**options)}


def test_a_machine_without_kafka_is_well_and_told_what_kafka_would_need() -> None:
    parts = found()
    assert is_well(list(parts.values()))
    assert [name for name, part in parts.items() if part.needed] == [
        "keylane",
        "Python",
        "user",
        "Java",
        "pyarrow",
        "pyspark",
        "pandas",
        "disk",
        "memory",
        "clock",
    ]
    assert lacking_for_kafka(list(parts.values())) == ["Spark's Kafka connector", "Kafka's own jars"]
    assert parts["keylane"].found.startswith(f"{version('keylane')} in ")
    assert re.fullmatch(r"[\d,.]+ [MGT]iB free in /.*", parts["disk"].found)
    assert re.fullmatch(r"[\d,.]+ [MGT]iB for \d+ cores", parts["memory"].found)
    answer = as_result(list(parts.values())).answer
    assert answer == [
        "ok: everything needed for files and Spark is there",
        "for Kafka this is missing: Spark's Kafka connector, Kafka's own jars",
    ]

    assert {name: part.fix for name, part in parts.items() if part.state != "ok"} == {
        "Spark's Kafka connector": "keylane dev jars",
        "Kafka's own jars": "keylane dev jars broker",
        "H3 for Java": "keylane dev jars geo",
        "broker": "keylane dev kafka up",
    }


def test_a_machine_without_spark_is_well_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> str:
        if name in ("pyspark", "pandas"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", installed)
    monkeypatch.setattr("keylane.spark.jvm._homes", lambda _environ: iter(()))
    parts = found()
    assert [name for name, part in parts.items() if part.needed] == ["keylane", "Python", "pyarrow", "clock"]
    result = as_result(list(parts.values()))
    assert (result.exit_code, result.answer[:2]) == (
        0,
        [
            "ok: everything needed for files is there",
            "for Spark (route, match, aggregate, demo, large data) this is missing: Java, pyspark, pandas",
        ],
    )
    # Twin: where PySpark is installed, Java has to be there.
    monkeypatch.setattr(doctor, "version", version)
    assert as_result(list(examined())).exit_code == 1


def test_kinesis_has_its_rows_and_none_of_them_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    parts = found()
    rows = {name: part for name, part in parts.items() if part.used_for == "Kinesis"}
    assert list(rows) == ["boto3", "protobuf", "AWS region"]
    assert not any(part.needed for part in rows.values())
    assert rows["boto3"].found.startswith(version("boto3"))
    assert rows["AWS region"].found.startswith("eu-north-1; ")
    # Twin: without the library the row says how to get it.
    monkeypatch.setitem(sys.modules, "boto3", None)
    broken = found()["boto3"]
    assert (broken.state, broken.fix) == ("wrong", install_command("kinesis"))


def test_too_little_room_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("104857600\n")
    monkeypatch.setattr(doctor, "CONTAINER_LIMIT", tmp_path / "memory.max")
    with pytest.raises(Problem, match=r"100.0 MiB for .* \(requires 512.0 MiB\)"):
        doctor._memory()
    with pytest.raises(Problem, match=r"1\.0 KiB free"):
        enough(1024, "free in /tmp", "free some")
    assert enough(2**30, "free in /tmp", "free some") == "1.0 GiB free in /tmp"


def test_a_broker_that_is_named_makes_kafka_needed_and_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BROKER_SECONDS", 0.3)
    parts = found(broker="127.0.0.1:1")
    assert not is_well(list(parts.values()))
    assert [name for name, part in parts.items() if part.needed and part.state != "ok"] == [
        "Spark's Kafka connector",
        "broker",
    ]
    assert parts["broker"].found.startswith("127.0.0.1:1 did not answer")


def test_a_broker_is_asked_with_the_properties_that_are_configured_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[dict[str, str]]()

    def brokers_at(settings: dict[str, str], _seconds: float) -> int:
        asked.append(settings)
        return 1

    monkeypatch.setattr("keylane.systems.broker.cluster.brokers_at", brokers_at)
    configure("kafka", "b:9092", lambda: (("security.protocol", "SSL"),))
    try:
        assert found(broker="b:9092")["broker"].state == "ok"
        assert found(broker="other:9092")["broker"].state == "ok"
    finally:
        unconfigure()
    assert [one.get("security.protocol") for one in asked] == ["SSL", None]


def test_no_java_is_a_finding_with_the_line_that_fixes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.spark.jvm._homes", lambda _environ: iter(()))
    part = found()["Java"]
    assert part.state == "missing"
    assert "Java 17" in str(part.found)
    assert "apt-get install openjdk-17-jre-headless" in str(part.fix)


def test_a_java_that_does_not_run_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert found()["Java"].found.startswith(f"{tmp_path} does not run")


@pytest.mark.parametrize(
    ("installed", "state"), [("2.3.3", "ok"), ("3.0.0", "wrong"), ("2.1.4", "wrong"), ("2.10.0", "ok")]
)
def test_a_version_outside_its_bounds_is_wrong(installed: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: installed if name == "pandas" else version(name))
    part = found()["pandas"]
    assert part.state == state
    assert part.fix == (None if state == "ok" else install_command("spark"))


def test_a_library_that_is_not_there_or_does_not_load_is_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    library = doctor.LIBRARIES[0]._replace(name="no-such-thing", extra="kafka")
    broken = doctor.LIBRARIES[0]._replace(module="broken_on_load")
    monkeypatch.setattr(doctor, "LIBRARIES", (library, broken))
    monkeypatch.setitem(sys.modules, "broken_on_load", None)
    parts = found()
    assert (parts["no-such-thing"].state, parts["no-such-thing"].fix) == ("missing", install_command("kafka"))
    assert parts["pyarrow"].state == "wrong"
    assert "does not load" in parts["pyarrow"].found


def test_jars_must_be_the_pinned_ones(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "jars"
    folder.mkdir(parents=True)
    for jar in jars.kit("connector"):
        (folder / jar.file).write_bytes(b"another")
    part = found()["Spark's Kafka connector"]
    assert (part.state, part.needed) == ("wrong", False)
    assert "pinned" in part.found
    assert str(part.fix).startswith("remove ")
    shutil.rmtree(folder)
    assert re.search(f"4 of 4 jars .*{folder}", str(found()["Spark's Kafka connector"].found))


def test_a_folder_of_jars_that_is_named_is_looked_at_and_needed(tmp_path: Path) -> None:
    part = found(spark_jars=str(tmp_path))["Spark's Kafka connector"]
    assert (part.state, part.needed) == ("wrong", True)
    assert part.found.startswith(f"{tmp_path} lacks commons-pool2-2.13.1.jar, kafka-clients-3.9.2.jar, ")


def test_a_steady_clock_is_fine() -> None:
    assert "steady over 0.2 s" in clock_finding((NOW, 10.0), (NOW + 0.2, 10.2), NOW - 60)
    assert found()["clock"].state == "ok"


@pytest.mark.parametrize(
    ("second", "installed", "complaint"),
    [
        ((NOW + 5.2, 10.2), NOW - 60, r"jumped by \+5\.000 s"),
        ((NOW - 4.8, 10.2), NOW - 60, r"jumped by -5\.000 s"),
        ((NOW + 0.2, 10.2), NOW + 100_000, "keylane's own"),
    ],
    ids=["forward", "back", "behind"],
)
def test_a_clock_that_jumps_or_is_behind_is_wrong(
    second: tuple[float, float], installed: float, complaint: str
) -> None:
    with pytest.raises(Problem, match=complaint) as info:
        clock_finding((NOW, 10.0), second, installed)
    assert info.value.state == "wrong"


def test_a_pause_between_the_two_clocks_is_not_taken_for_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine stops us anywhere: only the closest of some readings counts."""
    passed, pauses = [0.0], iter([0.1] * 19)

    def slow() -> float:
        passed[0] += next(pauses, 0.0)
        return NOW + passed[0]

    clocks = SimpleNamespace(time=slow, monotonic=lambda: 10.0 + passed[0])
    monkeypatch.setattr(doctor, "time", clocks)
    wall, counted = doctor._both_clocks()
    assert wall - NOW == pytest.approx(counted - 10.0, abs=1e-6)
