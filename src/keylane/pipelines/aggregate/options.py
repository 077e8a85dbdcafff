"""What may be set about an aggregation beside its source, target and queries, and what is refused before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.contract.names import MAX_LANES
from keylane.errors import UsageError
from keylane.keys.times import TimeField
from keylane.systems.endpoint import StreamOptions
from keylane.systems.flow import check_every

if TYPE_CHECKING:
    from collections.abc import Mapping

By: TypeAlias = Literal["query", "query-window"]
MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """How events are read and how the work is divided.

    `times` are time fields of queries with how they are written (`keys.times.TimeField`).
    An event whose time is more than `ahead` seconds after this machine's
    clock is a dead letter. Windows are divided over `lanes` by query or by query and window; without `partial` each
    matched event goes to its lane on its own, which is for comparison. `state` is by default `_state` in the target.
    """

    times: tuple[str, ...] = ()
    ahead: float = 86_400.0
    by: By = "query-window"
    lanes: int | None = None
    partial: bool = True
    state: str | None = None
    every: str = "1 second"
    max_files: int = 1000
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    stream: StreamOptions = field(default_factory=StreamOptions)

    def form_of(self, name: str) -> str | None:
        """How a time field is written, where that was given."""
        return next((one.form for one in map(TimeField.of, self.times) if one.name == name), None)

    def checked(self) -> AggregateOptions:
        """The options themselves, when each makes sense."""
        if not 0 <= self.ahead < 10**9:
            raise UsageError.of("--ahead is not a duration", got=self.ahead, allowed="seconds, 0 or more")
        for text in self.times:
            if TimeField.of(text).form is None:
                hint = f"{text}:ms, or {text}:FORMAT; without the option times are read by their values"
                raise UsageError.of("--time says nothing of how a field is written", got=text, hint=hint)
        if self.by not in {"query", "query-window"}:
            raise UsageError.of("windows are not divided so", got=self.by, allowed="query, query-window")
        if self.lanes is not None and not 1 <= self.lanes <= MAX_LANES:
            raise UsageError.of("--lanes is not a lane count", got=self.lanes, allowed=f"1 to {MAX_LANES}")
        check_every(self.every)
        return self
