"""What tests of migrations from and into streams of shards share: contracts, records with their source, answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from keylane.systems.kinesis.aggregated import UserRecord, packed

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from keylane.documents.migrate import MigrateCertificateDocument

#: Keys of each writer.
KEYS: Final = 7


def put(client: Any, stream: str, writer: str, n: int, epoch: int = 1) -> None:
    """One record, in the form that a route and `keylane.systems.kinesis.put` write: tags beside one user record."""
    tags = (("keylane.source", f"{writer}/0/{n}"), ("keylane.epoch", str(epoch)))
    key = f"{writer}-{n % KEYS}"
    data = packed([UserRecord(key, b"x", None, tags)])
    client.put_record(StreamName=stream, Data=data, PartitionKey=key)


def contract(path: Path, stream: str, lanes: int | str, epoch: int, **spec: Any) -> Path:
    known = {"streams": [stream], "lanes": lanes, "key": {"fields": ["key"]}, "partitioner": "kinesis-md5", **spec}
    metadata = {"name": "accounts", "epoch": epoch}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": known}
    path.write_text(yaml.safe_dump(document))
    return path


def printed(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def broken(found: dict[str, Any]) -> dict[str, int]:
    return {one["rule"]: one["broken"] for one in found["rules"] if one["broken"]}


def judged(found: MigrateCertificateDocument) -> dict[str, int]:
    return {one.rule: one.broken for one in found.rules if one.broken}
