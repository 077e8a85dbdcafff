"""A folder that is a table is no source: in its files are records that its log has removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.worlds.face import run

from keylane.errors import DataError
from keylane.systems.files.listing import data_files, kind_of

if TYPE_CHECKING:
    from pathlib import Path

LOGS = {
    "Delta Lake": ("_delta_log", "00000000000000000000.json"),
    "Delta Lake, packed": ("_delta_log", "_last_checkpoint"),
    "Iceberg": ("metadata", "v1.metadata.json"),
    "Iceberg of a catalog": ("metadata", "00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"),
    "Hudi": (".hoodie", "hoodie.properties"),
}


@pytest.fixture(params=list(LOGS.values()), ids=list(LOGS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    log, name = request.param
    folder = tmp_path / "lake" / "orders"
    (folder / log).mkdir(parents=True)
    (folder / log / name).write_text(json.dumps({}))
    (folder / "data" / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": ["a", "b"], "at": [1, 2], "lane": [0, 1]}), folder / "data" / "day=1" / "a.parquet")
    return folder


def refused(path: Path) -> bool:
    """Whether it is, by the listing and where its kind is given."""
    for given in (None, "parquet"):
        with pytest.raises(DataError, match="table of"):
            kind_of(path, given)
    with pytest.raises(DataError, match="table of"):
        data_files(path, "parquet")
    return True


def test_a_table_what_is_in_it_and_what_holds_it_are_refused(table: Path, tmp_path: Path) -> None:
    assert refused(table)
    assert refused(table / "data")
    assert refused(table / "data" / "day=1" / "a.parquet")
    assert refused(table.parent)
    (tmp_path / "link").symlink_to(table / "data" / "day=1" / "a.parquet")
    assert refused(tmp_path / "link")
    with pytest.raises(DataError, match="table of"):
        data_files(tmp_path, "parquet")


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "{}", "--key", "k"),
        ("plan", "{}", "--key", "k"),
        ("identify", "{}", "--key", "k"),
        ("init", "{}", "--key", "k"),
        ("check", "{}", "{}", "--key", "k"),
        ("check", "contract.yaml", "--data", "{}"),
        ("geo", "table", "{}", "--lanes", "4", "--write", "places.yaml"),
        ("route", "contract.yaml", "--from", "{}", "--to", "out"),
        ("route", "contract.yaml", "--from", "{}", "--to", "out", "--dry-run"),
        ("verify", "--source", "{}", "--target", "{}", "-c", "contract.yaml"),
        ("match", "--drivers", "{}", "--riders", "{}", "--to", "out", "--radius", "10"),
        ("aggregate", "--from", "{}", "--queries", "q.sqlite", "--to", "out"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_every_verb_that_reads_a_folder_refuses_it(words: tuple[str, ...], table: Path, tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text(
        "apiVersion: keylane/v1\nkind: RoutingContract\nmetadata: {name: c}\n"
        "spec: {streams: [c], lanes: 4, partitioner: kafka-java, key: {fields: [k], encoding: utf8}}\n"
    )
    before = sorted(tmp_path.rglob("*"))
    ran = run([word.replace("{}", str(table)) for word in words], folder=tmp_path)
    assert (ran.code, "table of" in ran.err) == (1, True), ran.err
    assert [one for one in sorted(tmp_path.rglob("*")) if one not in before and "q.sqlite" not in one.name] == []


def test_folders_that_are_only_named_so_are_read(tmp_path: Path) -> None:
    for name in ("metadata", "data"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"k": ["a"]}), tmp_path / name / "a.parquet")
    assert len(data_files(tmp_path, "parquet")) == 2
    assert kind_of(tmp_path, None) == "parquet"
