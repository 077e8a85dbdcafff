"""A session on a machine with other users: what they can read of its records, and what its ports answer them.

One session in a process of its own, killed at the end. A stranger is this process under another user id.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.listening_sockets import LOOPBACK, answer_of, descendants, listening

from keylane.systems.atomic import started

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.jvm

CANARY = "CANARY-4111111111111111"
STRANGER = 12345
#: Records are shuffled and cached on the disk, and a Python worker writes a temporary file; then it waits.
PROGRAM = """
import sys, tempfile
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F
from tests.route.killable_routes import quick_conf
from keylane.spark import local_session
from keylane.spark.hashes import arrow_udf
spark = local_session("local[2]", {**quick_conf(), **eval(sys.argv[1])})
def worker(keys):
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(keys[0].as_py() + " of a worker")
    return keys
# Without compression: the test looks for the records' own bytes.
frame = spark.range(2000).select(F.concat(F.lit("CANARY-4111111111111111-"), "id").alias("k")).repartition(5, "k")
frame = frame.select(arrow_udf(worker, "string")("k").alias("k")).persist(StorageLevel.DISK_ONLY)
frame.count()
spark.sql("CREATE TABLE kept USING parquet AS SELECT 'CANARY-4111111111111111' AS k")
print(spark.sparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
"""
PLAIN = {
    **dict.fromkeys(("spark.shuffle.compress", "spark.rdd.compress"), "false"),
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.parquet.compression.codec": "none",
}


def session(folder: Path, **conf: str) -> tuple[subprocess.Popen[str], int]:
    """A process with a session, whose temporary folder this is; and its Java."""
    from tests.route.killable_routes import environment

    env = {**environment(), "TMPDIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, repr({**PLAIN, **conf})]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=folder, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait_for_the_end(java: int) -> None:
    """Java holds the lock of the folder for as long as it runs."""
    until = time.monotonic() + 120
    while started(java) is not None and time.monotonic() < until:
        time.sleep(0.1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """A temporary folder as a machine has it: everyone may write to it, and read what others leave readable.

    Not one of pytest's, which closes the folder above its own whenever one of its runs begins.
    """
    with tempfile.TemporaryDirectory(prefix="shared-") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


@pytest.fixture(scope="module")
def running(shared: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process, java = session(shared)
    yield process, java
    if process.poll() is None:
        ended(process)


def seen_by_all(folder: Path) -> list[str]:
    """The files with the canary that every user can read: no folder on the way to them is closed."""
    out = []
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if (Path(at) / name).stat().st_mode & 0o001]
        readable = (Path(at) / name for name in names if (Path(at) / name).stat().st_mode & 0o004)
        out += [str(path) for path in readable if CANARY.encode() in path.read_bytes()]
    return out


def with_canary(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if CANARY.encode() in path.read_bytes()]


def test_no_record_in_the_temporary_folder_can_be_read_by_others(
    shared: Path, running: tuple[subprocess.Popen[str], int]
) -> None:
    there = with_canary(shared)
    kinds = {"shuffle": "shuffle_", "cache": "rdd_", "worker": "/tmp", "table": "warehouse"}
    found = {kind: any(word in str(path).removeprefix(str(shared)) for path in there) for kind, word in kinds.items()}
    assert found == dict.fromkeys(kinds, True), "the test sees nothing where there is nothing to see"
    assert seen_by_all(shared) == []
    assert [path.name for path in shared.iterdir() if path.stat().st_mode & 0o077] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a stranger; the modes are checked by the test above")
def test_a_stranger_reads_nothing(shared: Path, running: tuple[subprocess.Popen[str], int]) -> None:
    planted = shared / "planted"
    planted.write_text(CANARY)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        read = []
        for at, _, names in os.walk(shared):
            for name in names:
                try:
                    read += [name] * (CANARY.encode() in (Path(at) / name).read_bytes())
                except OSError:
                    continue
        os.write(writer, " ".join(read).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    planted.unlink()
    assert found == "planted", "the twin alone"


#: Spark's frame: length, type (3 is a request), its number, the length of its body, the body. This one names the
#: driver's endpoints as Spark's own client does, and goes on with what Java's deserializer is meant to read.
BODY = b"\x00\x01\x00\x09127.0.0.1\x00\x00\x00\x01\x00\x11endpoint-verifier" + b"\xac\xed\x00\x05t\x00\x04boom"
REQUEST = struct.pack(">BqI", 3, 4711, len(BODY)) + BODY
FRAME = struct.pack(">Q", len(REQUEST) + 8) + REQUEST


def deserialized(port: int, seconds: float = 2.0) -> bool:
    """Whether Java's deserializer got the request of a stranger: the driver's complaint names what was in it."""
    return b"boom" in answer_of(port, FRAME, seconds, until=b"boom")


def test_every_port_is_on_loopback_and_refuses_who_has_no_secret(running: tuple[subprocess.Popen[str], int]) -> None:
    process, java = running
    ports = [port for pid in descendants(process.pid) for port in listening(pid)]
    assert len(listening(java)) >= 3, "Py4J, the driver, the block manager"
    assert {address for address, _ in ports} <= LOOPBACK
    for _, port in ports:
        assert not deserialized(port)
        # Py4J: an answer that is not an error begins with `!y`.
        told = answer_of(port, b"c\nz:java.lang.System\ngetProperty\nsjava.version\ne\n")
        assert b"!y" not in told
        assert b"17." not in told


def test_no_secret_is_an_argument(running: tuple[subprocess.Popen[str], int]) -> None:
    process, java = running
    for pid in (process.pid, java):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        named = re.compile("secret|password|token(?!-provider)", re.IGNORECASE)
        assert [word for word in arguments if named.search(word)] == []


def test_what_a_killed_session_leaves_is_removed_by_the_next(
    shared: Path, running: tuple[subprocess.Popen[str], int]
) -> None:
    process, java = running
    ended(process)
    wait_for_the_end(java)
    assert with_canary(shared) != [], "Java was killed too, and had no time to tidy up"
    assert seen_by_all(shared) == []
    program = "from keylane.private import own_folder\nwith own_folder(): pass"
    until = time.monotonic() + 120
    # A worker of Java's that has not ended yet holds the lock a moment longer than Java.
    while any(shared.iterdir()) and time.monotonic() < until:
        subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TMPDIR": str(shared)})
    assert [path.name for path in shared.iterdir()] == []


@pytest.mark.faults
@pytest.mark.parametrize("how", ["ends", "python is killed"])
def test_a_session_that_ends_leaves_nothing(tmp_path: Path, how: str) -> None:
    process, java = session(tmp_path)
    if how == "ends":
        process.communicate()
        assert process.returncode == 0
    else:
        process.kill()
        process.communicate()
    wait_for_the_end(java)
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.faults
def test_folders_that_the_user_chose_hold_private_ones(tmp_path: Path) -> None:
    chosen = tmp_path / "fast disk"
    process, _ = session(tmp_path, **{"spark.local.dir": str(chosen)})
    try:
        assert any(path.is_relative_to(chosen) for path in with_canary(tmp_path))
        assert seen_by_all(tmp_path) == []
    finally:
        ended(process)


@pytest.mark.faults
def test_twin_a_session_without_a_secret_reads_what_a_stranger_sends(tmp_path: Path) -> None:
    process, java = session(tmp_path, **{"spark.authenticate": "false", "spark.network.crypto.enabled": "false"})
    try:
        assert any(deserialized(port) for _, port in listening(java))
    finally:
        ended(process)
