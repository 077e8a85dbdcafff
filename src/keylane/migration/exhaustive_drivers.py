"""Two drivers and their journal, for the searches of every interleaving: who decides, who appends, whose entry is late.

A driver takes its lease, looks at the world, and does what it has decided at any later moment: one that another has
taken over from may still append, and still call. What it sees of the world, and what a call does to it, is the case's
own: a stream that grows (`exhaustive_cutover`), or one that is copied into another (`exhaustive_mirror`).

`fenced=False` is a twin: a journal that is a row of entries and no more, in which whoever comes last is believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from keylane.migration.cutover import (
    Append,
    CutoverCall,
    Entry,
    Finished,
    Wait,
    accepts,
    hold_of,
    may_roll_back,
    phase_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from keylane.migration.cutover import Refuse, Step

#: Entries that a journal which takes late ones may have; beyond them it is not looked at.
_MOST_LATE = 7


class SmallCopy(NamedTuple):
    """A copy that a driver makes: `behind` is the number of the last entry when it began, -1 before it has looked.

    `upto` is where the old lanes ended then; `at` is where it goes on, where that is not known to all copiers.
    """

    behind: int = -1
    upto: tuple[int, ...] = ()
    at: tuple[int, ...] = ()


class SmallDriver(NamedTuple):
    """A driver: its claim, which is the term of its lease, 0 without one, and what it has decided and not done yet.

    By a mirror: the copy that it makes, and the number of the entry behind which the last one began that has ended.
    """

    claim: int = 0
    decided: Append | CutoverCall | None = None
    copy: SmallCopy | None = None
    copied: int = -1


class SmallJournal(NamedTuple):
    """The journal, the highest term of a lease, and the drivers."""

    entries: tuple[Entry, ...] = ()
    lease: int = 0
    drivers: tuple[SmallDriver, ...] = (SmallDriver(), SmallDriver())

    def with_driver(self, place: int, driver: SmallDriver) -> SmallJournal:
        """With another driver at this place."""
        drivers = (*self.drivers[:place], driver, *self.drivers[place + 1 :])
        return self._replace(drivers=drivers, lease=max(self.lease, driver.claim))

    def acknowledged(self, numbers: Iterable[int]) -> frozenset[str]:
        """The producers that have acknowledged the entry that they have to, by the number that each acknowledged."""
        hold = hold_of(self.entries)
        return frozenset(str(n) for n, number in enumerate(numbers) if hold is not None and number == hold)

    @property
    def late(self) -> bool:
        """Whether drivers of two claims are about to do something."""
        return len({one.claim for one in self.drivers if one.decided or one.copy}) > 1


class SmallDrivers(NamedTuple):
    """Two drivers within bounds."""

    leases: int = 2
    #: Whether a driver may want to go back instead.
    rollback: bool = False
    fenced: bool = True

    def moves(self, journal: SmallJournal, decide: Callable[[SmallDriver], Step]) -> Iterator[tuple[str, SmallJournal]]:
        """What drivers do next, calls excepted; `decide` is what one of them makes of the world now."""
        for place, driver in enumerate(journal.drivers):
            name = "ab"[place]
            if journal.lease < self.leases and (driver.claim != journal.lease or not journal.lease):
                given = SmallDriver(journal.lease + 1)
                yield f"{name} is given the lease", journal.with_driver(place, given)
            if driver.claim and driver.decided is None and driver.copy is None:
                yield from self._decisions(journal, place, driver, decide(driver))
            if isinstance(driver.decided, Append):
                without = journal.with_driver(place, driver._replace(decided=None))
                outcome, entries = self._appended(journal.entries, driver.decided.entry)
                phase = driver.decided.entry.phase
                yield f"{name} appends {phase} -> {outcome}", without._replace(entries=entries)

    def _decisions(
        self, journal: SmallJournal, place: int, driver: SmallDriver, step: Step
    ) -> Iterator[tuple[str, SmallJournal]]:
        name = "ab"[place]
        if isinstance(step, Append | CutoverCall):
            what = step.entry.phase if isinstance(step, Append) else step.name
            yield f"{name} decides: {what}", journal.with_driver(place, driver._replace(decided=step))
        elif not isinstance(step, Finished):
            yield f"{name} looks -> {_outcome(step)}", journal
        if self.rollback and may_roll_back(journal.entries):
            back = Append(Entry(len(journal.entries), driver.claim, "rolled-back"))
            yield f"{name} decides: rolled-back", journal.with_driver(place, driver._replace(decided=back))

    def _appended(self, entries: tuple[Entry, ...], entry: Entry) -> tuple[str, tuple[Entry, ...]]:
        if accepts(entries, entry):
            return "appended", (*entries, entry)
        if not self.fenced and entry.phase != phase_of(entries) and len(entries) < _MOST_LATE:
            return "taken late", (*entries, entry._replace(number=len(entries)))
        return "refused", entries


def _outcome(step: Wait | Refuse) -> str:
    return f"waits for {step.why}" if isinstance(step, Wait) else "refused: another lane count"
