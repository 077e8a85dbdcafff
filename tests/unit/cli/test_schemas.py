"""What `-o json` prints validates against the published schemas; and the schemas do say no."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from functools import cache
from importlib.resources import files
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator
from pyarrow import parquet
from tests.history.written_targets import make, payments
from tests.unit.plan.counted_cells import traffic
from tests.unit.profile.example_profiles import made

from keylane import parse_contract
from keylane.cli.failures import as_document
from keylane.plan.geo_document import geo_document
from keylane.plan.lane_tables import Wish, chosen, fitted
from keylane.profile.document import overview
from keylane.profile.model import Approximation, ObservedLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]
    DataFile = Callable[..., Path]

#: What a certificate of `verify` has nothing of.
SOUND = {"lost": 0, "offset_gaps": 0, "violations": [], "miscounted": [], "unproven": []}
COMMANDS = ["explain", "identify", "check", "profile", "plan", "doctor", "dev-kafka", "dev-jars", "verify"]
COMMANDS += [
    "demo-fence",
    "demo-shards",
    "demo-lesson",
    "demo-migrate",
    "brokers",
    "brokers-status",
    "match",
    "geo-table",
]
COMMANDS += ["shards-plan", "shards-apply", "shards-key", "shards-keys", "shards-keys-import", "shards-keys-moved"]


@cache
def validator(command: str) -> Any:
    schema = json.loads(files("keylane").joinpath("schemas", f"{command}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def validated(run: Run, command: str, *arguments: object) -> dict[str, Any]:
    _, out, err = run(command, *arguments, "-o", "json")
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    validator(command).validate(document)
    return document


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_is_closed_wherever_it_does_not_say_otherwise(command: str) -> None:
    def objects(node: Any) -> Iterator[Any]:
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for child in node.values():
                yield from objects(child)
        elif isinstance(node, list):
            for child in node:
                yield from objects(child)

    for one in objects(validator(command).schema):
        closed = one["additionalProperties"] is False
        assert closed or "propertyNames" in one or "by data set" in one["description"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["TT0124", "-n", 15],
        ["", "-n", 15],
        ["--null", "-n", 15],
        ["8928308280fffff", "-n", 60],
        ["00ff", "-e", "raw", "-n", 100_000],
        ["7", "-e", "int64be", "-n", 1, "--like", "librdkafka-random"],
    ],
    ids=["a key", "the empty key", "the null key", "a cell", "raw", "nothing to agree with"],
)
def test_what_explain_prints_is_valid(arguments: list[object], run: Run) -> None:
    validated(run, "explain", *arguments)


def test_what_explain_prints_of_a_contract_is_valid(run: Run, contract_file: ContractFile) -> None:
    made = contract_file(hot_keys=[{"keys": ["hot"], "spread": {"over": 2, "by_position": True}}])
    assert validated(run, "explain", "TT0124", "-c", made)["contract"]["reason"] is None
    assert validated(run, "explain", "hot", "-c", made)["contract"]["reason"] == "no-position"
    assert validated(run, "explain", "-f", "other=1", "-c", made)["contract"]["reason"] == "missing-field"
    assert validated(run, "explain", "--null", "-c", made)["contract"]["reason"] == "no-position"


def test_what_identify_prints_is_valid(run: Run, data_file: DataFile, tmp_path: Path) -> None:
    columns = ["-k", "k", "-l", "lane"]
    one = data_file("a.parquet")
    assert validated(run, "identify", one, *columns)["verdict"] == "one-writer"
    assert validated(run, "identify", data_file("few.parquet", keys=2), *columns)["verdict"] == "unknown"
    assert validated(run, "identify", data_file("none.parquet", keys=0), *columns)["verdict"] == "unknown"
    (tmp_path / "both").mkdir()
    data_file("both/a.parquet")
    data_file("both/b.parquet", "sarama-hash")
    assert validated(run, "identify", tmp_path / "both", *columns, "-n", 15)["verdict"] == "mixed"
    rows = parquet.read_table(one)
    random = Random(5)
    strange = [random.randrange(15) if random.random() < 0.3 else lane for lane in rows["lane"].to_pylist()]
    parquet.write_table(pa.table({"k": rows["k"], "lane": strange}), tmp_path / "c.parquet")
    found = validated(run, "identify", tmp_path / "c.parquet", *columns)
    assert found["writers"][-1]["partitioner"] is None


def test_what_check_prints_is_valid(run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path) -> None:
    good, data = contract_file("a.yaml"), data_file("a.parquet")
    (tmp_path / "bad.yaml").write_text("spec: {lanes: 0}\n")
    keyed = contract_file(
        "k.yaml",
        lanes="live",
        key={"fields": ["k"], "on_null": "reject", "on_empty": "reject"},
        table={"values": {"a": [0, 1]}, "by": "order"},
    )
    assert validated(run, "check", good)["ok"]
    assert not validated(run, "check", tmp_path / "bad.yaml")["ok"]
    assert validated(run, "check", keyed)["answers"]
    assert validated(run, "check", good, "--data", data)["data"]["misplaced"] == 0
    assert not validated(run, "check", good, "--data", data_file("b.parquet", "sarama-hash"))["ok"]
    assert validated(run, "check", good, contract_file("b.yaml"))["ok"]
    assert not validated(run, "check", good, contract_file("c.yaml", lanes=7))["ok"]
    assert validated(run, "check", data, data_file("c.parquet"), "-k", "k")["shared_keys"] == 500
    assert not validated(run, "check", data, data_file("b.parquet", "sarama-hash"), "-k", "k")["ok"]


def test_what_verify_prints_is_valid(run: Run, contract_file: ContractFile, tmp_path: Path) -> None:
    file = contract_file(hot_keys=[{"keys": ["hot"], "tier": {"stream": "vip", "lanes": 2}}])
    source, target = make(tmp_path / "streams", parse_contract(file.read_text()), payments(2))
    assert validated(run, "verify", "--source", source, "--target", target)["verdict"] == "not proven"
    sides = ["--source", source, "--target", target, "-c", file]
    assert validated(run, "verify", *sides)["ok"]
    assert validated(run, "verify", *sides, "--mode", "at-least-once")["ok"]
    assert validated(run, "verify", *sides, "--no-values")["unproven"][0]["rule"] == "changed"
    shutil.rmtree(target / "_keylane")
    assert validated(run, "verify", "--source", source, "--target", target)["claimed"] is None


def test_unplaced_rows_are_counted_by_reason(run: Run, contract_file: ContractFile, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"k": ["a", None, ""]}), tmp_path / "a.parquet")
    key = {"fields": ["k"], "on_null": "reject", "on_empty": "reject"}
    strict = contract_file(key=key, expect={"min_distinct_keys": 1})
    found = validated(run, "check", strict, "--data", tmp_path / "a.parquet")
    assert found["data"]["unplaced"] == {"null-key": 1, "empty-key": 1}


def profile_document(**changes: Any) -> dict[str, Any]:
    document = overview(made(["ACME", "Acme", "other"], [[3, 1], [0, 2], [1, 0]], **changes), salt=b"salt").as_json()
    validator("profile").validate(document)
    return document


def test_what_profile_prints_is_valid() -> None:
    assert profile_document()["lookalikes"]["groups"] == 1
    sketched = Approximation(most_over=2, distinct_keys=9, distinct_error=0.02, untracked=4)
    assert profile_document(approximate=sketched)["records"] == 11
    lanes = ObservedLanes(np.ones((3, 2), np.int64), misplaced=1)
    assert profile_document(lanes=lanes, size=np.array([7, 8, 9]))["lanes"]["count"] == 3


def geo_table_document() -> dict[str, Any]:
    counted = traffic()
    table, held, met = chosen(counted, Wish(5))
    dead = {"place-zero": 2}
    document = geo_document("SRC", counted, dead, table, held, met=met, radii=(500.0,)).as_json()
    validator("geo-table").validate(document)
    return document


def test_what_geo_table_prints_is_valid() -> None:
    assert geo_table_document()["moved"] is None
    counted = traffic()
    old = fitted(counted.cells, counted.all, Wish(5), 0.5)
    changed, held, met = chosen(counted, Wish(5, old=old.lanes))
    sticky = geo_document("SRC", counted, {}, changed, held, met=met, epoch=2).as_json()
    validator("geo-table").validate(sticky)
    assert 0 <= sticky["moved"]["share"] <= 0.05


def kafka_document(run: Run, folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("dev", "kafka", "status", "--dir", folder / "no", "-o", "json")[1])
    validator("dev-kafka").validate(document)
    return document


def test_the_doctor_that_finds_something_missing_says_so_validly(run: Run, tmp_path: Path) -> None:
    assert not validated(run, "doctor", "--spark-jars", tmp_path)["ok"]


#: Valid documents by command, each made once.
DOCUMENTS: dict[str, dict[str, Any]] = {}


@pytest.fixture
def document(run: Run, contract_file: ContractFile, data_file: DataFile, tmp_path: Path) -> Callable[[str], Any]:
    """A valid document of a command."""

    def document(command: str) -> dict[str, Any]:
        if command not in DOCUMENTS:
            DOCUMENTS[command] = make_document(command)
        return DOCUMENTS[command]

    def make_document(command: str) -> dict[str, Any]:
        if command == "explain":
            return validated(run, "explain", "TT0124", "-n", 15)
        if command == "identify":
            return validated(run, "identify", data_file("a.parquet"), "-k", "k", "-l", "lane")
        if command == "check":
            broken = contract_file(golden=[{"key": "TT0124", "lane": 9}])
            return validated(run, "check", broken, "--data", data_file("a.parquet"))
        if command in {"profile", "geo-table"}:
            return profile_document() if command == "profile" else geo_table_document()
        if command == "verify":
            contract = parse_contract(contract_file("v.yaml").read_text())
            source, target = make(tmp_path / "streams", contract, payments(1))
            next(target.glob("stream=t/lane=*/*")).unlink()
            return validated(run, "verify", "--source", source, "--target", target)
        return validated(run, "doctor") if command == "doctor" else kafka_document(run, tmp_path)

    return document


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("explain", ("key",)),
        ("explain", ("lanes",)),
        ("explain", ("placements",)),
        ("explain", ("placements", 0, "partitioner")),
        ("explain", ("placements", 0, "lane")),
        ("explain", ("routing_key",)),
        ("identify", ("verdict",)),
        ("identify", ("writers",)),
        ("identify", ("writers", 0, "partitioner")),
        ("identify", ("writers", 0, "share")),
        ("check", ("ok",)),
        ("check", ("findings",)),
        ("check", ("findings", 0, "severity")),
        ("check", ("findings", 0, "where")),
        ("check", ("findings", 0, "line")),
        ("check", ("findings", 0, "message")),
        ("check", ("fingerprint",)),
        ("check", ("data", "rows")),
        ("profile", ("records",)),
        ("profile", ("windows", "new_keys")),
        ("profile", ("heavy", 0, "error")),
        ("profile", ("lookalikes", "examples", 0, "kind")),
        ("profile", ("hot",)),
        ("profile", ("fingerprint",)),
        ("geo-table", ("balance", "held_out")),
        ("geo-table", ("balance", "held_out", "noise_floor")),
        ("geo-table", ("balance", "least_cv")),
        ("geo-table", ("beside", 0, "cv")),
        ("geo-table", ("cells", 0, "lane")),
        ("geo-table", ("moved",)),
        ("geo-table", ("checksum",)),
        ("doctor", ("ok",)),
        ("doctor", ("parts",)),
        ("doctor", ("parts", 0, "part")),
        ("doctor", ("parts", 0, "state")),
        ("doctor", ("parts", 0, "needed")),
        ("doctor", ("parts", 0, "fix")),
        ("dev-kafka", ("bootstrap",)),
        ("dev-kafka", ("running",)),
        ("dev-kafka", ("brokers",)),
        ("verify", ("ok",)),
        ("verify", ("lost",)),
        ("verify", ("violations",)),
        ("verify", ("violations", 0, "position")),
        ("verify", ("lanes", 0, "last")),
        ("verify", ("claimed", "in")),
    ],
    ids=str,
)
def test_a_document_with_a_missing_field_is_not_valid(
    command: str, path: tuple[Any, ...], document: Callable[[str], Any]
) -> None:
    changed = deepcopy(document(command))
    inner: Any = changed
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    assert not validator(command).is_valid(changed)


@pytest.mark.parametrize(
    ("command", "change"),
    [
        pytest.param("explain", {"lanes": 0}, id="no lanes"),
        pytest.param("explain", {"lanes": "15"}, id="lanes as text"),
        pytest.param("explain", {"extra": 1}, id="an unknown field"),
        pytest.param("explain", {"placements": []}, id="nobody asked, and no contract to say why"),
        pytest.param("explain", {"placements": [{"partitioner": "kafka-java", "lane": 1.5}]}, id="half a lane"),
        pytest.param("identify", {"verdict": "maybe"}, id="an unknown verdict"),
        pytest.param("identify", {"verdict": "mixed"}, id="a mixture of one"),
        pytest.param("identify", {"writers": []}, id="one writer and none named"),
        pytest.param("identify", {"rows": -1}, id="fewer rows than none"),
        pytest.param("check", {"ok": True}, id="ok with an error"),
        pytest.param("check", {"findings": []}, id="not ok without an error"),
        pytest.param("check", {"compared": ["a", "b"]}, id="checked and compared"),
        pytest.param("check", {"fingerprint": "abc"}, id="no fingerprint"),
        pytest.param("profile", {"records": 0}, id="a profile of nothing"),
        pytest.param("profile", {"heavy": []}, id="nobody is the heaviest"),
        pytest.param("profile", {"encoding": ["latin1"]}, id="an unknown encoding"),
        pytest.param("profile", {"hot": {"verdict": "fine"}}, id="a verdict without evidence"),
        pytest.param("profile", {"fingerprint": "abc"}, id="a profile without a fingerprint"),
        pytest.param("geo-table", {"records": 0}, id="a table of nothing"),
        pytest.param("geo-table", {"dead": {"lost": 1}}, id="an unknown reason"),
        pytest.param("geo-table", {"hours": [[1.0]]}, id="a day of one hour"),
        pytest.param("geo-table", {"copies_per_rider": {"500": 0.5}}, id="riders without a lane"),
        pytest.param("geo-table", {"strategy": "hash"}, id="an unknown strategy"),
        pytest.param("geo-table", {"checksum": "abc"}, id="no checksum"),
        pytest.param("geo-table", {"moved": {"share": 1.5, "leaves": 1}}, id="more moved than there is"),
        pytest.param("doctor", {"ok": False}, id="ailing without an ailment"),
        pytest.param("doctor", {"parts": []}, id="nothing looked at"),
        pytest.param("dev-kafka", {"running": True}, id="running nowhere"),
        pytest.param("dev-kafka", {"bootstrap": "127.0.0.1:1"}, id="somewhere without a broker"),
        pytest.param("dev-kafka", {"bootstrap": "broker.example.org:1"}, id="not on loopback"),
        pytest.param("verify", {"ok": True}, id="ok with records lost"),
        pytest.param("verify", {**SOUND, "verdict": "certified"}, id="not ok without a reason"),
        pytest.param("verify", {"engine": "auto"}, id="judged nowhere"),
        pytest.param("verify", {"unproven": [{"rule": "luck", "records": 1, "why": "", "hint": None}]}, id="no rule"),
    ],
)
def test_a_document_with_other_values_is_not_valid(
    command: str, change: dict[str, Any], document: Callable[[str], Any]
) -> None:
    assert not validator(command).is_valid({**document(command), **change})


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["check", "nowhere.yaml"], "UnreadableError"),
        (["check", "--none"], "UsageError"),
        (["nothing"], "UsageError"),
        (["identify", "nowhere.parquet", "-k", "k", "-l", "lane"], "DataError"),
    ],
)
def test_an_error_as_json_is_as_published(arguments: list[str], kind: str, run: Run) -> None:
    code, out, err = run(*arguments, "-o", "json")
    found = json.loads(err)
    assert (out, found["error"], found["exit_code"]) == ("", kind, code)
    validator("error").validate(found)
    for name in found:
        assert not validator("error").is_valid({key: found[key] for key in found if key != name})
    assert not validator("error").is_valid({**found, "exit_code": 0})
    assert not validator("error").is_valid({**found, "message": ""})


def test_a_bug_as_json_is_as_published() -> None:
    validator("error").validate(as_document(ValueError("no")))
