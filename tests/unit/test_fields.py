"""A missing field, a null field and a nested field: the same for a record, an Arrow batch and values of every form.

On Spark: `tests/parity/test_spark_fields.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.parity.field_records import BAD, FLAT, MISSING, NESTED, NULL, PATH, spec

from keylane.contract.fields import FieldSpec, absent_name
from keylane.contract.parse import parse_contract
from keylane.errors import DataError, UnknownNameError
from keylane.router import Router
from keylane.systems.endpoint import StreamOptions
from keylane.systems.files.data import open_data
from keylane.systems.messages.values import fields_for, read_fields, value_form

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

REASONS = {MISSING, NULL, BAD}


def expected(router: Router, key: str) -> tuple[int | None, str | None]:
    return (None, key) if key in REASONS else (router.lane_of_key(key.encode()), None)


@pytest.mark.parametrize(("field", "records"), [("k", FLAT), (PATH, NESTED)], ids=["flat", "nested"])
def test_a_record_is_read_by_name_and_by_path(contract: Make, field: str, records: dict[str, str]) -> None:
    router = Router(contract(**spec(field)))
    for text, key in records.items():
        placed = router.place(json.loads(text))
        assert (placed.lane, placed.reason and str(placed.reason)) == expected(router, key), text


@pytest.mark.parametrize(("field", "records"), [("k", FLAT), (PATH, NESTED)], ids=["flat", "nested"])
@pytest.mark.parametrize("slow", [False, True], ids=["at once", "one by one"])
def test_json_values_are_read_as_records_are(contract: Make, field: str, records: dict[str, str], slow: bool) -> None:
    agreed = contract(**spec(field))
    router, fields = Router(agreed), fields_for(FieldSpec.of(agreed), StreamOptions(value="json"))
    values = [text.encode() + (b"\n" if slow else b"") for text in records]
    good = [value for value, key in zip(values, records.values(), strict=True) if key != BAD]
    columns = fields.marked(pa.nulls(len(good), pa.binary()), pa.array(good, pa.binary()), None)
    placed = router.placements(pa.table(columns)).select(["lane", "reason"]).to_pylist()
    wanted = [expected(router, key) for key in records.values() if key != BAD]
    assert [(row["lane"], row["reason"]) for row in placed] == wanted


def test_an_arrow_batch_is_read_by_name_and_by_path(contract: Make) -> None:
    router = Router(contract(**spec(PATH)))
    texts = [
        text for text, key in NESTED.items() if key != BAD and "own name" not in text and "merchant.id" not in text
    ]
    shape = pa.struct([("merchant", pa.struct([("id", pa.string())]))])
    records = [json.loads(text).get("payload") for text in texts]
    batch = pa.table({"payload": pa.array(records, shape)})
    found = router.placements(batch).select(["lane", "reason"]).to_pylist()
    # A column has every field: what was missing in a record is null there.
    wanted = [expected(router, NULL if NESTED[text] == MISSING else NESTED[text]) for text in texts]
    assert [(row["lane"], row["reason"]) for row in found] == wanted
    named = batch.append_column(PATH, pa.array(["own name"] * len(texts)))
    assert set(router.lanes(named).to_pylist()) == {router.lane_of_key(b"own name")}


def test_marks_of_a_reader_are_missing_fields(contract: Make) -> None:
    router = Router(contract(**spec("k", hot_keys=[{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}])))
    batch = pa.table({"k": ["a", None, None, "hot", "hot"], "order": ["1", "1", "1", None, None]})
    marks = {"k": [False, True, False, False, False], "order": [False, False, False, False, True]}
    for name, mark in marks.items():
        batch = batch.append_column(absent_name(name), pa.array(mark))
    reasons = router.placements(batch).column("reason").to_pylist()
    assert reasons == [None, MISSING, NULL, None, MISSING]
    # Twin: without the marks nothing is missing.
    assert MISSING not in router.placements(batch.select(["k", "order"])).column("reason").to_pylist()


@pytest.mark.parametrize(
    ("field", "hint"), [("payload.merchant.idd", PATH), ("payload.merchnt.id", PATH), ("id", PATH), ("paylod", None)]
)
def test_a_field_that_no_record_has_is_named_with_those_that_there_are(
    contract: Make, field: str, hint: str | None
) -> None:
    batch = pa.table({"payload": [{"merchant": {"id": "a"}}], "n": [1]})
    said = rf"no column '{field}': allowed: payload\.merchant\.id, n" + (f".*{hint}" if hint else "")
    with pytest.raises(DataError, match=said):
        Router(contract(**spec(field))).lanes(batch)


def test_json_lines_are_read_as_records_are(contract: Make, tmp_path: Path) -> None:
    agreed = contract(**spec(PATH))
    router, wanted = Router(agreed), {text: key for text, key in NESTED.items() if key != BAD}
    (tmp_path / "lane=3").mkdir()
    (tmp_path / "lane=3" / "a.jsonl").write_text("\n".join(wanted) + "\n\n")
    batches = list(open_data(str(tmp_path), FieldSpec.of(agreed)).batches([PATH, "lane"]))
    found = [row for batch in batches for row in router.placements(batch).select(["lane", "reason"]).to_pylist()]
    assert [(row["lane"], row["reason"]) for row in found] == [expected(router, key) for key in wanted.values()]
    assert {lane for batch in batches for lane in batch.column("lane").to_pylist()} == {3}
    (tmp_path / "lane=3" / "b.jsonl").write_text('{"payload": [1]}\n')
    data = open_data(str(tmp_path), FieldSpec.of(agreed))
    assert sum(len(batch) for batch in data.batches([PATH])) == len(wanted)
    assert data.skipped.first == f"line 1 of {tmp_path / 'lane=3' / 'b.jsonl'}"


def test_a_field_that_no_line_has_is_named_with_those_that_there_are(contract: Make, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"payload":{"merchant":{"id":"a"}},"n":1}\n')
    fields = FieldSpec.of(contract(**spec("payload.merchant.ident")))
    with pytest.raises(
        DataError, match=r"no record of .* has a field.*allowed: n, payload\.merchant\.id; hint: did you"
    ):
        list(open_data(str(tmp_path), fields).batches(fields.names))


AVRO = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "n", "type": "int"},
        {
            "name": "payload",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "body",
                    "fields": [
                        {
                            "name": "merchant",
                            "type": {
                                "type": "record",
                                "name": "shop",
                                "fields": [{"name": "id", "type": ["null", "string"]}],
                            },
                        }
                    ],
                },
            ],
        },
    ],
}


def test_nested_avro_records(tmp_path: Path, contract: Make) -> None:
    from io import BytesIO

    import fastavro

    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    records = [{"n": 1, "payload": {"merchant": {"id": text}}} for text in ("a", None)] + [{"n": 1, "payload": None}]
    values = []
    for record in records:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, AVRO, record)
        values.append(stream.getvalue())
    options = StreamOptions(value="avro", value_schema=str(tmp_path / "event.avsc"))
    agreed = contract(**spec(PATH))
    router, fields = Router(agreed), fields_for(FieldSpec.of(agreed), options)
    columns = fields.marked(pa.nulls(4, pa.binary()), pa.array([*values, None], pa.binary()), None)
    reasons = router.placements(pa.table(columns)).column("reason").to_pylist()
    assert (columns[PATH].to_pylist(), reasons) == (["a", None, None, None], [None, NULL, NULL, MISSING])
    with pytest.raises(UnknownNameError, match=r"allowed: n, payload\.merchant\.id; hint: did you mean 'payload"):
        fields_for(FieldSpec(("payload.merchant.ident",)), options)


def test_nested_protobuf_messages(tmp_path: Path, contract: Make) -> None:
    from google.protobuf import descriptor_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="shop", syntax="proto3")
    outer = file.message_type.add(name="Event")
    merchant = outer.nested_type.add(name="Merchant")
    merchant.field.add(name="id", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    merchant.oneof_decl.add(name="_code")
    merchant.field.add(
        name="code", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL, proto3_optional=True, oneof_index=0
    )
    outer.field.add(
        name="merchant",
        number=1,
        type=kinds.TYPE_MESSAGE,
        type_name=".shop.Event.Merchant",
        label=kinds.LABEL_OPTIONAL,
    )
    path = tmp_path / "event.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    how = value_form("protobuf", str(path), None, ["merchant.id", "merchant.code"], [])
    values = [b"\n\x03\n\x01a", b"\n\x00", b"", None]
    found = read_fields(how, pa.array(values, pa.binary())).to_pylist()
    # One without presence is its default; one with it, and a message, is null where it was not set.
    assert [row["merchant.id"] for row in found] == ["a", "", None, None]
    assert [row["merchant.code"] for row in found] == [None] * 4
    with pytest.raises(UnknownNameError, match=r"allowed: merchant\.id, merchant\.code"):
        value_form("protobuf", str(path), None, ["merchant.name"], [])


def test_what_a_dot_means_is_no_part_of_the_fingerprint() -> None:
    text = """
    apiVersion: keylane/v1
    kind: RoutingContract
    metadata: {name: t}
    spec: {streams: [t], lanes: 4, key: {fields: [a.b]}, partitioner: kafka-java}
    """
    assert parse_contract(text).fingerprint == "6ded96b7c3bb85b36e92f13921190b5ae9ae6309ab4ed348d598ba200b1198e3"


@pytest.mark.parametrize(
    "by",
    [
        {"hot_keys": [{"keys": ["a"], "spread": {"over": 3, "by": "order"}}]},
        {"table": {"values": {"a": [3, 1, 9]}, "by": "order"}},
    ],
    ids=["spread", "table"],
)
def test_a_sub_key_that_no_row_has_is_an_error_and_one_record_without_it_is_not(contract: Make, by: Any) -> None:
    router = Router(contract(**by))
    assert str(router.place({"k": "a"}).reason) == MISSING
    with pytest.raises(DataError, match="order"):
        router.placements(pa.record_batch({"k": ["a", "b"]}))
