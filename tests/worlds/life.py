"""The life of a stream: verbs and faults in any order, and after each of them the records themselves are judged.

    Script     the steps of a life, drawn from a seed; `shrunk` takes away what a failure does not need
    Life       the machine: takes the steps, plants faults, takes the ways on that a refusal prints
    faults     the judge: forty lines that place and order every record again, from nothing but keys and numbers
    FolderWorld, TopicWorld   source, target and state of a life

The promise after every step: what was sent is in the target once, in its lane, in the order of its key; or the command
was refused, because of what was planted, and the way on that it printed ends well. Nothing here knows keylane: what a
life does to it goes through `Hands`, which `face` makes.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.worlds.hashes import hashed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

KEYS: Final = 7
#: The steps of a batch at which a run is ended, of either target; a step that is not reached ends nothing.
PROBES: Final = (
    "begun",
    "half staged",
    "staged",
    "forced",
    "committed",
    "renamed",
    "moved",
    "planned",
    "written",
    "done",
)
DAMAGES: Final = ("gone", "empty", "cut", "flipped", "older")
PARTS: Final = (
    "checkpoint",
    "checkpoint/offsets",
    "checkpoint/commits",
    "checkpoint/sources",
    "plans",
    "done",
    "batches",
)
_OLDEST: Final = 1_700_000_000


class Found(NamedTuple):
    """A record as a reader of the target has it. `epoch` is in its headers; 1 where the target has none."""

    lane: int
    key: str
    number: int
    epoch: int = 1


class Outcome(NamedTuple):
    """How a command ended: done, refused with a text, or killed at a step."""

    ended: str
    text: str = ""

    @property
    def done(self) -> bool:
        return self.ended == "done"


def lane_of(key: str, lanes: int) -> int:
    """Where Java's client puts a key."""
    return int((hashed("murmur2", [key.encode()])[0] & 0x7FFFFFFF) % lanes)


def faults(found: Sequence[Found], sent: Mapping[int, str], lanes: Mapping[int, int], late: set[int]) -> list[str]:
    """What is wrong with a target, however much of the source it has; `lanes` are the counts of each epoch.

    `found` has the records of each lane in their order. Of numbers that came `late` no order can be asked.
    """
    times = Counter(one.number for one in found)
    out = [f"{number} is there {count} times" for number, count in times.items() if count > 1]
    last: dict[tuple[int, str], int] = {}
    newest: dict[tuple[str, int], list[int]] = {}
    for one in found:
        if sent.get(one.number) != one.key:
            out.append(f"{one.number} of {one.key} was never sent")
        if one.epoch not in lanes:
            out.append(f"{one.number} is of epoch {one.epoch}, which there is none of")
        elif lane_of(one.key, lanes[one.epoch]) != one.lane:
            out.append(f"{one.number} of {one.key} is in lane {one.lane} by epoch {one.epoch}")
        if one.number in late:
            continue
        if one.number < last.get((one.lane, one.key), -1):
            out.append(f"{one.number} comes after {last[one.lane, one.key]} in lane {one.lane}")
        last[one.lane, one.key] = one.number
        newest.setdefault((one.key, one.epoch), []).append(one.number)
    for (key, epoch), numbers in newest.items():
        before = [number for other in range(epoch) for number in newest.get((key, other), [])]
        if before and min(numbers) < max(before):
            out.append(f"{key}: {min(numbers)} of epoch {epoch} is older than {max(before)} of an earlier one")
    return out


class Hands(Protocol):
    """What a life can do with keylane. Every call ends with an outcome, whatever happens in it."""

    def route(self, *, kill: tuple[str, int] | None = None, **how: Any) -> Outcome:
        """Route all there is; `how` are state, contract (its epoch) and options."""

    def verify(self) -> str:
        """The verdict of the certificate: certified, not proven, broken, or a refusal's text."""

    def migrate(self) -> Outcome:
        """Bring the target from the contract before the last to the last; a world of folders has no such life."""


# Steps.

#: Verbs with their weight in a life that is drawn.
VERBS: Final[dict[str, int]] = {
    "produce": 4,
    "route": 4,
    "kill": 4,
    "back up": 2,
    "restore": 2,
    "restore part": 2,
    "damage": 3,
    "hide": 1,
    "bring back": 1,
    "verify": 1,
    "other state": 1,
    "other clock": 1,
}
#: Those that only a life on a broker has.
ON_TOPICS: Final[dict[str, int]] = {
    "grow": 1,
    "migrate": 1,
    "mirror": 1,
    "open transaction": 1,
    "forget groups": 1,
    "lose state": 1,
    "other group": 1,
    "other address": 1,
}
#: How a refusal is known to be of what was planted: any of these words is in it.
CAUSES: Final[dict[str, str]] = {
    "older": r"older|newer|missing|damaged|another copy|does not belong|not the one|other records|begun|by hand",
    "damaged": r"damaged|missing|older|not the one|does not belong|other records|another format|Spark",
    "hidden": r"gone|away|missing|changed|no longer|not there|no files|no such|removed",
    "other state": r"another state has routed|records of this source",
    "changed contract": r"another version|--after|lane count|lanes of",
    "grown": r"lane count|lanes of",
    "gone": r"state of this route is gone|records of this source",
    "forgotten": r"forgotten|records of this source|another state",
}


@dataclass(frozen=True)
class Step:
    """A verb with a number that decides whatever is left open in it, so that any step can be left out of a life."""

    verb: str
    by: int

    def __str__(self) -> str:
        return f"{self.verb}:{self.by}"


def drawn(seed: int, steps: int, verbs: Mapping[str, int]) -> list[Step]:
    """A life: it begins with records, and ends with a route of all there is."""
    made = random.Random(seed)
    names, weights = list(verbs), list(verbs.values())
    middle = [Step(made.choices(names, weights)[0], made.randrange(1_000)) for _ in range(steps)]
    return [Step("produce", 2), *middle, Step("produce", 1), Step("route", 0)]


def new_seeds(count: int) -> list[int]:
    """Other ones in every run; those in the variable `LIFE_SEEDS` where it is set."""
    given = os.environ.get("LIFE_SEEDS", "").split()
    return [int(one) for one in given] or [random.SystemRandom().randrange(1 << 32) for _ in range(count)]


def read_steps(text: str) -> list[Step]:
    """Steps as they are printed: `produce:2 kill:17 route:0`; a space in a verb is an underscore."""
    return [Step(verb.replace("_", " "), int(by)) for verb, _, by in (one.partition(":") for one in text.split())]


def shown(steps: Sequence[Step]) -> str:
    """The inverse of `read_steps`."""
    return " ".join(str(step).replace(" ", "_") for step in steps)


def shrunk(steps: list[Step], fails: Callable[[list[Step]], bool], tries: int = 24) -> list[Step]:
    """The same life without steps that its failure does not need."""
    size = max(1, len(steps) // 2)
    while size and tries:
        at = 0
        while at < len(steps) and tries:
            fewer, tries = steps[:at] + steps[at + size :], tries - 1
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


# The machine.


class LifeError(AssertionError):
    """A life did not keep the promise: the steps up to there are in the text."""


def lived(live: Callable[[list[Step]], Counter[str]], seed: int, steps: list[Step], tries: int = 24) -> Counter[str]:
    """What a drawn life reached; one that fails is made smaller, and both are in the error."""

    def fails(some: list[Step]) -> bool:
        try:
            live(some)
        except LifeError:
            return True
        return False

    try:
        return live(steps)
    except LifeError as error:
        raise LifeError(f"seed {seed}: {error}\nsmaller: {shown(shrunk(steps, fails, tries))}") from error


@dataclass
class Life:
    """One life. `reached` counts verbs, faults with how they ended, and ways on."""

    world: Any
    hands: Hands
    reached: Counter[str] = field(default_factory=Counter)
    taken: list[Step] = field(default_factory=list)
    backup: Path | None = None
    hidden: list[Path] = field(default_factory=list)
    #: What a command may be refused for, and cannot be put right by a restore.
    planted: set[str] = field(default_factory=set)
    #: Whether known failures are left out, each held by a test: the certificate of a mirrored target by its first
    #: source, and the mirror of a topic that has grown.
    known_failures: bool = False
    mirrored: bool = False
    #: Plans that the route has not gone on behind yet, and the epoch that it is at.
    plans: list[str] = field(default_factory=list)
    at: int = 1
    #: What a route is run with from now on.
    how: dict[str, Any] = field(default_factory=dict)

    def run(self, steps: Sequence[Step]) -> None:
        """Take the steps, and judge the target after each."""
        for step in steps:
            self.taken.append(step)
            self.reached[f"verb {step.verb}"] += 1
            getattr(self, "do_" + step.verb.replace(" ", "_"))(step.by)
            self._check(self._faults())

    # Verbs of every world.

    def do_produce(self, by: int) -> None:
        self.world.produce(1 + by % 5)

    def do_route(self, _by: int) -> None:
        self._route_well()

    def do_kill(self, by: int) -> None:
        """End a run at a step. One that does not come to that step just ends."""
        self.world.produce(2)
        step, times = PROBES[by % len(PROBES)], 1 + by // len(PROBES) % 2
        outcome = self.hands.route(kill=(step, times), **self.how)
        if outcome.ended == "killed":
            self.reached[f"killed {step}"] += 1
        elif not outcome.done:
            self._check_cause(outcome)

    def do_back_up(self, _by: int) -> None:
        if self.world.state.exists():
            self.backup = self.world.aside / "backup"
            shutil.rmtree(self.backup, ignore_errors=True)
            shutil.copytree(self.world.state, self.backup)

    def do_restore(self, _by: int) -> None:
        """All of an older state."""

        def restore(state: Path, backup: Path) -> None:
            shutil.rmtree(state)
            shutil.copytree(backup, state)

        if self.backup is not None and self.world.state.exists():
            self._disturb("older", "whole", restore)

    def do_restore_part(self, by: int) -> None:
        """One folder of an older state."""
        part = PARTS[by % len(PARTS)]

        def restore(state: Path, backup: Path) -> None:
            shutil.rmtree(state / "_keylane" / part, ignore_errors=True)
            shutil.copytree(backup / "_keylane" / part, state / "_keylane" / part)

        if self.backup is not None and (self.backup / "_keylane" / part).exists() and self.world.state.exists():
            self._disturb("older", part, restore)

    def do_damage(self, by: int) -> None:
        """One file of the state."""
        files = sorted(path for path in (self.world.state / "_keylane").rglob("*") if path.is_file())
        if not files:
            return
        name, way = files[by % len(files)].relative_to(self.world.state), DAMAGES[by // len(files) % len(DAMAGES)]

        def damage(state: Path, backup: Path | None) -> None:
            if way != "older":
                spoil(state / name, way)
            elif backup is not None and (backup / name).exists():
                shutil.copy(backup / name, state / name)

        self._disturb("damaged", way, damage)

    def do_hide(self, by: int) -> None:
        """A file of the source is away, whether it was read or not."""
        folder = self.world.source_folder
        files = sorted(folder.iterdir()) if folder is not None else []
        if len(files) > 1 and len(self.hidden) < 2:
            path = files[by % len(files)]
            # One that no batch has asked for yet is late when it comes back.
            self.world.late |= numbers_of(path) - {one.number for one in self.world.found()}
            self.hidden.append(path.rename(self.world.aside / path.name))

    def do_bring_back(self, _by: int) -> None:
        for path in self.hidden:
            path.rename(self.world.source_folder / path.name)
        self.hidden = []

    def do_verify(self, _by: int) -> None:
        """The certificate agrees with the judge: of a target that is whole it is not broken, and nothing is lost."""
        self._route_well()
        verdict = self.hands.verify()
        self.reached[f"verify {verdict.split(':')[0]}"] += 1
        if "broken" in verdict and not self.hidden and not (self.mirrored and self.known_failures):
            raise self._failed(f"the certificate of a target that is right is {verdict}")

    def do_other_state(self, by: int) -> None:
        """A new state for a stream that was routed already must not write anything again."""
        self._route_well()
        before = Counter(self.world.found())
        if not before or self.world.source_folder is not None:
            return
        outcome = self.hands.route(**{**self.how, "state": self.world.other_state(by)})
        if outcome.done and Counter(self.world.found()) != before:
            raise self._failed("a new state has written records again")
        if not outcome.done:
            self._check_words("other state", outcome)
            self.reached["refused other state"] += 1
            self._take_way(outcome)

    def do_other_clock(self, by: int) -> None:
        """The machine's clock is another one for a run, by days."""
        outcome = self.hands.route(**self.how, clock=(by % 9 - 4) * 86_400.0)
        if not outcome.done:
            self._check_cause(outcome)

    # Verbs of a life on a broker.

    def do_grow(self, by: int) -> None:
        """Somebody adds partitions to the target; the route stops, and leaves them empty where that is asked."""
        self._route_well()
        self.world.grow(1 + by % 2)
        self.world.produce(2)
        if self.how.get("on_growth") != "keep":
            outcome = self.hands.route(**self.how)
            if outcome.done:
                raise self._failed("a topic that has grown by hand was routed into as if nothing were")
            self._check_words("grown", outcome)
            self.reached["refused grown"] += 1
        self.how["on_growth"] = "keep"
        self._route_well()

    def do_migrate(self, by: int) -> None:
        """keylane itself changes the target, now and then while a batch of the route is half written."""
        if self.how.get("on_growth") == "keep":
            return
        self._route_well()
        if by % 2:
            self.world.produce(3)
            outcome = self.hands.route(kill=("begun" if by % 4 == 1 else "written", 1), **self.how)
            self.reached[f"migrate behind a route that was {outcome.ended}"] += 1
        # Now and then twice, before the route looks again.
        for _ in range(1 + (by % 5 == 4)):
            self.world.read_by_group()
            self.world.epoch_begins(self.world.lanes_now() + 1 + by % 3)
            outcome = self.hands.migrate()
            if not outcome.done:
                raise self._failed(f"a migration that nothing stands against: {outcome.text}")
            self.plans.append(self.world.plan)
        self.reached[f"migrated {len(self.plans)} times"] += 1
        self._go_on(by)

    def do_mirror(self, by: int) -> None:
        """keylane copies the target into another topic, which the route goes on with."""
        if self.how.get("on_growth") == "keep" or (self.known_failures and len(self.world.lanes) > 1):
            return
        self._route_well()
        self.world.epoch_begins(max(1, self.world.lanes_now() - 1 + by % 3), anew=True)
        outcome = self.hands.migrate()
        if not outcome.done:
            raise self._failed(f"a mirror that nothing stands against: {outcome.text}")
        self.plans.append(self.world.plan)
        self.mirrored = True
        self._go_on(1 + by % 2)

    def _go_on(self, by: int) -> None:
        """The former contract, the new one, or the new one with a new state; then what the refusal prints."""
        self.world.produce(3)
        former, state = dict(self.how), self.how.get("state")
        self.how = {"epoch": max(self.world.lanes), **({"state": state} if state else {})}
        tried = (former, self.how, {**self.how, "state": "fresh"})[by % 3]
        outcome = self.hands.route(**tried)
        if outcome.done:
            raise self._failed("a route went on without knowing of the change")
        self._check_words("other state" if tried.get("state") == "fresh" else "changed contract", outcome)
        self.reached[f"refused after migrate, {('former', 'new', 'new state')[by % 3]}"] += 1
        self._take_way(outcome)
        self._route_well()

    def do_open_transaction(self, _by: int) -> None:
        """Somebody holds a transaction open in the target: the route writes all the same, the certificate waits."""
        with self.world.transaction():
            self.world.produce(2)
            self._route_well(judge=False)
            verdict = self.hands.verify()
            known = self.mirrored and self.known_failures
            if verdict.startswith("certified") or ("broken" in verdict and not known):
                raise self._failed(f"with a transaction open the certificate is {verdict}")
            self.reached["verify under a transaction"] += 1

    def do_lose_state(self, _by: int) -> None:
        """The folder of the state is gone: what the route has written must not be written again."""
        self._route_well()
        if not self.world.found():
            return
        lost = self.world.state.rename(self.world.aside / "lost")
        outcome = self.hands.route(**self.how)
        if outcome.done:
            raise self._failed("a route without its state went on")
        self._check_words("gone", outcome)
        self.reached["refused without a state"] += 1
        if self.world.state.exists():
            raise self._failed("a refused route has made a state")
        lost.rename(self.world.state)
        self._route_well()

    def do_forget_groups(self, _by: int) -> None:
        """The cluster forgets how far the route is."""
        self.world.forget_groups()
        self.do_other_state(0)

    def do_other_group(self, _by: int) -> None:
        """A reader's group commits offsets of source and target: nobody's business."""
        self.world.commit_elsewhere()
        self._route_well()

    def do_other_address(self, _by: int) -> None:
        """The same brokers by another name."""
        self._route_well()
        self.world.turn_address()
        self.world.produce(2)
        self._route_well()

    # Judgement.

    def _faults(self) -> list[str]:
        return faults(self.world.found(), self.world.sent, self.world.lanes, self.world.late)

    def _check(self, wrong: list[str]) -> None:
        if wrong:
            raise self._failed("; ".join(wrong[:5]))

    def _failed(self, what: str) -> LifeError:
        return LifeError(f"{what}\nafter {shown(self.taken)}")

    def _check_complete(self, *, judge: bool = True) -> None:
        """A run that ended well has written all that can be seen."""
        if not judge:
            return
        lost = self.world.visible() - {one.number for one in self.world.found()}
        if lost:
            raise self._failed(f"the run ended well, and {sorted(lost)[:9]} are not in the target")
        self._check(self._faults())

    def _route_well(self, *, judge: bool = True) -> None:
        """A run that has to end well; with a file away, at the latest when that is back."""
        outcome = self.hands.route(**self.how)
        if not outcome.done and self.hidden:
            self._check_words("hidden", outcome)
            self.reached["refused hidden"] += 1
            self.do_bring_back(0)
            outcome = self.hands.route(**self.how)
        if not outcome.done:
            raise self._failed(f"refused, and nothing was planted: {outcome.text}")
        self._check_complete(judge=judge)

    def _check_cause(self, outcome: Outcome) -> None:
        if self.hidden:
            self._check_words("hidden", outcome)
        else:
            raise self._failed(f"refused, and nothing was planted: {outcome.text}")

    def _check_words(self, fault: str, outcome: Outcome) -> None:
        if not re.search(CAUSES[fault], outcome.text, re.IGNORECASE):
            raise self._failed(f"{fault} was planted, and the refusal is of something else: {outcome.text}")

    def _disturb(self, fault: str, how: str, change: Callable[[Path, Any], None]) -> None:
        """Change the state, run, and where that is refused put back what was there, which then has to do.

        Damage that the run did not meet stays, and would be met at any later time: it is put back too.
        """
        state, right = self.world.state, self.world.aside / "right"
        shutil.rmtree(right, ignore_errors=True)
        shutil.copytree(state, right)
        change(state, self.backup)
        if not differing(state, right) and _names(state) == _names(right):
            return
        changed = {path: path.read_bytes() for path in differing(state, right)}
        before = {one.number for one in self.world.found()}
        outcome = self.hands.route(**self.how)
        if outcome.done:
            self.reached[f"passed {fault} {how}"] += 1
            self._check_complete()
            for path, content in changed.items():
                if path.exists() and path.read_bytes() == content:
                    shutil.copy(right / path.relative_to(state), path)
            return
        self.reached[f"refused {fault} {how}"] += 1
        if not self.hidden:
            self._check_words(fault, outcome)
        # A batch that was committed before may have been moved to its lanes; nothing else is.
        if gone := before - {one.number for one in self.world.found()}:
            raise self._failed(f"a refused run has removed {sorted(gone)[:9]}")
        shutil.rmtree(state)
        shutil.copytree(right, state)
        self._route_well()

    def _take_way(self, outcome: Outcome) -> None:
        """What a refusal prints is done, up to four times; it has to end well."""
        for _ in range(4):
            how = dict(self.how)
            if "finishes that batch" in outcome.text:
                self.reached["way --after, to finish a batch"] += 1
                how |= {"after": self.plans, "epoch": self.at}
            elif "--after" in outcome.text and getattr(self.world, "plan", None):
                self.reached["way --after"] += 1
                how |= {"after": self.plans}
            elif found := re.search(r"--state (\S+) continues", outcome.text):
                self.reached["way --state"] += 1
                how |= {"state": found[1]}
            elif "--state of that route" in outcome.text:
                self.reached["way --state"] += 1
            else:
                raise self._failed(f"a refusal without a way on: {outcome.text}")
            outcome = self.hands.route(**how)
            if outcome.done:
                self._check_complete()
                self.plans, self.at = [], max(self.world.lanes)
                return
        raise self._failed(f"the ways on lead nowhere: {outcome.text}")


# What both worlds share.


def numbers_of(path: Path) -> set[int]:
    """The numbers of the records of a file of JSON lines."""
    return {json.loads(line)["n"] for line in path.read_text().splitlines()}


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


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@dataclass
class FolderWorld:
    """A source of JSON lines, and a folder of lanes that is its own state."""

    folder: Path
    lane_count: int = 4
    sent: dict[int, str] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    files: int = 0

    def __post_init__(self) -> None:
        self.source_folder, self.state, self.aside = (self.folder / name for name in ("in", "lanes", "aside"))
        self.lanes = {1: self.lane_count}
        for path in (self.source_folder, self.aside):
            path.mkdir(parents=True)

    def produce(self, records: int) -> None:
        """One more file, younger than the last, and complete when it appears."""
        numbers = range(len(self.sent), len(self.sent) + records)
        self.sent |= {number: f"key-{number % KEYS}" for number in numbers}
        waiting = self.aside / "waiting"
        waiting.write_text("".join(f"{json.dumps({'k': self.sent[number], 'n': number})}\n" for number in numbers))
        os.utime(waiting, (_OLDEST + self.files,) * 2)
        waiting.rename(self.source_folder / f"f{self.files:04d}.jsonl")
        self.files += 1

    def visible(self) -> set[int]:
        """Of the files that are there."""
        return {number for path in self.source_folder.glob("*.jsonl") for number in numbers_of(path)}

    def found(self) -> list[Found]:
        """By the names of files and nothing else: lanes are folders, and files in them are in the order of names."""
        import pyarrow.parquet as pq

        return [
            Found(int(lane.name.partition("=")[2]), row["k"], row["n"])
            for lane in sorted(self.state.glob("stream=*/lane=*"))
            for file in sorted(lane.glob("*.parquet"))
            for row in pq.ParquetFile(file).read(["k", "n"]).to_pylist()
        ]


class TopicWorld:
    """A source of two partitions and a target of lanes, on a broker with two names; state and contracts in a folder."""

    source_folder = None

    def __init__(self, folder: Path, bootstrap: str, name: str, lanes: int = 4) -> None:
        self.folder, self.state, self.aside = folder, folder / "state", folder / "aside"
        self.aside.mkdir(parents=True)
        port = bootstrap.rpartition(":")[2]
        self.ways = [f"127.0.0.1:{port}", f"localhost:{port}"]
        self.source, self.target, self.lanes = f"{name}-src", f"{name}-dst", {1: lanes}
        self.sent: dict[int, str] = {}
        self.late: set[int] = set()
        self.plan = ""
        self.former = self.target
        self.states = 0
        self._admin = AdminClient({"bootstrap.servers": self.ways[0]})
        made = [NewTopic(self.source, 2, 1), NewTopic(self.target, lanes, 1), NewTopic(f"{self.target}.dlq", 1, 1)]
        for one in self._admin.create_topics(made, operation_timeout=60).values():
            one.result(60)
        self._producer = Producer({"bootstrap.servers": self.ways[0], "linger.ms": 5, "enable.idempotence": True})
        self.contract(1)

    def contract(self, epoch: int) -> Path:
        """The file of the contract of an epoch."""
        path = self.folder / f"{epoch}.yaml"
        spec = {"streams": [self.target], "lanes": self.lanes[epoch], "key": {"fields": ["key"]}}
        metadata = {"name": "life", "epoch": epoch}
        document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata}
        path.write_text(json.dumps({**document, "spec": {**spec, "partitioner": "kafka-java"}}))
        return path

    def address(self, name: str) -> str:
        """By the name that the broker goes by at present."""
        return f"kafka://{self.ways[0]}/{name}"

    def turn_address(self) -> None:
        """Let the broker go by its other name."""
        self.ways.reverse()

    def other_state(self, _by: int) -> str:
        """The folder of a state that there is none of."""
        self.states += 1
        return str(self.folder / f"state-{self.states}")

    def produce(self, records: int) -> None:
        """Each key in one partition, as producers would have it."""
        for number in range(len(self.sent), len(self.sent) + records):
            key = self.sent[number] = f"key-{number % KEYS}"
            self._producer.produce(self.source, str(number).encode(), key.encode(), lane_of(key, 2))
        assert self._producer.flush(60) == 0

    def visible(self) -> set[int]:
        """All that was sent."""
        return set(self.sent)

    def found(self) -> list[Found]:
        """By a consumer at read_committed, with the epoch that the last header of its name has."""
        own = {"group.id": "life", "enable.auto.commit": False, "isolation.level": "read_committed"}
        soon = {"enable.partition.eof": True, "fetch.wait.max.ms": 10, "auto.offset.reset": "earliest"}
        reader = Consumer({"bootstrap.servers": self.ways[0], **own, **soon})
        try:
            waiting = set(reader.list_topics(self.target, timeout=60).topics[self.target].partitions)
            reader.assign([TopicPartition(self.target, lane, 0) for lane in waiting])
            out = []
            while waiting:
                message: Any = reader.poll(60)
                assert message is not None, "a lane does not come to its end"
                if message.error() is not None:
                    waiting.discard(message.partition())
                    continue
                epoch = dict(message.headers() or ()).get("keylane.epoch", b"1")
                found = Found(message.partition(), message.key().decode(), int(message.value()), int(epoch))
                out.append((message.partition(), message.offset(), found))
            return [found for *_, found in sorted(out)]
        finally:
            reader.close()

    def grow(self, more: int) -> None:
        """Add partitions to the target."""
        now = len(self._admin.list_topics(self.target, timeout=60).topics[self.target].partitions)
        self._admin.create_partitions([NewPartitions(self.target, now + more)])[self.target].result(60)

    def lanes_now(self) -> int:
        """By the last contract."""
        return self.lanes[max(self.lanes)]

    def epoch_begins(self, lanes: int, *, anew: bool = False) -> None:
        """The next contract, and the name of its plan; `anew` is for another topic, in which all is of that epoch."""
        epoch = max(self.lanes) + 1
        self.former = self.target
        if anew:
            self.lanes, self.target = {}, f"{self.target}-{epoch}"
            (made,) = self._admin.create_topics([NewTopic(f"{self.target}.dlq", 1, 1)]).values()
            made.result(60)
        self.lanes[epoch] = lanes
        self.contract(epoch)
        self.plan = str(self.folder / f"{epoch}.plan.json")

    def read_by_group(self) -> None:
        """The group of a reader has applied all that is in the target."""
        self._commit(self.target, "reader")

    def commit_elsewhere(self) -> None:
        """Somebody else's group commits in source and target."""
        for topic in (self.source, self.target):
            self._commit(topic, "stranger")

    def _commit(self, topic: str, group: str) -> None:
        consumer = Consumer({"bootstrap.servers": self.ways[0], "group.id": group, "enable.auto.commit": False})
        try:
            lanes = [TopicPartition(topic, lane) for lane in consumer.list_topics(topic, 60).topics[topic].partitions]
            ends = [consumer.get_watermark_offsets(one, 60)[1] for one in lanes]
            at = [TopicPartition(topic, one.partition, end) for one, end in zip(lanes, ends, strict=True)]
            consumer.commit(offsets=at, asynchronous=False)
        finally:
            consumer.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One of a stranger, open in the first lane of the target, and aborted in the end."""
        own = {"transactional.id": f"stranger-{self.target}", "transaction.timeout.ms": 60_000}
        producer = Producer({"bootstrap.servers": self.ways[0], **own})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(self.target, b"0", b"stranger", 0)
        producer.flush(60)
        yield
        producer.abort_transaction(60)

    def forget_groups(self) -> None:
        """What the broker does after `offsets.retention.minutes`, to the groups of keylane."""
        listed = self._admin.list_consumer_groups().result(60).valid
        names = [one.group_id for one in listed if one.group_id.startswith("keylane-")]
        for done in self._admin.delete_consumer_groups(names).values() if names else ():
            done.result(60)


def report(reached: Mapping[str, int]) -> Iterator[str]:
    """What was reached, by verb and fault, a line each."""
    for name in sorted(reached):
        yield f"{reached[name]:5} {name}"
