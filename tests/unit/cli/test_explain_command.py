from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.names import PARTITIONERS
from keylane.keys.encode import encode
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]
    ContractFile = Callable[..., Path]


def document(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run("explain", "-o", "json", *arguments)
    # A dash is a key, and elsewhere stands for stdin: that is noted.
    is_key = "-" in arguments and "--keys-from" not in arguments
    assert (code, "'-' is taken as a key" in err if is_key else err) == (0, is_key or "")
    found: dict[str, Any] = json.loads(out)
    return found


def lanes(found: dict[str, Any]) -> dict[str, int | None]:
    return {row["partitioner"]: row["lane"] for row in found["placements"]}


def test_the_key_of_the_books_goes_to_ten_under_java_and_to_nine_under_librdkafka(run: Run) -> None:
    found = document(run, "TT0124", "--lanes", 15)
    assert (found["key"], found["lanes"], found["routing_key"]) == ("TT0124", 15, b"TT0124".hex())
    assert lanes(found)["kafka-java"] == 10
    assert lanes(found)["librdkafka-consistent-random"] == 9


@pytest.mark.parametrize("key", ["TT0124", "", "Zoë", "x" * 5_000, "7", "-7", "8928308280fffff"])
@pytest.mark.parametrize("count", [1, 15, 100_000])
def test_every_partitioner_is_asked_and_answers_as_it_would_anywhere(key: str, count: int, run: Run) -> None:
    found = lanes(document(run, "--lanes", count, "--", key))
    assert list(found) == list(PARTITIONERS)
    for name in set(PARTITIONERS) - {"abs-long-hashcode"}:
        assert found[name] == partitioner(name).lane(key.encode(), count)


def test_a_table_is_for_people(run: Run) -> None:
    code, out, err = run("explain", "TT0124", "-n", 15)
    assert (code, err) == (0, "")
    first, _, head, *rest = out.splitlines()
    assert first == "The clients disagree: 5 different lanes (partitions) of 15."
    assert head.split() == ["LANE", "CLIENT", "PARTITIONER"]
    java = next(line for line in rest if line.startswith("10"))
    assert java.split()[1:] == ["Java,", "kafka-python,", "aiokafka,", "franz-go", "kafka-java"]
    assert "librdkafka (confluent-kafka, kcat, node-rdkafka, rust-rdkafka)" in out
    assert "librdkafka-consistent-random (default)" in out
    assert any("as kafka-java does" in line for line in rest)
    assert any(line.split()[:2] == ["librdkafka", "partitioner=murmur2_random"] for line in rest)
    assert "teaching" not in out


def test_all_of_it_is_behind_an_option(run: Run) -> None:
    _, out, _ = run("explain", "TT0124", "-n", 15, "--all")
    assert out.startswith("The clients disagree: 6 different lanes")
    assert "teaching code with a ByteBuffer" in out
    for name in PARTITIONERS:
        assert name in out
    assert "librdkafka-random                -  librdkafka" in out


# Many keys


def test_many_keys_get_a_row_each(run: Run, tmp_path: Path) -> None:
    code, out, err = run("explain", "TT0124", "TT0125", "-n", 15)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "The clients disagree on 2 of 2 keys."
    assert lines[3].split()[:3] == ["TT0124", "10", "no"]
    (tmp_path / "keys.txt").write_text("TT0125\r\nTT0126\n")
    found = document(run, "TT0124", "--keys-from", tmp_path / "keys.txt", "-n", 15)
    assert [one["key"] for one in found["keys"]] == ["TT0124", "TT0125", "TT0126"]
    assert found["keys"][0] == document(run, "TT0124", "-n", 15), "each as it is explained alone"


def test_a_byte_order_mark_is_no_part_of_the_first_key(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"\xef\xbb\xbfTT0124\r\nTT0125\r\n")
    found = document(run, "--keys-from", tmp_path / "keys.txt", "-n", 15)
    assert [one["key"] for one in found["keys"]] == ["TT0124", "TT0125"]
    # The twin: a mark elsewhere is what the key holds.
    (tmp_path / "keys.txt").write_text("TT0124\n\ufeffTT0125\n", encoding="utf-8")
    found = document(run, "--keys-from", tmp_path / "keys.txt", "-n", 15)
    assert [one["key"] for one in found["keys"]] == ["TT0124", "\ufeffTT0125"]


@pytest.mark.parametrize("given", [("m-1", "-f", "k=m-2"), ("-f", "k=m-1", "-f", "k=m-2")], ids=["KEY", "twice"])
def test_two_values_for_one_field_are_refused(run: Run, contract_file: ContractFile, given: tuple[str, ...]) -> None:
    path = contract_file()
    code, out, err = run("explain", "--contract", path, *given)
    assert (code, out) == (2, "")
    assert "k=m-2" in err
    # The twin: beside KEY, another field is welcome.
    assert run("explain", "--contract", path, "m-1", "-f", "other=m-2")[0] == 0


def test_keys_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n\nZo\xc3\xab\n")))
    found = document(run, "--keys-from", "-", "-n", 15)
    assert [one["key"] for one in found["keys"]] == ["a", "", "Zoë"]


def test_many_keys_under_a_contract(run: Run, contract_file: ContractFile) -> None:
    found = document(run, "a", "b", "-c", contract_file())
    assert [one["contract"]["lane"] for one in found["keys"]] == [
        partitioner("kafka-java").lane(key, 15) for key in (b"a", b"b")
    ]
    assert "The clients disagree" in run("explain", "a", "b", "-c", contract_file())[1]
    rows = run("explain", "a", "b", "-c", contract_file(), "-o", "jsonl")[1].splitlines()
    assert [json.loads(row)["key"] for row in rows] == ["a", "b"]


def test_one_key_that_is_none_refuses_all(run: Run) -> None:
    assert run("explain", "7", "x", "-e", "int64be", "-n", 15)[:2] == (2, "")


@pytest.mark.parametrize(("word", "meant"), [("librdkafka", "librdkafka-consistent-random"), ("sarama", "sarama-hash")])
def test_like_has_a_did_you_mean(word: str, meant: str, run: Run) -> None:
    code, _, err = run("explain", "a", "-n", 15, "--like", word)
    assert code == 2
    assert err.endswith(f"hint: did you mean '{meant}'?\n")


def test_json_lines_are_one_partitioner_each(run: Run) -> None:
    _, out, _ = run("explain", "TT0124", "-n", 15, "-o", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["partitioner"] for row in rows] == list(PARTITIONERS)
    assert rows[0]["lane"] == 10


def test_csv_has_a_head_and_one_row_for_each_partitioner(run: Run) -> None:
    _, out, _ = run("explain", "TT0124", "-n", 15, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["partitioner"] for row in rows] == list(PARTITIONERS)
    assert rows[0] == {
        "partitioner": "kafka-java",
        "lane": "10",
        "client": "Java, kafka-python, aiokafka, franz-go",
        "note": "",
    }
    assert {row["partitioner"]: row["lane"] for row in rows}["librdkafka-random"] == ""


def test_the_null_key_is_hashed_by_those_who_hash_it(run: Run) -> None:
    found = document(run, "--null", "-n", 15)
    assert (found["key"], found["routing_key"]) == (None, None)
    decided = {name for name, lane in lanes(found).items() if lane is not None}
    assert decided == {"librdkafka-consistent", "librdkafka-murmur2", "librdkafka-fnv1a", "spark-hash"}
    notes = {row["partitioner"]: row["note"] for row in found["placements"]}
    assert "sticky" in notes["kafka-java"]
    assert notes["kinesis-md5"] == "refuses null keys"
    assert notes["librdkafka-random"] == "ignores the key"


def test_the_empty_key_is_not_the_null_key(run: Run) -> None:
    found = document(run, "", "-n", 15)
    assert (found["key"], found["routing_key"]) == ("", "")
    assert lanes(found)["kafka-java"] == 6
    assert lanes(found)["librdkafka-consistent-random"] is None


@pytest.mark.parametrize(
    ("encoding", "key", "value"),
    [
        pytest.param("raw", "00000000075454", bytes.fromhex("00000000075454"), id="raw"),
        pytest.param("raw", "", b"", id="raw and empty"),
        pytest.param("int32be", "-7", -7, id="int32be"),
        pytest.param("int64be", "9007199254740993", 9007199254740993, id="int64be"),
        pytest.param("uuid", "123e4567-e89b-12d3-a456-426614174000", None, id="uuid"),
        pytest.param("h3", "8928308280fffff", None, id="h3"),
    ],
)
def test_a_key_is_hashed_in_the_bytes_of_its_encoding(encoding: Any, key: str, value: Any, run: Run) -> None:
    found = document(run, "-e", encoding, "-n", 15, "--", key)
    routing_key = encode(key if value is None else value, encoding)
    assert found["routing_key"] == routing_key.hex()
    assert lanes(found)["kafka-java"] == partitioner("kafka-java").lane(routing_key, 15)
    assert lanes(found)["spark-hash"] == partitioner("spark-hash", encoding).lane(routing_key, 15)


def test_a_client_that_cannot_hold_the_key_says_so(run: Run) -> None:
    found = document(run, "-e", "int64be", "-n", 15, "7")
    notes = {row["partitioner"]: (row["lane"], row["note"]) for row in found["placements"]}
    assert notes["kinesis-md5"] == (None, "takes utf8 keys only")


@pytest.mark.parametrize("encoding", ["utf8", "h3"])
def test_an_h3_cell_reaches_the_teaching_code_as_its_number(encoding: str, run: Run) -> None:
    found = document(run, "8928308280fffff", "-n", 60, "-e", encoding)
    number = 0x8928308280FFFFF
    assert lanes(found)["abs-long-hashcode"] == ((number >> 32) ^ number & 0xFFFFFFFF) % 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a"], "--lanes is needed", id="no lane count"),
        pytest.param(["-n", 15], "KEY is needed", id="no key"),
        pytest.param(["a", "--null", "-n", 15], "not both", id="key and null"),
        pytest.param(["zz", "-e", "raw", "-n", 15], "not a raw key: got 'zz'; allowed: hex digits", id="no hex"),
        pytest.param(["1.5", "-e", "int64be", "-n", 15], "not a int64be key: got '1.5'", id="no whole number"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(arguments: list[object], message: str, run: Run) -> None:
    code, out, err = run("explain", *arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("encoding", "key"),
    [("int32be", "99999999999"), ("uuid", "no-uuid"), ("h3", "zz"), ("h3", "0")],
)
def test_a_key_that_does_not_fit_its_encoding_is_refused(encoding: str, key: str, run: Run) -> None:
    code, out, err = run("explain", key, "-e", encoding, "-n", 15)
    assert code in (1, 2)
    assert out == ""
    assert f"not a {encoding} key" in err


@pytest.mark.parametrize("key", ["--5", "-", "²", "9" * 5_000, "-0", "٣"], ids=["--5", "-", "²", "long", "-0", "٣"])
def test_keys_that_look_like_numbers_and_are_none_are_text(key: str, run: Run) -> None:
    found = document(run, "-n", 15, "--", key)
    assert lanes(found)["kafka-java"] == partitioner("kafka-java").lane(key.encode(), 15)


def test_bytes_that_are_no_text_are_refused(process: Run) -> None:
    code, out, err = process("explain", b"\xff".decode("utf-8", "surrogateescape"), "-n", 15)
    assert code in (1, 2)
    assert out == ""
    assert "not a utf8 key: got str '\\udcff'" in err
    assert "Traceback" not in err


def test_like_names_the_settings_that_would_agree(run: Run) -> None:
    found = document(run, "TT0124", "-n", 15, "--like", "librdkafka-consistent-random")
    assert found["like"] == "librdkafka-consistent-random"
    fixes = {fix["partitioner"]: fix["set"] for fix in found["fixes"]}
    assert fixes["librdkafka-murmur2"] == "partitioner=consistent_random"
    assert fixes["sarama-hash"] == "Producer.Partitioner = sarama.NewConsistentCRCHashPartitioner"
    assert fixes["kafka-java"] is None
    assert "sarama-crc" not in fixes


def test_groups_hold_every_decided_partitioner_once_largest_first(run: Run) -> None:
    found = document(run, "TT0124", "-n", 15)
    named = [name for group in found["groups"] for name in group["partitioners"]]
    assert sorted(named) == sorted(name for name, lane in lanes(found).items() if lane is not None)
    sizes = [len(group["partitioners"]) for group in found["groups"]]
    assert sizes == sorted(sizes, reverse=True)
    assert found["agree"] is False


def test_on_one_lane_all_clients_agree(run: Run) -> None:
    assert document(run, "TT0124", "-n", 1)["agree"] is True
    assert "agree: lane 0" in run("explain", "TT0124", "-n", 1)[1]


def test_a_contract_is_asked_first(run: Run, contract_file: ContractFile) -> None:
    found = document(run, "TT0124", "--contract", contract_file(partitioner="librdkafka-consistent-random"))
    assert found["contract"]["lane"] == 9
    assert found["like"] == "librdkafka-consistent-random"
    assert found["lanes"] == 15
    assert found["contract"]["why"][-1] == "placement: unsigned over 15 lanes -> lane 9"


def test_the_contracts_row_comes_first_in_a_table(run: Run, contract_file: ContractFile) -> None:
    _, out, _ = run("explain", "TT0124", "-c", contract_file())
    answer, *steps = out.splitlines()[:4]
    assert answer == "test: lane (partition) 10 of t"
    assert [step.split(":")[0] for step in steps] == ["  key", "  hash", "  placement"]


def test_a_spread_says_what_it_needs(run: Run, contract_file: ContractFile) -> None:
    spread = contract_file(hot_keys=[{"keys": ["hot"], "spread": {"over": 4, "by": "order_id"}}])
    code, out, _ = run("explain", "hot", "-c", spread)
    assert code == 2
    assert out.splitlines()[0] == "test: no lane yet: needs order_id: -f order_id=…"
    assert run("explain", "cold", "-c", spread)[0] == 0, "no rule of this key needs it"
    code, out, _ = run("explain", "hot", "cold", "-c", spread)
    assert code == 2
    assert out.splitlines()[-1] == "needs order_id: -f order_id=…"


def test_a_windowed_contract_takes_its_fields(run: Run, contract_file: ContractFile) -> None:
    hourly = contract_file(key={"fields": ["k"], "window": {"field": "ts", "size": "1h"}})
    by_number = document(run, "-c", hourly, "-f", "k=m-7", "-f", "ts=1763185276000")
    by_time = document(run, "-c", hourly, "-f", "k=m-7", "-f", "ts=2025-11-15T05:41:16+00:00")
    assert bytes.fromhex(by_number["routing_key"]) == b"m-7|1763182800000"
    assert by_number["contract"]["lane"] == by_time["contract"]["lane"] == lanes(by_number)["kafka-java"]


def test_a_key_of_several_fields_is_given_by_fields(run: Run, contract_file: ContractFile) -> None:
    two = contract_file(key={"fields": ["a", "b"], "encoding": ["utf8", "int64be"]})
    found = document(run, "-c", two, "-f", "a=x", "-f", "b=7")
    assert bytes.fromhex(found["routing_key"]) == b"x|" + (7).to_bytes(8, "big")
    code, _, err = run("explain", "x", "-c", two)
    assert code == 2
    assert "-f a=… -f b=…" in err


def test_a_spread_takes_its_sub_key_or_its_position(run: Run, contract_file: ContractFile) -> None:
    by_order = contract_file(hot_keys=[{"keys": ["hot"], "spread": {"over": 4, "by": "order"}}])
    found = document(run, "hot", "-c", by_order, "-f", "order=o-1")
    assert found["contract"]["lane"] in range(15)
    by_place = contract_file("p.yaml", hot_keys=[{"keys": ["hot"], "spread": {"lanes": [3, 5], "by_position": True}}])
    placed = [document(run, "hot", "-c", by_place, "--position", p)["contract"]["lane"] for p in (6, 7)]
    assert placed == [3, 5]
    assert document(run, "hot", "-c", by_place)["contract"]["reason"] == "no-position"


def test_a_tier_is_named(run: Run, contract_file: ContractFile) -> None:
    tiered = contract_file(hot_keys=[{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 4}}])
    found = document(run, "vip", "-c", tiered)["contract"]
    assert (found["stream"], found["lane"]) == ("t.vip", partitioner("kafka-java").lane(b"vip", 4))


def test_among_several_keys_a_tier_is_named_too(run: Run, contract_file: ContractFile) -> None:
    """Lane 3 of another stream is not lane 3 of this one."""
    tiered = contract_file(hot_keys=[{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 4}}])
    _, out, _ = run("explain", "vip", "other", "-c", tiered)
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines() if line.startswith(("KEY", "vip", "other"))}
    assert (rows["KEY"], rows["vip"]) == ("STREAM", "t.vip")
    assert rows["other"] != "t.vip"
    _, out, _ = run("explain", "more", "other", "-c", tiered)  # the twin: one stream needs no column
    assert "STREAM" not in out


def test_what_goes_by_position_says_that_it_needs_one(run: Run, contract_file: ContractFile) -> None:
    sticky = contract_file(key={"fields": ["k"], "on_null": "sticky"})
    _, out, _ = run("explain", "--null", "-c", sticky)
    assert out.splitlines()[0] == "test: no lane yet: it goes by the record's position: --position N"
    _, out, _ = run("explain", "--null", "-c", sticky, "--position", 300)
    assert out.startswith("test: lane (partition) ")


def test_live_lanes_must_be_told(run: Run, contract_file: ContractFile) -> None:
    live = contract_file(lanes="live")
    code, out, err = run("explain", "TT0124", "-c", live)
    assert (code, out) == (2, "")
    assert "got 'lanes: live'" in err
    assert document(run, "TT0124", "-c", live, "-n", 15)["contract"]["lane"] == 10


def test_a_lane_count_that_contradicts_the_contract_is_refused(run: Run, contract_file: ContractFile) -> None:
    code, _, err = run("explain", "a", "-c", contract_file(), "-n", 12)
    assert code == 2
    assert "got 12; allowed: 15" in err


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        pytest.param({"fields": ["k"], "encoding": "raw"}, ["zz"], id="no hex"),
        pytest.param({"fields": ["k"], "encoding": "int64be"}, ["--", "--5"], id="two signs"),
        pytest.param({"fields": ["k"], "encoding": "int64be"}, ["²"], id="a digit that is no number"),
        pytest.param({"fields": ["k"], "encoding": "int64be"}, ["9" * 5_000], id="very many digits"),
        pytest.param({"fields": ["k"], "encoding": "int64be"}, ["abc"], id="text"),
        pytest.param(
            {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}, ["a", "-f", "ts=yesterday"], id="no time"
        ),
        pytest.param(
            {"fields": ["k"], "window": {"field": "ts", "size": "1h"}}, ["a", "-f", f"ts={'9' * 5_000}"], id="long time"
        ),
    ],
)
def test_a_value_the_contract_cannot_hold_is_reported_and_never_shown_as_another_key(
    key: dict[str, Any], arguments: list[str], run: Run, contract_file: ContractFile
) -> None:
    """Either the command refuses, or it says that the record has no lane; the null key's lanes are no answer."""
    code, out, err = run("explain", "-o", "json", "-c", contract_file(key=key), *arguments)
    if code:
        assert out == ""
        assert json.loads(err)["exit_code"] == code
        return
    found = json.loads(out)
    assert found["contract"]["reason"] == "malformed-key"
    assert {lane for lane in lanes(found).values() if lane is not None} == set()


def test_a_field_that_is_missing_is_not_the_null_key(run: Run, contract_file: ContractFile) -> None:
    code, out, _ = run("explain", "-o", "json", "-c", contract_file(partitioner="librdkafka-murmur2"))
    if code == 0:
        found = json.loads(out)
        assert found["contract"]["reason"] == "missing-field"
        assert {lane for lane in lanes(found).values() if lane is not None} == set()


def test_the_null_key_can_be_asked_of_a_contract(run: Run, contract_file: ContractFile) -> None:
    found = document(run, "--null", "-c", contract_file(partitioner="librdkafka-murmur2"))
    assert found["contract"]["reason"] is None
    assert found["contract"]["lane"] == partitioner("librdkafka-murmur2").lane(None, 15)


def test_options_that_would_be_ignored_are_refused(run: Run, contract_file: ContractFile) -> None:
    assert run("explain", "a", "-n", 15, "-f", "k=b")[0] == 2, "-f without a contract"
    assert run("explain", "a", "-c", contract_file(), "-e", "int64be")[0] == 2, "-e beside a contract"


@pytest.mark.parametrize(
    ("partitioner_name", "key", "fields"),
    [
        pytest.param("kinesis-md5", {"fields": ["a", "b"]}, ["a=x", "b=y"], id="two texts"),
        pytest.param("pulsar-murmur3", {"fields": ["a", "b"]}, ["a=x", "b=y"], id="two texts for Pulsar"),
        pytest.param(
            "spark-hash",
            {"fields": ["a"], "encoding": "int64be", "window": {"field": "ts", "size": "1h"}},
            ["a=5", "ts=1763185276000"],
            id="a number in a window",
        ),
        pytest.param("spark-hash", {"fields": ["a"], "encoding": "int64be"}, ["a=5"], id="a number"),
    ],
)
def test_the_contract_and_its_own_partitioners_row_agree(
    partitioner_name: str, key: dict[str, Any], fields: list[str], run: Run, contract_file: ContractFile
) -> None:
    made = contract_file(partitioner=partitioner_name, key=key)
    found = document(run, "-c", made, *(part for field in fields for part in ("-f", field)))
    assert found["contract"]["lane"] == lanes(found)[partitioner_name]


def test_a_field_without_a_value_is_refused(run: Run, contract_file: ContractFile) -> None:
    code, _, err = run("explain", "-c", contract_file(), "-f", "k")
    assert code == 2
    assert "got 'k'; allowed: NAME=VALUE" in err


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_json_is_json_whatever_the_key(encoding: str, process: Run, contract_file: ContractFile) -> None:
    """A key of bytes that are no text must not break the document, nor the terminal's encoding the command."""
    odd = b"\xff".decode("utf-8", "surrogateescape")
    code, out, err = process("explain", odd, "-c", contract_file(), "-o", "json", PYTHONIOENCODING=encoding)
    assert "Traceback" not in err
    if code == 0:
        json.loads(out.encode("utf-8", "surrogateescape").decode("utf-8"))


def test_a_lane_from_the_lane_table_is_not_left_to_a_clients_setting(run: Run, contract_file: ContractFile) -> None:
    key, leaves = {"fields": ["lat", "lng"], "encoding": "place"}, ["", "", "", "8329b6"]
    path = contract_file(key=key, geo={"resolution": 3, "leaves": leaves})
    said = "the lane table decides, so no setting of a client leads there: pass the lane"
    assert said in run("explain", "33.4484,-112.0740", "-c", path)[1]
    hashed = run("explain", "48.85,2.35", "-c", path)[1]
    assert "in no leaf" in hashed
    assert said not in hashed


RULES = {
    "hot_keys": [
        {"keys": ["acme"], "spread": {"over": 4, "by": "order"}},
        {"keys": ["bolt"], "spread": {"over": 4, "by_position": True}},
        {"pins": [{"key": "corp", "lane": 3}]},
        {"keys": ["dune"], "tier": {"stream": "vip", "lanes": 4}},
    ],
    "table": {"values": {"eve": 5}},
}


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("acme", "hot_keys[0]"),
        ("bolt", "hot_keys[1]"),
        ("corp", "hot_keys[2]"),
        ("dune", "hot_keys[3]"),
        ("eve", "table"),
    ],
)
def test_a_key_that_a_rule_decides_gets_no_settings_of_clients(
    key: str, rule: str, run: Run, contract_file: ContractFile
) -> None:
    asked = ("explain", key, "-c", contract_file(**RULES), "-f", "order=7")
    _, out, _ = run(*asked)
    assert f"{rule} decides, so no setting of a client leads there" in out
    assert "To place as" not in out
    assert json.loads(run(*asked, "-o", "json")[1])["fixes"] == []
    assert "To place as kafkajs-1 does" in run(*asked, "--like", "kafkajs-1")[1], "asked for by name"


def test_twin_a_key_that_the_hash_decides_gets_them(run: Run, contract_file: ContractFile) -> None:
    asked = ("explain", "fred", "-c", contract_file(**RULES))
    _, out, _ = run(*asked)
    assert "decides, so no setting" not in out
    assert "To place as kafka-java does" in out
    assert json.loads(run(*asked, "-o", "json")[1])["fixes"]


def test_a_place_in_the_south_is_no_option_and_a_third_number_is_not_dropped(
    run: Run, contract_file: ContractFile
) -> None:
    path = contract_file(key={"fields": ["lat", "lng"], "encoding": "place"}, geo={"resolution": 3})
    sydney = [run("explain", *words)[:2] for words in (("-c", path, "-33.87,151.21"), ("-33.87,151.21", "-c", path))]
    assert sydney[0] == sydney[1] == run("explain", "-c", path, "--", "-33.87,151.21")[:2]
    assert sydney[0][0] == 0
    assert document(run, "-e", "place", "-n", 60, "-33.87,151.21")["lanes"] == 60
    for typed in ("33.4,-112.0,7", "33.4"):
        code, _, err = run("explain", typed, "-c", path)
        assert code == 2
        assert f"not a location: got '{typed}'; allowed: LATITUDE,LONGITUDE" in err


def test_an_encoding_beside_a_contract_is_its_own_or_says_what_to_do(run: Run, contract_file: ContractFile) -> None:
    path = contract_file()
    assert run("explain", "a", "-c", path, "-e", "utf8") == run("explain", "a", "-c", path)
    code, _, err = run("explain", "61", "-c", path, "-e", "raw")
    assert code == 2
    assert "--encoding is not that of the contract: got 'raw'; allowed: utf8; hint: leave --encoding out" in err
    command = err.partition("as a topic has them: ")[2].strip().replace("HEX", "61").split()[1:]
    assert run(*command)[0] == 0, "what the hint says runs"


def test_the_lane_to_agree_with_is_first_and_then_the_most_used(run: Run) -> None:
    _, out, _ = run("explain", "TT0124", "-n", "15")
    lanes = [int(line.split()[0]) for line in out.splitlines() if line[:1].isdigit() and not line.startswith("3 more")]
    _, document, _ = run("explain", "TT0124", "-n", "15", "-o", "json")
    found = json.loads(document)
    placed = {row["partitioner"]: row["lane"] for row in found["placements"]}
    assert lanes[0] == placed["kafka-java"]
    assert sorted(lanes) == sorted({group["lane"] for group in found["groups"]} - _teaching(found))
    _, out, _ = run("explain", "TT0124", "-n", "15", "--like", "librdkafka-fnv1a")
    assert int(next(line for line in out.splitlines() if line[:1].isdigit()).split()[0]) == placed["librdkafka-fnv1a"]


def _teaching(found: dict[str, Any]) -> set[int]:
    """Lanes in which only code of books puts the key."""
    used = {row["lane"] for row in found["placements"] if not row["client"].startswith("teaching")}
    return {group["lane"] for group in found["groups"]} - used


def test_a_long_key_is_cut_in_a_table_and_whole_in_a_document(run: Run) -> None:
    long = "k" * 100_000
    _, table, _ = run("explain", long, "b", "--lanes", 15)
    assert max(map(len, table.splitlines())) < 250
    assert "100,000 characters" in table
    _, document, _ = run("explain", long, "b", "--lanes", 15, "-o", "json")
    assert [one["key"] for one in json.loads(document)["keys"]] == [long, "b"]
