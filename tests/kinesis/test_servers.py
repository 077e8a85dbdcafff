"""The servers that other tests lean on: installed as pinned, on loopback only, and gone with the run."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.kinesis.servers import HERE, _npm_ci

from keylane.errors import TargetError
from keylane.keyspace.layout import layout_of
from keylane.systems.endpoint import parse_address
from keylane.systems.kinesis.access import access_of
from keylane.systems.kinesis.shards import create_stream, describe_stream, shards_of

if TYPE_CHECKING:
    from tests.kinesis.servers import KinesisServer

pytestmark = pytest.mark.node


def test_keys_are_put_where_their_hash_says(kinesalite: KinesisServer) -> None:
    client, name = kinesalite.client(), kinesalite.fresh_stream(4)
    keys = [f"key-{number}" for number in range(50)]
    answer = client.put_records(StreamName=name, Records=[{"Data": b"x", "PartitionKey": key} for key in keys])
    shards = [int(hashlib.md5(key.encode()).hexdigest(), 16) >> 126 for key in keys]
    assert [one["ShardId"] for one in answer["Records"]] == [f"shardId-{shard:012d}" for shard in shards]


def test_a_split_shard_is_closed_and_has_children(kinesis_local: KinesisServer) -> None:
    client, name = kinesis_local.client(), kinesis_local.fresh_stream(1)
    client.split_shard(StreamName=name, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    kinesis_local.until_active(name)
    shards = client.list_shards(StreamName=name)["Shards"]
    assert ["EndingSequenceNumber" in shard["SequenceNumberRange"] for shard in shards] == [True, False, False]


@pytest.mark.parametrize("server", ["kinesalite", "kinesis_local"])
def test_a_stream_is_created_and_known_by_when_it_was(server: str, request: pytest.FixtureRequest) -> None:
    running: KinesisServer = request.getfixturevalue(server)
    access, name = access_of(parse_address(running.address("x"))), f"made-on-{running.endpoint[-5:]}"
    create_stream(access, name, 3)
    facts = describe_stream(access, name)
    assert len(layout_of(shards_of(access, name).open).open) == 3
    assert (facts.heeds_keys, facts.record_bytes, name in facts.id) == (True, 1 << 20, True)
    running.client().delete_stream(StreamName=name)
    with pytest.raises(TargetError, match=r"no such stream|cannot be used now"):
        describe_stream(access, name, TargetError)


@pytest.mark.parametrize("server", ["kinesalite", "kinesis_local"])
def test_a_server_listens_on_loopback_only(server: str, request: pytest.FixtureRequest) -> None:
    running: KinesisServer = request.getfixturevalue(server)
    port = urlsplit(running.endpoint).port
    tables = [Path(f"/proc/net/{table}").read_text() for table in ("tcp", "tcp6")]
    listening = [line.split()[1] for table in tables for line in table.splitlines()[1:] if line.split()[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


def test_a_package_with_another_checksum_is_refused(tmp_path: Path) -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    lock["packages"] = {"": lock["packages"][""], **{k: v for k, v in lock["packages"].items() if k.endswith("lazy")}}
    lock["packages"][""]["dependencies"] = {"lazy": lock["packages"]["node_modules/lazy"]["version"]}
    (tmp_path / "package.json").write_text(json.dumps({"private": True, **lock["packages"][""]}))
    (tmp_path / "package-lock.json").write_text(json.dumps(lock))
    _npm_ci(tmp_path)
    lock["packages"]["node_modules/lazy"]["integrity"] = "sha512-" + "A" * 86 + "=="
    (tmp_path / "package-lock.json").write_text(json.dumps(lock))
    with pytest.raises(RuntimeError, match="EINTEGRITY"):
        _npm_ci(tmp_path)


def test_a_killed_run_leaves_no_server(tmp_path: Path) -> None:
    waiting = f"require({json.dumps(str(HERE / 'loopback.js'))}); require('http').createServer().listen(1)"
    script = (
        "import subprocess, sys, os, signal\n"
        "server = subprocess.Popen(['node', '-e', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "server.stdout.readline(); print(server.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, waiting], stdout=subprocess.PIPE, text=True, check=False)
    last = time.monotonic() + 120
    while Path(f"/proc/{int(run.stdout)}").exists():
        assert time.monotonic() < last, "the server runs on"
        time.sleep(0.01)
