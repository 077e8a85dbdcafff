"""Ids become numbers that sort as the ids do, and rows are told apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keylane.matching.tables import differs, ranks, sorted_rows


def test_ranks_sort_as_utf8_bytes_do() -> None:
    ids = ["b", "a", "", "Zoë", "é", "b", "\U0001f600", "\uffff"]
    (placed,) = ranks(pa.chunked_array([ids[:3], ids[3:]]))
    by_rank = [ids[row] for row in np.argsort(placed, kind="stable")]
    assert by_rank == sorted(ids, key=str.encode)
    assert placed[0] == placed[5]


def test_ranks_of_nothing_are_none() -> None:
    none = pa.chunked_array([], pa.string())
    assert [len(one) for one in ranks(none, none)] == [0, 0]


def test_the_first_key_counts_most() -> None:
    assert sorted_rows(np.array([2, 1, 1]), np.array([0, 9, 3])).tolist() == [2, 1, 0]


def test_groups_begin_where_any_key_changes() -> None:
    assert differs(np.array([1, 1, 1]), np.array([5, 5, 6])).tolist() == [True, False, True]
    assert differs(np.zeros(0)).tolist() == []
