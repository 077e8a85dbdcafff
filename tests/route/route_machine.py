"""A machine that drives `route` through kills, restores and damage, beside a model of what has to be in the target.

    RouteMachine   the rules: more files, a run, a kill at a step, a backup, a restore of all or of a part, damage,
                   a source file that is away for a while
    drive          so many examples of so many steps
    World          what the machine acts on: a folder (`test_machine`) or a topic (`tests/integration`)

The promise after every run: it either ends well, and then every record of the source that can be seen is in the target
once, in its lane and in the order of its key; or it is refused, and then nothing is there twice, and with what was
damaged put back it ends well. What a single fault does is in `test_kill` and `test_refusals`; here they meet.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from keylane import Router
from keylane.errors import KeylaneError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane import Contract

KEYS = 7
#: The steps of a batch at which a run is ended, of either target; a step that is not reached ends nothing.
STEPS = ("begun", "half staged", "staged", "forced", "committed", "renamed", "moved", "planned", "written", "done")
WAYS = ("gone", "empty", "cut", "flipped")
_OLDEST = 1_700_000_000


class KilledError(Exception):
    """What a run that is killed ends with."""


class World:
    """A source of JSON lines, a target and the folder of its state. A target adds `route` and `records`."""

    def __init__(self, folder: Path, contract: Contract) -> None:
        self.source, self.state, self.aside = folder / "in", folder / "state", folder / "aside"
        self.contract = contract
        self.router = Router(contract)
        self.files = self.numbers = 0
        #: Numbers that appeared in the source after younger ones were routed: of them no order can be asked.
        self.late: set[int] = set()
        for path in (self.source, self.aside):
            path.mkdir(parents=True)

    def route(self, probe: Callable[[str, int], None]) -> None:
        """Route all there is."""
        raise NotImplementedError

    def records(self) -> list[list[tuple[str, int]]]:
        """Key and number of the records of each lane, as a reader sees them."""
        raise NotImplementedError

    def add(self, records: int) -> None:
        """One more file, younger than the last, and complete when it appears."""
        waiting = self.aside / "waiting"
        numbers = range(self.numbers, self.numbers + records)
        waiting.write_text("".join(f"{json.dumps({'k': f'key-{n % KEYS}', 'n': n})}\n" for n in numbers))
        os.utime(waiting, (_OLDEST + self.files,) * 2)
        waiting.rename(self.source / f"f{self.files:04d}.jsonl")
        self.files, self.numbers = self.files + 1, self.numbers + records

    def in_source(self) -> set[int]:
        """The numbers of the records that can be seen."""
        return {number for path in self.source.glob("*.jsonl") for number in self.numbers_of(path)}

    def numbers_of(self, path: Path) -> set[int]:
        """The numbers of the records of a file."""
        return {json.loads(line)["n"] for line in path.read_text().splitlines()}

    def own_files(self) -> list[str]:
        """The files of the state, by their paths in it."""
        found = (self.state / "_keylane").rglob("*")
        return sorted(path.relative_to(self.state).as_posix() for path in found if path.is_file())

    def faults(self, known: int) -> list[str]:
        """What is wrong with the target, however much of the source it has."""
        lanes = self.records()
        times = Counter(n for lane in lanes for _, n in lane)
        out = [f"{n} is there {count} times" for n, count in times.items() if count > 1 or not 0 <= n < known]
        for number, lane in enumerate(lanes):
            last: dict[str, int] = {}
            for key, n in lane:
                out += [f"{n} is in lane {number}"] if self.router.lane({"k": key}) != number else []
                if n in self.late:
                    continue
                out += [f"{n} comes after {last[key]}"] if n < last.get(key, -1) else []
                last[key] = n
        return out

    def seen(self) -> set[int]:
        """The numbers that are in the target."""
        return {n for lane in self.records() for _, n in lane}


class RouteMachine(RuleBasedStateMachine):
    """One run of the machine has a world of its own."""

    def __init__(self, make: Callable[[], World]) -> None:
        super().__init__()
        self.world = make()
        self.backup: Path | None = None
        self.hidden: list[Path] = []
        self.world.add(3)

    @rule(records=st.integers(1, 5))
    def more(self, records: int) -> None:
        self.world.add(records)

    @rule()
    def run(self) -> None:
        self._run_well()

    @precondition(lambda self: self.world.state.exists())
    @rule()
    def back_up(self) -> None:
        self.backup = self.world.aside / "backup"
        shutil.rmtree(self.backup, ignore_errors=True)
        shutil.copytree(self.world.state, self.backup)

    @rule(step=st.sampled_from(STEPS), times=st.integers(1, 2))
    def kill(self, step: str, times: int) -> None:
        """End a run at a step. One that does not come to that step just ends."""
        left = [times]

        def probe(at: str, _batch: int) -> None:
            left[0] -= at == step
            if at == step and left[0] == 0:
                raise KilledError(step)

        try:
            self.world.route(probe)
        except KilledError:
            return
        except KeylaneError:
            assert self.hidden, "a run is refused, and nothing was damaged"

    @rule(step=st.sampled_from(STEPS))
    def kill_and_hide(self, step: str) -> None:
        """The youngest file is away at the restart after a kill: its batch is known, unless it was the first one."""
        self.world.add(2)
        self.kill(step, 1)
        self._hide(max(self.world.source.iterdir()), is_planned=self.world.state.exists())

    @precondition(lambda self: len(self.hidden) < 2 and any(self.world.source.iterdir()))
    @rule(data=st.data())
    def hide(self, data: st.DataObject) -> None:
        """A file of the source is away: whether it was read or not."""
        self._hide(data.draw(st.sampled_from(sorted(self.world.source.iterdir()))), is_planned=False)

    def _hide(self, path: Path, *, is_planned: bool) -> None:
        """Move a file away. One that no batch has asked for yet is late when it comes back."""
        if not is_planned:
            self.world.late |= self.world.numbers_of(path) - self.world.seen()
        self.hidden.append(path.rename(self.world.aside / path.name))

    @precondition(lambda self: self.hidden)
    @rule()
    def bring_back(self) -> None:
        self._bring_back()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """All of an older state."""

        def restore(state: Path, backup: Path) -> None:
            shutil.rmtree(state)
            shutil.copytree(backup, state)

        self._disturb(restore)

    @precondition(lambda self: self.backup is not None)
    @rule(data=st.data())
    def restore_part(self, data: st.DataObject) -> None:
        """One folder of an older state."""
        parts = st.sampled_from(["checkpoint", "checkpoint/offsets", "checkpoint/commits", "checkpoint/sources"])
        part = data.draw(parts)

        def restore(state: Path, backup: Path) -> None:
            if (backup / "_keylane" / part).exists():
                shutil.rmtree(state / "_keylane" / part, ignore_errors=True)
                shutil.copytree(backup / "_keylane" / part, state / "_keylane" / part)

        self._disturb(restore)

    @precondition(lambda self: self.world.state.exists() and self.world.own_files())
    @rule(data=st.data(), way=st.sampled_from((*WAYS, "older")))
    def damage(self, data: st.DataObject, way: str) -> None:
        """One file of the state."""
        name = data.draw(st.sampled_from(self.world.own_files()))

        def damage(state: Path, backup: Path | None) -> None:
            if way != "older":
                spoil(state / name, way)
            elif backup is not None and (backup / name).exists():
                shutil.copy(backup / name, state / name)

        self._disturb(damage)

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert self.world.faults(self.world.numbers) == []

    def _disturb(self, change: Callable[[Path, Any], None]) -> None:
        """Change the state, run, and where that is refused put back what was there, which then has to do.

        Damage that the run did not meet stays, and would be met at any later time: it is put back too.
        """
        state, right = self.world.state, self.world.aside / "right"
        shutil.rmtree(right, ignore_errors=True)
        shutil.copytree(state, right)
        change(state, self.backup)
        changed = {path: path.read_bytes() for path in differing(state, right)}
        before = self.world.seen()
        try:
            self._check_run()
        except KeylaneError:
            # A batch that was committed before may have been moved to its lanes; nothing else is.
            assert before <= self.world.seen(), "a refused run has removed records"
            shutil.rmtree(state)
            shutil.copytree(right, state)
            self._run_well()
        else:
            for path, content in changed.items():
                if path.exists() and path.read_bytes() == content:
                    shutil.copy(right / path.relative_to(state), path)

    def _run_well(self) -> None:
        """A run that has to end well; with a file away, at the latest when that is back."""
        try:
            self._check_run()
        except KeylaneError:
            assert self.hidden, "a run is refused, and nothing was damaged"
            self._bring_back()
            self._check_run()

    def _check_run(self) -> None:
        """A run that ends well has written all that can be seen."""
        self.world.route(lambda _step, _batch: None)
        lost = self.world.in_source() - self.world.seen()
        assert not lost, f"the run ended well, and {sorted(lost)} are not in the target"

    def _bring_back(self) -> None:
        for path in self.hidden:
            path.rename(self.world.source / path.name)
        self.hidden = []


def spoil(path: Path, way: str) -> None:
    """Damage one file."""
    content = path.read_bytes()
    if way == "gone":
        path.unlink()
    elif way == "empty":
        path.write_bytes(b"")
    elif way == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif content:
        at = len(content) // 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def differing(state: Path, right: Path) -> list[Path]:
    """The files of a state that are not what they were."""
    both = [path for path in state.rglob("*") if path.is_file() and (right / path.relative_to(state)).is_file()]
    return [path for path in both if path.read_bytes() != (right / path.relative_to(state)).read_bytes()]


def drive(make: Callable[[Path], World], folder: Path, **more: Any) -> None:
    """Run the machine, each example in a folder of its own. Examples are not made smaller: a run takes a second."""
    numbers = count()

    def machine() -> RouteMachine:
        return RouteMachine(lambda: make(folder / f"{next(numbers)}"))

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    usual = {"deadline": None, "suppress_health_check": checks, "phases": [Phase.generate], "print_blob": True}
    made: Any = machine  # Hypothesis calls it, and its types ask for a class
    run_state_machine_as_test(made, settings=settings(**{**usual, **more}))
