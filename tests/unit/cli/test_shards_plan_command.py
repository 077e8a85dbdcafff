"""`keylane shards plan`: the forms that other tools lean on, hot keys and hot shards, refusals, and files."""

from __future__ import annotations

import json
from math import gcd
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pyarrow import parquet

from keylane.cli import shards_plan
from keylane.cli.output import render
from keylane.documents.model import json_schema
from keylane.documents.schemas import DOCUMENTS
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.layout import Shard, layout_from_json, layout_of, layout_to_json, new_layout
from keylane.keyspace.load import from_points
from keylane.keyspace.reshard import difference
from keylane.keyspace.sequences import nth_key
from keylane.plan import shards as plan_shards

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

LAST = 2**128 - 1


def layout_file(path: Path, loads: list[float] | int) -> Path:
    """Equal shards with these loads, or so many without."""
    count = loads if isinstance(loads, int) else len(loads)
    document = layout_to_json(new_layout(count))
    for shard, load in zip(document["shards"], [] if isinstance(loads, int) else loads, strict=False):
        shard["load"] = load
    path.write_text(json.dumps(document))
    return path


def planned(run: Run, code: int, *arguments: object) -> dict[str, Any]:
    ended, out, err = run("shards", "plan", *arguments, "-o", "json")
    assert ended == code, err
    document: dict[str, Any] = json.loads(out)
    Draft202012Validator(json_schema(DOCUMENTS["shards-plan"])).validate(document)
    return document


@pytest.mark.parametrize("short", [True, False], ids=["", "a twin without short names"])
def test_a_terminal_of_80_columns_has_every_column_and_no_broken_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    if not short:
        monkeypatch.setattr(shards_plan, "_SHORT", {})
    document = plan_shards.shards_plan(
        "today.json",
        layout_from_json(layout_file(tmp_path / "a.json", [900, 120, 80, 60]).read_text()),
        plan_shards.ShardLoad(from_points([(9, 700.0), (2**100, 200.0), (2**127, 80.0)]), "keys", {9: "acme"}),
        plan_shards.ShardGoal(500, 3),
    )
    shown = render(shards_plan._result(document, []), "table", terminal=True, colour=False, width=80, height=500)
    assert max(map(len, shown.splitlines())) <= 80
    assert ("more column" not in shown and "…0" in shown) == short
    wide = render(shards_plan._result(document, []), "wide", terminal=True, colour=False, width=80, height=500)
    assert all(call.at in wide and call.shards[0] in wide for call in document.calls)


def carried_out(document: dict[str, Any], file: Path) -> list[int]:
    """The starts after the calls, by the arguments that the service takes."""
    layout = layout_from_json(file.read_text())
    for call in document["calls"]:
        given = call["arguments"]
        if call["call"] == "SplitShard":
            layout = layout.split(given["ShardToSplit"], int(given["NewStartingHashKey"]))
        else:
            layout = layout.merge(given["ShardToMerge"], given["AdjacentShardToMerge"])
    return layout.starts


def test_a_cap_is_kept_by_the_fewest_splits(run: Run, tmp_path: Path) -> None:
    today = layout_file(tmp_path / "a.json", [10.0, 1.0, 1.0, 1.0])
    found = planned(run, 3, "--layout", today, "--cap", 6)
    assert [call["call"] for call in found["calls"]] == ["SplitShard"]
    assert (found["before"]["max_over_mean"], found["within_cap"]) == (pytest.approx(10 / 3.25), True)
    assert found["after"]["max_load"] == pytest.approx(5)
    assert carried_out(found, today) == [int(row["start"]) for row in found["after"]["layout"]]
    assert planned(run, 0, "--layout", today, "--cap", 10)["calls"] == []


def test_with_fewer_shards_cold_ones_merge(run: Run, tmp_path: Path) -> None:
    today = layout_file(tmp_path / "a.json", [10.0, 1.0, 1.0, 1.0])
    found = planned(run, 3, "--layout", today, "--cap", 6, "--shards", 3)
    assert (found["splits"], found["merges"], found["after"]["shards"], found["proven_fewest"]) == (1, 2, 3, True)
    # One split beside two merges: each call has a rate of its own.
    assert found["quotas"]["least_seconds"] == 2 / 5
    assert carried_out(found, today) == [int(row["start"]) for row in found["after"]["layout"]]
    assert run("shards", "plan", "--layout", today, "--cap", 6, "--shards", 2)[0] == 2


@pytest.mark.parametrize(("a", "b"), [(4, 3), (10, 12), (7, 5), (3, 3)])
def test_between_two_layouts_calls_are_the_boundaries_that_differ(run: Run, tmp_path: Path, a: int, b: int) -> None:
    today, wanted = layout_file(tmp_path / "a.json", a), layout_file(tmp_path / "b.json", b)
    found = planned(run, 3 if a != b else 0, "--layout", today, "--to", wanted)
    starts = [new_layout(n).starts for n in (a, b)]
    assert len(found["calls"]) == len(set(starts[0]) ^ set(starts[1]))
    assert carried_out(found, today) == starts[1]
    assert (found["before"]["max_over_mean"], found["load_from"]) == (None, "none")


def test_a_tolerance_keeps_boundaries_that_rounding_moved(run: Run, tmp_path: Path) -> None:
    today, wanted = layout_file(tmp_path / "a.json", 10), layout_file(tmp_path / "b.json", 20)
    exact = planned(run, 3, "--layout", today, "--to", wanted)
    assert (len(exact["calls"]), len(exact["notes"])) == (28, 1)
    near = planned(run, 3, "--layout", today, "--to", wanted, "--tolerance", 20)
    assert (len(near["calls"]), near["merges"], near["notes"]) == (10, 0, [])


@pytest.mark.parametrize(
    ("old", "new", "tolerance", "kept"),
    [
        ([0, 103], [0, 100, 102], 5, [0, 100, 103]),
        ([0, 101], [0, 98, 100, 102], 5, [0, 98, 100, 102]),
        ([0, 100, 200], [0, 99, 203], 5, [0, 100, 200]),
        ([0, 1_000], [0, 4], 10, [0, 4]),
        ([0, 50], [0, 60], 5, [0, 60]),
    ],
)
def test_a_boundary_is_kept_only_where_shards_stay_wide_enough(
    old: list[int], new: list[int], tolerance: int, kept: list[int]
) -> None:
    assert plan_shards._near(old, new, tolerance) == kept


def starts_of_layouts() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(2, 30), max_size=8).map(
        lambda widths: [sum(widths[:n]) for n in range(len(widths) + 1)]
    )


@given(starts_of_layouts(), starts_of_layouts(), st.integers(0, 40))
def test_a_tolerance_leaves_a_layout(old: list[int], new: list[int], tolerance: int) -> None:
    near = plan_shards._near(old, new, tolerance)
    ends = [*(start - 1 for start in near[1:]), LAST]
    layout = layout_of(Shard(str(n), start, end) for n, (start, end) in enumerate(zip(near, ends, strict=True)))
    assert (layout.starts, len(near)) == (near, len(new))
    assert all(was == now or (now in old and abs(was - now) <= tolerance) for was, now in zip(new, near, strict=True))


def test_the_answer_without_a_call_is_true(run: Run, tmp_path: Path) -> None:
    uneven, loads = layout_file(tmp_path / "a.json", [9.0, 1.0]), tmp_path / "loads.csv"
    loads.write_text(f"hash_key,load\n{2**127},50\n")
    lone = tmp_path / "lone.json"
    starts = [0, 2**127, 2**127 + 2]
    ends = [2**127 - 1, 2**127 + 1, LAST]
    rows = [{"id": f"s-{n}", "start": str(a), "end": str(b)} for n, (a, b) in enumerate(zip(starts, ends, strict=True))]
    lone.write_text(json.dumps({"shards": rows}))
    for code, first, arguments in (
        (0, "already as asked", ("--layout", uneven, "--to", uneven)),
        (0, "no call to make", ("--layout", uneven, "--cap", 9)),
        (4, "no call helps", ("--layout", lone, "--cap", 12, "--load", loads)),
    ):
        ended, out, err = run("shards", "plan", *arguments)
        assert (ended, out.startswith(first)) == (code, True), (out, err)


def test_an_output_never_replaces_an_input(run: Run, tmp_path: Path) -> None:
    today, wanted = layout_file(tmp_path / "a.json", [9.0, 1.0]), layout_file(tmp_path / "b.json", 2)
    loads, registry, profile = tmp_path / "l.csv", tmp_path / "k.sqlite", tmp_path / "day.profile"
    loads.write_text("hash_key,load\n5,1\n")
    run("shards", "keys", "add", "acme", "--registry", registry)
    profile.mkdir()
    (profile / "part").write_text("x")
    for written, arguments in (
        (today, ("--cap", 5)),
        (wanted, ("--to", wanted)),
        (loads, ("--cap", 5, "--load", loads)),
        (registry, ("--cap", 5, "--registry", registry)),
        (profile / "part", ("--cap", 5, "--profile", profile)),
    ):
        before = written.read_bytes()
        for option in ("--write", "--report"):
            ended = run("shards", "plan", "--layout", today, *arguments, option, written, "--force")
            assert (ended[:2], "cannot be two files" in ended[2]) == ((2, ""), True)
        assert written.read_bytes() == before


def test_loads_follow_the_boundaries_of_the_target(run: Run, tmp_path: Path) -> None:
    today, wanted = layout_file(tmp_path / "a.json", [8.0, 2.0]), layout_file(tmp_path / "b.json", 4)
    found = planned(run, 3, "--layout", today, "--to", wanted)
    assert [row["load"] for row in found["after"]["layout"]] == pytest.approx([4, 4, 1, 1])
    assert (found["before"]["max_over_mean"], found["after"]["max_over_mean"]) == (1.6, pytest.approx(1.6))


def test_a_hot_key_and_a_hot_shard_are_told_apart(run: Run, tmp_path: Path) -> None:
    today, loads = layout_file(tmp_path / "a.json", 2), tmp_path / "loads.csv"
    rows = [(2**126, 50), *((2**127 + n * 2**120, 4) for n in range(5)), (2**125, 1)]
    loads.write_text("hash_key,load\n" + "".join(f"{key},{load}\n" for key, load in rows))
    found = planned(run, 4, "--layout", today, "--cap", 12, "--load", loads)
    assert [(one["kind"], one["hash_key"], one["key_load"]) for one in found["hot"]] == [
        ("hot-key", str(2**126), 50),
        ("hot-shard", str(2**127), 4),
    ]
    assert (found["within_cap"], found["after"]["max_load"]) == (False, 51)
    assert [call["shards"] for call in found["calls"]][:1] == [[found["hot"][1]["shard"]]], "only keys that can part"
    by_shard = planned(run, 3, "--layout", layout_file(tmp_path / "b.json", [50.0, 1.0]), "--cap", 30)
    assert [one["kind"] for one in by_shard["hot"]] == ["unknown"]


@pytest.mark.parametrize(("others", "calls"), [(5, 0), (60, 1)], ids=["one key", "one key and others"])
def test_no_split_is_proposed_that_takes_nothing_from_a_key(others: int, calls: int, run: Run, tmp_path: Path) -> None:
    today, loads = layout_file(tmp_path / "a.json", 1), tmp_path / "loads.csv"
    rows = [(2**126, 95), *((2**127 + n * 2**120, others / 5) for n in range(5))]
    loads.write_text("hash_key,load\n" + "".join(f"{key},{load}\n" for key, load in rows))
    found = planned(run, 4, "--layout", today, "--cap", 80, "--load", loads)
    assert (len(found["calls"]) >= calls, len(found["calls"]) == 0) == (True, calls == 0)
    assert found["hot_keys"] == 1


def test_load_of_a_registry_and_of_a_profile(run: Run, tmp_path: Path) -> None:
    today, registry = layout_file(tmp_path / "a.json", 2), tmp_path / "k.sqlite"
    for account, weight in (("acme", 3), ("bolt", 9)):
        run("shards", "keys", "add", account, "--weight", weight, "--registry", registry)
    by_weight = planned(run, 4, "--layout", today, "--cap", 8, "--registry", registry, "--show-keys")
    assert [(row["id"][-1], row["load"]) for row in by_weight["before"]["layout"]] == [("0", 9), ("1", 3)]
    assert [(one["kind"], one["key"]) for one in by_weight["hot"]] == [("hot-key", "bolt")]
    keys = ["acme"] * 30 + ["zinc"] * 10
    parquet.write_table(pa.table({"k": keys}), tmp_path / "day.parquet")
    assert run("profile", tmp_path / "day.parquet", "-k", "k", "--out", tmp_path / "day.profile")[0] == 0
    by_md5 = planned(run, 4, "--layout", today, "--cap", 20, "--profile", tmp_path / "day.profile", "--show-keys")
    assert by_md5["hot"][0]["hash_key"] == str(hash_key_of("acme"))
    assert by_md5["hot"][0]["key"] == "acme"
    both = ("--profile", tmp_path / "day.profile", "--registry", registry)
    explicit = planned(run, 4, "--layout", today, "--cap", 20, *both)
    assert (explicit["hot"][0]["hash_key"], explicit["hot"][0]["key"]) == (str(nth_key("tree", 1)), None)


def test_equal_shards_are_compared_with_their_quotas(run: Run, tmp_path: Path) -> None:
    today = layout_file(tmp_path / "a.json", [12.0, 1.0, 1.0, 2.0])
    found = planned(run, 3, "--layout", today, "--cap", 4)
    rows = {row["shards"]: row for row in found["uniform"]}
    assert (rows[8]["calls"], rows[8]["max_load"], rows[8]["within_cap"], rows[8]["within_quota"]) == (
        4,
        6,
        False,
        True,
    )
    assert (found["quotas"]["uniform_from"], found["quotas"]["uniform_to"]) == (2, 8)
    assert found["quotas"]["least_seconds"] == found["splits"] / 5
    assert found["peak_shards"] == found["after"]["shards"] == 6


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"start": "1"}, "hole"),
        ({"end": str(2**127)}, "overlap"),
        ({"end": str(2**127 - 5)}, "hole"),
        ({"start": "007"}, "007"),
        ({"end": "1e9"}, "1e9"),
        ({"load": -1}, "load"),
        ({"start": 0}, "start"),
    ],
)
def test_a_bad_layout_ends_with_2_and_is_named(run: Run, tmp_path: Path, change: dict[str, Any], named: str) -> None:
    file = layout_file(tmp_path / "a.json", [1.0, 1.0])
    document = json.loads(file.read_text())
    document["shards"][0] |= change
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(document))
    for arguments in (("--layout", bad, "--cap", 1), ("--layout", file, "--to", bad)):
        code, out, err = run("shards", "plan", *arguments)
        assert (code, out, named in err) == (2, "", True)


def test_arguments_that_make_no_sense_are_refused(run: Run, tmp_path: Path) -> None:
    file, bare = layout_file(tmp_path / "a.json", [1.0, 1.0]), layout_file(tmp_path / "b.json", 2)
    (tmp_path / "l.csv").write_text("hash_key,load\n5,-1\n")
    (tmp_path / "m.csv").write_text("key,load\n5,1\n")
    (tmp_path / "n.csv").write_text(f"hash_key,load\n{'5' * 200_000},1\n")
    # Numbers of Python's that nobody else writes so; a file without a row; a name that comes twice.
    (tmp_path / "o.csv").write_text("hash_key,load\n5,1_000\n")
    (tmp_path / "p.csv").write_text("hash_key,load\n5,٥\n", encoding="utf-8")
    (tmp_path / "q.csv").write_text("hash_key,load\n")
    (tmp_path / "twice.json").write_text(f'{{"shards": [], {file.read_text()[1:]}')
    for arguments in (
        *(("--layout", file, "--cap", 1, "--load", tmp_path / f"{name}.csv") for name in "opq"),
        ("--layout", tmp_path / "twice.json", "--cap", 1),
        ("--layout", file),
        ("--layout", file, "--cap", 1, "--to", bare),
        ("--layout", file, "--cap", 0),
        ("--layout", file, "--cap", "nan"),
        ("--layout", file, "--to", bare, "--shards", 3),
        ("--layout", file, "--cap", 1, "--tolerance", 3),
        ("--layout", bare, "--cap", 1),
        ("--layout", file, "--cap", 1, "--load", tmp_path / "l.csv"),
        ("--layout", file, "--cap", 1, "--load", tmp_path / "m.csv"),
        ("--layout", file, "--cap", 1, "--load", tmp_path / "n.csv"),
        ("--layout", file, "--cap", 1, "--write", file),
    ):
        assert run("shards", "plan", *arguments)[:2] == (2, ""), arguments
    assert run("shards", "plan", "--layout", tmp_path / "none", "--cap", 1)[0] == 1


def test_the_planned_layout_is_written_and_can_be_planned_to(run: Run, tmp_path: Path) -> None:
    file, out = layout_file(tmp_path / "a.json", [9.0, 1.0]), tmp_path / "new.json"
    found = planned(run, 3, "--layout", file, "--cap", 5, "--write", out, "--report", tmp_path / "p.html")
    again = planned(run, 3, "--layout", file, "--to", out)
    assert again["calls"] == found["calls"]
    page = (tmp_path / "p.html").read_text()
    assert all(call["at"] in page for call in found["calls"])
    assert planned(run, 0, "--layout", out, "--cap", 5)["calls"] == []
    assert run("shards", "plan", "--layout", file, "--cap", 5, "--write", out)[0] == 2


@pytest.mark.parametrize(("today", "wanted"), [(4, 3), (10, 12), (48, 52), (100, 125), (7, 7), (16, 32)])
def test_equal_shards_keep_the_boundaries_that_two_counts_share(today: int, wanted: int) -> None:
    """Of rounding they differ by some keys: counted exactly, no boundary of 10 and 12 shards is shared."""
    calls = today + wanted - 2 * gcd(today, wanted)
    assert plan_shards.uniform_calls(new_layout(today), wanted) == calls
    exact = difference(new_layout(today), new_layout(wanted).starts)
    assert (exact > calls) == ((today, wanted) not in {(4, 3), (7, 7), (16, 32)}), "the twin without a tolerance"


def test_the_answer_says_whether_the_cap_is_kept(run: Run, tmp_path: Path) -> None:
    even = layout_file(tmp_path / "a.json", [14_970.5, 800, 1_200.25, 300, 90, 4_000, 60, 700])
    code, out, err = run("shards", "plan", "--layout", even, "--cap", 2_000, "--report", tmp_path / "p.html")
    assert code == 3, err
    assert "the cap is kept: no shard carries more than 2,000, if the load inside" in out, "no key was counted"
    assert "14,970.5 (749% of the cap) before" in out
    assert "one uniform update is from 4 to 16 shards" in out
    page, carried = out.splitlines()[-2:]
    assert page == f"page: {tmp_path / 'p.html'}"
    assert carried == "carry it out: add --out plan.json, then keylane shards apply plan.json --stream ADDRESS"
    assert "e+" not in out + (tmp_path / "p.html").read_text().partition("<script")[0]
    (tmp_path / "load.csv").write_text(f"hash_key,load\n5,9000\n{2**127},10\n")
    code, out, _ = run("shards", "plan", "--layout", even, "--cap", 2_000, "--load", tmp_path / "load.csv")
    assert code == 4
    assert "the cap is kept" not in out, "the twin: a key over the cap by itself"


def test_every_cell_of_the_page_names_its_column_for_narrow_screens(run: Run, tmp_path: Path) -> None:
    layout = layout_file(tmp_path / "a.json", [900, 120, 80, 60])
    assert run("shards", "plan", "--layout", layout, "--cap", 500, "--report", tmp_path / "p.html")[0] == 3
    page = (tmp_path / "p.html").read_text()
    heads = ["Step", "Call", "Shards", "At", "Makes", "Open afterwards"]
    (row,) = (row for row in page.split("<tr>") if "SplitShard</span>" in row)
    assert [cell.partition('"')[0] for cell in row.split('data-head="')[1:]] == heads


@pytest.mark.parametrize(
    ("stream", "wrong"),
    [((), "does not name its stream: got"), (("--stream", "accounts"), "not the address of a stream: got 'accounts'")],
)
def test_apply_names_the_address_that_it_lacks(run: Run, tmp_path: Path, stream: Any, wrong: str) -> None:
    today, plan = layout_file(tmp_path / "a.json", [10.0, 1.0]), tmp_path / "plan.json"
    planned(run, 3, "--layout", today, "--cap", 6, "--out", plan)
    code, out, err = run("shards", "apply", plan, *stream)
    assert (code, out, wrong in " ".join(err.split()), "--stream ADDRESS" in err) == (2, "", True, True)
