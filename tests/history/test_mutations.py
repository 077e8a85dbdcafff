"""Good targets are certified, and every way to corrupt one is found, with the rule that it breaks."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.history.mutations import ACCOUNT, ERROR, MUTATIONS
from tests.history.written_targets import make

from keylane.errors import KeylaneError
from keylane.pipelines.verify import verify
from keylane.systems.folders.compaction import compact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.history.mutations import Mutation

    from keylane import Contract

    Make = Callable[..., Contract]
    Good = tuple[Path, Path, Contract]

KEY = {"fields": ["k"], "on_null": "reject"}


def tables(seed: int, files: int = 3, rows: int = 60) -> list[pa.Table]:
    """Records of several types, of few keys, one of them hot; some have no key, some no value."""
    rng, out = random.Random(seed), []
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        columns: dict[str, Any] = {
            "k": [None if n % 20 == 19 else "hot" if n % 3 == 0 else f"key-{rng.randrange(17)}" for n in ids],
            "order": [f"order-{n % 7}" for n in ids],
            "ts": [1_763_000_000_000 + n * 60_000 for n in ids],
            "n": list(ids),
            "note": [f"note {n} " + "é" * rng.randrange(9) for n in ids],
            "amount": [round(rng.gammavariate(2, 30), 2) for _ in ids],
            "maybe": [None if n % 4 else n for n in ids],
            "tags": [[n, n + 1] for n in ids],
        }
        out.append(pa.table(columns))
    return out


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    from keylane import parse_contract

    text = """
    apiVersion: keylane/v1
    kind: RoutingContract
    metadata: {name: test}
    spec: {streams: [t], lanes: 4, key: {fields: [k], on_null: reject}, partitioner: kafka-java}
    """
    agreed = parse_contract(text)
    return *make(tmp_path_factory.mktemp("good"), agreed, tables(1)), agreed


def found_in(source: Path, target: Path, agreed: Contract) -> set[str]:
    """The rules that are broken; those that are not proven, after a colon; the account; an error."""
    try:
        found = verify(str(source), str(target), agreed)
    except KeylaneError:
        return {ERROR}
    broken = {str(rule) for rule, count in found.verdict.counts.items() if count}
    return broken | {f":{one.rule}" for one in found.unproven} | ({ACCOUNT} if found.miscounted else set())


def test_the_good_one_is_certified(good: Good) -> None:
    found = verify(str(good[0]), str(good[1]), good[2])
    assert found.ok, (found.verdict.violations, found.miscounted, found.unproven)
    assert len(MUTATIONS) >= 60


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_corrupted_target_is_found(mutation: Mutation, good: Good, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(good[1], target)
    mutation(target)
    found = found_in(good[0], target, good[2])
    assert MUTATIONS[mutation] <= found, found


def test_a_stray_file_is_named(good: Good, tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(good[1], target)
    for number in range(30):
        (target / "stream=t" / f"stray-{number:02d}").touch()
    (target / "stream=t" / "lane=00").mkdir()  # nothing that a reader could read
    found = verify(str(good[0]), str(target), good[2])
    assert found.outcome == "broken"
    assert found.miscounted[0].startswith("stream=t/stray-00 is not a file that keylane wrote there")
    assert found.miscounted[-1] == "so are 10 more files"


def test_a_target_without_metadata_may_have_other_names(good: Good, tmp_path: Path) -> None:
    """As Spark writes them, with checksums and a marker: nobody but `route` promises names."""
    target = tmp_path / "target"
    shutil.copytree(good[1], target)
    shutil.rmtree(target / "_keylane")
    for file in target.glob("stream=t/lane=*/*.parquet"):
        file.with_name(f".{file.name}.crc").touch()
        file.rename(file.with_name(f"{file.stem}.snappy.parquet"))
    (target / "_SUCCESS").touch()
    assert verify(str(good[0]), str(target), good[2]).outcome == "not proven"
    shutil.copy(next(target.glob("stream=t/lane=*/*.parquet")), target / "x.parquet")
    assert verify(str(good[0]), str(target), good[2]).outcome == "broken"


def test_a_source_with_other_contents_under_the_same_name_is_found(good: Good, tmp_path: Path) -> None:
    """As many records with the same keys: only the contents say that they are others."""
    from pyarrow import parquet

    source = tmp_path / "source"
    shutil.copytree(good[0], source)
    for file in source.iterdir():
        table = parquet.read_table(file)
        parquet.write_table(table.set_column(3, "n", pa.array(range(5000, 5000 + len(table)))), file)
    assert found_in(source, good[1], good[2]) == {"changed"}


def test_the_twin_without_contents_does_not_see_them(good: Good, tmp_path: Path) -> None:
    """Why contents are compared: without them a changed value is only not proven."""
    from tests.history.mutations import change_one_byte

    target = tmp_path / "target"
    shutil.copytree(good[1], target)
    change_one_byte(target)
    found = verify(str(good[0]), str(target), good[2], values=False)
    assert (found.outcome, [one.rule for one in found.unproven]) == ("not proven", ["changed"])
    assert verify(str(good[0]), str(target), good[2]).outcome == "broken"


WINDOW = {**KEY, "window": {"field": "ts", "size": "1h"}}
SPECS: list[dict[str, Any]] = [
    {"key": KEY},
    {"key": WINDOW},
    {"key": KEY, "hot_keys": [{"keys": ["hot"], "pin": {"lanes": [3]}}]},
    {"key": KEY, "hot_keys": [{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}]},
    {"key": KEY, "hot_keys": [{"keys": ["hot"], "spread": {"over": 3, "by_position": True}}]},
    {"key": KEY, "hot_keys": [{"keys": ["hot"], "tier": {"stream": "vip", "lanes": 2}}]},
    {"key": WINDOW, "table": {"values": {"hot": [0, 1], "key-1": 2}, "by": "order"}},
    {"key": {"fields": ["k"], "on_null": "round_robin"}},
    {"key": {"fields": ["k"], "on_null": "sticky"}},
    {"partitioner": "librdkafka-random"},
]


def certified(seed: int, contract: Make, folder: Path) -> None:
    """One clean target, of a contract, sizes and batches that its seed says, maybe compacted."""
    rng = random.Random(seed)
    agreed = contract(**SPECS[seed % len(SPECS)], lanes=rng.choice([3, 4, 8]) if seed % len(SPECS) in {0, 7, 8} else 8)
    source, target = make(folder, agreed, tables(seed, rng.randrange(1, 6), rng.randrange(1, 120)))
    if seed % 3 == 0:
        compact(target, size=rng.choice([4_000, 1 << 20]))
    found = verify(str(source), str(target), agreed)
    assert found.ok, (seed, found.verdict.violations, found.miscounted, found.unproven)


@pytest.mark.parametrize("seed", range(len(SPECS)))
def test_clean_targets_are_certified(seed: int, contract: Make, tmp_path: Path) -> None:
    certified(seed, contract, tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(len(SPECS), 200))
def test_two_hundred_clean_targets_are_certified(seed: int, contract: Make, tmp_path: Path) -> None:
    certified(seed, contract, tmp_path)
