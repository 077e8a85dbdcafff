"""`keylane migrate plan`: the forms that other tools lean on, both modes, refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import keylane
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def contract(path: Path, lanes: int | str = 12, *, epoch: int = 1, name: str = "payments", **spec: Any) -> Path:
    known = {"streams": ["tx"], "lanes": lanes, "key": {"fields": ["merchant"]}, "partitioner": "kafka-java", **spec}
    metadata = {"name": name, "epoch": epoch}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": known}
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def twelve(tmp_path: Path) -> Path:
    return contract(tmp_path / "twelve.yaml")


def lane_of(path: Path, key: str) -> int:
    lane = keylane.Router(path).lane(key)
    assert lane is not None
    return lane


def planned(run: Run, code: int, *arguments: object) -> dict[str, Any]:
    ended, out, err = run("migrate", "plan", *arguments, "-o", "json")
    assert ended == code, err
    document: dict[str, Any] = json.loads(out)
    Draft202012Validator(json_schema(DOCUMENTS["migrate-plan"])).validate(document)
    return document


@pytest.mark.parametrize(("lanes", "moved", "parents"), [(24, 1 / 2, 1), (18, 2 / 3, 2), (13, 12 / 13, 12)])
def test_growing_in_place(run: Run, tmp_path: Path, twelve: Path, lanes: int, moved: float, parents: int) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", lanes, epoch=2))
    assert (found["mode"], found["moved_share"]) == ("in-place", pytest.approx(moved))
    assert len(found["drain"]) == lanes
    assert {len(old) for old in found["drain"].values()} == {parents} == {found["parents_at_most"]}
    assert [step["step"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    assert any("grow tx to" in step["action"] for step in found["steps"])
    assert found["epoch_to_raise"] is None


def test_the_drain_graph_of_12_to_18(run: Run, tmp_path: Path, twelve: Path) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", 18, epoch=2))
    assert found["drain"] == {str(lane): [lane % 6, lane % 6 + 6] for lane in range(18)}


def test_fewer_lanes_need_a_mirror(run: Run, tmp_path: Path, twelve: Path) -> None:
    six = contract(tmp_path / "six.yaml", 6, epoch=2)
    found = planned(run, 3, twelve, six)
    assert (found["mode"], found["moved_share"]) == ("mirror", 0.5)
    assert found["drain"]["0"] == [0, 6]
    ended, _, err = run("migrate", "plan", twelve, six, "--mode", "in-place")
    assert ended == 2
    assert "12" in err
    assert "6" in err


def test_another_stream_is_a_mirror_even_where_no_key_moves(run: Run, tmp_path: Path, twelve: Path) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "v2.yaml", streams=["tx.v2"], name="payments-v2"))
    assert (found["mode"], found["moved_share"]) == ("mirror", 0.0)
    assert any("keylane migrate verify" in (step["command"] or "") for step in found["steps"])


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_mirror_of_a_stream_that_has_changed_before_says_what_it_may_lose(
    epoch: int, run: Run, tmp_path: Path
) -> None:
    """Keys that an earlier change has put into two lanes; in place nothing is copied."""
    old = contract(tmp_path / "old.yaml", epoch=epoch)
    new = contract(tmp_path / "v2.yaml", 24, streams=["tx.v2"], epoch=epoch + 1)
    found = planned(run, 3, old, new)
    assert any("into two of its lanes" in text for text in found["breaks"]) is (epoch > 1)
    grown = planned(run, 3, old, contract(tmp_path / "new.yaml", 24, epoch=epoch + 1))
    assert not any("into two of its lanes" in text for text in grown["breaks"])


def test_a_pin_adds_the_lane_that_its_key_was_on(run: Run, tmp_path: Path, twelve: Path) -> None:
    was = lane_of(twelve, "TT0124")
    pinned = (was + 5) % 12
    hot = [{"keys": ["TT0124"], "pin": {"lanes": [pinned]}}]
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", epoch=2, hot_keys=hot))
    assert (found["mode"], found["moved_share"], found["named_keys_moved"]) == ("in-place", 0.0, 1)
    assert found["drain"][str(pinned)] == sorted([was, pinned])
    assert all(old == [int(lane)] for lane, old in found["drain"].items() if int(lane) != pinned)


def test_a_tier_waits_for_the_lane_that_its_key_was_on(run: Run, tmp_path: Path, twelve: Path) -> None:
    hot = [{"keys": ["TT0124"], "tier": {"stream": "tx.vip", "lanes": 4}}]
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", epoch=2, hot_keys=hot))
    (tier,) = [lane for lane in found["drain"] if lane.startswith("tx.vip/")]
    assert found["drain"][tier] == [lane_of(twelve, "TT0124")]


def test_another_hash_waits_for_every_lane(run: Run, tmp_path: Path, twelve: Path) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", epoch=2, partitioner="librdkafka-consistent"))
    assert found["drain_rule"] == "every-lane"
    assert all(old == list(range(12)) for old in found["drain"].values())


def test_contracts_alone_say_what_is_copied_and_nothing_of_keys(run: Run, tmp_path: Path, twelve: Path) -> None:
    cost = planned(run, 3, twelve, contract(tmp_path / "new.yaml", 18, epoch=2))["cost"]
    assert (cost["copied_bytes"]["value"], cost["disk_bytes"]["value"]) == (0, 0)
    assert (cost["moved_keys"]["value"], cost["moved_keys"]["known"]) == (None, "unknown")
    _, out, _ = run("migrate", "plan", twelve, tmp_path / "new.yaml")
    assert "bytes to copy" in out
    assert "keys that change lane" not in out
    assert planned(run, 0, twelve, twelve)["cost"] is None


def test_files_are_weighed_and_not_read(run: Run, tmp_path: Path, twelve: Path) -> None:
    new = contract(tmp_path / "v2.yaml", 6, streams=["tx.v2"], name="payments-v2")
    source = tmp_path / "data"
    source.mkdir()
    for name in ("a", "b"):
        (source / f"{name}.csv").write_text("merchant\nTT0124\n")
    cost = planned(run, 3, twelve, new, "--from", source, "--to", tmp_path / "out", "--old-lanes", 12)["cost"]
    assert (cost["stored_bytes"]["value"], cost["copied_bytes"]["known"]) == (32, "measured")
    assert cost["disk_bytes"]["value"] is None
    assert "keylane profile" in cost["keys"]["basis"]


def test_nothing_to_do(run: Run, twelve: Path) -> None:
    found = planned(run, 0, twelve, twelve)
    assert (found["mode"], found["moved_share"], found["steps"]) == ("in-place", 0.0, [])


def test_an_epoch_that_was_not_raised_is_a_step(run: Run, tmp_path: Path, twelve: Path) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", 24))
    assert found["epoch_to_raise"] == 2
    assert "epoch" in found["steps"][0]["action"]


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ({"lanes": "live", "epoch": 2}, "--new-lanes"),
        ({"lanes": 24, "epoch": 2, "name": "other"}, "other"),
    ],
)
def test_what_is_impossible_ends_with_2(
    run: Run, tmp_path: Path, twelve: Path, new: dict[str, Any], named: str
) -> None:
    ended, out, err = run("migrate", "plan", twelve, contract(tmp_path / "new.yaml", **new))
    assert (ended, out) == (2, "")
    assert named in err


def test_without_the_gate_somebody_has_to_be_waited_for(run: Run, tmp_path: Path, twelve: Path) -> None:
    """Otherwise a run would hold all producers, and wait for readers that nobody can look at."""
    new = contract(tmp_path / "new.yaml", 24, epoch=2)
    ended, out, err = run("migrate", "plan", twelve, new, "--no-gate")
    assert (ended, out) == (2, "")
    assert "--group" in err
    assert planned(run, 3, twelve, new, "--no-gate", "--group", "ledger")["gated"] is False


def test_contracts_that_are_swapped_are_refused(run: Run, tmp_path: Path, twelve: Path) -> None:
    ended, _, err = run("migrate", "plan", contract(tmp_path / "new.yaml", 24, epoch=2), twelve)
    assert ended == 2
    assert "swapped" in err


def test_live_lanes_by_number(run: Run, tmp_path: Path, twelve: Path) -> None:
    found = planned(run, 3, twelve, contract(tmp_path / "new.yaml", "live", epoch=2), "--new-lanes", 24)
    assert found["new"]["lanes"] == 24


def test_a_thousand_lanes_wait_for_two_each(run: Run, tmp_path: Path) -> None:
    old, new = contract(tmp_path / "a.yaml", 1_000), contract(tmp_path / "b.yaml", 1_500, epoch=2)
    found = planned(run, 3, old, new)
    assert {len(parents) for parents in found["drain"].values()} == {2}


def test_the_function_gives_the_same_document(run: Run, tmp_path: Path, twelve: Path) -> None:
    new = contract(tmp_path / "new.yaml", 18, epoch=2)
    assert keylane.migrate_plan(twelve, new).as_json() == planned(run, 3, twelve, new)


@pytest.mark.parametrize("partitioner", ["kinesis-md5", "kafka-java"])
def test_who_only_splits_shards_is_sent_to_the_command_for_it(run: Run, tmp_path: Path, partitioner: str) -> None:
    old, new = (contract(tmp_path / f"{n}.yaml", n, epoch=n, partitioner=partitioner) for n in (8, 16))
    code, out, err = run("migrate", "plan", old, new)
    assert code == 3, err
    assert ("need no fence; keylane shards plan" in out) == (partitioner == "kinesis-md5")


def test_a_mirror_of_a_contract_with_tiers_is_not_carried_out(run: Run, tmp_path: Path, twelve: Path) -> None:
    hot = [{"keys": ["TT0124"], "tier": {"stream": "tx.vip", "lanes": 4}}]
    source, plan = tmp_path / "data", tmp_path / "plan.json"
    source.mkdir()
    (source / "a.csv").write_text("merchant\nTT0124\n")
    to = ("--from", source, "--to", tmp_path / "out", "--old-lanes", 12, "--out", plan, "--force")
    for rules, ended in (([], 3), (hot, 2)):
        new = contract(tmp_path / "v2.yaml", 6, epoch=2, streams=["tx.v2"], name="payments-v2", hot_keys=rules)
        planned(run, 3, twelve, new, *to)
        code, _, err = run("migrate", "status", plan)
        assert code == ended, err
    assert "records of a tier are in a stream of their own: got 'tx.vip'" in err
    code, *_ = run("migrate", "run", plan)
    assert (code, sorted(path.name for path in tmp_path.glob("plan.json*"))) == (2, ["plan.json"]), "nothing was made"
