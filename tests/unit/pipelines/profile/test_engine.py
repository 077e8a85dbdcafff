"""Which engine counts: this process for small files, without pyspark; Spark where it is asked for or needed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keylane.errors import DataError, UnknownNameError, UsageError
from keylane.pipelines import engine
from keylane.pipelines.engine import Options, chosen_engine, switch_to_spark
from keylane.pipelines.profile import profile
from keylane.profile.count import TooManyKeysError
from keylane.profile.scan import count_keys
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT = """
import sys
sys.modules["pyspark"] = None
from keylane.cli.main import main
sys.argv = ["keylane", *sys.argv[1:]]
try:
    main()
finally:
    sys.exit(int(any(name.startswith(("pyspark.", "py4j")) for name in sys.modules)))
"""


def file_of(folder: Path, name: str = "a.parquet") -> str:
    pq.write_table(pa.table({"k": ["a", "b", "a"], "lat": [1.0, 2.0, 3.0], "lng": [1.0, 2.0, 3.0]}), folder / name)
    return str(folder / name)


@pytest.mark.parametrize("command", [["profile", "--key", "k"], ["plan", "--key", "k", "--lanes", "2"]])
def test_a_small_file_needs_no_pyspark(command: list[str], tmp_path: Path) -> None:
    arguments = [command[0], file_of(tmp_path), *command[1:], "-o", "json"]
    done = subprocess.run([sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"schema": "keylane.' in done.stdout


def test_small_files_are_counted_here_and_others_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = open_endpoint(file_of(tmp_path))
    assert chosen_engine(endpoint, Options(), None) == "local"
    for more in (
        Options(engine="spark"),
        Options(approximate=True),
        Options(master="local[2]"),
        Options(conf={"a": "b"}),
    ):
        assert chosen_engine(endpoint, more, None) == "spark"
    monkeypatch.setattr(engine, "MOST_RECORDS", 2)
    assert chosen_engine(endpoint, Options(), None) == "spark"
    assert chosen_engine(endpoint, Options(engine="local"), None) == "local"


@pytest.mark.parametrize("more", [Options(approximate=True), Options(master="local[2]"), Options(seconds=1)], ids=str)
def test_what_only_spark_has_is_refused_elsewhere(more: Options, tmp_path: Path, bare: str) -> None:
    with pytest.raises(UsageError, match="only Spark can do this"):
        chosen_engine(open_endpoint(file_of(tmp_path)), replace(more, engine="local"), None)
    with pytest.raises(UsageError, match="such a source is not counted without Spark"):
        chosen_engine(open_endpoint(bare), Options(engine="local"), None)


def test_the_switch_to_spark_is_reported_and_refused_where_it_was_ruled_out() -> None:
    error, heard = TooManyKeysError.of("more keys", got="6", hint="--engine spark"), list[str]()
    switch_to_spark(error, Options(), heard.append)
    assert heard == ["more keys: got '6'; counting on Spark instead"]
    with pytest.raises(TooManyKeysError):
        switch_to_spark(error, Options(engine="local"), heard.append)


def test_too_many_keys_go_to_spark_with_the_same_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def on_spark(request: object, *_: object) -> None:
        asked.append(request)
        raise UsageError.of("here Spark would count")

    monkeypatch.setattr("keylane.pipelines.spark_counts.profile_on_spark", on_spark)
    monkeypatch.setattr("keylane.pipelines.profile.count_keys", partial(count_keys, most_keys=1))
    heard: list[str] = []
    with pytest.raises(UsageError, match="here Spark would count"):
        profile(file_of(tmp_path), ["k"], say=heard.append)
    assert len(asked) == 1
    assert heard[0].startswith("more keys than are counted in one process: got '2 keys")
    assert heard[0].endswith("counting on Spark instead")


def test_what_is_wrong_is_refused_before_an_engine_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keylane.pipelines.spark_counts", None)
    with pytest.raises(DataError, match="no such source"):
        profile(str(tmp_path / "nowhere"), ["k"], options=Options(engine="spark"))
    with pytest.raises(UnknownNameError, match=r"got 'kk'; allowed: k, lat, lng; hint: did you mean 'k'\?"):
        profile(file_of(tmp_path), ["kk"], options=Options(engine="spark"))
    with pytest.raises(UsageError, match=r"needs a key: allowed: k, lat, lng"):
        profile(file_of(tmp_path), options=Options(engine="spark"))


def test_lanes_of_a_column_show_who_wrote_them(tmp_path: Path) -> None:
    from keylane.hashing.crc32 import crc32
    from keylane.hashing.murmur2 import murmur2

    keys = [f"key-{n % 3000}" for n in range(9000)]
    java = [(murmur2(key.encode()) & 0x7FFFFFFF) % 12 for key in keys]
    other = [(crc32(key.encode()) & 0xFFFFFFFF) % 12 for key in keys]
    for name, lanes in {
        "one": java,
        "two": [o if n % 4 == 0 else j for n, (j, o) in enumerate(zip(java, other, strict=True))],
    }.items():
        pq.write_table(pa.table({"k": keys, "p": lanes}), tmp_path / f"{name}.parquet")
    one, two = (profile(str(tmp_path / f"{name}.parquet"), ["k"], options=Options(lane="p")) for name in ("one", "two"))
    assert one.known["writers"]["verdict"] == "one-writer"
    found = two.known["writers"]
    assert found["verdict"] == "mixed"
    assert found["found"][0]["partitioner"] == "kafka-java"
    assert found["found"][0]["share"] == pytest.approx(0.75, abs=0.02)
    assert two.lanes is not None
    assert two.lanes.by_window.sum() == 9000
