"""Each cause of a hot lane from traffic in which it was planted, and a neighbour that looks like it and is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from keylane.documents.profile import Hot
from keylane.errors import UsageError
from keylane.measure.hot_lanes import CAUSES, Heat, of_others, why_hot
from keylane.measure.identify import Identification, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N = 12


def look(records: Any, at: Any, lanes: int = N, **more: Any) -> Heat:
    weights, where = np.asarray(records), np.asarray(at)
    loads = np.bincount(where[where >= 0], weights[where >= 0], lanes)
    return why_hot(loads, where, weights, lanes, rng=np.random.default_rng(1), **more)


def fair(keys: int, lanes: int = N, seed: int = 4) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(lanes, size=keys)


def causes(heat: Heat) -> dict[int, str]:
    return {lane.lane: lane.cause for lane in heat.hot}


@pytest.mark.parametrize(
    ("causes", "says"),
    [
        ([], ""),
        (["one-key"], " 1 other lane is above the mean, because of one key."),
        (["one-key"] * 3, " 3 other lanes are above the mean, because of one key each."),
        (
            ["one-key", "unlucky-hash", "one-key"],
            " 3 other lanes are above the mean: 2 because of one key each, 1 because of an unlucky hash.",
        ),
    ],
)
def test_other_lanes_above_the_mean_are_counted_by_their_reason(causes: list[Any], says: str) -> None:
    assert of_others(causes) == says


def test_even_traffic_is_fair() -> None:
    heat = look([10] * 50_000, fair(50_000))
    assert heat.hot == ()
    assert (heat.verdict.cause, heat.verdict.alarm, heat.verdict.misplaced) == ("fair", False, None)
    assert "1.03 times the mean" in heat.verdict.says


def test_a_small_sample_of_even_traffic_is_fair_though_its_lanes_are_uneven() -> None:
    """The neighbour of a hot lane: at 1.7 times the mean, which so few records do by themselves."""
    records, at = [1] * 120, fair(120)
    assert np.bincount(at).max() / 10 > 1.5
    assert look(records, at).verdict.cause == "fair"


def test_a_wide_range_is_the_cause_and_no_alarm() -> None:
    """Half of the key space is one lane of four: twice the mean, as it should be."""
    widths, keys = [1 / 2, 1 / 6, 1 / 6, 1 / 6], 20_000
    at = np.random.default_rng(4).choice(4, size=keys, p=widths)
    heat = look([10] * keys, at, 4, widths=widths)
    assert (causes(heat), heat.verdict.alarm) == ({0: "wide-range"}, False)
    assert "50.0% of the key space" in heat.verdict.says
    # The twins: taken for equal it is an unlucky hash; a narrow lane that is as full is one, and a heavy key is a key.
    equal = look([10] * keys, at, 4)
    assert (causes(equal), equal.verdict.alarm) == ({0: "unlucky-hash"}, True)
    narrow = look([10] * keys, at, 4, widths=widths[::-1])
    assert (causes(narrow), narrow.verdict.alarm) == ({0: "unlucky-hash"}, True)
    heavy = look([200_000, *[10] * keys], [0, *fair(keys, 4)], 4, widths=[0.26, 0.24, 0.25, 0.25])
    assert causes(heavy)[0] == "one-key"


def test_one_key() -> None:
    records, at = [100_000, *[10] * 50_000], fair(50_001)
    heat = look(records, at)
    (lane,) = heat.hot
    assert (lane.lane, lane.cause, lane.keys) == (at[0], "one-key", (0,))
    assert lane.share_of_heaviest == pytest.approx(100_000 / np.bincount(at, records)[at[0]])
    assert lane.over_mean == pytest.approx(lane.share * N)
    assert not heat.verdict.alarm
    assert heat.verdict.says.startswith(f"Lane {at[0]} carries {lane.over_mean:.2f} times")


def test_two_keys_on_one_lane_are_not_one_key() -> None:
    at = fair(50_002)
    at[:2] = 5
    (lane,) = look([50_000, 50_000, *[10] * 50_000], at).hot
    assert (lane.lane, lane.cause, lane.keys) == (5, "few-keys", (0, 1))
    assert lane.chance > 0.01


def test_two_keys_on_two_lanes_are_one_key_each() -> None:
    at = fair(50_002)
    at[:2] = 5, 6
    assert causes(look([50_000, 50_000, *[10] * 50_000], at)) == {5: "one-key", 6: "one-key"}


@pytest.mark.parametrize(("others", "cause"), [(11, "few-keys"), (8, "one-key")])
def test_a_key_without_which_the_lane_would_still_be_hot_is_not_the_cause(others: int, cause: str) -> None:
    """It is half of the excess either way; without it the lane has 1.35 times its share, or is even."""
    at = [0, *[0] * others, *[1 + n % 11 for n in range(98 - others)]]
    lane = look([3_200, *[1_200] * 98], at).hot[0]
    assert (lane.lane, lane.cause) == (0, cause)


def test_a_heavy_key_in_a_lane_of_many_others_is_not_the_cause() -> None:
    """The key is a tenth of the excess; the lane was filled by hundreds of ordinary keys."""
    at = fair(50_001)
    at[1:4_000] = 5
    at[0] = 5
    (lane,) = look([4_000, *[10] * 50_000], at).hot
    assert (lane.lane, lane.cause) == (5, "unlucky-hash")


@pytest.mark.parametrize(("keys", "lanes"), [(6, 60), (20, 12), (1, 12), (2, 2)])
def test_few_keys(keys: int, lanes: int) -> None:
    heat = look([1_000] * keys, fair(keys, lanes), lanes)
    assert heat.hot
    assert set(causes(heat).values()) == {"few-keys"}
    assert heat.verdict.effective_keys == pytest.approx(keys)
    assert not heat.verdict.alarm


def test_as_many_records_of_more_keys_are_fair() -> None:
    assert look([1] * 20_000, fair(20_000)).verdict.cause == "fair"


def test_few_keys_are_named_while_they_make_up_the_excess() -> None:
    at = np.array([3, 3, 3, *range(12), *range(5)])
    lane = look([1_000] * 20, at).hot[0]
    assert (lane.lane, lane.keys) == (3, (0, 1, 2, 6))
    assert "20 effective keys for 12 lanes" in lane.evidence


def test_an_unlucky_hash() -> None:
    at = fair(20_000)
    at[np.random.default_rng(2).random(20_000) < 0.03] = 7
    heat = look([10] * 20_000, at)
    (lane,) = heat.hot
    assert (lane.lane, lane.cause, lane.keys) == (7, "unlucky-hash", ())
    assert lane.chance < 1e-6
    assert heat.verdict.alarm


def test_the_same_load_from_few_keys_is_not_unlucky() -> None:
    """The neighbour: as full a lane, of two hundred keys instead of twenty thousand, is what chance gives."""
    at = np.concatenate([np.full(7, 7), np.arange(193) % 12])
    heat = look([1_000] * 200, at)
    assert heat.hot[0].over_mean > 1.35
    assert set(causes(heat).values()) == {"few-keys"}


def test_an_unlucky_lane_is_seen_behind_a_giant_key() -> None:
    """Unconditionally a giant hides it: some lane is fuller always. The light keys alone tell."""
    at = fair(20_001)
    at[0] = 2
    at[1:][np.random.default_rng(2).random(20_000) < 0.04] = 7
    heat = look([60_000, *[10] * 20_000], at)
    assert causes(heat)[2] == "one-key"
    assert causes(heat)[7] == "unlucky-hash"
    assert heat.verdict.alarm


def test_an_unlucky_lane_below_the_mean_is_not_hot_but_rings() -> None:
    at = fair(20_001)
    at[0] = 2
    at[1:][np.random.default_rng(2).random(20_000) < 0.04] = 7
    heat = look([400_000, *[10] * 20_000], at)
    assert causes(heat) == {2: "one-key"}
    assert heat.verdict.alarm
    assert "A fair hash" in heat.verdict.says


@pytest.fixture(scope="module")
def mixed(lanes_by: Callable[..., NDArray[np.int32]], merchants: list[str]) -> tuple[Any, ...]:
    """Keys by murmur2; of the heaviest, half of the records by CRC32, which gives it another lane."""
    records = np.array([40_000, *[40] * 1_999])
    java, crc = lanes_by("kafka-java", merchants, N), lanes_by("librdkafka-consistent", merchants, N)
    assert java[0] != crc[0]
    observed = np.bincount(java, records, N)
    observed[java[0]] -= 20_000
    observed[crc[0]] += 20_000
    return records, java, crc, observed


def test_a_mixed_writer(mixed: tuple[Any, ...]) -> None:
    records, java, crc, observed = mixed
    heat = look(records, java, observed=observed)
    assert causes(heat) == {java[0]: "one-key", crc[0]: "mixed-writer"}
    assert heat.verdict.misplaced == pytest.approx(20_000 / records.sum())
    assert "not in the lane" in heat.verdict.mixed
    assert heat.verdict.as_seen


def test_a_key_has_its_share_of_what_the_contract_puts_in_its_lane(mixed: tuple[Any, ...]) -> None:
    """How many of its records stand elsewhere was not counted: a share of the lane as seen would be a guess."""
    records, java, _, observed = mixed
    loads = np.bincount(java, records, N)
    torn, kept = look(records, java, observed=observed), look(records, java, observed=loads)
    lane = next(one for one in torn.hot if one.lane == java[0])
    assert lane.over_mean == pytest.approx(observed[java[0]] / observed.mean())
    assert lane.share_of_heaviest == pytest.approx(40_000 / loads[java[0]])
    assert lane.evidence != kept.hot[0].evidence
    assert lane.evidence.endswith(kept.hot[0].evidence)


def test_few_keys_never_hold_more_than_all_of_a_lane() -> None:
    """A heavy key is alone in its lane, and most of its records stand in others: it is 2.5 times what is left there."""
    records = np.array([20_000, *[1_000] * 11])
    at = np.arange(12)
    observed = np.bincount(at, records, N)
    observed[0] -= 12_000
    observed[1:] += np.array([1_091] * 10 + [1_090])
    found = look(records, at, observed=observed).hot
    assert [(one.lane, one.cause, one.share_of_heaviest) for one in found] == [(0, "few-keys", 1.0)]
    assert "holds 100% of it" in found[0].evidence


def test_the_same_records_under_a_contract_that_is_kept_are_no_mixed_writer(mixed: tuple[Any, ...]) -> None:
    records, java, _, _ = mixed
    heat = look(records, java, observed=np.bincount(java, records, N))
    assert causes(heat) == {java[0]: "one-key"}
    assert heat.verdict.misplaced == 0
    assert (heat.verdict.mixed, heat.verdict.as_seen) == ("", False)


def test_records_without_a_key_are_no_second_writer(mixed: tuple[Any, ...]) -> None:
    records, java, _, _ = mixed
    seen = np.bincount(java, records, N)
    seen[1] += 50_000
    assert look(records, java, observed=seen).verdict.misplaced == 0


def test_another_sample_differs_by_chance_and_is_no_second_writer(mixed: tuple[Any, ...]) -> None:
    records, java, _, observed = mixed
    rng = np.random.default_rng(8)
    loads = np.bincount(java, records, N)
    kept = rng.multinomial(90_000, loads / loads.sum())
    torn = rng.multinomial(90_000, observed / observed.sum())
    assert look(records, java, observed=kept, same_records=False).verdict.misplaced == 0
    found = look(records, java, observed=torn, same_records=False).verdict.misplaced
    assert found is not None
    assert found > 0.1


@pytest.mark.parametrize("size", [30_000, 1_000_000])
def test_a_mixed_writer_in_another_sample_whatever_its_size(mixed: tuple[Any, ...], size: int) -> None:
    records, java, crc, observed = mixed
    torn = np.random.default_rng(8).multinomial(size, observed / observed.sum())
    heat = look(records, java, observed=torn, same_records=False)
    assert causes(heat) == {java[0]: "one-key", crc[0]: "mixed-writer"}
    assert all(0 < lane.share_of_heaviest <= 1 for lane in heat.hot)


def test_another_sample_taken_for_the_same_records_would_be_noticed(mixed: tuple[Any, ...]) -> None:
    """The twin: without the allowance for chance the kept contract looks torn, so the allowance does something."""
    records, java, _, _ = mixed
    loads = np.bincount(java, records, N)
    kept = np.random.default_rng(8).multinomial(int(loads.sum()), loads / loads.sum())
    assert (look(records, java, observed=kept).verdict.misplaced or 0) > 0.001
    with pytest.raises(UsageError, match="same_records=False"):
        look(records, java, observed=kept // 2)


def test_what_identify_found_is_reported(mixed: tuple[Any, ...]) -> None:
    records, java, _, observed = mixed
    writers = (Writer("kafka-java", 0.8), Writer("sarama-hash", 0.15), Writer(None, 0.05))
    found = Identification("mixed", writers, N, "given", 1, 1, 0, 0, 1, 0)
    says = look(records, java, observed=observed, writers=found).verdict.mixed
    assert "kafka-java 80.0%, sarama-hash 15.0%" in says
    assert "5.0% of the records" in says
    one = Identification("one-writer", writers[:1], N, "given", 1, 1, 0, 0, 1, 0)
    assert look([10] * 50_000, fair(50_000), writers=one).verdict.cause == "fair"
    assert look([10] * 50_000, fair(50_000), writers=found).verdict.cause == "mixed-writer"


def test_keys_on_several_lanes_keep_their_ranks_and_fill_no_lane_alone() -> None:
    at = fair(50_002)
    at[0], at[1] = -1, 4
    records = np.array([300_000, 100_000, *[10] * 50_000])
    loads = np.bincount(at[1:], records[1:], N) + 25_000
    heat = why_hot(loads, at, records, N, rng=np.random.default_rng(1))
    assert [(lane.lane, lane.cause, lane.keys) for lane in heat.hot] == [(4, "one-key", (1,))]


@pytest.mark.slow
def test_murmur2_of_zipf_keys_rings_no_more_often_than_stated(lanes_by: Callable[..., NDArray[np.int32]]) -> None:
    rng = np.random.default_rng(6)
    records = (20_000 / np.arange(1, 1_501)).astype(np.int64) + 1
    rings, looks, alpha = 0, 200, 0.05
    for _ in range(looks):
        names = [f"key_{number}" for number in rng.integers(2**62, size=len(records))]
        heat = look(records, lanes_by("kafka-java", names, 3), 3, alpha=alpha)
        rings += heat.verdict.alarm
        assert ("unlucky-hash" in causes(heat).values()) <= heat.verdict.alarm
    assert rings <= alpha * looks


def test_causes_are_from_the_closed_list() -> None:
    heat = look([1_000] * 20, fair(20))
    assert {lane.cause for lane in heat.hot} <= set(CAUSES) == set(get_args(Hot.model_fields["cause"].annotation))


@pytest.mark.parametrize(
    ("loads", "at", "records", "lanes", "alpha"),
    [
        ([1], [0], [1], 1, 0.001),
        ([1, 1], [0, 0, 1], [1, 1], 2, 0.001),
        ([1, 1], [0, 2], [1, 1], 2, 0.001),
        ([1, 1, 1], [0, 1], [1, 1], 2, 0.001),
        ([1, 1], [0, 1], [1, 2], 2, 0.001),
        ([1, 1], [0, 1], [1, 1], 2, 0.0),
    ],
    ids=["one lane", "lanes of other keys", "no such lane", "other loads", "not heaviest first", "no rate"],
)
def test_what_does_not_fit_is_refused(loads: Any, at: Any, records: Any, lanes: int, alpha: float) -> None:
    with pytest.raises(UsageError):
        why_hot(loads, np.array(at), np.array(records), lanes, rng=np.random.default_rng(1), alpha=alpha)


def test_nothing_is_fair() -> None:
    assert look([], np.zeros(0, int)).verdict.cause == "fair"


def test_millions_of_keys_have_a_cause_like_any_others() -> None:
    keys = 1_000_000
    records = (1e6 / np.arange(1, keys + 1) ** 1.05).astype(np.int64) + 1
    at = fair(keys, 1_024)
    heat = why_hot(np.bincount(at, records, 1_024), at, records, 1_024, rng=np.random.default_rng(1))
    assert heat.verdict.cause == "one-key"
