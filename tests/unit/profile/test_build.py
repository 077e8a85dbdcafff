"""Rows as Spark counts them -> a profile: order, what has no key, lanes, fingerprint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.profile.example_profiles import made, rows_of

from keylane import Router
from keylane.contract.model import Key
from keylane.errors import CountError, DataError
from keylane.profile.build import ProfileMetadata, fingerprint_of, heaviest_first, observed_lanes, profile_of, unpacked
from keylane.profile.model import ObservedLanes, WithoutKey, position_windows, time_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract


@pytest.mark.parametrize("windows", [1, 2, 3, 8])
def test_two_counters_of_one_sum_come_apart(windows: int) -> None:
    rng = np.random.default_rng(windows)
    counts = rng.integers(0, 2**31, (50, windows))
    padded = np.concatenate([counts, np.zeros((50, windows % 2), int)], axis=1)
    sums = {f"keylane_w{n}": padded[:, 2 * n] + (padded[:, 2 * n + 1] << 32) for n in range(padded.shape[1] // 2)}
    assert unpacked(pa.table(sums), windows, packing=2).tolist() == counts.tolist()


def test_a_count_beyond_a_counter_is_refused_and_not_cut() -> None:
    assert unpacked(pa.table({"keylane_w0": [2**31 - 1]}), 1, packing=1).tolist() == [[2**31 - 1]]
    with pytest.raises(CountError, match="--windows"):
        unpacked(pa.table({"keylane_w0": [2**31]}), 1, packing=1)


def test_keys_are_heaviest_first_in_an_order_that_follows_from_them_alone() -> None:
    keys = [f"key-{n}" for n in range(400)]
    counts = [[n % 7, n % 3] for n in range(400)]
    one = made(keys, counts)
    mixed = np.random.default_rng(1).permutation(400)
    other = made([keys[n] for n in mixed], [counts[n] for n in mixed])
    assert np.all(np.diff(one.records) <= 0)
    assert one.keys.equals(other.keys)
    assert one.fingerprint == other.fingerprint


def test_keys_of_one_hash_are_in_the_order_of_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from keylane.profile import build

    monkeypatch.setattr(build, "hash_batch", lambda _, keys: np.zeros(len(keys), np.int32))
    keys = pa.array([b"d", b"b", b"c", b"a", b"e"])
    assert heaviest_first(np.array([1, 1, 9, 1, 2]), keys).tolist() == [2, 4, 3, 1, 0]
    assert heaviest_first(np.array([1, 1, 2**40, 1, 2]), keys).tolist() == [2, 4, 3, 1, 0]


def test_what_has_no_key_is_set_apart() -> None:
    rows = rows_of({"k": ["a", None, ""], "keylane_malformed": [0, 2, 0]}, [[3, 1], [4, 1], [0, 2]])
    found = profile_of(rows, ProfileMetadata("s", Key(fields=("k",)), position_windows(11, 2), packing=1))
    assert found.without_key == WithoutKey(null=3, empty=2, malformed=2)
    assert (found.keys.to_pylist(), found.total) == ([{"k": "a"}], 11)


def test_keys_that_do_not_fit_their_encoding_are_malformed() -> None:
    rows = rows_of({"k": [7, 2**40, None]}, [[3], [4], [5]])
    found = profile_of(
        rows, ProfileMetadata("s", Key(fields=("k",), encoding="int32be"), position_windows(12, 1), packing=1)
    )
    assert found.without_key == WithoutKey(null=5, malformed=4)
    assert found.records.tolist() == [3]


def test_a_null_in_any_field_makes_the_key_null() -> None:
    rows = rows_of({"a": ["x", "x", None], "b": [1, None, 1]}, [[1], [2], [4]])
    found = profile_of(rows, ProfileMetadata("s", Key(fields=("a", "b")), position_windows(7, 1), packing=1))
    assert (found.keys.to_pylist(), found.without_key.null) == ([{"a": "x", "b": 1}], 6)


def test_lanes_are_added_up_and_a_key_in_two_of_them_is_one(contract: Callable[..., Contract]) -> None:
    keys = ["a", "b", "c"]
    agreed = contract(lanes=4)
    home = [Router(agreed).place({"k": key}).lane or 0 for key in keys]
    away = (home[0] + 1) % 4
    rows = rows_of({"k": [*keys, "a"], "keylane_lane": [*home, away]}, [[2, 0], [3, 1], [0, 5], [1, 1]])
    head = ProfileMetadata("s", Key(fields=("k",)), position_windows(13, 2), packing=1)
    merged, lanes = observed_lanes(rows, head, 4, agreed)
    assert lanes.misplaced == 2
    assert lanes.by_window.sum() == 13
    assert lanes.by_window[away].sum() >= 2
    found = profile_of(merged, head)
    assert dict(zip(found.keys["k"].to_pylist(), found.by_window.tolist(), strict=True)) == {
        "a": [3, 1],
        "b": [3, 1],
        "c": [0, 5],
    }
    right = rows_of({"k": keys, "keylane_lane": home}, [[2, 0], [3, 1], [0, 5]])
    assert observed_lanes(right, head, 4, agreed)[1].misplaced == 0
    windowed = contract(lanes=4, key={"fields": ["k"], "window": {"field": "t", "size": "1h"}})
    assert observed_lanes(right, head, 4, windowed)[1].misplaced is None


@pytest.mark.parametrize(
    "change",
    [
        {"source": "other/"},
        {"bytes_total": 1},
        {"without_key": WithoutKey(null=1)},
        {"facts": (("time", "at"),)},
        {"windows": time_windows(0, 5, 2)},
        {"lanes": ObservedLanes(np.zeros((1, 2), np.int64))},
        {"size": np.array([1, 2])},
        {"by_window": np.array([[4, 0], [1, 1]], np.int32)},
        {"keys": pa.table({"k": ["a", "c"]})},
        {"key": Key(fields=("k",), encoding="raw")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_changed_changes_the_fingerprint(change: dict[str, Any]) -> None:
    one = made(["a", "b"], [[3, 1], [1, 1]])
    if "key" in change:
        change = {**change, "keys": pa.table({"k": [b"a", b"b"]})}
    assert fingerprint_of(replace(one, **change)) != one.fingerprint == fingerprint_of(one)


def test_counts_of_other_keys_are_refused() -> None:
    one = made(["a", "b"], [[3, 1], [1, 1]])
    with pytest.raises(DataError, match="do not match the keys"):
        replace(one, keys=one.keys.slice(0, 1))
