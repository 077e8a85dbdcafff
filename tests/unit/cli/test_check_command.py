from __future__ import annotations

import csv
import io
import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]
    DataFile = Callable[..., Path]

BROKEN = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: test}
spec:
  streams: [t, t]
  lanes: 0
  key:
    fields: [k]
    encodng: utf8
  partitioner: kafka-jav
"""


NO_DATA = "compared with no data (--data)"


def checked(run: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = run("check", *arguments, "-o", "json")
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    assert found["ok"] == (code == 0)
    return code, found


def wheres(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["where"], finding["severity"]) for finding in found["findings"]]


def test_a_contract_that_holds_is_ok(run: Run, contract_file: ContractFile) -> None:
    code, found = checked(run, contract_file(golden=[{"key": "TT0124", "lane": 10}]))
    assert (code, found["findings"], found["contract"]) == (0, [], "test")
    assert found["answers"] == [
        {"rule": "every other key", "order_scope": "per-key", "lanes_per_key": 1, "readers_merge": False}
    ]
    assert (
        run("check", contract_file())[1] == f"ok: a valid contract; no golden examples, no hot-key rules; {NO_DATA}\n"
    )


def test_ok_says_what_was_tried(run: Run, contract_file: ContractFile, data_file: DataFile) -> None:
    hot = [{"keys": ["a"], "pin": {"lanes": [3]}}, {"keys": ["b"], "pin": {"lanes": [4]}}]
    whole = contract_file(golden=[{"key": "TT0124", "lane": 10}], hot_keys=hot)
    assert run("check", whole)[1] == f"ok: a valid contract; 1 golden example, 2 hot-key rules; {NO_DATA}\n"
    other, one, two = contract_file("b.yaml"), data_file("a.parquet"), data_file("b.parquet", keys=400)
    expecting = contract_file("c.yaml", expect={"max_over_mean": 2.0, "min_distinct_keys": 5})
    head = "ok: no golden examples, no hot-key rules; 500 rows, "
    assert run("check", expecting, "-d", one)[1] == f"{head}each in its lane; 2 of 2 expectations kept\n"
    assert run("check", other, expecting)[1] == "ok: 2 contracts, which place every key alike\n"
    said = "ok: 400 shared keys, each in the same lane everywhere; at most 0.75% of all keys differ (95% confidence)\n"
    assert run("check", one, two, "-k", "k")[1] == said


def test_the_heaviest_key_and_misplaced_keys_are_named_on_request(
    run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    (tmp_path / "d.csv").write_text("k,lane\n" + "merchant-heavy,14\n" * 300 + "merchant-light,14\n" * 100)
    strict = contract_file(expect={"max_key_share": 0.1})
    arguments = ("check", strict, "--data", tmp_path / "d.csv")
    code, out, _ = run(*arguments, "--show-keys")
    assert code == 4
    assert "the heaviest key (merchant-heavy) has 75.0% of all rows; allowed: at most 10.0%" in out
    assert "Rows that are not where the contract puts their key:" in out
    _, found = checked(run, *arguments[1:], "--show-keys")
    assert found["data"]["heaviest"] == {"key": "merchant-heavy", "records": 300}
    assert [one["key"] for one in found["data"]["examples"]] == ["merchant-heavy", "merchant-light"]
    assert all(one["lane"] == 14 != one["expected"] for one in found["data"]["examples"])
    code, out, _ = run(*arguments)
    assert "merchant-" not in out, "keys are personal data"
    assert "the heaviest key (merc…" in out
    assert "--show-keys" in out


def test_keys_in_several_lanes_are_shown_with_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "k,lane\n" + "".join(f"merchant-{i},{i % 7}\n" for i in range(50)) + "merchant-7,3\n"
    )
    (tmp_path / "b.csv").write_text("k,lane\n" + "".join(f"merchant-{i},{i % 7 + (i == 9)}\n" for i in range(50)))
    arguments = ("check", tmp_path / "a.csv", tmp_path / "b.csv", "-k", "k")
    _, found = checked(run, *arguments[1:], "--show-keys")
    shown = [(one["key"], one["data"].rpartition("/")[2], one["lanes"]) for one in found["examples"]]
    assert shown == [
        ("merchant-7", "a.csv", [0, 3]),
        ("merchant-7", "b.csv", [0]),
        ("merchant-9", "a.csv", [2]),
        ("merchant-9", "b.csv", [3]),
    ]
    out = run(*arguments)[1]
    assert "Keys that are not in one lane:" in out
    assert "merchant-" not in out


def test_hot_keys_that_differ_are_reported_in_words(run: Run, contract_file: ContractFile) -> None:
    tier = {"keys": ["a"], "tier": {"stream": "vip", "lanes": 16}}
    pins = {"keys": ["b", "c", "d", "e"], "pin": {"lanes": [1, 2, 3, 4]}}
    one, other = contract_file("one.yaml", hot_keys=[tier, pins]), contract_file("other.yaml")
    code, found = checked(run, one, other, "--show-keys")
    (finding,) = found["findings"]
    names = {"one": str(one), "other": str(other)}
    assert code == 4
    assert finding["message"] == (
        "not the same: key a: {one} has it in a tier of 16 lanes, {other} has no rule for it; "
        "key b: {one} has it pinned to lane 1, {other} has no rule for it; "
        "key c: {one} has it pinned to lane 2, {other} has no rule for it; and 2 more keys"
    ).format(**names)


def test_tables_that_differ_are_reported_in_words_with_keys_cut(run: Run, contract_file: ContractFile) -> None:
    key = "AMAZON UK MARKETPLACE"
    one, other = contract_file("one.yaml"), contract_file("other.yaml", table={"values": {key: 7}})
    code, out, _ = run("check", one, other)
    assert code == 4
    assert key not in out
    text = " ".join(out.split())
    assert "one.yaml has no table: it places all keys by the hash" in text
    assert "other.yaml has a table of 1 key (AMAZ…" in text
    assert "--show-keys shows them whole" in text
    (finding,) = checked(run, one, other, "--show-keys")[1]["findings"]
    assert f"has a table of 1 key ({key}: lane 7), the others by the hash" in finding["message"]
    moved = contract_file("moved.yaml", table={"values": {key: 8}})
    (finding,) = checked(run, other, moved, "--show-keys")[1]["findings"]
    assert f"key {key}: {other} has lane 7, {moved} has lane 8" in finding["message"]
    hourly = contract_file("hourly.yaml", key={"fields": ["k"], "encoding": "int64be"})
    (finding,) = checked(run, one, hourly)[1]["findings"]
    assert f"{one} has encodings: utf8, {hourly} has encodings: int64be" in finding["message"]


def test_every_problem_of_an_invalid_contract_comes_with_its_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(BROKEN)
    code, found = checked(run, tmp_path / "c.yaml")
    assert code == 2
    assert [(f["line"], f["where"]) for f in found["findings"]] == [
        (5, "spec.streams[1]"),
        (6, "spec.lanes"),
        (9, "spec.key.encodng"),
        (10, "spec.partitioner"),
    ]
    messages = [finding["message"] for finding in found["findings"]]
    assert "given twice" in messages[0]
    assert "did you mean 'encoding'?" in messages[2]
    assert "did you mean 'kafka-java'?" in messages[3]


def test_an_invalid_contract_is_printed_in_every_format(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(BROKEN)
    code, out, err = run("check", tmp_path / "c.yaml")
    assert (code, err) == (2, "")
    assert out.splitlines()[0] == "broken: 4 errors, 0 warnings"
    assert out.splitlines()[2].split() == ["SEVERITY", "WHERE", "LINE", "MESSAGE"]
    lines = run("check", tmp_path / "c.yaml", "-o", "jsonl")[1].splitlines()
    assert [json.loads(line)["line"] for line in lines] == [5, 6, 9, 10]
    rows = list(csv.DictReader(io.StringIO(run("check", tmp_path / "c.yaml", "-o", "csv")[1])))
    assert [row["line"] for row in rows] == ["5", "6", "9", "10"]


def test_no_findings_are_no_json_lines(run: Run, contract_file: ContractFile) -> None:
    """Every line of `-o jsonl` is a JSON document; nothing found is no line at all."""
    _, out, _ = run("check", contract_file(), "-o", "jsonl")
    assert [json.loads(line) for line in out.splitlines()] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "the file is empty", id="empty"),
        pytest.param("a: [1", "not YAML", id="no yaml"),
        pytest.param("- 1\n", "got [1]", id="a list"),
        pytest.param("a: 1\n---\nb: 2\n", "too many documents", id="two documents"),
        pytest.param("a: !!python/object:os.system {}\n", "tags are not allowed", id="a tag"),
        pytest.param("a: " + "[" * 500 + "]" * 500, "too many levels", id="nested"),
        pytest.param("# " + "x" * 300_000, "too large", id="too large"),
        pytest.param("# " + "é" * 200_000, "too large", id="too large, of two bytes each"),
    ],
)
def test_what_is_no_contract_is_found_to_be_none(text: str, message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    code, found = checked(run, tmp_path / "c.yaml")
    assert code == 2
    assert any(message in finding["message"] for finding in found["findings"])


def test_bytes_that_are_no_text_are_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"name: \xff\xfe")
    code, found = checked(run, tmp_path / "c.yaml")
    assert code == 2
    assert "got b'\\xff\\xfe'" in found["findings"][0]["message"]


def test_an_alias_bomb_costs_nothing(run: Run, tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    before = time.process_time()
    code, found = checked(run, tmp_path / "c.yaml")
    assert time.process_time() - before < 1
    assert code == 2
    assert "too many aliases" in found["findings"][0]["message"]


def test_a_missing_contract_is_a_failure(run: Run) -> None:
    code, out, err = run("check", "nowhere.yaml")
    assert (code, out) == (1, "")
    assert err == "error: no such file or directory: nowhere.yaml\n"


def test_a_golden_example_that_breaks_ends_with_four(run: Run, contract_file: ContractFile) -> None:
    code, found = checked(run, contract_file(golden=[{"key": "TT0124", "lane": 9}]))
    assert code == 4
    assert wheres(found) == [("spec.golden[0]", "error")]


def test_warnings_alone_are_ok(run: Run, contract_file: ContractFile) -> None:
    twice = contract_file(hot_keys=[{"keys": ["a", "b", "c"], "pin": {"lanes": [3, 4, 3]}}])
    code, out, _ = run("check", twice)
    assert code == 0
    assert out.splitlines()[0] == f"ok, with 1 warning: a valid contract; no golden examples, 1 hot-key rule; {NO_DATA}"


def test_keys_that_the_encoding_cannot_hold_are_findings(run: Run, contract_file: ContractFile) -> None:
    """`check` must not say ok to a contract that no router can be made of."""
    misfit = contract_file(
        key={"fields": ["k"], "encoding": "int64be"}, hot_keys=[{"keys": ["abc"], "pin": {"lanes": [0]}}]
    )
    code, found = checked(run, misfit)
    assert code in (2, 4)
    assert found["findings"][0]["where"].startswith("spec.hot_keys[0]")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_data_that_keeps_its_contract_is_ok(
    name: str, run: Run, contract_file: ContractFile, data_file: DataFile
) -> None:
    code, found = checked(run, contract_file(), "--data", data_file(name))
    assert (code, found["findings"]) == (0, [])
    assert (found["data"]["rows"], found["data"]["misplaced"], found["data"]["unplaced"]) == (500, 0, {})
    assert sum(lane["records"] for lane in found["data"]["lanes"]) == 500
    assert [lane["lane"] for lane in found["data"]["lanes"]] == list(range(15))


def test_data_of_another_writer_breaks_it(run: Run, contract_file: ContractFile, data_file: DataFile) -> None:
    code, found = checked(run, contract_file(), "--data", data_file("a.parquet", "sarama-hash"))
    assert code == 4
    assert found["data"]["misplaced"] > 400
    assert "hint: keylane identify" in found["findings"][0]["message"]


def test_a_broken_expectation_ends_with_four(run: Run, contract_file: ContractFile, tmp_path: Path) -> None:
    parquet.write_table(
        pa.table({"k": ["a", "b", "c"] * 400, "lane": [0] * 1_200}).drop(["lane"]), tmp_path / "a.parquet"
    )
    code, found = checked(run, contract_file(expect={"min_distinct_keys": 10}), "--data", tmp_path / "a.parquet")
    assert code == 4
    assert wheres(found)[0] == ("spec.expect.min_distinct_keys", "error")


@pytest.mark.parametrize("rows", [1_000, 5])
def test_what_chance_does_to_a_sample_neither_breaks_nor_shows_an_expectation(
    rows: int, run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"k": [f"m-{i}" for i in range(rows)]}), tmp_path / "a.parquet")
    expected = contract_file(lanes=64, expect={"max_over_mean": 1.3, "max_key_share": 0.02})
    code, found = checked(run, expected, "--data", tmp_path / "a.parquet")
    assert (code, found["verdict"]) == (4, "not-shown")
    assert ("spec.expect.max_over_mean", "warning") in wheres(found)
    balance, _ = found["data"]["expectations"]
    assert balance["got"] > 1.5
    assert (balance["judgement"], found["data"]["level"]) == ("cannot-tell", 0.999)
    assert balance["by_chance"] > balance["got"]
    message = next(one["message"] for one in found["findings"] if one["where"] == "spec.expect.max_over_mean")
    assert "by chance alone" in message
    assert "more keys needed" in message


@pytest.mark.parametrize(
    ("keys", "lanes", "expect", "judged"),
    [
        ("keys", "none", {}, 0),
        ("none", "lanes", {}, 0),
        ("none", "none", {}, 0),
        ("keys", "none", {"max_over_mean": 5.0, "max_key_share": 0.9}, 1),
        ("none", "lanes", {"max_over_mean": 100.0, "max_key_share": 0.9}, 1),
        ("keys", "one", {"max_over_mean": 1.1}, 0),
    ],
)
def test_what_compares_nothing_or_leaves_a_rule_open_is_not_ok(
    keys: str, lanes: str, expect: dict[str, float], judged: int, run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    """Every lane null, every key null: thousands of rows, and none of them says anything of the contract."""
    names = [f"m-{i}" for i in range(400)]
    at = [partitioner("kafka-java").lane(name.encode(), 15) for name in names]
    columns = {
        "k": pa.array(names if keys == "keys" else [None] * 400, pa.string()),
        "lane": pa.array({"lanes": at, "one": at[:1] + [None] * 399}.get(lanes, [None] * 400), pa.int32()),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    given = contract_file(lanes=15, **({"expect": expect} if expect else {}))
    code, found = checked(run, given, "--data", tmp_path / "a.parquet")
    assert (code, found["verdict"]) == (4, "not-shown")
    assert found["data"]["compared"] == (1 if lanes == "one" else 0)
    assert sum(one["judgement"] == "kept" for one in found["data"]["expectations"]) == judged
    assert not any(one["severity"] == "error" for one in found["findings"])


@pytest.mark.parametrize(("lanes", "compared"), [("all", 400), ("half", 200)])
def test_how_many_rows_were_compared_is_stated(
    lanes: str, compared: int, run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    """The twin: where rows were compared it is ok, with their number."""
    names = [f"m-{i}" for i in range(400)]
    at = [partitioner("kafka-java").lane(name.encode(), 15) for name in names]
    column = at if lanes == "all" else [lane if i % 2 else None for i, lane in enumerate(at)]
    parquet.write_table(pa.table({"k": names, "lane": pa.array(column, pa.int32())}), tmp_path / "a.parquet")
    code, found = checked(run, contract_file(lanes=15), "--data", tmp_path / "a.parquet")
    assert (code, found["verdict"], found["data"]["compared"]) == (0, "ok", compared)


def test_data_sets_of_which_no_row_has_a_lane_are_not_shown_to_be_alike(run: Run, tmp_path: Path) -> None:
    names = [f"m-{i}" for i in range(400)]
    for name, lanes in {"a": list(range(4)) * 100, "b": [None] * 400}.items():
        table = pa.table({"k": names, "lane": pa.array(lanes, pa.int32())})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    code, found = checked(run, tmp_path / "a.parquet", tmp_path / "b.parquet", "--key", "k")
    assert (code, found["verdict"], found["shared_keys"]) == (4, "not-shown", 0)


def test_the_lane_column_may_have_another_name_or_be_missing(
    run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path
) -> None:
    rows = parquet.read_table(data_file("a.parquet"))
    parquet.write_table(rows.rename_columns(["k", "partition"]), tmp_path / "b.parquet")
    code, found = checked(run, contract_file(), "--data", tmp_path / "b.parquet", "--lane", "partition")
    assert (code, found["data"]["misplaced"]) == (0, 0)
    expecting = contract_file("c.yaml", expect={"max_over_mean": 2.0})
    parquet.write_table(rows.rename_columns(["k", "elsewhere"]), tmp_path / "c.parquet")
    code, found = checked(run, expecting, "--data", tmp_path / "c.parquet")
    assert (code, found["data"]["misplaced"]) == (0, None)


def test_data_that_nothing_can_be_compared_with_is_refused(
    run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path
) -> None:
    """A gate that compares nothing must not pass: neither lanes in the data nor an expectation in the contract."""
    rows = parquet.read_table(data_file("a.parquet"))
    parquet.write_table(rows.rename_columns(["k", "elsewhere"]), tmp_path / "b.parquet")
    code, out, err = run("check", contract_file(), "--data", tmp_path / "b.parquet")
    assert (code, out) == (2, "")
    assert "k, elsewhere" in err
    assert "--lane COLUMN" in err


def test_a_csv_key_is_not_read_as_a_number(run: Run, contract_file: ContractFile, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,lane\n00042,3\n")
    code, found = checked(
        run, contract_file(hot_keys=[{"keys": ["00042"], "pin": {"lanes": [3]}}]), "--data", tmp_path / "a.csv"
    )
    assert code == 0
    assert found["data"]["lanes"][3]["records"] == 1


@pytest.mark.parametrize(
    "lane",
    [pa.array(["0", "x"]), pa.array([0.0, 1.5]), pa.array([[0], [1]])],
    ids=["text", "float", "list"],
)
def test_a_lane_column_that_holds_no_lanes_is_an_error(
    lane: pa.Array, run: Run, contract_file: ContractFile, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"k": ["a", "b"], "lane": lane}), tmp_path / "a.parquet")
    code, out, err = run("check", contract_file(), "--data", tmp_path / "a.parquet")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


def test_live_lanes_must_be_told_for_data(run: Run, contract_file: ContractFile, data_file: DataFile) -> None:
    live = contract_file(lanes="live")
    code, out, err = run("check", live, "--data", data_file("a.parquet"))
    assert (code, out) == (2, "")
    assert "leaves the lane count to the cluster" in err
    assert checked(run, live, "--data", data_file("a.parquet"), "-n", 15)[0] == 0


def test_a_column_the_contract_needs_and_the_data_lacks_is_reported(
    run: Run, contract_file: ContractFile, data_file: DataFile
) -> None:
    code, _, err = run("check", contract_file(key={"fields": ["kk"]}), "--data", data_file("a.parquet"))
    assert code == 2
    assert "unknown column of" in err
    assert "did you mean 'k'?" in err


def test_an_empty_sample_breaks_the_check(run: Run, contract_file: ContractFile, data_file: DataFile) -> None:
    code, found = checked(run, contract_file(), "--data", data_file("a.parquet", keys=0))
    assert code == 4
    assert "no rows" in found["findings"][0]["message"]


def test_contracts_that_place_alike_are_co_partitioned(run: Run, contract_file: ContractFile) -> None:
    one, other = contract_file("a.yaml"), contract_file("b.yaml", streams=["refunds"], key={"fields": ["merchant"]})
    code, found = checked(run, one, other)
    assert (code, found["findings"], found["compared"]) == (0, [], [str(one), str(other)])


def test_contracts_that_place_otherwise_are_not(run: Run, contract_file: ContractFile) -> None:
    one, other, third = contract_file("a.yaml"), contract_file("b.yaml", lanes=16), contract_file("c.yml")
    code, found = checked(run, one, other, third)
    assert code == 4
    assert wheres(found) == [("spec.lanes", "error")]
    assert found["findings"][0]["message"].endswith(f"the one that differs: {other}")


def test_an_invalid_contract_among_several_is_named(run: Run, contract_file: ContractFile, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BROKEN)
    code, found = checked(run, contract_file("a.yaml"), tmp_path / "bad.yaml")
    assert code == 2
    assert {finding["where"].partition(": ")[0] for finding in found["findings"]} == {str(tmp_path / "bad.yaml")}
    assert [finding["line"] for finding in found["findings"]] == [5, 6, 9, 10]


def test_data_sets_that_agree_are_co_partitioned(run: Run, data_file: DataFile) -> None:
    one, other = data_file("a.parquet"), data_file("b.csv")
    code, found = checked(run, one, other, "--key", "k")
    assert (code, found["findings"], found["shared_keys"], found["disagreeing_keys"]) == (0, [], 500, 0)
    assert found["at_most"] == pytest.approx(1 - 0.05 ** (1 / 500))
    assert found["writers"] == {str(one): ["kafka-java"], str(other): ["kafka-java"]}
    assert "500 shared keys" in run("check", one, other, "-k", "k")[1]


def test_data_sets_that_disagree_are_not(run: Run, data_file: DataFile) -> None:
    one, other = data_file("a.parquet"), data_file("b.parquet", "librdkafka-consistent-random")
    code, found = checked(run, one, other, "--key", "k")
    assert (code, found["at_most"]) == (4, None)
    assert wheres(found) == [("writers", "error"), ("keys", "error")]
    assert found["findings"][0]["message"].endswith(f"the one that differs: {other}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "missing argument", id="nothing"),
        pytest.param(["a.parquet"], "--key COLUMN", id="one data set"),
        pytest.param(["a.parquet", "b.parquet"], "by --key COLUMN", id="no key"),
        pytest.param(["a.yaml", "b.parquet"], "hint: --data", id="both kinds"),
        pytest.param(["a.yaml", "b.yaml", "-d", "x.parquet"], "one contract", id="two with data"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(arguments: list[str], message: str, run: Run) -> None:
    code, out, err = run("check", *arguments)
    assert (code, out) == (2, "")
    assert message in err
