"""What is refused, in words and in bounded time; and that no credential is in any of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.kinesis.replayed import ADDRESS

from keylane import shards_plan
from keylane.contract.fields import FieldSpec
from keylane.errors import BrokerError, DataError, LaneCountError, TargetError, UsageError
from keylane.keyspace.layout import layout_to_json, new_layout
from keylane.systems.endpoint import StreamOptions, open_endpoint, parse_address
from keylane.systems.kinesis.access import KinesisAccess, access_of, explained
from keylane.systems.kinesis.target import agree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kinesis.model import ModelService

    from keylane.contract.model import Contract

SECRET = "canary/5ecret+that+nobody+may+see"
ACCESS_KEY = "AKIACANARY0000000000"
TOKEN = "canary-token-that-nobody-may-see"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("kinesis://mars/s", "not a kinesis address"),
        ("kinesis://eu-west-1/", "not a kinesis address"),
        ("kinesis://eu-west-1/../../etc", "not a kinesis address"),
        ("kinesis://eu-west-1/a b", "not a kinesis address"),
        ("kinesis://eu-west-1/s\n", "not a kinesis address"),
        ("kinesis://eu-west-1/" + "s" * 129, "not a kinesis address"),
        ("kinesis://eu-west-1/s?", "not a kinesis address"),
        ("kinesis://eu-west-1/s?endpoint=ftp://h", "not an endpoint"),
        ("kinesis://eu-west-1/s?endpoint=http://h/path", "not an endpoint"),
        ("kinesis://eu-west-1/s?endpoint=http://h:port", "not an endpoint"),
        ("kinesis://eu-west-1/s?endpoint=", "not an endpoint"),
        ("kinesis://eu-west-1/s?profile=x", "no such option"),
        (f"kinesis://eu-west-1/s?endpoint=http://u:{SECRET.replace('/', '')}@h", "no user and no password"),
    ],
)
def test_hostile_addresses_are_refused_and_nothing_is_dialled(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        access_of(parse_address(address))
    assert "canary" not in str(caught.value)


def test_an_address_is_given_back_as_it_was() -> None:
    text = "kinesis://us-gov-west-1/a.b-c_1?endpoint=http://127.0.0.1:4567"
    assert str(parse_address(text)) == text
    assert access_of(parse_address(text)) == KinesisAccess("us-gov-west-1", "http://127.0.0.1:4567")


def test_a_stream_that_is_not_there(service: ModelService) -> None:
    assert service.streams == {}
    with pytest.raises(DataError, match="no such stream in eu-west-1"):
        open_endpoint(ADDRESS.format("nothing")).describe(FieldSpec())


@pytest.fixture
def target_of(
    service: ModelService, contract: Callable[..., Contract], tmp_path: Path
) -> Iterator[Callable[..., object]]:
    """Agree on a route into stream `t` by a contract with this spec."""
    service.create_stream(StreamName="s", ShardCount=1)

    def made(create: bool = False, **spec: object) -> object:
        options = StreamOptions(state=str(tmp_path / "state"), create=create, delivery="at-least-once")
        by = contract(**{"streams": ["t"], "partitioner": "kinesis-md5", "key": {"fields": ["key"]}, **spec})
        origin = open_endpoint(ADDRESS.format("s")).origin(None)
        return agree(by, origin, parse_address(ADDRESS.format("t")), options, None, None, print)

    yield made
    assert not (tmp_path / "state").exists(), "what is refused leaves nothing"


def test_targets_that_do_not_fit_are_refused_before_anything_is_made(
    service: ModelService, target_of: Callable[..., object]
) -> None:
    with pytest.raises(TargetError, match=r"no such stream.*--create"):
        target_of(lanes=2)
    with pytest.raises(TargetError, match="--create --lanes N"):
        target_of(lanes="live", create=True)
    service.create_stream(StreamName="t", ShardCount=2)
    service.create_stream(StreamName="t.dlq", ShardCount=1)
    with pytest.raises(LaneCountError, match="got 2; allowed: 3"):
        target_of(lanes=3)
    target_of(lanes=2)
    service.split_shard(StreamName="t", ShardToSplit="shardId-000000000000", NewStartingHashKey="2")
    with pytest.raises(TargetError, match="do not have the ranges"):
        target_of(lanes=3)
    target_of(lanes="live")
    target_of(lanes=3, partitioner="kafka-java")
    service.streams["t"].auto = True
    with pytest.raises(TargetError, match="AUTO"):
        target_of(lanes="live")


class Echo(BaseHTTPRequestHandler):
    """An endpoint that gives every header back in its error."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        text = f"{SECRET} {TOKEN} {ACCESS_KEY} {self.headers}"
        body = json.dumps({"__type": "InternalFailure", "message": text.replace("\n", " ")}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def run(*arguments: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    own = {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "KEYLANE_MASKS": "", **environ}
    command = [sys.executable, "-m", "keylane", *arguments]
    return subprocess.run(command, env={**kept, **own}, cwd=home, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "command",
    [
        "identify {}",
        "shards apply plan.json --stream {} --yes",
        *(
            pytest.param(command, marks=pytest.mark.faults)
            for command in (
                "check c.yaml --data {}",
                "profile {}",
                "shards plan --layout {} --cap 1 --measure read",
                "shards plan --layout {} --cap 1 --measure service",
                "verify --source {} --target {} -c c.yaml",
                "explain a --contract c.yaml --layout {}",
                "route c.yaml --from {} --to lanes --lanes 4 --dry-run",
            )
        ),
    ],
)
def test_no_credential_is_in_any_output_or_file(
    command: str, echo: str, tmp_path: Path, contract: Callable[..., Contract]
) -> None:
    four, three = (tmp_path / f"{count}.json" for count in (4, 3))
    for path, count in ((four, 4), (three, 3)):
        path.write_text(json.dumps(layout_to_json(new_layout(count))))
    shards_plan(four, to=three, out=tmp_path / "plan.json")
    by = contract(streams=["s"], lanes="live", key={"fields": ["key"]}, partitioner="kinesis-md5")
    (tmp_path / "c.yaml").write_text(json.dumps(by.model_dump(mode="json", by_alias=True, exclude_none=True)))
    given = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
    words = (word.format(f"kinesis://eu-west-1/s?endpoint={echo}") for word in command.split())
    done = run(*words, home=tmp_path, **given)
    assert (done.returncode, "InternalFailure" in done.stderr) == (1, True)
    text = done.stdout + done.stderr + "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert [secret for secret in (SECRET, ACCESS_KEY, TOKEN) if secret in text] == []
    assert "***" in done.stderr, "the canary did pass by"


def test_missing_credentials_and_a_dead_endpoint_are_refused(tmp_path: Path) -> None:
    nobody = run("identify", "kinesis://eu-west-1/s", home=tmp_path)
    assert (nobody.returncode, "no credentials for Kinesis" in nobody.stderr) == (2, True)
    given = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    dead = run("identify", "kinesis://eu-west-1/s?endpoint=http://127.0.0.1:1", home=tmp_path, **given)
    assert (dead.returncode, "cannot be reached" in dead.stderr) == (1, True)
    assert "Traceback" not in nobody.stderr + dead.stderr


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("UnrecognizedClientException", BrokerError, "refuses the credentials"),
        ("ExpiredTokenException", BrokerError, "refuses the credentials"),
        ("LimitExceededException", BrokerError, "answered with an error"),
        ("ResourceNotFoundException", DataError, "no such stream"),
    ],
)
def test_errors_of_the_service_have_words(code: str, kind: type[Exception], words: str) -> None:
    from botocore.exceptions import ClientError

    raised = ClientError({"Error": {"Code": code, "Message": "as it says"}}, "PutRecords")
    found = explained(raised, KinesisAccess("eu-west-1"), "s", DataError)
    assert (type(found), words in str(found)) == (kind, True)
