"""One process a node: its folder formatted, the process started, signalled, seen. Which nodes: `layout`.

A node's process is in a session of its own and outlives its parent. `process.json` has its pid and
start time: a pid alone may belong to another process by now, which is never touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from keylane.errors import BrokerError
from keylane.spark.jvm import find_java
from keylane.systems.atomic import started, write_json
from keylane.systems.broker.layout import new_id
from keylane.systems.broker.tls import scram_users, write_private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from keylane.systems.broker.layout import Cluster

#: A broker for tests: little memory, and compiled quickly rather than well.
SMALL: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError")
LOG: Final = "-Dorg.slf4j.simpleLogger."
LOGGING: Final = (f"{LOG}defaultLogLevel=warn", f"{LOG}showDateTime=true", f"{LOG}dateTimeFormat=HH:mm:ss.SSS")
FORMAT_SECONDS: Final = 120
END_SECONDS: Final = 30.0


def format_nodes(cluster: Cluster, jars: Sequence[Path]) -> None:
    """Format the first node with Kafka's own tool and copy it to the others: the tool takes a JVM start each."""
    first = cluster.nodes[0].number
    users = [part for user in (scram_users(cluster) if cluster.tls else []) for part in ("--add-scram", user)]
    own = ["format", "-t", cluster.cluster_id, "-c", str(cluster.home(first) / "server.properties"), *users]
    arguments = cluster.home(first) / "format.args"
    # Passwords go through a file: arguments are visible to everyone who may list processes.
    write_private(arguments, _lines(["-Xmx64m", *SMALL[:3], *_main(jars, "kafka.tools.StorageTool"), *own]))
    done = subprocess.run(  # noqa: S603 - the user's own Java
        [_java(), f"@{arguments}"], capture_output=True, text=True, check=False, timeout=FORMAT_SECONDS
    )
    arguments.unlink()
    if done.returncode:
        raise BrokerError(f"Kafka could not format its folder: {complaint(done.stdout + done.stderr)}")
    for node in cluster.nodes[1:]:
        _format_after(cluster, first, node.number)


def _format_after(cluster: Cluster, first: int, number: int) -> None:
    data = cluster.home(number) / "data"
    data.mkdir()
    shutil.copy(cluster.home(first) / "data" / "bootstrap.checkpoint", data)
    about = {"version": 1, "cluster.id": cluster.cluster_id, "node.id": number, "directory.id": new_id()}
    (data / "meta.properties").write_text("".join(f"{k}={v}\n" for k, v in about.items()), encoding="ascii")


def launch(cluster: Cluster, number: int, jars: Sequence[Path]) -> int:
    """Start a node's process, detached, and record its pid."""
    home = cluster.home(number)
    heap = [f"-Xms{cluster.heap}", f"-Xmx{cluster.heap}"]
    write_private(
        home / "java.args",
        _lines([*heap, *SMALL, *LOGGING, *_main(jars, "kafka.Kafka"), str(home / "server.properties")]),
    )
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(cluster.log(number)), append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(_java(), [_java(), f"@{home / 'java.args'}"], os.environ, file_actions=streams, setsid=True)
    write_json(home / "process.json", {"pid": pid, "started": started(pid)})
    return pid


def process_of(cluster: Cluster, number: int) -> int | None:
    """The pid of a node's process; None when it is not running, also when another process has its pid by now."""
    try:
        noted = json.loads((cluster.home(number) / "process.json").read_text(encoding="ascii"))
    except (OSError, ValueError, RecursionError):
        return None
    _reap(noted["pid"])
    now = started(noted["pid"])
    return noted["pid"] if now is not None and now == noted["started"] else None


def send(cluster: Cluster, number: int, what: signal.Signals) -> None:
    """Send a signal to a running node."""
    pid = process_of(cluster, number)
    if pid is None:
        raise BrokerError.of("this node is not running", got=number)
    os.kill(pid, what)


def end(cluster: Cluster, number: int, seconds: float = END_SECONDS) -> bool:
    """Kill a node and wait for its end; False when it was not running. Kafka recovers its data from its log."""
    pid = process_of(cluster, number)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + seconds
    while process_of(cluster, number) is not None:
        if time.monotonic() > until:
            raise BrokerError.of("a node does not exit", got=pid, hint=f"kill -9 {pid}")
        time.sleep(0.02)
    return True


def last_words(cluster: Cluster, number: int) -> str:
    """The last error in a node's log, and where the log is."""
    log = cluster.log(number)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return f"{complaint(text) or 'no error logged'}; log: {log}"


def complaint(output: str) -> str:
    r"""The error in the output of a Java program: the last line that names one, and the next, without the stack trace.

    >>> complaint("fine\nError occurred\nToo small a heap\n\tat a.B.c(B.java:1)\nbye\n")
    'Error occurred: Too small a heap'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("\t")]
    named = [
        i for i, line in enumerate(lines) if any(word in line for word in ("Exception", "Error", "ERROR", "FATAL"))
    ]
    first = named[-1] if named else max(0, len(lines) - 2)
    return ": ".join(lines[first : first + 2])[:300]


def _reap(pid: int) -> None:
    """Collect a child that has exited; other processes are left alone."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _java() -> str:
    return str(find_java().home / "bin" / "java")


def _main(jars: Sequence[Path], name: str) -> list[str]:
    return ["-cp", os.pathsep.join(map(str, jars)), name]


def _lines(arguments: Sequence[str]) -> str:
    """Arguments as Java reads them from a file: each quoted, on a line of its own."""
    return "".join('"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for argument in arguments)
