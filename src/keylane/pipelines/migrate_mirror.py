"""The copy of a mirror: `route` under the new contract, run to the end of the old stream again and again.

Where the state of the copy is kept: beside the journal, so that whoever goes on with the migration goes on with the
copy, too; a folder as the target keeps its own. A copy that was killed repeats nothing, and two never write at once:
the state has a lock, and a topic fences the writers of the one that came first. A stream of shards does not, and has no
transactions either: there a record that was written by a copy that was killed may be there again, marked as such.

When it is called, and what its end means: `keylane.migration.cutover`. Who judges it: `migrate_verify`.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.contract.fields import FieldSpec
from keylane.errors import BrokerError, DataError, SparkError, TargetError, UnsupportedError
from keylane.numbers import count, duration
from keylane.systems.endpoint import StreamOptions, open_endpoint
from keylane.systems.journal import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.contract.model import Contract
    from keylane.systems.endpoint import Endpoint
    from keylane.systems.flow import Routed

#: A copy that takes so few seconds has caught up: what is left for the pause takes about as long.
CAUGHT_UP: Final = 5.0
#: What Spark's connector reports of brokers that do not answer; anything else would fail again.
_MAY_PASS: Final = re.compile(
    r"TimeoutException|DisconnectException|NetworkException|timed? ?out|not available", re.IGNORECASE
)


@dataclass
class RouteMirror:
    """A stream that is copied into another, by the contract of the new one. `state` is the folder of the route."""

    contract: Contract
    source: str
    target: str
    lane_count: int
    state: Path
    options: StreamOptions | None
    say: Callable[[str], None]
    #: Whether records may be left without a lane.
    allow_dead: bool = False
    _seconds: float = 0.0

    @property
    def _from(self) -> Endpoint:
        return open_endpoint(self.source, self.options)

    @cached_property
    def _into(self) -> Endpoint:
        return open_endpoint(self.target, self.options)

    @property
    def checkpoint(self) -> Path:
        """Spark's, which says how far the copy is: in the target where that is a folder."""
        into = self._into
        kept = Path(into.address.name).absolute() if into.address.is_path else self.state
        return kept / OWN / "checkpoint"

    def prepare(self) -> None:
        """Make the new stream where it is missing; one that has records of somebody else is refused."""
        into = self._into
        into.check_apart(self._from)
        self._check_values()
        if not into.own_lanes:
            return
        name = into.address.name
        there = into.lanes_there([name])[name]
        if there and there != self.lane_count:
            hint = "delete it, or give it the lanes of the contract"
            raise TargetError.of("the new stream has other lanes than planned", got=str(there), hint=hint)
        begun = (self.checkpoint / "offsets").exists()
        if there and not begun and any(into.lane_ends()):
            hint = "an address of a stream that is not there yet, or is empty"
            raise TargetError.of(
                "the new stream has records that this migration did not copy", got=self.target, hint=hint
            )
        if begun and not there:
            hint = "keylane migrate rollback, then a new plan"
            raise TargetError.of("the new stream is gone, and records were copied into it", got=self.target, hint=hint)
        into.create_like(self._from, self.lane_count)

    def _check_values(self) -> None:
        """Refuse a key that is in the values of messages whose format is not given, before anything is made."""
        options = self.options or StreamOptions()
        # Files have columns, and no values.
        with suppress(UnsupportedError):
            self._from.message_fields(FieldSpec.sent(self.contract, keys_sent=options.keys_sent))

    def copy(self, check: Callable[[], None]) -> bool:
        """Copy what is there now. It has caught up when that took little time, or no less than the time before."""
        found, seconds = self._routed(check)
        before, self._seconds = self._seconds, seconds
        if not self._into.writes_once:
            # A system without offsets is read to its ends, which is not to begin only while producers wait.
            self.ends()
        self.say(f"copied {count(found.counts.in_)} records in {duration(seconds)}; {count(found.total.in_)} in all")
        if found.total.dead:
            self._report_dead(found.total.dead, found.total.in_)
        return not found.counts.in_ or seconds <= CAUGHT_UP or 0 < before <= seconds

    def _report_dead(self, dead: int, of: int) -> None:
        """Stop at records that have no lane: once the old stream is retired they would be dead letters alone."""
        where = f"{self.target}/_dead" if self._into.address.is_path else self._into.dead_stream
        what = f"{count(dead)} of {count(of)} records have no lane under the new contract: they are dead letters"
        if not self.allow_dead:
            hint = "keylane migrate rollback, and a contract or --value that fits; or --allow-dead-letters, to go on"
            raise DataError.of(what, got=where, hint=hint)
        self.say(f"{what} in {where}")

    def _routed(self, check: Callable[[], None]) -> tuple[Routed, float]:
        """A route to the end of the source, and its seconds without the start of Spark."""
        from keylane.pipelines.route import Options, route

        streams = replace(self.options or StreamOptions(), state=str(self.state), create=True)
        lanes = self.lane_count if self.contract.spec.lanes == "live" else None
        began = [time.monotonic()]

        def ready() -> None:
            # The lock of the state is held: no other copy is running, and none begins before this one has ended.
            check()
            began.append(time.monotonic())

        try:
            found = route(
                self.contract,
                self.source,
                self.target,
                options=Options(lanes=lanes, kafka=streams),
                ready=ready,
                say=self.say,
            )
        except SparkError as error:
            if not _MAY_PASS.search(str(error)):
                raise
            # Nothing is taken for failed: the next copy goes on from the last batch that is committed.
            raise BrokerError.of("the copy was cut off from its streams", got=str(error)) from None
        return found, time.monotonic() - began[-1]

    def copied_to(self) -> tuple[int, ...]:
        """By the checkpoint of the route."""
        return self._from.copied_from(self.checkpoint)

    def lanes(self) -> int:
        """Those of the system; of a folder those of the contract, which the route makes."""
        into = self._into
        return into.lanes_there([into.address.name])[into.address.name] if into.own_lanes else self.lane_count

    def ends(self) -> tuple[int, ...]:
        """As the system has them."""
        return self._into.lane_ends()

    def translate(self, groups: Sequence[str], starts: Sequence[int]) -> None:
        """Commit the starts for groups that have no members; those that have begin there by the gate."""
        try:
            found = self._into.start_groups(groups, starts)
        except UnsupportedError:
            self.say(f"groups have no offsets in {self.target}: their readers begin behind the copies by themselves")
            return
        active = "has members, which keep their own offsets; a gated reader skips the copies"
        for group, done in found.items():
            self.say(f"group {group} {f'begins in {self.target} behind the copies' if done else active}")
