"""Find which client's partitioner wrote this data, and whether a second writer disagrees: the answer and its words.

How: one pass keeps a sample, spread evenly over all rows (`placed`). A mixture of writers and a rest is fitted to its
distinct keys, over every hash, seed, fold, form of the key's bytes and lane count, and shown only where it holds
(`mixture`). Shares are those of the rows.

Every part of an answer is a claim. A writer is named, a share is given, a count is called proven where chance and
related rules are excluded; rules that place all of these keys alike are named with the lane count at which they part;
otherwise the answer is `unknown`, with what was excluded and what would settle it.

The count that a writer placed by is one thing, the stream's lane count another: a record in lane 63 is proof of 64
lanes, whatever all the others fit. A given count is a fact. Since when each writer wrote, and which keys: `trace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane import numbers
from keylane.contract.partitioners import FACTS
from keylane.measure.mixture import FEWEST, PARTIAL, Mixture, Placer, explained, shares_of
from keylane.measure.placed import LONGEST, Pairs, Sample, pairs_of
from keylane.measure.rules import (
    client_rules,
    future_keys,
    hash_name,
    named,
    narrowed,
    parts_at,
    same_ahead,
    spelled,
)
from keylane.placement.fold import lane_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.measure.rules import Rule
    from keylane.placement.ranges import KeySpace

#: Unexplained rows below this share are strays, not a writer; and so few rows are, up to a larger share.
STRAY: Final = 1e-3
FEW_ROWS: Final = 3
STRAY_OF_FEW: Final = 0.05
#: A share is off by no more, beside what the sample allows.
SHARE_ERROR: Final = 0.02
#: A writer of fewer of the records is none that a sample can show.
LEAST: Final = 1e-4
#: A contract is written where its writers explain this share of the records.
ENOUGH: Final = 0.9
#: What stands for the writer of records that no rule explains.
UNEXPLAINED: Final = "unexplained"
#: Unexplained rows of fewer keys than this are hot keys of a contract, not a writer's.
FEW_KEYS: Final = 30
_NUMBERS: Final = ("int32be", "int64be")
#: What future keys are drawn by: the same for the same data.
_SEED: Final = 20_261

Verdict = Literal["one-writer", "mixed", "unknown"]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another rule that places all of a writer's keys as it does."""

    rule: Rule
    #: The next higher lane count at which the two part; None where they do not up to twice the count.
    parts_at: int | None
    #: Whether they place keys to come otherwise on this very count.
    parts_now: bool

    @property
    def name(self) -> str:
        """The partitioner that it is, otherwise its parts, with clients that are known to place so."""
        known = ", ".join(dict.fromkeys(one.client for one in client_rules(self.rule)[:3]))
        return next(iter(named(self.rule)), spelled(self.rule) + (f" ({known})" if known else ""))

    @property
    def is_known(self) -> bool:
        """Whether anybody is known to place so."""
        return bool(named(self.rule) or client_rules(self.rule))


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer found; without a partitioner a rule that no contract can name, and without a rule no known one."""

    partitioner: str | None
    share: float
    encoding: str | None = None
    also: tuple[str, ...] = ()
    fitting_keys: int = 0
    chance: float | None = None
    setting: str | None = None
    #: The lane count this writer placed by, where it is not the one of the answer: written before the stream grew.
    lanes: int | None = None
    rule: Rule | None = None
    #: Clients that are known to place so, where no partitioner is named after them.
    clients: tuple[str, ...] = ()
    not_told_from: tuple[Rival, ...] = ()

    @property
    def name(self) -> str:
        """The partitioner, otherwise the rule by its parts; `unexplained` for records that no rule explains."""
        return self.partitioner or (spelled(self.rule) if self.rule else UNEXPLAINED)


@dataclass(frozen=True, slots=True)
class Identification:
    """The answer, with its evidence."""

    verdict: Verdict
    writers: tuple[Writer, ...]
    lanes: int
    lanes_from: Literal["given", "proven", "seen"]
    rows: int
    keyed_rows: int
    null_rows: int
    empty_rows: int
    distinct_keys: int
    unexplained_rows: int
    notes: tuple[str, ...] = ()
    #: Rows whose key is too long to be compared.
    long_rows: int = 0
    #: Whether the keys were given as texts that spell numbers, where their writer hashed the numbers.
    spelled_numbers: bool = False
    #: A lane count that explains the data as well as `lanes` does, as where only some lanes were looked at.
    rival_lanes: int | None = None
    #: Whether the leading writer has ended while another goes on: set by who has read the rows in their order.
    leading_ended: bool = False

    @property
    def leading(self) -> int:
        """The writer that the others should agree with: the largest of those that place by today's lane count."""
        known = [n for n, writer in enumerate(self.writers) if writer.partitioner or writer.rule]
        today = [n for n in known if self.writers[n].lanes is None]
        return (today or known or [0])[0]

    @property
    def explained(self) -> float:
        """The share of the rows that the writers explain."""
        return 1 - sum(writer.share for writer in self.writers if not (writer.partitioner or writer.rule))

    @property
    def no_contract(self) -> tuple[str, str] | None:
        """Why no contract follows from the data, and what would settle it; None where one does."""
        if not self.writers or self.verdict == "unknown":
            return "; ".join(self.notes) or "no rule explains the lanes", "a larger sample, of more distinct keys"
        first = self.writers[self.leading]
        apart = next((rival for rival in first.not_told_from if rival.parts_now), None)
        found = None
        if self.explained < ENOUGH:
            most, least = numbers.share(self.explained), numbers.share(ENOUGH)
            why = f"known rules explain {most} of the records, and {least} are needed"
            found = why, "the records of one producer, or of less time"
        elif first.lanes is not None:
            why = f"all records were placed on {first.lanes} of {self.lanes} lanes"
            found = why, "records from after the growth"
        elif self.leading_ended:
            why = f"{first.name} wrote most of the records, and has ended while another writer goes on"
            found = why, "records from after the change"
        elif self.rival_lanes is not None:
            why = f"{self.rival_lanes} lanes explain it as well as {self.lanes}"
            found = why, "--lanes N, or records of all lanes and of more distinct keys"
        elif apart is not None:
            why = f"{first.name} cannot be told from {apart.name}, which would place other keys elsewhere"
            found = why, "a sample of more distinct keys"
        elif first.partitioner is None:
            clients = f"; used by {', '.join(first.clients)}" if first.clients else ""
            found = (
                f"no contract can name its rule: {first.name}{clients}",
                "the setting that identify prints, and new data",
            )
        elif self.spelled_numbers:
            why = f"keys were placed as numbers ({first.encoding}), and the column holds them as text"
            found = why, "the same data with the key as whole numbers, in Parquet for instance"
        return found


def identify(
    batches: Iterable[pa.RecordBatch], lanes: int | None = None, space: KeySpace | None = None
) -> Identification:
    """Identify the writers of batches whose first column is the key and whose second is the lane.

    `lanes` is the stream's lane count, where it is known: a lane beyond it is an error. `space` are the lanes as
    ranges, where a stream has such and they may be unequal.
    """
    given = None if lanes is None else lane_count(lanes)
    sample = Sample.of(batches, given)
    keys, at = sample.table()
    if not len(at):
        return _answer(sample, None, ["no row has a key and a lane"])
    pairs = pairs_of(keys, at)
    found = explained(pairs, sample.highest, given, space)
    if not found.placers:
        return _answer(sample, pairs, list(_why_not(sample, found, pairs)))
    return _named(sample, found, pairs, keys, at)


def _answer(sample: Sample, pairs: Pairs | None, notes: list[str], **known: Any) -> Identification:
    facts: dict[str, Any] = {
        "verdict": "unknown",
        "writers": (),
        "lanes": sample.given or (sample.highest + 1 if sample.rows else 0),
        "lanes_from": "given" if sample.given else "seen",
        "unexplained_rows": sample.keyed,
    } | known
    return Identification(
        **facts,
        rows=sample.rows,
        keyed_rows=sample.keyed,
        null_rows=int(sample.nulls.sum()),
        empty_rows=int(sample.empties.sum()),
        distinct_keys=pairs.distinct if pairs else 0,
        long_rows=sample.long,
        notes=(*notes, *_set_aside(sample)),
    )


def _named(sample: Sample, found: Mixture, pairs: Pairs, keys: pa.Array, at: NDArray[np.int64]) -> Identification:
    """The answer where a mixture holds: writers with their shares of the rows."""
    top = max(placer.lanes for placer in found.placers)
    lanes = sample.given or max(top, sample.highest + 1)
    lanes_from = "given" if sample.given else "proven" if found.proven and top == lanes else "seen"
    predicted = np.array([placer.rule.lanes(keys, placer.lanes) for placer in found.placers])
    fits = predicted == at
    none_fit = ~fits.any(axis=0)
    share, _, _ = shares_of(fits, at, lanes)
    few = len(pc.unique(keys.filter(pa.array(none_fit)))) if none_fit.any() else 0
    if few < FEW_KEYS:
        share = _but_for_few_keys(share, keys, none_fit)
    ahead = future_keys(pairs.keys, np.random.default_rng(_SEED))
    if share[:-1].min() < LEAST:
        return _answer(sample, pairs, list(_why_not(sample, found, pairs)))
    if lanes == 2 and few >= FEW_KEYS and float(share[-1]) - float(none_fit.mean()) > SHARE_ERROR:
        names = ", ".join(next(iter(named(placer.rule)), spelled(placer.rule)) for placer in found.placers)
        part = numbers.share(1 - float(none_fit.mean()))
        why = f"{names} places {part} of the records as they are seen; on two lanes the others may be of any rule"
        return _answer(sample, pairs, [f"{why}, so that its share cannot be told"])
    if not found.scatters and (apart := _between_writers(share, fits, keys)) > SHARE_ERROR:
        why = (
            f"several writers, each with keys of its own, and heavy keys that they place alike: {numbers.share(apart)}"
        )
        return _answer(sample, pairs, [f"{why} of the records may be of one or the other"])
    writers = [_writer(sample, found, number, float(part), lanes, ahead) for number, part in enumerate(share[:-1])]
    writers.sort(key=lambda writer: -writer.share)
    rest = float(share[-1])
    left = round(float(none_fit.mean()) * sample.keyed)
    strays = _are_strays(rest, sample.keyed)
    shown = writers if strays else [*writers, Writer(None, rest)]
    rival = found.rival_count if lanes_from == "seen" and top == lanes else None
    notes = list(_notes(sample, writers, lanes, lanes_from, rival))
    if strays and left:
        match = numbers.agree(left, "matches", "match")
        notes.insert(
            0, f"about {numbers.plural(left, 'stray row')} {match} no known rule: too few to be a second writer"
        )
    elif left and few < FEW_KEYS:
        notes.insert(
            0,
            f"the unexplained rows are of {numbers.plural(few, 'key')}: a pin, a spread or another rule for hot keys?",
        )
    return _answer(
        sample,
        pairs,
        notes,
        verdict="mixed" if len(shown) > 1 else "one-writer",
        writers=tuple(shown),
        lanes=lanes,
        lanes_from=lanes_from,
        unexplained_rows=left,
        rival_lanes=rival,
        spelled_numbers=any(writer.encoding in _NUMBERS for writer in writers) and not pa.types.is_integer(keys.type),
    )


def _but_for_few_keys(share: NDArray[np.float64], keys: pa.Array, none_fit: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Shares where only a few keys are placed by no rule: such a key's records are all of another making.

    A mixture takes the records of a lane for those of its rest in proportion; but a pinned key shares its lane with
    keys that the writers placed. A key that fits more often than not has a few strays.
    """
    code = pc.dictionary_encode(keys).indices.to_numpy()
    missed = np.bincount(code, none_fit) / np.maximum(1, np.bincount(code))
    rest = np.where(missed[code] > 0.5, True, none_fit)
    left = float(rest.mean())
    total = float(share[:-1].sum())
    return np.append(np.round(share[:-1] * ((1 - left) / total if total else 0.0), 12), left)


def _between_writers(share: NDArray[np.float64], fits: NDArray[np.bool_], keys: pa.Array) -> float:
    """How far shares may be off where each key has one writer: keys that several writers place alike go either way.

    Three deviations of their records' share, each key by itself; of keys that came once that is the sample's own error.
    """
    both = np.flatnonzero(fits.sum(axis=0) > 1)
    if not len(both):
        return 0.0
    code = pc.dictionary_encode(keys.take(pa.array(both))).indices.to_numpy()
    rows = np.bincount(code).astype(float)
    largest = float(share[:-1].max())
    return 3 * float(np.sqrt((rows * (rows - 1)).sum() * largest * (1 - largest))) / len(keys)


def _are_strays(rest: float, rows: int) -> bool:
    """Whether what no rule explains is too little to be a writer's."""
    return rest < (STRAY_OF_FEW if rest * rows < FEW_ROWS else STRAY)


def _writer(sample: Sample, found: Mixture, number: int, share: float, lanes: int, ahead: pa.Array) -> Writer:
    placer: Placer = found.placers[number]
    rule = placer.rule
    names = narrowed(named(rule), sample.nulls, sample.empties, placer.lanes)
    rivals = tuple(
        Rival(other, parts_at(rule, other, placer.lanes, ahead), not same_ahead(rule, other, placer.lanes, ahead))
        for other in found.rivals[number]
    )
    return Writer(
        names[0] if names else None,
        share,
        rule.encoding,
        tuple(names[1:]),
        placer.fitting,
        exp(min(0.0, max(-700.0, found.tried - placer.gain))),
        FACTS[names[0]].setting if names else None,
        None if placer.lanes == lanes else placer.lanes,
        rule,
        () if names else tuple(_clients(rule)),
        rivals,
    )


def _clients(rule: Rule) -> Iterator[str]:
    """Clients that are known to place by a rule without a name."""
    for one in client_rules(rule):
        yield f"{one.client} ({one.setting})"


# Words.


def _why_not(sample: Sample, found: Mixture, pairs: Pairs) -> Iterator[str]:
    lanes = sample.given or sample.highest + 1
    if lanes == 1:
        yield "one lane: every partitioner puts every key there"
        return
    if pairs.distinct < FEWEST:
        yield f"too few keys: {pairs.distinct} distinct in the sample; {FEWEST} are the least that show anything"
        return
    yield _steadiness(pairs)
    for rule, count, why in found.refused[:2]:
        name = next(iter(named(rule)), spelled(rule))
        yield f"{name} on {count} lanes fits more keys than chance does, and does not hold: {why}"
    if any("too few" in why for _, _, why in found.refused):
        yield f"{PARTIAL} distinct keys or more would settle it"
    yield _excluded(found)


def _excluded(found: Mixture) -> str:
    hashes = dict.fromkeys(hash_name(rule) for rule in found.rules)
    forms = dict.fromkeys(rule.encoding for rule in found.rules)
    low, high = found.counts
    keys = f"the key as {', '.join(forms)}"
    return f"excluded: {', '.join(hashes)}, each with every fold, of {keys}, on {low} to {high} lanes"


def _steadiness(pairs: Pairs) -> str:
    """Whether keys come back to their lane: what distinguishes an unknown rule from no rule."""
    if pairs.scattered > 0.5 * min(pairs.distinct, max(1, len(pairs.again))):
        return f"{numbers.plural(pairs.scattered, 'key')} are in five lanes or more: round robin, random or a spread"
    if len(pairs.again) < 10:
        return "hardly a key was seen twice, so the sample does not show whether the key decides"
    moved = float((pairs.first_at != pairs.last_at).mean())
    if moved > 0.05:
        other = f"of the keys that came again {numbers.share(moved)} were in another lane"
        return f"{other}: several writers, or no rule of the key"
    return "each key keeps its lane, so some rule of the key decides it"


def _notes(sample: Sample, writers: Sequence[Writer], lanes: int, lanes_from: str, rival: int | None) -> Iterator[str]:
    if not sample.whole:
        part = f"one row in {1 << sample.halved}"
        yield f"judged by a sample of {part}, drawn evenly over all {numbers.count(sample.keyed)}"
    for writer in writers:
        yield from _told_apart(writer, lanes)
        if writer.lanes is not None:
            part = numbers.share(writer.share)
            yield f"{writer.name}: about {part} was placed on {writer.lanes} lanes, not on {lanes}"
        if writer.partitioner is None:
            known = f"used by {', '.join(writer.clients)}" if writer.clients else "no client is known to place so"
            yield f"{writer.name} is a rule that no contract can name; {known}"
    if lanes_from == "proven":
        yield f"lane count {lanes} proven: any other count is a million times less likely"
    elif lanes_from == "seen" and all(writer.lanes for writer in writers):
        yield f"a record is in lane {sample.highest}, so there are {lanes} lanes or more; hint: --lanes N"
    elif lanes_from == "seen" and rival is not None:
        yield f"lane count {lanes} fits, and so does {rival}: the sample does not prove it; hint: --lanes N"
    elif lanes_from == "seen":
        yield f"lane count {lanes} fits, but the sample does not prove it; hint: --lanes N"


def _told_apart(writer: Writer, lanes: int) -> Iterator[str]:
    if not writer.not_told_from:
        return
    count = writer.lanes or lanes
    now = [rival.name for rival in writer.not_told_from if rival.parts_now]
    later = [rival for rival in writer.not_told_from if not rival.parts_now and rival.is_known]
    if now:
        yield f"{writer.name} cannot be told from {', '.join(now)} by these keys: more distinct keys would part them"
    if later:
        parts = [rival.parts_at for rival in later if rival.parts_at]
        at = f": they part at {min(parts)} lanes" if parts else ""
        yield f"{writer.name} cannot be told from {', '.join(rival.name for rival in later)} at {count} lanes{at}"


def _set_aside(sample: Sample) -> Iterator[str]:
    """Rows that say nothing of who wrote them."""
    if sample.unplaced:
        yield f"{numbers.plural(sample.unplaced, 'row')} without a lane left out"
    if sample.long:
        most = numbers.size(LONGEST)
        yield f"{numbers.plural(sample.long, 'row')} left out: a key above {most} is not compared with every rule"
