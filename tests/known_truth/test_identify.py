"""Known truth: nothing that `identify` and `init` claim of streams whose writers are known is false.

The same cases in every run; new ones, and more, with `-m faults`. A failure prints its seed, the smallest case that
still fails, and a command that shows it.
"""

from __future__ import annotations

import secrets

import pytest
from tests.known_truth.asking import Reached, judged, shown, spread

#: Seeds of `make test`, and how many cases of each kind; the figures of `benchmarks` have others.
FIRST, EACH = 30_000, 3
NEW = 40


def asked(first: int, each: int) -> None:
    reached, false = Reached(), []
    for recipe in spread(first, each):
        one = judged(recipe)
        reached.add(one)
        if one.false:
            false.append(one)
    print(f"\n{reached}")
    print(f"{len(false)} with a false statement; seeds from {first}")
    assert not false, "\n".join(shown(one, smallest=at < 3) for at, one in enumerate(false[:12]))
    assert not reached.empty


def test_nothing_that_is_said_of_known_writers_is_false() -> None:
    asked(FIRST, EACH)


@pytest.mark.faults
def test_nothing_that_is_said_of_new_cases_is_false() -> None:
    asked(secrets.randbelow(10**9) + 10**6, NEW)
