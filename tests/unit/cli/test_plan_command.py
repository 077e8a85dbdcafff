"""`keylane plan` from a stored profile: no Spark, an answer that can be acted on, and files that are what it says."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator
from pyarrow import parquet
from tests.unit.plan.conftest import drawn, made

from keylane import Router, load_contract, partitioner
from keylane.contract.model import Key
from keylane.measure.balance import max_over_mean
from keylane.profile.build import fingerprint_of
from keylane.systems.profiles import read_profile, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

TODAY = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments, epoch: 4, owner: us}
spec: {streams: [payments], lanes: 8, key: {fields: [k]}, partitioner: kafka-java, expect: {max_over_mean: 1.3}}
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of 2,000 keys, the heaviest about one lane of eight."""
    from dataclasses import replace

    folder = tmp_path_factory.mktemp("plan") / "day.profile"
    folder.mkdir()
    profile = replace(made(drawn(2_000, 80_000)), key=Key(fields=("k",)))
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), folder)
    return folder


@pytest.fixture
def today(tmp_path: Path) -> Path:
    path = tmp_path / "today.yaml"
    path.write_text(TODAY)
    return path


def answer(run: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = run("plan", *arguments, "-o", "json")
    assert err == ""
    return code, json.loads(out)


def test_the_answer_holds_what_programs_read(run: Run, stored: Path) -> None:
    code, found = answer(run, stored, "--lanes", 8)
    assert code == 0
    assert set(found["chosen"]) >= {"strategy", "lanes", "order_scope", "max_over_mean"}
    wanted = {"strategy", "lanes", "order_scope", "max_over_mean", "cv", "moved_keys", "moved_traffic"}
    assert all(set(one) >= wanted for one in found["candidates"])
    assert len(found["candidates"]) == 12
    assert found["floor"]["8"]["max_over_mean"] >= 1


def test_a_change_from_todays_contract_ends_with_3(run: Run, stored: Path, today: Path) -> None:
    code, found = answer(run, stored, "--lanes", 8, "--contract", today)
    assert (code, found["changes"]) == (3, True)
    assert 0 < found["chosen"]["moved_traffic"] < 0.5
    assert found["candidates"][0]["strategy"] == found["chosen"]["strategy"]


def test_todays_contract_that_is_as_good_ends_with_0(run: Run, stored: Path, tmp_path: Path) -> None:
    """The plan's own contract, planned again on the same records, is left alone."""
    first = tmp_path / "first.yaml"
    answer(run, stored, "--lanes", 8, "--write", first)
    code, found = answer(run, stored, "--lanes", 8, "--contract", first)
    assert (code, found["changes"], found["contract"]) == (0, False, None)


def test_a_constraint_that_nothing_keeps_ends_with_4(run: Run, stored: Path) -> None:
    code, found = answer(run, stored, "--lanes", 64, "--max-over-mean", 1.01)
    assert (code, found["chosen"]["met"]) == (4, False)


def test_the_contract_that_is_written_does_what_the_plan_says(run: Run, stored: Path, tmp_path: Path) -> None:
    """Every key placed by a router under the written file gives the figure of the plan, to the last record."""
    from keylane.systems.profiles import read_profile

    path = tmp_path / "contract.yaml"
    _, found = answer(run, stored, "--lanes", 8, "--write", path, "--show-keys")
    profile = read_profile(stored)
    lanes = Router(load_contract(path)).lanes(profile.keys).to_numpy()
    loads = np.bincount(lanes, profile.records, minlength=8)
    assert max_over_mean(loads) == pytest.approx(found["chosen"]["fitted"], abs=1e-6)
    assert loads.tolist() == found["over_time"]["after"]["totals"]
    assert path.read_text() == found["contract"]


def test_a_changed_contract_is_the_next_epoch_of_todays(run: Run, stored: Path, today: Path, tmp_path: Path) -> None:
    path = tmp_path / "next.yaml"
    answer(run, stored, "--lanes", 8, "--contract", today, "--write", path)
    found = load_contract(path)
    assert (found.metadata.name, found.metadata.epoch, found.metadata.owner) == ("payments", 5, "us")
    assert found.spec.expect.max_over_mean == 1.3


def test_a_saved_plan_is_bound_to_what_was_observed(run: Run, stored: Path, today: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    _, found = answer(run, stored, "--lanes", 8, "--contract", today, "--out", path)
    saved = json.loads(path.read_text())
    assert saved["plan"] == found
    source, contract = saved["bound"]["source"], saved["bound"]["contract"]
    assert source["profile_fingerprint"] == json.loads((stored / "profile.json").read_text())["fingerprint"]
    assert source["profile"] == str(stored)
    assert (contract["path"], contract["fingerprint"]) == (str(today), load_contract(today).fingerprint)


def test_files_that_are_there_are_left_alone(run: Run, stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    code, _, err = run("plan", stored, "--lanes", 8, "--write", path)
    assert (code, path.read_text()) == (2, "mine")
    assert "--force" in err
    assert run("plan", stored, "--lanes", 8, "--write", path, "--force")[0] == 0
    assert path.read_text() != "mine"


def test_a_page_is_written_and_asks_for_nothing(run: Run, stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    run("plan", stored, "--lanes", 8, "--report", path)
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_explain_is_a_page_of_plain_words(run: Run, stored: Path, today: Path) -> None:
    code, out, _ = run("plan", stored, "--lanes", 8, "--contract", today, "--explain")
    assert code == 3
    for heading in ("PROFILE of", "RECOMMENDATION", "ALTERNATIVES", "COST OF THE CHANGE"):
        assert heading in out
    assert "change lane" in out


def test_no_key_is_shown_unless_asked(run: Run, stored: Path, tmp_path: Path) -> None:
    """Neither printed nor on the page; only the contract's own file names keys, and the saved plan, which holds it."""
    first, page = tmp_path / "first.yaml", tmp_path / "page.html"
    run("plan", stored, "--lanes", 8, "--write", first)
    assert "key-0" in first.read_text()
    said = [stored, "--lanes", 16, "--contract", first, "--report", page]
    for output in ("table", "json", "csv", "jsonl"):
        assert "key-0" not in run("plan", *said, "--force", "-o", output)[1]
    assert "key-0" not in page.read_text()
    run("plan", *said, "--force", "--show-keys")
    assert "key-0" in page.read_text()


def test_a_kept_profile_names_a_key_alike_in_all_documents(run: Run, stored: Path, tmp_path: Path) -> None:
    """One salt, kept with the profile; another profile has another, and so gives nothing away."""
    import shutil

    copy = tmp_path / "copy.profile"
    shutil.copytree(stored, copy)
    (copy / "salt").unlink(missing_ok=True)

    def heaviest(folder: Path, command: str = "profile") -> str:
        found = json.loads(run(command, folder, "-o", "json", *(("--lanes", 8) if command == "plan" else ()))[1])
        return str((found["profile"] if command == "plan" else found)["heavy"][0]["key"])

    page = tmp_path / "page.html"
    run("plan", copy, "--lanes", 8, "--report", page)
    assert heaviest(copy) == heaviest(copy) == heaviest(copy, "plan") != heaviest(stored)
    assert heaviest(copy) in page.read_text()
    assert (copy / "salt").stat().st_mode & 0o777 == 0o600
    salt = (copy / "salt").read_text()
    assert salt not in page.read_text() + run("profile", copy, "-o", "json")[1]
    (copy / "salt").write_text("not hex")
    code, _, err = run("profile", copy)
    assert (code, "salt" in err) == (1, True)


def test_keys_that_are_bytes_are_said_to_leave_strategies_out(run: Run, tmp_path: Path, stored: Path) -> None:
    profile = read_profile(stored)
    (name,) = profile.key.fields
    keys = pa.table({name: profile.keys.column(name).cast(pa.binary())})
    raw = replace(profile, keys=keys, key=profile.key.model_copy(update={"encoding": "raw"}))
    (tmp_path / "raw.profile").mkdir()
    write_profile(replace(raw, fingerprint=fingerprint_of(raw)), tmp_path / "raw.profile")
    said = "Strategies that name keys were left out: a contract names keys as text or whole numbers, not as bytes"
    assert said in run("plan", tmp_path / "raw.profile", "--lanes", 8)[1]
    assert said not in run("plan", stored, "--lanes", 8)[1]


def test_a_profile_that_is_not_there_is_said_not_to_be(run: Run, tmp_path: Path) -> None:
    for name in ("nofile.profile", "nofile.parquet"):
        code, out, err = run("plan", tmp_path / name)
        assert (code, out) == (1, "")
        assert "no such file" in err.lower()
        assert name in err


@pytest.mark.parametrize("lanes", ["0", "12..", "128..12", "many", "-3", "999999"])
def test_a_count_that_is_none_is_refused_with_what_is_allowed(run: Run, stored: Path, lanes: str) -> None:
    code, out, err = run("plan", stored, f"--lanes={lanes}")
    assert (code, out) == (2, "")
    assert lanes in err


def test_what_says_how_to_read_is_refused_for_a_profile(run: Run, stored: Path) -> None:
    asked = (("--key", "k"), ("--time", "at:ms"), ("--engine", "local"), ("--delimiter", ";"))
    for given in (*asked, ("--master", "local[1]"), ("--conf", "spark.a=b"), ("--kafka", "client.id=a")):
        code, _, err = run("plan", stored, *given, "--lanes", 8)
        assert code == 2
        assert err.endswith(f"SRC is a profile, and counted already; hint: leave out {given[0]}\n")


def test_what_is_configured_for_spark_asks_for_no_spark(
    run: Run, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keylane.toml").write_text(
        '[spark]\nmaster = "spark://none:1"\n[spark.conf]\n"spark.executor.memory" = "1g"\n', "utf-8"
    )
    assert run("plan", stored, "--lanes", 8)[0] == 0
    rows = "".join(f'{{"k": "k-{n % 7}"}}\n' for n in range(100))
    (tmp_path / "rows.jsonl").write_text(rows, "utf-8")
    for engine in ("auto", "local"):
        code, out, err = run("profile", "rows.jsonl", "--key", "k", "--engine", engine, "-o", "json")
        assert (code, json.loads(out)["records"]) == (0, 100), err
    # Twin: on the command line the same is a request.
    code, _, err = run("profile", "rows.jsonl", "--key", "k", "--engine", "local", "--master", "spark://none:1")
    assert (code, "--master" in err) == (2, True)


def test_a_profile_is_not_said_to_be_kept_where_it_is_not(run: Run, stored: Path, tmp_path: Path) -> None:
    code, out, err = run("profile", stored, "--out", tmp_path / "copy.profile")
    assert (code, out) == (2, "")
    assert "a saved profile already" in err


def test_one_name_for_two_files_is_refused(run: Run, stored: Path, tmp_path: Path) -> None:
    code, _, err = run("plan", stored, "--lanes", 8, "--write", tmp_path / "x", "--out", tmp_path / "x")
    assert code == 2
    assert "two files" in err
    assert not (tmp_path / "x").exists()


def test_a_profile_that_was_tampered_with_is_refused(run: Run, stored: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy.profile"
    shutil.copytree(stored, copy)
    about = json.loads((copy / "profile.json").read_text())
    (copy / "profile.json").write_text(json.dumps({**about, "records": about["records"], "source": "other/"}))
    code, _, err = run("plan", copy, "--lanes", 8)
    assert code == 1
    assert "changed" in err


def test_a_stored_profile_needs_no_spark(run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run("plan", stored, "--lanes", 8)[0] == 0


def contract_of(path: Path, **spec: Any) -> Path:
    """A contract of today with these parts; JSON is YAML too."""
    given = {"streams": ["payments"], "lanes": 8, "key": {"fields": ["k"]}, "partitioner": "kafka-java", **spec}
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "payments"}, "spec": given}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "spec",
    [
        {"partitioner": "librdkafka-random"},
        {"key": {"fields": ["k"], "window": {"field": "at", "size": "1h"}}},
        {"hot_keys": [{"keys": ["key-00000", "key-00001"], "tier": {"stream": "payments.hot", "lanes": 3}}]},
        {"hot_keys": [{"keys": ["key-00000"], "spread": {"over": 3, "by": "order"}}]},
        {"table": {"values": {"key-00000": [1, 2], "key-00001": 3}, "by": "order"}},
    ],
    ids=["keyless", "window", "tier", "spread", "table"],
)
def test_whatever_today_is_it_moves_nothing_itself_and_a_change_is_counted_once(
    run: Run, stored: Path, tmp_path: Path, spec: dict[str, Any]
) -> None:
    today = contract_of(tmp_path / "now.yaml", **spec)
    code, found = answer(run, stored, "--lanes", 8, "--contract", today)
    assert code == (3 if found["changes"] else 0)
    assert found["chosen"]["fullest_share"] <= found["today"]["fullest_share"]
    code, found = answer(run, stored, "--lanes", 16, "--contract", today)
    assert code == 3
    assert (found["today"]["moved_keys"], found["today"]["moved_traffic"]) == (0, 0)
    for name in ("moved_keys", "moved_traffic"):
        assert found["change"][name] == found["chosen"][name] > 0


def test_a_contract_of_another_key_is_refused(run: Run, stored: Path, tmp_path: Path) -> None:
    for key in ({"fields": ["card"]}, {"fields": ["k"], "encoding": "uuid"}):
        code, out, err = run("plan", stored, "--contract", contract_of(tmp_path / "other.yaml", key=key))
        assert (code, out) == (2, "")
        assert "got" in err
        assert "allowed: k (utf8)" in err


def test_what_today_does_with_null_keys_stays(run: Run, stored: Path, tmp_path: Path) -> None:
    today = contract_of(tmp_path / "now.yaml", key={"fields": ["k"], "on_null": "reject"})
    code, found = answer(run, stored, "--lanes", 8, "--contract", today, "--write", tmp_path / "next.yaml")
    assert code == 3
    assert load_contract(tmp_path / "next.yaml").spec.key.on_null == "reject"
    assert not any("null" in one["message"] for one in found["change"]["kinds"])


def test_the_key_itself_is_no_sub_key(run: Run, stored: Path) -> None:
    code, out, err = run("plan", stored, "--lanes", 8, "--sub-key", "k", "--keep-order", "per-sub-key")
    assert (code, out) == (2, "")
    assert "--sub-key k" in err
    assert "differs within one key" in err


def test_the_window_of_a_contract_counts_as_the_profile_did(run: Run, tmp_path: Path) -> None:
    from dataclasses import replace

    from keylane.profile.model import Windows

    hours = Windows("time", tuple(3_600_000_000 * n for n in range(49)))
    profile = replace(made(np.full((1, 48), 100)), windows=hours, facts=(("time", "paid_at"), ("unit", "s")))
    folder = tmp_path / "hours.profile"
    folder.mkdir()
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), folder)
    wanted = ("--lanes", 8, "--keep-order", "per-key-and-window", "--write", tmp_path / "next.yaml")
    assert answer(run, folder, *wanted)[1]["chosen"]["strategy"] == "window"
    window = load_contract(tmp_path / "next.yaml").spec.key.window
    assert window is not None
    assert (window.field, window.unit, window.size) == ("paid_at", "s", "1h")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_whole_numbers_of_every_unit_are_planned_and_nanoseconds_rule_out_windows_alone(
    unit: str, run: Run, tmp_path: Path
) -> None:
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = [(1_794_821_400 + 60 * n) * ticks for n in range(400)]
    parquet.write_table(pa.table({"k": [f"k{n % 37}" for n in range(400)], "at": times}), tmp_path / "a.parquet")
    code, found = answer(run, tmp_path / "a.parquet", "--key", "k", "--time", "at", "--lanes", 4)
    assert code == 0
    assert ("no windows of whole nanoseconds" in json.dumps(found)) == (unit == "ns")


def test_a_profile_that_is_kept_is_said_to_be(run: Run, stored: Path) -> None:
    code, out, _ = run("profile", stored)
    assert code == 0
    assert f"saved in {stored}" in out
    assert answer(run, stored, "--lanes", 8)[1]["profile"]["profile"] == str(stored)


def complaints(document: dict[str, Any]) -> list[str]:
    schema = json.loads(files("keylane").joinpath("schemas", "plan.json").read_text("utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize(
    "said",
    [
        ("--lanes", 8),
        ("--lanes", "4..32", "--keep-order", "none"),
        ("--lanes", 64, "--max-over-mean", 1.01),
        ("--lanes", 8, "--keep-order", "per-sub-key", "--sub-key", "order", "--show-keys"),
    ],
    ids=["plain", "a range", "unmet", "sub-key"],
)
def test_what_is_printed_keeps_the_published_schema(
    run: Run, stored: Path, today: Path, said: tuple[object, ...]
) -> None:
    for more in ((), ("--contract", today)):
        assert complaints(answer(run, stored, *said, *more)[1]) == []


@pytest.mark.parametrize(
    "planted",
    [{"chosen": {}}, {"candidates": [{"strategy": "pin"}]}, {"floor": {"eight": {}}}, {"more": 1}, {"changes": "yes"}],
)
def test_the_schema_says_no(run: Run, stored: Path, planted: dict[str, Any]) -> None:
    assert complaints({**answer(run, stored, "--lanes", 8)[1], **planted}) != []


@pytest.fixture(scope="module")
def pings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of six home cells, each as heavy, as `profile --place lat,lng` keeps one."""
    from dataclasses import replace

    from tests.unit.plan.cell_profiles import six_cells

    folder = tmp_path_factory.mktemp("plan") / "pings.profile"
    folder.mkdir()
    profile = replace(six_cells(), facts=(("place", ["lat", "lng"]), ("no_place", {"place-zero": 3})))
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), folder)
    return folder


def test_a_table_of_six_cells_on_sixty_lanes_states_what_is_possible(run: Run, pings: Path) -> None:
    code, found = answer(run, pings, "--lanes", 60)
    schema = json.loads((files("keylane") / "schemas" / "plan.json").read_text(encoding="utf-8"))
    assert (code, list(Draft202012Validator(schema).iter_errors(found))) == (0, [])
    geo = found["geo"]
    assert (geo["place"], geo["no_place"], geo["home_cells"]) == (["lat", "lng"], {"place-zero": 3}, 6)
    first = geo["possible"]["steps"][0]
    assert (first["lanes_filled"], first["cv"], first["max_over_mean"]) == (6, 3.0, 10.0)
    assert (geo["possible"]["enough_at"], geo["possible"]["even_lanes"]) == (None, 6)
    assert {one["strategy"] for one in found["candidates"]} == {"geo-hash", "geo-table", "geo-curve"}


def test_what_is_possible_is_printed_explained_and_on_the_page(run: Run, pings: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    _, out, _ = run("plan", pings, "--lanes", 60, "--report", page)
    _, reasons, _ = run("plan", pings, "--lanes", 60, "--explain")
    says = "6 of 60 lanes"
    assert says in out
    assert says in " ".join(reasons.split())
    assert says in page.read_text()
    assert "not locations: 3 place-zero" in out
    _, few, _ = run("plan", pings, "--lanes", 6)
    assert "can fill at most" not in few


def test_a_place_is_two_columns_and_no_other_key(run: Run, pings: Path, tmp_path: Path) -> None:
    for wrong in ("lat", "lat,lng,alt", "lat,", "lat,lat"):
        code, _, err = run("plan", tmp_path, "--place", wrong)
        assert (code, "--place takes two columns" in err) == (2, True)
    code, _, err = run("plan", pings, "--place", "lat,lng")
    assert (code, "counted already" in err) == (2, True)
    code, _, err = run("plan", tmp_path, "--place", "lat,lng", "--encoding", "h3")
    assert (code, "leave it out" in err) == (2, True)


def test_lanes_that_nobody_knows_are_asked_for(run: Run, stored: Path) -> None:
    code, out, err = run("plan", stored)
    assert (code, out) == (2, "")
    assert "--lanes" in err
    assert answer(run, stored, "--lanes", 6)[1]["chosen"]["lanes"] == 6  # the twin
    needed = answer(run, stored, "--readers", 5)[1]
    assert needed["chosen"]["lanes"] >= 5
    assert any("Lanes: " in why and "5 parallel readers" in why for why in needed["chosen"]["why"])


def test_floor_ceiling_and_the_fullest_lane_are_of_the_same_records(run: Run, tmp_path: Path) -> None:
    """The heaviest key has a tenth of all records, and a third of the newest: those are what figures are counted on."""
    rng = np.random.default_rng(2)
    counts = [[100] * 6 + [2_000] * 2, *rng.poisson(5, (800, 8)).tolist()]
    (tmp_path / "grown.profile").mkdir()
    profile = made(counts)
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), tmp_path / "grown.profile")
    found = answer(run, tmp_path / "grown.profile", "--lanes", 8)[1]
    newest = found["basis"]["records"]
    top = found["ceiling"]["hottest_key_share"]
    assert top == pytest.approx(4_000 / newest)
    assert top <= found["chosen"]["fullest_share"]
    assert found["profile"]["heavy"][0]["share"] < top / 1.5  # the twin: of all records it is another figure
    assert f"{newest:,} records" in found["ceiling"]["says"]


def test_a_spread_by_a_field_that_was_not_counted_says_how_it_is_scored(run: Run, stored: Path) -> None:
    asked = ("--lanes", 8, "--keep-order", "per-sub-key")
    noted = [one for one in answer(run, stored, *asked, "--sub-key", "order_id")[1]["notes"] if "order_id" in one]
    assert len(noted) == 1
    assert "`spread`" in noted[0]
    assert "--key k --key order_id" in noted[0]
    assert not any("did not count" in one for one in answer(run, stored, *asked)[1]["notes"])


def test_the_reasons_name_every_candidate_with_a_higher_score(run: Run, stored: Path, today: Path) -> None:
    for more in ((), ("--contract", today)):
        found = answer(run, stored, "--lanes", 8, *more)[1]
        why, chosen = " ".join(found["chosen"]["why"]), found["chosen"]
        above = [
            one["strategy"]
            for one in found["candidates"]
            if one["allowed"] and one["against_today"] != "identical" and one["score"] > chosen["score"] + 0.005
        ]
        assert all(f"`{name}`" in why for name in above)
        assert "Preferred to `" in why


MIXED = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: t}
spec: {streams: [t], lanes: 8, key: {fields: [k]}, partitioner: kafka-java}
"""


@pytest.mark.parametrize("second", [0, 7], ids=["one writer", "two writers"])
def test_records_that_are_not_where_the_contract_puts_them_come_before_any_plan(
    run: Run, tmp_path: Path, second: int
) -> None:
    """A seventh of the records has another client's placement; without it neither command has a word about that."""
    java, other = partitioner("kafka-java"), partitioner("librdkafka-consistent-random")
    keys = [f"m{n * n % 1_009}" for n in range(14_000)]
    at = [(other if second and n % second == 0 else java).lane(key.encode(), 8) for n, key in enumerate(keys)]
    parquet.write_table(pa.table({"k": keys, "lane": at, "n": range(len(keys))}), tmp_path / "d.parquet")
    (tmp_path / "c.yaml").write_text(MIXED)
    wrong = sum(java.lane(key.encode(), 8) != lane for key, lane in zip(keys, at, strict=True))
    told = ["--contract", tmp_path / "c.yaml"]
    code, out, err = run("profile", tmp_path / "d.parquet", *told, "--lane", "lane", "--out", tmp_path / "d.profile")
    assert code == 0, err
    share = f"{100 * wrong / len(keys):.1f}%"
    text = f"{share} of the records ({wrong:,} of 14,000) are not in the lane that the contract gives their key"
    assert out.startswith(f"misplaced: {text}\n") == bool(second)
    assert "At least" not in out, "a lower bound beside the exact number"
    code, out, err = run("plan", tmp_path / "d.profile", *told, "--report", tmp_path / "p.html")
    assert out.startswith(f"Fix the writers first: {text}.") == bool(second), err
    assert "At least" not in out
    headline = f'<h1><em class="worse">Fix the writers first</em>: {text}.</h1>'
    assert (headline in (tmp_path / "p.html").read_text()) == bool(second)


def test_the_columns_that_decide_are_explained_below_the_table(run: Run, stored: Path, today: Path) -> None:
    _, out, _ = run("plan", stored, "--contract", today)
    table, _, below = out.partition("\ncandidates")[2].partition("\n")[2].partition("\n\n")
    heads = table.splitlines()[0].split()
    assert {"WORK", "SCORE"} <= set(heads)
    assert "  WORK: " in below
    assert "  SCORE: " in below
    assert "the one that changes least" in below
    tiers = [row for row in table.splitlines()[1:] if row.startswith("tier")]
    assert tiers, "a candidate with lanes of its own shows how many"
    assert tiers[0].split()[2] != "0"


def test_todays_contract_is_a_row_whatever_was_asked_for(run: Run, stored: Path, today: Path) -> None:
    """Also where it misses what was asked for; where its count stays, rows of other counts were not asked for."""

    def rows(*more: object) -> list[list[str]]:
        _, out, err = run("plan", stored, "--contract", today, *more)
        assert err == ""
        table = out.split("\ncandidates")[1].partition("\n")[2].split("\n\n")[0]
        return [line.split()[:2] for line in table.splitlines()[1:]]

    for more in ((), ("--readers", 20), ("--max-over-mean", 1.01), ("--lanes", "8..64"), ("--lanes", 32)):
        assert [name for name, _ in rows(*more)].count("today") == 1, more
    assert {lanes for _, lanes in rows("--readers", 2)} == {"8"}
    assert {lanes for _, lanes in rows("--lanes", "8..64")} >= {"8", "16", "64"}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--growth", 2), 2),
        (("--headroom", 0.5), 2),
        (("--growth", 2, "--readers", 4), 2),
        (("--growth", 2, "--lane-records-s", 1e9), 3),
        (("--readers", 4), 3),
    ],
)
def test_what_needs_a_rate_is_refused_without_one(
    run: Run, stored: Path, today: Path, tmp_path: Path, more: tuple[object, ...], code: int
) -> None:
    """Twice the traffic of a lane that nobody knows the limit of is no question: it had no effect, in silence."""
    timed = tmp_path / "timed.profile"
    timed.mkdir()
    profile = read_profile(stored)
    edges = tuple(3_600_000_000 * hour for hour in range(len(profile.windows) + 1))
    profile = replace(profile, windows=replace(profile.windows, kind="time", edges=edges))
    write_profile(replace(profile, fingerprint=fingerprint_of(profile)), timed)
    found, _, err = run("plan", timed, "--contract", today, *more)
    assert found == code, err
    assert ("nothing says what one lane takes" in err) == (code == 2)


def test_a_field_that_may_divide_keys_is_an_order_that_is_enough(run: Run, stored: Path, today: Path) -> None:
    """The advice is to divide the hot keys by `--sub-key FIELD`: that has to do it, and not to be advised again."""

    def asked(*more: object) -> tuple[str, set[str], str]:
        _, found = answer(run, stored, "--contract", today, *more)
        allowed = {one["strategy"] for one in found["candidates"] if one["allowed"]}
        return found["constraints"]["keep_order"], allowed, (found["holding"] or {"says": ""})["says"]

    order, allowed, says = asked("--sub-key", "order_id")
    assert (order, {"spread", "concentrate"} <= allowed, "--sub-key" in says) == ("per-sub-key", True, False)
    order, allowed, _ = asked("--sub-key", "order_id", "--keep-order", "per-key")
    assert (order, {"spread", "concentrate"} & allowed) == ("per-key", set())
    assert asked()[0] == "per-key"


def test_a_first_contract_has_nothing_to_drain(run: Run, stored: Path, today: Path) -> None:
    """The steps refer to a drain only where there is one."""

    def steps(*more: object) -> tuple[str, set[str]]:
        by_hand = answer(run, stored, "--lanes", 8, *more)[1]["by_hand"]
        return " ".join(one["what"] for one in by_hand), {one["who"] for one in by_hand}

    text, who = steps()
    assert ("Deploy them together" in text, "drain" in text, "consumers" in who) == (True, False, False)
    text, who = steps("--contract", today)
    assert ("after the drain above" in text, "drain: " in text, "consumers" in who) == (True, True, True)


def test_rows_for_programs_have_the_values_of_the_document(run: Run, stored: Path, today: Path) -> None:
    asked = ("plan", stored, "--contract", today)
    document = {row["strategy"]: row for row in json.loads(run(*asked, "-o", "json")[1])["candidates"]}
    rows = [json.loads(line) for line in run(*asked, "-o", "jsonl")[1].splitlines()]
    assert rows
    assert all(row["against_today"] == document[row["strategy"]]["against_today"] for row in rows)
    assert "the same as today" in run(*asked)[1]
