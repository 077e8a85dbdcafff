"""Pinned jars: found, fetched all or none, refused when they are others. Ivy is played by a script here."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from keylane.errors import CacheError, JarError, MissingExtraError, UsageError
from keylane.systems import jars
from keylane.systems import jars as ivy
from keylane.systems.jars import Jar

if TYPE_CHECKING:
    from pathlib import Path

#: Plays `java -jar ivy.jar`: finds what is wanted in ivy.xml, and puts what $JARS_OF_THE_WORLD has where it is told.
JAVA = """#!/bin/sh
echo "$@" >> "$ASKED"
while [ "$#" -gt 0 ]; do
  case "$1" in
    -ivy) wanted=$2 ;;
    -retrieve) into=$(dirname "$2") ;;
  esac
  shift
done
mkdir -p "$into/ivy"
for file in "$JARS_OF_THE_WORLD"/*.jar; do
  name=$(basename "$file" .jar)
  if grep -q "name=\\"${name%-*}\\" rev=\\"${name##*-}\\"" "$wanted"; then cp "$file" "$into"; fi
done
[ -z "$COMPLAINT" ] || { echo ":: $COMPLAINT"; exit 1; }
"""


def jar(name: str, *, version: str = "1.0", kits: tuple[str, ...] = ("broker",)) -> Jar:
    content = f"the archive {name}-{version}".encode()
    return Jar("org.example", name, version, hashlib.sha256(content).hexdigest(), kits)


def put(folder: Path, *wanted: Jar) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in wanted:
        (folder / one.file).write_bytes(f"the archive {one.artifact}-{one.version}".encode())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder from which the played Ivy fetches; what is pinned is `a` and `b` of the broker."""
    home, world = tmp_path / "java", tmp_path / "world"
    (home / "bin").mkdir(parents=True)
    world.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (home / "bin" / "java").write_text(JAVA)
    (home / "bin" / "java").chmod(stat.S_IRWXU)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("JARS_OF_THE_WORLD", str(world))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("KEYLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_pinned", lambda: (jar("a"), jar("b")))
    return world


@pytest.fixture
def folder(world: Path, tmp_path: Path) -> Path:
    return tmp_path / "cache" / "jars"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def times_asked(world: Path) -> int:
    asked = world.parent / "asked"
    return len(asked.read_text().splitlines()) if asked.exists() else 0


def test_jars_are_fetched_once_and_found_from_then_on(world: Path, folder: Path) -> None:
    put(world, jar("a"), jar("b"))
    told: list[str] = []
    first = jars.fetched("broker", tell=told.append)
    assert first == [folder / "a-1.0.jar", folder / "b-1.0.jar"]
    (note,) = told
    assert re.search(rf"2 jars of the kit broker.*{folder}", note)
    assert jars.fetched("broker", tell=told.append) == first
    assert (times_asked(world), len(told)) == (1, 1)
    assert names(folder) == ["a-1.0.jar", "b-1.0.jar"]


def test_only_what_is_missing_is_fetched(world: Path, folder: Path) -> None:
    put(folder, jar("a"))
    put(world, jar("b"))
    assert len(jars.fetched("broker")) == 2


def test_another_folder_gets_what_the_cache_has_without_a_fetch(world: Path, folder: Path, tmp_path: Path) -> None:
    put(folder, jar("a"), jar("b"))
    assert names(jars.fetched("broker", tmp_path / "site" / "jars")[0].parent) == ["a-1.0.jar", "b-1.0.jar"]
    assert times_asked(world) == 0
    (folder / "a-1.0.jar").write_bytes(b"another")
    put(world, jar("a"), jar("b"))
    assert names(jars.fetched("broker", tmp_path / "other")[0].parent) == ["a-1.0.jar", "b-1.0.jar"]
    assert times_asked(world) == 1, "what is not the pinned archive is not copied"


def test_a_broken_download_leaves_nothing(world: Path, folder: Path) -> None:
    put(world, jar("a"), jar("b"))
    (world / "b-1.0.jar").write_bytes(b"half an arch")
    with pytest.raises(JarError, match=r"b-1\.0\.jar .*got 'SHA-256 [0-9a-f]{64}'"):
        jars.fetched("broker")
    assert names(folder) == []


def test_no_network_says_so_and_leaves_nothing(world: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "COMPLAINT", "Server access error (java.net.ConnectException: refused) module not found: a#a;1.0"
    )
    with pytest.raises(JarError, match=r"a-1\.0\.jar, b-1\.0\.jar .*fetched") as info:
        jars.fetched("broker")
    assert "got 'java.net.ConnectException: refused; not found: a#a;1.0'" in str(info.value)
    assert "hint: is there a network?" in str(info.value)
    assert names(folder) == []


def test_a_jar_that_nobody_has_is_named_and_the_others_are_not_kept(world: Path, folder: Path) -> None:
    put(world, jar("a"))
    with pytest.raises(JarError, match=r"^b-1\.0\.jar .*fetched"):
        jars.fetched("broker")
    assert names(folder) == []


@pytest.mark.parametrize("damage", [b"", b"another", b"the archive a-1."], ids=["empty", "another", "cut"])
def test_a_jar_of_the_cache_that_is_not_the_pinned_one_is_fetched_again(
    world: Path, folder: Path, damage: bytes
) -> None:
    put(folder, jar("a"), jar("b"))
    put(world, jar("a"), jar("b"))
    (folder / "a-1.0.jar").write_bytes(damage)
    told: list[str] = []
    jars.fetched("broker", tell=told.append)
    assert (folder / "a-1.0.jar").read_bytes() == b"the archive a-1.0"
    assert told[0] == f"{folder / 'a-1.0.jar'} is not the pinned archive, and is replaced"
    assert times_asked(world) == 1


def test_without_a_network_it_is_not_used_either(world: Path, folder: Path) -> None:
    put(folder, jar("a"), jar("b"))
    (folder / "a-1.0.jar").write_bytes(b"another")
    with pytest.raises(JarError, match=r"a-1\.0\.jar could not be fetched"):
        jars.fetched("broker")


def test_a_jar_of_the_users_own_folder_that_is_not_the_pinned_one_is_refused(world: Path, tmp_path: Path) -> None:
    put(tmp_path / "own", jar("a"), jar("b"))
    (tmp_path / "own" / "a-1.0.jar").write_bytes(b"another")
    with pytest.raises(JarError, match=r"a-1\.0\.jar .*pinned.*hint: remove .*a-1\.0\.jar"):
        jars.fetched("broker", tmp_path / "own")
    assert times_asked(world) == 0


def test_a_jar_of_the_cache_that_others_could_have_written_is_refused(world: Path, folder: Path) -> None:
    put(folder, jar("a"), jar("b"))
    (folder / "a-1.0.jar").chmod(0o666)
    with pytest.raises(CacheError, match="mode 666"):
        jars.fetched("broker")
    (folder / "a-1.0.jar").chmod(0o600)
    (folder.parent).chmod(0o777)
    with pytest.raises(CacheError, match="mode 777"):
        jars.fetched("broker")


def test_what_a_killed_fetch_left_is_swept_and_a_fetch_that_runs_is_not(world: Path, folder: Path) -> None:
    put(world, jar("a"), jar("b"))
    for name in ("old", "new"):
        (folder / f".fetch-{name}").mkdir(parents=True)
    long_ago = time.time() - 2 * ivy.STALE_SECONDS
    os.utime(folder / ".fetch-old", (long_ago, long_ago))
    jars.fetched("broker")
    assert names(folder) == [".fetch-new", "a-1.0.jar", "b-1.0.jar"]


def test_a_mirror_is_ivys_own_settings_file(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world, jar("a"), jar("b"))
    monkeypatch.setenv("KEYLANE_IVY_SETTINGS", "/etc/ivy.xml")
    jars.fetched("broker")
    assert "-settings /etc/ivy.xml" in (world.parent / "asked").read_text()


def test_a_fetch_without_an_end_has_one(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.parent / "java" / "bin" / "java").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(ivy, "FETCH_SECONDS", 0.2)
    with pytest.raises(JarError, match=r"timed out after 0\.2 s"):
        jars.fetched("broker")


def test_without_a_cache_folder_there_is_nowhere_to_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYLANE_CACHE", "")
    with pytest.raises(JarError, match="--spark-jars DIR"):
        jars.fetched("connector")


def test_every_jar_is_pinned_and_every_kit_is_whole() -> None:
    lines = files("keylane.systems").joinpath("jars.lock").read_text("utf-8").splitlines()
    pins = [line.split() for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 3 and len(pin[1]) == 64 and int(pin[1], 16) for pin in pins)
    assert len({pin[0] for pin in pins}) == len({pin[1] for pin in pins}) == len(pins)
    assert {kit: len(jars.kit(kit)) for kit in jars.KITS} == {
        "connector": 4,
        "broker": 46,
        "tools": 47,
        "geo": 1,
        "zookeeper": 6,
    }
    assert not any("://" in line for line in lines)


def test_the_connector_is_that_of_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"spark-sql-kafka-0-10_2.13-{jars.pyspark_version()}.jar" in [one.file for one in jars.kit("connector")]
    monkeypatch.setattr(jars, "version", lambda _name: "4.9.0")
    with pytest.raises(JarError, match=r"got '4\.9\.0'; allowed: 4\.2\.0; hint: --spark-packages .*_2\.13:4\.9\.0"):
        jars.kit("connector")
    assert jars.kit("broker")


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, world: Path) -> None:
    monkeypatch.setattr(ivy, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[spark\]"):
        jars.fetched("broker")


CONNECTOR = [
    jar("spark-sql-kafka-0-10_2.13", version="4.2.0", kits=("connector",)),
    jar("kafka-clients", version="3.9.2", kits=("connector",)),
    jar("commons-pool2", version="2.13.1", kits=("connector",)),
]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars as a site without a network has it."""
    monkeypatch.setattr(jars, "_pinned", lambda: tuple(CONNECTOR))
    put(tmp_path / "site", *CONNECTOR)
    return tmp_path / "site"


def test_jars_of_a_site_are_used_where_they_are(site: Path) -> None:
    found = jars.connector_settings(str(site))["spark.jars"].split(",")
    assert found == [str(site / one.file) for one in CONNECTOR]


def test_what_a_site_lacks_is_named_all_of_it(site: Path) -> None:
    for one in CONNECTOR[:2]:
        (site / one.file).unlink()
    with pytest.raises(JarError, match=r"lacks spark-sql-kafka-0-10_2\.13-4\.2\.0\.jar, kafka-clients-3\.9\.2\.jar"):
        jars.connector_in(site)
    with pytest.raises(JarError, match="is not a folder"):
        jars.connector_in(site / "nowhere")


def test_a_file_with_a_pinned_name_must_be_the_pinned_archive(site: Path) -> None:
    (site / CONNECTOR[1].file).write_bytes(b"another")
    with pytest.raises(JarError, match=r"kafka-clients-3\.9\.2\.jar .*pinned"):
        jars.connector_in(site)


def test_a_later_version_will_do_and_is_told_except_for_the_connector(site: Path) -> None:
    (site / CONNECTOR[1].file).rename(site / "kafka-clients-4.3.1.jar")
    told: list[str] = []
    assert site / "kafka-clients-4.3.1.jar" in jars.connector_in(site, told.append)
    (note,) = told
    assert re.search(r"kafka-clients-4\.3\.1\.jar .*3\.9\.2", note)
    (site / "kafka-clients-4.0.0.jar").touch()
    with pytest.raises(JarError, match=r"kafka-clients: got '4\.0\.0, 4\.3\.1'"):
        jars.connector_in(site)
    (site / "kafka-clients-4.0.0.jar").unlink()
    (site / CONNECTOR[0].file).rename(site / "spark-sql-kafka-0-10_2.13-4.1.0.jar")
    with pytest.raises(JarError, match=r"got '4\.1\.0'; allowed: 4\.2\.0"):
        jars.connector_in(site)


def test_coordinates_are_passed_through_and_not_beside_a_folder(site: Path) -> None:
    assert jars.connector_settings(packages="a:b:1") == {"spark.jars.packages": "a:b:1"}
    with pytest.raises(UsageError, match="exclude each other"):
        jars.connector_settings(str(site), "a:b:1")


def test_h3_for_java_is_fetched_when_it_can_be_and_else_it_is_reported(
    world: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = jar("h3", kits=("geo",))
    monkeypatch.setattr(jars, "_pinned", lambda: (pinned,))
    told: list[str] = []
    assert not jars.has_geo(told.append)
    assert "h3-1.0.jar" in told[-1]
    put(world, pinned)
    assert jars.has_geo()
    assert names(folder) == ["h3-1.0.jar"]


def test_what_nothing_fails_without_is_not_waited_for_long_and_a_locked_cache_stops_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_pinned", lambda: (jar("h3", kits=("geo",)),))
    waited: list[float] = []

    def locked(_jars: object, _folder: object, _check: object, seconds: float) -> None:
        waited.append(seconds)
        raise PermissionError("read-only")

    monkeypatch.setattr(jars, "retrieve", locked)
    told: list[str] = []
    assert not jars.has_geo(told.append)
    assert waited[0] <= 60
    assert told[-1].endswith(": read-only")


def test_spark_looks_for_the_h3_that_is_pinned() -> None:
    from keylane.spark.cells import H3_JAR, H3_SHA256

    assert [(one.file, one.sha256) for one in jars.kit("geo")] == [(H3_JAR, H3_SHA256)]
