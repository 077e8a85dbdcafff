"""Which way to divide the windows of standing queries over how many lanes, and whether it pays to change what runs.

Rule: what runs stays as long as its lanes are even: the fullest has at most `limit` times the average of the matched
events. Otherwise the simpler division that is even is chosen, by query before by query and window; where neither is,
one that is less uneven by a factor of 1.5. Whether partial aggregates are made first is decided on its own, by what
the fullest lane receives with and without them. Example: 15 of 1,000 queries have 90 % of the events; on 64 lanes the
fullest has 4 times the average by query and 1.1 by query and window: an aggregation by query should change, one by
query and window should not.

`aggregate explain` and `plan` both ask here (`pipelines.aggregate.explain`), so they cannot differ. The rule of lanes
and their loads: `lanes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.aggregation.lanes import DIVISIONS, lane_loads, max_over_mean
from keylane.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from keylane.aggregation.lanes import Division, WindowLoad

By: TypeAlias = Literal["query", "query-window"]
#: Lanes are even where the fullest has at most this many times the average; and a switch is worth it by this factor.
UNEVEN: Final = 1.5


@dataclass(frozen=True, slots=True)
class Running:
    """How an aggregation divides its windows."""

    by: By
    partial: bool
    lanes: int


@dataclass(frozen=True, slots=True)
class Divided:
    """The loads of some number of lanes under each division, and what is chosen for them.

    `even` is whether the lanes are within the limit, `says` the choice with its reason.
    """

    lanes: int
    loads: Mapping[Division, list[int]]
    by: By
    partial: bool
    even: bool
    says: str

    def changes(self, running: Running | None) -> bool:
        """Whether this is not what runs; without something that runs, nothing changes."""
        return running is not None and Running(self.by, self.partial, self.lanes) != running

    def takes_anew(self, running: Running | None) -> bool:
        """Whether that takes a new aggregation: division and lane count stay as it began, partial aggregates do not."""
        return running is not None and (self.by, self.lanes) != (running.by, running.lanes)

    @property
    def division(self) -> Division:
        """The chosen one of the three that are compared."""
        return "query" if self.by == "query" else "query-window-partial" if self.partial else "query-window"

    @property
    def uneven(self) -> float:
        """The fullest lane beside the average, in matched events."""
        return max_over_mean(self.loads[self.by])

    @property
    def work(self) -> float:
        """As many evenly filled lanes would carry as much."""
        return self.lanes / self.uneven if self.uneven else 0.0


def divided(windows: Sequence[WindowLoad], lanes: int, running: Running | None, limit: float = UNEVEN) -> Divided:
    """Choose a division for a number of lanes."""
    loads = {division: lane_loads(windows, lanes, division) for division in DIVISIONS}
    uneven: dict[By, float] = {by: max_over_mean(loads[by]) for by in ("query", "query-window")}
    by = _by(uneven, running, limit)
    fewer = max(loads["query-window"]) / max(1, *loads["query-window-partial"])
    partial = running is None or running.partial or fewer >= UNEVEN
    says = _says(by, uneven, fewer, running, limit)
    if running is not None and lanes != running.lanes:
        says += f"; it runs on {plural(running.lanes, 'lane')}, and these figures are those of {lanes}"
    return Divided(lanes, loads, by, partial, uneven[by] <= limit, says)


def best_lanes(
    windows: Sequence[WindowLoad], counts: Iterable[int], running: Running | None, limit: float = UNEVEN
) -> tuple[Divided, list[Divided]]:
    """The choice among some lane counts, and the choice for each of them.

    The count that runs stays where it is among them and its lanes are even. Otherwise the count that does the most
    work is taken, even ones first; of those that do as much, the fewest.
    """
    each = [divided(windows, lanes, running, limit) for lanes in counts]
    for one in each:
        if running is not None and one.lanes == running.lanes and one.even:
            return one, each
    return max(each, key=lambda one: (one.even, one.work, -one.lanes)), each


def _by(uneven: Mapping[By, float], running: Running | None, limit: float) -> By:
    if running is not None:
        other: By = "query-window" if running.by == "query" else "query"
        is_enough = uneven[running.by] <= limit
        is_better = uneven[other] <= limit or uneven[other] * UNEVEN <= uneven[running.by]
        return running.by if is_enough or not is_better else other
    return "query" if uneven["query"] <= limit else "query-window"


def _says(by: By, uneven: Mapping[By, float], fewer: float, running: Running | None, limit: float) -> str:
    """The choice and its reason, in a line."""
    saved = f"partial aggregates cut what the fullest lane receives to 1/{fewer:.0f}" if fewer >= UNEVEN else ""
    figures = f"by query the fullest lane has {uneven['query']:.1f} times the average"
    figures += f", by query and window {uneven['query-window']:.1f} times"
    stays = running is not None and running.by == by
    if uneven[by] > limit:
        if stays or running is None:
            says = f"neither division is even over these windows: {figures}"
        else:
            says = f"switch to --by {by}, which is less uneven: {figures}"
    elif stays:
        says = f"leave it at --by {by}, whose lanes are even: {figures}"
    elif running is None and by == "query":
        says = f"by query is even enough: --by query keeps each query in one lane; {figures}"
    else:
        says = f"{'take' if running is None else 'switch to'} --by {by}, whose lanes are even: {figures}"
    if running is not None and not running.partial and saved:
        return f"{says}; leave --no-partial out: {saved}"
    return f"{says}; {saved}" if saved else says
