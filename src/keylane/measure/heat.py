"""What is said of hot lanes: the causes, the values of an answer, and its words. How a lane is judged: `hot`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from keylane.measure.identify import Identification

__all__ = ["CAUSES", "Cause", "Heat", "HotLane", "Verdict", "of_few", "of_many", "of_one", "of_strangers", "verdict"]

Cause: TypeAlias = Literal["mixed-writer", "one-key", "few-keys", "unlucky-hash", "fair"]
CAUSES: Final[tuple[Cause, ...]] = ("mixed-writer", "one-key", "few-keys", "unlucky-hash", "fair")

_SAYS: Final[dict[Cause, str]] = {
    "mixed-writer": "a writer that does not keep the contract",
    "one-key": "one key",
    "few-keys": "a few heavy keys",
    "unlucky-hash": "an unlucky hash",
}


@dataclass(frozen=True, slots=True)
class HotLane:
    """One hot lane. `keys` are ranks, 0 the heaviest of the stream; `share_of_heaviest` is a share of the lane.

    `chance`: how often a fair hash of the same keys fills some lane as much; at most that, where it is below `alpha`.
    """

    lane: int
    share: float
    over_mean: float
    cause: Cause
    evidence: str
    keys: tuple[int, ...]
    share_of_heaviest: float
    chance: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The stream as a whole: the cause of its fullest hot lane, and all of it in a sentence.

    `alarm`: a fair hash of these keys would fill its lanes so in less than `alpha` of looks. `misplaced`: at least
    this share of the records is not in the lane of the contract; None when nobody looked.
    """

    cause: Cause
    says: str
    alarm: bool
    chance: float
    effective_keys: float
    misplaced: float | None


@dataclass(frozen=True, slots=True)
class Heat:
    """Every hot lane, fullest first, and the verdict."""

    verdict: Verdict
    hot: tuple[HotLane, ...]
    lanes: int
    alpha: float
    worth: float

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        plain = asdict(self)
        return {**plain, "hot": [{**lane, "keys": list(lane["keys"])} for lane in plain["hot"]]}


def of_strangers(part: float, misplaced: float) -> str:
    """The evidence for a mixed writer."""
    return (
        f"{part:.1%} of the lane are records that the contract places elsewhere; "
        f"at least {misplaced:.1%} of the stream's records are not in their lane"
    )


def of_one(part: float, left: float) -> str:
    """The evidence for one key."""
    return f"its heaviest key holds {part:.1%} of it; without that key it has {left:.2f} times its share of the lighter"


def of_many(part: float, chance: float) -> str:
    """The evidence for an unlucky hash."""
    return f"made of many keys, the heaviest with {part:.2%} of it; a fair hash gives this {_often(chance)}"


def of_few(named: int, held: float, effective_keys: float, lanes: int, chance: float) -> str:
    """The evidence for few keys."""
    heaviest = f"its {named} heaviest keys hold" if named > 1 else "its heaviest key holds"
    return (
        f"{heaviest} {held:.1%} of it; the stream has {effective_keys:.0f} effective keys "
        f"for {lanes} lanes, and a fair hash fills a lane like this {_often(chance)}"
    )


def _often(chance: float) -> str:
    if chance > 0.99:
        return "nearly always"
    return f"in {chance:.0%} of looks" if chance >= 0.01 else f"in fewer than {chance:.1g} of looks"


def verdict(
    hot: tuple[HotLane, ...],
    mixed: bool,
    misplaced: float | None,
    writers: Identification | None,
    chance: float,
    alpha: float,
    effective_keys: float,
    fullest: float,
) -> Verdict:
    """The stream in a sentence or two."""
    mixed = mixed or (writers is not None and writers.verdict == "mixed")
    cause: Cause = hot[0].cause if hot else "mixed-writer" if mixed else "fair"
    says = _sentence(hot, cause, fullest)
    if mixed:
        says += f" {_who(misplaced, writers)}"
    if chance < alpha and "unlucky-hash" not in {lane.cause for lane in hot}:
        says += f" A fair hash of these keys fills the lanes like this {_often(chance)}."
    return Verdict(cause, says, chance < alpha, chance, effective_keys, misplaced)


def _sentence(hot: tuple[HotLane, ...], cause: Cause, fullest: float) -> str:
    if not hot:
        return f"No lane is hot: the fullest carries {fullest:.2f} times the mean."
    lane, alike = hot[0], sum(other.cause == cause for other in hot[1:])
    more = f" ({len(hot) - 1} more hot, {alike} for the same reason)" if len(hot) > 1 else ""
    because = f"because of {_SAYS[cause]}: {lane.evidence}{more}."
    return f"Lane {lane.lane} carries {lane.over_mean:.2f} times the mean {because}"


def _who(misplaced: float | None, writers: Identification | None) -> str:
    if writers is not None and writers.verdict == "mixed":
        named = ", ".join(f"{one.partitioner or 'unexplained'} {one.share:.1%}" for one in writers.writers)
        return f"The stream has more than one writer: {named}."
    return f"At least {misplaced or 0:.1%} of the records are not in the lane the contract gives them."
