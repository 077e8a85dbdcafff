"""The cases that every way to place a record must agree on, by topic. One more entry here runs on every way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.parity.cases import encodings, overrides, partitioners, places, rules, windows

if TYPE_CHECKING:
    from tests.parity.cases.case import Case

TOPICS = (partitioners, encodings, windows, rules, overrides, places)
CASES: dict[str, Case] = {name: case for topic in TOPICS for name, case in topic.CASES.items()}
