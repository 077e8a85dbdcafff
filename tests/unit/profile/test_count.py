"""Counting in this process: every record once, in its window, whatever the batches; and no more keys than are held."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from keylane.contract.model import Key
from keylane.profile import count
from keylane.profile.build import MALFORMED, SIZE, unpacked
from keylane.profile.count import CountedBatch, KeyCounter, TooManyKeysError, window_numbers
from keylane.profile.model import Windows

WINDOWS = Windows("position", (0, 10, 20, 30))


def counted(rows: list[tuple[str | None, int, int]], batch: int, **more: Any) -> dict[tuple[object, ...], list[int]]:
    counter = replace(KeyCounter(Key(fields=("a", "b")), WINDOWS, [SIZE]), **more)
    for at in range(0, len(rows), batch):
        some = rows[at : at + batch]
        fields = {"a": pa.array([a for a, _, _ in some], pa.string()), "b": pa.array([b for _, b, _ in some])}
        window = np.array([n for _, _, n in some])
        counter.add(CountedBatch(fields, window, size=np.arange(at, at + len(some))))
    table = counter.rows()
    counts = unpacked(table, 3, 1).tolist()
    return {
        (row["a"], row["b"]): [*counts[n], row[SIZE]]
        for n, row in enumerate(table.select(["a", "b", SIZE]).to_pylist())
    }


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("pending", [1, 50, 1 << 19])
def test_batches_and_merges_do_not_change_the_counts(batch: int, pending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "_PENDING", pending)
    monkeypatch.setattr(count, "ROWS", 13)
    random = Random(1)
    rows = [(random.choice([None, "", "x", "y"]), random.randrange(4), random.randrange(3)) for _ in range(400)]
    windows, sizes = Counter(rows), Counter[tuple[str | None, int]]()
    for n, (a, b, _) in enumerate(rows):
        sizes[a, b] += n
    keys = {(a, b) for a, b, _ in rows}
    assert counted(rows, batch) == {(a, b): [*(windows[a, b, w] for w in range(3)), sizes[a, b]] for a, b in keys}


def test_fields_of_more_values_than_numbers_are_still_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "_WIDEST", 4)
    monkeypatch.setattr(count, "_CELLS", 1)
    assert counted([("x", 1, 0), ("y", 2, 1), ("x", 1, 2)], 2) == {("x", 1): [1, 0, 1, 2], ("y", 2): [0, 1, 0, 1]}


def test_more_keys_than_are_held_are_refused() -> None:
    rows: list[tuple[str | None, int, int]] = [(str(n), 0, 0) for n in range(11)]
    assert len(counted(rows, 3, most_keys=11)) == 11
    with pytest.raises(TooManyKeysError, match=r"11 keys .*; allowed: 10 keys.*--engine spark"):
        counted(rows, 3, most_keys=10)
    with pytest.raises(TooManyKeysError):
        counted(rows, 3, most_bytes=10)


def test_a_record_that_cannot_be_read_has_a_null_key_and_is_counted_as_such() -> None:
    counter = KeyCounter(Key(fields=("a",)), WINDOWS, [MALFORMED])
    bad = np.array([False, True])
    counter.add(CountedBatch({"a": pa.array(["x", "x"])}, np.zeros(2, np.int64), malformed=bad))
    table = counter.rows()
    assert dict(zip(table["a"].to_pylist(), table[MALFORMED].to_pylist(), strict=True)) == {"x": 0, None: 1}


def test_windows_of_positions_are_cut_as_their_edges_are() -> None:
    windows = Windows("position", (0, 4, 7, 10))
    edges = np.searchsorted(windows.edges, np.arange(10), side="right") - 1
    assert window_numbers(np.arange(10), windows).tolist() == edges.tolist()
