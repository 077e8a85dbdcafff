"""Progress of a verb, in one shape for all of them: what a callback of the caller gets."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.numbers import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OnProgress: TypeAlias = Callable[["Progress"], None]

#: How often Spark is asked what it is at.
BEAT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a verb is: in words, and the records and seconds so far. `share` is None where the end is not known."""

    verb: str
    text: str
    records: int = 0
    seconds: float = 0.0
    share: float | None = None


class Reporter:
    """Turns what pipelines report, each in its own way, into `Progress` for a callback; without one, into nothing.

    The callback is called one at a time: by the thread that called the verb and, while Spark works, by one that asks
    Spark. What it raises ends the verb.
    """

    def __init__(self, verb: str, callback: OnProgress | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._verb, self._callback, self._clock = verb, callback, clock
        self._began, self._records = clock(), 0
        self._lock = threading.Lock()
        self._raised: BaseException | None = None

    def step(self, text: str) -> None:
        """A step, or something to know."""
        self._report(text)

    def watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Batches that pass; those that know how many records there are give the share that has passed."""
        total = getattr(batches, "total", None)
        for batch in batches:
            self.more(len(batch), total)
            yield batch

    def more(self, records: int, total: int | None = None) -> None:
        """So many records more are done, of so many in all, or at most."""
        self.reached(self._records + records, total)

    def reached(self, records: int, total: int | None = None) -> None:
        """So many records are done."""
        self._records = records
        self._report(f"{count(records)} records", share=min(1.0, records / total) if total else None)

    @contextmanager
    def on_spark(self) -> Iterator[None]:
        """Ask Spark what it is at for as long as this is open."""
        if self._callback is None:
            yield
            return
        done = threading.Event()
        asking = threading.Thread(target=self._ask, args=(done,), name="keylane-progress", daemon=True)
        asking.start()
        try:
            yield
        finally:
            done.set()
            asking.join()
        if self._raised is not None:
            raise self._raised

    def seconds(self) -> float:
        """Since the verb began."""
        return self._clock() - self._began

    def _ask(self, done: threading.Event) -> None:
        while not done.wait(BEAT) and self._raised is None:
            # Only where Spark was loaded: that takes a second, and this thread must not be the one to do it.
            ask = getattr(sys.modules.get("keylane.spark.session"), "work_now", None)
            work = ask() if ask else None
            try:
                if work is not None and work.starting:
                    self._report("starting Spark")
                elif work is not None and work.tasks:
                    text = f"{count(work.done)} of {count(work.tasks)} tasks"
                    self._report(text, work.records, work.done / work.tasks)
            except BaseException as error:  # noqa: BLE001  raised by the caller's thread, at the end
                self._raised = error

    def _report(self, text: str, records: int | None = None, share: float | None = None) -> None:
        if self._callback is not None:
            with self._lock:
                known = self._records if records is None else records
                self._callback(Progress(self._verb, text, known, round(self.seconds(), 3), share))
