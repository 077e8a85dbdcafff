"""The session that keylane makes, what it says of one it did not make, and the pieces both stand on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane.errors import MissingExtraError, SparkError
from keylane.spark import jvm, local_session, session
from keylane.spark.hashes import arrow_udf
from keylane.spark.jvm import Java, _reported_version, archive_options, cache_folder, find_java, remove_unused
from keylane.spark.session import missing_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = Java(Path("/some/java"), "17.0.15")


# The session


def test_its_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(session._cores())
    manager = str(spark.conf.get("spark.sql.streaming.checkpointFileManagerClass"))
    assert manager.endswith(".FileSystemBasedCheckpointFileManager")
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.driver.host") in {"127.0.0.1", "localhost"}


def test_its_python_workers_run_this_python(spark: SparkSession) -> None:
    def where(numbers: pa.Array) -> pa.Array:
        return pa.array([sys.executable] * len(numbers))

    rows = spark.range(1).select(arrow_udf(where, "string")("id").alias("python")).collect()
    assert [Path(row["python"]) for row in rows] == [Path(sys.executable)]


def test_a_second_call_gives_the_same_session(spark: SparkSession) -> None:
    assert local_session("local[7]", {"spark.sql.session.timeZone": "Asia/Kolkata"}) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_nothing_is_missing_in_it(spark: SparkSession) -> None:
    assert missing_in(spark) == []


def test_what_is_missing_in_another_is_reported_and_not_changed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    other.conf.set("spark.sql.shuffle.partitions", "200")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    monkeypatch.setenv("PATH", "/nowhere")
    zone, python, shuffle = missing_in(other)
    assert zone.startswith("time zone is Asia/Kolkata")
    assert "'python3'" in python
    assert f"PYSPARK_PYTHON={sys.executable}" in python
    assert shuffle.startswith("200 shuffle partitions")
    assert other.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"


def test_which_python_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this = sys.executable
    (tmp_path / "python").symlink_to(Path(this).resolve())
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    assert session._other_python(this, on_this_machine=True) == []
    assert session._other_python(str(Path(this).with_name("python3")), on_this_machine=True) == []
    assert session._other_python(str(tmp_path / "python"), on_this_machine=True) != [], "of another environment"
    assert session._other_python("./env/bin/python", on_this_machine=False) == [], "somebody has set it"
    monkeypatch.delenv("PYSPARK_PYTHON")
    (told,) = session._other_python("some-python", on_this_machine=False)
    assert "PYSPARK_PYTHON" in told


def test_a_session_of_another_thread_is_found(spark: SparkSession) -> None:
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(session.existing_session()))
    worker.start()
    worker.join()
    assert found[0].sparkContext is spark.sparkContext
    assert found[0].conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.jvm
def test_a_spark_that_does_not_start_is_one_line() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    program = "from keylane.spark import local_session\nlocal_session('local[no]', {'spark.driver.memory': '1g'})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("keylane.errors.SparkError: ")
    assert "local[no]" in last


def test_another_version_of_spark_is_reported(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "TRIED", ("9.9.",))
    (note,) = missing_in(spark)
    assert spark.version in note
    assert "9.9.x" in note


QUIET = """
from keylane.spark import local_session
spark = local_session("local[1]", {"spark.driver.memory": "1g"})
print(spark.range(3).selectExpr("sum(id) AS s").first()["s"])
try:
    spark.sql("SELECT nowhere")
except Exception:
    pass
"""


@pytest.mark.jvm
def test_it_starts_and_fails_without_noise() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True, env=own)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_all_but_the_noise_of_java_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"WARNING: Using incubator modules: jdk.incubator.vector\nException in thread \xff\n")
    os.close(writer)
    output = session._JavaOutput()
    output.release()
    output._read(reader, "stderr")
    assert capsys.readouterr().err == "Exception in thread \ufffd\n"


def test_a_java_that_does_not_start_prints_nothing_and_its_last_words_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = session._JavaOutput()
    writer = output.pipe("stderr")
    os.write(writer, b"OpenJDK warning\nInvalid maximum heap size: -Xmx99999999g\nError: Could not create the JVM.\n")
    os.close(writer)
    assert output.last_words() == "Invalid maximum heap size: -Xmx99999999g"
    assert capsys.readouterr().err == ""
    # The twin: of one that has started all of it is shown.
    output.release()
    assert "Could not create" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "near"),
    [("local[2]", True), ("spark://127.0.0.1:7077", True), ("spark://host:7077", False), ("yarn", False)],
)
def test_only_a_near_master_is_spoken_to_over_loopback(target: str, near: bool) -> None:
    assert session._is_near(target) == near


def test_a_cluster_keeps_its_own_sizes_folders_and_secrets(tmp_path: Path) -> None:
    far, near = (session._settings(target, {}, [tmp_path]) for target in ("yarn", "local[2]"))
    own = {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.ui.enabled"}
    own |= {"spark.authenticate", "spark.local.dir", "spark.sql.warehouse.dir", "spark.executorEnv.TMPDIR"}
    assert own <= near.keys()
    assert own.isdisjoint(far)
    assert f"-Djava.io.tmpdir={tmp_path}" in far["spark.driver.extraJavaOptions"], "the driver is on this machine"


@pytest.mark.parametrize(
    ("target", "is_one"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,512]", False), ("local[x]", False)],
)
def test_spark_makes_a_secret_by_itself_only_where_it_is_one_process(target: str, is_one: bool) -> None:
    assert ("spark.authenticate" in session._settings(target, {})) == is_one


def test_a_user_id_without_a_name_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    session._check_user_name()
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    with pytest.raises(SparkError, match=r"got 4000000; hint: add it to /etc/passwd"):
        session._check_user_name()


def test_given_settings_go_first_and_java_options_are_added_to() -> None:
    given = {"spark.sql.session.timeZone": "Asia/Kolkata", "spark.driver.extraJavaOptions": "-Dmine=1"}
    settings = session._settings("local[2]", given)
    assert settings["spark.sql.session.timeZone"] == "Asia/Kolkata"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert "log4j2.configurationFile" in settings["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("there_is", "limit", "taken"), [(64, 2**30, 8), (8, 2**30, 4), (1, 2**30, 1), (64, 6, 3)], ids=str
)
def test_memory_is_half_of_what_there_is(
    monkeypatch: pytest.MonkeyPatch, there_is: int, limit: int, taken: int
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 2**10, "SC_PHYS_PAGES": there_is * 2**20}[name])
    monkeypatch.setattr(session, "_container_limit", lambda: limit * 2**30)
    assert session._memory() == taken * 2**30


WITHOUT = """
import sys
sys.modules["pyspark"] = None
import keylane.spark.jvm, keylane.spark.jvm
try:
    {imported}
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    "imported",
    [
        "from keylane.spark import local_session",
        "import keylane.spark; keylane.spark.route",
        "import keylane.pipelines.route",
    ],
)
def test_without_pyspark_the_extra_is_named(imported: str) -> None:
    script = WITHOUT.format(imported=imported)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError pyspark ")
    assert "[spark]" in done.stdout


# Java


def home_of(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25.0.1+8", 25), ("", 0)]
)
def test_the_major_version_of_a_java(version: str, major: int) -> None:
    assert Java(Path(), version).major == major


def test_java_home_goes_first(tmp_path: Path) -> None:
    home = home_of(tmp_path / "own", "21.0.2")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == Java(home, "21.0.2")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = home_of(tmp_path / "old", "11.0.2"), home_of(tmp_path / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_without_a_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.spark.jvm.USUAL", ())
    old = home_of(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingExtraError, match=r"got '11\.0\.2 in .*apt-get install openjdk-17"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(MissingExtraError, match="Java 17 or later: hint: apt-get"):
        find_java({"PATH": ""})


def test_a_java_that_says_nothing_in_a_file_is_asked() -> None:
    java = find_java()
    assert _reported_version(java.home) == java.version


# The archive


def options(folder: Path, **more: str) -> tuple[str, ...]:
    return archive_options(JAVA, environ={"KEYLANE_CACHE": str(folder), **more})


def part_of(option: str) -> Path:
    return Path(option.removeprefix("-XX:ArchiveClassesAtExit="))


def test_the_first_session_makes_it_and_the_second_uses_it(tmp_path: Path) -> None:
    made = part_of(options(tmp_path)[0])
    assert made.parent == tmp_path
    made.write_bytes(b"\xa8\xab\x0b\xf0 and so on")
    used, *_ = options(tmp_path)
    assert used.startswith("-XX:SharedArchiveFile=")
    assert Path(used.removeprefix("-XX:SharedArchiveFile=")).read_bytes().endswith(b"and so on")
    assert not made.exists()


def test_one_that_is_still_being_written_is_not_used(tmp_path: Path) -> None:
    part_of(options(tmp_path)[0]).write_bytes(bytes(100))
    assert options(tmp_path)[0].startswith("-XX:ArchiveClassesAtExit=")
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_dead_java_left_is_removed(tmp_path: Path) -> None:
    part = part_of(options(tmp_path)[0])
    part.write_bytes(bytes(100))
    os.utime(part, (0, 0))
    options(tmp_path)
    assert not part.exists()


NOW = 1_800_000_000.0
DAY = 86_400.0


def archives(folder: Path, **days: float) -> Path:
    """Archives that were last used so many days ago; the path of one that is used now, and that is not there yet."""
    for name, ago in days.items():
        path = folder / f"spark-4.0.0-java-17-{name}.jsa"
        path.write_bytes(b"an archive")
        os.utime(path, (NOW - ago * DAY, NOW - ago * DAY))
    return folder / "spark-4.0.0-java-17-now.jsa"


def left(folder: Path) -> set[str]:
    return {path.name.removeprefix("spark-4.0.0-java-17-").partition(".jsa")[0] for path in folder.iterdir()}


def test_archives_that_nobody_uses_are_removed_and_the_few_used_last_are_kept(tmp_path: Path) -> None:
    path = archives(tmp_path, now=40, a=1, b=2, c=3, d=4, old=31)
    (tmp_path / "jars").mkdir()
    remove_unused(path, NOW)
    assert left(tmp_path) == {"now", "a", "b", "c", "jars"}
    assert path.stat().st_mtime == NOW, "it counts as used from now on"


def test_an_archive_is_removed_for_its_age_alone(tmp_path: Path) -> None:
    remove_unused(archives(tmp_path, a=29, old=31), NOW)
    assert left(tmp_path) == {"a"}


@pytest.mark.parametrize(
    ("pid", "days", "stays"), [("dead", 2, False), ("dead", 0.5, True), ("alive", 2, True), ("alive", 0.5, True)]
)
def test_a_partial_archive_goes_when_it_is_old_and_nobody_writes_it(
    pid: str, days: float, stays: bool, tmp_path: Path
) -> None:
    number = os.getpid() if pid == "alive" else 2**22 + 1  # above every number of a process
    part = tmp_path / f"spark-4.0.0-java-17-x.jsa.{number}.part"
    part.write_bytes(bytes(10))
    os.utime(part, (NOW - days * DAY, NOW - days * DAY))
    remove_unused(archives(tmp_path), NOW)
    assert part.exists() == stays


def test_a_removal_that_does_not_look_whether_a_process_lives_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "_is_alive", lambda _: False)
    with pytest.raises(AssertionError):
        test_a_partial_archive_goes_when_it_is_old_and_nobody_writes_it("alive", 2, True, tmp_path)


def test_archives_that_vanish_meanwhile_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process removes them too: between the list and the look, and between the look and the removal."""
    path = archives(tmp_path, a=1, b=2, c=3, d=4, e=5)
    listed = list(tmp_path.glob("spark-*.jsa"))
    monkeypatch.setattr(Path, "glob", lambda _self, pattern: listed if pattern.endswith("jsa") else [])
    listed[0].unlink()
    remove_unused(path, NOW)
    remove_unused(path, NOW)
    assert len(list(os.scandir(tmp_path))) <= 4


def test_a_session_removes_what_is_not_used(tmp_path: Path) -> None:
    archives(tmp_path, **{f"n{n}": 10_000 for n in range(6)})
    options(tmp_path)
    assert left(tmp_path) == set()


def test_each_java_and_class_path_has_its_own(tmp_path: Path) -> None:
    environ = {"KEYLANE_CACHE": str(tmp_path)}
    javas = [JAVA, Java(JAVA.home, "21"), Java(Path("/other"), JAVA.version)]
    made = {archive_options(java, environ=environ) for java in javas} | {archive_options(JAVA, "x.jar", environ)}
    assert len(made) == 4


def test_it_can_be_turned_off_and_moved() -> None:
    assert archive_options(JAVA, environ={"KEYLANE_CACHE": ""}) == ()
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/keylane")
    assert cache_folder({}) == Path.home() / ".cache" / "keylane"


def test_there_is_none_where_it_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert options(tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf")) != ()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert options(tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf")) == ()
    (tmp_path / "file").touch()
    assert archive_options(JAVA, environ={"KEYLANE_CACHE": str(tmp_path / "file" / "below")}) == ()


def test_this_very_session_runs_with_it(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    given = gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert sum("Archive" in argument for argument in given) == (0 if cache_folder() is None else 1)


@pytest.mark.parametrize(
    ("given", "collectors"),
    [
        pytest.param("", ["Parallel"], id="none given"),
        pytest.param("-Dx=y", ["Parallel"], id="something else given"),
        pytest.param("-XX:+UseG1GC", ["G1"], id="twin: two collectors are an error of Java's"),
    ],
)
def test_java_for_small_batches_keeps_the_options_that_are_given(given: str, collectors: list[str]) -> None:
    made = session.for_small_batches({session.OPTIONS: given, "spark.task.maxDirectResultSize": "2m"})
    options = made[session.OPTIONS].split()
    assert re.findall(r"-XX:\+Use(\w+)GC", " ".join(options)) == collectors
    assert set(given.split()) <= set(options)
    assert made["spark.task.maxDirectResultSize"] == "2m"
