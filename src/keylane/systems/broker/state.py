"""Which cluster a folder holds, and whose folder it is: nothing that is not ours is touched or removed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from keylane.errors import BrokerError
from keylane.spark.cache import cache_folder
from keylane.systems.broker.layout import Cluster
from keylane.systems.durable import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["clear", "default_folder", "find", "held", "write"]

#: Says that a folder is ours, and is locked while a cluster is started or stopped there.
MARK: Final = ".keylane-kafka"
STATE: Final = "cluster.json"


def default_folder() -> Path:
    """Where `keylane dev kafka` has its cluster when it is given no folder."""
    folder = cache_folder()
    if folder is None:
        raise BrokerError.of("no folder for the cluster", got="KEYLANE_CACHE=''", hint="--dir DIR")
    return folder / "kafka"


def find(folder: Path) -> Cluster | None:
    """The cluster that was made here, running or not."""
    try:
        return Cluster.from_json(folder, json.loads((folder / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        got, hint = f"{folder / STATE}: {error!r}", "end its Java processes, then remove the folder"
        raise BrokerError.of("the state of this cluster cannot be read", got=got, hint=hint) from None


def write(cluster: Cluster) -> None:
    """Note that there is a cluster."""
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
        raise BrokerError.of("the folder for the cluster is a file", got=str(folder))
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise BrokerError.of(
            "this folder holds something else; nothing in it was touched",
            got=str(folder),
            allowed="a new or empty folder, or one that `keylane dev kafka` made",
        )
