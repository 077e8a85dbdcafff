"""A Spark Connect server in a process of its own, for benchmarks and tests; PySpark's wheel has no script for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from keylane.spark.jvm import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 180


@contextmanager
def connect_server(master: str, conf: Mapping[str, str]) -> Iterator[str]:
    """The address of a server on this machine that ends with the block."""
    port = _free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        **conf,
    }
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [submit, "--master", master, *settings, "--class", MAIN, "spark-internal"]
    # Its output at the start is not shown elsewhere; a server that does not start is noticed by its port.
    nowhere = subprocess.DEVNULL
    server = subprocess.Popen(command, env=own_environment(), stdout=nowhere, stderr=nowhere)
    try:
        _wait_for(port, server)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def own_environment() -> dict[str, str]:
    """The environment without what a session of this process has set for itself."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    java = str(find_java().home)
    return {**own, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": java}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    message = f"no Spark Connect server on port {port} after {START_SECONDS} s"
    raise RuntimeError(message)
