"""The verdict on a history: violations with their positions, counts of everything, and what could not be checked.

What one bucket came to is `BucketResult`. Results add up, in any order, to the same sum, which is why this machine and
Spark come to the same verdict. The rules: `rules`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Rule: TypeAlias = Literal[
    "lost",
    "invented",
    "duplicated",
    "changed",
    "reordered",
    "split_keys",
    "misrouted",
    "inconsistent_offsets",
    "offset_gaps",
    "unsorted",
    "stale_epochs",
    "two_owners",
    "early_applies",
]
#: Every rule, and what it needs in a history to be checked.
RULES: Final[dict[Rule, str]] = {
    "lost": "no sends that are known to have succeeded",
    "invented": "no sends, or no reads",
    "duplicated": "no reads",
    "changed": "no digests or times of records on both sides",
    "reordered": "no reads of records whose order is kept",
    "split_keys": "no reads of records whose order is kept",
    "misrouted": "no expected lanes",
    "inconsistent_offsets": "no reads",
    "offset_gaps": "offsets are not said to be dense, or no reads",
    "unsorted": "no places of records in their lanes",
    "stale_epochs": "no epochs in reads or ownerships",
    "two_owners": "no ownerships",
    "early_applies": "no applies",
}
#: What a certificate says.
Outcome: TypeAlias = Literal["certified", "not proven", "broken"]
Mode: TypeAlias = Literal["exactly-once", "at-least-once"]


def outcome_of(*, broken: bool, unproven: bool) -> Outcome:
    """Broken before anything else; certified only where all was checked."""
    return "broken" if broken else "not proven" if unproven else "certified"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a history is judged.

    `mode` is exactly-once, each record once; or at-least-once, where records may repeat, but only as a rewind that goes
    over the same records of the same lane again without a gap. With `rereads` the same offset may be read many times,
    by several consumers; without, a log is read once. `keep` is how many violations of each rule are kept.
    `sends_complete` means that all sends are in the history, so that one without any has sent nothing. `dense` means
    that the offsets of every lane, and of the dead letters, are 0, 1, 2 and so on. `by_key` means that a lane keeps the
    order of each key only, so that a rewind goes over the records of one key again.
    """

    mode: Mode = "exactly-once"
    rereads: bool = False
    keep: int = 10
    sends_complete: bool = False
    dense: bool = False
    by_key: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing that is wrong, and where: in the lanes, or, for what is in no lane, at its sender."""

    rule: Rule
    generation: int
    stream: str
    lane: int
    offset: int
    writer: str
    seq: int
    key: str
    detail: str


@dataclass(frozen=True, slots=True)
class Unproven:
    """A rule that was not checked on all records: on how many not, None where that is not known; why; what to do."""

    rule: Rule
    records: int | None
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True, order=True)
class LaneSeen:
    """What was read of one lane: how many records, from which offset to which."""

    generation: int
    stream: str
    lane: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What one bucket came to: violations by rule, rows looked at by rule, other numbers, the first violations."""

    counts: Counter[str] = field(default_factory=Counter)
    looked_at: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    violations: tuple[Violation, ...] = ()
    lanes: tuple[LaneSeen, ...] = ()

    def as_text(self) -> str:
        """As one line of JSON, for a frame of text."""
        values = [[list(asdict(v).values()) for v in group] for group in (self.violations, self.lanes)]
        return json.dumps([self.counts, self.looked_at, self.facts, *values])

    @classmethod
    def from_text(cls, text: str) -> BucketResult:
        """The inverse of `as_text`."""
        counts, looked_at, facts, violations, lanes = json.loads(text)
        return cls(
            Counter(counts),
            Counter(looked_at),
            Counter(facts),
            tuple(Violation(*one) for one in violations),
            tuple(LaneSeen(*one) for one in lanes),
        )


def added(founds: Iterable[BucketResult], keep: int) -> BucketResult:
    """All of them as one; of each rule the first violations by position, whatever order the buckets came in."""
    counts, looked_at, facts = Counter[str](), Counter[str](), Counter[str]()
    kept: dict[str, list[Violation]] = {}
    lanes: dict[tuple[int, str, int], LaneSeen] = {}
    for one in founds:
        counts.update(one.counts)
        looked_at.update(one.looked_at)
        facts.update(one.facts)
        for violation in one.violations:
            kept.setdefault(violation.rule, []).append(violation)
        for rule, several in kept.items():
            kept[rule] = sorted(several)[:keep]
        for lane in one.lanes:
            _add_lane(lanes, lane)
    first = tuple(violation for rule in RULES for violation in kept.get(rule, ()))
    return BucketResult(counts, looked_at, facts, first, tuple(sorted(lanes.values())))


def _add_lane(lanes: dict[tuple[int, str, int], LaneSeen], one: LaneSeen) -> None:
    at = (one.generation, one.stream, one.lane)
    if (before := lanes.get(at)) is not None:
        one = LaneSeen(*at, before.records + one.records, min(before.first, one.first), max(before.last, one.last))
    lanes[at] = one


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history was judged to be.

    `counts` has every rule; `unchecked` names those that could not be checked, and why. `facts` are numbers that
    are right or wrong by no rule: sends by outcome, dead letters, repeats that at-least-once allows.
    """

    mode: Mode
    counts: dict[Rule, int]
    unchecked: dict[Rule, str]
    facts: dict[str, int]
    violations: tuple[Violation, ...]
    lanes: tuple[LaneSeen, ...]

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not any(self.counts.values())

    @property
    def records(self) -> int:
        """Records read in all lanes."""
        return self.facts.get("reads", 0)


def verdict_of(found: BucketResult, settings: Settings) -> Verdict:
    """The verdict. Without a single send nothing can be called lost or invented, unless there were none to be had."""
    silent = set() if found.facts["sends"] or settings.sends_complete else {"lost", "invented"}
    unchecked = {rule: why for rule, why in RULES.items() if rule in silent or not found.looked_at[rule]}
    return Verdict(
        settings.mode,
        {rule: 0 if rule in unchecked else found.counts[rule] for rule in RULES},
        unchecked,
        dict(found.facts),
        tuple(one for one in found.violations if one.rule not in unchecked),
        found.lanes,
    )
