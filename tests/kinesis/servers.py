"""Kinesis servers on loopback for tests: kinesalite (routing, bounds, order) and kinesis-local (life cycle, limits).

They are installed by npm from `npm/package-lock.json`, which pins each package with its checksum, into the cache folder
of the tests, once for each lock file. Both keep everything in memory. Neither throttles, and each is wrong somewhere:

    kinesalite      splits and merges closed shards, knows no ChildShards, no UpdateShardCount and no ShardFilter
    kinesis-local   bounds of a new stream are some keys low where shards are a power of two; takes 501 records

The fixtures `kinesalite` and `kinesis_local` of `tests/conftest.py` are one server each for the whole run: make a
stream of your own with `fresh_stream`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shutil import copy, rmtree
from tempfile import mkdtemp
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent / "npm"
REGION: Final = "eu-west-1"
#: What the servers take is anything; tests of secrets have their own.
ACCESS: Final = {"AWS_ACCESS_KEY_ID": "a-key-of-tests", "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests"}
#: How long the servers say that a change of a stream takes.
CHANGE_MS: Final = 20
SHARD_LIMIT: Final = 100_000
#: Until a server answers; npm has its own limits.
START_SECONDS: Final = 60
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class KinesisServer:
    """A server that answers, at an endpoint on loopback."""

    endpoint: str

    def client(self, **more: Any) -> Any:
        """A boto3 client of it, without retries of its own."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "kinesis",
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=ACCESS["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"max_attempts": 0}, connect_timeout=5, read_timeout=30, **more),
        )

    def address(self, stream: str) -> str:
        """A stream of it as an address of keylane."""
        return f"kinesis://{REGION}/{stream}?endpoint={self.endpoint}"

    def fresh_stream(self, shards: int = 1, client: Any = None) -> str:
        """A new stream with a name of its own, ready to be used."""
        client, name = client or self.client(), f"stream-{os.getpid()}-{next(_NUMBERS)}"
        client.create_stream(StreamName=name, ShardCount=shards)
        self.until_active(name, client)
        return name

    def until_active(self, stream: str, client: Any = None) -> None:
        """Wait until a stream is created, or its shards are changed."""
        client, last = client or self.client(), time.monotonic() + START_SECONDS
        while client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
            assert time.monotonic() < last, f"{stream} is not active"
            time.sleep(CHANGE_MS / 1000)


def installed(cache: Path) -> Path:
    """The folder with the servers' `node_modules`, installed there if need be; safe beside other test runs."""
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in names)).hexdigest()[:16]
    folder = cache / "kinesis-servers" / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = Path(mkdtemp(dir=folder.parent))
            try:
                for name in names:
                    copy(HERE / name, made)
                _npm_ci(made)
                made.rename(folder)
            finally:
                rmtree(made, ignore_errors=True)
    return folder


def _npm_ci(folder: Path) -> None:
    """What the lock file pins, each package checked by its checksum; no script of a package is run."""
    command = ["npm", "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"npm could not install the Kinesis servers:\n{done.stdout}{done.stderr}")


@contextmanager
def kinesalite_running(cache: Path, log: Path) -> Iterator[KinesisServer]:
    """A kinesalite, for as long as this is open."""
    program = installed(cache) / "node_modules" / "kinesalite" / "cli.js"
    times = [f"--{name}StreamMs={CHANGE_MS}" for name in ("create", "delete", "update")]
    with _running([str(program), "--port=4567", *times, f"--shardLimit={SHARD_LIMIT}"], {}, "4567", log) as port:
        yield KinesisServer(f"http://127.0.0.1:{port}")


@contextmanager
def kinesis_local_running(cache: Path, log: Path) -> Iterator[KinesisServer]:
    """A kinesis-local, for as long as this is open."""
    folder = installed(cache) / "node_modules" / "kinesis-local"
    changes = ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")
    environ = {
        **{f"{change}_DURATION": f"{CHANGE_MS}ms" for change in changes},
        "KINESIS_MOCK_CERT_PATH": str(folder / "server.json"),
        "KINESIS_MOCK_PLAIN_PORT": "4568",
        "KINESIS_MOCK_TLS_PORT": "4567",
        "SHARD_LIMIT": str(SHARD_LIMIT),
        "ON_DEMAND_STREAM_COUNT_LIMIT": "100",
        "LOG_LEVEL": "ERROR",
    }
    with _running([str(folder / "main.js")], environ, "4568", log) as port:
        yield KinesisServer(f"http://127.0.0.1:{port}")


@contextmanager
def _running(arguments: list[str], environ: dict[str, str], asked: str, log: Path) -> Iterator[int]:
    """The port that a server got where it asked for this one; what else it prints is in the log."""
    command = ["node", "-r", str(HERE / "loopback.js"), *arguments]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield _port(process.stdout, asked, log)
        finally:
            process.kill()


def _port(printed: IO[str], asked: str, log: Path) -> int:
    for line in printed:
        words = line.split()
        if words[:2] == ["listening", asked]:
            return int(words[2])
    raise RuntimeError(f"a Kinesis server ended before it listened: {log.read_text()}")
