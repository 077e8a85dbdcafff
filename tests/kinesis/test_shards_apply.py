"""`keylane shards plan --out` and `shards apply` on real servers: kills, and streams that somebody else changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.kinesis.command import run
from tests.running import keylane

from keylane.keyspace.layout import ShardLayout, layout_to_json, new_layout
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.kinesis.servers import KinesisServer


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def planned(server: KinesisServer, stream: str, folder: Path, wanted: int = 3) -> Path:
    """A saved plan of the stream as it is, to so many equal shards."""
    to, plan = folder / "wanted.json", folder / "plan.json"
    to.write_text(json.dumps(layout_to_json(new_layout(wanted))))
    done = keylane("shards", "plan", "--layout", server.address(stream), "--to", to, "--out", plan, "--force")
    assert done.code == 3, done.err
    return plan


def layout(server: KinesisServer, stream: str) -> ShardLayout:
    return open_endpoint(server.address(stream)).layout()


def test_a_plan_is_dry_then_made_then_done(kinesalite: KinesisServer, tmp_path: Path) -> None:
    stream = kinesalite.fresh_stream(4)
    plan = planned(kinesalite, stream, tmp_path)
    dry = run("shards", "apply", str(plan), "-o", "json")
    assert (dry.returncode, printed(dry)["left"], printed(dry)["applied"]) == (3, 5, False)
    assert layout(kinesalite, stream).starts == new_layout(4).starts
    made = run("shards", "apply", str(plan), "--yes", "-o", "json")
    assert made.returncode == 0, made.stderr
    assert (printed(made)["done"], printed(made)["now"], printed(made)["left"]) == (5, 5, 0)
    assert layout(kinesalite, stream).starts == new_layout(3).starts
    again = run("shards", "apply", str(plan), "--yes", "-o", "json")
    assert (again.returncode, printed(again)["now"]) == (0, 0)


#: A call that was made and not recorded is what a second run could make twice.
KILLS = ["behind", *(pytest.param(where, marks=pytest.mark.faults) for where in ("before", "recorded"))]


@pytest.mark.parametrize("where", KILLS)
def test_killed_at_a_call_it_goes_on_and_makes_none_twice(
    kinesalite: KinesisServer, tmp_path: Path, where: str
) -> None:
    stream = kinesalite.fresh_stream(4)
    plan = planned(kinesalite, stream, tmp_path)
    for number in ("1", "2"):
        line = ("-m", "tests.kinesis.killed_apply", where, number)
        killed = run("shards", "apply", str(plan), "--yes", command=line)
        assert killed.returncode == -9
    done = keylane("shards", "apply", plan, "--yes", "-o", "json")
    assert (done.code, json.loads(done.out)["done"]) == (0, 5), done.err
    found = layout(kinesalite, stream)
    assert found.starts == new_layout(3).starts
    # Two splits make two shards each, three merges one each: a call made twice would have left more.
    assert len(found.shards) == 4 + 2 * 2 + 3


def test_a_stream_that_somebody_split_is_refused(kinesalite: KinesisServer, tmp_path: Path) -> None:
    stream = kinesalite.fresh_stream(4)
    plan = planned(kinesalite, stream, tmp_path)
    first = layout(kinesalite, stream).open[0]
    kinesalite.client().split_shard(StreamName=stream, ShardToSplit=first.id, NewStartingHashKey="77")
    kinesalite.until_active(stream)
    refused = keylane("shards", "apply", plan, "--yes", "-o", "json")
    assert refused.code == 1
    assert json.loads(refused.err.splitlines()[-1])["error"] == "TargetError"
    assert len(layout(kinesalite, stream).open) == 5


def test_a_stream_that_was_created_again_is_refused(kinesis_local: KinesisServer, tmp_path: Path) -> None:
    client, stream = kinesis_local.client(), kinesis_local.fresh_stream(3)
    plan = planned(kinesis_local, stream, tmp_path, wanted=5)
    client.delete_stream(StreamName=stream)
    for _ in range(200):
        try:
            client.create_stream(StreamName=stream, ShardCount=3)
            break
        except client.exceptions.ResourceInUseException:
            continue
    kinesis_local.until_active(stream)
    refused = keylane("shards", "apply", plan, "--yes")
    assert refused.code == 1
    assert "created again" in refused.err


def test_a_stream_that_scales_itself_is_refused(kinesis_local: KinesisServer, tmp_path: Path) -> None:
    client, stream = kinesis_local.client(), "on-demand-apply"
    client.create_stream(StreamName=stream, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    kinesis_local.until_active(stream)
    refused = keylane("shards", "apply", planned(kinesis_local, stream, tmp_path), "--yes")
    assert refused.code == 1
    assert "ON_DEMAND" in refused.err


def test_a_life_cycle_server_is_changed_too(kinesis_local: KinesisServer, tmp_path: Path) -> None:
    stream = kinesis_local.fresh_stream(3)
    made = keylane("shards", "apply", planned(kinesis_local, stream, tmp_path, wanted=4), "--yes", "-o", "json")
    assert made.code == 0, made.err
    assert layout(kinesis_local, stream).starts == new_layout(4).starts


def test_what_is_no_plan_and_what_names_no_stream_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("{}")
    assert keylane("shards", "apply", tmp_path / "none.json").code == 2
    today = tmp_path / "today.json"
    today.write_text(json.dumps(layout_to_json(new_layout(2))))
    plan, to = tmp_path / "plan.json", tmp_path / "to.json"
    to.write_text(json.dumps(layout_to_json(new_layout(3))))
    keylane("shards", "plan", "--layout", today, "--to", to, "--out", plan)
    refused = keylane("shards", "apply", plan)
    assert refused.code == 2
    assert "--stream" in refused.err
