"""A cluster from nothing to ready, and to nothing again. How a node is started: `nodes`; what it is told: `layout`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import BrokerError, UsageError
from keylane.systems import jars
from keylane.systems.broker import nodes
from keylane.systems.broker.layout import ADMIN, designed, properties
from keylane.systems.broker.ready import admin_client, wait_until_ready
from keylane.systems.broker.state import clear, find, held, write
from keylane.systems.broker.tls import make_tls, password_file, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from keylane.systems.broker.layout import Cluster

__all__ = ["down", "running", "up"]

HEAP: Final = "256m"
#: Three brokers need 5 s on two idle cores.
READY_SECONDS: Final = 120.0
SIZES: Final = (1, 3)


def up(
    folder: Path,
    brokers: int = 1,
    *,
    tls: bool = False,
    heap: str = HEAP,
    extra: Mapping[str, str] | None = None,
    tell: jars.Tell = jars.untold,
) -> tuple[Cluster, bool]:
    """A cluster that answers, in this folder, and whether it is new; one that runs there already is returned as it is.

    It outlives this process: `down` ends it. `extra` are settings for every broker.
    """
    if brokers not in SIZES:
        raise UsageError.of("a cluster has one broker or three", got=brokers, allowed="1, 3")
    admin_client({"bootstrap.servers": "127.0.0.1:1"})  # says what to install before anything is started
    paths = jars.fetched("broker", tell=tell)
    folder = folder.absolute()
    with held(folder):
        there = find(folder)
        if there is not None and all(nodes.process_of(there, node.number) for node in there.nodes):
            return _same(there, brokers, tls=tls), False
        _end(there)
        clear(folder)
        cluster = designed(folder, brokers, tls=tls, heap=heap)
        _start(cluster, paths, extra or {})
        return cluster, True


def down(folder: Path) -> Cluster | None:
    """End the cluster of this folder and remove its data; the logs stay. None when there was none."""
    folder = folder.absolute()
    if not folder.exists():
        return None
    with held(folder):
        there = find(folder)
        _end(there)
        clear(folder)
        return there


@contextmanager
def running(
    folder: Path | None = None,
    brokers: int = 1,
    *,
    tls: bool = False,
    heap: str = HEAP,
    extra: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A cluster of this process, in a folder of its own or a temporary one. It ends with the process, killed or not."""
    with tempfile.TemporaryDirectory(prefix="keylane-kafka-", ignore_cleanup_errors=True) as temporary:
        own = folder or Path(temporary)
        with _watched(own):
            try:
                yield up(own, brokers, tls=tls, heap=heap, extra=extra)[0]
            finally:
                down(own)


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """A process beside this one that ends the cluster when this one is gone: it sees its pipe close."""
    command = [sys.executable, "-m", "keylane.systems.broker.watch", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603
        yield


def _start(cluster: Cluster, paths: Sequence[Path], extra: Mapping[str, str]) -> None:
    numbers = [node.number for node in cluster.nodes]
    try:
        _write(cluster, extra)
        nodes.format_nodes(cluster, paths)
        write(cluster)
        for number in numbers:
            nodes.launch(cluster, number, paths)
        wait_until_ready(cluster, numbers, READY_SECONDS)
    except BaseException:
        _end(cluster)
        clear(cluster.folder)
        raise


def _write(cluster: Cluster, extra: Mapping[str, str]) -> None:
    (cluster.folder / "logs").mkdir(exist_ok=True)
    if cluster.tls:
        make_tls(cluster)
    password = password_file(cluster, ADMIN).read_text(encoding="ascii") if cluster.tls else ""
    for node in cluster.nodes:
        cluster.home(node.number).mkdir()
        write_private(cluster.home(node.number) / "server.properties", properties(cluster, node, extra, password))


def _end(cluster: Cluster | None) -> None:
    if cluster is not None:
        for node in cluster.nodes:
            nodes.end(cluster, node.number)


def _same(there: Cluster, brokers: int, *, tls: bool) -> Cluster:
    if (len(there.nodes), there.tls) != (brokers, tls):
        raise BrokerError.of(
            "another cluster runs in this folder",
            got=f"{len(there.nodes)} broker(s) at {there.bootstrap}{', TLS' if there.tls else ''}",
            hint="keylane dev kafka down, or another --dir",
        )
    return there
