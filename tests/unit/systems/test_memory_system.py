"""A system is one class: `memory://` is registered here, and commands work on it with no other file touched.

The part on Spark: `tests/spark/test_memory_system.py`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from tests.unit.systems import memory
from tests.unit.systems.memory_streams import KEYS, SPEC, streams

from keylane.cli.main import _run
from keylane.errors import UnsupportedError, UsageError
from keylane.pipelines.verify import verify
from keylane.systems.endpoint import System, open_endpoint, parse_address, register, unregister

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from keylane.contract.model import Contract

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def agreed(contract: Callable[..., Contract]) -> Contract:
    return contract(**SPEC)


@pytest.fixture
def held(agreed: Contract) -> Iterator[dict[str, pa.Table]]:
    with memory.registered(**streams(agreed)):
        yield memory.STREAMS


@pytest.fixture
def contract_file(tmp_path: Path) -> Path:
    document = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "test"}, "spec": SPEC}
    (tmp_path / "payments.yaml").write_text(yaml.safe_dump(document))
    return tmp_path / "payments.yaml"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["keylane", *map(str, arguments)])
        code = _run()
        return code, *capsys.readouterr()

    return run


def test_the_whole_system_is_short() -> None:
    assert len(Path(memory.__file__).read_text(encoding="utf-8").splitlines()) < 155


def test_identify(held: dict[str, pa.Table], run: Run) -> None:
    code, out, _ = run("identify", "memory://here/payments", "-o", "json")
    assert (code, json.loads(out)["verdict"]) == (0, "one-writer")
    held["payments"] = held["payments"].set_column(2, "lane", pa.array([n * 7 % 4 for n in range(len(KEYS))]))
    assert json.loads(run("identify", "memory://here/payments", "-o", "json")[1])["verdict"] == "unknown"


def test_check(held: dict[str, pa.Table], contract_file: Path, run: Run) -> None:
    code, out, _ = run("check", contract_file, "--data", "memory://here/payments", "-o", "json")
    assert (code, json.loads(out)["data"]["misplaced"]) == (0, 0)
    held["payments"] = held["raw"]
    code, out, _ = run("check", contract_file, "--data", "memory://here/payments", "-o", "json")
    assert (code, json.loads(out)["data"]["misplaced"] > 0) == (4, True)
    assert run("check", "memory://here/payments", "memory://here/raw", "--key", "k", "-o", "json")[0] == 0


@pytest.mark.parametrize("given", [True, False], ids=["by the contract", "without one"])
def test_verify(held: dict[str, pa.Table], given: bool, agreed: Contract) -> None:
    addresses, by = ("memory://here/raw", "memory://here/payments"), agreed if given else None
    found = verify(*addresses, by)
    assert (found.outcome, found.verdict.records) == ("certified" if given else "not proven", len(KEYS))
    held["payments"] = held["payments"].slice(1)
    assert verify(*addresses, by).verdict.counts["lost"] == 1


def test_a_stream_of_it_is_verified_with_a_file_on_the_other_end(
    held: dict[str, pa.Table], contract_file: Path, tmp_path: Path, run: Run
) -> None:
    source, payments = tmp_path / "raw.parquet", held["payments"]
    parquet.write_table(held["raw"].drop_columns(["lane", "offset"]), source)
    of_file = {"source": pa.repeat(source.name, len(KEYS)), "position": pa.array(range(len(KEYS)))}
    for name, column in of_file.items():
        payments = payments.set_column(payments.column_names.index(name), name, column)
    asked = ["verify", "--source", source, "--target", "memory://here/payments", "-c", contract_file]
    assert run(*asked)[0] == 4
    held["payments"] = payments
    assert run(*asked)[0] == 0


COMMANDS = {
    "identify": ["identify", "{0}", "-k", "k", "-l", "lane"],
    "check": ["check", "{contract}", "--data", "{0}"],
    "verify, as source": ["verify", "--source", "{0}", "--target", "memory://here/payments"],
    "verify, as target": ["verify", "--source", "memory://here/raw", "--target", "{0}"],
}


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_ability_that_a_system_lacks_is_one_error(command: list[str], contract_file: Path, run: Run) -> None:
    register(System("bare", "bare://here/name", re.compile(r"(here)/(.*)"), "keylane.systems.endpoint:Endpoint"))
    try:
        bare: Any = open_endpoint("bare://here/x")
        with pytest.raises(UnsupportedError):
            bare.as_source(bare, None)
        code, out, err = run(*(word.format("bare://here/x", contract=contract_file) for word in command))
    finally:
        unregister("bare")
    assert (code, out) == (2, "")
    assert "nothing was contacted" in err


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_scheme_that_nobody_registered_is_refused(command: list[str], contract_file: Path, run: Run) -> None:
    code, out, err = run(*(word.format("memory://here/x", contract=contract_file) for word in command))
    assert (code, out) == (2, "")
    assert "memory://here/" in err
    with pytest.raises(UsageError):
        parse_address("memory://here/x")


def test_a_scheme_has_one_system() -> None:
    with pytest.raises(UsageError, match="kafka"):
        register(System("kafka", "kafka://x", re.compile("()(.*)"), "keylane.systems.endpoint:Endpoint"))
