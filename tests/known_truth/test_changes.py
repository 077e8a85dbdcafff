"""Known truth of changes: the share of keys that moves, as each verb states it, is what both contracts show."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import gcd, sqrt
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from tests.worlds import face
from tests.worlds.changes import CHANGES, KEYS, Change, draw_change
from tests.worlds.producers import Writer

from keylane.contract import moved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FIRST, EACH, NEW = 40_000, 4, 200


def false_of(change: Change, folder: Path) -> tuple[list[str], bool]:
    """What is stated of a change and is not so, and whether every verb states a share: silence is not false."""
    paths = folder / "old.yaml", folder / "new.yaml"
    for path, text in zip(paths, change.texts(), strict=True):
        path.write_text(text, encoding="utf-8")
    counted = change.moved()
    allowed = 4 * sqrt(counted * (1 - counted) / KEYS) + 0.001
    stated = face.stated_moves(*paths)
    false = [
        f"{change}: {verb} states {share:.2%}, counted {counted:.2%}"
        for verb, share in stated.items()
        if share is not None and abs(share - counted) > allowed
    ]
    return false, None not in stated.values()


def asked(seeds: Iterable[int], folder: Path) -> None:
    reached: Counter[str] = Counter()
    known, false = 0, []
    for seed in seeds:
        change = draw_change(seed, CHANGES[seed % len(CHANGES)])
        found, stated = false_of(change, folder)
        reached[change.what] += 1
        known += stated
        false += found
    print(f"\n{dict(reached)}, share stated by all: {known}")
    assert not false, "\n".join(false[:12])
    assert set(reached) == set(CHANGES)
    assert known > reached.total() / 2


def test_what_is_stated_to_move_moves(tmp_path: Path) -> None:
    asked(range(FIRST, FIRST + EACH * len(CHANGES)), tmp_path)


@pytest.mark.faults
def test_what_is_stated_of_new_changes_moves(tmp_path: Path) -> None:
    first = secrets.randbelow(10**9) // len(CHANGES) * len(CHANGES)
    asked(range(first, first + NEW * len(CHANGES)), tmp_path)


def _as_if_one_fold(before: str, after: str, old: int, new: int) -> Fraction:
    return Fraction(gcd(old, new), max(old, new))


def _change(old: Writer, new: Writer, population: str = "spread-ints") -> Change:
    return Change("planted", (old.names[0], new.names[0]), (old, new), population, 1)


SARAMA = Writer("fnv1a", "absolute", "int32be", 12)
JAVA = Writer("murmur2", "masked", "int32be", 12)
SHARDS = Writer("md5-128", "ranges", "utf8", 6)
#: A fault in the package, and a change in which it shows.
PLANTED = {
    "folds are taken for one": ("_kept_by_folds", _as_if_one_fold, _change(SARAMA, replace(SARAMA, fold="masked"))),
    "strangers never agree": (
        "_by_strangers",
        lambda *_: 1.0,
        _change(SARAMA, replace(SARAMA, hash="murmur2", fold="masked")),
    ),
    "other key bytes are strangers": ("RELATED", frozenset(), _change(SARAMA, replace(SARAMA, encoding="int64be"))),
    "key bytes are not looked at": ("_bytes", lambda _: 0, _change(SARAMA, replace(SARAMA, encoding="utf8"))),
    "ranges grow as counts do": (
        "kept_by_ranges",
        lambda old, new: Fraction(len(old), len(new)),
        _change(SHARDS, replace(SHARDS, lanes=9)),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path) -> None:
    name, wrong, change = PLANTED[fault]
    assert not false_of(change, tmp_path)[0]
    with mock.patch.object(moved, name, wrong):
        assert false_of(change, tmp_path)[0]
