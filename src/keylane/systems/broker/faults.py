"""Faults for a cluster that a test has started: a node killed, restarted, paused and resumed.

The cluster itself comes from `keylane.systems.broker.running`. Each function takes the cluster and a
node's number, from 1.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keylane.errors import BrokerError
from keylane.systems.broker import nodes
from keylane.systems.broker.cluster import wait_until_ready
from keylane.systems.jars import fetched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker.layout import Cluster


def kill9(cluster: Cluster, number: int = 1) -> None:
    """Kill a node, and wait until it is gone."""
    if not nodes.end(cluster, number):
        raise BrokerError.of("this node is not running", got=number)


def restart(cluster: Cluster, number: int = 1, *, ready: bool = True, seconds: float = 120.0) -> None:
    """Start a stopped node on its own ports and data; return when it lists every running node."""
    if nodes.process_of(cluster, number) is not None:
        raise BrokerError.of("this node is running", got=number, hint="kill9 it first")
    nodes.launch(cluster, number, fetched("broker"))
    if ready:
        alive = [node.number for node in cluster.nodes if nodes.process_of(cluster, node.number) is not None]
        wait_until_ready(cluster, alive, seconds)


def pause(cluster: Cluster, number: int = 1) -> None:
    """Pause a node (SIGSTOP): its connections stay open, without answers."""
    nodes.send(cluster, number, signal.SIGSTOP)


def resume(cluster: Cluster, number: int = 1) -> None:
    """Resume a paused node (SIGCONT)."""
    nodes.send(cluster, number, signal.SIGCONT)


@contextmanager
def paused(cluster: Cluster, number: int = 1) -> Iterator[None]:
    """A node that is paused inside the block, and always resumed."""
    pause(cluster, number)
    try:
        yield
    finally:
        resume(cluster, number)
