"""A profile on the disk: whole, private, and not changed unnoticed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.profile.example_profiles import made

from keylane.contract.model import Key
from keylane.errors import DataError, TargetError, UsageError
from keylane.profile.model import Approximation, ObservedLanes, WithoutKey
from keylane.systems.profiles import is_profile, read_profile, staged, write_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.profile.model import Profile


def stored(path: Path, profile: Profile | None = None, *, replace: bool = False) -> Profile:
    written = profile or made(["a", "b", "c"], [[5, 1, 2], [0, 3, 1], [1, 0, 0]])
    with staged(path, replace=replace) as folder:
        write_profile(written, folder)
    return written


@pytest.mark.parametrize(
    "profile",
    [
        made(["a", "b"], [[3], [1]]),
        made(["a", "b"], [[3, 1, 4], [1, 0, 2]], size=np.array([9, 7]), bytes_total=16),
        made([b"\xff", b"a"], [[3, 1], [1, 0]], Key(fields=("k",), encoding="raw")),
        made([7, 8], [[3, 1], [1, 0]], Key(fields=("k",), encoding="int64be", on_null="reject")),
        made(["a"], [[2**31 - 1, 2**31 - 1]], without_key=WithoutKey(1, 2, 3), facts=(("time", "at"), ("files", 3))),
        made(
            ["a"],
            [[1, 2]],
            lanes=ObservedLanes(np.array([[1, 0], [0, 2]]), misplaced=1),
            approximate=Approximation(1, 2, 0.5, 3, 4),
        ),
    ],
    ids=["one window", "odd windows and sizes", "bytes", "numbers", "full counters", "lanes and sketches"],
)
def test_a_profile_is_read_back_as_it_was(profile: Profile, tmp_path: Path) -> None:
    from dataclasses import replace

    from keylane.profile.build import fingerprint_of

    profile = replace(profile, fingerprint=fingerprint_of(profile))
    stored(tmp_path / "p", profile)
    found = read_profile(tmp_path / "p")
    assert found.keys.equals(profile.keys)
    assert found.by_window.tolist() == profile.by_window.tolist()
    assert (found.key, found.windows, found.facts) == (profile.key, profile.windows, profile.facts)
    assert (found.without_key, found.bytes_total, found.approximate) == (
        *(profile.without_key, profile.bytes_total, profile.approximate),
    )
    assert (found.size is None) == (profile.size is None)
    assert found.fingerprint == profile.fingerprint
    if profile.lanes is not None:
        assert found.lanes is not None
        assert found.lanes.by_window.tolist() == profile.lanes.by_window.tolist()
    sums = pq.read_table(tmp_path / "p" / "keys" / "part-0.parquet")
    assert sums["keylane_records"].to_pylist() == profile.records.tolist()


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((path / "profile.json").read_text())
    change(document)
    (path / "profile.json").write_text(json.dumps(document))


def more_records(path: Path) -> None:
    file = path / "keys" / "part-0.parquet"
    table = pq.read_table(file)
    sums = pa.array([table["keylane_w0"][0].as_py() + 1, *table["keylane_w0"].to_pylist()[1:]])
    pq.write_table(table.set_column(table.column_names.index("keylane_w0"), "keylane_w0", sums), file)


def another_order(path: Path) -> None:
    file = path / "keys" / "part-0.parquet"
    pq.write_table(pq.read_table(file).take([1, 0, 2]), file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (more_records, "fingerprint"),
        (another_order, "fingerprint"),
        (lambda p: rewritten(p, lambda d: d["without_key"].update(null=9)), "fingerprint"),
        (lambda p: rewritten(p, lambda d: d.update(source="other")), "fingerprint"),
        (lambda p: rewritten(p, lambda d: d.pop("windows")), "damaged"),
        (lambda p: rewritten(p, lambda d: d.update(key={"fields": []})), "damaged"),
        (lambda p: rewritten(p, lambda d: d.update(format="keylane.profile-folder/2")), "that this version reads"),
        (lambda p: (p / "profile.json").write_text("{"), "damaged"),
        (lambda p: (p / "profile.json").write_text("[]"), "that this version reads"),
        (lambda p: (p / "keys" / "part-0.parquet").write_bytes(b"no"), "damaged"),
        (lambda p: (p / "keys" / "part-0.parquet").unlink(), "damaged"),
        (lambda p: (p / "profile.json").unlink(), "not a profile"),
        (shutil.rmtree, "not a profile"),
    ],
    ids=[
        *(
            "one record more",
            "another order",
            "other totals",
            "another source",
            "no windows",
            "no key",
            "a later format",
        ),
        *("half a document", "a list", "no Parquet", "no keys", "no document", "nothing"),
    ],
)
def test_a_profile_that_was_changed_is_refused(change: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    stored(tmp_path / "p")
    change(tmp_path / "p")
    with pytest.raises(DataError, match=words):
        read_profile(tmp_path / "p")


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    stored(tmp_path / "p")
    for path in (tmp_path / "p", *(tmp_path / "p").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0


def test_a_profile_is_replaced_only_when_asked_and_nothing_else_ever(tmp_path: Path) -> None:
    first = stored(tmp_path / "p")
    with pytest.raises(UsageError, match="exists already"):
        stored(tmp_path / "p")
    second = stored(tmp_path / "p", made(["z"], [[1]]), replace=True)
    assert read_profile(tmp_path / "p").fingerprint == second.fingerprint != first.fingerprint
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(TargetError, match="nothing was changed"):
        stored(tmp_path / "mine", replace=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TargetError, match="nothing was changed"):
        stored(tmp_path / "file", replace=True)
    assert not is_profile(tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine", "p"]


def test_a_profile_that_fails_in_the_making_leaves_nothing(tmp_path: Path) -> None:
    first = stored(tmp_path / "p")
    for name in ("p", "q"):
        with pytest.raises(FileNotFoundError), staged(tmp_path / name, replace=True) as folder:
            (folder / "half" / "way").write_text("x")
    with staged(None) as folder:
        (folder / "x").write_text("x")
    assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert read_profile(tmp_path / "p").fingerprint == first.fingerprint
