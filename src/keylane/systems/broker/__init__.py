"""A real Kafka on this machine: one KRaft broker or three, on loopback, for development and tests.

    with running() as cluster:              # of this process: gone with it, however that ends
        print(cluster.bootstrap)
    cluster, is_new = up(folder)            # detached, as `keylane dev kafka up` has it; `down(folder)` ends it

    layout   what a cluster is: nodes, ports, folders, and the settings each node starts with
    tls      certificates and passwords of a cluster that asks for them, and the settings of clients that have them
    nodes    one process a node: format, start, signals
    cluster  all of it: up, down, running; which cluster a folder holds, and whether its nodes answer
    fill     a topic made from a file
    __main__ the process that stops a cluster when the one that started it is gone
    faults   nodes killed, paused and restarted, for tests

For a broker that is not ours: `keylane.systems.kafka`.
"""

from __future__ import annotations

from keylane.systems.broker.cluster import default_folder, down, find, running, up
from keylane.systems.broker.layout import Cluster, Node
from keylane.systems.broker.tls import java_settings, librdkafka_settings

__all__ = [
    "Cluster",
    "Node",
    "default_folder",
    "down",
    "find",
    "java_settings",
    "librdkafka_settings",
    "running",
    "up",
]
