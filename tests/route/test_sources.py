"""Files that are away, strange, empty, changed or reached twice: read, or named in an error, and never passed over.

What is compared with what is in `tests/unit/systems/files/test_handover.py`, without Spark; here is what Spark does.
"""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.route.killable_routes import contract, run_and_die, write_files

from keylane.errors import DataError
from keylane.pipelines.route import Options, route
from keylane.pipelines.verify import verify
from keylane.spark import streaming
from keylane.systems.files import handover
from keylane.testing.folders import seen

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.pipelines.route import Routed

#: Names that are read: of every kind of character that a path, a URL or a pattern has a rule for.
READ = [
    *("plain.jsonl", "größe.jsonl", "n\u0301.jsonl", "\U0001f600.jsonl", "a b.jsonl", "a%20b.jsonl", "a#b.jsonl"),
    *("a?b.jsonl", "a\nb.jsonl", "a\u2028b.jsonl", "a+b.jsonl", "a&b;c.jsonl", "a\"b'c.jsonl", "a\\b.jsonl"),
    *("a[b].jsonl", "a{b}.jsonl", "a*b.jsonl", "a\tb.jsonl", "a|b^c`d.jsonl", "X.JSONL", "y.Json.GZ", "z.ndjson.zst"),
    *("_day=1/x.jsonl", "d:e/f.jsonl", "x.jsonl/y.jsonl", "n" * 240 + ".jsonl"),
]
#: Names that are none of a source.
LEFT_OUT = ["_SUCCESS", "_tmp/x.jsonl", ".hidden.jsonl", "x.jsonl.tmp", "x.jsonl._COPYING_", "_metadata", "readme.txt"]
#: Times of change in seconds since 1970: before it, at it, in 2200, and in 2400.
AGES = {"a b.jsonl": -34_560_000, "a#b.jsonl": 0, "plain.jsonl": 7_258_118_400, "a+b.jsonl": 13_569_465_600}


def line(name: str) -> bytes:
    return b'{"k":"%s"}\n' % os.fsencode(name).hex().encode()


def add(source: Path, *names: str, text: bytes | None = None) -> None:
    import gzip

    for name in names:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = line(name) if text is None else text
        path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)


def run(source: Path, target: Path, spark: SparkSession, **more: Any) -> Routed:
    files = more.pop("max_files", 1000)
    return route(contract(), str(source), str(target), options=Options(max_files=files), spark=spark, **more)


def files_read(target: Path) -> set[str]:
    return {file for _, _, _, file, _ in seen(target)}


def test_awkward_names_and_strange_ages_are_read(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    names = [name for name in READ if not name.endswith(".zst")]
    add(source, *names, *LEFT_OUT)
    add(source, "empty.jsonl", text=b"")
    for name, age in AGES.items():
        os.utime(source / name, (age, age))
    (source / "latest.jsonl").symlink_to("plain.jsonl")
    assert run(source, target, spark, max_files=9, say=lambda _: None).counts.in_ == len(names)
    assert files_read(target) == set(names)
    add(source, "later.jsonl", "earlier.jsonl")
    os.utime(source / "earlier.jsonl", (-34_560_001, -34_560_001))
    assert run(source, target, spark).counts.in_ == 2, "whatever the newest of the others"
    assert run(source, target, spark).counts.in_ == 0
    found = verify(str(source), str(target), contract()).verdict.violations
    # A column that the path of one file alone has is in its lane for all: what becomes of contents is not held here.
    assert [one for one in found if one.rule != "changed"] == []


@pytest.mark.parametrize("name", [b"bad\xff.jsonl", pytest.param(b"a:b.jsonl", marks=pytest.mark.faults)])
def test_a_name_that_spark_cannot_read_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, name: bytes
) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    add(source, "plain.jsonl", os.fsdecode(name))
    with pytest.raises(DataError, match=r"which Spark cannot read: (bad|a:b)"):
        run(source, target, spark)
    (source / os.fsdecode(name)).rename(source / "right.jsonl")
    assert run(source, target, spark).counts.in_ == 2


def test_a_file_that_spark_does_not_list_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted twin of the list that is compared: Spark is told of other names than count."""
    source, target = tmp_path / "in", tmp_path / "out"
    add(source, "plain.jsonl", "unseen.json")
    names = streaming.file_names
    monkeypatch.setattr(streaming, "file_names", lambda spark, folder, _, most: names(spark, folder, "*.jsonl", most))
    with pytest.raises(DataError, match=r"Spark does not see files of the source, .*: unseen\.json"):
        run(source, target, spark)
    assert files_read(target) == {"plain.jsonl"}


def test_a_link_that_leads_back_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    add(source, "plain.jsonl")
    (source / "back").symlink_to(".")
    with pytest.raises(DataError, match="back leads to a folder that the source has already"):
        run(source, target, spark)
    assert not target.exists(), "nothing was written"


class BrokenOffError(Exception):
    """Ends a route at a step of a batch, as a kill would: with the offsets in Spark's log, and no commit."""


def broken_at(step: str, batch: int = 0) -> Any:
    def probe(point: str, number: int) -> None:
        if (point, number) == (step, batch):
            raise BrokenOffError

    return probe


@pytest.mark.parametrize("away", ["all", pytest.param("one", marks=pytest.mark.faults)])
def test_files_that_are_away_at_a_restart(spark: SparkSession, tmp_path: Path, away: str) -> None:
    source, target, elsewhere = tmp_path / "in", tmp_path / "out", tmp_path / "elsewhere"
    add(source, "first.jsonl")
    assert run(source, target, spark).counts.in_ == 1
    add(source, "a.jsonl", "b.jsonl")
    with pytest.raises(BrokenOffError):
        run(source, target, spark, probe=broken_at("staged", batch=1))
    elsewhere.mkdir()
    for path in source.iterdir() if away == "all" else [source / "b.jsonl"]:
        path.rename(elsewhere / path.name)
    for _ in range(2):
        with pytest.raises(DataError, match=r"files of batch 1 are not there to be read.* b\.jsonl \(gone\)"):
            run(source, target, spark)
    for path in elsewhere.iterdir():
        path.rename(source / path.name)
    assert run(source, target, spark).counts.in_ == 2
    assert files_read(target) == {"first.jsonl", "a.jsonl", "b.jsonl"}


@pytest.mark.faults
def test_a_route_that_was_killed_and_whose_source_is_unmounted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real kill -9 between Spark's log of offsets and the batch, under a locale without UTF-8."""
    source, target, away = tmp_path / "in", tmp_path / "out", tmp_path / "mount"
    write_files(source, range(3))
    (source / "f001.parquet").rename(source / "größe.parquet")
    monkeypatch.setenv("LC_ALL", "C")
    assert run_and_die(source, target, point="begun", batch=1, max_files=1)[-1] == ["begun", 1]
    source.rename(away)
    source.mkdir()
    with pytest.raises(DataError, match=r"files of batch 1 are not there to be read.* größe\.parquet \(gone\)"):
        run(source, target, spark)
    source.rmdir()
    with pytest.raises(DataError, match="no such source"):
        run(source, target, spark)
    away.rename(source)
    assert run(source, target, spark).total.in_ == 300
    assert files_read(target) == {"f000.parquet", "größe.parquet", "f002.parquet"}


def test_a_file_that_was_empty_when_it_was_seen(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    add(source, "a.jsonl", "b.jsonl", text=b"")
    assert run(source, target, spark).counts.in_ == 0
    add(source, "c.jsonl")
    assert run(source, target, spark).counts.in_ == 1
    add(source, "b.jsonl")
    for _ in range(2):
        with pytest.raises(DataError, match=r"have changed since they were read.*: b\.jsonl \(0 bytes"):
            run(source, target, spark)
    (source / "b.jsonl").rename(source / "b2.jsonl")
    assert run(source, target, spark).counts.in_ == 1
    assert files_read(target) == {"b2.jsonl", "c.jsonl"}
    assert verify(str(source), str(target), contract()).ok


def test_a_file_that_comes_while_it_is_followed_and_is_not_seen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that Java cannot read, and a file that grows after it was read, end a route that is followed."""
    source, target = tmp_path / "in", tmp_path / "out"
    add(source, "a.jsonl")
    monkeypatch.setattr(handover, "LOOK_SECONDS", 0.2)
    stop = threading.Event()
    timer = threading.Timer(60.0, stop.set)
    timer.start()
    try:
        with pytest.raises(DataError, match=r"have changed since they were read.*: a\.jsonl"):
            run(
                source,
                target,
                spark,
                follow=True,
                stop_asked=stop,
                tell=lambda _: add(source, "a.jsonl", text=b"{}\n" * 9),
            )
        add(source, "a.jsonl")
        shutil.rmtree(target)
        with pytest.raises(DataError, match="not UTF-8"):
            run(
                source,
                target,
                spark,
                follow=True,
                stop_asked=stop,
                tell=lambda _: add(source, os.fsdecode(b"\xff.jsonl")),
            )
    finally:
        timer.cancel()
    assert not stop.is_set()
    assert files_read(target) == {"a.jsonl"}
