from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from keylane.measure.copartition import KEPT, Agreement, compare_data
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Lanes = Callable[..., NDArray[np.int32]]
    Batch = Callable[..., pa.RecordBatch]


def compared(lanes: int | None = None, **sets: pa.RecordBatch | list[pa.RecordBatch]) -> Agreement:
    def reader(batches: pa.RecordBatch | list[pa.RecordBatch]) -> Callable[[], list[pa.RecordBatch]]:
        return lambda: batches if isinstance(batches, list) else [batches]

    return compare_data({name: reader(batches) for name, batches in sets.items()}, lanes)


def said(agreement: Agreement) -> list[tuple[str, str]]:
    return [(finding.where, finding.severity) for finding in agreement.findings]


def test_equal_data_agrees_and_says_how_sure_that_is(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    one = batch(merchants, lanes_by("kafka-java", merchants, 12))
    other = batch(merchants[::-1], lanes_by("kafka-java", merchants[::-1], 12))
    found = compared(a=one, b=other)
    assert (found.shared_keys, found.disagreeing_keys, found.findings) == (2_000, 0, [])
    assert found.at_most == pytest.approx(1 - 0.05 ** (1 / 2_000))
    assert {name: who.writers[0].partitioner for name, who in found.writers.items()} == {
        "a": "kafka-java",
        "b": "kafka-java",
    }


@pytest.mark.parametrize("shared", [1, 30, 500])
def test_the_bound_is_of_the_keys_they_share(shared: int, merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    keys = merchants[2_000 - shared :] + [f"other-{i}" for i in range(100)]
    found = compared(
        12,
        a=batch(merchants, lanes_by("kafka-java", merchants, 12)),
        b=batch(keys, lanes_by("kafka-java", keys, 12)),
    )
    assert found.shared_keys == shared
    assert found.at_most == pytest.approx(1 - 0.05 ** (1 / shared))


def test_keys_of_some_lanes_alone_are_no_sample_of_a_stream(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    """Every key that is in the lower half of 24 lanes is in the same lane of 12; every other key is not."""
    at = lanes_by("kafka-java", merchants, 24)
    some = [key for key, lane in zip(merchants, at, strict=True) if lane < 12]
    whole = batch(merchants, lanes_by("kafka-java", merchants, 12))
    found = compared(a=whole, b=batch(some, at[at < 12]))
    assert said(found) == [("lanes", "warning")]
    assert found.writers["b"].rival_lanes == 24
    assert said(compared(a=whole, b=whole)) == []


def test_another_hash_is_found_and_the_odd_one_named(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    found = compared(
        payments=batch(merchants, lanes_by("kafka-java", merchants, 12)),
        refunds=batch(merchants, lanes_by("librdkafka-consistent-random", merchants, 12)),
    )
    assert said(found) == [("writers", "error"), ("keys", "error")]
    assert found.findings[0].message.endswith("; the one that differs: refunds")
    assert found.at_most is None
    assert found.disagreeing_keys == pytest.approx(2_000 * 11 / 12, rel=0.05)


def test_another_lane_count_is_found(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    found = compared(
        a=batch(merchants, lanes_by("kafka-java", merchants, 12)),
        b=batch(merchants, lanes_by("kafka-java", merchants, 24)),
    )
    assert said(found) == [("lanes", "error"), ("keys", "error")]
    assert "a has 12, b has 24" in found.findings[0].message


def test_of_three_data_sets_the_odd_one_is_named(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    java = batch(merchants, lanes_by("kafka-java", merchants, 12))
    found = compared(a=java, b=batch(merchants, lanes_by("sarama-hash", merchants, 12)), c=java)
    assert "the one that differs: b" in found.findings[0].message


def test_other_keys_cannot_be_compared(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    others = [f"other-{i}" for i in range(2_000)]
    found = compared(
        a=batch(merchants, lanes_by("kafka-java", merchants, 12)),
        b=batch(others, lanes_by("kafka-java", others, 12)),
    )
    assert (found.shared_keys, found.at_most) == (0, None)
    assert said(found) == [("keys", "warning")]
    assert "no key in common" in found.findings[0].message


def test_a_single_key_in_another_lane_is_found(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    at = lanes_by("kafka-java", merchants, 12)
    moved = at.copy()
    moved[77] = (moved[77] + 1) % 12
    found = compared(a=batch(merchants, at), b=batch(merchants, moved))
    assert said(found) == [("keys", "error")]
    assert "1 of 2,000 shared keys" in found.findings[0].message


def test_keys_are_compared_by_their_bytes_whatever_the_columns_type(lanes_by: Lanes, batch: Batch) -> None:
    text = [str(i) for i in range(2_000)]
    at = lanes_by("kafka-java", text, 12)
    found = compared(
        12,
        numbers=batch(range(2_000), at, pa.int64()),
        text=batch(text, at),
        coded=batch(pa.array(text).dictionary_encode(), at),
        octets=batch([one.encode() for one in text], at, pa.binary()),
    )
    assert (found.shared_keys, found.findings) == (2_000, [])


def test_bytes_that_another_hash_placed_are_another_writers(lanes_by: Lanes, batch: Batch) -> None:
    text = [str(i) for i in range(2_000)]
    other = lanes_by("librdkafka-consistent-random", text, 12)
    found = compared(
        12,
        text=batch(text, lanes_by("kafka-java", text, 12)),
        octets=batch([one.encode() for one in text], other, pa.binary()),
    )
    assert ("writers", "error") in said(found)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(16)], ids=str)
def test_keys_that_are_no_text_are_compared(kind: pa.DataType, lanes_by: Lanes, batch: Batch) -> None:
    keys = [np.random.default_rng(i).bytes(16) for i in range(500)]
    rows = batch(keys, lanes_by("kafka-java", keys, 12, "raw"), kind)
    found = compared(12, a=rows, b=rows)
    assert (found.shared_keys, found.findings) == (500, [])


def test_rows_without_a_key_are_left_out(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    at = lanes_by("kafka-java", merchants, 12)
    found = compared(
        a=batch([None, *merchants], [3, *at]),
        b=batch([*merchants, None], [*at, 5]),
    )
    assert (found.shared_keys, found.findings) == (2_000, [])


def test_members_of_one_family_are_the_same_writer(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    """Null keys may tell librdkafka's murmur2 from Java's client; where keys go, they are one."""
    at = lanes_by("kafka-java", merchants, 12)
    home = partitioner("librdkafka-murmur2").lane(None, 12)
    found = compared(a=batch([*merchants, *[None] * 30], [*at, *[home] * 30]), b=batch(merchants, at))
    assert found.disagreeing_keys == 0
    assert [finding for finding in found.findings if finding.severity == "error"] == []


def test_a_sample_too_small_to_tell_its_lane_count_does_not_contradict_one(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    """Three keys, none of them on the highest lane: that says nothing of how many lanes there are."""
    at = lanes_by("kafka-java", merchants, 12)
    low = np.flatnonzero(at < 5)[:3]
    few = [merchants[i] for i in low]
    found = compared(a=batch(merchants, at), b=batch(few, at[low]))
    assert (found.shared_keys, found.disagreeing_keys) == (3, 0)
    assert [finding for finding in found.findings if finding.severity == "error"] == []


def many(name: str, numbers: range, batch: Batch) -> list[pa.RecordBatch]:
    keys = pa.array([f"m-{i}" for i in numbers])
    at = partitioner(name).hashed_lanes(keys.cast(pa.binary()), 12).astype(np.int32)
    whole = batch(keys, at)
    return [whole.slice(start, 30_000) for start in range(0, len(whole), 30_000)]


@pytest.fixture(scope="module")
def ascending(batch: Batch) -> list[pa.RecordBatch]:
    return many("kafka-java", range(90_000), batch)


@pytest.mark.slow
def test_big_samples_drawn_apart_hold_the_same_keys(ascending: list[pa.RecordBatch], batch: Batch) -> None:
    """Each has more keys than are kept, in another order, and half of them are the other's."""
    found = compared(12, a=ascending, b=many("kafka-java", range(134_999, 44_999, -1), batch))
    assert 5_000 < found.shared_keys <= KEPT
    assert found.findings == []
    assert found.at_most == pytest.approx(1 - 0.05 ** (1 / found.shared_keys))


def test_big_samples_drawn_apart_show_another_hash(ascending: list[pa.RecordBatch], batch: Batch) -> None:
    found = compared(12, a=ascending, b=many("sarama-hash", range(134_999, 44_999, -1), batch))
    assert found.disagreeing_keys == pytest.approx(found.shared_keys * 11 / 12, rel=0.05)
    assert said(found) == [("writers", "error"), ("keys", "error")]


def test_keys_torn_between_lanes_agree_with_nothing(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    """Only a key's first lane was kept, so data with every key in two lanes was called co-partitioned with itself."""
    lanes = lanes_by("kafka-java", merchants, 12)
    torn = batch(merchants * 2, np.concatenate([lanes, (lanes + 1) % 12]))
    found = compared(a=torn, b=batch(merchants, lanes))
    assert found.disagreeing_keys == found.shared_keys == len(merchants)
    assert ("keys", "error") in said(found)
