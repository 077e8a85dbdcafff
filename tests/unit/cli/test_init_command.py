from __future__ import annotations

import gzip
import json
import shlex
from typing import TYPE_CHECKING

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from keylane import load_contract, partitioner
from keylane.documents.identify import InitDocument
from keylane.documents.model import json_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    DataFile = Callable[..., Path]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_file_with_lanes_becomes_the_contract_that_it_keeps(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    data = data_file("pay.parquet")
    code, out, err = run("init", data, "--key", "k", "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    Draft202012Validator(json_schema(InitDocument)).validate(document)
    assert (document["contract"], document["partitioner_from"]) == ("pay.yaml", "identified")
    contract = load_contract(tmp_path / "pay.yaml")
    assert (contract.spec.partitioner, contract.spec.lanes, contract.spec.key.fields) == ("kafka-java", 15, ("k",))
    # An editor takes the path from the contract's own folder: nothing of this machine is in it.
    first = (tmp_path / "pay.yaml").read_text("utf-8").partition("\n")[0]
    assert first == "# yaml-language-server: $schema=./keylane-contract.schema.json"
    schema = json.loads((tmp_path / "keylane-contract.schema.json").read_text("utf-8"))
    Draft7Validator(schema).validate(yaml.safe_load((tmp_path / "pay.yaml").read_text("utf-8")))
    # What comes next is what can be typed next.
    assert run(*document["next"][0].split()[1:])[0] == 0


def test_another_client_is_found_and_not_assumed(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    assert run("init", data_file("pay.parquet", "librdkafka-consistent-random"), "--key", "k")[0] == 0
    assert load_contract(tmp_path / "pay.yaml").spec.partitioner == "librdkafka-consistent-random"


def test_a_file_is_never_replaced(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    (tmp_path / "pay.yaml").write_text("mine", "utf-8")
    code, out, err = run("init", data_file("pay.parquet"), "--key", "k")
    assert (code, out) == (2, "")
    assert "pay.yaml is there already" in err
    assert (tmp_path / "pay.yaml").read_text("utf-8") == "mine"


def test_an_export_without_lanes_asks_for_their_number(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pay.csv").write_text("merchant,amount\n" + "".join(f"m-{n},1\n" for n in range(50)), "utf-8")
    code, _, err = run("init", "pay.csv", "--key", "merchant")
    assert code == 2
    assert "--lanes N" in err
    code, _, err = run("init", "pay.csv")
    assert code == 2
    assert "allowed: merchant, amount" in err
    code, out, _ = run("init", "pay.csv", "--key", "merchant", "--lanes", 12)
    assert code == 0
    assert "assumed" in out
    contract = load_contract(tmp_path / "pay.yaml")
    assert (contract.spec.partitioner, contract.spec.lanes, contract.spec.key.fields) == (
        "kafka-java",
        12,
        ("merchant",),
    )


def test_lanes_that_prove_nothing_give_no_contract_unless_a_partitioner_is_named(
    run: Run, data_file: DataFile, tmp_path: Path
) -> None:
    data = data_file("pay.parquet", keys=3)
    code, out, _ = run("init", data, "--key", "k")
    assert (code, out) == (4, "")
    assert not (tmp_path / "pay.yaml").exists()
    assert run("init", data, "--key", "k", "--partitioner", "sarama-hash")[0] == 0
    assert load_contract(tmp_path / "pay.yaml").spec.partitioner == "sarama-hash"


def test_what_is_configured_is_the_default_and_what_is_typed_comes_first(
    run: Run, data_file: DataFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keylane.toml").write_text('output = "json"\n', "utf-8")
    asked = ("identify", data_file("pay.parquet"), "-k", "k", "-l", "lane")
    assert json.loads(run(*asked)[1])["verdict"] == "one-writer"
    assert run(*asked, "-o", "table")[1].startswith("one writer")
    monkeypatch.setenv("KEYLANE_OUTPUT", "csv")
    assert run(*asked)[1].startswith("writer,share")
    code, _, err = run("identify", "kafka:payments")
    assert code == 2
    assert "no broker is configured" in err


SEMICOLONS = "merchant;partition\n" + "".join(
    f"m-{n};{partitioner('kafka-java').lane(f'm-{n}'.encode(), 12)}\n" for n in range(2_000)
)


def test_what_comes_next_reads_the_data_as_init_did(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pay.csv").write_text(SEMICOLONS, "utf-8")
    code, out, err = run("init", "pay.csv", "-k", "merchant", "--delimiter", ";", "--csv-null", "", "-o", "json")
    assert (code, err) == (0, "")
    check, profile, plan = (shlex.split(one)[1:] for one in json.loads(out)["next"])
    assert check[-4:] == ["--csv-null", "", "--delimiter", ";"]
    assert run(*check)[0] == 0
    assert run(*profile)[0] == 0
    assert run(*plan)[0] == 0
    assert (tmp_path / "profile.html").exists()
    assert (tmp_path / "plan.json").exists()
    # The twin: without what was typed, the same command reads another file.
    assert run(*check[:-4])[0] == 1


def test_a_schema_that_is_there_is_left_as_it_is(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    (tmp_path / "keylane-contract.schema.json").write_text("{}", "utf-8")
    assert run("init", data_file("pay.parquet"), "--key", "k")[0] == 0
    assert (tmp_path / "keylane-contract.schema.json").read_text("utf-8") == "{}"


@pytest.mark.parametrize(
    "words",
    [
        "init pay.csv --key merchant",
        "init pay.csv",
        "identify pay.csv --key merchant",
        "identify pay.csv",
        "check pay.yaml --data pay.csv",
        "profile pay.csv --key merchant",
        "profile pay.csv",
        "plan pay.csv --key merchant --lanes 12",
        "route pay.yaml --from pay.csv --to lanes --dry-run",
    ],
)
def test_cells_that_are_separated_by_something_else_are_named(run: Run, tmp_path: Path, words: str) -> None:
    (tmp_path / "pay.csv").write_text(SEMICOLONS, "utf-8")
    assert run("init", "pay.csv", "-k", "merchant", "--delimiter", ";")[0] == 0
    (tmp_path / "pay.yaml").rename(tmp_path / "other.yaml")
    code, out, err = run(*words.replace("pay.yaml", "other.yaml").split())
    assert (code, out) == (1, "")
    assert "it looks separated by ';', and was read with ','" in err
    assert err.endswith("hint: --delimiter ';'\n")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", gzip.compress(b"k,lane\na,1\n", mtime=0), ".gz"),
        # Packed at a time whose bytes have a quote, which opens a cell that nothing closes.
        ("a.csv", gzip.compress(b"k,lane\na,1\n", mtime=ord('"')), ".gz"),
        ("a.csv", "k,lane\na,1\n".encode("utf-16"), "UTF-16"),
        ("a.json", b'[{"k": "a", "lane": 1},\n {"k": "b", "lane": 2}]', "JSON array"),
    ],
)
def test_a_file_that_is_no_lines_of_text_is_said_to_be_none(
    run: Run, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    code, out, err = run("init", tmp_path / name, "--key", "k", "--out", tmp_path / "c.yaml")
    assert (code, out, says in err) == (1, "", True), err
    assert not (tmp_path / "c.yaml").exists()
    for command in ("profile", "identify"):
        code, out, err = run(
            command, tmp_path / name, "--key", "k", *(["--lane", "lane"] if command == "identify" else [])
        )
        assert (code, out, says in err) == (1, "", True), err
    # The twin: lines that lack the column are said to lack it.
    (tmp_path / "b.csv").write_text("j,lane\na,1\n")
    code, _, err = run("init", tmp_path / "b.csv", "--key", "k")
    assert (code, "no such column" in err) == (2, True)


def test_a_column_that_holds_no_lanes_is_named_with_what_it_holds(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,lane,day\na,1,2014-04-01\nb,2,2014-04-02\n")
    code, out, err = run("identify", tmp_path / "a.csv", "--key", "k", "--lane", "day")
    assert (code, out, "'day'" in err, "2014-04-01" in err) == (1, "", True, True), err
    assert "holds no whole numbers" not in run("identify", tmp_path / "a.csv", "--key", "k", "--lane", "lane")[2]


def test_lines_in_another_encoding_are_said_to_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("k,lane\nZo\u00e9,1\n".encode("latin-1"))
    code, _, err = run("identify", tmp_path / "a.csv", "--key", "k", "--lane", "lane")
    assert (code, "is not in UTF-8" in err, "iconv" in err) == (1, True, True), err


def test_a_first_line_that_is_an_array_among_objects_is_counted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('[1, 2]\n{"k": "a", "lane": 1}\n{"k": "b", "lane": 2}\n')
    code, out, err = run("profile", tmp_path / "a.jsonl", "--key", "k")
    assert (code, "2 keys" in out) == (0, True), err


@pytest.mark.parametrize(
    ("columns", "row", "time"),
    [
        ("amount,paid_at", "2.5,2026-11-15T08:30:00Z", "paid_at"),
        ("amount,day", "3,2026-11-15", "day"),
        # The twins: none, a number that may be anything, and two of which nobody knows the right one.
        ("amount,note", "2.5,soon", None),
        ("amount,at", "3,1763195400", None),
        ("made,paid", "2026-11-15,2026-11-16", None),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_one_column_of_times_is_proposed(
    run: Run, tmp_path: Path, columns: str, row: str, time: str | None, ending: str
) -> None:
    names, cells = ["k", *columns.split(",")], row.split(",")
    lines = [[f"m{n}", *cells] for n in range(3)]
    text = "\n".join(",".join(one) for one in [names, *lines])
    if ending == "jsonl":
        text = "\n".join(json.dumps(dict(zip(names, one, strict=True))) for one in lines)
    (tmp_path / f"pay.{ending}").write_text(f"{text}\n", "utf-8")
    code, out, _ = run("init", f"pay.{ending}", "--key", "k", "--lanes", 4, "-o", "json")
    assert code == 0
    for proposed in map(shlex.split, json.loads(out)["next"]):
        assert (proposed[proposed.index("--time") + 1] if "--time" in proposed else None) == time


def test_columns_of_a_wide_file_are_not_all_listed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(",".join(f"c{n}" for n in range(1_000)) + "\n", "utf-8")
    code, _, err = run("init", "wide.csv", "--key", "x")
    assert code == 2
    assert "c19 … and 980 more" in err
    assert "c20" not in err


def test_cells_between_tabs_are_read_with_the_options_of_the_hint(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pay.tsv").write_text("k\tamount\na\t1\n", "utf-8")
    _, _, err = run("profile", "pay.tsv", "--key", "k")
    hint = err.strip().rpartition("hint: ")[2]
    assert hint == "--format csv --delimiter tab"
    assert run("profile", "pay.tsv", "--key", "k", *hint.split())[0] == 0
    (tmp_path / "pay.txt").write_text("k\tamount\na\t1\n", "utf-8")
    assert run("profile", "pay.txt", "--key", "k")[2].endswith("hint: --format\n")
