"""Masks of keys: alike for one source and one user, and for nobody else."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

import keylane
from keylane.systems.masks import NAME, SIZE, salt_of

if TYPE_CHECKING:
    from pathlib import Path

A, B = b"a" * SIZE, b"b" * SIZE


def test_the_salt_of_a_source_is_the_same_in_every_run(tmp_path: Path) -> None:
    home = {"KEYLANE_MASKS": str(tmp_path / "keylane")}
    first = salt_of("kafka://b:9092/t", A, home)
    assert first == salt_of("kafka://b:9092/t", B, home)
    assert len(first) == SIZE
    # Neither the secret nor another source's.
    assert first not in {A, B, salt_of("kafka://b:9092/u", A, home)}
    kept = tmp_path / "keylane" / NAME
    assert kept.read_text() == A.hex()
    assert [path.stat().st_mode & 0o777 for path in (kept, kept.parent)] == [0o600, 0o700]
    assert [path.name for path in kept.parent.iterdir()] == [NAME]


def test_a_path_is_known_by_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = {"XDG_DATA_HOME": str(tmp_path / "data")}
    monkeypatch.chdir(tmp_path)
    assert salt_of("a.csv", A, home) == salt_of(str(tmp_path / "a.csv"), B, home)
    assert (tmp_path / "data" / "keylane" / NAME).exists()


def test_another_user_has_another_secret(tmp_path: Path) -> None:
    one, other = ({"KEYLANE_MASKS": str(tmp_path / name)} for name in ("one", "other"))
    assert salt_of("a.csv", A, one) != salt_of("a.csv", B, other)


def test_twin_without_a_secret_every_run_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / NAME).write_text("short")
    for home in ("", str(tmp_path / "file" / "below"), str(damaged)):
        assert salt_of("a.csv", A, {"KEYLANE_MASKS": home}) == A


def test_a_secret_that_others_can_read_is_closed(tmp_path: Path) -> None:
    home = {"KEYLANE_MASKS": str(tmp_path / "keylane")}
    before = salt_of("a.csv", A, home)
    (tmp_path / "keylane" / NAME).chmod(0o644)
    assert salt_of("a.csv", B, home) == before
    assert (tmp_path / "keylane" / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kept", [True, False])
def test_commands_name_a_key_of_a_source_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    monkeypatch.setenv("KEYLANE_MASKS", str(tmp_path / "keylane") if kept else "")
    data = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"k": ["merchant_7"] * 60 + [f"m{n}" for n in range(40)], "lane": [0] * 100}), data)
    masks = set()
    for _ in range(2):
        profiled = keylane.profile(data, key="k")
        planned = keylane.plan(data, key="k", lanes=4)
        for document in (profiled, planned):
            text = json.dumps(document.as_json(), ensure_ascii=False)
            masks |= set(re.findall(r"mer…[0-9a-f]{6}", text))
    stored = keylane.profile(data, key="k", out=tmp_path / "a.profile")
    masks |= set(re.findall(r"mer…[0-9a-f]{6}", json.dumps(stored.as_json(), ensure_ascii=False)))
    assert len(masks) == (1 if kept else 5)
