"""What an answer of keylane claims of a stream, and which of its claims are false, given the truth.

An answer is taken as values (`Answer`, `Named`): how they are read from a document of keylane is `face`'s. The judge
places keys by the grammar's own hashes and folds. Silence is never false: "unknown", "cannot be told from", a refusal.

    falsehoods(case, answer)            of who wrote, in which shares, on how many lanes, since when, what to restart
    false_contract(case, place)         of a contract that was written, by keys that were not in the data
    is_named(case, answer)              whether all writers are named, which is what can be asked beside silence
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests.worlds.producers import LISTED, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from tests.worlds.producers import Case

    #: The lane of each key by a contract; None where it cannot be asked for keys of this column.
    Place = Callable[[Sequence[Any]], NDArray[np.int64] | None]

#: A stated share may be off by so much, beside what its sample allows: so many standard errors.
SHARE, ERRORS = 0.02, 4.0
#: "One writer" is false where so many records, and this share of them, are not where it puts them.
VISIBLE, VISIBLE_SHARE = 30, 0.005
#: A contract is that of a mixed stream where its writer has at least about half.
LEADING: Final = 0.45


@dataclass(frozen=True, slots=True)
class Named:
    """One writer of an answer; without a rule: the rest that no rule explains.

    `also` are partitioners of which is claimed that they would have written the same, `not_told_from` rules from which
    this one cannot be told. Rows count from 1.
    """

    rule: Writer | None
    share: float
    also: tuple[Writer, ...] = ()
    not_told_from: tuple[Writer, ...] = ()
    #: Whether it is said that the writer knows another lane count, and has to be restarted whatever it does now.
    restart: bool = False
    first_row: int | None = None
    last_row: int | None = None
    first_time: int | None = None
    last_time: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What `identify` says; `lanes_from` is given, proven or seen."""

    verdict: str
    lanes: int
    lanes_from: str
    writers: tuple[Named, ...] = ()


def listed(name: str, encoding: str, lanes: int) -> Writer:
    """The rule that a name of keylane's contract stands for."""
    for (hash_, fold), names in LISTED.items():
        # Spark hashes numbers as numbers.
        if name in names and (hash_ == "spark-number") == (name == "spark-hash" and encoding not in {"utf8", "raw"}):
            return Writer(hash_, fold, encoding, lanes)
    raise LookupError(f"the grammar does not know {name}")


def falsehoods(case: Case, answer: Answer) -> list[str]:
    """Everything in the answer that is not so."""
    truth = _Truth(case)
    found = [*truth.of_lanes(answer), *truth.of_verdict(answer)]
    for named in answer.writers:
        found += truth.of_writer(named)
        found += truth.of_times(named, answer)
    return [*found, *truth.of_shares(answer)]


def false_contract(case: Case, place: Place) -> str | None:
    """What is wrong with a contract that was written, by where it puts keys that the data did not have."""
    return _Truth(case).of_contract(place)


def is_named(case: Case, answer: Answer) -> bool:
    """Whether the answer names every writer, as the one writer where there is one, its share within two points."""
    truth = _Truth(case)
    if case.recipe.keyless or case.recipe.hot or not truth.groups:
        return False
    if len(truth.groups) == 1 and answer.verdict != "one-writer":
        return False
    claimed: dict[int, float] = {}
    for named in answer.writers:
        if named.rule is not None and (mine := truth.matched(named.rule)):
            claimed[mine[0]] = named.share
    return all(abs(claimed.get(group[0], 2.0) - truth.share(group)) <= SHARE for group in truth.groups)


def alike(case: Case) -> list[list[int]]:
    """The writers that placed records, those together that place every key of the case in the same lane."""
    return _Truth(case).groups


class _Truth:
    """One case, asked again and again."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.keyed = case.keyed
        self.wrote = [n for n in range(len(case.writers)) if (case.origin == n).any()]
        self.population = (*case.distinct, *case.fresh)
        self.places = {n: case.writers[n].place(self.population) for n in self.wrote}
        self.own = {n: self.places[n][case.codes[self.keyed]] for n in self.wrote}
        self.lanes = case.lanes[self.keyed]
        self.groups: list[list[int]] = []
        for n in self.wrote:
            same = [group for group in self.groups if np.array_equal(self.places[group[0]], self.places[n])]
            if same:
                same[0].append(n)
            else:
                self.groups.append([n])

    def share(self, writers: list[int]) -> float:
        """The share of keyed records that these writers placed."""
        return sum(self.case.share(n) for n in writers)

    def matched(self, rule: Writer) -> list[int]:
        """The writers that place every key of the population as this rule does."""
        try:
            placed = rule.place(self.population)
        except (ValueError, OverflowError):  # keys that these bytes cannot hold: nobody wrote them so
            return []
        return [n for n, lanes in self.places.items() if np.array_equal(lanes, placed)]

    def of_lanes(self, answer: Answer) -> Iterator[str]:
        case = self.case
        if len(self.lanes) and answer.lanes <= self.lanes.max():
            yield f"{answer.lanes} lanes, and there are records in lane {self.lanes.max()}"
        if case.given is not None and answer.lanes != case.given:
            yield f"{answer.lanes} lanes, where {case.given} were given"
        if answer.lanes_from == "given" and case.given is None:
            yield "a lane count is called given, and none was"
        # A writer that leaves a lane out places by one lane fewer, whatever the stream has.
        counts = {case.count} | {case.count - 1 for n in self.wrote if case.writers[n].fold == "not-the-last"}
        # Nor can another count be wrong by whose rule every key lies where it does.
        rules = [named.rule for named in answer.writers if named.rule and named.rule.lanes == answer.lanes]
        counts |= {rule.lanes for rule in rules if case.future is not None and self.matched(rule) == self.wrote[-1:]}
        if answer.lanes_from == "proven" and answer.lanes not in counts:
            yield f"{answer.lanes} lanes are proven, and there are {case.count}"

    def of_verdict(self, answer: Answer) -> Iterator[str]:
        if not len(self.lanes):
            return
        if answer.verdict == "one-writer":
            rules = [named.rule for named in answer.writers if named.rule]
            for rule in rules[:1]:
                strays = self.strays(rule)
                if strays >= max(VISIBLE, VISIBLE_SHARE * len(self.lanes)):
                    yield f"one writer, {rule}: {strays} of {len(self.lanes)} records are not where it puts them"
        by_rule = bool((self.case.origin[self.keyed] >= 0).all())
        if answer.verdict == "mixed" and by_rule and len(self.groups) == 1:
            yield "mixed writers, where one placed every record"

    def strays(self, rule: Writer) -> int:
        """The records that are not where a rule puts them."""
        try:
            placed = rule.place(self.case.distinct)
        except (ValueError, OverflowError):
            return len(self.lanes)
        return int((placed[self.case.codes[self.keyed]] != self.lanes).sum())

    def of_writer(self, named: Named) -> Iterator[str]:
        if named.rule is None:
            return
        mine = self.matched(named.rule)
        if not mine and not any(self.matched(other) for other in named.not_told_from):
            yield f"nobody wrote by {named.rule} (claimed: {named.share:.1%})"
            return
        for other in named.also:
            try:
                alike = np.array_equal(other.place(self.case.distinct), named.rule.place(self.case.distinct))
            except (ValueError, OverflowError):
                alike = False
            if not alike:
                yield f"{other} would not have written the same as {named.rule}"

    def of_times(self, named: Named, answer: Answer) -> Iterator[str]:
        """Since when and until when, and whether it is still there to be restarted.

        The times are those of records that no other writer of the answer explains: where a true one is not named, some
        of its records lie where this one puts them.
        """
        case = self.case
        mine = self.matched(named.rule) if named.rule else []
        rows = np.flatnonzero(np.isin(case.origin, mine))
        if not len(rows):
            return
        if named.restart and rows[-1] < 0.9 * len(case.keys):
            yield f"{named.rule} is to be restarted, and has not written since row {rows[-1] + 1}"
        said = {n for one in answer.writers if one.rule for n in self.matched(one.rule)}
        if case.recipe.keyless or case.recipe.hot or said != set(self.wrote):
            return
        if named.first_row is not None and named.first_row - 1 < rows[0]:
            yield f"{named.rule} since row {named.first_row}, and it began at row {rows[0] + 1}"
        if named.last_row is not None and named.last_row - 1 > rows[-1]:
            yield f"{named.rule} until row {named.last_row}, and it ended at row {rows[-1] + 1}"
        if case.times is None:
            return
        # Times are said by the second.
        first, last = (int(case.times[row]) // 1_000_000 * 1_000_000 for row in (rows[0], rows[-1]))
        if named.first_time is not None and named.first_time < first:
            yield f"{named.rule} since {named.first_time}, and it began at {first}"
        if named.last_time is not None and named.last_time > last:
            yield f"{named.rule} until {named.last_time}, and it ended at {last}"

    def of_shares(self, answer: Answer) -> Iterator[str]:
        """Each share against the records that were placed so; only where every named writer is one that wrote."""
        if not len(self.lanes):
            return
        left = 1.0
        spent: set[int] = set()
        for named in answer.writers:
            if named.rule is None:
                continue
            mine = [n for n in self.matched(named.rule) if n not in spent]
            if not mine:
                return
            spent |= set(mine)
            truth = self.share(mine)
            left -= truth
            low, high = self.allowed(truth, mine)
            if not low <= named.share <= high:
                yield f"{named.rule} wrote {named.share:.1%}, and it was {truth:.1%} ({low:.1%} to {high:.1%} allowed)"
        rest = sum(named.share for named in answer.writers if named.rule is None)
        if spent and answer.verdict != "unknown":
            low, high = self.allowed(1 - left, sorted(spent))
            if not 1 - high <= rest <= 1 - low:
                yield f"{rest:.1%} are not explained, and it was {left:.1%} ({1 - high:.1%} to {1 - low:.1%} allowed)"

    def allowed(self, share: float, mine: list[int]) -> tuple[float, float]:
        """What a good estimate of a share may be.

        Records that two writers would have put in the same lane do not tell which of them it was: the fewer do, the
        larger the error; where a key has one writer, its records count together. A hot key that is placed by itself may
        lie where the rule puts it.
        """
        case = self.case
        fits = np.any([self.own[n] == self.lanes for n in mine], axis=0)
        others = np.isin(case.origin[self.keyed], mine, invert=True)
        alike = fits & others
        told = max(0.05, 1 - (alike.sum() / max(1, others.sum())))
        error = sqrt(max(share * (1 - share), 1 / len(self.lanes)) / len(self.lanes)) / told
        if case.recipe.mixed_by == "key" or case.recipe.hot:
            # Nobody can tell whose a key is that another writer would have put in the same lane.
            other = np.any([self.own[n] == self.lanes for n in self.wrote if n not in mine] or [others], axis=0)
            unsure = np.bincount(case.codes[self.keyed][fits & other]) / len(self.lanes)
            error += sqrt(float((unsure**2).sum()) * max(share * (1 - share), 0.05))
        more = float(alike.mean()) if case.recipe.hot or case.recipe.mixed_by == "time" else 0.0
        return share - SHARE - ERRORS * error, share + SHARE + ERRORS * error + more

    def of_contract(self, place: Place) -> str | None:
        case = self.case
        fresh = place(case.fresh)
        if fresh is None:
            return "the contract cannot place keys of the column that it was made from"
        good = [group[0] for group in self.groups if self.share(group) >= LEADING]
        if case.recipe.mixed_by == "time":
            good = self.wrote[-1:]
        for n in good:
            if np.array_equal(fresh, case.writers[n].place(case.fresh)):
                return None
        agree = max((float((fresh == case.writers[n].place(case.fresh)).mean()) for n in self.wrote), default=0.0)
        return f"the contract puts {1 - agree:.1%} of keys that come later in another lane than any writer of half does"
