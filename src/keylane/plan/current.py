"""The current contract on the keys of a profile: the lanes of each key now, in the same form as a strategy's moves.

So that today is a candidate like any other, and a change can be counted key by key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.batch_router import decide
from keylane.contract.lane_table import finest_leaf
from keylane.contract.shards import SPACE
from keylane.errors import UsageError
from keylane.keys.arrow_bytes import as_binary
from keylane.keys.cells import region_of
from keylane.keys.read import without_field
from keylane.placement.cell_lanes import cell_lanes
from keylane.placement.spread import lane_set
from keylane.plan.cost import MovedShares
from keylane.plan.hashed_keys import fields_of_place, scale_of
from keylane.plan.strategies import Fitted
from keylane.router import Router

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.contract.model import Contract, Key
    from keylane.placement.cell_lanes import CellLanes
    from keylane.placement.overrides import HotRule
    from keylane.plan.candidates import Candidate
    from keylane.plan.hashed_keys import Moves, Places, ProfiledStream
    from keylane.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Today:
    """A contract at its lane count; `home` is the lane of each key, -1 where it has several, none, or one of a tier."""

    contract: Contract
    lanes: int
    home: NDArray[np.int32]
    fitted: Fitted
    #: Keys that the contract names and the profile does not know.
    unseen: int = 0
    #: The part of the key space of each lane, where these are not equal.
    widths: tuple[float, ...] | None = None
    #: The lanes of cells, where the contract has them by location.
    by_place: CellLanes | None = None
    _same: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict, repr=False)

    def under(self, stream: ProfiledStream, name: str, lanes: int) -> tuple[float, float]:
        """How many keys, and how many records, a plain hash leaves where they are; counted once for each."""
        if (name, lanes) not in self._same:
            same = stream.hashed(name, lanes).home == self.home
            self._same[name, lanes] = float(same.sum()), float(stream.records[same].sum())
        return self._same[name, lanes]


def today_of(stream: ProfiledStream, contract: Contract, lanes: int) -> Today:
    """Where today's contract has every key of the profile; under `lanes: live`, by the ranges that the source had.

    A contract with a window, or of a client that ignores keys, leaves no key on one lane: all are -1. One of another
    key does not cover these, and is refused.
    """
    _check_key(stream.profile, contract.spec.key)
    _check_scale(stream.profile, contract)
    if contract.spec.geo is not None and stream.places is not None:
        return _by_place(stream.places, contract, lanes)
    live = stream.ranges(lanes) if contract.spec.lanes == "live" else None
    router = Router(contract, lanes=lanes, key_space=live)
    keys = stream.profile.keys.num_rows
    if router.partitioner.hash is None or contract.spec.key.window is not None:
        return Today(contract, lanes, np.full(keys, -1, np.int32), Fitted())
    over = router.key_space if router.facts.fold == "ranges" else lanes
    hashed = stream.hashed(contract.spec.partitioner, over)
    if router.cells is not None:
        return _cells_among_others(stream, router, hashed.home)
    widths = _widths(router)
    if not router.overrides.any:
        return Today(contract, lanes, hashed.home, Fitted(), widths=widths)
    moves, tier_lanes = _overridden(stream, router, hashed.home)
    home = hashed.home.copy()
    for rank, to in moves.items():
        home[rank] = to[0] if len(to) == 1 and to[0] < lanes else -1
    return Today(contract, lanes, home, Fitted(moves, tier_lanes), _unseen(stream, router), widths)


def _widths(router: Router) -> tuple[float, ...] | None:
    space = router.key_space
    if router.facts.fold != "ranges" or space.is_equal:
        return None
    return tuple((end - start + 1) / SPACE for start, end in map(space.range_of, range(len(space))))


def _by_place(places: Places, contract: Contract, lanes: int) -> Today:
    """Lanes by location: a cell of the profile must be as fine as what the contract distinguishes."""
    geo = contract.spec.geo
    assert geo is not None
    finest = max(geo.resolution, finest_leaf(geo.leaves))
    if finest > places.resolution:
        got, allowed = f"cells of resolution {places.resolution}", f"resolution {finest} or finer"
        raise UsageError.of("the profile's cells are coarser than the contract's", got=got, allowed=allowed)
    rule = cell_lanes(contract, lanes)
    return Today(contract, lanes, places.lanes_of_keys(rule), Fitted(), by_place=rule)


def _cells_among_others(stream: ProfiledStream, router: Router, hashed: NDArray[np.int32]) -> Today:
    """Keys of bytes of which some are cells: those have their lane by location, as if each were named."""
    placed = router.lanes(stream.profile.keys).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    other = np.flatnonzero(placed != hashed).tolist()
    moves: Moves = {rank: (int(placed[rank]),) if placed[rank] >= 0 else () for rank in other}
    return Today(router.contract, router.lane_count, placed, Fitted(moves))


def _check_key(profile: Profile, named: Key) -> None:
    """The bytes that were counted are those that the contract places; windows and null keys are another matter."""
    counted = profile.key
    if named.is_place and fields_of_place(profile) == named.fields:
        return
    got, wants = (
        f"{', '.join(f'{name} ({how})' for name, how in zip(key.fields, key.encodings, strict=True))}"
        for key in (named, counted)
    )
    same = (counted.joined_by, counted.registry_header) == (named.joined_by, named.registry_header)
    if got != wants or not (same or len(counted.fields) == 1):
        hint = "profile the source with --contract, which takes the key from it"
        raise UsageError.of("the contract's key is not the profile's", got=got, allowed=wants, hint=hint)


def _check_scale(profile: Profile, contract: Contract) -> None:
    """Locations were counted in the unit that the contract reads them in."""
    own, counted = region_of(contract.spec.geo).scale, scale_of(profile)
    if contract.spec.key.is_place and own != counted:
        hint = "profile the source with --contract, which takes the scale from it"
        what = "the contract's scale is not the profile's"
        raise UsageError.of(what, got=f"{own:g}", allowed=f"{counted:g}", hint=hint)


def moved_from(today: Today, stream: ProfiledStream, candidate: Candidate) -> MovedShares:
    """What would move if the candidate replaced today's."""
    if candidate.strategy == "today":
        return MovedShares(0.0, 0.0)
    keys, total = max(1, len(stream.records)), max(1, stream.total)
    if candidate.strategy in ("window", "keyless"):
        single = today.home >= 0
        return MovedShares(
            *(1 - part / candidate.lanes for part in (single.mean(), stream.records[single].sum() / total))
        )
    home = candidate.home(stream)
    same, traffic = _staying_hashed(today, stream, candidate, home)
    hashed = {rank: (int(home[rank]),) for rank in today.fitted.moves}
    for rank, lanes in {**hashed, **candidate.fitted.moves}.items():
        more = _staying(today, rank, lanes, candidate.lanes) - float(home[rank] == today.home[rank])
        same, traffic = same + more, traffic + more * float(stream.records[rank])
    return MovedShares(1 - same / keys, 1 - traffic / total)


def _staying_hashed(
    today: Today, stream: ProfiledStream, candidate: Candidate, home: NDArray[np.int32]
) -> tuple[float, float]:
    """How many keys and records stay that nothing moves but the hash or the table."""
    if candidate.by_place is None:
        return today.under(stream, candidate.partitioner, candidate.lanes)
    same = home == today.home
    return float(same.sum()), float(stream.records[same].sum())


def _staying(today: Today, rank: int, lanes: tuple[int, ...], count: int) -> float:
    """The part of a key's records that stays where it is. A lane of the stream is never one of a tier."""
    had = today.fitted.moves.get(rank, (int(today.home[rank]),))
    before, after = (
        {(lane >= n, lane - n * (lane >= n)) for lane in of} for of, n in ((had, today.lanes), (lanes, count))
    )
    return len(before & after) / max(len(had), len(lanes))


def _overridden(stream: ProfiledStream, router: Router, home: NDArray[np.int32]) -> tuple[Moves, int]:
    """What hot keys and the table do with the keys of the profile; tiers' lanes are numbered on from the stream's."""
    after, moves = router.lane_count, dict[int, tuple[int, ...]]()
    first: dict[str, int] = {}
    for stream_name, lanes in router.contract.tiers.items():
        first[stream_name], after = after, after + lanes
    for rank, rule in _named(stream, router):
        moves[rank] = _lanes(rule, int(home[rank]), router, first, stream, rank)
    if router.overrides.table is not None:
        moves = {**_tabled(stream, router, home), **moves}
    return moves, after - router.lane_count


def _unseen(stream: ProfiledStream, router: Router) -> int:
    table = router.overrides.table
    named = [*router.overrides.hot, *(table.values if table else ())]
    known = as_binary(stream.base_keys).cast(pa.binary())
    return int(pc.sum(pc.invert(pc.is_in(pa.array(named, pa.binary()), value_set=known))).as_py() or 0)


def _named(stream: ProfiledStream, router: Router) -> list[tuple[int, HotRule]]:
    """Hot keys that the profile knows, by rank."""
    hot = router.overrides.hot
    found = pc.index_in(pa.array(list(hot), pa.binary()), value_set=as_binary(stream.base_keys).cast(pa.binary()))
    pairs = zip(found.to_pylist(), hot.values(), strict=True)
    return [(rank, rule) for rank, rule in pairs if rank is not None]


def _lanes(
    rule: HotRule, home: int, router: Router, first: dict[str, int], stream: ProfiledStream, rank: int
) -> tuple[int, ...]:
    if rule.pin is not None:
        return (rule.pin,)
    base, count = (first[rule.stream], rule.lanes or 1) if rule.stream else (0, router.lane_count)
    if rule.stream:
        name = router.contract.spec.partitioner
        home = int(stream.hashed(name, router.lane_count).fold(np.array([rank]), count)[0])
    among = lane_set(rule.spread, home, count) if rule.spread else (home,)
    return tuple(base + lane for lane in among)


def _tabled(stream: ProfiledStream, router: Router, home: NDArray[np.int32]) -> Moves:
    """Keys that the table puts elsewhere than their hash does: on all of their lanes, or, rejected, on none."""
    table = router.overrides.table
    assert table is not None
    keys, by = stream.profile.keys, router.overrides.table_by
    decided = decide(router, without_field(keys, by) if by else keys, np.zeros(len(home), np.int64))
    one = np.flatnonzero((decided.reason < 0) & (decided.stream == 0) & (decided.lane != home))
    moves: Moves = {int(rank): (int(decided.lane[rank]),) for rank in one}
    for rank in np.flatnonzero(decided.reason >= 0):
        moves[int(rank)] = table.lanes_of(stream.base_keys[int(rank)].as_py()) or ()
    return moves
