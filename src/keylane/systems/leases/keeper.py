"""The claim of an instance on an id, kept up by a thread: it asks, renews and waits, while the instance works.

A thread of its own, because a batch may take longer than a lease. It renews only while the work makes progress: a loop
that is stuck for too long loses its id to a spare, instead of holding it for ever.

When to ask and what an answer means: `keylane.groups.ownership.Claim`. The loop that works:
`keylane.systems.kafka.owner`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Final, Self

from keylane.errors import BrokerError, TargetError
from keylane.groups.ownership import Release, Renew

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from keylane.groups.ownership import Claim, Lease, LeaseRequest, LeaseStore

#: A loop that has shown no progress for so many seconds, or times to live, whichever is longer, is stuck.
STUCK_SECONDS: Final = 60.0
STUCK_LEASES: Final = 3.0
#: How long the thread sleeps at most: a clock that jumps is noticed so soon.
_NAP: Final = 0.2


def stuck_after(seconds: float, ttl: float) -> float:
    """After how many seconds without progress a loop is stuck."""
    return max(seconds, STUCK_LEASES * ttl)


class LeaseKeeper:
    """Keeps a claim up between `with` and its end, where the lease is released. Any thread may call its methods."""

    def __init__(
        self,
        store: LeaseStore,
        claim: Claim,
        clock: Callable[[], float] = time.monotonic,
        *,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._store, self._claim, self._clock, self._stuck_seconds = store, claim, clock, stuck_seconds
        self._changed, self._asking = Condition(), Lock()
        self._stopped = False
        self._failure: Exception | None = None
        self._progress = clock()
        #: Why the store did not answer the last time; empty where it did.
        self.silence = ""
        self._thread = Thread(target=self._keep, name="keylane-lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()
        self.release()

    def note_progress(self) -> None:
        """The work goes on. To ask for the lease notes it, too; between two questions, what takes long has to."""
        self._progress = self._clock()

    def lease(self) -> Lease | None:
        """The lease that is held now by this instance's own view. A claim that cannot be kept up at all is an error."""
        self.note_progress()
        if self._failure is not None:
            raise self._failure
        with self._changed:
            return self._claim.lease if self._claim.holds(self._clock()) else None

    def holds(self, lease: Lease) -> bool:
        """Whether this lease is held now, by this instance's own view."""
        held = self.lease()
        return held is not None and held.term == lease.term

    def has_lost(self, lease: Lease) -> bool:
        """Whether the store has refused to renew this lease. One that ran out by the own view may still be renewed."""
        with self._changed:
            return self._claim.lease is None or self._claim.lease.term != lease.term

    def idle_seconds(self) -> float:
        """How long ago the work last went on."""
        return self._clock() - self._progress

    def wait(self, seconds: float) -> None:
        """Return when the claim has changed, or after some time."""
        with self._changed:
            self._changed.wait(seconds)

    def verify(self, lease: Lease) -> bool:
        """Ask the store now whether the lease is still held; False also where it does not answer.

        What was done before this call was done under the lease: no other owner has begun before it.
        """
        if self.has_lost(lease):
            return False
        self._ask(Renew(lease))
        return not self.silence and self.holds(lease)

    def take_above(self, term: int) -> None:
        """Give the lease back, and ask at once for another of a higher term than this, which somebody had before."""
        self.release()
        with self._changed:
            self._claim = replace(self._claim, above=max(self._claim.above, term), again=self._clock())
            self._changed.notify_all()

    def release(self) -> None:
        """Give the lease back, if there is one: a spare takes it at once. Without an answer it runs out by itself."""
        with self._changed:
            held = self._claim.lease
            self._claim = replace(self._claim, lease=None, until=0.0, again=self._clock() + self._claim.terms.every)
            self._changed.notify_all()
        if held is None:
            return
        with self._asking:
            try:
                self._store.answer(Release(held))
            except (BrokerError, TargetError) as error:
                self.silence = _named(error)

    def _keep(self) -> None:
        while True:
            with self._changed:
                if self._stopped or self._failure is not None:
                    return
                now = self._clock()
                most = stuck_after(self._stuck_seconds, self._claim.terms.ttl)
                stuck = self._claim.lease is not None and self.idle_seconds() > most
                request = None if stuck else self._claim.request(now)
                if request is None:
                    self._changed.wait(min(_NAP, max(0.01, self._claim.again - now)))
                    continue
            self._ask(request)

    def _ask(self, request: LeaseRequest) -> None:
        """One request at a time: a store compares what it sets with what it has."""
        with self._asking:
            sent = self._clock()
            answer: Lease | None = None
            try:
                answer, self.silence = self._store.answer(request), ""
            except (BrokerError, TargetError) as error:
                self.silence = _named(error)
            except Exception as error:  # noqa: BLE001  raised by `lease`: a thread that ended would be waited for for ever
                self._failure, self.silence = error, _named(error)
            with self._changed:
                now = self._clock()
                claim = self._claim
                self._claim = (
                    claim.unanswered(sent, now) if self.silence else claim.answered(request, sent, answer, now)
                )
                self._changed.notify_all()


def _named(error: Exception) -> str:
    """Never empty: an empty silence is an answer."""
    return str(error) or type(error).__name__
