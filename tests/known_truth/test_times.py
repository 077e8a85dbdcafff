"""What `profile` claims of times whose instants are known: false statements are counted, and there are none.

Each planted fault is a reader of times as it was, or nearly is; every one of them has to be caught.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from tests.worlds.face import run
from tests.worlds.times import FORMS, WINDOWS, drawn_times, judged, reached

from keylane.keys import time_forms, times

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.times import TimeCase

CASES = [drawn_times(seed) for seed in range(12 * len(FORMS))]


def claimed(case: TimeCase, folder: Path) -> list[str]:
    """What is false in the answer for a case; a refusal has to name the column, and what to give."""
    words = ["profile", str(case.write(folder)), "--key", "k", "--time", case.time, "--windows", str(WINDOWS)]
    words += ["--csv-null", ""] if case.ending == "csv" else []
    ran = run([*words, "--engine", "local", "-o", "json"], folder=folder)
    if ran.code:
        named = "Traceback" not in ran.err and re.search(r"'at'|\bat:", ran.err) and ran.code in (1, 2)
        return [] if case.refused and named else [f"refused: {ran.err}"]
    windows = json.loads(ran.out)["windows"]
    return judged(case, windows["edges"], windows["records"])


def false_claims(folder: Path, cases: list[TimeCase]) -> list[str]:
    """All that is false, with what shows it."""
    found = []
    for case in cases:
        found += [f"seed {case.seed}, {case.form}, {case.ending}: {one}" for one in claimed(case, folder)]
    return found


def test_every_form_is_read_as_it_was_written_or_refused(tmp_path: Path) -> None:
    assert false_claims(tmp_path, CASES) == []
    print(reached(CASES))


def test_the_cases_reach_every_form_and_every_fault() -> None:
    there = reached(CASES)
    assert all(there.get(name, 0) >= 2 for name in (*(one.name for one in FORMS), "csv", "jsonl", "refused", "strays"))


def _as_milliseconds(values: Any, missing: Any, unit: str | None) -> Any:
    """Seconds taken for milliseconds: what `match` and `aggregate` did."""
    return np.asarray(values).astype(np.int64) * 1000, missing


def _any_unit(_name: str, counts: list[int], **_: Any) -> str | None:
    """The unit of most values, whatever the others are."""
    return time_forms.UNITS[int(np.argmax(counts[:4]))] if sum(counts[:4]) else None


_real_text = times.text_micros


def _of_today(text: str) -> int | None:
    """A time of day is one of today."""
    return _real_text(text) if "-" in text else _real_text(f"2026-11-19 {text.strip()}")


def _no_offset(text: str) -> int | None:
    return _real_text(text.partition("+")[0])


_real_format = time_forms.format_of


def _months_first(form: str) -> Any:
    return _real_format(form.replace("%d/%m/", "%m/%d/"))


FAULTS = {
    "seconds are milliseconds": ("_of_whole", _as_milliseconds),
    "most values decide the unit": ("unit_of", _any_unit),
    "a clock is a time of today": ("text_micros", _of_today),
    "offsets are left out": ("text_micros", _no_offset),
    "months come first": ("format_of", _months_first),
    "one stray decides": ("few_of", lambda _: 0),
}


@pytest.fixture(params=list(FAULTS.values()), ids=list(FAULTS))
def fault(request: pytest.FixtureRequest) -> Iterator[None]:
    name, other = request.param
    from keylane.profile import read_rows

    where = [one for one in (times, read_rows) if hasattr(one, name)]
    patches = [mock.patch.object(one, name, other) for one in where]
    for one in patches:
        one.start()
    yield
    for one in patches:
        one.stop()


@pytest.mark.usefixtures("fault")
def test_each_planted_fault_is_caught(tmp_path: Path) -> None:
    found = []
    for case in CASES:
        found = claimed(case, tmp_path)
        if found:
            break
    assert found
