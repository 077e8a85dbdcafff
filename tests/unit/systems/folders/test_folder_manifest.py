from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from keylane.errors import CountError, TargetError
from keylane.systems.folders.folder import Counts, Head, Manifest, Placed, TakenFile, read_head
from keylane.systems.journal import write_document

if TYPE_CHECKING:
    from pathlib import Path

HEAD = Head("orders", 1, "f" * 64, {"orders": 2, "vip": 1}, "/in", "parquet", "*")


def test_counts_add_up_or_say_how_not() -> None:
    assert (Counts(5, 3, 1, 1) + Counts(1, 1)) - Counts(1, 1) == Counts(5, 3, 1, 1).checked("batch 1")
    words = r"records of batch 1 do not add up: got 'in 5, out 3, dead 1, filtered 0'; allowed: in = out .*; hint: why"
    with pytest.raises(CountError, match=words):
        Counts(5, 3, 1, 0).checked("batch 1", "why")
    with pytest.raises(CountError):
        Counts(5, 6).checked("batch 1")


def test_counts_as_json() -> None:
    counts = Counts(5, 3, 1, 1)
    assert counts.as_json() == {"in": 5, "out": 3, "dead": 1, "filtered": 1}
    assert Counts.from_json(counts.as_json()) == counts


def test_a_head_and_its_json() -> None:
    written = json.loads(json.dumps(HEAD.as_json()))
    assert Head.from_json(written) == HEAD


def test_a_head_of_another_format_is_refused_by_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "_keylane").mkdir()
    file = tmp_path / "_keylane" / "target.json"
    file.write_text(json.dumps({**HEAD.as_json(), "format": "keylane.folder/9"}))
    words = r"target.json has another format: got 'keylane.folder/9'; allowed: keylane.folder/2"
    with pytest.raises(TargetError, match=words):
        read_head(tmp_path)
    file.write_text("{}")
    with pytest.raises(TargetError, match="another form"):
        read_head(tmp_path)
    write_document(file, {"format": "keylane.folder/2"})
    with pytest.raises(TargetError, match=r"target\.json, a file .* is damaged: got .KeyError: 'contract'"):
        read_head(tmp_path)


def test_what_differs_is_reported() -> None:
    other = Head("orders", 2, "f" * 64, {"orders": 3, "vip": 1}, "/in", "parquet", "*")
    assert HEAD.differences(HEAD) == []
    assert HEAD.differences(other) == [
        "epoch: 1 here, 2 given",
        "streams: {'orders': 2, 'vip': 1} here, {'orders': 3, 'vip': 1} given",
    ]


def test_a_manifest_and_its_json() -> None:
    placed, taken = (Placed("0", "stream=orders/lane=0/part-1.parquet", 2),), (TakenFile("a b", 10, 5, 2),)
    counts, next_ = Counts(2, 2), {"orders": [2, 0], "vip": [0]}
    manifest = Manifest(1, "q", "f" * 64, "s", counts, counts, next_, 0, placed, taken, 2, 1, 10, "{}")
    assert Manifest.from_json(json.loads(json.dumps(manifest.as_json()))) == manifest
    written = manifest.as_json()
    del written["taken"]
    with pytest.raises(KeyError):
        Manifest.from_json(written)


def test_before_all_there_is_nothing() -> None:
    nothing = Manifest.before_all(HEAD)
    assert (nothing.batch, nothing.total, nothing.next) == (-1, Counts(), {"orders": [0, 0], "vip": [0]})
