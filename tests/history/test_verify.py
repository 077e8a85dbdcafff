"""Two streams held against each other: clean under every kind of contract, broken by every kind of damage."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.history.written_targets import make, payments, rewrite

from keylane.errors import DataError, TargetError, UsageError
from keylane.pipelines.verify import verify
from keylane.systems.journal import read_document, write_document
from keylane.testing.history import RULES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane import Contract

    Make = Callable[..., Contract]

KEY = {"fields": ["k"], "on_null": "reject"}
WINDOW = {"fields": ["k"], "on_null": "reject", "window": {"field": "ts", "size": "1h"}}
CONTRACTS: dict[str, dict[str, Any]] = {
    "a key": {"key": KEY},
    "a window": {"key": WINDOW},
    "pinned": {"key": WINDOW, "hot_keys": [{"keys": ["hot"], "pin": {"lanes": [3]}}]},
    "spread by sub-key": {"key": KEY, "hot_keys": [{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}]},
    "spread in windows": {"key": WINDOW, "hot_keys": [{"keys": ["hot"], "spread": {"lanes": [1, 5], "by": "order"}}]},
    "spread by position": {"key": KEY, "hot_keys": [{"keys": ["hot"], "spread": {"over": 3, "by_position": True}}]},
    "a tier": {"key": KEY, "hot_keys": [{"keys": ["hot"], "tier": {"stream": "vip", "lanes": 2}}]},
    "a tier, spread": {
        "key": KEY,
        "hot_keys": [{"keys": ["hot"], "tier": {"stream": "vip", "lanes": 4, "spread": {"over": 2, "by": "order"}}}],
    },
    "a table": {"key": WINDOW, "table": {"values": {"hot": [0, 1], "key-1": 2}, "by": "order"}},
    "nulls by position": {"key": {"fields": ["k"], "on_null": "round_robin"}},
    "keyless": {"partitioner": "librdkafka-random"},
}


@pytest.fixture
def made(contract: Make, tmp_path: Path) -> tuple[Path, Path, Contract]:
    """A source, its target, and the contract."""
    agreed = contract(key=KEY, lanes=4)
    return *make(tmp_path, agreed, payments()), agreed


def lane_files(target: Path) -> list[Path]:
    return sorted(target.glob("stream=t/lane=*/*.parquet"))


@pytest.mark.parametrize("spec", CONTRACTS.values(), ids=CONTRACTS)
def test_a_right_target_is_certified_under_every_contract(spec: dict[str, Any], contract: Make, tmp_path: Path) -> None:
    agreed = contract(**spec)
    source, target = make(tmp_path, agreed, payments())
    found = verify(str(source), str(target), agreed)
    assert found.ok, (found.verdict.violations, found.miscounted, found.unproven)
    assert found.verdict.facts["ok"] == found.verdict.facts["compared"] == 1200
    assert verify(str(source), str(target)).outcome == "not proven"


@pytest.mark.parametrize("name", ["a window", "pinned", "spread by sub-key", "spread in windows", "a tier", "a table"])
def test_what_is_kept_in_order_is_checked_under_every_contract(name: str, contract: Make, tmp_path: Path) -> None:
    agreed = contract(**CONTRACTS[name])
    source, target = make(tmp_path, agreed, payments())
    for file in sorted(target.glob("stream=*/lane=*/part-0000000001.parquet")):
        rewrite(file, range(pq.read_metadata(file).num_rows)[::-1])
    assert verify(str(source), str(target), agreed).verdict.counts["reordered"] > 100


def test_the_certificate_says_what_was_seen(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    found = verify(str(source), str(target), agreed)
    assert found.verdict.records + found.verdict.facts["dead"] == 1200
    assert found.claimed is not None
    assert (found.claimed.in_, found.claimed.dead) == (1200, found.verdict.facts["dead"])
    assert sum(lane.records for lane in found.verdict.lanes) == found.verdict.records
    assert all(lane.last == lane.records - 1 for lane in found.verdict.lanes)
    assert (found.contract, found.fingerprint) == ("test", agreed.fingerprint)
    assert set(RULES) - set(found.rules) == {"stale_epochs", "two_owners", "early_applies"}
    assert (found.outcome, found.unproven) == ("certified", ())
    assert found.cost is not None
    assert 0 < found.cost[0] < found.cost[1]


def test_without_a_contract_it_says_what_it_did_not_check(made: tuple[Path, Path, Contract]) -> None:
    found = verify(str(made[0]), str(made[1]))
    assert (found.ok, found.outcome) == (False, "not proven")
    assert {one.rule: (one.records, one.hint) for one in found.unproven} == {
        "misrouted": (1200, "give --contract"),
        "split_keys": (1170, "give --contract"),
    }
    assert found.fingerprint == made[2].fingerprint


def delete_a_file(target: Path) -> None:
    lane_files(target)[2].unlink()


def copy_a_file(target: Path) -> None:
    file = lane_files(target)[2]
    shutil.copy(file, file.with_name("part-copy.parquet"))


def swap_records(target: Path) -> None:
    file = lane_files(target)[2]
    rewrite(file, range(pq.read_metadata(file).num_rows)[::-1])


def move_a_file(target: Path) -> None:
    file = lane_files(target)[0]
    file.rename(target / "stream=t" / "lane=3" / "part-0000000077.parquet")


def swap_files(target: Path) -> None:
    """Offsets and order are as they were, file by file; the files stand for each other's batches."""
    one, other, *_ = sorted((target / "stream=t" / "lane=1").iterdir())
    rows = [pq.ParquetFile(file).read() for file in (one, other)]
    offsets = [table["keylane_offset"] for table in rows]
    for file, table, numbers in zip((one, other), reversed(rows), offsets, strict=True):
        least = min(len(table), len(numbers))
        at = table.schema.get_field_index("keylane_offset")
        pq.write_table(table[:least].set_column(at, "keylane_offset", numbers[:least]), file)


def change_a_key(target: Path) -> None:
    file = lane_files(target)[2]
    table = pq.ParquetFile(file).read()
    keys = ["key-99", *table["k"].to_pylist()[1:]]
    pq.write_table(table.set_column(0, "k", pa.array(keys)), file)


def lose_dead_letters(target: Path) -> None:
    next((target / "_dead").iterdir()).unlink()


def repeat_dead_letters(target: Path) -> None:
    file = next((target / "_dead").iterdir())
    shutil.copy(file, file.with_name("part-copy.dead"))


def invent_a_record(target: Path) -> None:
    file = lane_files(target)[2]
    table = pq.ParquetFile(file).read()
    rows = table.to_pylist()
    rows[-1]["keylane_source"]["row"] = 99_999
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)


DAMAGES: dict[Callable[[Path], None], set[str]] = {
    delete_a_file: {"lost"},
    copy_a_file: {"duplicated"},
    swap_records: {"reordered"},
    move_a_file: {"misrouted", "split_keys"},
    swap_files: {"reordered"},
    change_a_key: {"invented"},
    lose_dead_letters: {"lost"},
    repeat_dead_letters: {"duplicated"},
    invent_a_record: {"invented", "lost"},
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_planted_damage_is_found(damage: Callable[[Path], None], made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    damage(target)
    found = verify(str(source), str(target), agreed)
    assert not found.ok
    assert DAMAGES[damage] <= {rule for rule, count in found.verdict.counts.items() if count}
    assert {violation.rule for violation in found.verdict.violations} >= DAMAGES[damage]


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d is not change_a_key], ids=lambda damage: damage.__name__)
def test_planted_damage_is_found_without_a_contract(
    damage: Callable[[Path], None], made: tuple[Path, Path, Contract]
) -> None:
    damage(made[1])
    assert not verify(str(made[0]), str(made[1])).ok


def set_aside(target: Path, reason: str, fingerprint: str, original: bytes | None = None) -> None:
    """Take the last record of a lane out of it, and make a dead letter of it."""
    file, letters = lane_files(target)[-1], max((target / "_dead").iterdir())
    rows, dead = pq.ParquetFile(file).read(), pq.ParquetFile(letters).read()
    record = rows.slice(len(rows) - 1).to_pylist()[0]
    letter = {
        "keylane_source": record["keylane_source"],
        "keylane_offset": dead["keylane_offset"][-1].as_py() + 1,
        "reason": reason,
        "original": original or json.dumps({n: v for n, v in record.items() if not n.startswith("keylane_")}).encode(),
        "fingerprint": fingerprint,
    }
    pq.write_table(rows.slice(0, len(rows) - 1), file)
    pq.write_table(pa.Table.from_pylist([*dead.to_pylist(), letter], dead.schema), letters)


@pytest.mark.parametrize(
    ("reason", "found"),
    [("null-key", 1), ("not-in-table", 1), ("parked-key", 0), ("malformed-record", 1), ("malformed-key", 1)],
)
def test_a_dead_letter_that_has_a_lane_is_misrouted(reason: str, found: int, made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    set_aside(target, reason, agreed.fingerprint)
    said = verify(str(source), str(target), agreed)
    verdict = said.verdict
    assert {rule: count for rule, count in verdict.counts.items() if count} == ({"misrouted": 1} if found else {})
    assert ["dead letter" in one.detail for one in verdict.violations] == [True] * found
    assert [(one.rule, one.records) for one in said.unproven] == ([] if found else [("misrouted", 1)])


@pytest.mark.parametrize("original", [b"key-1,1763000000000", b'{"k": "key-1', b"[1]", b"\xff", b'{"k": "key-1"}'])
def test_a_dead_letter_that_is_not_its_record_is_found(original: bytes, made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    set_aside(target, "null-key", agreed.fingerprint, original)
    found = verify(str(source), str(target), agreed)
    assert found.verdict.counts["changed"] == 1


def test_a_dead_letter_of_another_contract_is_not_judged(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    set_aside(target, "null-key", "sha256:another")
    found = verify(str(source), str(target), agreed)
    assert found.verdict.ok
    assert [(one.rule, one.records) for one in found.unproven] == [("misrouted", 1)]


def test_positions_name_source_files_and_rows(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    pq_file = lane_files(target)[0]
    first = pq.ParquetFile(pq_file).read()["keylane_source"][0].as_py()
    pq_file.unlink()
    violation = verify(str(source), str(target), agreed).verdict.violations[0]
    assert (violation.rule, violation.writer, violation.seq) == ("lost", first["file"], first["row"])


def test_a_file_that_was_not_taken_is_named(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    pq.write_table(payments(1, 10, nulls=False)[0], source / "late.parquet")
    found = verify(str(source), str(target), agreed)
    assert (found.verdict.counts["lost"], found.not_taken) == (10, ("late.parquet",))


def test_what_a_gone_source_cannot_vouch_for_is_not_invented(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    (source / "f001.parquet").unlink()
    found = verify(str(source), str(target), agreed)
    assert found.outcome == "not proven"
    assert found.verdict.facts["unknown"] == 400
    assert {(one.rule, one.records) for one in found.unproven} == {("lost", 400), ("changed", 400)}


def test_the_account_of_a_target_is_counted_where_its_source_is_gone(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    (source / "f001.parquet").unlink()
    next(target.glob("stream=t/lane=*/part-0000000001.parquet")).unlink()
    found = verify(str(source), str(target), agreed)
    assert found.verdict.counts["lost"] == 0
    assert not found.ok
    assert any("the manifests report out" in text for text in found.miscounted)
    assert found.verdict.counts["offset_gaps"] == 1


def test_an_empty_source_vouches_for_nothing(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    shutil.rmtree(target / "_keylane")
    for file in source.iterdir():
        pq.write_table(pq.read_table(file)[:0], file)
    found = verify(str(source), str(target), agreed)
    assert (found.ok, found.verdict.counts["invented"]) == (False, 1200)


def test_order_between_files_needs_all_manifests(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    swap_files(target)
    (target / "_keylane" / "batches" / "0000000000.json").unlink()
    found = verify(str(source), str(target), agreed)
    assert found.verdict.counts["reordered"] == 0
    assert any("source files" in one.why for one in found.unproven if one.rule == "reordered")


def test_a_target_without_its_head_is_still_judged(made: tuple[Path, Path, Contract]) -> None:
    source, target, agreed = made
    shutil.rmtree(target / "_keylane")
    found = verify(str(source), str(target), agreed)
    assert (found.outcome, {one.rule for one in found.unproven}) == ("not proven", {"lost", "reordered"})
    delete_a_file(target)
    found = verify(str(source), str(target), agreed)
    assert found.verdict.counts["lost"] > 0
    assert found.claimed is None


@pytest.mark.parametrize(
    ("name", "text", "positions"),
    [
        ("a.jsonl", b'{"k":1}\n\n{"k":2}\n  \n{"k":3}', [0, 2, 4]),
        ("a.json", b'{"k":1}\r\n{"k":2}\r{"k":3}\n', [0, 1, 2]),
        ("a.csv", b"k\n1\n\n2\n", [1, 3]),
        ("a.csv", b"k\n", []),
        ("a.jsonl", b"", []),
    ],
)
def test_lines_are_numbered_as_route_numbers_them(name: str, text: bytes, positions: list[int], tmp_path: Path) -> None:
    from keylane.systems.files.stream import source_stream
    from keylane.systems.streams import Stream

    (tmp_path / name).write_bytes(text)
    stream = source_stream(tmp_path, Stream("", (), lambda *_: iter(())))
    batches = [batch for part in stream.parts for batch in stream.read(part, ())]
    rows = [row for batch in batches for row in batch.select(["position", "filtered"]).to_pylist()]
    assert [row["position"] for row in rows if not row["filtered"]] == positions
    assert {row for batch in batches for row in batch["source"].to_pylist()} <= {name}


def test_refusals(made: tuple[Path, Path, Contract], contract: Make, tmp_path: Path, bare: str) -> None:
    source, target, _ = made
    with pytest.raises(UsageError, match="made under another contract"):
        verify(str(source), str(target), contract(key=KEY, lanes=5))
    with pytest.raises(UsageError, match="nothing was contacted"):
        verify(str(source), bare)
    with pytest.raises(TargetError, match="verified"):
        verify(str(source), str(tmp_path))
    with pytest.raises(DataError, match="no such source"):
        verify(str(tmp_path / "none"), str(target))
    lane_files(target)[0].write_bytes(b"no Parquet")
    with pytest.raises(DataError, match="Parquet"):
        verify(str(source), str(target))


def test_a_batch_that_still_waits_is_not_called_lost(made: tuple[Path, Path, Contract]) -> None:
    source, target, _ = made
    last = max((target / "_keylane" / "batches").iterdir())
    write_document(last, {**read_document(last), "staging": "waiting"})
    (target / "_keylane" / "staging" / "waiting").mkdir()
    with pytest.raises(TargetError, match="have not been moved"):
        verify(str(source), str(target))


def test_a_target_without_any_key_is_not_proven(contract: Make, tmp_path: Path) -> None:
    """As a route leaves it whose contract names a field that the records call otherwise."""
    agreed = contract(key={"fields": ["k"], "on_null": "round_robin"})
    tables = [table.set_column(0, "k", pa.nulls(len(table), pa.string())) for table in payments()]
    source, target = make(tmp_path, agreed, tables)
    found = verify(str(source), str(target), agreed)
    assert found.outcome == "not proven"
    assert [(one.rule, one.records) for one in found.unproven] == [("misrouted", 1200)]
    assert "no record has a key" in found.unproven[0].why


@pytest.mark.parametrize(("rows", "rule"), [(0, "lost"), (None, "misrouted")], ids=["none", "dead letters only"])
def test_a_target_of_which_no_lane_was_compared_is_not_proven(
    rows: int | None, rule: str, contract: Make, tmp_path: Path
) -> None:
    agreed = contract(key={"fields": ["k"], "on_null": "reject"})
    tables = [table.set_column(0, "k", pa.nulls(len(table), pa.string())).slice(0, rows) for table in payments()]
    source, target = make(tmp_path, agreed, tables)
    found = verify(str(source), str(target), agreed)
    assert found.outcome == "not proven"
    assert [one.rule for one in found.unproven] == [rule]


def test_the_lanes_of_records_without_a_key_are_recomputed(contract: Make, tmp_path: Path) -> None:
    agreed = contract(key={"fields": ["k"], "on_null": "round_robin"}, lanes=4)
    source, target = make(tmp_path, agreed, payments())
    assert verify(str(source), str(target), agreed).ok
    last = [max((target / "stream=t" / f"lane={lane}").iterdir()) for lane in range(4)]
    tables = [pq.ParquetFile(file).read() for file in last]
    lane = next(n for n, table in enumerate(tables) if table["k"][-1].as_py() is None)
    here, there = tables[lane], tables[(lane + 1) % 4]
    moved = {**here.to_pylist()[-1], "keylane_offset": there["keylane_offset"][-1].as_py() + 1}
    pq.write_table(here.slice(0, len(here) - 1), last[lane])
    pq.write_table(pa.Table.from_pylist([*there.to_pylist(), moved], there.schema), last[(lane + 1) % 4])
    assert verify(str(source), str(target), agreed).verdict.counts["misrouted"] == 1


def test_a_recreated_source_is_refused(made: tuple[Path, Path, Contract], monkeypatch: pytest.MonkeyPatch) -> None:
    from keylane.systems.files.endpoint import FilesEndpoint

    source, target, agreed = made
    head = read_document(target / "_keylane" / "target.json")
    write_document(target / "_keylane" / "target.json", {**head, "source_id": "the first"})
    monkeypatch.setattr(FilesEndpoint, "identity", lambda _: "the first")
    assert verify(str(source), str(target), agreed).ok
    monkeypatch.setattr(FilesEndpoint, "identity", lambda _: "the second")
    with pytest.raises(DataError, match="recreated"):
        verify(str(source), str(target), agreed)
