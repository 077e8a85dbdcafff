"""`scripts/java.sh` finds the Java that `keylane.spark.jvm` finds, installs one where there is none, or fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.scripts.conftest import script

from keylane.errors import MissingExtraError
from keylane.spark import jvm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scripts.conftest import Machine


def a_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A Java that tells its version in a file, or only when it is asked."""
    script(home / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def installs_java(machine: Machine, condition: str = "true") -> None:
    """An apt-get that leaves a Java, if the condition holds."""
    made = a_java(machine.folder / "package", "17.0.1")
    machine.apt(f"if {condition}; then cp -r {made} $here/jvm/new; else echo 'E: no such package'; exit 100; fi")


def found(machine: Machine, **environ: str) -> str:
    """The home that the script names; it must have asked apt-get for nothing."""
    done = machine.run("java.sh", str(machine.jvm), **environ)
    assert done.returncode == 0, done.stderr
    assert machine.apt_calls == []
    told = re.fullmatch(r"java: Java \S+ in (.*)\n", done.stdout)
    assert told, done.stdout
    return told[1]


def test_java_home_goes_first(machine: Machine) -> None:
    a_java(machine.jvm / "other", "21")
    home = a_java(machine.folder / "mine", "17.0.15")
    assert found(machine, JAVA_HOME=str(home)) == str(home)


def test_one_that_is_too_old_is_passed_over(machine: Machine) -> None:
    home = a_java(machine.folder / "mine", "11.0.2")
    on_path = a_java(machine.folder / "better", "21.0.1", release=False)
    (machine.folder / "bin" / "java").symlink_to(on_path / "bin" / "java")
    assert found(machine, JAVA_HOME=str(home)) == str(on_path)


def test_a_stub_on_the_path_proves_nothing(machine: Machine) -> None:
    machine.command("java", "echo 'no version is set' >&2; exit 126")
    home = a_java(machine.jvm / "openjdk-17", "17")
    assert found(machine) == str(home)


def test_the_system_s_folder_is_looked_through(machine: Machine) -> None:
    a_java(machine.jvm / "a-java-8", "1.8.0_412")
    home = a_java(machine.jvm / "b-java-17", "17.0.15", release=False)
    assert found(machine) == str(home)


@pytest.mark.parametrize(
    "homes", [{"mine": "17"}, {"mine": "11", "jvm/a": "1.8.0_1", "jvm/b": "21.0.3"}, {"jvm/x": "17"}]
)
def test_it_finds_what_spark_will_run_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, homes: dict[str, str]
) -> None:
    for name, version in homes.items():
        a_java(machine.folder / name, version)
    monkeypatch.setattr(jvm, "USUAL", ((str(machine.jvm), "*"),))
    environ = machine.environ(JAVA_HOME=str(machine.folder / "mine"))
    assert found(machine, JAVA_HOME=environ["JAVA_HOME"]) == str(jvm.find_java(environ).home)


def test_where_it_finds_none_spark_finds_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(machine.jvm / "old", "11.0.2")
    monkeypatch.setattr(jvm, "USUAL", ((str(machine.jvm), "*"),))
    assert machine.run("java.sh", str(machine.jvm)).returncode == 1
    with pytest.raises(MissingExtraError, match="Java 17"):
        jvm.find_java(machine.environ())


def test_it_is_installed_where_there_is_none(machine: Machine) -> None:
    a_java(machine.jvm / "old", "11.0.2")
    installs_java(machine)
    done = machine.run("java.sh", str(machine.jvm))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"java: Java 17.0.1 in {machine.jvm / 'new'}\n")
    assert machine.apt_calls == ["-y -qq install --no-install-recommends openjdk-17-jre-headless"]


def test_empty_package_lists_are_filled_first(machine: Machine) -> None:
    installs_java(machine, "test -e $here/lists")
    assert machine.run("java.sh", str(machine.jvm)).returncode == 0
    assert [call.split()[2] for call in machine.apt_calls] == ["install", "update", "install"]


def test_a_system_without_17_gets_its_own(machine: Machine) -> None:
    installs_java(machine, "test $last = default-jre-headless")
    assert machine.run("java.sh", str(machine.jvm)).returncode == 0
    assert machine.apt_calls[-1].endswith("default-jre-headless")


@pytest.mark.parametrize("installing", ["echo 'E: disk full'; exit 100", "true"])
def test_it_fails_when_none_could_be_installed(machine: Machine, installing: str) -> None:
    machine.apt(installing)
    done = machine.run("java.sh", str(machine.jvm))
    assert done.returncode == 1
    assert "openjdk-17-jre-headless" in done.stderr
    assert ("E: disk full" in done.stderr) == ("E:" in installing)


def test_it_fails_without_apt_get(machine: Machine) -> None:
    done = machine.run("java.sh", str(machine.jvm))
    assert done.returncode == 1
    assert "no apt-get here" in done.stderr


@pytest.mark.parametrize("sudo", ["exit 1", None])
def test_it_fails_without_the_right_to_install(machine: Machine, sudo: str | None) -> None:
    installs_java(machine)
    machine.command("id", "echo 1000")
    if sudo:
        machine.command("sudo", sudo)
    done = machine.run("java.sh", str(machine.jvm))
    assert done.returncode == 1
    assert "no right to install" in done.stderr
    assert machine.apt_calls == []


def test_sudo_that_asks_nothing_will_do(machine: Machine) -> None:
    installs_java(machine)
    machine.command("id", "echo 1000")
    machine.command("sudo", 'shift; exec "$@"')
    assert machine.run("java.sh", str(machine.jvm)).returncode == 0
