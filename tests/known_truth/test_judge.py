"""The judge of known truth: it finds nothing in a true answer, and each planted falsehood in one that is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.worlds.claims import Answer, Named, alike, false_contract, falsehoods, is_named
from tests.worlds.producers import KINDS, Case, Writer, draw, made

if TYPE_CHECKING:
    from collections.abc import Callable

JAVA = Writer("murmur2", "masked", "utf8", 12)
SARAMA = Writer("fnv1a", "absolute", "utf8", 12)
UNSIGNED = Writer("murmur2", "unsigned", "utf8", 12)


def perfect(case: Case) -> Answer:
    """What somebody says who knows: every writer with its share, and the rest."""
    shares = {group[0]: sum(case.share(n) for n in group) for group in alike(case)}
    writers = [Named(case.writers[n], share) for n, share in shares.items()]
    rest = 1 - sum(shares.values())
    if rest > 1e-9:
        writers.append(Named(None, rest))
    if not shares:
        return Answer("unknown", case.given or case.count, "given" if case.given else "seen")
    verdict = "one-writer" if len(writers) == 1 else "mixed"
    return Answer(verdict, case.count, "given" if case.given else "proven", tuple(writers))


def stream(*writers: Writer, **more: Any) -> Case:
    usual: dict[str, Any] = {"population": "padded", "rows": 6_000, "distinct": 2_000, "skew": "even", "given": False}
    shares = (1.0,) if len(writers) == 1 else (0.8, 0.2)
    fixed = {**usual, "null_share": 0.0, "empty_share": 0.0, "times": True, "keyless": "", "hot": ""}
    return made(draw(1, "listed", **{**fixed, "writers": writers, "shares": shares, **more}))


GROWN = stream(replace(JAVA, lanes=6), JAVA, mixed_by="time", shares=(0.5, 0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_not_false(kind: str) -> None:
    for seed in range(900, 906):
        case = made(draw(seed, kind))
        assert not falsehoods(case, perfect(case)), case.describe()
        if case.future is not None:
            assert false_contract(case, case.future.place) is None
        single = not case.recipe.keyless and not case.recipe.hot
        assert is_named(case, perfect(case)) == (single and perfect(case).verdict != "unknown"), case.describe()


@pytest.mark.parametrize("case", [stream(JAVA), stream(JAVA, SARAMA), GROWN], ids=["one", "two", "grown"])
def test_silence_is_not_false(case: Case) -> None:
    assert not falsehoods(case, Answer("unknown", case.count, "seen"))
    assert not falsehoods(case, Answer("unknown", case.count, "seen", (Named(None, 1.0),)))
    assert not is_named(case, Answer("unknown", case.count, "seen"))


def _writer(at: int, **changes: Any) -> Callable[[Answer], Answer]:
    def tamper(answer: Answer) -> Answer:
        writers = list(answer.writers)
        writers[at] = replace(writers[at], **changes)
        return replace(answer, writers=tuple(writers))

    return tamper


def _shares(first: float, second: float) -> Callable[[Answer], Answer]:
    return lambda answer: _writer(1, share=second)(_writer(0, share=first)(answer))


#: What is said wrongly: of which stream, and how it differs from the truth.
PLANTED: dict[str, tuple[Case, Callable[[Answer], Answer]]] = {
    "another client": (stream(JAVA), _writer(0, rule=SARAMA)),
    "the same hash with another fold": (stream(JAVA), _writer(0, rule=UNSIGNED)),
    "other key bytes": (stream(JAVA), _writer(0, rule=replace(JAVA, encoding="quoted"))),
    "another seed": (stream(JAVA), _writer(0, rule=replace(JAVA, seed=0))),
    "a writer that knows another lane count": (stream(JAVA, SARAMA), _writer(1, rule=replace(SARAMA, lanes=6))),
    "a share that is off by five points": (stream(JAVA, SARAMA), _shares(0.75, 0.25)),
    "a rest that is not there": (
        stream(JAVA),
        lambda answer: replace(answer, writers=(Named(JAVA, 1.0), Named(None, 0.1)), verdict="mixed"),
    ),
    "one writer where two wrote": (
        stream(JAVA, SARAMA),
        lambda answer: replace(answer, verdict="one-writer", writers=(Named(JAVA, 1.0),)),
    ),
    "two writers where one wrote": (
        stream(UNSIGNED),
        lambda answer: replace(answer, verdict="mixed", writers=(Named(None, 1.0),)),
    ),
    "a lane count that is proven and wrong": (stream(JAVA), lambda answer: replace(answer, lanes=16)),
    "fewer lanes than were seen": (
        stream(JAVA),
        lambda answer: replace(answer, lanes=11, lanes_from="seen", writers=(), verdict="unknown"),
    ),
    "a given lane count overruled": (
        stream(JAVA, given=True),
        lambda answer: replace(answer, lanes=16, lanes_from="seen", writers=(), verdict="unknown"),
    ),
    "a given lane count that nobody gave": (stream(JAVA), lambda answer: replace(answer, lanes_from="given")),
    "a client that would not have written the same": (stream(JAVA), _writer(0, also=(UNSIGNED,))),
    "restart one that has ended": (GROWN, _writer(0, restart=True)),
    "since a row at which it had not begun": (GROWN, _writer(1, first_row=2_000)),
    "until a row at which it had ended": (GROWN, _writer(0, last_row=5_000)),
    "since a time at which it had not begun": (GROWN, _writer(1, first_time=1_780_000_000_000_000)),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_falsehood_is_found(planted: str) -> None:
    case, tamper = PLANTED[planted]
    truth = perfect(case)
    assert not falsehoods(case, truth)
    assert falsehoods(case, tamper(truth))


@pytest.mark.parametrize(
    ("case", "contract"),
    [
        (stream(JAVA), SARAMA),
        (stream(JAVA), replace(JAVA, lanes=13)),
        (stream(JAVA), UNSIGNED),
        (stream(JAVA, SARAMA), SARAMA),
        (GROWN, replace(JAVA, lanes=6)),
        (stream(JAVA, keyless="random", keyless_share=1.0), JAVA),
    ],
    ids=["client", "count", "fold", "the smaller writer", "before it grew", "no writer"],
)
def test_a_contract_of_another_rule_is_false(case: Case, contract: Writer) -> None:
    assert false_contract(case, contract.place)
    assert false_contract(case, lambda _: None)


def test_what_cannot_be_told_from_the_truth_is_not_false() -> None:
    case = stream(UNSIGNED)
    named = Named(JAVA, 1.0, not_told_from=(UNSIGNED,))
    alone = Answer("mixed", 12, "seen", (named,))
    assert not [text for text in falsehoods(case, alone) if "nobody wrote" in text]
    # On powers of two the two are one.
    two = stream(replace(UNSIGNED, lanes=16))
    assert not falsehoods(two, Answer("one-writer", 16, "proven", (Named(replace(JAVA, lanes=16), 1.0),)))


def test_an_estimate_may_be_off_by_what_its_sample_allows() -> None:
    case = stream(JAVA, SARAMA, rows=200, distinct=100)
    truth = case.share(0)
    assert not falsehoods(case, Answer("mixed", 12, "seen", (Named(JAVA, truth + 0.05), Named(SARAMA, 0.95 - truth))))
    assert falsehoods(case, Answer("mixed", 12, "seen", (Named(JAVA, truth - 0.4), Named(SARAMA, 1.4 - truth))))
    assert np.isclose(case.share(0) + case.share(1), 1)
