"""How full is the fullest lane? `profile` and `plan` answer of other records, and each figure says of which."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

LANES, RECORDS = 8, 4_000
#: Every so many records have no key.
WITHOUT = 40
CONTRACT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments, epoch: 1, owner: us}
spec: {streams: [payments], lanes: 8, key: {fields: [k]}, partitioner: kafka-java}
"""


def keys() -> list[str | None]:
    """One key becomes hot in the last third, so that newer records answer otherwise."""
    found: list[str | None] = [f"key-{n * n % 211}" for n in range(RECORDS)]
    found[RECORDS * 2 // 3 :: 3] = ["hot"] * len(found[RECORDS * 2 // 3 :: 3])
    found[::WITHOUT] = [None] * len(found[::WITHOUT])
    return found


def fullest(found: Sequence[str | None]) -> float:
    """Counted here: the share of the fullest lane, of records with a key."""
    place = partitioner("kafka-java").lane
    lanes = Counter(place(key.encode(), LANES) for key in found if key is not None)
    return max(lanes.values()) / lanes.total()


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("KEYLANE_MASKS", str(tmp_path / "masks"))
    table = {"k": keys(), "ts": pa.array(range(1_700_000_000, 1_700_000_000 + 60 * RECORDS, 60))}
    pq.write_table(pa.table(table), tmp_path / "day.parquet")
    (tmp_path / "c.yaml").write_text(CONTRACT)
    return tmp_path / "day.parquet", tmp_path / "c.yaml"


def asked(run: Run, verb: str, source: Path, contract: Path, *more: object) -> tuple[dict[str, Any], str]:
    """The document of a verb, and its answer on a terminal."""
    own = (source, "--contract", contract, "--key", "k", "--time", "ts:s", *more)
    documents = run(verb, *own, "-o", "json")[1]
    return json.loads(documents), run(verb, *own)[1]


def numbers_in(text: str) -> set[int]:
    return {int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)}


@pytest.mark.parametrize("planted", [None, "planner._basis", "document.basis_in_short"])
def test_each_verb_names_the_records_that_its_share_is_of(
    run: Run, given: tuple[Path, Path], planted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where one does not, that is noticed."""
    if planted is None:
        check_bases(run, given)
        return
    monkeypatch.setattr(f"keylane.plan.{planted}", lambda *_, **__: "all records")
    with pytest.raises(AssertionError):
        check_bases(run, given)


def check_bases(run: Run, given: tuple[Path, Path]) -> None:
    """Each share is what is counted here, of the records that are named beside it."""
    profile, shown = asked(run, "profile", *given)
    plan, planned = asked(run, "plan", *given, "--lanes", LANES)
    known = keys()
    keyed = sum(key is not None for key in known)
    assert (profile["records"], keyed) == (RECORDS, RECORDS - RECORDS // WITHOUT)
    of_all = profile["hot"]["lanes"][0]["share"]
    assert of_all == pytest.approx(fullest(known), abs=1e-6)
    assert keyed in numbers_in(profile["hot"]["basis"])
    (says,) = [line for line in shown.splitlines() if "times the mean" in line]
    assert keyed in numbers_in(says)
    # The windows have the records with a key, the first line all of them.
    (windows,) = [line for line in shown.splitlines() if line.startswith("windows")]
    assert keyed in numbers_in(windows)
    assert RECORDS in numbers_in(shown.splitlines()[0])

    newest = plan["basis"]["records"]
    assert plan["basis"]["of"] == keyed > newest
    of_newest = plan["today"]["fullest_share"]
    taken = [key for key in known if key is not None][-newest:]
    assert of_newest == pytest.approx(fullest(taken), abs=1e-6)
    assert of_newest != pytest.approx(of_all, abs=0.01), "other figures, so each has to say of what"
    (title,) = [line for line in planned.splitlines() if line.startswith("candidates")]
    assert newest in numbers_in(title)
    (hot,) = [line for line in planned.splitlines() if "times the mean" in line]
    assert keyed in numbers_in(hot)


def test_pages_name_them_too(run: Run, given: tuple[Path, Path], tmp_path: Path) -> None:
    for verb in ("profile", "plan"):
        page = tmp_path / f"{verb}.html"
        document, _ = asked(run, verb, *given, "--report", page, "--force")
        text = re.sub(r"<[^>]+>", " ", re.sub(r"<(script|style|svg).*?</\1>", "", page.read_text(), flags=re.DOTALL))
        keyed = RECORDS - RECORDS // WITHOUT
        assert re.search(rf"(Shares and means are of|of) all {keyed:,} records with a key", text)
        if verb == "plan":
            assert f"of the newest {document['basis']['records']:,} records" in text
