"""A real HDFS on this machine, a name node and a data node, from one jar beside the Hadoop that Spark brings."""

from __future__ import annotations

import json
import os
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.conftest import ROOT, daemon, free_port, stopped, wait_until

from keylane.systems.jars import Jar, check, lacking, retrieve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JARS: Final = (
    Jar(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        "3.5.0",
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
        (),
    ),
)
_LIVE: Final = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


@contextmanager
def hdfs(base: Path) -> Iterator[str]:
    """Its address; it ends with the block. Files are in `base`, which only its own processes read."""
    folder = ROOT / "build" / "cache" / "hdfs"
    folder.mkdir(parents=True, exist_ok=True)
    if away := lacking(JARS, folder):
        retrieve(away, folder, check)
    port, page = free_port(), free_port()
    address = f"hdfs://127.0.0.1:{port}"
    write_settings(base, {"core": {"fs.defaultFS": address}, "hdfs": _settings(base, port, page)})
    classes = [str(base), *(str(folder / jar.file) for jar in JARS)]

    def node(name: str, *arguments: str) -> Any:
        return daemon(base, f"org.apache.hadoop.hdfs.server.{name}", *arguments, classes=classes)

    assert node("namenode.NameNode", "-format", "-force").wait(120) == 0
    started = [node("namenode.NameNode"), node("datanode.DataNode")]
    with stopped(started):
        wait_until(lambda: _live(page) == 1, started)
        yield address


def _settings(base: Path, port: int, page: int) -> dict[str, str]:
    here = "127.0.0.1"
    return {
        "dfs.namenode.name.dir": (base / "names").as_uri(),
        "dfs.datanode.data.dir": (base / "blocks").as_uri(),
        "dfs.namenode.rpc-address": f"{here}:{port}",
        "dfs.namenode.http-address": f"{here}:{page}",
        **{f"dfs.datanode.{name}address": f"{here}:0" for name in ("", "http.", "ipc.")},
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
    }


def write_settings(base: Path, files: dict[str, dict[str, str]]) -> None:
    for name, given in files.items():
        lines = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in given.items()]
        text = f"<configuration>{os.linesep.join(lines)}</configuration>"
        (base / f"{name}-site.xml").write_text(text, encoding="utf-8")


def _live(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/{_LIVE}", timeout=30) as answer:
            return int(json.load(answer)["beans"][0]["NumLiveDataNodes"])
    except (OSError, LookupError, ValueError):
        return 0
