"""Planted faults of `identify` and `init`: each is found in a few drawn cases, or the oracle is too tame."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from tests.known_truth.asking import judged
from tests.worlds.producers import Recipe, Writer, draw

from keylane.measure import identify, mixture
from keylane.placement import fold

UNSIGNED = (Writer("murmur2", "unsigned", "utf8", 12),)


def _streams(kind: str, **fixed: Any) -> list[Recipe]:
    usual: dict[str, Any] = {"null_share": 0.0, "empty_share": 0.0, "distinct": 1_500, "rows": 5_000, "skew": "even"}
    return [draw(60_000 + at, kind, **{"given": False, **usual, **fixed}) for at in range(6)]


def _wrong_share(*given: Any, made: Any = identify._writer, **named: Any) -> Any:
    sample, found, number, share, *rest = given
    return made(sample, found, number, 0.8 * share, *rest, **named)


#: What is patched, with what, and cases of which one at least is answered wrongly then.
PLANTED: dict[str, tuple[dict[str, Any] | tuple[Any, str], Any, list[Recipe]]] = {
    "the sign is kept": (
        (fold.FOLDS, "masked"),
        fold.unsigned,
        _streams("parts", writers=UNSIGNED, population="padded"),
    ),
    "whatever fits more than chance holds": (
        (mixture, "_does_not_hold"),
        lambda *_: None,
        _streams("other fold", lanes=12),
    ),
    "half explained is enough for a contract": (
        (identify, "ENOUGH"),
        0.0,
        _streams("listed and keyless", keyless="random", keyless_share=0.65, lanes=12),
    ),
    "a second writer is a stray": (
        (identify, "_are_strays"),
        lambda *_: True,
        _streams("listed and keyless", keyless="random", keyless_share=0.3, lanes=12),
    ),
    "shares are a fifth too small": ((identify, "_writer"), _wrong_share, _streams("mixed listed", lanes=12)),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str) -> None:
    (target, name), wrong, recipes = PLANTED[fault]
    patched = (
        mock.patch.dict(target, {name: wrong}) if isinstance(target, dict) else mock.patch.object(target, name, wrong)
    )
    with patched:
        assert any(judged(recipe).false for recipe in recipes)


def test_without_a_fault_the_same_cases_are_answered_well() -> None:
    for _, _, recipes in PLANTED.values():
        assert not judged(recipes[0]).false
