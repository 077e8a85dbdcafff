"""What a cluster is: its nodes, ports and folders, and the settings each node starts with. Starts nothing.

FOLDER/cluster.json              this value, while there is a cluster
FOLDER/node-1/server.properties  the settings of the node; data/ beside it, process.json while it runs
FOLDER/logs/node-1.log           its output; stays when the cluster is removed
FOLDER/tls/                      certificates and passwords, with TLS
"""

from __future__ import annotations

import base64
import random
import socket
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HOST: Final = "127.0.0.1"
#: Below the ephemeral ports of the system, so that they stay free while a node restarts.
PORTS: Final = range(12_000, 32_000)
#: The user of the brokers among each other where there are passwords.
ADMIN: Final = "admin"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Node:
    """One broker, which is also a controller. `mtls` is the port for clients with a certificate, where there is one."""

    number: int
    port: int
    controller: int
    mtls: int | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """What was created in a folder. Whether it is running: `nodes`."""

    folder: Path
    cluster_id: str
    nodes: tuple[Node, ...]
    heap: str
    tls: bool

    @property
    def bootstrap(self) -> str:
        """The address for clients; with TLS, the listener that requires a password."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    @property
    def mtls_bootstrap(self) -> str | None:
        """The listener that requires a certificate, where there is one."""
        return ",".join(f"{HOST}:{node.mtls}" for node in self.nodes) if self.tls else None

    def node(self, number: int) -> Node:
        """A node by its number, from 1."""
        for node in self.nodes:
            if node.number == number:
                return node
        raise BrokerError.of("no such node", got=number, allowed=", ".join(str(n.number) for n in self.nodes))

    def home(self, number: int) -> Path:
        """A node's folder."""
        return self.folder / f"node-{number}"

    def log(self, number: int) -> Path:
        """The log of a node."""
        return self.folder / "logs" / f"node-{number}.log"

    def as_json(self) -> dict[str, Any]:
        """As in `cluster.json`; the folder is its own."""
        document = asdict(self)
        del document["folder"]
        return document

    @classmethod
    def from_json(cls, folder: Path, document: Mapping[str, Any]) -> Cluster:
        """The inverse of `as_json`."""
        nodes = tuple(Node(**node) for node in document["nodes"])
        return cls(folder, document["cluster_id"], nodes, document["heap"], document["tls"])


def designed(folder: Path, brokers: int, *, tls: bool, heap: str, port: int | None = None) -> Cluster:
    """A cluster with ports that are free now: those of clients from `port` on, where it is given."""
    given = () if port is None else tuple(range(port, port + brokers))
    for taken in (one for one in given if not _is_free(one)):
        raise BrokerError.of("the port is in use", got=taken, hint="another --port, or none for a free one")
    ports = _free_ports(brokers * 3, given)
    nodes = tuple(
        Node(i + 1, given[i] if given else ports[3 * i], ports[3 * i + 1], ports[3 * i + 2] if tls else None)
        for i in range(brokers)
    )
    return Cluster(folder, new_id(), nodes, heap, tls)


def new_id() -> str:
    """An identifier as Kafka makes them: a UUID in 22 characters, without a leading dash, which reads as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _free_ports(count: int, but: Sequence[int] = ()) -> list[int]:
    free: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if port not in but and _is_free(port):
            free.append(port)
        if len(free) == count:
            return free
    raise BrokerError.of(
        "not enough free ports", got=len(free), allowed=f"{count} between {PORTS.start} and {PORTS.stop}"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def properties(cluster: Cluster, node: Node, extra: Mapping[str, str], password: str = "") -> str:
    """The text of a node's settings file."""
    settings = {
        **_common(cluster),
        **_own(cluster, node),
        **(_secured(cluster, password) if cluster.tls else {}),
        **extra,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _common(cluster: Cluster) -> dict[str, object]:
    copies = min(3, len(cluster.nodes))
    return {
        "controller.quorum.voters": ",".join(f"{n.number}@{HOST}:{n.controller}" for n in cluster.nodes),
        "controller.listener.names": "CONTROLLER",
        "default.replication.factor": copies,
        "min.insync.replicas": max(1, copies - 1),
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": max(1, copies - 1),
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": max(1, copies - 1),
        # A group of one needs no rebalance delay, and a topic with the wrong lane count is worse than none.
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        # A dead node is noticed in 3 s instead of 9.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 750,
        # The default is 128 MB, about half of the heap.
        "log.cleaner.dedupe.buffer.size": 4_194_304,
    }


def _own(cluster: Cluster, node: Node) -> dict[str, object]:
    outer = {"SASL_SSL": node.port, "SSL": node.mtls} if cluster.tls else {"PLAINTEXT": node.port}
    shown = [f"{name}://{HOST}:{port}" for name, port in outer.items()]
    kinds = [f"{name}:{name}" for name in outer]
    return {
        "process.roles": "broker,controller",
        "node.id": node.number,
        "listeners": ",".join([*shown, f"CONTROLLER://{HOST}:{node.controller}"]),
        "advertised.listeners": ",".join(shown),
        "listener.security.protocol.map": ",".join([*kinds, f"CONTROLLER:{'SSL' if cluster.tls else 'PLAINTEXT'}"]),
        "inter.broker.listener.name": next(iter(outer)),
        "log.dirs": cluster.home(node.number) / "data",
    }


def _secured(cluster: Cluster, password: str) -> dict[str, object]:
    login = f'{SCRAM} required username="{ADMIN}" password="{password}";'
    return {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        "listener.name.ssl.ssl.client.auth": "required",
        # Controllers know each other by the certificate of the cluster.
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": cluster.folder / "tls" / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": cluster.folder / "tls" / "ca.pem",
    }
