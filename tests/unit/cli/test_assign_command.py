"""`keylane assign`: the forms that other tools lean on, changes, files, refusals, and what people see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import keylane
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


def assigned(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run("assign", *arguments, "-o", "json")
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    Draft202012Validator(json_schema(DOCUMENTS["assign"])).validate(document)
    return document


def saved(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_members_and_lanes_by_number(run: Run) -> None:
    document = assigned(run, "--lanes", "6", "--members", "2")
    assert {name: len(lanes) for name, lanes in document["assignment"].items()} == {"member-0": 3, "member-1": 3}
    assert sorted(lane for lanes in document["assignment"].values() for lane in lanes) == [
        ["topic-0", n] for n in range(6)
    ]
    assert (document["moved"], document["idle"], len(document["compared"])) == (0, [], 7)


@pytest.mark.parametrize("name", ["range", "round-robin", "sticky", "cooperative-sticky", "uniform", "by-load"])
def test_what_is_printed_is_taken_as_the_assignment_before(run: Run, name: str, tmp_path: Path) -> None:
    given = ("--lanes", "6,4", "--members", "A,B,C", "--assignor", name)
    first = assigned(run, *given)
    file = saved(tmp_path / "before.json", first)
    again = assigned(run, *given, "--previous", file)
    assert (again["assignment"], again["moved"]) == (first["assignment"], 0)
    bare = saved(tmp_path / "bare.json", first["assignment"])
    assert assigned(run, *given, "--previous", bare)["assignment"] == first["assignment"]
    without = assigned(run, *given, "--previous", file, "--remove", "B")
    assert set(without["assignment"]) == {"A", "C"}
    assert without["moved"] >= len(first["assignment"]["B"])
    if name in {"sticky", "cooperative-sticky", "uniform"}:
        assert without["moved"] == len(first["assignment"]["B"])
    more = assigned(run, *given, "--previous", file, "--add", "D")
    assert "D" in more["assignment"]
    assert {tuple(lane) for lanes in more["assignment"].values() for lane in lanes} == {
        *(("topic-0", n) for n in range(6)),
        *(("topic-1", n) for n in range(4)),
    }


def test_members_that_leave_and_join_are_one_change(run: Run, tmp_path: Path) -> None:
    given = ("--lanes", "6,3", "--members", "A,B,C", "--assignor", "sticky")
    first = assigned(run, *given)
    file = saved(tmp_path / "before.json", first)
    replaced = assigned(run, *given, "--previous", file, "--remove", "B", "--add", "D")
    assert (replaced["moved"], replaced["steps"]) == (3, ["remove B, add D"])
    assert replaced["assignment"]["D"] == first["assignment"]["B"]


def test_lanes_without_a_reader_are_beside_the_pauses(run: Run) -> None:
    """A static member that leaves pauses nothing, because nobody reads its lanes: the table has to say so."""
    _, out, _ = run("assign", "--lanes", "12", "--members", "A,B,C", "--remove", "B", "--color", "never")
    head = next(line for line in out.splitlines() if line.startswith("ASSIGNOR"))
    row = next(line for line in out.splitlines() if line.startswith("static"))
    assert head.split()[:3] == ["ASSIGNOR", "MOVED", "UNOWNED"]
    assert row.split()[1:3] == ["0", "4"]
    assert "UNOWNED" not in run("assign", "--lanes", "12", "--members", "A,B,C", "--add", "D")[1]


def test_members_come_from_the_assignment_before(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path / "before.json", assigned(run, "--lanes", "4", "--members", "A,B", "--assignor", "sticky"))
    document = assigned(run, "--previous", file, "--assignor", "sticky", "--remove", "A")
    assert (document["moved"], len(document["assignment"]["B"])) == (2, 4)
    gone = assigned(run, "--lanes", "4", "--members", "B", "--previous", file, "--assignor", "sticky", "--remove", "A")
    assert gone["assignment"] == document["assignment"], "A is not among the members, and is not missed"


def test_idle_members_and_the_ceiling(run: Run) -> None:
    document = assigned(run, "--lanes", "2", "--members", "A,B,C", "--assignor", "range")
    assert (document["idle"], document["ceiling"]) == (["C"], 2)
    assert any("ceiling" in note for note in document["notes"])


def test_by_load_weighs_lanes(run: Run, tmp_path: Path) -> None:
    forms: list[object] = [
        {"topic-0": [7, 4, 2, 1]},
        {"topic-0": {"0": 7, "1": 4, "2": 2, "3": 1}},
        [["topic-0", 0, 7], ["topic-0", 1, 4], ["topic-0", 2, 2], ["topic-0", 3, 1]],
    ]
    for n, form in enumerate(forms):
        file = saved(tmp_path / f"{n}.json", form)
        document = assigned(run, "--lanes", "4", "--members", "A,B", "--assignor", "by-load", "--loads", file)
        assert sorted(row["load"] for row in document["members"]) == [7, 7]
        assert (document["cost"]["max_over_mean"], document["load_from"]) == (1.0, "file")
    by_count = assigned(run, "--lanes", "4", "--members", "A,B", "--assignor", "sticky", "--loads", file)
    assert by_count["cost"]["max_over_mean"] > 1.2


def test_a_file_of_a_group_with_subscriptions_and_racks(run: Run, tmp_path: Path) -> None:
    group = {
        "topics": {"orders": 2, "payments": 2},
        "members": ["A", {"id": "B", "topics": ["orders"], "rack": "r1", "instance": "b-0"}],
        "racks": {"orders": [["r2"], ["r1"]]},
        "assignment": {"A": [["orders", 0], ["payments", 0], ["payments", 1]], "B": [["orders", 1]]},
    }
    file = saved(tmp_path / "group.json", group)
    document = assigned(run, file, "--assignor", "sticky")
    assert (document["moved"], document["assignment"]["B"]) == (1, [["orders", 0], ["orders", 1]]), "counts come first"
    same = assigned(
        run, "--lanes", "orders=2,payments=2", "--members", "A,B", "--reads", "B=orders", "--rack", "B=r1",
        "--assignor", "range",
    )  # fmt: skip
    assert all(topic == "orders" for topic, _ in same["assignment"]["B"])


@pytest.mark.parametrize("option", [("--reads", "A=t"), ("--rack", "A=r1")], ids=" ".join)
def test_members_of_a_file_are_not_described_twice(run: Run, tmp_path: Path, option: tuple[str, str]) -> None:
    (tmp_path / "g.json").write_text('{"topics": {"t": 4}, "members": ["A", "B"]}')
    code, out, err = run("assign", str(tmp_path / "g.json"), *option)
    assert (code, out) == (2, ""), err
    assert option[1] in err
    assert run("assign", str(tmp_path / "g.json"), "--members", "A,B", *option)[0] == 0, "twin: they are given as well"


def test_a_rolling_deploy_side_by_side(run: Run) -> None:
    document = assigned(
        run, "--lanes", "12", "--members", "3", "--rolling", "--state", "1GB", "--restore-rate", "100MB"
    )
    rows = {row["assignor"]: row for row in document["compared"]}
    assert rows["sticky"]["lanes_paused"] == 12
    assert rows["static"]["moves"] == 0 < rows["cooperative-sticky"]["moves"]
    kept = assigned(run, "--lanes", "12", "--members", "3", "--rolling", "--static-members", "--assignor", "sticky")
    assert (kept["cost"]["moves"], kept["cost"]["longest_pause"]) == (0, 30)


def test_the_map_and_the_page_are_written(run: Run, tmp_path: Path) -> None:
    plan, page = tmp_path / "map.json", tmp_path / "page.html"
    given = ("assign", "--lanes", "4", "--members", "A,B", "--add", "C", "--map", plan, "--report", page)
    code, out, err = run(*given)
    assert code == 0, err
    assert f"map: {plan}" in out
    assert set(json.loads(plan.read_text())) == {"A", "B", "C"}
    assert page.read_text().startswith("<!doctype html>")
    assert run(*given)[0] == 2, "files that are there stay"
    assert run(*given, "--force")[0] == 0


TWICE = {"assignment": {"A": [["topic-0", 0]], "B": [["topic-0", 0]]}}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--lanes", "6", "--members", "A,A"), "'A'"),
        (("--lanes", "6", "--members", ""), "member"),
        (("--lanes", "6", "--members", "0"), "member"),
        (("--lanes", "6", "--members", "A,,B"), "name"),
        (("--lanes", "6"), "--members"),
        (("--members", "A"), "--lanes"),
        (("--lanes", "6,", "--members", "A"), "'6,'"),
        (("--lanes", "t=1,t=2", "--members", "A"), "'t'"),
        (("--lanes", "999999999999999", "--members", "A"), "lanes"),
        (("--lanes", "6", "--members", "A,B", "--remove", "A,B"), "member"),
        (("--lanes", "6", "--members", "A,B", "--add", "A"), "'A'"),
        (("--lanes", "6", "--members", "A", "--rolling"), "'A'"),
        (("--lanes", "6", "--members", "A", "--reads", "B=topic-0"), "'B'"),
        (("--lanes", "6", "--members", "A", "--reads", "A=other"), "'other'"),
        (("--lanes", "6", "--members", "A", "--rack", "A"), "'A'"),
        (("kafka://127.0.0.1:1",), "--group"),
        (("kafka://127.0.0.1:1", "--group", "g", "--lanes", "6"), "--lanes"),
        (("kafka://127.0.0.1:1", "--group", "g", "--members", ""), "--members"),
        (("kafka://127.0.0.1:1", "--group", "g", "--reads", "A=t", "--rack", "A=r"), "--reads and --rack"),
        (("kafka://127.0.0.1:1", "--group", "g", "--previous", "today.json"), "--previous"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_ends_with_2_and_is_named(run: Run, arguments: tuple[str, ...], named: str) -> None:
    code, out, err = run("assign", *arguments)
    assert (code, out) == (2, ""), err
    assert named in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("previous", "named"),
    [
        (TWICE, "two owners"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ([], "assignment"),
        ({"assignment": []}, "assignment"),
        ({"schema": "keylane.error/1"}, "assignment"),
        ({"assignment": {"A": {}}}, "'A'"),
        ({"assignment": {"A": [["topic-0"]]}}, "lane"),
        ({"assignment": {"A": [["topic-0", -1]]}}, "lane"),
        ({"assignment": {"A": [["topic-0", 1.5]]}}, "lane"),
        ({"assignment": {"A": [["topic-0", 10**30]]}}, "lane"),
        ({"assignment": {"A": [["topic-0", True]]}}, "lane"),
        ({"assignment": {"": []}}, "name"),
        ({"assignment": {"A": [["topic-0", 1], ["topic-0", 1]]}}, "listed twice for 'A'"),
        ('{"assignment": {"A": [["topic-0", 0]], "A": [["topic-0", 1]]}}', "twice: got 'A'"),
    ],
    ids=str,
)
def test_an_assignment_that_is_none_is_refused(run: Run, previous: object, named: str, tmp_path: Path) -> None:
    file = saved(tmp_path / "before.json", previous)
    code, _, err = run("assign", "--lanes", "6", "--members", "A,B", "--previous", file)
    assert (code, "Traceback" in err) == (2, False), err
    assert named in err


@pytest.mark.parametrize(
    "loads",
    ["3", '{"topic-0": 3}', '{"topic-0": ["x"]}', '{"topic-0": [-1]}', '{"topic-0": [NaN]}', '{"topic-0": [1e999]}',
     '{"topic-0": {"x": 1}}', '[["topic-0", 0]]', '[["topic-0", 0, 1], ["topic-0", 0, 2]]', '{"topic-0": [true]}',
     f'{{"topic-0": [1{"0" * 400}]}}', '{"topic-0": [1e308, 1e308]}'],
)  # fmt: skip
def test_loads_that_are_none_are_refused(run: Run, loads: str, tmp_path: Path) -> None:
    file = saved(tmp_path / "loads.json", loads)
    code, _, err = run("assign", "--lanes", "6", "--members", "A,B", "--assignor", "by-load", "--loads", file)
    assert (code, "Traceback" in err) == (2, False), err
    assert "loads.json" in err


@pytest.mark.parametrize(
    "group",
    ["{}", "[]", '{"topics": {}, "members": ["A"]}', '{"topics": {"t": 0}, "members": ["A"]}',
     '{"topics": {"t": "6"}, "members": ["A"]}', '{"topics": {"t": 6}, "members": {}}',
     '{"topics": {"t": 6}, "members": []}', '{"topics": {"t": 6}, "members": [3]}',
     '{"topics": {"t": 6}, "members": [{"id": "A", "topics": "t"}]}', '{"topics": {"t": 6}, "members": [{"id": 7}]}',
     '{"topics": {"t": 6}, "members": ["A"], "racks": [1]}',
     # A text is a row of letters: "r1" was the racks "r" and "1".
     '{"topics": {"t": 2}, "members": ["A"], "racks": {"t": ["r1", "r2"]}}',
     '{"topics": {"t": 2}, "members": ["A"], "racks": {"t": [["r1"], [2]]}}',
     '{"topics": {"t": 2}, "members": ["A", {"id": "B", "topics": ["u"]}]}',
     '{"topics": {"t": 2}, "members": [{"id": "A", "instance": "i"}, {"id": "B", "instance": "i"}]}',
     '{"topics": {"t": 2}, "members": ["\\ud800"]}', '{"topics": {"\\ud800": 2}, "members": ["A"]}'],
)  # fmt: skip
def test_a_file_that_is_no_group_is_refused(run: Run, group: str, tmp_path: Path) -> None:
    code, _, err = run("assign", saved(tmp_path / "group.json", group))
    assert (code, "Traceback" in err) == (2, False), err


@pytest.mark.parametrize(
    "options",
    [("--lanes", "2", "--members", "\udcff,B"), ("--lanes", "\udcff=2", "--members", "A"),
     ("--lanes", "2", "--members", "A", "--add", "\udcff"), ("--lanes", "2", "--members", "A", "--rack", "A=\udcff"),
     ("--lanes", "t=2,u=2", "--members", "A,B", "--reads", "A=t", "--reads", "A=u"),
     ("--lanes", "2", "--members", "A,B", "--rack", "A=x", "--rack", "A=y")],
)  # fmt: skip
def test_names_that_are_no_text_and_members_described_twice_are_refused(run: Run, options: tuple[str, ...]) -> None:
    code, out, err = run("assign", *options)
    assert (code, out, "bug of keylane" in err) == (2, "", False), err


def test_a_topic_that_nobody_reads_is_unowned_under_every_assignor(run: Run) -> None:
    group = ("--lanes", "t=2,u=2", "--members", "A,B", "--reads", "A=t", "--reads", "B=t")
    for name in ("range", "round-robin", "sticky", "cooperative-sticky", "uniform", "static", "by-load"):
        assert assigned(run, *group, "--assignor", name)["unowned"] == [["u", 0], ["u", 1]], name


def test_a_number_with_leading_zeros_is_that_number(run: Run) -> None:
    document = assigned(run, "--lanes", f"{'0' * 20}16", "--members", f"{'0' * 20}3", "--assignor", "range")
    assert (document["topics"], len(document["members"])) == ({"topic-0": 16}, 3)


def test_a_list_of_members_in_python_is_of_names() -> None:
    found = keylane.assign(lanes=4, members=["3"], assignor="range")
    assert list(found.assignment) == ["3"], "not three members"
    assert list(keylane.assign(lanes=4, members=["a,b"], assignor="range").assignment) == ["a,b"]


def test_lanes_that_are_gone_are_named_and_left_out(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path / "before.json", {"A": [["topic-0", 0], ["topic-0", 9]], "B": [["old", 0]]})
    document = assigned(run, "--lanes", "2", "--members", "A,B", "--previous", file, "--assignor", "sticky")
    assert any("2 lanes" in note for note in document["notes"])
    assert document["moved"] == 0


def test_a_table_for_people(run: Run) -> None:
    code, out, _ = run("assign", "--lanes", "6", "--members", "A,B,C", "--remove", "B")
    assert code == 0
    assert "2 lanes move; no member stops" in out
    assert "topic-0 0-1,3" in out
    assert "group.protocol=consumer" in out, "what Kafka 4 does not allow"
