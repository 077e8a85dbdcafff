"""The tree of keys against a model that adds up every key at every step, under any order of additions and removals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from keylane.keyspace import key_tree
from keylane.keyspace.key_tree import FullError, KeyTree, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

#: Take one with this weight; add this foreign key; remove the n-th of those in use.
Act = tuple[str, int, int]


def model_next(used: dict[int, int], bits: int) -> int | None:
    """The rule, word by word: no sums are kept, no level is special. None when the space is full."""
    low, size = 0, 1 << bits
    while size > 1:
        size //= 2
        middle = low + size
        if middle not in used:
            return middle
        left = {key: weight for key, weight in used.items() if low <= key < middle}
        right = {key: weight for key, weight in used.items() if middle <= key < middle + size}
        lighter = sum(left.values()) < sum(right.values()) or (sum(left.values()) == sum(right.values()) and low > 0)
        to_left = (lighter and len(left) < size) or len(right) == size
        low = low if to_left else middle
    return None if low in used else low


def acts(bits: int) -> st.SearchStrategy[list[Act]]:
    near_edges = [n for n in (0, 1, 2, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2**bits - 1) if n < 2**bits]
    foreign = st.sampled_from(near_edges) | st.integers(0, 2**bits - 1)
    act = st.one_of(
        st.tuples(st.just("take"), st.just(0), st.sampled_from([1, 1, 1, 2, 7, 1000])),
        st.tuples(st.just("add"), foreign, st.integers(1, 5)),
        st.tuples(st.just("remove"), st.integers(0, 1000), st.just(0)),
    )
    return st.lists(act, max_size=60)


def disagreement(done: Iterable[Act], bits: int) -> str | None:
    """Run them on the tree and on the model; where they part."""
    tree, used = KeyTree(bits=bits), dict[int, int]()
    for kind, number, weight in done:
        if kind == "take":
            expected = model_next(used, bits)
            try:
                walked, steps = walk(tree, bits)
                got: int | None = tree.take(weight)
            except FullError:
                walked, steps, got = -1, [], None
            if got != expected or (got is not None and walked != got) or len(steps) > bits:
                return f"{got} by {walked}, expected {expected} beside {used}"
            if got is not None:
                used[got] = weight
        elif kind == "add" and number not in used:
            tree.add(number, weight)
            used[number] = weight
        elif kind == "remove" and used:
            key = sorted(used)[number % len(used)]
            tree.remove(key)
            del used[key]
    return None


@given(acts(128))
def test_the_tree_is_the_model_over_the_whole_space(done: list[Act]) -> None:
    assert disagreement(done, 128) is None


@given(acts(4))
def test_the_tree_is_the_model_in_a_space_that_fills_up(done: list[Act]) -> None:
    assert disagreement(done, 4) is None


def test_a_tree_that_forgets_a_removal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = key_tree.nodes_above
    removed = [("take", 0, 1)] * 3 + [("remove", 0, 0), ("take", 0, 1), ("take", 0, 1)]
    assert disagreement(removed, 128) is None
    # Sums of the top alone: what the halves weigh is never known.
    monkeypatch.setattr(key_tree, "nodes_above", lambda key, bits=128: plain(key, bits)[-1:])
    assert disagreement([("add", 2**126, 5), ("add", 2**125, 5), *removed, *removed], 128) is not None
