"""Contracts that are in use at the same time: while drivers move from an old lane table to a new one.

A match that is started with another contract places pings by it from then on. Drivers that have not pinged since are
still where the old one put them, so requests are fanned out by both. The old contract is let go once no ping that it
has placed can be seen by a request that may still come: every driver has pinged again since, or has expired.

The lane count has to stay: a lane is a file of the state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from keylane.contract.parse import parse_contract
from keylane.placement.cell_lanes import CellLanes, cell_lanes
from keylane.systems.match_state import BEGINNING, Epoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from keylane.contract.model import Contract
    from keylane.systems.match_state import Happened

__all__ = ["Epochs", "InUse", "after_batch"]


@dataclass(frozen=True, slots=True)
class InUse:
    """A contract in use, and its lanes."""

    epoch: Epoch
    lanes: CellLanes


@dataclass(slots=True)
class Epochs:
    """The contract of this run, and those of earlier ones."""

    contract: Contract
    count: int
    known: dict[str, CellLanes] = field(default_factory=dict)

    def of(self, last: Happened) -> list[InUse]:
        """What is in use in the batch after this one, oldest first; the last one places pings."""
        now = self.contract
        kept = [one for one in last.epochs if one.fingerprint != now.fingerprint]
        newest = next((one.newest for one in last.epochs if one.fingerprint == now.fingerprint), BEGINNING)
        text = json.dumps(now.model_dump(mode="json", by_alias=True, exclude_none=True))
        current = Epoch(now.metadata.name, now.metadata.epoch, now.fingerprint, text, newest)
        return [InUse(one, self._lanes(one)) for one in (*kept, current)]

    def _lanes(self, epoch: Epoch) -> CellLanes:
        if epoch.fingerprint not in self.known:
            own = epoch.fingerprint == self.contract.fingerprint
            found = self.contract if own else parse_contract(epoch.text, epoch.name)
            self.known[epoch.fingerprint] = cell_lanes(found, self.count)
        return self.known[epoch.fingerprint]


def after_batch(used: list[InUse], newest: Mapping[str, int], oldest: int | None) -> tuple[Epoch, ...]:
    """What stays in use after a batch.

    `newest` has the times of its newest pings, `oldest` that of the oldest ping, of all drivers, that still counts.
    """
    *old, current = (one.epoch for one in used)
    last = replace(current, newest=max([current.newest, *newest.values()]))
    needed = [one for one in old if oldest is not None and oldest <= one.newest]
    return (*needed, last)
