"""How a ratio is measured: both sides interleaved in one process, the best round of each; a question is one process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, and what it must reach: at least `at_least`, at most `at_most`, or neither."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def short(self) -> bool:
        """Whether the target is missed."""
        low = self.at_least is not None and self.value < self.at_least
        return low or (self.at_most is not None and self.value > self.at_most)

    def __str__(self) -> str:
        bound = f"at least {self.at_least:g}" if self.at_least is not None else ""
        bound = f"at most {self.at_most:g}" if self.at_most is not None else bound
        verdict = f"  ({bound}: {'MISSED' if self.short else 'met'})" if bound else ""
        return f"{self.name:<58} {self.value:>10,.3g} {self.unit}{verdict}"


def answered(name: str) -> list[Figure]:
    """The figures of one question, printed as they come."""
    question = import_module(f"benchmarks.{name}")
    print(f"\n{name}: {(question.__doc__ or '').splitlines()[0]}", flush=True)
    figures = []
    for figure in question.run():
        print(f"  {figure}", flush=True)
        figures.append(figure)
    return figures


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds on the clock, and seconds of processors in this process and all below it.

    On a machine that others use the clock shows the others too; processor time hardly does. `own` is that of all but a
    server that was named.
    """

    clock: float
    processors: float
    own: float

    def least(self, other: Spent) -> Spent:
        """The lower of each."""
        return Spent(min(self.clock, other.clock), min(self.processors, other.processors), min(self.own, other.own))


def spent(side: Callable[[], Any], server: int | None = None) -> Spent:
    """What one call takes."""
    start, before, own = perf_counter(), processor_seconds(), processor_seconds(without=server)
    side()
    return Spent(perf_counter() - start, processor_seconds() - before, processor_seconds(without=server) - own)


def least(rounds: int, server: int | None = None, **sides: Callable[[], Any]) -> dict[str, Spent]:
    """What the best round of each side takes; the sides take turns, so that noise meets all of them."""
    found: dict[str, Spent] = {}
    for _ in range(rounds):
        for name, side in sides.items():
            now = spent(side, server)
            found[name] = found.get(name, now).least(now)
    return found


def processor_seconds(*, without: int | None = None) -> float:
    """Of this process and all below it but one, those included that have ended; from Linux' own count."""
    stats = [text for path in Path("/proc").glob("[0-9]*/stat") if (text := _read(path))]
    fields = {int(text.split()[0]): text[text.rindex(")") + 2 :].split() for text in stats}
    below = {os.getpid()}
    while more := {pid for pid, field in fields.items() if int(field[1]) in below} - below:
        below |= more
    return sum(int(ticks) for pid in below - {without} for ticks in fields[pid][11:15]) / os.sysconf("SC_CLK_TCK")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def in_turn(rounds: int, *, uncounted: int, **sides: Callable[[], Any]) -> dict[str, list[Spent]]:
    """What each round of each side takes, the first ones left out: those that compile what the others run."""
    found: dict[str, list[Spent]] = {name: [] for name in sides}
    for _ in range(uncounted + rounds):
        for name, side in sides.items():
            found[name].append(spent(side))
    return {name: each[uncounted:] for name, each in found.items()}


def best(rounds: int, **sides: Callable[[], Any]) -> dict[str, float]:
    """Seconds of the best round of each side; the sides take turns, so that noise meets all of them."""
    seconds = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            start = perf_counter()
            side()
            seconds[name] = min(seconds[name], perf_counter() - start)
    return seconds


@contextmanager
def one_core() -> Iterator[None]:
    """Stay on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
