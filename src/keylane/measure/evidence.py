"""Evidence of who wrote a key column: every rule that could have, and one pass that counts what each row fits.

The pass itself and what is made of it: `identify`. Shares of several writers are estimated there, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb, log, log1p
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.names import MAX_LANES
from keylane.contract.partitioners import FACTS
from keylane.errors import DataError, LaneCountError
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import plain
from keylane.keys.columns import AS_WRITTEN, encode_column, strip_registry_headers
from keylane.placement.partitioners import Partitioner, partitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from keylane.contract.names import Encoding
    from keylane.placement.ranges import KeySpace


# Hypotheses: every (partitioner, encoding) that could have written a column of keys, one for each family.

#: The member of a family that is shown first: the one most streams were written by.
_USUAL: Final = {"crc32/unsigned": "librdkafka-consistent-random", "fnv1a/absolute": "sarama-hash"}

#: How an encoding is named whose keys have five bytes of a schema registry before them.
STRIPPED: Final = " behind a registry header"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One hypothesis about a writer. `space` are the lanes as ranges, for a rule of ranges where they are not equal."""

    partitioner: Partitioner
    encoding: Encoding
    strip_header: bool = False
    space: KeySpace | None = None

    @property
    def name(self) -> str:
        """The partitioner's contract name."""
        return self.partitioner.name

    def key_bytes(self, keys: pa.Array) -> pa.Array:
        """Routing keys under this hypothesis; null where the value does not fit it."""
        encoded, _ = encode_column(_as_numbers(keys, self.encoding), self.encoding, "key")
        return strip_registry_headers(encoded)[0] if self.strip_header else encoded

    def hashed(self, keys: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Hashes before the fold, and which keys fit at all; so that many lane counts can be tried on one hash."""
        routing = self.key_bytes(keys)
        assert self.partitioner.hash is not None
        fits = routing.is_valid().to_numpy(zero_copy_only=False)
        return hash_batch(self.partitioner.hash, routing), fits

    def lanes(self, keys: pa.Array, lanes: int) -> NDArray[np.int32]:
        """Predicted lanes; -1 where the key does not fit."""
        hashed, fits = self.hashed(keys)
        over = self.space if self.space is not None and len(self.space) == lanes else lanes
        predicted = self.partitioner.fold_batch(hashed, over).astype(np.int32)
        return predicted if fits.all() else np.where(fits, predicted, np.int32(-1))


def family_of(family: str) -> list[str]:
    """Names of a family, the usual one first."""
    names = [name for name, facts in FACTS.items() if facts.family == family]
    return sorted(names, key=lambda name: name != _USUAL.get(family, names[0]))


def candidates_for(keys: pa.Array, space: KeySpace | None = None) -> list[Hypothesis]:
    """The hypotheses worth trying on keys of this type and form, and on lanes that are these ranges."""
    found = _candidates(keys)
    return [replace(one, space=space) if one.partitioner.facts.fold == "ranges" else one for one in found]


def _candidates(keys: pa.Array) -> list[Hypothesis]:
    encodings = _encodings(plain(keys))
    families = dict.fromkeys(facts.family for facts in FACTS.values() if facts.hash)
    return [
        Hypothesis(partitioner(name, encoding), encoding, strip)
        for encoding, strip in encodings
        for name in (family_of(family)[0] for family in families)
        if encoding in FACTS[name].encodings
    ]


def _encodings(keys: pa.Array) -> list[tuple[Encoding, bool]]:
    """How the values could have become bytes: (encoding, registry header stripped)."""
    kind = keys.type
    if pa.types.is_null(kind):
        return [("utf8", False)]
    if pa.types.is_integer(kind):
        return [(e, False) for e in ("utf8", "int32be", "int64be") if _all_fit(keys, e)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        guises = ("uuid", "h3", *(("int32be", "int64be") if _all_digits(keys) else ()))
        return [("utf8", False), *[(e, False) for e in guises if _all_fit(keys, e)]]
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        raise not_keys(kind)
    return [("raw", False), *_binary_guises(keys)]


def not_keys(kind: pa.DataType) -> DataError:
    """Build the error for a column that can hold no key."""
    return DataError.of("a key column holds text, bytes or whole numbers", got=str(kind), hint=AS_WRITTEN)


def _binary_guises(keys: pa.Array) -> list[tuple[Encoding, bool]]:
    """Bytes that could be something more: text, or a key behind a registry header."""
    text: list[tuple[Encoding, bool]] = [("utf8", False)] if _all_fit(keys, "utf8") else []
    return [*text, ("raw", True)] if _all_framed(keys) else text


def _all_fit(keys: pa.Array, encoding: Encoding) -> bool:
    sample = _as_numbers(keys.drop_null().slice(0, 100), encoding)
    return len(sample) > 0 and not encode_column(sample, encoding, "key")[1].any()


def _all_digits(keys: pa.Array) -> bool:
    """Whether texts are whole numbers written out, as a CSV holds them."""
    sample = keys.drop_null().slice(0, 100).cast(pa.string())
    return len(sample) > 0 and pc.all(pc.match_substring_regex(sample, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()


def _as_numbers(keys: pa.Array, encoding: str) -> pa.Array:
    """Digits as the numbers they spell, where the encoding wants numbers; text that is not a number becomes null."""
    if not encoding.startswith("int") or pa.types.is_integer(keys.type):
        return keys
    digits = pc.match_substring_regex(keys, r"^(0|-?[1-9][0-9]{0,17})$")
    return pc.if_else(digits, keys, pa.scalar(None, keys.type)).cast(pa.int64())


def _all_framed(keys: pa.Array) -> bool:
    sample = keys.drop_null().slice(0, 100).cast(pa.large_binary())
    return len(sample) > 0 and not strip_registry_headers(sample)[1].any()


def narrowed(names: Sequence[str], nulls: NDArray[np.int64], empties: NDArray[np.int64], lanes: int) -> list[str]:
    """Keep the members of a family whose null and empty rules fit where such rows were found.

    `nulls` and `empties` count such rows in each lane. Fewer than ten rows show nothing; more, all in the lane of the
    hash of nothing, were hashed (a sticky client's may be together too, but in any lane); others were not.
    """
    kept = list(names)
    for counts, rule, key in ((nulls, "on_null", None), (empties, "on_empty", b"")):
        if counts.sum() >= 10:
            hashed = np.flatnonzero(counts).tolist() == [_lane_of_nothing(names[0], key, lanes)]
            fitting = [name for name in kept if (getattr(FACTS[name], rule) == "hash") == hashed]
            kept = fitting or kept
    return kept


def _lane_of_nothing(name: str, key: bytes | None, lanes: int) -> int | None:
    """Where the null or empty key lands if it is hashed."""
    one = partitioner(name)
    return one.fold(one.hash.of(key), lanes) if one.hash else None


# Mixtures: shares of several writers, from which rule each record fits first.


def agreement(predicted: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """How many records each rule (rows) is the first to fit, had each rule (columns) written all of them."""
    out = np.zeros((len(predicted), len(predicted)), np.int64)
    for writer, at in enumerate(predicted):
        left = np.ones(len(at), bool)
        for rule in range(writer + 1):
            fit = left & (predicted[rule] == at)
            out[rule, writer] = np.count_nonzero(fit)
            left &= ~fit
    return out


def first_fits(agreed: NDArray[np.int64], records: int, lanes: int, *, few: bool = False) -> NDArray[np.float64]:
    """Chance of each first fit (rows; the last: none) under each writer (columns; the last: no known rule).

    Measured on the lanes that the rules predict for all records, because rules may be related: two folds of one hash
    agree on half of the keys, not on one in n. `agreed` counts that (`agreement`), of so many `records`. `few`: the
    unexplained records are of a few keys, each of which fits a rule always or never, so chance hides none of them.
    """
    rules = len(agreed)
    out = np.zeros((rules + 1, rules + 1))
    out[:rules, :rules] = agreed / max(1, records)
    chance = 0.0 if few else 1 / lanes
    out[:, rules] = [*((1 - chance) ** rule * chance for rule in range(rules)), (1 - chance) ** rules]
    return out


def shares(counts: NDArray[Any], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the writers and of the unexplained, from the count of each first fit."""
    found: NDArray[np.float64] = np.linalg.solve(matrix, counts / counts.sum())
    found = np.clip(found, 0, None)
    return found / found.sum()


#: Keys' worth of belief that a rule spreads evenly.
EVEN = 50


def by_chance(predicted: NDArray[Any], at: NDArray[Any], lanes: int) -> float:
    """How often a rule would fit if it had nothing to do with the lanes: once in n, more where both favour a lane.

    Data that stands on one lane fits every rule as often as that rule likes the lane; that is no evidence. What a rule
    likes is counted, and believed to be even as long as few keys contradict it.
    """
    counts = np.bincount(predicted[predicted >= 0], minlength=lanes)
    likes = (counts + EVEN / lanes) / (len(at) + EVEN)
    return float(likes @ np.bincount(at[at < lanes], minlength=lanes)) / max(1, len(at))


def log_chance(hits: int, tries: int, chance: float) -> float:
    """Natural log of a bound on the chance that a rule fits at least `hits` of `tries` keys for no reason.

    Chernoff's bound: tries * KL(hits/tries, chance). All of k keys on n even lanes: k * log(n), the familiar n**-k.
    """
    rate = hits / tries if tries else 0.0
    if rate <= chance:
        return 0.0
    miss = (1 - rate) * (log1p(-rate) - log1p(-chance)) if rate < 1 else 0.0
    return -tries * (rate * (log(rate) - log(chance)) + miss)


def log_occupancy(used: int, keys: int, lanes: int) -> float:
    """Natural log of a bound on the chance that `keys` fair keys use at most `used` of `lanes` lanes.

    Union bound over which lanes: C(lanes, used) * (used / lanes) ** keys. 12 keys on one of 12 lanes: 12 ** -11.
    """
    return min(0.0, log(comb(lanes, used)) + keys * log(used / lanes)) if used else 0.0


#: Keys, and the lane of each.
Rows: TypeAlias = tuple[pa.Array, "NDArray[np.int32]"]
LanesFrom: TypeAlias = Literal["given", "proven", "seen"]
#: At most this many distinct keys choose the rules.
PAIRS: Final = 5_000
#: Unexplained rows that are kept for a second look.
KEPT: Final = 20_000
#: Bytes of a key that is compared with every rule. Hashes of single long keys are pure Python: one of 30 MB takes
#: minutes under all of them, and proves no more than a short one. A contract names no longer ones, and Kafka's clients
#: send no record above 1 MiB by default.
LONGEST: Final = 1 << 16
#: A rule is believed when chance alone would make it fit as well less often than this.
BELIEF: Final = 1e-6
MOST_WRITERS: Final = 4
#: Pairs that a lane count is searched with.
SEARCHED: Final = 400


def joined(rows: list[Rows]) -> Rows:
    """Several runs of rows as one."""
    keys = [plain(keys) for keys, _ in rows]
    return (pa.concat_arrays(keys) if keys else pa.array([])), np.concatenate(
        [np.empty(0, np.int32), *(a for _, a in rows)]
    )


def thinned(keys: pa.Array, at: NDArray[np.int32]) -> Rows:
    """Rows evenly over those given, hot keys as often as they come."""
    some = slice(None, None, max(1, len(at) // (4 * PAIRS)))
    return keys[some], at[some]


def distinct_pairs(keys: pa.Array, at: NDArray[np.int32]) -> Rows:
    """Distinct (key, lane) pairs, evenly over the rows: a hot key counts once in each lane it was seen in."""
    keys, at = thinned(keys, at)
    code = pc.dictionary_encode(keys).indices.to_numpy().astype(np.int64)
    few = np.flatnonzero(code < PAIRS)
    _, first = np.unique(code[few] * MAX_LANES + at[few], return_index=True)
    rows = few[np.sort(first)]
    return keys.take(pa.array(rows)), at[rows]


@dataclass(slots=True)
class Tally:
    """What one pass over the data adds up to."""

    given: int | None
    lanes: int = 0
    lanes_from: LanesFrom = "seen"
    rows: int = 0
    highest: int = 0
    unplaced: int = 0
    long: int = 0
    nulls: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    empties: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rules: list[Hypothesis] = field(default_factory=list)
    first: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    agreed: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    left: list[Rows] = field(default_factory=list)
    step: int = 1
    space: KeySpace | None = None

    def keyed(self, batch: pa.RecordBatch) -> Rows:
        """Count a batch, set null, empty and overlong keys aside, and return the rest as (keys, lanes)."""
        keys, lanes = readable_keys(batch.column(0)), batch.column(1)
        self.rows += len(keys)
        if lanes.null_count:
            self.unplaced += lanes.null_count
            keys, lanes = keys.filter(lanes.is_valid()), lanes.drop_null()
        at = lane_numbers(lanes, batch.schema.names[1], self.given)
        self.highest = max(self.highest, int(at.max(initial=0)))
        if keys.null_count:
            missing = keys.is_null().to_numpy(zero_copy_only=False)
            self.nulls = _added(self.nulls, at[missing])
            keys, at = keys.drop_null(), at[~missing]
        empty = empty_keys(keys)
        if empty is not None and empty.any():
            self.empties = _added(self.empties, at[empty])
            keys, at = keys.filter(pa.array(~empty)), at[~empty]
        long = long_keys(keys)
        if long is not None and long.any():
            self.long += int(long.sum())
            keys, at = keys.filter(pa.array(~long)), at[~long]
        return keys, at

    def choose(self, pairs: Rows, seen: int) -> None:
        """Settle the lane count and the rules to compare every row with."""
        candidates = candidates_for(pairs[0], self.space)
        if self.given is not None:
            self.lanes, self.lanes_from = self.given, "given"
        else:
            self.lanes, proven = _proven_count(candidates, pairs, seen)
            self.lanes_from = "proven" if proven else "seen"
        self.rules = believed(candidates, pairs, self.lanes)
        self.first = np.zeros(len(self.rules) + 1, np.int64)
        self.agreed = np.zeros((len(self.rules), len(self.rules)), np.int64)

    def count(self, keys: pa.Array, at: NDArray[np.int32]) -> None:
        """Hold rows against the rules in turn; and the rules against each other, on every row, as shares need it."""
        predicted = [predicted_lanes(rule, keys, self.lanes) for rule in self.rules]
        self.agreed += agreement(predicted)
        left = np.ones(len(at), bool)
        for i, lanes in enumerate(predicted):
            fits = left & (lanes == at)
            self.first[i] += int(np.count_nonzero(fits))
            left &= ~fits
        rest = np.flatnonzero(left)
        self.first[-1] += len(rest)
        if len(rest):
            self._keep(plain(keys.take(pa.array(rest))), at[rest])

    def _keep(self, keys: pa.Array, at: NDArray[np.int32]) -> None:
        """Keep unexplained rows evenly over all the data: every step-th, and of too many every other one."""
        self.left.append((keys[:: self.step], at[:: self.step]))
        if sum(len(lanes) for _, lanes in self.left) > KEPT:
            all_keys, all_lanes = joined(self.left)
            self.left, self.step = [(all_keys[::2], all_lanes[::2])], self.step * 2


def readable_keys(keys: pa.Array) -> pa.Array:
    """Keys of any layout that Arrow's kernels take; a column that holds no keys is refused."""
    values = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if pa.types.is_string_view(values) or pa.types.is_binary_view(values):
        return plain(keys).cast(pa.string() if pa.types.is_string_view(values) else pa.binary())
    if pa.types.is_null(values):
        return keys.cast(pa.string())
    fixed = pa.types.is_fixed_size_binary(values)
    text = pa.types.is_string(values) or pa.types.is_large_string(values)
    if not (
        fixed or text or pa.types.is_integer(values) or pa.types.is_binary(values) or pa.types.is_large_binary(values)
    ):
        raise not_keys(values)
    return keys


def lane_numbers(column: pa.Array, name: str, lanes: int | None = None) -> NDArray[np.int32]:
    """A column of lanes as numbers; refused when it holds anything else."""
    column = plain(column)
    if not pa.types.is_integer(column.type):
        raise DataError.of(f"column {name!r} holds no lanes", got=str(column.type), allowed="whole numbers")
    if column.null_count:
        raise DataError.of(f"column {name!r} has rows without a lane", got=f"{column.null_count} nulls")
    at = column.to_numpy(zero_copy_only=False)
    if len(at) and (at.min() < 0 or at.max() >= MAX_LANES):
        got = int(at.min()) if at.min() < 0 else int(at.max())
        raise DataError.of(f"column {name!r} holds no lanes", got=got, allowed=f"0 to {MAX_LANES - 1}")
    if lanes is not None and len(at) and at.max() >= lanes:
        raise LaneCountError.of(
            "a lane number is beyond the lane count", got=int(at.max()), allowed=f"0 to {lanes - 1}"
        )
    return at.astype(np.int32, copy=False)


def _added(counts: NDArray[np.int64], at: NDArray[np.int32]) -> NDArray[np.int64]:
    more = np.bincount(at, minlength=len(counts))
    more[: len(counts)] += counts
    return more


def empty_keys(keys: pa.Array) -> NDArray[np.bool_] | None:
    """Which keys are empty; None for numbers, which cannot be."""
    return _by_length(keys, lambda length: pc.equal(length, 0))


def long_keys(keys: pa.Array) -> NDArray[np.bool_] | None:
    """Which keys are too long to be compared with every rule; None for numbers, which cannot be."""
    return _by_length(keys, lambda length: pc.greater(length, LONGEST))


def _by_length(keys: pa.Array, judge: Callable[[pa.Array], pa.Array]) -> NDArray[np.bool_] | None:
    values = keys.dictionary if pa.types.is_dictionary(keys.type) else keys
    if pa.types.is_integer(values.type):
        return None
    found = np.asarray(judge(pc.binary_length(values)).to_numpy(zero_copy_only=False), bool)
    return found[keys.indices.to_numpy()] if pa.types.is_dictionary(keys.type) else found


def predicted_lanes(rule: Hypothesis, keys: pa.Array, lanes: int) -> NDArray[np.int32]:
    """Lanes under a rule; a dictionary's values are hashed once."""
    if not pa.types.is_dictionary(keys.type):
        return rule.lanes(keys, lanes)
    if len(keys.dictionary) > len(keys):
        return rule.lanes(keys.dictionary_decode(), lanes)
    return rule.lanes(keys.dictionary, lanes)[keys.indices.to_numpy()]


def _proven_count(candidates: list[Hypothesis], pairs: Rows, seen: int) -> tuple[int, bool]:
    """The lane count under which some rule fits best, and whether no other fits as well.

    Smaller counts than the highest lane are tried too: one stray row must not hide the rule of all others. Without a
    rule that fits beyond chance it is the highest lane seen, plus one.
    """
    keys, at = pairs[0].slice(0, SEARCHED), pairs[1][:SEARCHED]
    best = min((_best_count(one, keys, at, seen), i) for i, one in enumerate(candidates))
    (evidence, count), who = best[0], candidates[best[1]]
    tries = len(candidates) * len(_counts_to_try(who, seen))
    if evidence + log(tries) >= log(BELIEF):
        return seen, False
    hits = [int(np.count_nonzero(who.lanes(keys, count * k) == at)) for k in range(1, 9)]
    return count, hits[0] > max(hits[1:])


def _best_count(candidate: Hypothesis, keys: pa.Array, at: NDArray[np.int32], seen: int) -> tuple[float, int]:
    """The best evidence that any lane count gives a rule, and that count."""
    numbers, fits = candidate.hashed(keys)
    best = (0.0, seen)
    for count in _counts_to_try(candidate, seen):
        predicted = np.where(fits, candidate.partitioner.fold_batch(numbers, count).astype(np.int32), -1)
        # Counts that fit no more than twice what chance gives are not worth the exact sum.
        if np.count_nonzero(predicted == at) * count > 2 * len(at):
            best = min(best, (_unlikely(predicted, at, count), count))
    return best


def _counts_to_try(candidate: Hypothesis, seen: int) -> range:
    """Counts around the highest lane seen; ranges, which have no use for a smaller one, only from there on."""
    most = min(2 * seen, seen + 192) + 64
    return range(seen if candidate.partitioner.facts.fold == "ranges" else 2, most)


def _unlikely(predicted: NDArray[np.int32], at: NDArray[np.int32], lanes: int) -> float:
    """How little chance explains a rule's fit, as the log of a bound: lower is better evidence."""
    return log_chance(int((predicted == at).sum()), len(at), by_chance(predicted, at, lanes))


def believed(candidates: list[Hypothesis], pairs: Rows, lanes: int) -> list[Hypothesis]:
    """Take the rule that explains most, drop what it explains, and go on while chance is no explanation."""
    keys, at = pairs
    predicted = [candidate.lanes(keys, lanes) for candidate in candidates]
    left = np.ones(len(at), bool)
    chosen: list[Hypothesis] = []
    while lanes > 1 and left.any() and len(chosen) < MOST_WRITERS:
        evidence = [_unlikely(lane[left], at[left], lanes) for lane in predicted]
        best = int(np.argmin(evidence))
        if evidence[best] + log(len(candidates)) > log(BELIEF):
            break
        chosen.append(candidates[best])
        left &= predicted[best] != at
    return chosen
