"""Known truth of heat: what `profile` and `plan` state of streams with a planted cause, and what came of the plan."""

from __future__ import annotations

import copy
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from tests.worlds import face
from tests.worlds.changes import contract_text
from tests.worlds.heat import CAUSES, Heated, false_plan, false_profile, heated

from keylane.measure import hot_lanes
from keylane.plan import choose, current
from keylane.plan.cost import MovedShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Document = dict[str, Any]

FIRST, EACH, NEW = 50_000, 2, 60


def answers(case: Heated, folder: Path) -> tuple[Document, Document]:
    """The profile and the plan of the half that is shown; contracts are `today.yaml` and `next.yaml`."""
    today, later = folder / "today.yaml", folder / "next.yaml"
    today.write_text(contract_text(case.rule), encoding="utf-8")
    path = case.write(str(folder / "case.parquet"))
    profile, plan = face.profiled(path, today), face.planned(path, today, case.rule.lanes)
    later.write_text(plan["contract"] or today.read_text(encoding="utf-8"), encoding="utf-8")
    return profile, plan


def judged(case: Heated, profile: Document, plan: Document, folder: Path) -> list[str]:
    keys = {*case.records, *case.later}
    before, after = (face.places(folder / name, keys) for name in ("today.yaml", "next.yaml"))
    found = [*false_profile(case, profile), *false_plan(case, plan, before, after)]
    return [f"{case.describe()}: {text}" for text in found]


def asked(seeds: Iterable[int], folder: Path) -> None:
    reached: Counter[str] = Counter()
    false = []
    for seed in seeds:
        for cause in CAUSES:
            case = heated(cause, seed)
            profile, plan = answers(case, folder)
            false += judged(case, profile, plan, folder)
            reached.update([cause, plan["advice"]["answer"]])
    print(f"\n{dict(reached)}")
    assert not false, "\n".join(false[:12])
    assert {*CAUSES, "worth-it", "leave-it"} <= set(reached)


def test_what_is_stated_of_heat_is_so(tmp_path: Path) -> None:
    asked(range(FIRST, FIRST + EACH), tmp_path)


@pytest.mark.faults
def test_what_is_stated_of_new_streams_is_so(tmp_path: Path) -> None:
    first = secrets.randbelow(10**9)
    print(f"seeds from {first}")
    asked(range(first, first + NEW), tmp_path)


def _set(path: str, value: Any) -> Callable[[Document, Document], None]:
    def tamper(profile: Document, plan: Document) -> None:
        *way, last = path.split(".")
        at: Any = {"profile": profile, "plan": plan}
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        at[last] = value(at[last]) if callable(value) else value

    return tamper


TAMPERED = {
    "another cause": _set("profile.hot.cause", "few-keys"),
    "a key too many": _set("profile.distinct_keys", lambda keys: keys + 1),
    "a record too few": _set("profile.records", lambda records: records - 1),
    "a heavy key too light": _set("profile.heavy.0.records", lambda records: records - 40),
    "a share of something else": _set("profile.heavy.0.share", lambda share: share * 1.1),
    "a heavy key that is not named": _set("profile.heavy", lambda heavy: heavy[1:]),
    "a record that is misplaced": _set("profile.lanes.misplaced", 1),
    "keys that do not move": _set("plan.chosen.moved_keys", 0.0),
    "traffic that does not move": _set("plan.change.moved_traffic", lambda share: share / 2),
    "a lane that is less full": _set("plan.chosen.fullest_share", lambda share: share / 2),
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Heated, Document, Document, Path]:
    """One hot key, for which a plan is worth it."""
    folder = tmp_path_factory.mktemp("heat")
    for seed in range(20):
        case = heated("one-key", seed)
        profile, plan = answers(case, folder)
        if plan["changes"]:
            return case, profile, plan, folder
    raise AssertionError("no plan of twenty is worth it")


@pytest.mark.parametrize("tampered", TAMPERED)
def test_a_tampered_answer_is_found(tampered: str, answered: tuple[Heated, Document, Document, Path]) -> None:
    case, profile, plan, folder = answered
    assert not judged(case, profile, plan, folder)
    profile, plan = copy.deepcopy(profile), copy.deepcopy(plan)
    TAMPERED[tampered](profile, plan)
    assert judged(case, profile, plan, folder)


def test_a_plan_that_is_worse_is_found(answered: tuple[Heated, Document, Document, Path]) -> None:
    case, _, plan, _ = answered
    keys = [*{*case.records, *case.later}]
    before = {key: ("case", int(lane)) for key, lane in zip(keys, case.rule.place(keys), strict=True)}
    worse = dict.fromkeys(keys, ("case", 0))
    assert [text for text in false_plan(case, plan, before, worse) if "worse than today" in text]


def _half(*given: Any, moved: Callable[..., MovedShares] = current.moved_from) -> MovedShares:
    found = moved(*given)
    return MovedShares(found.keys / 2, found.traffic / 2)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (hot_lanes, "STANDS_OUT", 1e9),
        (choose, "moved_from", _half),
    ],
    ids=["no key stands out", "half of what moves"],
)
def test_a_planted_fault_is_found(
    module: Any, name: str, wrong: Any, answered: tuple[Heated, Document, Document, Path], tmp_path: Path
) -> None:
    case = answered[0]
    with mock.patch.object(module, name, wrong):
        profile, plan = answers(case, tmp_path)
    assert judged(case, profile, plan, tmp_path)
