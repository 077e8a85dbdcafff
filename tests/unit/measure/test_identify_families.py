"""Who wrote it: every family, every key type, with and without a given lane count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.partitioners import FACTS
from keylane.measure.identify import identify
from keylane.measure.rules import family_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Lanes = Callable[..., NDArray[np.int32]]
    Batch = Callable[..., pa.RecordBatch]

TEXT_FAMILIES = sorted({f.family for f in FACTS.values() if f.hash and "utf8" in f.encodings})
TEXT_NAMES = [name for name, f in FACTS.items() if f.hash and "utf8" in f.encodings]
COUNTS = [3, 12, 64, 100]


@pytest.mark.parametrize("lanes", COUNTS)
@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_every_family_is_identified_with_the_lane_count_given(
    family: str, lanes: int, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    name = family_of(family)[0]
    found = identify([batch(merchants, lanes_by(name, merchants, lanes))], lanes)
    assert (found.verdict, found.lanes, found.lanes_from) == ("one-writer", lanes, "given")
    (writer,) = found.writers
    assert (writer.partitioner, writer.share, writer.encoding) == (name, 1.0, "utf8")
    assert (writer.fitting_keys, writer.setting) == (2_000, FACTS[name].setting)
    assert found.no_contract is None
    assert writer.chance is not None
    assert writer.chance < 1e-100


@pytest.mark.parametrize("lanes", COUNTS)
@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_every_family_is_identified_and_its_lane_count_proven(
    family: str, lanes: int, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    name = family_of(family)[0]
    found = identify([batch(merchants, lanes_by(name, merchants, lanes))])
    assert (found.verdict, found.lanes, found.lanes_from) == ("one-writer", lanes, "proven")
    assert [writer.partitioner for writer in found.writers] == [name]
    assert any(f"lane count {lanes} proven" in note for note in found.notes)


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_every_partitioner_is_named_first_or_among_those_alike(
    name: str, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    (writer,) = identify([batch(merchants, lanes_by(name, merchants, 12))], 12).writers
    named = [writer.partitioner, *writer.also]
    assert name in named
    assert {FACTS[str(one)].family for one in named} == {FACTS[name].family}


@pytest.mark.parametrize("lanes", [3, 100])
@pytest.mark.parametrize("name", TEXT_NAMES)
def test_what_another_client_wrote_is_never_called_kafka_java(
    name: str, lanes: int, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    """The twin of the test above: a planted wrong rule must not pass for the usual one."""
    found = identify([batch(merchants, lanes_by(name, merchants, lanes))], lanes)
    called = any("kafka-java" in (writer.partitioner, *writer.also) for writer in found.writers)
    assert called == (FACTS[name].family == FACTS["kafka-java"].family)


@pytest.mark.parametrize("name", ["kafka-java", "librdkafka-consistent", "kinesis-md5", "spark-hash"])
@pytest.mark.parametrize("missing", [[11], [9, 10, 11]], ids=["the highest", "the three highest"])
def test_the_lane_count_is_proven_though_the_highest_lane_is_missing(
    name: str, missing: list[int], merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by(name, merchants, 12)
    kept = ~np.isin(at, missing)
    found = identify([batch(pa.array(merchants).filter(pa.array(kept)), at[kept])])
    assert (found.lanes, found.lanes_from, found.verdict) == (12, "proven", "one-writer")


NUMBERS = np.arange(2_000) * 7_919 + 100_003


@pytest.mark.parametrize(
    ("kind", "encoding", "name"),
    [
        pytest.param(pa.int64(), "utf8", "kafka-java", id="digits"),
        pytest.param(pa.int64(), "int64be", "kafka-java", id="eight bytes"),
        pytest.param(pa.int32(), "int64be", "kafka-java", id="eight bytes of a narrow column"),
        pytest.param(pa.int32(), "int32be", "kafka-java", id="four bytes"),
        pytest.param(pa.int32(), "utf8", "librdkafka-consistent-random", id="digits of a narrow column"),
        pytest.param(pa.uint32(), "int64be", "sarama-hash", id="unsigned"),
        pytest.param(pa.int64(), "int64be", "spark-hash", id="Spark's bigint"),
        pytest.param(pa.int32(), "int32be", "spark-hash", id="Spark's int"),
        pytest.param(pa.int64(), "int64be", "abs-long-hashcode", id="Long.hashCode"),
    ],
)
@pytest.mark.parametrize("given", [12, None], ids=["given", "proven"])
def test_whole_numbers_are_distinguished_by_their_bytes(
    kind: pa.DataType, encoding: Any, name: str, given: int | None, lanes_by: Lanes, batch: Batch
) -> None:
    keys = pa.array(NUMBERS, kind)
    found = identify([batch(keys, lanes_by(name, keys, 12, encoding))], given)
    (writer,) = found.writers
    assert (writer.partitioner, writer.encoding, found.lanes) == (name, encoding, 12)


UUIDS = [str(UUID(int=int.from_bytes(np.random.default_rng(i).bytes(16), "big"))) for i in range(500)]


@pytest.mark.parametrize("encoding", ["utf8", "uuid"])
def test_a_uuid_as_text_and_as_sixteen_bytes_are_different_keys(encoding: Any, lanes_by: Lanes, batch: Batch) -> None:
    found = identify([batch(UUIDS, lanes_by("kafka-java", UUIDS, 12, encoding))])
    (writer,) = found.writers
    assert (writer.partitioner, writer.encoding, found.lanes) == ("kafka-java", encoding, 12)


@pytest.mark.parametrize("encoding", ["utf8", "h3"])
def test_a_cell_as_text_and_as_a_number_are_different_keys(encoding: Any, lanes_by: Lanes, batch: Batch) -> None:
    cells = [f"{0x8928308280FFFFF + i * 2**18:015x}" for i in range(500)]
    (writer,) = identify([batch(cells, lanes_by("kafka-java", cells, 12, encoding))]).writers
    assert (writer.partitioner, writer.encoding) == ("kafka-java", encoding)


FRAMED = [b"\0\0\0\0%c" % (i % 3) + b"m-%05d" % i for i in range(1_000)]


@pytest.mark.parametrize(
    ("hashed", "encoding"),
    [
        pytest.param(FRAMED, "raw", id="with it"),
        pytest.param([key[5:] for key in FRAMED], "raw behind a registry header", id="without it"),
    ],
)
def test_a_registry_header_that_was_hashed_is_distinguished_from_one_that_was_not(
    hashed: list[bytes], encoding: str, lanes_by: Lanes, batch: Batch
) -> None:
    found = identify([batch(FRAMED, lanes_by("kafka-java", hashed, 12, "raw"))], 12)
    (writer,) = found.writers
    assert (writer.partitioner, writer.encoding) == ("kafka-java", encoding)


LAYOUTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_layout_of_text_and_bytes_is_read(
    layout: pa.DataType, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    text = "string" in str(layout)
    keys = pa.array(merchants if text else [key.encode() for key in merchants], layout)
    found = identify([batch(keys, lanes_by("kafka-java", merchants, 12))])
    assert [writer.partitioner for writer in found.writers] == ["kafka-java"]


def test_keys_of_one_fixed_width_are_read(lanes_by: Lanes, batch: Batch) -> None:
    keys = [np.random.default_rng(i).bytes(16) for i in range(500)]
    found = identify([batch(keys, lanes_by("kafka-java", keys, 12, "raw"), pa.binary(16))])
    assert [(writer.partitioner, writer.encoding) for writer in found.writers] == [("kafka-java", "raw")]


@pytest.mark.parametrize("few", [True, False], ids=["few values", "more values than rows"])
def test_a_dictionary_of_keys_is_read_as_its_values(
    few: bool, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by("sarama-hash", merchants, 12)
    whole = batch(pa.array(merchants).dictionary_encode(), at)
    batches = [whole, whole] if few else [whole.slice(0, 300), whole.slice(300)]
    found = identify(batches)
    assert [writer.partitioner for writer in found.writers] == ["sarama-hash"]
    assert found.rows == sum(len(one) for one in batches)


def test_null_and_empty_values_of_a_dictionary_are_counted(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    keys = pa.array([*merchants, None, None, "", "", ""]).dictionary_encode()
    found = identify([batch(keys, [*lanes_by("kafka-java", merchants, 12), 1, 2, 3, 4, 5])])
    assert (found.null_rows, found.empty_rows, found.keyed_rows) == (2, 3, 2_000)


def test_lanes_may_come_as_a_dictionary(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    lanes = pa.array(lanes_by("kafka-java", merchants, 12)).dictionary_encode()
    found = identify([batch(merchants, lanes)])
    assert [writer.partitioner for writer in found.writers] == ["kafka-java"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int64(), pa.uint64()], ids=str)
def test_lanes_may_be_any_whole_number(kind: pa.DataType, merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    found = identify([batch(merchants, lanes_by("kafka-java", merchants, 12), None, kind)])
    assert (found.verdict, found.lanes) == ("one-writer", 12)


def test_the_same_rows_in_other_batches_give_the_same_answer(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    whole = batch(merchants, lanes_by("kafka-java", merchants, 12))
    pieces = [whole.slice(at, 37) for at in range(0, len(whole), 37)]
    assert identify(pieces) == identify([whole])


def test_a_hot_key_counts_once(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    keys = merchants[:3] * 5_000
    found = identify([batch(keys, lanes_by("kafka-java", keys, 12))], 12)
    assert (found.verdict, found.distinct_keys, found.keyed_rows) == ("unknown", 3, 15_000)
