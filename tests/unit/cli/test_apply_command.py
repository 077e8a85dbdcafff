"""A saved plan is carried out as it was saved, twice as well as once, and not at all where its ground has changed."""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from jsonschema import Draft202012Validator
from tests.unit.plan.conftest import drawn, made

from keylane.contract.parse import load_contract, parse_contract
from keylane.plan.saved import by_hand, read_saved, streams_of
from keylane.profile.build import fingerprint_of
from keylane.systems.endpoint import Endpoint, System, register, unregister
from keylane.systems.profiles import write_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

TODAY = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments, epoch: 4}
spec: {streams: [payments], lanes: 8, key: {fields: [k]}, partitioner: kafka-java}
"""


class Cluster(Endpoint):
    """A system of streams with lanes, in memory."""

    own_lanes: ClassVar[bool] = True
    lanes: ClassVar[dict[str, int]] = {}
    ids: ClassVar[dict[str, str]] = {}

    def lanes_there(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self.lanes.get(name, 0) for name in names}

    def create_stream(self, name: str, lanes: int) -> None:
        self.lanes.setdefault(name, lanes)

    def identity(self) -> str:
        return self.ids.get(self.address.name, "")

    def commands_for(self, lanes: Mapping[str, int]) -> dict[str, str]:
        return {"lag": "show-lag", **{f"grow {name}": f"grow {name} {count}" for name, count in lanes.items()}}


@pytest.fixture
def cluster() -> Iterator[type[Cluster]]:
    import re

    form = re.compile(r"([a-z]+)/([A-Za-z0-9._-]+)")
    register(System("toy", "toy://host/stream", form, f"{__name__}:Cluster"))
    Cluster.lanes, Cluster.ids = {"payments": 8}, {"payments": "first"}
    yield Cluster
    unregister("toy")


def kept(folder: Path, source: str = "day/", seed: int = 1) -> Path:
    folder.mkdir()
    profile = replace(made(drawn(2_000, 80_000, seed=seed)), source=source)
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), folder)
    return folder


@pytest.fixture
def today(tmp_path: Path) -> Path:
    path = tmp_path / "today.yaml"
    path.write_text(TODAY)
    return path


@pytest.fixture
def saved(run: Run, tmp_path: Path, today: Path) -> Path:
    """A plan of a profile of files that changes today's contract."""
    profile = kept(tmp_path / "day.profile")
    assert run("plan", profile, "--contract", today, "--out", tmp_path / "plan.json")[0] == 3
    return tmp_path / "plan.json"


def applied(run: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = run("apply", *arguments, "-o", "json")
    assert err == ""
    found = json.loads(out)
    schema = json.loads(files("keylane").joinpath("schemas", "apply.json").read_text("utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(found)) == []
    return code, found


def test_nothing_is_changed_without_yes(run: Run, saved: Path, today: Path) -> None:
    code, found = applied(run, saved)
    assert (code, found["pending"], found["applied"], found["contract"]["action"]) == (3, True, False, "write")
    assert today.read_text() == TODAY
    assert "Nothing was changed" in run("apply", saved)[1]


def test_with_yes_the_contract_is_in_its_place_and_a_second_time_nothing_is_left(
    run: Run, saved: Path, today: Path
) -> None:
    code, found = applied(run, saved, "--yes")
    assert (code, found["pending"], found["contract"]["action"]) == (0, False, "written")
    contract = load_contract(today)
    assert (contract.metadata.epoch, contract.fingerprint) == (5, found["contract"]["fingerprint"])
    once = today.read_bytes()
    for more in ((), ("--yes",)):
        code, found = applied(run, saved, *more)
        assert (code, found["contract"]["action"], today.read_bytes()) == (0, "in-place", once)
    assert sorted(path.name for path in today.parent.iterdir()) == ["day.profile", "plan.json", "today.yaml"]
    _, out, _ = run("apply", saved, "--yes")
    assert "Nothing is left to do" in out
    assert "Done" not in out
    assert "all of it is in place" not in out, "its stream was not looked at"


COMMENTED = """\
# Ours: ask Anna.
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments, epoch: 4}   # raised with every change
spec:
  streams: [payments]
  lanes: 8           # as the topic
  key: {fields: [k], encoding: utf8}
  partitioner: 'kafka-java'
  expect: {max_over_mean: 9}  # agreed
"""


def test_a_commented_contract_survives_and_the_dry_run_shows_its_diff(run: Run, tmp_path: Path, today: Path) -> None:
    today.write_text(COMMENTED)
    profile = kept(tmp_path / "day.profile")
    assert run("plan", profile, "--contract", today, "--out", tmp_path / "plan.json")[0] == 3
    code, found = applied(run, tmp_path / "plan.json")
    diff = found["contract"]["diff"]
    lines = diff.splitlines()
    assert (code, today.read_text()) == (3, COMMENTED)
    assert [line for line in lines if line.startswith("-")][1:] == [
        "-metadata: {name: payments, epoch: 4}   # raised with every change"
    ]
    assert "+metadata: {name: payments, epoch: 5}   # raised with every change" in lines
    shown = run("apply", tmp_path / "plan.json")[1]
    assert all(line in shown for line in lines)
    assert "```diff\n" in run("apply", tmp_path / "plan.json", "-o", "md")[1]
    assert applied(run, tmp_path / "plan.json", "--yes")[1]["contract"]["diff"] == diff
    # What was shown is what was written: here the diff has every line of the file.
    assert [line[1:] for line in lines[3:] if line[0] != "-"] == today.read_text().splitlines()
    assert [line[1:] for line in lines[3:] if line[0] != "+"] == COMMENTED.splitlines()
    kept_lines = [line for line in COMMENTED.splitlines() if "epoch" not in line]
    assert [line for line in today.read_text().splitlines() if line in kept_lines] == kept_lines
    assert applied(run, tmp_path / "plan.json")[1]["contract"]["diff"] == ""


def test_steps_that_only_people_can_do_are_listed(run: Run, saved: Path) -> None:
    steps = {one["who"]: one for one in applied(run, saved)[1]["by_hand"]}
    assert set(steps) >= {"producers", "consumers", "afterwards"}
    assert "KeyedProducer(Router(" in steps["producers"]["commands"][-1]
    assert "BROKERS" in steps["producers"]["commands"][-1]
    assert "stop the producers" in steps["consumers"]["what"]
    # The export that was counted has the old placement for ever: it is not what is checked.
    contract = saved.with_name("today.yaml")
    assert steps["afterwards"]["commands"] == [f"keylane check {contract} --data NEW_EXPORT --lane COLUMN"]


def test_brokers_that_are_known_are_those_of_the_producers(saved: Path) -> None:
    plan = read_saved(saved.read_text("utf-8"), "plan.json")
    assert plan.contract is not None
    contract = parse_contract(plan.contract.text)
    steps = by_hand(plan.plan, contract, "c.yaml", streams_of(contract), {"brokers": "one:9092,two:9092"})
    command = next(one for one in steps if one.who == "producers").commands[-1]
    assert command == "python: KeyedProducer(Router('c.yaml'), 'one:9092,two:9092')"


def test_what_is_to_be_typed_names_the_contract_from_here(
    run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    out = run("apply", saved)[1]
    assert "keylane check today.yaml --data NEW_EXPORT --lane COLUMN" in out
    assert str(saved.parent) not in out


def test_a_saved_plan_is_for_its_owner_and_keeps_its_schema(saved: Path) -> None:
    """It names keys, so that it can be applied."""
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    document = json.loads(saved.read_text())
    schema = json.loads(files("keylane").joinpath("schemas", "saved-plan.json").read_text("utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    assert "key-0" in document["contract"]["text"]
    assert "key-0" not in json.dumps(document["plan"])


def refused(run: Run, saved: Path, today: Path, *arguments: object) -> str:
    before = today.read_bytes() if today.exists() else None
    code, out, err = run("apply", saved, "--yes", *arguments)
    assert (code, out) == (1, "")
    assert (today.read_bytes() if today.exists() else None) == before
    return err


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[" * 100_000, b"[1]", b"", b"nan"])
def test_a_file_that_is_no_plan_is_said_to_be_none(run: Run, tmp_path: Path, today: Path, content: bytes) -> None:
    odd = tmp_path / "odd.json"
    odd.write_bytes(content)
    assert "odd.json is not a saved plan" in refused(run, odd, today)


def test_a_byte_order_mark_before_a_plan_changes_nothing(run: Run, saved: Path) -> None:
    plain = applied(run, saved)
    saved.write_bytes(b"\xef\xbb\xbf" + saved.read_bytes())
    assert applied(run, saved) == plain


def test_a_contract_that_changed_is_not_written_over(run: Run, saved: Path, today: Path) -> None:
    today.write_text(TODAY + "# mine\n")
    assert "has changed since the plan was made" in refused(run, saved, today)
    today.unlink()
    assert "no file" in refused(run, saved, today)


@pytest.mark.parametrize("lost", ["keys", "profile.json", "all of it"])
def test_a_profile_that_has_lost_a_part_is_refused_and_nothing_is_changed(
    lost: str, run: Run, today: Path, saved: Path, tmp_path: Path
) -> None:
    """A folder that is no profile any more was taken for one that is gone, and the plan was carried out."""
    folder = tmp_path / "day.profile"
    for path in sorted(folder.rglob("*"), reverse=True):
        if lost in (path.name, path.parent.name, "all of it"):
            path.rmdir() if path.is_dir() else path.unlink()
    before = today.read_bytes()
    code, _, err = run("apply", saved, "--yes")
    assert (code, today.read_bytes()) == (1, before)
    assert "day.profile" in err
    if lost == "keys":
        code, _, err = run("plan", folder, "--contract", today)
        assert code == 1
        assert "day.profile is damaged or was changed" in err


def test_another_profile_in_its_place_is_noticed_and_one_that_is_gone_is_said_to_be(
    run: Run, saved: Path, today: Path, tmp_path: Path
) -> None:
    import shutil

    shutil.rmtree(tmp_path / "day.profile")
    kept(tmp_path / "day.profile", seed=2)
    assert "not the one that the plan was made from" in refused(run, saved, today)
    shutil.rmtree(tmp_path / "day.profile")
    assert any("any more" in note for note in applied(run, saved)[1]["notes"])


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (
            lambda plain: plain["contract"].update(text=plain["contract"]["text"].replace("epoch: 5", "epoch: 6")),
            "edited",
        ),
        (lambda plain: plain["bound"]["contract"].update(digest="0" * 64), "edited"),
        (lambda plain: plain.update(schema="keylane.plan/2"), "not a saved plan"),
        (lambda plain: plain["plan"].pop("advice"), "advice"),
    ],
    ids=["a lane", "what it is bound to", "another document", "less of it"],
)
def test_a_plan_that_was_edited_is_refused(
    run: Run, saved: Path, today: Path, planted: Callable[[dict[str, Any]], None], says: str
) -> None:
    plain = json.loads(saved.read_text())
    planted(plain)
    saved.write_text(json.dumps(plain))
    assert says in refused(run, saved, today)
    saved.write_text("no json")
    assert "not a saved plan" in refused(run, saved, today)


def test_a_plan_of_an_earlier_keylane_is_not_taken_for_edited(run: Run, saved: Path, today: Path) -> None:
    """A field that came later is missing in it, and was missing when it was signed."""
    plain = json.loads(saved.read_text())
    plain["plan"]["profile"]["lanes"] = {"count": 1, "by_window": [[1]], "misplaced": 0}
    rest = {name: value for name, value in plain.items() if name != "fingerprint"}
    saved.write_text(json.dumps(plain))
    assert "edited" in refused(run, saved, today)
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    saved.write_text(json.dumps({**plain, "fingerprint": hashlib.sha256(canonical.encode()).hexdigest()}))
    assert applied(run, saved)[0] == 3


def test_a_plan_to_leave_it_leaves_it(run: Run, tmp_path: Path, today: Path, saved: Path) -> None:
    assert run("apply", saved, "--yes")[0] == 0
    again = tmp_path / "again.json"
    assert run("plan", tmp_path / "day.profile", "--contract", today, "--out", again)[0] == 0
    before = today.read_bytes()
    code, found = applied(run, again, "--yes")
    assert (code, found["contract"], found["streams"], today.read_bytes()) == (0, None, [], before)
    assert "Nothing to do" in run("apply", again)[1]


def test_without_a_contract_of_today_one_is_written_and_none_is_written_over(run: Run, tmp_path: Path) -> None:
    profile, plan = kept(tmp_path / "day.profile"), tmp_path / "plan.json"
    target = tmp_path / "new.yaml"
    run("plan", profile, "--lanes", 8, "--write", target, "--out", plan)
    assert applied(run, plan)[1]["contract"]["action"] == "in-place"
    target.unlink()
    assert applied(run, plan, "--yes")[1]["contract"]["action"] == "written"
    assert load_contract(target).metadata.epoch == 1
    target.write_text("mine")
    refused(run, plan, target)


# Streams that have lanes of their own, in a system that is made here.


@pytest.fixture
def of_topic(run: Run, tmp_path: Path, today: Path, cluster: type[Cluster]) -> Path:
    """A plan of a stream of the cluster, which its profile knows by its id; hot keys go to a tier."""
    assert cluster.lanes
    folder = tmp_path / "topic.profile"
    folder.mkdir()
    profile = replace(made(drawn(2_000, 80_000)), source="toy://host/payments", facts=(("id", "first"),))
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), folder)
    plan = tmp_path / "topic.json"
    assert run("plan", folder, "--contract", today, "--out", plan)[0] == 3
    return plan


def test_streams_that_are_missing_are_created_and_those_that_are_there_are_checked(
    run: Run, of_topic: Path, today: Path, cluster: type[Cluster]
) -> None:
    found = applied(run, of_topic)[1]
    assert [(one["stream"], one["there"], one["action"]) for one in found["streams"]] == [("payments", 8, "in-place")]
    text = today.read_text().replace("streams: [payments]", "streams: [payments, refunds]")
    today.write_text(text)
    plan = of_topic.with_name("more.json")
    run("plan", of_topic.with_name("topic.profile"), "--contract", today, "--out", plan)
    assert [one["action"] for one in applied(run, plan)[1]["streams"]] == ["in-place", "create"]
    assert cluster.lanes == {"payments": 8}
    assert [one["action"] for one in applied(run, plan, "--yes")[1]["streams"]] == ["in-place", "created"]
    assert cluster.lanes == {"payments": 8, "refunds": 8}
    assert [one["action"] for one in applied(run, plan, "--yes")[1]["streams"]] == ["in-place", "in-place"]


def test_a_topic_that_was_recreated_or_has_grown_is_noticed(
    run: Run, of_topic: Path, today: Path, cluster: type[Cluster]
) -> None:
    cluster.ids = {"payments": "second"}
    assert "deleted and created again" in refused(run, of_topic, today)
    cluster.ids, cluster.lanes = {"payments": "first"}, {}
    assert "another lane count" in refused(run, of_topic, today)
    cluster.lanes = {"payments": 8}
    assert applied(run, of_topic, "--yes")[0] == 0


def test_lanes_are_never_added_to_a_stream_in_use(
    run: Run, of_topic: Path, today: Path, cluster: type[Cluster]
) -> None:
    plan = of_topic.with_name("grown.json")
    run("plan", of_topic.with_name("topic.profile"), "--contract", today, "--lanes", 16, "--out", plan)
    code, found = applied(run, plan, "--yes")
    assert (code, found["streams"][0]["action"], cluster.lanes["payments"]) == (0, "by-hand", 8)
    step = next(one for one in found["by_hand"] if one["who"] == "streams")
    assert step["commands"] == ["grow payments 16"]
    assert "show-lag" in str(found["by_hand"])


def test_a_second_apply_at_the_same_time_sees_what_the_first_wrote(tmp_path: Path) -> None:
    from keylane.systems.atomic import replace_text

    path = tmp_path / "a"
    path.write_text("old")

    def taken_meanwhile() -> None:
        raise ValueError(path.read_text())

    with pytest.raises(ValueError, match="old"):
        replace_text(path, "new", taken_meanwhile)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])
    replace_text(path, "new", lambda: None)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])


def test_a_contract_is_no_saved_plan(run: Run, contract_file: Callable[..., Path]) -> None:
    code, out, err = run("apply", contract_file())
    assert (code, out) == (1, "")
    assert "got 'a contract'" in err
    assert "keylane plan" in err


def test_plan_and_apply_list_the_same_steps(run: Run, saved: Path) -> None:
    planned = json.loads(saved.read_text("utf-8"))["plan"]["by_hand"]
    listed = applied(run, saved)[1]["by_hand"]
    assert [(one["who"], one["what"]) for one in planned] == [(one["who"], one["what"]) for one in listed]
    assert len(planned) >= 3


def test_a_plan_that_was_applied_is_left_alone(run: Run, saved: Path, today: Path) -> None:
    """Plan, apply, plan again on the same profile: nothing is left to do. Before it was applied there was."""
    profile = saved.with_name("day.profile")
    before = run("plan", profile, "--contract", today, "-o", "json")
    assert (before[0], json.loads(before[1])["changes"]) == (3, True)
    assert applied(run, saved, "--yes")[0] == 0
    code, out, _ = run("plan", profile, "--contract", today, "-o", "json")
    assert (code, json.loads(out)["advice"]["answer"], json.loads(out)["by_hand"]) == (0, "leave-it", [])


def test_what_people_copy_fits_a_narrow_terminal(run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    lines = [line for line in run("apply", saved)[1].splitlines() if "python:" in line]
    assert lines
    assert max(map(len, lines)) <= 80
