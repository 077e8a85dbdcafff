from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from keylane.errors import BrokerError, DataError
from keylane.systems.broker.fill import rows_of
from keylane.systems.broker.layout import HOST, designed
from keylane.systems.endpoint import StreamOptions

if TYPE_CHECKING:
    from pathlib import Path


def test_every_row_becomes_a_record_whatever_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,n\n007,1\nx,\n", "utf-8")
    assert list(rows_of(str(tmp_path / "a.csv"), "k", StreamOptions())) == [
        (b"007", b'{"k": "007", "n": "1"}', None),
        (b"x", b'{"k": "x", "n": ""}', None),
    ]
    line = b'{"k": 7, "deep": {"a": [1, 2]}}'
    (tmp_path / "a.jsonl").write_bytes(line + b"\n" + b'{"k": null}\n')
    assert list(rows_of(str(tmp_path / "a.jsonl"), "k", StreamOptions())) == [
        (b"7", line, None),
        (None, b'{"k": null}', None),
    ]
    parquet.write_table(pa.table({"k": ["a", None], "n": [1, 2]}), tmp_path / "a.parquet")
    found = list(rows_of(str(tmp_path / "a.parquet"), "k", StreamOptions()))
    assert [(key, json.loads(value)) for key, value, _ in found] == [
        (b"a", {"k": "a", "n": 1}),
        (None, {"k": None, "n": 2}),
    ]


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("merchant,n\nx,1\n", "utf-8")
    with pytest.raises(DataError, match="merchant, n"):
        list(rows_of(str(tmp_path / "a.csv"), "merchants", StreamOptions()))
    (tmp_path / "a.jsonl").write_text('{"k": 1}\nno\n', "utf-8")
    with pytest.raises(DataError, match="line 2 of"):
        list(rows_of(str(tmp_path / "a.jsonl"), "k", StreamOptions()))


def test_ports_are_those_that_were_asked_for_or_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match="the port is in use"):
            designed(tmp_path, 1, tls=False, heap="64m", port=port)
    made = designed(tmp_path, 3, tls=True, heap="64m", port=port) if port < 64_000 else None
    if made is not None:
        assert [node.port for node in made.nodes] == [port, port + 1, port + 2]
        others = [one for node in made.nodes for one in (node.controller, node.mtls)]
        assert not set(others) & {port, port + 1, port + 2}
