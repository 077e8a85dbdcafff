"""Faults for a cluster that a test has started: a node killed, started again, stopped in its tracks and let go.

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
    """End a node as a crash of it does, and wait until it is gone."""
    if not nodes.end(cluster, number):
        raise BrokerError.of("this node does not run", got=number)


def restart(cluster: Cluster, number: int = 1, *, ready: bool = True, seconds: float = 120.0) -> None:
    """Start a node that has ended, on its own ports and data; return when it lists every node that runs."""
    if nodes.process_of(cluster, number) is not None:
        raise BrokerError.of("this node runs", got=number, hint="kill9 it first")
    nodes.launch(cluster, number, fetched("broker"))
    if ready:
        alive = [node.number for node in cluster.nodes if nodes.process_of(cluster, node.number) is not None]
        wait_until_ready(cluster, alive, seconds)


def pause(cluster: Cluster, number: int = 1) -> None:
    """Stop a node in its tracks (SIGSTOP): its connections stay open, and nobody answers."""
    nodes.send(cluster, number, signal.SIGSTOP)


def resume(cluster: Cluster, number: int = 1) -> None:
    """Let a paused node go on (SIGCONT), unaware that time has passed."""
    nodes.send(cluster, number, signal.SIGCONT)


@contextmanager
def paused(cluster: Cluster, number: int = 1) -> Iterator[None]:
    """A node that is paused inside the block, and let go whatever happens there."""
    pause(cluster, number)
    try:
        yield
    finally:
        resume(cluster, number)
