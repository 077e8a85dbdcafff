"""Network namespaces on one bridge, in which processes are cut off from each other: Linux, root, iproute2.

    with namespaces("x", 7) as net:
        net.enter(3)            # the command before a program that runs in the third
        net.cut(3); net.heal(3)           # off everybody, in silence, as when a cable is pulled
        net.blind(3, [5, 6])              # the third's packets to these two get lost; they still see the others

The bridge is in a namespace of its own, which has the address 1 of the network: who runs there reaches all of them, and
nothing of it is on an interface of the machine.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NETWORK = "10.99.0"
#: Nobody has it, so what is sent there goes nowhere.
NOWHERE = "02:00:00:00:00:99"


class Namespaces:
    """Namespaces that exist; `host(n)` is the address of the n-th, from 1."""

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix, self.count = prefix, count

    @property
    def hub(self) -> str:
        return f"{self.prefix}hub"

    def enter(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", f"{self.prefix}{number}"]

    @staticmethod
    def host(number: int) -> str:
        return f"{NETWORK}.{10 + number}"

    def make(self) -> None:
        for command in (
            f"netns add {self.hub}",
            f"-n {self.hub} link set lo up",
            f"-n {self.hub} link add bridge type bridge forward_delay 0",
            f"-n {self.hub} link set bridge up",
            f"-n {self.hub} addr add {NETWORK}.1/24 dev bridge",
        ):
            ip(command)
        for number in range(1, self.count + 1):
            name, leg = f"{self.prefix}{number}", f"leg{number}"
            for command in (
                f"netns add {name}",
                f"-n {self.hub} link add {leg} type veth peer name wire netns {name}",
                f"-n {self.hub} link set {leg} master bridge up",
                f"-n {name} link set lo up",
                f"-n {name} addr add {self.host(number)}/24 dev wire",
                f"-n {name} link set wire up",
            ):
                ip(command)

    def remove(self) -> None:
        for name in (*(f"{self.prefix}{number}" for number in range(1, self.count + 1)), self.hub):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def cut(self, number: int) -> None:
        """Off the bridge: nothing comes or goes, and nobody is told."""
        ip(f"-n {self.hub} link set leg{number} nomaster")

    def heal(self, number: int) -> None:
        ip(f"-n {self.hub} link set leg{number} master bridge up")

    def blind(self, number: int, others: Iterable[int]) -> None:
        """What the one sends to these others gets lost, and with it every answer."""
        for other in others:
            ip(f"-n {self.prefix}{number} neigh replace {self.host(other)} lladdr {NOWHERE} nud permanent dev wire")

    def see(self, number: int, others: Iterable[int]) -> None:
        for other in others:
            ip(f"-n {self.prefix}{number} neigh del {self.host(other)} dev wire")


@contextmanager
def namespaces(prefix: str, count: int) -> Iterator[Namespaces]:
    net = Namespaces(prefix, count)
    net.remove()
    try:
        net.make()
        yield net
    finally:
        net.remove()


def ip(command: str) -> None:
    done = subprocess.run(["ip", *command.split()], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {command}: {done.stderr.strip()}; needs root on Linux, and iproute2"
