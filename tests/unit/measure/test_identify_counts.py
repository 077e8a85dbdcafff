"""Lane counts: proven from the data, strays and growth included; each of these once gave a false count."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from keylane import partitioner
from keylane.measure.identify import identify

if TYPE_CHECKING:
    from keylane.measure.identify import Identification

JAVA = partitioner("kafka-java")
KEYS = [f"merchant_{i:05d}" for i in range(4_000)]


def lane(key: str, lanes: int) -> int:
    found = JAVA.lane(key.encode(), lanes)
    assert found is not None
    return found


def ask(keys: list[Any], lanes: list[int], count: int | None = None) -> Identification:
    return identify([pa.record_batch({"key": pa.array(keys), "lane": pa.array(lanes, pa.int32())})], count)


def is_possible(found: Identification, lanes: list[int]) -> bool:
    """Whether the lane count can be: the highest lane is one of them."""
    return found.lanes > max(lanes)


@pytest.mark.parametrize("stray", [12, 400], ids=["just beyond", "far beyond"])
def test_one_row_on_a_lane_beyond_does_not_hide_the_writer_and_is_never_outside_of_the_count(stray: int) -> None:
    found = ask(KEYS, [stray, *(lane(key, 12) for key in KEYS[1:])])
    (writer,) = found.writers
    assert (found.verdict, found.lanes, found.lanes_from) == ("one-writer", stray + 1, "seen")
    assert (writer.partitioner, writer.lanes) == ("kafka-java", 12)
    assert any(f"a record is in lane {stray}" in note for note in found.notes)


@pytest.mark.parametrize("order", ["in time", "mixed", "by lane"])
@pytest.mark.parametrize("old", [0.5, 0.9, 0.999, 0.1])
def test_a_topic_that_grew_has_its_new_count_and_the_older_records_the_old_one(old: float, order: str) -> None:
    keys = [f"m-{i % 9_000}" for i in range(24_000)]
    lanes = [lane(key, 32 if i < old * 24_000 else 64) for i, key in enumerate(keys)]
    pairs = list(zip(keys, lanes, strict=True))
    if order == "mixed":
        random.Random(5).shuffle(pairs)
    elif order == "by lane":
        pairs.sort(key=lambda pair: pair[1])
    found = ask([key for key, _ in pairs], [at for _, at in pairs])
    assert is_possible(found, lanes)
    assert (found.lanes, {writer.partitioner for writer in found.writers} - {None}) == (64, {"kafka-java"})
    shares = {writer.lanes or found.lanes: writer.share for writer in found.writers if writer.partitioner}
    assert shares[32] == pytest.approx(old, abs=0.03)


def test_a_topic_that_grew_is_described_alike_when_the_cluster_gives_the_count() -> None:
    keys = [f"m-{i % 9_000}" for i in range(24_000)]
    found = ask(keys, [lane(key, 32 if i < 18_000 else 64) for i, key in enumerate(keys)], 64)
    assert (found.lanes, found.lanes_from) == (64, "given")
    assert {writer.lanes: round(writer.share, 1) for writer in found.writers} == {32: 0.8, None: 0.2}


def test_growth_after_the_rows_that_choose_the_rules_is_seen_too() -> None:
    keys = [f"m-{i % 9_000}" for i in range(140_000)]
    found = ask(keys, lanes := [lane(key, 32 if i < 120_000 else 64) for i, key in enumerate(keys)])
    assert is_possible(found, lanes)
    assert (found.lanes, found.lanes_from) == (64, "proven")
    assert [writer.lanes for writer in found.writers] == [32, None]


def test_a_lane_beyond_the_count_counts_though_its_records_have_no_key_or_no_rule() -> None:
    keys: list[Any] = [*KEYS, None]
    found = ask(keys, [*(lane(key, 12) for key in KEYS), 40])
    assert (found.lanes, found.lanes_from, found.writers[0].lanes) == (41, "seen", 12)
    unknown = ask(KEYS[:4], [0, 1, 2, 3]), ask([*KEYS[:4], *[None] * 3], [0, 1, 2, 3, 9, 9, 9])
    assert [one.lanes for one in unknown] == [4, 10]


@pytest.mark.parametrize(("grown", "at"), [(18, 2_000), (24, 2_000), (13, 3_600)])
def test_a_stream_that_grew_has_one_writer_on_two_counts(grown: int, at: int) -> None:
    found = ask(KEYS, [lane(key, 12 if i < at else grown) for i, key in enumerate(KEYS)])
    shares = {writer.lanes or found.lanes: writer.share for writer in found.writers}
    assert {writer.partitioner for writer in found.writers} == {"kafka-java"}
    assert shares == {12: pytest.approx(at / 4_000, abs=0.03), grown: pytest.approx(1 - at / 4_000, abs=0.03)}


def test_a_wrong_count_is_answered_with_the_right_one() -> None:
    found = ask(KEYS, [lane(key, 12) for key in KEYS], 24)
    assert found.writers[0].lanes == 12
    assert found.writers[0].share == pytest.approx(1, abs=0.02)


def test_counts_that_fit_alike_are_not_proven() -> None:
    keys = [f"m{i}" for i in range(20_000)]
    kept = [(key, at) for key in keys if (at := lane(key, 500)) < 100]
    found = ask([key for key, _ in kept], [at for _, at in kept])
    assert found.lanes_from == "seen"
    assert any("does not prove it" in note for note in found.notes)


def test_a_pinned_key_is_distinguished_from_a_writer() -> None:
    """Its rows never fit the rule by chance, so chance must not be taken off the rule's own share."""
    keys = ["hot"] * 9_000 + KEYS[:1_000]
    lanes = [(lane("hot", 12) + 1) % 12] * 9_000 + [lane(key, 12) for key in KEYS[:1_000]]
    found = ask(keys, lanes)
    assert [round(writer.share, 3) for writer in found.writers] == [0.1, 0.9]
    assert any("of 1 key:" in note for note in found.notes)


def test_rows_without_a_lane_are_left_out_and_counted() -> None:
    batch = pa.record_batch(
        {"key": pa.array(KEYS), "lane": pa.array([None, *(lane(k, 12) for k in KEYS[1:])], pa.int32())}
    )
    found = identify([batch])
    assert found.verdict == "one-writer"
    assert any("1 row without a lane" in note for note in found.notes)


@pytest.mark.parametrize("width", [4, 8], ids=["int32be", "int64be"])
def test_numbers_are_found_as_digits_and_in_wide_columns(width: int) -> None:
    numbers = [i * 7 for i in range(4_000)]
    lanes = [JAVA.lane(n.to_bytes(width, "big"), 12) for n in numbers]
    for keys in (pa.array(numbers, pa.int64()), pa.array([str(n) for n in numbers])):
        found = identify([pa.record_batch({"key": keys, "lane": pa.array(lanes, pa.int32())})])
        assert (found.verdict, found.writers[0].encoding) == ("one-writer", f"int{8 * width}be")


@pytest.mark.parametrize(
    ("count", "kept", "fits"),
    [(24, range(12), 12), (24, range(11), 12), (64, (1, 2), 4), (48, (0, 3, 6, 9), 12)],
    ids=["the lower half", "less than half", "two lanes", "every third"],
)
def test_records_of_some_lanes_do_not_show_the_count_and_no_contract_follows(
    count: int, kept: tuple[int, ...], fits: int
) -> None:
    keys = [f"m-{i}" for i in range(40_000)]
    pairs = [(key, at) for key in keys if (at := lane(key, count)) in kept]
    found = ask([key for key, _ in pairs], [at for _, at in pairs])
    assert (found.verdict, found.lanes, found.lanes_from) == ("one-writer", fits, "seen")
    assert found.rival_lanes is not None
    assert found.no_contract is not None
    assert "--lanes" in found.no_contract[1]
    given = ask([key for key, _ in pairs], [at for _, at in pairs], count)
    assert (given.lanes_from, given.rival_lanes, given.no_contract) == ("given", None, None)


def test_records_of_all_lanes_have_no_rival_count_where_a_part_is_unexplained() -> None:
    rest = random.Random(9)
    lanes = [lane(key, 12) if rest.random() > 0.08 else rest.randrange(12) for key in KEYS]
    found = ask(KEYS, lanes)
    assert (found.lanes_from, found.rival_lanes, found.no_contract) == ("seen", None, None)
