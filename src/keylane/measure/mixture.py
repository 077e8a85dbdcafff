"""Who placed a sample of keys: a mixture of writers and a rest, by likelihood, and whether that mixture holds.

    P(lane y of key k) = sum of share_i * [rule_i(k) = y]  +  rest * q(y)      q: the lanes of the rest, fitted

1. Search: every rule on every lane count, by the likelihood that it adds. Writers are added while one adds more than
   the number of hypotheses tried can explain. Shares and q by expectation and maximisation after each.
2. Adequacy: a mixture says more than its shares. Within every cell of a hash (its residues, its top bits, the lane that
   it gives) the rows of each writer and of the rest must be as many as the mixture expects; and keys that come twice
   must change their lane as often as it expects. A rule that is *related* to the true one (the same hash with another
   fold, say) fits half of the keys far beyond chance, and fails here. A mixture that fails is not shown.
3. Power: a writer is named only where enough keys that no other writer explains would have shown a related rule.

Worked example: 12 lanes, all keys by murmur2 without the sign mask. The masked rule fits 50 % of the keys, by a
likelihood that chance gives once in 10**900; but all of its fits have a clear top bit and none of its misses, so it
does not hold, and the unsigned rule, which fits all keys, does.

When not to use it: for keys that are in many lanes each (no rule of the key), and for a few keys: what is claimed of
them would be luck. What is made of the answer: `identify`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import erfc, exp, log, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from keylane.keys.arrow_bytes import as_binary, lengths_and_data
from keylane.measure.rules import distinct_hashes, rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.measure.placed import Pairs
    from keylane.measure.rules import Hashed, Rule
    from keylane.placement.ranges import KeySpace

#: A writer is believed when chance alone would make it fit as well less often than this, all hypotheses together.
BELIEF: Final = 1e-6
#: Pairs that rules and lane counts are searched with: fewer on many lanes, where each says more.
SEARCHED_PAIRS: Final = 400
SEARCHED_PAIRS_OF_MANY: Final = 160
MANY: Final = 64
MOST_WRITERS: Final = 4
#: A mixture that holds is rejected this often, all tests of it together.
REJECT: Final = 1e-4
#: Distinct keys from which anything is stated of who placed them.
FEWEST: Final = 20
#: Distinct keys from which a part of the data is given to a writer, and keys that it alone must explain.
PARTIAL: Final = 150
ALONE: Final = 25
#: A mixture that leaves less than this explains the data as a whole.
WHOLE: Final = 0.05
#: Hashes that are sums of a key's bytes: on 31 lanes, or 62, they say little more than its last byte does.
POLYNOMIALS: Final = frozenset({"java-string", "java-bytes", "java-long"})
#: Rules whose lanes may be sums of bits of the key: what evidence of them is held against.
_SUMS: Final = 20
#: Lane counts of a rule that are looked at closer, and how far above chance those are.
_CLOSER: Final = 12
_DEVIATIONS: Final = 3.0
#: Rounds of expectation and maximisation.
_ROUNDS: Final = 300


@dataclass(frozen=True, slots=True)
class Placer:
    """One writer of a mixture: a rule on a lane count, and its share of the pairs."""

    rule: Rule
    lanes: int
    share: float
    #: Natural log of how much more likely it makes the data.
    gain: float
    #: Distinct keys that it places as they were seen.
    fitting: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """What explains a sample: writers, the share of the rest, and what was tried and does not hold."""

    placers: tuple[Placer, ...] = ()
    rest: float = 1.0
    #: How many hypotheses were tried, as their natural log.
    tried: float = 0.0
    #: Rules that fit more than chance and do not hold: (rule, lane count, why).
    refused: tuple[tuple[Rule, int, str], ...] = ()
    #: Whether no other lane count comes near the largest of the mixture.
    proven: bool = False
    #: For each writer: other rules that place its keys as well as it does.
    rivals: tuple[tuple[Rule, ...], ...] = ()
    rules: tuple[Rule, ...] = ()
    #: Whether keys that came again change their lane, as they do where writers take turns and not keys of their own.
    scatters: bool = False
    #: Lane counts that were searched.
    counts: tuple[int, int] = (0, 0)
    #: Bits of the keys that vary independently.
    rank: int = 0
    #: A lane count that explains the sample about as well as the largest of the mixture; None where there is none.
    rival_count: int | None = None


@dataclass(slots=True)
class _Search:
    """The sample and every rule on it; hashes of all pairs are made for the rules that ask for them."""

    keys: pa.Array
    y: NDArray[np.int64]
    rules: list[Rule]
    n_q: int
    _hashed: dict[tuple[str, int | None, str, bool], Hashed] = field(default_factory=dict)
    _at: dict[tuple[Rule, int], NDArray[np.int64]] = field(default_factory=dict)

    def hashed(self, rule: Rule) -> Hashed:
        """The numbers of all pairs under a rule's hash."""
        found = self._hashed.get(rule.hash_of_form)
        if found is None:
            found = self._hashed[rule.hash_of_form] = rule.hashed(self.keys)
        return found

    def at(self, rule: Rule, lanes: int) -> NDArray[np.int64]:
        """The lanes of all pairs under a rule."""
        found = self._at.get((rule, lanes))
        if found is None:
            found = self._at[rule, lanes] = rule.folded(self.hashed(rule), lanes)
        return found

    def fits(self, model: Sequence[tuple[Rule, int]]) -> NDArray[np.bool_]:
        """Which pairs each writer of a model explains."""
        return np.array([self.at(rule, lanes) == self.y for rule, lanes in model]).reshape(len(model), len(self.y))


def explained(pairs: Pairs, highest: int, given: int | None = None, space: KeySpace | None = None) -> Mixture:
    """The mixture that explains pairs of keys and lanes; without writers where none holds.

    `highest` is the highest lane of all rows, which may be above that of the pairs. `given` is the stream's lane count.
    """
    rules = rules_for(pairs.keys, space)
    seen = highest + 1
    find = _Search(pairs.keys, pairs.at, rules, max(seen, given or 0))
    fewest = min((min(rule.counts(seen), default=seen) for rule in rules), default=2)
    top = given if given is not None else max((max(rule.counts(seen), default=seen) for rule in rules), default=seen)
    tried = log(max(1, sum(len(_counts(rule, seen, given)) for rule in rules)))
    rank = _rank(pairs.keys) if len(pairs.at) else 0
    blank = Mixture(tried=tried, rules=tuple(rules), counts=(fewest, top), rank=rank)
    if len(pairs.at) < FEWEST or pairs.distinct < FEWEST or seen < 2 or given == 1:
        return blank
    path = _path(find, seen, given, tried)
    refused: list[tuple[Rule, int, str]] = []
    for step in reversed(path):
        why = _does_not_hold(find, step, pairs, rank)
        if why is None:
            return replace(
                _settled(find, step, blank, seen, given, tuple(refused)), scatters=_scatters(find, step, pairs)
            )
        refused.append((*step.model[-1], why))
    return Mixture(tried=tried, refused=tuple(refused[::-1]), rules=tuple(rules), counts=(fewest, top), rank=rank)


def _counts(rule: Rule, seen: int, given: int | None) -> NDArray[np.int64]:
    """Lane counts that a rule is tried on: a given count is the most that anyone placed by."""
    counts = rule.counts(seen)
    if given is not None:
        counts = range(min(given, counts.start), given + 1)
        if rule.fold == "ranges":
            counts = range(given, given + 1)
    return np.arange(counts.start, counts.stop, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Step:
    """A model on the way: its writers, their shares with the rest's at the end, and the lanes of the rest."""

    model: tuple[tuple[Rule, int], ...]
    share: NDArray[np.float64]
    q: NDArray[np.float64]
    likelihood: float
    gains: tuple[float, ...]


def _path(find: _Search, seen: int, given: int | None, tried: float) -> list[_Step]:
    """Models of one writer more each, as long as a writer adds more than chance would among all that were tried."""
    # Without a writer, fitted as with one: what a writer adds is then its own.
    now = _Step((), *_fitted(find, ()), ())
    left = np.arange(len(find.y))
    path: list[_Step] = []
    while len(path) < MOST_WRITERS and len(left) >= 4:
        most = SEARCHED_PAIRS if seen <= MANY else SEARCHED_PAIRS_OF_MANY
        look = left if len(left) <= most else left[np.linspace(0, len(left) - 1, most).astype(np.int64)]
        chosen = _best(find, look, _probability(find, now)[look], seen, given, now.model)
        if chosen is None:
            break
        model = (*now.model, chosen)
        share, q, likelihood = _fitted(find, model)
        gain = likelihood - now.likelihood
        if gain < tried - log(BELIEF) or share[len(model) - 1] < 1e-4:
            break
        now = _Step(model, share, q, likelihood, (*now.gains, gain))
        path.append(now)
        left = np.flatnonzero(~find.fits(model).any(axis=0))
    return path


def _smoothed(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    q = counts.astype(np.float64) + 0.5
    return q / float(q.sum())


def _probability(find: _Search, step: _Step) -> NDArray[np.float64]:
    """How likely a model makes the lane of each pair."""
    p: NDArray[np.float64] = step.share[-1] * step.q[find.y]
    for share, fits in zip(step.share, find.fits(step.model), strict=False):
        p = p + share * fits
    return p


def _best(
    find: _Search,
    look: NDArray[np.int64],
    base: NDArray[np.float64],
    seen: int,
    given: int | None,
    known: tuple[tuple[Rule, int], ...],
) -> tuple[Rule, int] | None:
    """The rule and count that add most likelihood to what some pairs have already; rules with a name first."""
    y = find.y[look]
    q = _smoothed(np.bincount(y, minlength=find.n_q))
    # A lane that no pair is in, for keys that do not fit and lanes that are not there.
    q = np.append(q, 0.0)
    keys = find.keys.take(pa.array(look))
    tries: list[tuple[float, int, Rule, int]] = []
    order = {rule: number for number, rule in enumerate(find.rules)}
    for first, alike in distinct_hashes(find.rules):
        hashed = first.hashed(keys)
        for rule in alike:
            counts = _counts(rule, seen, given)
            if not len(counts):
                continue
            at = rule.grid(hashed, counts)
            hits = at == y[:, None]
            many = np.count_nonzero(hits, axis=0)
            # What fits about one key in n is not worth the exact sum.
            above = (many * counts - len(y)) / np.sqrt(len(y) * (counts - 1.0))
            for column in np.argsort(-above, kind="stable")[: min(_CLOSER, int((above > _DEVIATIONS).sum()))]:
                if (rule, int(counts[column])) not in known:
                    there = at[:, column]
                    luck = float(q[np.where((there < 0) | (there >= find.n_q), find.n_q, there)].mean())
                    gain = _gain(hits[:, column], luck, base)
                    if gain > 0:
                        tries.append((gain, order[rule], rule, int(counts[column])))
    if not tries:
        return None
    most = max(gain for gain, *_ in tries)
    # Of rules that explain these pairs alike, one with a name, and of counts one that the model knows already.
    near = [one for one in tries if one[0] > most - 1e-6]
    counts_known = {lanes for _, lanes in known} | ({given} if given else set())
    _, _, rule, lanes = min(near, key=lambda one: (one[3] not in counts_known, one[1], one[3]))
    return rule, lanes


def _gain(hit: NDArray[np.bool_], luck: float, base: NDArray[np.float64]) -> float:
    """What a rule with its best share adds to the likelihood of pairs that have `base` without it."""
    rate = float(hit.mean())
    share = min(max((rate - luck) / max(1e-9, 1 - luck), 0.0), 1 - 1e-6)
    if share <= 0:
        return 0.0
    return float(np.log(np.where(hit, share + (1 - share) * base, (1 - share) * base) / base).sum())


def _fitted(find: _Search, model: Sequence[tuple[Rule, int]]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Shares of writers and rest, the lanes of the rest, and the likelihood."""
    return shares_of(find.fits(model), find.y, find.n_q)


def shares_of(
    fits: NDArray[np.bool_], y: NDArray[np.int64], n_q: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Expectation and maximisation over rows that are distinguished by their lane and by which writers explain them.

    `fits` has a row for each writer. Gives the shares of writers and, last, of the rest; the lanes of the rest; and the
    log-likelihood.
    """
    writers = len(fits)
    pattern = (1 << np.arange(writers)) @ fits if writers else np.zeros(len(y), np.int64)
    cell, count = np.unique(pattern * n_q + y, return_counts=True)
    lane, bits = cell % n_q, cell // n_q
    fit = np.array([(bits >> i & 1).astype(float) for i in range(writers)]).reshape(writers, len(cell))
    share = np.full(writers + 1, 1 / (writers + 1))
    q = _smoothed(np.bincount(y, minlength=n_q))
    total = count.sum()
    p = np.ones(len(cell))
    for _ in range(_ROUNDS):
        part = np.vstack([share[:-1, None] * fit, share[-1] * q[lane][None, :]])
        p = part.sum(axis=0) + 1e-300
        weight = part / p * count
        new = weight.sum(axis=1) / total
        rest = np.bincount(lane, weight[-1], n_q) + 0.5 / n_q
        q = rest / rest.sum()
        settled = np.abs(new - share).max() < 1e-7
        share = new
        if settled:
            break
    return share, q, float((count * np.log(p)).sum())


# Adequacy: what a mixture expects in cells of its hashes and of the keys.


def _does_not_hold(find: _Search, step: _Step, pairs: Pairs, rank: int) -> str | None:
    """Why a mixture is not shown, in words; None where it holds and is sure enough."""
    fits, rest = find.fits(step.model), float(step.share[-1])
    whole = rest < WHOLE
    if not whole and pairs.distinct < PARTIAL:
        return f"{pairs.distinct} keys are too few to give a writer a part of them"
    why = _too_little(find, step, fits, rank)
    if why is not None:
        return why
    if _is_exact(step, fits):
        return None
    if rest > 1e-3 or len(step.model) > 1:
        why = _uneven(find, step, fits, whole=whole)
        if why is not None:
            return why
    return _too_steady(find, step, pairs, whole=whole)


def _is_exact(step: _Step, fits: NDArray[np.bool_]) -> bool:
    """Whether unrelated writers leave next to nothing, beside what each of them alone explains.

    A rule that is merely related to a true one would leave as many keys as it explains. Writers may then have keys of
    their own, by any property of a key, which a hash that is a sum of the key's bits shows in its cells.
    """
    alone = (fits & (fits.sum(axis=0) == 1)).sum(axis=1)
    left = int((~fits.any(axis=0)).sum())
    weak = any(rule.hash.name in POLYNOMIALS for rule, _ in step.model)
    return len(step.model) > 1 and not weak and not _related(step.model) and left <= 0.05 * int(alone.min())


def _too_little(find: _Search, step: _Step, fits: NDArray[np.bool_], rank: int) -> str | None:
    """Whether a writer stands on too few keys that no other writer explains, or on keys that say the same."""
    alone = fits & (fits.sum(axis=0) == 1)
    at = [find.at(rule, lanes) for rule, lanes in step.model]
    for number, ((rule, lanes), gain) in enumerate(zip(step.model, step.gains, strict=True)):
        # Less those that the rest puts there by luck.
        luck = step.share[-1] * step.q[np.clip(at[number], 0, find.n_q - 1)]
        only = int(alone[number].sum() - luck[(at[number] >= 0) & (at[number] < find.n_q)].sum())
        if len(step.model) > 1 and only < ALONE:
            return f"only {only} keys are where this rule alone puts them"
        if step.share[-1] >= WHOLE and only < ALONE:
            return f"only {only} keys are where this rule puts them"
        independent = _independent(find, rule, lanes, fits[number], rank)
        if independent is not None and min(gain, independent) < log(_SUMS) + log(1e3):
            return f"the keys differ in {rank} bits only, and its lanes are a sum of them: many rules would fit as well"
    return None


def _independent(find: _Search, rule: Rule, lanes: int, fits: NDArray[np.bool_], rank: int) -> float | None:
    """The evidence of a rule whose lanes are sums of the key's bits, in natural units; None for any other rule.

    On 2**k lanes the lane of a CRC, or the parity of FNV and of Java's hash, is the exclusive or of some bits of the
    key. Keys that differ in r bits then say r * k bits about such a rule, however many they are.
    """
    if lanes & (lanes - 1):
        return None
    at = find.at(rule, lanes)
    mine = np.flatnonzero(fits)
    some = mine[np.linspace(0, len(mine) - 1, min(len(mine), 4 * rank + 64)).astype(np.int64)]
    bits = _bits(find.keys.take(pa.array(some)))
    for bit in range(lanes.bit_length() - 1):
        if not _is_sum(bits, at[some] >> bit & 1):
            return None
    return rank * log(lanes)


def _bits(keys: pa.Array) -> list[int]:
    """Each key as one number whose last bit is always set; numbers by their text, as a hash may see them."""
    texts = _bytes_of(keys).to_pylist()
    return [int.from_bytes(bytes(key)[-64:], "big") << 8 | (len(key) & 127) << 1 | 1 for key in texts]


def _rank(keys: pa.Array) -> int:
    """How many bits of the keys vary independently: the rank of the keys over the field of two elements, less one."""
    some = np.linspace(0, len(keys) - 1, min(len(keys), 1_500)).astype(np.int64)
    return max(1, len(_basis(_bits(keys.take(pa.array(some))))) - 1)


def _basis(rows: list[int]) -> dict[int, int]:
    basis: dict[int, int] = {}
    for row in rows:
        value = row
        while value:
            high = value.bit_length()
            other = basis.get(high)
            if other is None:
                basis[high] = value
                break
            value ^= other
    return basis


def _is_sum(rows: list[int], outcome: NDArray[np.int64]) -> bool:
    """Whether an outcome of 0 or 1 is the sum of some bits of each row: then it adds nothing to their rank."""
    basis = _basis([row << 1 for row in rows])
    with_it = _basis([row << 1 | int(bit) for row, bit in zip(rows, outcome, strict=True)])
    return len(basis) == len(with_it)


def _uneven(find: _Search, step: _Step, fits: NDArray[np.bool_], *, whole: bool) -> str | None:
    """A cell of a hash, or of the keys, in which rows are not as many as the mixture expects.

    Keys are asked as well, but of writers that explain everything: each may have keys of its own, as one that came
    when a stream had grown has.
    """
    at = [find.at(rule, lanes) for rule, lanes in step.model]
    with_keys = not whole or (_related(step.model) and not _grown(step.model))
    cells = list(_cells(find, step, at, with_keys=with_keys))
    chances = [_chance_of(find, step, at, lane) for lane in at]
    tests: list[tuple[float, str]] = []
    for number, lane in enumerate(at):
        # Among the rows that no other writer explains, too: a small writer is not lost among the others there.
        free = np.ones(len(find.y), bool)
        taken = np.zeros(len(find.y))
        for other, other_lane in enumerate(at):
            if other != number:
                free &= ~fits[other] & (other_lane != lane)
                taken += np.where(
                    _first_of([one for n, one in enumerate(at) if n != number], other_lane), chances[other], 0
                )
        alone = np.clip(chances[number] / np.maximum(1 - taken, 1e-9), 0, 1)
        for name, cell, size in cells:
            tests.append((_cell_chance(cell, size, chances[number], fits[number]), f"its fit depends on {name}"))
            if len(at) > 1 and free.any():
                tests.append(
                    (_cell_chance(cell[free], size, alone[free], fits[number][free]), f"its fit depends on {name}")
                )
    for name, cell, size in cells:
        for group_name, group, groups in _groups(find.n_q):
            tests.append((_lanes_chance(find, step, at, cell, size, group, groups), f"{group_name} depends on {name}"))
    least, why = min(tests, default=(1.0, ""))
    return f"{why} (chance {max(least, 1e-300):.0e})" if least * max(1, len(tests)) < REJECT else None


def _chance_of(find: _Search, step: _Step, at: list[NDArray[np.int64]], lane: NDArray[np.int64]) -> NDArray[np.float64]:
    """How likely a mixture makes the lane that one of its writers gives, pair by pair."""
    there = (lane >= 0) & (lane < find.n_q)
    chance: NDArray[np.float64] = step.share[-1] * step.q[np.clip(lane, 0, find.n_q - 1)]
    for share, other in zip(step.share, at, strict=False):
        chance = chance + share * (other == lane)
    return np.where(there, chance, 0.0)


def _first_of(others: list[NDArray[np.int64]], lane: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where no earlier one of these gives the same lane: so that no lane is counted twice."""
    out = np.ones(len(lane), bool)
    for other in others:
        if other is lane:
            break
        out &= other != lane
    return out


def _related(model: Sequence[tuple[Rule, int]]) -> bool:
    """Whether two writers share a hash of the same bytes, or are sums of the same bytes with the same weights."""
    return any(
        one.hash_of_form == other.hash_of_form or {one.hash.name, other.hash.name} <= POLYNOMIALS
        for (one, _), (other, _) in combinations(model, 2)
    )


def _grown(model: Sequence[tuple[Rule, int]]) -> bool:
    """Whether a model is one rule on several lane counts: then keys that came later may differ from those before."""
    return len({rule for rule, _ in model}) == 1


def _cells(
    find: _Search, step: _Step, at: list[NDArray[np.int64]], *, with_keys: bool
) -> Iterator[tuple[str, NDArray[np.int64], int]]:
    seen: set[tuple[str, int | None, str, bool]] = set()
    for (rule, lanes), lane in zip(step.model, at, strict=True):
        if rule.hash_of_form not in seen:
            seen.add(rule.hash_of_form)
            hashed = find.hashed(rule)
            yield f"the top bit of {rule.hash.name}", hashed.top(1), 2
            yield f"the top bits of {rule.hash.name}", hashed.top(4), 16
            for modulo in (2, 3, 4, 5, 7, 8):
                yield f"{rule.hash.name} modulo {modulo}", hashed.residue(modulo), modulo
        size = min(lanes, 64)
        yield "the lane that it gives", np.where(lane < 0, 0, lane) % size, size
    if with_keys:
        lengths, data = lengths_and_data(_bytes_of(find.keys))
        ends = np.cumsum(lengths)
        last = np.zeros(len(lengths), np.int64)
        full = lengths > 0
        last[full] = data[ends[full] - 1]
        yield "the last byte of the key", last % 16, 16
        yield "the length of the key", (lengths % 8).astype(np.int64), 8
        upper = (
            np.add.reduceat(np.append((data >= 65) & (data <= 90), False).astype(np.int64), np.append(0, ends[:-1]))
            if len(lengths)
            else lengths
        )
        yield "capital letters in the key", (np.where(full, upper, 0) > 0).astype(np.int64), 2


def _bytes_of(keys: pa.Array) -> pa.Array:
    return as_binary(keys.cast(pa.string()) if pa.types.is_integer(keys.type) else keys)


def _groups(n_q: int) -> list[tuple[str, NDArray[np.int64], int]]:
    lanes = np.arange(n_q)
    found = [(f"the lane modulo {m}", lanes % m, m) for m in (2, 3, 4) if n_q > m or m == 2]
    return [*found, ("the half of the lanes", lanes * 2 // n_q, 2)]


def _cell_chance(cell: NDArray[np.int64], size: int, expected: NDArray[np.float64], seen: NDArray[np.bool_]) -> float:
    """The chance of fits at least as uneven over cells as these."""
    e = np.bincount(cell, expected, size)
    v = np.bincount(cell, expected * (1 - expected), size)
    o = np.bincount(cell, seen, size)
    rows = np.bincount(cell, minlength=size)
    if size == 2:
        # Two cells with few rows in one of them: a bound that holds for every number of rows.
        return min(1.0, sum(_poisson_bound(float(o[i]), float(e[i]), float(rows[i])) for i in range(2)))
    use = v > 1
    if not use.any():
        return 1.0
    return _chi2_tail(float(((o - e) ** 2 / np.where(use, v, 1))[use].sum()), int(use.sum()))


def _poisson_bound(seen: float, expected: float, rows: float) -> float:
    """Chernoff's bound on so many of `rows` when `expected` are: twice, for either side."""
    if rows <= 0:
        return 1.0
    rate, luck = seen / rows, min(max(expected / rows, 1e-12), 1 - 1e-12)
    miss = (1 - rate) * log((1 - rate) / (1 - luck)) if rate < 1 else 0.0
    hit = rate * log(rate / luck) if rate > 0 else 0.0
    return min(1.0, 2 * exp(-rows * (hit + miss)))


def _lanes_chance(
    find: _Search,
    step: _Step,
    at: list[NDArray[np.int64]],
    cell: NDArray[np.int64],
    size: int,
    group: NDArray[np.int64],
    groups: int,
) -> float:
    """The chance of lanes at least as uneven over cells as these, lanes taken in groups."""
    q_group = np.bincount(group, step.q, groups)
    chance = np.tile(step.share[-1] * q_group, (len(cell), 1))
    for share, lane in zip(step.share, at, strict=False):
        there = (lane >= 0) & (lane < find.n_q)
        chance[np.flatnonzero(there), group[lane[there]]] += share
    chance /= chance.sum(axis=1, keepdims=True)
    outcome = group[find.y]
    stat, freedom = 0.0, 0.0
    for one in range(groups):
        e = np.bincount(cell, chance[:, one], size)
        v = np.bincount(cell, chance[:, one] * (1 - chance[:, one]), size)
        o = np.bincount(cell, outcome == one, size)
        use = v > 3
        stat += float(((o - e) ** 2 / np.where(use, v, 1))[use].sum())
        freedom += float(use.sum())
    scale = (groups - 1) / groups
    return _chi2_tail(stat * scale, max(1, int(freedom * scale))) if freedom else 1.0


def _chi2_tail(x: float, freedom: int) -> float:
    """Upper tail of chi-square, by Wilson and Hilferty's cube root: near enough for a threshold."""
    if freedom < 1 or x <= freedom:
        return 1.0
    z = ((x / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom))
    return 0.5 * erfc(z / sqrt(2))


def _too_steady(find: _Search, step: _Step, pairs: Pairs, *, whole: bool) -> str | None:
    """Whether keys that came again kept their lane where a mixture of writers would have moved them.

    Writers that share no hash and together explain everything may each have keys of their own; a rule that is merely
    related to the true one may not.
    """
    unlike = not _related(step.model) and not any(rule.hash.name in POLYNOMIALS for rule, _ in step.model)
    if whole and unlike:
        return None
    expected, moved = _moves(find, step, pairs)
    if expected and moved < 0.2 * expected:
        came = len(pairs.again)
        return f"{came} keys came again, {moved} of them in another lane, where {expected:.0f} would have"
    return None


def _scatters(find: _Search, step: _Step, pairs: Pairs) -> bool:
    expected, moved = _moves(find, step, pairs)
    return bool(expected) and moved > 0.5 * expected


def _moves(find: _Search, step: _Step, pairs: Pairs) -> tuple[float, int]:
    """How many keys that came again a mixture by record moves, and how many did; 0 where too few would show it."""
    if len(pairs.again) < 30:
        return 0.0, 0
    rows = pairs.again
    at = [find.at(rule, lanes)[rows] for rule, lanes in step.model]
    # Shares of these records: among distinct pairs a second writer of known keys counts more than it wrote.
    fits = np.array([np.concatenate([lane == pairs.first_at, lane == pairs.last_at]) for lane in at])
    share, q, _ = shares_of(fits, np.concatenate([pairs.first_at, pairs.last_at]), find.n_q)
    same = share[-1] ** 2 * float((q**2).sum()) * np.ones(len(rows))
    for one, lane in zip(share, at, strict=False):
        for other, other_lane in zip(share, at, strict=False):
            same = same + one * other * (lane == other_lane)
        in_q = np.where((lane >= 0) & (lane < find.n_q), q[np.clip(lane, 0, find.n_q - 1)], 0.0)
        same = same + 2 * one * share[-1] * in_q
    expected, moved = float((1 - np.minimum(same, 1.0)).sum()), int((pairs.first_at != pairs.last_at).sum())
    return (expected if expected > 12 else 0.0), moved


# What is stated of a mixture that holds.


def _settled(
    find: _Search,
    step: _Step,
    blank: Mixture,
    seen: int,
    given: int | None,
    refused: tuple[tuple[Rule, int, str], ...],
) -> Mixture:
    fits = find.fits(step.model)
    placers = tuple(
        Placer(rule, lanes, float(share), gain, int(fit.sum()))
        for (rule, lanes), share, gain, fit in zip(step.model, step.share, step.gains, fits, strict=False)
    )
    rivals = tuple(tuple(_rivals(find, rule, lanes, fits, number)) for number, (rule, lanes) in enumerate(step.model))
    settled, rival_count = _count_settled(find, step, fits, seen, blank.tried) if given is None else (False, None)
    return replace(
        blank,
        placers=placers,
        rest=float(step.share[-1]),
        refused=refused[::-1],
        proven=settled and float(step.share[-1]) < WHOLE,
        rivals=rivals,
        rival_count=rival_count,
    )


def _rivals(find: _Search, rule: Rule, lanes: int, fits: NDArray[np.bool_], number: int) -> Iterator[Rule]:
    """Other rules on the same count that place a writer's keys as well as it does, or so nearly that luck may be it."""
    others = np.delete(fits, number, axis=0).any(axis=0)
    mine = np.flatnonzero(fits[number] & ~others)
    if not len(mine):
        return
    y, allowed = find.y[mine], _allowed(lanes, len(mine))
    head = mine[:: max(1, len(mine) // 200)]
    head_keys, head_y = find.keys.take(pa.array(head)), find.y[head]
    head_allowed = min(allowed, 0.1 * len(head))
    for first, alike in distinct_hashes(find.rules):
        hashed = first.hashed(head_keys)
        near = [
            other
            for other in alike
            if other != rule
            and (other.fold != "ranges" or other.space is None or len(other.space) == lanes)
            and int((other.folded(hashed, lanes) != head_y).sum()) <= head_allowed
        ]
        for other in near:
            if int((find.at(other, lanes)[mine] != y).sum()) <= allowed:
                yield other


def _allowed(lanes: int, keys: int) -> float:
    """How many keys a rival may place otherwise before it is a million times less likely."""
    return min(-log(BELIEF) / log(max(2, lanes)), 0.05 * keys)


def _count_settled(
    find: _Search, step: _Step, fits: NDArray[np.bool_], seen: int, tried: float
) -> tuple[bool, int | None]:
    """Whether every other lane count is a million times less likely than the largest of a mixture; else the nearest.

    Asked of every fold of the same hash, over the pairs that no smaller count explains: each that a rule misses costs
    it the log of its lanes at least. Of another hash no count fits more than chance does. Where only some lanes of a
    stream were looked at, a multiple of the count explains them as well.
    """
    number = max(range(len(step.model)), key=lambda n: step.model[n][1])
    rule, lanes = step.model[number]
    if lanes < seen:
        return False, None
    smaller = np.delete(fits, number, axis=0)
    mine = np.flatnonzero(fits[number] & ~smaller.any(axis=0))
    if len(mine) < FEWEST:
        return False, None
    look = mine[:: max(1, len(mine) // SEARCHED_PAIRS)]
    y, keys = find.y[look], find.keys.take(pa.array(look))
    worst, nearest, hashed = 0, None, rule.hashed(keys)
    for other in find.rules:
        if other.hash_of_form == rule.hash_of_form:
            counts = _counts(other, seen, None)
            counts = counts[counts != lanes]
            if len(counts):
                hits = (other.grid(hashed, counts) == y[:, None]).sum(axis=0)
                if int(hits.max()) > worst:
                    worst, nearest = int(hits.max()), int(counts[hits.argmax()])
    settled = (len(look) - worst) * log(max(2, lanes)) > tried - log(BELIEF)
    return settled, None if settled else nearest
