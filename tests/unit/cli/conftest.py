"""The command line in this process and in one of its own, and files for it to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from keylane.cli.main import _run
from keylane.placement.partitioners import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command here: its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["keylane", *map(str, arguments)])
        code = _run()
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session")
def keylane() -> str:
    """The installed command."""
    return str(Path(sys.executable).parent / "keylane")


@pytest.fixture(scope="session")
def process(keylane: str) -> Callable[..., tuple[int, str, str]]:
    """Run the installed command in a process of its own."""

    def process(*arguments: object, **environment: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [keylane, *map(str, arguments)],
            capture_output=True,
            timeout=120,
            check=False,
            env={**os.environ, **environment},
        )
        return done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode()

    return process


@pytest.fixture
def contract_file(tmp_path: Path) -> Callable[..., Path]:
    """A contract file from the fields of its `spec`."""

    def contract_file(name: str = "contract.yaml", **spec: Any) -> Path:
        usual = {"streams": ["t"], "lanes": 15, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
        document = {
            "apiVersion": "keylane/v1",
            "kind": "RoutingContract",
            "metadata": {"name": "test"},
            "spec": {**usual, **spec},
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        return path

    return contract_file


@pytest.fixture
def data_file(tmp_path: Path) -> Callable[..., Path]:
    """A file of keys and the lanes a partitioner gives them, by the suffix of its name."""

    def data_file(name: str, writer: str = "kafka-java", lanes: int = 15, keys: int = 500) -> Path:
        rows = [(f"m-{i:05d}", partitioner(writer).lane(b"m-%05d" % i, lanes)) for i in range(keys)]
        path = tmp_path / name
        if path.suffix == ".csv":
            path.write_text("k,lane\n" + "".join(f"{key},{lane}\n" for key, lane in rows))
        elif path.suffix == ".jsonl":
            path.write_text("".join(f'{{"k": "{key}", "lane": {lane}}}\n' for key, lane in rows))
        else:
            columns = {
                "k": pa.array([k for k, _ in rows], pa.string()),
                "lane": pa.array([n for _, n in rows], pa.int32()),
            }
            parquet.write_table(pa.table(columns), path)
        return path

    return data_file
