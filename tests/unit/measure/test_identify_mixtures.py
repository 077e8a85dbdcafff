"""Several writers, late writers, strays, and rows without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from keylane.measure.identify import Identification, identify
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Lanes = Callable[..., NDArray[np.int32]]
    Batch = Callable[..., pa.RecordBatch]
    Chosen = Callable[..., NDArray[np.int64]]

JAVA, CRC, FNV = "kafka-java", "librdkafka-consistent-random", "sarama-hash"


def found_shares(found: Identification) -> dict[str | None, float]:
    return {writer.partitioner: writer.share for writer in found.writers}


@pytest.mark.parametrize("given", [True, False], ids=["given", "proven"])
@pytest.mark.parametrize(
    ("truth", "lanes"),
    [
        pytest.param({JAVA: 0.95, CRC: 0.05}, 12, id="95 to 5"),
        pytest.param({JAVA: 0.5, CRC: 0.5}, 12, id="even"),
        pytest.param({JAVA: 0.5, CRC: 0.5}, 3, id="even on three lanes"),
        pytest.param({JAVA: 0.6, CRC: 0.3, FNV: 0.1}, 12, id="three writers"),
        pytest.param({JAVA: 0.6, CRC: 0.3, FNV: 0.1}, 64, id="three writers on 64 lanes"),
        pytest.param({FNV: 0.9, "sarama-reference": 0.1}, 12, id="two folds of one hash"),
        pytest.param({FNV: 0.5, "sarama-reference": 0.5}, 12, id="two folds of one hash, even"),
    ],
)
def test_the_writers_of_a_mixture_and_their_shares_are_found(
    truth: dict[str, float], lanes: int, given: bool, lanes_by: Lanes, batch: Batch, chosen: Chosen
) -> None:
    keys = pa.array([f"m-{i}" for i in range(20_000)])
    at = np.choose(chosen(len(keys), *truth.values()), [lanes_by(name, keys, lanes) for name in truth])
    found = identify([batch(keys, at)], lanes if given else None)
    assert (found.verdict, found.lanes) == ("mixed", lanes)
    assert found_shares(found) == pytest.approx(truth, abs=0.015)
    assert [w.share for w in found.writers] == sorted((w.share for w in found.writers), reverse=True)


@pytest.fixture(scope="module")
def long_run() -> tuple[pa.Array, dict[str, NDArray[np.int32]]]:
    """300,000 rows of 60,000 keys, and where three clients put them."""
    keys = pa.array([f"m-{i % 60_000}" for i in range(300_000)])
    once = keys.slice(0, 60_000)
    return keys, {
        name: np.tile(partitioner(name).hashed_lanes(once.cast(pa.binary()), 12).astype(np.int32), 5)
        for name in (JAVA, CRC, FNV)
    }


def in_batches(batch: Batch, keys: pa.Array, at: NDArray[np.int32], size: int = 50_000) -> list[pa.RecordBatch]:
    whole = batch(keys, at)
    return [whole.slice(start, size) for start in range(0, len(whole), size)]


def test_a_writer_that_came_in_the_last_tenth_is_found(
    long_run: tuple[pa.Array, dict[str, NDArray[np.int32]]], batch: Batch
) -> None:
    keys, by = long_run
    late = np.zeros(len(keys), bool)
    late[270_000::20] = True
    found = identify(in_batches(batch, keys, np.where(late, by[CRC], by[JAVA])))
    assert found.verdict == "mixed"
    assert found_shares(found) == pytest.approx({JAVA: 0.995, CRC: 0.005}, abs=0.001)


def test_two_writers_after_the_head_have_their_true_shares(
    long_run: tuple[pa.Array, dict[str, NDArray[np.int32]]], batch: Batch
) -> None:
    """One comes in bulk and the other in a trickle; what is kept of either must not bend their shares."""
    keys, by = long_run
    writer = np.zeros(len(keys), int)
    writer[100_000:150_000:2] = 1
    writer[150_000::50] = 2
    truth = {name: float((writer == i).mean()) for i, name in enumerate((JAVA, CRC, FNV))}
    found = identify(in_batches(batch, keys, np.choose(writer, [by[JAVA], by[CRC], by[FNV]])))
    assert found_shares(found) == pytest.approx(truth, abs=0.004)


def test_a_writer_is_found_though_the_first_rows_have_no_rule(
    long_run: tuple[pa.Array, dict[str, NDArray[np.int32]]], batch: Batch
) -> None:
    keys, by = long_run
    at = by[JAVA].copy()
    at[:100_000] = np.random.default_rng(3).integers(0, 12, 100_000)
    found = identify(in_batches(batch, keys, at), 12)
    assert found.verdict == "mixed"
    assert found_shares(found) == pytest.approx({JAVA: 2 / 3 + 1 / 36, None: 11 / 36}, abs=0.05)


def test_one_stray_row_is_noted_and_makes_no_second_writer(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    at = lanes_by(JAVA, merchants, 12)
    at[1_000] = (at[1_000] + 1) % 12
    found = identify([batch(merchants, at)])
    assert (found.verdict, found.unexplained_rows) == ("one-writer", 1)
    assert any("about 1 stray row" in note for note in found.notes)


@pytest.mark.parametrize(
    ("keys", "odd", "verdict"),
    [
        pytest.param(200, 2, "one-writer", id="two of two hundred, as placeholders of null and empty keys"),
        pytest.param(2_000, 10, "mixed", id="too many for strays"),
        pytest.param(200, 11, "mixed", id="few rows, but a twentieth of the data"),
    ],
)
def test_a_few_odd_rows_are_no_second_writer(
    keys: int, odd: int, verdict: str, merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    some = merchants[:keys]
    at = lanes_by(JAVA, some, 12)
    at[:odd] = (at[:odd] + 1) % 12
    found = identify([batch(some, at)], 12)
    assert (found.verdict, found.unexplained_rows) == (verdict, odd)
    assert (None in found_shares(found)) == (verdict == "mixed")


def test_rows_that_no_rule_explains_are_a_writer_without_a_name(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by(JAVA, merchants, 12)
    # Lanes that depend on nothing: one more than the rule's would be another rule of the same hash.
    at[::25] = np.random.default_rng(5).integers(0, 12, 80)
    found = identify([batch(merchants, at)], 12)
    assert found.verdict == "mixed"
    assert found_shares(found) == pytest.approx({JAVA: 0.96, None: 0.04}, abs=0.005)


def test_one_lane_on_is_another_rule_of_the_same_hash_and_no_rest_of_the_first(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    at = lanes_by(JAVA, merchants, 12)
    at[::20] = (at[::20] + 1) % 12
    assert identify([batch(merchants, at)], 12).verdict == "unknown"


def test_rows_without_a_key_are_counted_apart(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    at = [*lanes_by(JAVA, merchants, 12), 1, 2, 3, 4, 5]
    found = identify([batch([*merchants, None, None, "", "", ""], at)])
    counts = (found.rows, found.keyed_rows, found.null_rows, found.empty_rows, found.distinct_keys)
    assert counts == (2_005, 2_000, 2, 3, 2_000)
    assert found.verdict == "one-writer"


def with_nulls(
    merchants: list[str], nulls: list[int], lanes_by: Lanes, batch: Batch
) -> tuple[str | None, tuple[str, ...]]:
    at = [*lanes_by(JAVA, merchants, 12), *nulls]
    (writer,) = identify([batch([*merchants, *[None] * len(nulls)], at)], 12).writers
    return writer.partitioner, writer.also


def test_null_keys_on_the_lane_of_the_empty_key_name_librdkafkas_murmur2(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    home = partitioner("librdkafka-murmur2").lane(None, 12)
    assert home is not None
    assert with_nulls(merchants, [home] * 30, lanes_by, batch) == ("librdkafka-murmur2", ())


def test_null_keys_in_many_lanes_exclude_librdkafkas_murmur2(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    name, also = with_nulls(merchants, list(range(12)) * 3, lanes_by, batch)
    assert name == JAVA
    assert "librdkafka-murmur2" not in also
    assert "librdkafka-murmur2-random" in also


def test_nine_null_keys_exclude_nobody(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    name, also = with_nulls(merchants, list(range(9)), lanes_by, batch)
    assert name == JAVA
    assert "librdkafka-murmur2" in also


def test_a_sticky_batch_of_null_keys_is_not_taken_for_a_hash(
    merchants: list[str], lanes_by: Lanes, batch: Batch
) -> None:
    """A sticky client keeps a whole batch of null keys on one lane; a hash would keep it on the empty key's own."""
    home = partitioner("librdkafka-murmur2").lane(None, 12)
    assert home is not None
    name, also = with_nulls(merchants, [(home + 1) % 12] * 50, lanes_by, batch)
    assert name == JAVA
    assert "librdkafka-murmur2-random" in also


def test_empty_keys_tell_librdkafkas_crc32_settings_apart(merchants: list[str], lanes_by: Lanes, batch: Batch) -> None:
    home = partitioner("librdkafka-consistent").lane(b"", 12)
    keys = [*merchants, *[""] * 36]
    hashed = [*lanes_by(CRC, merchants, 12), *[home] * 36]
    strewn = [*lanes_by(CRC, merchants, 12), *list(range(12)) * 3]
    (one,) = identify([batch(keys, hashed)], 12).writers
    (other,) = identify([batch(keys, strewn)], 12).writers
    assert {str(one.partitioner), *one.also} == {"librdkafka-consistent", "sarama-crc"}
    assert {str(other.partitioner), *other.also} == {CRC, "kafka-go-crc32"}
