"""The document of a profile."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.unit.profile.example_profiles import made

from keylane.contract.model import Key
from keylane.profile.document import key_ranks, masked, overview, shown, window_notes
from keylane.profile.model import Approximation, ObservedLanes, Windows, WithoutKey

KEYS = ["merchant-a", "merchant-b", "Merchant-B"]
COUNTS = [[5, 0, 3], [0, 2, 0], [1, 0, 0]]


def document(**changes: Any) -> dict[str, Any]:
    asked = {name: changes.pop(name) for name in ("show_keys", "stored") if name in changes}
    return overview(made(KEYS, COUNTS, **changes), salt=b"salt", **asked).as_json()


def test_heavy_keys_ranks_and_windows_are_read_off_the_counts() -> None:
    found = document(show_keys=True, stored="a.profile")
    assert [(one["key"], one["records"], one["by_window"]) for one in found["heavy"]] == [
        ("merchant-a", 8, [5, 0, 3]),
        ("merchant-b", 2, [0, 2, 0]),
        ("Merchant-B", 1, [1, 0, 0]),
    ]
    assert found["heavy"][0]["share"] == 8 / 11
    assert found["windows"]["records"] == [6, 2, 3]
    assert found["windows"]["distinct_keys"] == [2, 1, 1]
    assert found["windows"]["new_keys"] == [2, 1, 0]
    assert found["windows"]["edges"] == [0, 4, 8, 11]
    assert found["lookalikes"] == {
        "groups": 1,
        "records": 1,
        "examples": [{"kind": "case", "keys": ["merchant-b", "Merchant-B"], "records": [2, 1]}],
    }
    assert (found["records"], found["distinct_keys"], found["profile"], found["hot"]) == (11, 3, "a.profile", None)


def test_no_key_is_in_the_document_unless_asked_for() -> None:
    text = json.dumps(document(), ensure_ascii=False)
    assert not any(key in text for key in KEYS)
    assert masked("merchant-a", b"salt") in text
    whole = json.dumps(document(show_keys=True))
    assert all(key in whole for key in KEYS)


def test_a_masked_key_shows_its_beginning_and_depends_on_the_salt() -> None:
    assert masked("merchant_000042", b"a").startswith("merc…")
    assert masked("merchant_000042", b"a") != masked("merchant_000043", b"a")
    assert masked("merchant_000042", b"a") != masked("merchant_000042", b"b")


@pytest.mark.parametrize("key", ["", "7", "ab", "abcd", "abcdef", "abcdefghi", "a" * 100])
def test_a_masked_key_never_shows_more_than_a_third_of_it(key: str) -> None:
    before = masked(key, b"a").partition("…")[0]
    assert key.startswith(before)
    assert len(before) <= min(4, len(key) / 3)


def test_keys_of_bytes_are_shown_as_text_where_they_are_text() -> None:
    assert shown((b"m-1",)) == "m-1"
    assert shown((b"\x00\x01",)) == "0x0001"
    assert (
        overview(made([b"m-1"], [[1]], Key(fields=("k",), encoding="raw")), salt=b"", show_keys=True).heavy[0].key
        == "m-1"
    )


def test_ranks_are_evenly_apart_on_a_logarithmic_scale_and_end_with_the_last_key() -> None:
    records = np.sort(np.random.default_rng(1).zipf(1.4, 10_000))[::-1]
    ranks = key_ranks(records, int(records.sum()))
    numbers = [one.rank for one in ranks]
    assert (numbers[0], numbers[-1]) == (1, 10_000)
    assert 40 < len(numbers) <= 60
    assert numbers == sorted(set(numbers))
    assert ranks[-1].cumulative == pytest.approx(1.0)


def test_times_are_written_in_utc() -> None:
    found = document(windows=Windows("time", (0, 86_400_000_000, 172_800_000_000, 259_200_000_000)))
    assert found["windows"]["edges"][:2] == ["1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"]
    far = document(windows=Windows("time", (0, 1, 2, 2**62)))
    assert far["windows"]["edges"][-1] == "9999-12-31T23:59:59.999999Z", "the last that can be named"


def test_what_is_not_exact_or_not_measured_is_stated() -> None:
    found = document(
        approximate=Approximation(most_over=7, distinct_keys=900, distinct_error=0.02, untracked=40, most_under=14),
        facts=(("time", "at"), ("without_time", 3), ("window_records", [20, 20, 11]), ("files", 2)),
        windows=Windows("time", (0, 1, 2, 3)),
    )
    assert (found["records"], found["distinct_keys"], found["heavy"][0]["error"]) == (51, 900, 7)
    assert found["windows"]["records"] == [20, 20, 11]
    assert "at most 14" in found["how"]["heavy"]
    assert "3 records have no readable time" in found["how"]["windows"]
    assert "was not measured" in found["how"]["bytes"]
    exact = document(without_key=WithoutKey(1, 2, 3), lanes=ObservedLanes(np.ones((2, 3), np.int64), 5))
    assert "exact" in exact["how"]["records"]
    assert "5 records" in exact["how"]["lanes"]
    assert exact["records"] == 17


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ([("unit", "s"), ("unit_by_size", True)], "at:ms"),
        ([("unit", "ms"), ("unit_by_size", True)], "at:s"),
        ([("written_times", True)], "UTC"),
        ([("time_format", "%d. %m. %Y")], "UTC"),
        ([("strays", [0, 1, 4_102_444_800_000_000, 4_102_444_800_000_000])], "2100-01-01"),
        ([("without_time", 3)], "3 records"),
        ([], None),
    ],
    ids=["seconds", "milliseconds", "text", "a format", "strays", "without a time", "times as such"],
)
def test_how_times_were_read_is_a_note_of_the_answer(facts: list[tuple[str, object]], named: str | None) -> None:
    made_of = made(KEYS, COUNTS, facts=(("time", "at"), *facts), windows=Windows("time", (0, 1, 2, 3)))
    notes = list(window_notes(overview(made_of, salt=b"salt")))
    assert len(notes) == (0 if named is None else 1)
    assert all(named is not None and named in note for note in notes)
