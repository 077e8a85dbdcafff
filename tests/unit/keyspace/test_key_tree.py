"""The next balanced key: equal to the tree, around foreign keys and deletions, until the space is full."""

from __future__ import annotations

import random

import pytest

from keylane.errors import UsageError
from keylane.keyspace.key_tree import FullError, KeyTree, handed_out_anew, level_of, next_free, nodes_above, walk
from keylane.keyspace.sequences import SEQUENCES, Sequence, nth_key


def test_without_anything_else_it_is_the_tree() -> None:
    tree = KeyTree()
    assert [tree.take() for _ in range(3_000)] == [nth_key("tree", n) for n in range(1, 3_001)]


def test_halves_and_quarters_never_differ_by_more_than_one() -> None:
    tree, counts = KeyTree(), {1: [0] * 2, 2: [0] * 4, 5: [0] * 32}
    for _ in range(500):
        key = tree.take()
        for level, parts in counts.items():
            parts[key >> (128 - level)] += 1
            assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("bits", [1, 2, 3, 6])
def test_every_key_is_handed_out_once_and_then_the_space_is_full(bits: int) -> None:
    tree = KeyTree(bits=bits)
    assert sorted(tree.take() for _ in range(2**bits)) == list(range(2**bits))
    with pytest.raises(FullError) as caught:
        tree.take()
    assert caught.value.exit_code == 2
    tree.remove(2**bits - 1)
    assert tree.take() == 2**bits - 1


def test_foreign_keys_are_gone_around() -> None:
    tree = KeyTree({1: 1, 2: 1, 3: 1}, bits=3)
    assert [tree.take() for _ in range(5)] == [4, 6, 5, 7, 0]


def test_a_freed_key_is_handed_out_again_where_it_is_the_lightest() -> None:
    tree = KeyTree()
    keys = [tree.take() for _ in range(7)]
    tree.remove(keys[2])
    assert tree.take() == keys[2]


def test_foreign_keys_deep_in_one_corner_take_at_most_128_steps() -> None:
    tree = KeyTree(dict.fromkeys(range(1, 200), 1))
    for _ in range(300):
        key, steps = walk(tree)
        assert len(steps) <= 128
        assert tree.take() == key
    crowded = KeyTree({0: 1, **{2**n: 1 for n in range(128)}})
    key, steps = walk(crowded)
    assert (key, len(steps)) == (3 * 2**126, 1)


def test_a_heavy_account_leaves_its_half_alone() -> None:
    tree = KeyTree()
    assert tree.take(100) == 2**127
    assert all(tree.take() < 2**127 for _ in range(99))


def test_heaviest_first_fills_shards_as_evenly_as_the_heaviest_account_allows() -> None:
    weights = [int(1e9 / n**0.8) for n in range(1, 10_001)]
    given = handed_out_anew((f"a{n}", 0, weight) for n, weight in enumerate(weights))
    shards = [0] * 32
    for n, weight in enumerate(weights):
        shards[given[f"a{n}"] >> 123] += weight
    mean = sum(shards) / 32
    assert max(shards) / mean == pytest.approx(weights[0] / mean)
    assert max(shards) / mean < 1.20


def test_handing_out_anew_keeps_keys_that_are_among_the_new_ones() -> None:
    keys = [nth_key("tree", n) for n in range(1, 9)]
    rng = random.Random(5)
    rng.shuffle(keys)
    same = [(f"a{n}", key, 1) for n, key in enumerate(keys)]
    assert handed_out_anew(same) == {account: key for account, key, _ in same}
    assert handed_out_anew([*same[:-1], ("last", 12_345, 1)])["last"] == keys[-1]


@pytest.mark.parametrize("sequence", SEQUENCES[1:])
def test_other_sequences_pass_over_keys_in_use(sequence: Sequence) -> None:
    tree = KeyTree({nth_key(sequence, 1): 1, nth_key(sequence, 3): 1})
    assert next_free(sequence, tree) == (nth_key(sequence, 2), 2)
    assert next_free(sequence, tree, 3) == (nth_key(sequence, 4), 4)


def test_a_sequence_without_a_free_key_is_full() -> None:
    with pytest.raises(FullError):
        next_free("halves", KeyTree(dict.fromkeys(range(1, 4), 1), bits=2), bits=2)


def test_a_key_cannot_be_added_twice_or_removed_unused_or_be_outside() -> None:
    tree = KeyTree()
    tree.add(5)
    for key in (5, 2**128, -1):
        with pytest.raises(UsageError):
            tree.add(key)
    with pytest.raises(UsageError):
        tree.remove(6)
    assert len(tree) == 1


def test_levels_and_the_nodes_above_a_key() -> None:
    assert [level_of(key) for key in (2**127, 2**126, 1, 0)] == [1, 2, 128, 129]
    assert nodes_above(2**127) == [1]
    assert nodes_above(2**125) == [1, 2, 4]
    assert nodes_above(2**128 - 1) == [2**n - 1 for n in range(1, 25)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 100, 1_000])
def test_keys_handed_out_in_a_row_count_as_any_others(count: int) -> None:
    """The closed form keeps no nodes; what comes after it must not notice."""
    rng = random.Random(count)
    row, one_by_one = KeyTree(), KeyTree({nth_key("tree", n): 1 for n in range(1, count + 1)})
    for _ in range(count):
        row.take()
    known = [nth_key("tree", n) for n in range(1, count + 1)]
    assert (len(row), [row.weight_of(key) for key in [*known, 7]]) == (count, [1] * count + [0])
    for _ in range(200):
        choice, weight, foreign = rng.random(), rng.randint(1, 9), rng.getrandbits(128)
        if choice < 0.3 and known:
            gone = known.pop(rng.randrange(len(known)))
            row.remove(gone)
            one_by_one.remove(gone)
        elif choice < 0.6:
            row.add(foreign, weight)
            one_by_one.add(foreign, weight)
            known.append(foreign)
        else:
            taken = row.take(weight)
            assert taken == one_by_one.take(weight)
            known.append(taken)
    assert [row.node(n) for n in range(1, 64)] == [one_by_one.node(n) for n in range(1, 64)]


def test_nodes_that_were_not_built_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyTree, "_build", lambda tree: setattr(tree, "_plain", 0))
    tree = KeyTree()
    first = [tree.take() for _ in range(5)]
    tree.add(5)
    assert tree.take() in first
