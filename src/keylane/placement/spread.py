"""One key over several lanes: by sub-key, in order per sub-key; or by position, in no order.

By sub-key is highest-random-weight: every lane of the set gets a score from the sub-key's murmur2 and its own number,
and the highest wins, the lower lane on a tie. Adding a lane to a set of k moves 1/(k + 1) of the sub-keys, all of them
to the new lane; taking one away moves only what was on it. Modulo would move nearly all.

Worked example: `spread: {over: 3, by: order_id}` on a key whose own lane is 62 of 64: its lanes are 62, 63 and 0, and
each order stays on one of the three.

When not to use it: when readers cannot merge one key from several lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keylane.hashing.murmur3 import fmix32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.contract.model import Spread

#: An odd number near 2**32 divided by the golden ratio: neighbouring lanes get far-apart scores.
STEP: Final = 0x9E3779B1


def lane_set(spread: Spread, home: int, lanes: int) -> tuple[int, ...]:
    """The lanes a spread key may use: those listed, or `over` of them counted upwards from the key's own."""
    if spread.lanes is not None:
        return tuple(sorted(spread.lanes))
    return tuple(sorted((home + i) % lanes for i in range(spread.over or 1)))


def by_sub_key(sub_hash: int, among: Sequence[int]) -> int:
    """The lane of a sub-key, given its murmur2; `among` in ascending order."""
    return max(among, key=lambda lane: (fmix32(sub_hash ^ lane * STEP & 0xFFFFFFFF), -lane))


def by_sub_keys(sub_hashes: NDArray[Any], among: NDArray[Any]) -> NDArray[Any]:
    """The same for n sub-keys: `among` is one ascending set for all, or an (n, k) array with one for each."""
    import numpy as np

    from keylane.hashing.murmur3 import fmix32_rows

    sets = among.reshape(1, -1) if among.ndim == 1 else among
    scores = fmix32_rows(sub_hashes.reshape(-1, 1) ^ sets.astype(np.uint32) * np.uint32(STEP))
    best = scores.argmax(axis=1)
    chosen = sets[0][best] if len(sets) == 1 else np.take_along_axis(sets, best.reshape(-1, 1), axis=1)[:, 0]
    return chosen.astype(np.uint32)


def by_position(position: int, among: Sequence[int]) -> int:
    """Round robin over the set by position in the source."""
    return among[position % len(among)]
