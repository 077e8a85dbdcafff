"""A cluster from nothing to ready, and to nothing again. How a node is started: `nodes`; its settings: `layout`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, MissingExtraError, UsageError
from keylane.numbers import plural
from keylane.spark.jvm import cache_folder
from keylane.systems import jars
from keylane.systems.atomic import write_json
from keylane.systems.broker import nodes
from keylane.systems.broker.layout import ADMIN, HOST, Cluster, designed, properties
from keylane.systems.broker.nodes import last_words, process_of
from keylane.systems.broker.tls import (
    client_file,
    client_properties,
    librdkafka_settings,
    make_tls,
    password_file,
    write_private,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# Which cluster a folder holds: a folder that keylane did not make is never touched.

#: Marks a folder as ours, and is locked while a cluster is started or stopped there.
MARK: Final = ".keylane-kafka"
STATE: Final = "cluster.json"


def default_folder() -> Path:
    """The default folder of `keylane dev kafka`."""
    folder = cache_folder()
    if folder is None:
        raise BrokerError.of("the cluster needs a folder, and caching is off", got="KEYLANE_CACHE=''", hint="--dir DIR")
    return folder / "kafka"


def find(folder: Path) -> Cluster | None:
    """The cluster that was made here, running or not."""
    try:
        return Cluster.from_json(folder, json.loads((folder / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        got, hint = f"{folder / STATE}: {error!r}", "stop its Java processes, then remove the folder"
        raise BrokerError.of("the state of this cluster cannot be read", got=got, hint=hint) from None


def write(cluster: Cluster) -> None:
    """Record the cluster in its folder."""
    write_json(cluster.folder / STATE, cluster.as_json())


def clear(folder: Path) -> None:
    """Remove a cluster's data and state. The logs stay, and so does the mark."""
    for part in (*folder.glob("node-*"), folder / "tls"):
        shutil.rmtree(part, ignore_errors=True)
    (folder / STATE).unlink(missing_ok=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder that is ours, or new, or empty; a second holder waits for the first."""
    _check_ours(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check_ours(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise BrokerError.of("the cluster folder is a file", got=str(folder))
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise BrokerError.of(
            "the folder is not a cluster of keylane; nothing in it was changed",
            got=str(folder),
            allowed="a new or empty folder, or one that `keylane dev kafka` made",
        )


# Whether a node answers: it lists every broker of its cluster, asked on its own port. Needs the extra `kafka`.


def admin_client(settings: dict[str, str]) -> Any:
    """confluent-kafka's, silenced on stderr while no broker answers yet."""
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise MissingExtraError.named("kafka", "confluent-kafka") from None
    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
    return AdminClient({"reconnect.backoff.max.ms": "200", **settings, **quiet})


def brokers_at(settings: dict[str, str], seconds: float) -> int | None:
    """How many brokers are listed there; None without an answer in time."""
    client = admin_client(settings)
    from confluent_kafka import KafkaException

    try:
        return len(client.list_topics(timeout=seconds).brokers)
    except KafkaException:
        return None


def answers(cluster: Cluster, number: int, seconds: float = 2.0) -> bool:
    """Whether a node answers."""
    return bool(brokers_at(_own_settings(cluster, number), seconds))


def _own_settings(cluster: Cluster, number: int) -> dict[str, str]:
    return {**librdkafka_settings(cluster), "bootstrap.servers": f"{HOST}:{cluster.node(number).port}"}


def wait_until_ready(cluster: Cluster, numbers: Sequence[int], seconds: float) -> None:
    """Return when each of these nodes lists them all; an error when one exits, or after `seconds`."""
    until = time.monotonic() + seconds
    for number in numbers:
        settings = _own_settings(cluster, number)
        while (brokers_at(settings, 1.0) or 0) < len(numbers):
            _check_alive(cluster, numbers)
            if time.monotonic() > until:
                raise BrokerError(f"node {number} did not answer within {seconds:.0f} s: {last_words(cluster, number)}")
            time.sleep(0.1)


def _check_alive(cluster: Cluster, numbers: Sequence[int]) -> None:
    for number in numbers:
        if process_of(cluster, number) is None:
            raise BrokerError(f"node {number} exited during start-up: {last_words(cluster, number)}")


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
    port: int | None = None,
    tell: jars.Tell = jars.silent,
) -> tuple[Cluster, bool]:
    """A cluster that answers, in this folder, and whether it is new; one that runs there already is returned as it is.

    It outlives this process: `down` stops it. `extra` are settings for every broker. Clients find the first broker at
    `port` and the others at those after it; at free ports where it is not given.
    """
    if brokers not in SIZES:
        raise UsageError.of("a cluster has one broker or three", got=brokers, allowed="1, 3")
    admin_client({"bootstrap.servers": "127.0.0.1:1"})  # raises MissingExtraError before anything is started
    paths = jars.fetched("broker", tell=tell)
    folder = folder.absolute()
    with held(folder):
        there = find(folder)
        if there is not None and all(nodes.process_of(there, node.number) for node in there.nodes):
            return _same(there, brokers, tls=tls, port=port), False
        _end(there)
        clear(folder)
        cluster = designed(folder, brokers, tls=tls, heap=heap, port=port)
        _start(cluster, paths, extra or {})
        return cluster, True


def down(folder: Path) -> Cluster | None:
    """Stop the cluster of this folder and remove its data; the logs stay. None when there was none."""
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
    port: int | None = None,
) -> Iterator[Cluster]:
    """A cluster of this process, in its own folder or a temporary one. It ends with the process, also if killed."""
    with tempfile.TemporaryDirectory(prefix="keylane-kafka-", ignore_cleanup_errors=True) as temporary:
        own = folder or Path(temporary)
        with _watched(own):
            try:
                yield up(own, brokers, tls=tls, heap=heap, extra=extra, port=port)[0]
            finally:
                down(own)


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """A second process that stops the cluster when this one is gone: its pipe is closed then."""
    command = [sys.executable, "-m", "keylane.systems.broker", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603  Python, by our own arguments
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
        write_private(client_file(cluster), client_properties(cluster))
    password = password_file(cluster, ADMIN).read_text(encoding="ascii") if cluster.tls else ""
    for node in cluster.nodes:
        # For its owner alone, also where the folder above was there before: records are in it.
        cluster.home(node.number).mkdir(mode=0o700)
        write_private(cluster.home(node.number) / "server.properties", properties(cluster, node, extra, password))


def _end(cluster: Cluster | None) -> None:
    if cluster is not None:
        for node in cluster.nodes:
            nodes.end(cluster, node.number)


def _same(there: Cluster, brokers: int, *, tls: bool, port: int | None) -> Cluster:
    if (len(there.nodes), there.tls) != (brokers, tls) or port not in (None, there.nodes[0].port):
        raise BrokerError.of(
            "another cluster is running in this folder",
            got=f"{plural(len(there.nodes), 'broker')} at {there.bootstrap}{', TLS' if there.tls else ''}",
            hint="keylane dev kafka down, or another --dir",
        )
    return there
