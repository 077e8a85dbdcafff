"""The next balanced hash key beside those that are in use: at most 128 steps, with weights, deletions and foreign keys.

Rule: begin at the middle of the space. A middle that is free is taken. Otherwise go to the half that weighs less, a key
on the border belonging to the half that it begins, and do the same there. When both weigh the same: left, but right
where the range begins at 0, which is no middle. A half without a free key is passed over. Without deletions, foreign
keys and weights this is the sequence `tree`.

Worked example, 3 bits (0 to 7), keys 1, 2 and 3 are somebody else's: 4 is free and taken. Then the left half weighs 3
and the right one 1: 6. Then 5 and 7: the right half is full, so 0 is last. After all eight the space is full, which is
an error and never a key twice.

Nodes are numbered as in a heap: 1 is the middle of the space, 2 and 3 are the middles of its halves. Weights of whole
subtrees are kept for the upper `DEPTH` levels; what lies below is in short sorted lists. So a foreign key costs `DEPTH`
steps, and not the 120 nodes that a tree of single keys would make for it. While keys of one weight are handed out and
nothing else is in use, the next one is the sequence's closed form, and no node is kept at all: a millionth key costs
what the first did. The first foreign key, weight or removal builds the nodes. `Weights` is the same for a store outside
this process.

A new account moves no other. When not to use it: with weights that arrive in any order the result is as good as that
order; heaviest first is best (`handed_out_anew`), and cutting shards where the load is (`layout`) moves no account.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from keylane.errors import UsageError
from keylane.keyspace.sequences import nth_key, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from keylane.keyspace.sequences import Sequence

#: Levels with kept sums. Below a node of the lowest are 2**104 keys, which nobody fills.
DEPTH: Final = 24
#: Free keys that must be below a kept node for it to count as never full.
_NEVER_FULL_BITS: Final = 64


class FullError(UsageError):
    """A key space without a free key."""


@dataclass(frozen=True, slots=True)
class Step:
    """A middle that was in use: what the halves before and from it weigh, and which way was taken."""

    middle: int
    left: int
    right: int
    went: Literal["left", "right"]


class Weights(Protocol):
    """What the walk has to know of the keys in use."""

    def weight_of(self, key: int) -> int:
        """The weight of a key, which is 1 or more; 0 when it is not in use."""
        ...

    def node(self, number: int) -> int:
        """The weight of all keys at and below a node of the upper levels, by its number."""
        ...

    def between(self, low: int, high: int) -> tuple[int, int]:
        """Weight and number of the keys from `low` up to, not including, `high`: keys below the upper levels only."""
        ...


def walk(weights: Weights, bits: int = 128) -> tuple[int, list[Step]]:
    """The next balanced key, and the steps to it; FullError when every key is in use."""
    upper = upper_levels(bits)
    steps: list[Step] = []
    low, size, at_low = 0, 1 << bits, 0
    while size > 1:
        middle, size = low + (size >> 1), size >> 1
        own = weights.weight_of(middle)
        if not own:
            return middle, steps
        level = len(steps) + 1
        if level < upper:
            node = node_number(middle, level, bits)
            left = weights.node(2 * node)
            right = weights.node(node) - left
            room_left = room_right = True
        else:
            # `low` is the middle of a level above, and in use; 0 alone is no middle.
            left, lefts = weights.between(low + (low > 0), middle)
            right, rights = weights.between(middle + 1, middle + size)
            right += own
            room_left, room_right = lefts < size - (low > 0), rights < size - 1
        left += at_low
        lighter = left < right or (left == right and low > 0)
        to_left = (lighter and room_left) or not room_right
        steps.append(Step(middle, left, right, "left" if to_left else "right"))
        low, at_low = (low, at_low) if to_left else (middle, own)
    if low > 0 or weights.weight_of(low):
        raise FullError.of("the key space is full", got=f"{1 << bits} keys in use", hint="remove an account first")
    return low, steps


def upper_levels(bits: int) -> int:
    """How many levels have kept sums: none of a space so small that a half of it could be full."""
    return DEPTH if bits - DEPTH >= _NEVER_FULL_BITS else 0


def node_number(middle: int, level: int, bits: int = 128) -> int:
    """The number of the node at a level, 1 for the top, whose middle this is.

    >>> node_number(3 * 2**126, 2), node_number(2**125, 3)
    (3, 4)
    """
    return (1 << (level - 1)) + (middle >> (bits - level + 1))


def nodes_above(key: int, bits: int = 128) -> list[int]:
    """The numbers of the nodes that a key counts for, from the top to its own or the lowest that is kept.

    >>> nodes_above(3 * 2**124)
    [1, 2, 4, 9]
    """
    level = min(upper_levels(bits), level_of(key, bits))
    if not level:
        return []
    lowest = node_number(key, level, bits)
    return [lowest >> up for up in range(level - 1, -1, -1)]


def level_of(key: int, bits: int = 128) -> int:
    """The level of the node whose middle a key is, 1 for the top; 0, which is no middle, is below all.

    >>> level_of(2**127), level_of(3 * 2**126), level_of(1), level_of(0)
    (1, 2, 128, 129)
    """
    return bits - (key & -key).bit_length() + 1 if key else bits + 1


class KeyTree:
    """Keys in use in memory, each with its weight, and the next balanced one. Weights are whole numbers from 1 on.

    >>> tree = KeyTree()
    >>> [tree.take() >> 125 for _ in range(7)]
    [4, 2, 6, 1, 5, 3, 7]
    """

    def __init__(self, used: Mapping[int, int] | None = None, bits: int = 128) -> None:
        self.bits = bits
        self._upper = upper_levels(bits)
        self._used: dict[int, int] = {}
        #: By the number of a node: the weight at and below it, and that of its own key.
        self._sums: dict[int, int] = {}
        self._own: dict[int, int] = {}
        #: Keys below the upper levels, by the lowest node above them.
        self._deep: dict[int, list[int]] = {}
        #: While this is above 0, just the first keys of the sequence are in use, each with the weight 1.
        self._plain = 0
        for key, weight in (used or {}).items():
            self.add(key, weight)

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._used) + self._plain

    def weight_of(self, key: int) -> int:
        """The weight of a key; 0 when it is not in use."""
        if self._plain:
            number = number_of("tree", key, self.bits)
            return int(number is not None and number <= self._plain)
        return self._used.get(key, 0)

    def node(self, number: int) -> int:
        """The weight at and below a node of the upper levels."""
        self._build()
        return self._sums.get(number, 0)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """Weight and number of the keys from `low` up to `high`, all below one node of the lowest kept level."""
        self._build()
        keys = self._deep.get(self._bucket(low), [])
        found = keys[bisect_left(keys, low) : bisect_left(keys, high)]
        return sum(self._used[key] for key in found), len(found)

    def add(self, key: int, weight: int = 1) -> None:
        """Put a key in use, also one that was not handed out here."""
        if not 0 <= key < 1 << self.bits:
            raise UsageError.of("a hash key beyond the key space", got=key, allowed=f"0 to 2**{self.bits} - 1")
        self._build()
        if key in self._used:
            raise UsageError.of("the hash key is in use", got=key)
        self._used[key] = weight
        nodes = nodes_above(key, self.bits)
        for node in nodes:
            self._sums[node] = self._sums.get(node, 0) + weight
        if level_of(key, self.bits) <= self._upper:
            self._own[nodes[-1]] = weight
        else:
            insort(self._deep.setdefault(self._bucket(key), []), key)

    def remove(self, key: int) -> None:
        """Free a key: it may be handed out again."""
        self._build()
        if key not in self._used:
            raise UsageError.of("the hash key is not in use", got=key)
        weight = self._used.pop(key)
        nodes = nodes_above(key, self.bits)
        for node in nodes:
            self._sums[node] -= weight
        if level_of(key, self.bits) <= self._upper:
            del self._own[nodes[-1]]
        else:
            keys = self._deep[self._bucket(key)]
            del keys[bisect_left(keys, key)]

    def take(self, weight: int = 1) -> int:
        """Hand out the next balanced key."""
        if weight == 1 and not self._used and self._plain < (1 << self._upper) // 2 - 1:
            self._plain += 1
            return nth_key("tree", self._plain, self.bits)
        self._build()
        # The upper levels of `walk`, written out: this is the loop that has to hand out a million keys.
        own, sums, node, level, at_low = self._own, self._sums, 1, 1, 0
        while level < self._upper and node in own:
            left = sums.get(2 * node, 0)
            right = sums[node] - left
            left += at_low
            if left < right or (left == right and at_low):
                node *= 2
            else:
                at_low = own[node]
                node = 2 * node + 1
            level += 1
        if level >= self._upper:
            key, _ = walk(self, self.bits)
            self.add(key, weight)
            return key
        key = (2 * node + 1 - (1 << level)) << (self.bits - level)
        own[node] = weight
        self._used[key] = weight
        while node:
            sums[node] = sums.get(node, 0) + weight
            node >>= 1
        return key

    def _build(self) -> None:
        """The nodes of the keys that were handed out without any."""
        last, self._plain = self._plain, 0
        for number in range(1, last + 1):
            key = nth_key("tree", number, self.bits)
            self._used[key] = self._own[node_number(key, number.bit_length(), self.bits)] = 1
        for node in sorted(self._own, reverse=True) if last else ():
            self._sums[node] = 1 + self._sums.get(2 * node, 0) + self._sums.get(2 * node + 1, 0)

    def _bucket(self, key: int) -> int:
        return key >> (self.bits - self._upper + 1) if self._upper else 0


def next_free(sequence: Sequence, weights: Weights, begin: int = 1, bits: int = 128) -> tuple[int, int]:
    """The first key of a sequence from number `begin` on that is free, and its number."""
    number = begin
    last = (1 << bits) - (sequence != "golden")
    while number <= last:
        key = nth_key(sequence, number, bits)
        if not weights.weight_of(key):
            return key, number
        number += 1
    raise FullError.of(f"every key of the sequence {sequence} is in use", hint="another --sequence, or remove accounts")


def handed_out_anew(
    accounts: Iterable[tuple[str, int, int]], sequence: Sequence = "tree", bits: int = 128
) -> dict[str, int]:
    """New keys for (account, key, weight) as if all came today, heaviest first, with as few moved as that allows.

    Accounts of one weight may share out the keys of that weight in any way; who has one of them already keeps it.

    >>> handed_out_anew([("a", 8, 1), ("b", 7, 1), ("c", 4, 1)], bits=4)
    {'a': 8, 'c': 4, 'b': 12}
    """
    ordered = sorted(accounts, key=lambda one: -one[2])
    tree = KeyTree(bits=bits)
    by_weight: dict[int, list[tuple[str, int, int]]] = {}
    number = 0
    for account, had, weight in ordered:
        if sequence == "tree":
            key = tree.take(weight)
        else:
            key, number = next_free(sequence, tree, number + 1, bits)
            tree.add(key, weight)
        by_weight.setdefault(weight, []).append((account, had, key))
    given: dict[str, int] = {}
    for same in by_weight.values():
        free = dict.fromkeys(key for _, _, key in same)
        kept = {account: had for account, had, _ in same if had in free}
        for key in kept.values():
            del free[key]
        rest = iter(free)
        given |= kept | {account: next(rest) for account, _, _ in same if account not in kept}
    return given


def cursor_after_removal(sequence: Sequence, begin: int, key: int, bits: int = 128) -> int:
    """From where a sequence has to look for a free key once `key` is free again."""
    number = number_of(sequence, key, bits)
    return begin if number is None else min(begin, number)
