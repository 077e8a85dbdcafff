"""`scripts/browser.sh` keeps the browser that is there, installs one where there is none, or fails and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scripts.conftest import Machine

LEAVES_BROWSER = "cp $here/bin/id $here/bin/chromium; cp $here/bin/id $here/bin/chromedriver"


def test_what_is_there_is_kept(machine: Machine) -> None:
    machine.apt("exit 1")
    machine.command("chromium", "")
    machine.command("chromedriver", "")
    done = machine.run("browser.sh")
    assert (done.returncode, done.stdout, machine.apt_calls) == (0, "", [])


def test_it_is_installed_where_there_is_none(machine: Machine) -> None:
    machine.apt(LEAVES_BROWSER)
    assert machine.run("browser.sh").returncode == 0
    assert machine.apt_calls == ["-y -qq install --no-install-recommends chromium chromium-driver fonts-inter"]


@pytest.mark.parametrize("installing", ["echo 'E: no network'; exit 100", "cp $here/bin/id $here/bin/chromium"])
def test_it_fails_when_it_could_not_be_installed(machine: Machine, installing: str) -> None:
    machine.apt(installing)
    done = machine.run("browser.sh")
    assert done.returncode == 1
    assert "no chromium and chromedriver on the path; install them" in done.stderr


def test_it_fails_without_apt_get(machine: Machine) -> None:
    done = machine.run("browser.sh")
    assert done.returncode == 1
    assert "no apt-get here to install chromium chromium-driver" in done.stderr
