"""What keylane answers to a stream whose writers are known, judged; and what was reached, as a table.

The streams are drawn by `tests.worlds.producers`, their answers judged by `tests.worlds.claims`.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING, Any

from tests.worlds import claims, face
from tests.worlds.producers import KINDS, draw, made, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.worlds.producers import Case, Recipe


@dataclass(frozen=True, slots=True)
class Judged:
    """One case: what was answered, and what of it is false. `seconds` are of the processor, for keylane alone."""

    recipe: Recipe
    verdict: str
    lanes_from: str
    contract: bool
    false: tuple[str, ...]
    named: bool
    distinct: int
    seconds: float


def judged(recipe: Recipe) -> Judged:
    """Ask `init`, and `identify` where that refuses; an error that is no refusal is a false answer too."""
    case = made(recipe)
    with TemporaryDirectory() as folder:
        start = process_time()
        try:
            document, contract = face.first_contract(case, Path(folder))
            if document is None:
                document = face.identified(case, Path(folder))
        except Exception as error:  # noqa: BLE001  whatever it is, it is no answer
            return Judged(recipe, "error", "", False, (f"{type(error).__name__}: {error}",), False, 0, 0.0)
        seconds = process_time() - start
        found = judge(case, document, contract)
    answer = face.answer_of(document)
    named, distinct = claims.is_named(case, answer), len(case.distinct)
    return Judged(
        recipe, answer.verdict, answer.lanes_from, contract is not None, tuple(found), named, distinct, seconds
    )


def judge(case: Case, document: dict[str, Any], contract: str | None) -> list[str]:
    """Everything that is false in the document, and in the contract that was written."""
    found = claims.falsehoods(case, face.answer_of(document))
    wrong = claims.false_contract(case, lambda keys: face.placed(contract, keys)) if contract else None
    return [*found, wrong] if wrong else found


def shown(one: Judged, *, smallest: bool = True) -> str:
    """A failure for a person: what is false, the seed, and a command that shows it."""
    recipe = one.recipe
    if smallest:
        recipe = shrunk(recipe, lambda smaller: bool(judged(smaller).false), tries=40)
        one = judged(recipe)
    made_by = f"python -m tests.worlds.producers --recipe {shlex.quote(recipe.as_json())} --out case.parquet"
    return "\n".join([made(recipe).describe(), *(f"  false: {text}" for text in one.false), f"  show it: {made_by}"])


@dataclass
class Reached:
    """What a run reached, by kind of case and by other bins."""

    kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    bins: Counter[str] = field(default_factory=Counter)

    def add(self, one: Judged) -> None:
        """Count one case."""
        counts = {"cases": 1, "false": bool(one.false), "named": one.named, one.verdict: 1, "contracts": one.contract}
        self.kinds[one.recipe.kind].update(counts)
        self.bins.update(_bins(one))

    @property
    def empty(self) -> list[str]:
        """What should have been reached and was not."""
        return [*(kind for kind in KINDS if not self.kinds[kind]), *(name for name in BINS if not self.bins[name])]

    def __str__(self) -> str:
        columns = ("cases", "false", "named", "one-writer", "mixed", "unknown", "contracts")
        lines = [f"{kind:20}" + "".join(f"{self.kinds[kind][name]:>12,}" for name in columns) for kind in KINDS]
        lines.insert(0, f"{'kind of case':20}" + "".join(f"{name:>12}" for name in columns))
        lines.append("reached: " + ", ".join(f"{name} {self.bins[name]:,}" for name in BINS))
        return "\n".join(lines)


#: What every run has to reach, beside every kind.
BINS = (
    "2 lanes",
    "3 to 16 lanes",
    "17 to 100 lanes",
    "more lanes",
    "below 100 keys",
    "100 to 1,000 keys",
    "more keys",
    "nulls",
    "empty keys",
    "times",
    "count given",
    "count proven",
    "count seen",
    "text keys",
    "number keys",
    "bytes as keys",
    "skewed",
    "answered one-writer",
    "answered mixed",
    "answered unknown",
    "contract written",
    "contract refused",
)


def _bins(one: Judged) -> Iterable[str]:
    recipe = one.recipe
    lanes, keys = recipe.lanes, one.distinct
    yield (
        "2 lanes"
        if lanes == 2
        else "3 to 16 lanes"
        if lanes <= 16
        else "17 to 100 lanes"
        if lanes <= 100
        else "more lanes"
    )
    yield "below 100 keys" if keys < 100 else "100 to 1,000 keys" if keys <= 1_000 else "more keys"
    yield f"count {one.lanes_from}"
    yield f"answered {one.verdict}"
    yield "contract written" if one.contract else "contract refused"
    numbers = {"sequence", "spread-ints", "negative-ints"}
    population = recipe.population
    yield "number keys" if population in numbers else "bytes as keys" if population == "bytes" else "text keys"
    there = {"nulls": recipe.null_share, "empty keys": recipe.empty_share, "times": recipe.times}
    yield from (name for name, value in there.items() if value)
    if recipe.skew in {"zipf", "hot"}:
        yield "skewed"


def spread(first: int, each: int) -> list[Recipe]:
    """So many recipes of each kind, with small streams; two lanes, which are rare, by design."""
    recipes = [
        draw(first + number * each + at, kind, **({"lanes": 2} if at == number % each else {}))
        for number, kind in enumerate(KINDS)
        for at in range(each)
    ]
    return [recipe if recipe.distinct <= 3_000 else replace(recipe, distinct=3_000) for recipe in recipes]
