"""`scripts/node.sh` keeps the Node.js that is there, installs one where there is none or an old one, or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scripts.conftest import Machine

LEAVES_NODE = (
    'printf "#!/bin/sh\\necho v20.1.2\\n" > $here/bin/node; cp $here/bin/id $here/bin/npm; chmod +x $here/bin/node'
)


@pytest.fixture
def machine(machine: Machine) -> Machine:
    machine.command("chmod", 'exec /bin/chmod "$@"')
    return machine


def test_what_is_there_is_kept(machine: Machine) -> None:
    machine.apt("exit 1")
    machine.command("node", "echo v18.0.0")
    machine.command("npm", "")
    done = machine.run("node.sh")
    assert (done.returncode, done.stdout, machine.apt_calls) == (0, "", [])


@pytest.mark.parametrize("there", ["echo v16.20.2", "exit 127", None])
def test_it_is_installed_where_there_is_none_or_an_old_one(machine: Machine, there: str | None) -> None:
    machine.apt(LEAVES_NODE)
    if there:
        machine.command("node", there)
        machine.command("npm", "")
    assert machine.run("node.sh").returncode == 0
    assert machine.apt_calls == ["-y -qq install --no-install-recommends nodejs npm"]


@pytest.mark.parametrize("installing", ["echo 'E: no network'; exit 100", "cp $here/bin/id $here/bin/node"])
def test_it_fails_when_it_could_not_be_installed(machine: Machine, installing: str) -> None:
    machine.apt(installing)
    done = machine.run("node.sh")
    assert (done.returncode, "nodejs npm" in done.stderr) == (1, True)
