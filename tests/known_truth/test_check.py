"""Known truth of conformance: `check --data` counts what is not where a contract puts it, and is ok where all is."""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from tests.worlds import face
from tests.worlds.changes import contract_text
from tests.worlds.producers import Case, Writer, draw, made

from keylane.placement import fold

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FIRST, EACH, NEW = 70_000, 2, 60
KINDS = ("listed", "mixed listed", "by key", "grown", "listed and keyless", "hot key pinned")


def false_of(case: Case, rule: Writer, folder: Path) -> list[str]:
    """What is said of the records under the contract of a rule, and is not so."""
    contract = folder / "contract.yaml"
    contract.write_text(contract_text(rule), encoding="utf-8")
    said = face.checked(contract, case.write(f"{folder}/case.parquet"))
    outside = int((case.lanes >= rule.lanes).sum())
    wrong = case.expected(rule.place) != case.lanes[case.keyed]
    empty = sum(key in ("", b"") for key in case.keys)
    # Clients differ in what they do with empty keys: each of them may be counted or not.
    least, most = int(wrong.sum()), int(wrong.sum()) + empty + outside
    false = []
    if not least <= said["data"]["misplaced"] <= most:
        false.append(f"{said['data']['misplaced']} misplaced, counted {least} to {most}")
    if said["data"]["rows"] != len(case.keys):
        false.append(f"{said['data']['rows']} rows, and there are {len(case.keys)}")
    if said["ok"] and least:
        false.append(f"ok, and {least} records are not in their lane")
    if not said["ok"] and not most:
        false.append("not ok, and every record is in its lane")
    return [f"{case.describe()}, by {rule}: {text}" for text in false]


def asked(seeds: Iterable[int], folder: Path) -> None:
    reached: Counter[str] = Counter()
    false = []
    for seed in seeds:
        for number, kind in enumerate(KINDS):
            case = made(draw(seed * len(KINDS) + number, kind, distinct=600, rows=2_000))
            for rule in (*case.writers, Writer("crc32", "unsigned", case.writers[0].encoding, case.count)):
                false += false_of(case, rule, folder)
                reached[kind] += 1
    print(f"\n{dict(reached)}")
    assert not false, "\n".join(false[:12])
    assert set(reached) == set(KINDS)


def test_what_is_said_of_a_contract_and_its_data_is_so(tmp_path: Path) -> None:
    asked(range(FIRST, FIRST + EACH), tmp_path)


@pytest.mark.faults
def test_what_is_said_of_new_data_is_so(tmp_path: Path) -> None:
    first = secrets.randbelow(10**8)
    print(f"seeds from {first}")
    asked(range(first, first + NEW), tmp_path)


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    rule = Writer("murmur2", "masked", "utf8", 12)
    case = made(draw(1, "listed", writers=(rule,), population="padded", distinct=600, rows=2_000))
    assert not false_of(case, rule, tmp_path)
    with mock.patch.dict(fold.FOLDS, masked=fold.unsigned):
        assert false_of(case, rule, tmp_path)
