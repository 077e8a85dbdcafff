"""Hostile records among good ones in a topic, by a seed and in every format of value: nothing is lost, nothing crashes.

What becomes of each record is decided a second time, in Python, from the record as a reader finds it in the source.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2
from tests.hostile_records import AVRO, Form, key_of, traffic
from tests.integration.route_records import SECONDS, Record, contract, read_committed
from tests.integration.topics import create_topic

from keylane import Router
from keylane.contract.fields import FieldSpec
from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.pipelines.verify import verify
from keylane.systems.broker import librdkafka_settings
from keylane.systems.endpoint import StreamOptions
from keylane.systems.messages import frames, values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane import Contract
    from keylane.systems.broker import Cluster

SEED = 20261116
#: What the target and its dead letters take at most.
LARGEST = 20_000
HEADERS = ("reason", "message", "topic", "partition", "offset", "timestamp", "contract", "fingerprint", "epoch")
UNWRITABLE = {"too-large", "unwritable-time", "malformed-header"}


class Fuzzed:
    """A topic of hostile traffic, routed, and every record of it held against what became of it."""

    def __init__(self, broker: Cluster, topic: Callable[..., str], spark: SparkSession, folder: Path) -> None:
        self.broker, self.spark, self.folder = broker, spark, folder
        forever = {"message_timestamp_after_max_ms": str(2**63 - 1), "retention_ms": "-1"}
        limits = {"max_message_bytes": str(LARGEST), "retention_ms": "-1"}
        self.source, self.target = topic(2, "src", **forever), topic(4, "dst", **limits)
        self.dead = create_topic(broker, f"{self.target}.dlq", 1, **limits)

    def conserved(self, form: Form, count: int, seed: int = SEED) -> dict[str, Any]:
        """Send, route and check; what was tried, for a report."""
        began = time.monotonic()
        given, options = self.contract_of(form), self.options_of(form)
        good = self._send(form, count, seed)
        ends = f"kafka://{self.broker.bootstrap}/{self.source}", f"kafka://{self.broker.bootstrap}/{self.target}"
        found = route(given, *ends, options=Options(kafka=options), spark=self.spark)
        counts = found.counts
        assert (counts.in_, counts.filtered) == (count, 0)
        assert counts.in_ == counts.out + counts.dead
        reasons = self.check(given, options, good)
        assert counts.dead == sum(reasons.values())
        seen = StreamOptions(
            state=options.state, value=options.value, value_schema=options.value_schema, message=options.message
        )
        verdict = verify(*ends, given, topics=seen)
        # Nothing is broken. Of letters whose reason is not in them no more can be said, and verify says so.
        assert not verdict.broken, (verdict.verdict.violations[:3], verdict.miscounted)
        seconds = round(time.monotonic() - began, 1)
        hostile = count - len(good)
        return {"seed": seed, "form": form, "hostile": hostile, **counts.as_json(), "dead": reasons, "seconds": seconds}

    def contract_of(self, form: Form) -> Contract:
        return contract(self.target, **({} if form == "raw" else {"fields: [key]": "fields: [k]"}))

    def options_of(self, form: Form) -> KafkaOptions:
        state = str(self.folder / "state")
        if form == "avro":
            (self.folder / "o.avsc").write_text(json.dumps(AVRO))
            return KafkaOptions(state=state, value="avro", value_schema=str(self.folder / "o.avsc"))
        if form == "protobuf":
            (self.folder / "o.desc").write_bytes(descriptor_set())
            return KafkaOptions(state=state, value="protobuf", value_schema=str(self.folder / "o.desc"))
        return KafkaOptions(state=state, value="json" if form == "json" else None)

    def _send(self, form: Form, count: int, seed: int) -> dict[bytes, int]:
        """The digests of the good records, by which they are known again, and their numbers."""
        now = int(time.time() * 1000)
        large = {"message.max.bytes": 2_000_000, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
        producer, good = Producer({**librdkafka_settings(self.broker), **large}), {}
        for number, sent in enumerate(traffic(form, count, Random(seed), now, large=0.005)):
            pairs: Any = [*sent.headers, *([("good", b"%d" % sent.good)] if sent.good is not None else [])]
            at = now - 1000 if sent.time is None else sent.time
            producer.produce(self.source, sent.value, sent.key, number % 2, timestamp=at, headers=pairs)
            if number % 500 == 0:
                producer.poll(0.01)
            if sent.good is not None:
                good[b"%d" % sent.good] = sent.good
        assert producer.flush(SECONDS) == 0
        return good

    def check(self, given: Contract, options: KafkaOptions, good: dict[bytes, int]) -> dict[str, int]:
        """Each record of the source is in the lane that it has, or a dead letter with its bytes; how many of each."""
        source, target, dead = (read_committed(self.broker, one) for one in (self.source, self.target, self.dead))
        lanes = self.lanes(given, options, source)
        there = {one.header("keylane.source"): one for one in target}
        letters = {one.header("keylane.source"): one for one in dead}
        assert (len(there), len(letters)) == (len(target), len(dead)), "a record is there twice"
        assert not there.keys() & letters.keys()
        reasons: Counter[str] = Counter()
        for one, lane in zip(source, lanes, strict=True):
            at = f"{self.source}/{one.lane}/{one.offset}"
            if at in there:
                copy = there[at]
                assert (copy.key, copy.value, copy.lane) == (one.key, one.value, lane), at
                assert copy.headers[: len(one.headers)] == one.headers, at
                continue
            letter = letters[at]
            reason = letter.header("__keylane.errors.reason")
            reasons[reason] += 1
            assert lane is None or reason in UNWRITABLE, (at, lane, reason)
            assert dict(one.headers).get("good") is None, f"{at} was good, and is a dead letter: {reason}"
            check_letter(letter, one, at)
        assert len(there) + len(letters) == len(source)
        assert good.keys() <= {dict(one.headers).get("good") for one in target}
        return dict(sorted(reasons.items()))

    def lanes(self, given: Contract, options: KafkaOptions, records: list[Record]) -> list[int | None]:
        """The lane of each record by keylane's reader without Spark; None where it has none."""
        spec, router = FieldSpec.of(given), Router(given)
        reader = values.fields_for(spec, StreamOptions(value=options.value, value_schema=options.value_schema))
        keys, bodies = (pa.array([getattr(one, name) for one in records], pa.binary()) for name in ("key", "value"))
        column = reader.columns(keys, bodies if spec.of_value else None, None)[0].to_pylist()
        out: list[int | None] = []
        for found in column:
            placed = router.place({spec.names[0]: found})
            out.append(None if placed.reason else placed.lane)
        return out


def check_letter(letter: Record, one: Record, at: str) -> None:
    """A dead letter has all headers that say why, and the bytes of its record, or their size and digest."""
    for name in HEADERS:
        letter.header(f"__keylane.errors.{name}")
    assert (letter.header("__keylane.errors.partition"), letter.header("__keylane.errors.offset")) == (
        str(one.lane),
        str(one.offset),
    )
    names = dict(letter.headers)
    if "__keylane.errors.headers.count" not in names:
        assert letter.headers[: len(one.headers)] == one.headers, at
    for part, bytes_of, kept in (("value", one.value, letter.value), ("key", one.key, letter.key)):
        if f"__keylane.errors.{part}.sha256" in names:
            assert kept is None
            digest = hashlib.sha256(bytes_of or b"").hexdigest()
            assert bytes_of is None or letter.header(f"__keylane.errors.{part}.sha256") == digest
        else:
            assert kept == bytes_of, at


def descriptor_set() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message, kinds = file.message_type.add(name="Order"), descriptor_pb2.FieldDescriptorProto
    message.field.add(name="k", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="n", number=2, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@pytest.fixture
def fuzzed(broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path) -> Fuzzed:
    return Fuzzed(broker, topic, spark, tmp_path)


def test_hostile_records(fuzzed: Fuzzed) -> None:
    sys.stdout.write(json.dumps(fuzzed.conserved("json", 7_000)) + "\n")


@pytest.mark.faults
@pytest.mark.parametrize(
    ("form", "count"), [("raw", 150_000), ("json", 300_000), ("avro", 200_000), ("protobuf", 100_000)]
)
def test_many_hostile_records(fuzzed: Fuzzed, form: Form, count: int) -> None:
    sys.stdout.write(json.dumps(fuzzed.conserved(form, count, seed=SEED + 1)) + "\n")


@pytest.mark.faults
def test_a_decoder_that_takes_hostile_values_for_others_is_found_out(
    fuzzed: Fuzzed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a decoder that reads a value that it cannot read as a key of its own."""
    honest = values.read_fields

    def guessing(how: Any, given: pa.Array) -> pa.Array:
        rows = honest(how, given).to_pylist()
        return pa.array([{"k": row["k"] or key_of(0), values.UNREAD: False} for row in rows], how.arrow())

    monkeypatch.setattr(frames, "read_fields", guessing)
    with pytest.raises(AssertionError):
        fuzzed.conserved("avro", 2_000)
