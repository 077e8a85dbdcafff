"""A real ZooKeeper for tests: one server or an ensemble, each its own process, killed, paused and started again.

The jars are those of the kit `zookeeper`. A server runs on loopback, or on the address of a network namespace with the
command that enters it: `tests.integration.namespaces`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from keylane.spark.jvm import find_java
from keylane.systems.jars import fetched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALL = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
#: A session lives two ticks at least.
TICK_MILLISECONDS = 500
START_SECONDS = 60.0


@dataclass
class ZooKeeperServers:
    """Servers on these addresses, numbered from 1; `enter` is the command before each of them."""

    folder: Path
    hosts: Sequence[str]
    ports: Sequence[int]
    enter: Sequence[Sequence[str]]
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """For clients: all servers."""
        return ",".join(f"{host}:{port}" for host, port in zip(self.hosts, self.ports, strict=True))

    def start(self, number: int) -> None:
        """Start a server on the data that it has."""
        home = self.folder / f"zookeeper-{number}"
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data" / "myid").write_text(str(number))
        (home / "zoo.cfg").write_text(self._settings(number))
        jars = os.pathsep.join(map(str, fetched("zookeeper")))
        java = [str(find_java().home / "bin" / "java"), *SMALL, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        main = ["-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg")]
        with (home / "log").open("ab") as log:
            # Without forced writes: no test here is about the power failing.
            command = [*self.enter[number - 1], *java, "-Dzookeeper.forceSync=no", *main]
            self.running[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def _settings(self, number: int) -> str:
        own = {
            "tickTime": TICK_MILLISECONDS,
            "initLimit": 10,
            "syncLimit": 4,
            "dataDir": self.folder / f"zookeeper-{number}" / "data",
            "clientPort": self.ports[number - 1],
            "clientPortAddress": self.hosts[number - 1],
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
            "maxClientCnxns": 0,
        }
        if len(self.hosts) > 1:
            own |= {f"server.{n}": f"{host}:28888:38888" for n, host in enumerate(self.hosts, 1)}
        return "".join(f"{name}={value}\n" for name, value in own.items())

    def end(self, number: int) -> None:
        """Kill a server, and wait until it is gone."""
        process = self.running.pop(number)
        process.kill()
        process.wait()

    def signal(self, number: int, what: signal.Signals) -> None:
        """Pause a server, or let it go on; returns when each of its threads has stopped, or begun again."""
        process = self.running[number]
        process.send_signal(what)
        until = time.monotonic() + START_SECONDS
        while any((state == "T") != (what == signal.SIGSTOP) for state in _thread_states(process.pid)):
            if time.monotonic() > until:
                raise TimeoutError(f"server {number} takes no notice of {what.name}")
            time.sleep(0.01)

    def mode(self, number: int) -> str:
        """leader, follower or standalone; empty while it does not serve. Asked from where it can be reached."""
        try:
            with socket.create_connection((self.hosts[number - 1], self.ports[number - 1]), timeout=1) as asked:
                asked.sendall(b"srvr")
                asked.settimeout(1)
                text = b"".join(iter(lambda: asked.recv(4096), b"")).decode()
        except OSError:
            return ""
        return text.partition("Mode: ")[2].partition("\n")[0]

    def wait(self, numbers: Sequence[int] | None = None, seconds: float = START_SECONDS) -> None:
        """Return when these servers serve."""
        until = time.monotonic() + seconds
        for number in numbers or range(1, len(self.hosts) + 1):
            while not self.mode(number):
                if time.monotonic() > until:
                    raise TimeoutError((self.folder / f"zookeeper-{number}" / "log").read_text()[-2000:])
                time.sleep(0.05)


def _thread_states(pid: int) -> list[str]:
    """The state of each thread of a process: a signal that stops it arrives at one after the other."""
    found = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            found.append(stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0])
    return found


@contextmanager
def zookeeper_running(
    folder: Path, hosts: Sequence[str], ports: Sequence[int], enter: Sequence[Sequence[str]] | None = None
) -> Iterator[ZooKeeperServers]:
    """Servers that serve, and are gone behind the block."""
    servers = ZooKeeperServers(folder, hosts, ports, enter or [[] for _ in hosts])
    try:
        for number in range(1, len(hosts) + 1):
            servers.start(number)
        servers.wait()
        yield servers
    finally:
        for process in servers.running.values():
            process.kill()
            process.wait()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
