"""A profile of files against a plain count of the same records in Python, in every format."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.profile_sources import DAY, Row, records, write

from keylane.errors import CountError, DataError, UnknownNameError, UsageError
from keylane.pipelines.profile import Options, profile
from keylane.systems.profiles import read_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.profile.model import Profile


def counts(found: Profile) -> dict[Any, list[int]]:
    """Records of each key by window, as a profile has them."""
    keys = [tuple(row.values()) for row in found.keys.to_pylist()]
    return {key[0] if len(key) == 1 else key: row for key, row in zip(keys, found.by_window.tolist(), strict=True)}


def expected(found: Profile, rows: Sequence[Row], name: str = "k", at: Callable[[int, Row], int] | None = None) -> Any:
    """The same, counted here: `at` is a record's time or position."""
    out: dict[Any, list[int]] = {}
    for position, row in enumerate(rows):
        where = position if at is None else at(position, row)
        window = int(np.searchsorted(found.windows.edges, where, side="right")) - 1
        window = min(max(window, 0), len(found.windows) - 1)
        out.setdefault(row[name], [0] * len(found.windows))[window] += 1
    return out


def micros(_: int, row: Row) -> int:
    return (row["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_every_record_is_counted_by_its_key_and_the_window_of_its_time(
    ending: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = records()
    write(tmp_path / "in" / f"a.{ending}", rows[:200])
    write(tmp_path / "in" / f"b.{ending}", rows[200:])
    found = profile(str(tmp_path / "in"), ["k"], options=Options(time="at", size="size", windows=7), spark=spark)
    assert counts(found) == expected(found, rows, at=micros)
    weights = Counter(row["k"] for row in rows)
    assert found.records.tolist() == sorted(weights.values(), reverse=True)
    sizes = {k: sum(row["size"] for row in rows if row["k"] == k) for k in weights}
    assert found.size is not None
    assert dict(zip(found.keys["k"].to_pylist(), found.size.tolist(), strict=True)) == sizes
    assert (len(found.windows), found.bytes_total, dict(found.facts)["without_time"]) == (7, sum(sizes.values()), 0)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_without_a_time_windows_are_equal_numbers_of_records_in_the_order_of_files(
    ending: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = records()
    write(tmp_path / "in" / f"b x.{ending}", rows[120:])
    write(tmp_path / "in" / f"a.{ending}", rows[:120])
    found = profile(str(tmp_path / "in"), ["k"], options=Options(windows=9), spark=spark)
    assert found.windows.edges[:3] == (0, 34, 67)
    assert counts(found) == expected(found, rows)
    assert found.by_window.sum(axis=0).tolist() == [34, 33, 33, 34, 33, 33, 34, 33, 33]
    assert found.size is None
    assert found.bytes_total == sum(file.stat().st_size for file in (tmp_path / "in").iterdir())


def test_a_key_of_several_fields_keeps_their_types(spark: SparkSession, tmp_path: Path) -> None:
    rows = records()
    write(tmp_path / "a.parquet", rows)
    found = profile(str(tmp_path / "a.parquet"), ["k", "n"], options=Options(windows=1), spark=spark)
    assert counts(found) == {key: [n] for key, n in Counter((row["k"], row["n"]) for row in rows).items()}
    assert [str(field.type) for field in found.keys.schema] == ["string", "int64"]


def test_records_without_a_key_are_distinguished(spark: SparkSession, tmp_path: Path) -> None:
    keys = ["a", None, "", "a", None]
    write(tmp_path / "a.parquet", [{"k": key, "other": 1} for key in keys])
    (tmp_path / "b.jsonl").write_text('{"k": "a"}\nbroken\n{"k": null}\n{"other": 1}\n{"k": ""}\n\n')
    of_parquet = profile(str(tmp_path / "a.parquet"), ["k"], options=Options(windows=2), spark=spark)
    of_lines = profile(str(tmp_path / "b.jsonl"), ["k"], options=Options(windows=2), spark=spark)
    for found, null, empty, malformed in ((of_parquet, 2, 1, 0), (of_lines, 2, 1, 1)):
        without = found.without_key
        assert (without.null, without.empty, without.malformed) == (null, empty, malformed)
        assert found.keys["k"].to_pylist() == ["a"]
    assert (of_parquet.total, of_lines.total) == (5, 5)


def test_a_value_that_is_no_key_of_the_encoding_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    one, other = "0a0b0c0d-0000-4000-8000-00000000000f", "0A0B0C0D-0000-4000-8000-00000000000F"
    write(tmp_path / "a.parquet", [{"k": value} for value in (one, other, "no uuid", None)])
    found = profile(str(tmp_path / "a.parquet"), ["k"], encoding="uuid", options=Options(windows=1), spark=spark)
    assert found.keys["k"].to_pylist() == [one]
    assert (found.records.tolist(), found.without_key.malformed, found.without_key.null) == ([2], 1, 1)


def test_records_without_a_time_count_for_their_key_and_decide_no_window_and_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = records(40)
    write(tmp_path / "a.csv", [*rows, {**rows[0], "at": "soon"}, {**rows[1], "at": None}, {**rows[2], "at": "12:30"}])
    found = profile(str(tmp_path / "a.csv"), ["k"], options=Options(time="at", windows=4), spark=spark)
    there, odd = expected(found, rows, at=micros), Counter(row["k"] for row in rows[:3])
    more = {key: [a - b for a, b in zip(counts(found)[key], there[key], strict=True)] for key in there}
    assert {key: sum(some) for key, some in more.items() if sum(some)} == odd
    assert max(sum(some) for some in zip(*more.values(), strict=True)) == 1, "one window each"
    assert dict(found.facts)["without_time"] == 3


@pytest.mark.parametrize(
    ("values", "unit", "first"),
    [
        ([1_772_323_200, 1_772_323_260], "s", 1_772_323_200_000_000),
        ([1_772_323_200_123, 1_772_323_200_124], "ms", 1_772_323_200_123_000),
        (["1772323200", "1772323260"], "s", 1_772_323_200_000_000),
        (["2026-03-01", "2026-03-02T00:00:00+01:00"], None, 1_772_323_200_000_000),
        ([date(2026, 3, 1), date(2026, 3, 4)], None, 1_772_323_200_000_000),
        ([datetime(2026, 3, 1), datetime(2026, 3, 4)], None, 1_772_323_200_000_000),  # noqa: DTZ001  as files have it
    ],
    ids=["seconds", "milliseconds", "numbers as text", "days and times as text", "days", "no zone"],
)
def test_times_of_every_form(values: list[Any], unit: Any, first: int, spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [{"k": "a", "at": value} for value in values])
    found = profile(
        str(tmp_path / "a.parquet"), ["k"], options=Options(time=f"at:{unit}" if unit else "at", windows=4), spark=spark
    )
    assert found.windows.edges[0] == first
    assert (found.by_window[0][0], found.by_window[0][-1]) == (1, 1)
    if isinstance(values[0], date) and not isinstance(values[0], datetime):
        assert np.diff(found.windows.edges).tolist() == [86_400_000_000] * 4


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_times_without_a_zone_and_times_in_utc_are_the_same(unit: str, spark: SparkSession, tmp_path: Path) -> None:
    stamps = [DAY + timedelta(hours=n) for n in range(8)]
    for number, zone in enumerate((None, "UTC")):
        times = pa.array(stamps[number * 4 : number * 4 + 4], pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
        pq.write_table(pa.table({"k": ["a"] * 4, "at": times}), tmp_path / f"{number}.parquet")
    found = profile(str(tmp_path), ["k"], options=Options(time="at", windows=8), spark=spark)
    assert found.by_window.sum() == 8
    assert found.windows.edges[0] == micros(0, {"at": DAY})
    width = found.windows.edges[1] - found.windows.edges[0]
    told = Counter((micros(0, {"at": at}) - found.windows.edges[0]) // width for at in stamps)
    assert found.by_window[0].tolist() == [told[n] for n in range(len(found.windows))]


def test_small_whole_numbers_are_no_times_until_somebody_says_what_they_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "a.parquet", [{"k": "a", "at": 1_772_323, "text": "1772323", "x": 1.5}])
    with pytest.raises(UsageError, match="--time"):
        profile(str(tmp_path), ["k"], options=Options(time="at"), spark=spark)
    for name in ("text", "x"):
        with pytest.raises(UsageError, match=f"--time {name}:ms"):
            profile(str(tmp_path), ["k"], options=Options(time=name), spark=spark)


@pytest.mark.parametrize(
    ("key", "options", "error", "words"),
    [
        (["kk"], Options(), UnknownNameError, "did you mean 'k'"),
        ([], Options(), UsageError, "--key COLUMN"),
        (["k"], Options(windows=49), UsageError, "1 to 48"),
        (["k"], Options(seconds=1.0), UsageError, "only a topic"),
        (["x"], Options(), DataError, "holds no utf8 keys"),
        (["none"], Options(), DataError, "no record has a key"),
    ],
    ids=["no such column", "no key", "too many windows", "listening to files", "no keys at all", "nothing but nulls"],
)
def test_what_makes_no_sense_is_refused(
    key: list[str], options: Options, error: type[Exception], words: str, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "a.parquet", [{"k": "a", "x": 1.5, "none": None}])
    with pytest.raises(error, match=words):
        profile(str(tmp_path), key, options=options, spark=spark)


def lanes_of(folder: Path, rows: Sequence[tuple[str, int]]) -> None:
    for lane in range(4):
        own = [{"k": key} for key, at in rows if at == lane]
        if own:
            write(folder / "stream=orders" / f"lane={lane}" / "part-0.parquet", own)


def test_a_folder_of_lanes_is_counted_by_lane_and_a_key_in_two_lanes_is_one_key(
    spark: SparkSession, tmp_path: Path, contract: Callable[..., Contract]
) -> None:
    from keylane import Router

    made = contract(lanes=4)
    keys = [f"key-{n % 9}" for n in range(90)]
    right = [(key, Router(made).place({"k": key}).lane or 0) for key in keys]
    lanes_of(tmp_path / "right", right)
    moved = [(key, (lane + 1) % 4 if n % 30 == 0 else lane) for n, (key, lane) in enumerate(right)]
    lanes_of(tmp_path / "moved", moved)
    for name, rows, misplaced in (("right", right, 0), ("moved", moved, 3)):
        found = profile(str(tmp_path / name), contract=made, options=Options(windows=3), spark=spark)
        assert found.lanes is not None
        assert found.lanes.misplaced == misplaced
        seen = Counter(lane for _, lane in rows)
        assert found.lanes.by_window.sum(axis=1).tolist() == [seen[n] for n in range(4)]
        assert found.records.tolist() == [10] * 9
        assert found.lanes.by_window.sum(axis=0).tolist() == found.by_window.sum(axis=0).tolist()
    unasked = profile(str(tmp_path / "moved"), ["k"], options=Options(windows=3), spark=spark)
    assert unasked.lanes is not None
    assert unasked.lanes.misplaced is None


def test_what_route_has_written_lies_where_its_contract_says_and_idle_lanes_count(
    spark: SparkSession, tmp_path: Path, contract: Callable[..., Contract]
) -> None:
    from keylane.pipelines.route import route

    made = contract()
    write(tmp_path / "in" / "a.parquet", [{"k": f"key-{n % 3}", "n": n} for n in range(60)])
    route(made, str(tmp_path / "in"), str(tmp_path / "out"), spark=spark)
    for source in (tmp_path / "out", tmp_path / "out" / "stream=t"):
        found = profile(str(source), ["k"], options=Options(windows=2), spark=spark)
        assert found.lanes is not None
        assert found.lanes.by_window.shape == (16, 2)
        assert found.records.tolist() == [20, 20, 20]
    judged = profile(str(tmp_path / "out"), contract=made, options=Options(windows=2), spark=spark)
    assert judged.lanes is not None
    assert judged.lanes.misplaced == 0
    shutil.rmtree(tmp_path / "out" / "_keylane")
    alone = profile(str(tmp_path / "out"), contract=made, options=Options(windows=2), spark=spark)
    assert alone.lanes is not None
    assert alone.lanes.by_window.shape == (16, 2)


def test_a_profile_is_stored_and_read_back_and_never_replaced_unasked(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", records())
    out = tmp_path / "a.profile"
    made = profile(str(tmp_path / "a.parquet"), ["k"], options=Options(time="at", size="size"), out=out, spark=spark)
    found = read_profile(out)
    assert found.fingerprint == made.fingerprint
    assert (found.windows, found.key, found.facts, found.without_key) == (
        *(made.windows, made.key, made.facts, made.without_key),
    )
    assert found.keys.equals(made.keys)
    assert (found.by_window == made.by_window).all()
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*")) == [
        *("keys", "keys/part-0.parquet", "profile.json"),
    ]
    assert {oct(path.stat().st_mode & 0o777) for path in (out, out / "keys")} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in out.rglob("*.*")} == {"0o600"}
    with pytest.raises(UsageError, match="the profile exists already"):
        profile(str(tmp_path / "a.parquet"), ["k"], out=out, spark=spark)
    again = profile(str(tmp_path / "a.parquet"), ["n"], out=out, replace_profile=True, spark=spark)
    assert read_profile(out).fingerprint == again.fingerprint != made.fingerprint
    with pytest.raises(DataError):
        profile(str(tmp_path / "a.parquet"), ["other", "size"], encoding="uuid", out=tmp_path / "b", spark=spark)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "a.profile"]


def test_the_same_records_in_other_files_have_the_same_counts(spark: SparkSession, tmp_path: Path) -> None:
    rows = records()
    write(tmp_path / "one" / "a.parquet", rows)
    for n in range(5):
        write(tmp_path / "two" / f"{n}.parquet", rows[n * 60 : n * 60 + 60])
    one, two = (
        profile(str(tmp_path / name), ["k"], options=Options(windows=6), spark=spark) for name in ("one", "two")
    )
    assert one.keys.equals(two.keys)
    assert (one.by_window == two.by_window).all()


def test_a_count_that_is_not_what_the_footers_say_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keylane.pipelines import spark_counts as pipeline

    write(tmp_path / "a.parquet", records())
    from keylane.spark.count_keys import counted as whole

    monkeypatch.setattr(pipeline, "counted", lambda frame, how: whole(frame.limit(299), how))
    with pytest.raises(CountError, match="got 299; allowed: 300"):
        profile(str(tmp_path / "a.parquet"), ["k"], spark=spark)


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_a_field_of_the_key_may_be_written_in_the_path(ending: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = records(60)
    write(tmp_path / "in" / "shop=a" / f"x.{ending}", rows[:40])
    write(tmp_path / "in" / "shop=b c" / f"x.{ending}", rows[40:])
    found = profile(str(tmp_path / "in"), ["shop", "n"], options=Options(windows=1), spark=spark)
    told = {(shop, int(n)): row for (shop, n), row in counts(found).items()}
    shops = [("a" if number < 40 else "b c", row["n"]) for number, row in enumerate(rows)]
    assert told == {key: [n] for key, n in Counter(shops).items()}


def test_times_in_lines_may_be_numbers(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"k": "a", "at": {1_772_323_200 + n}}}\n' for n in range(8)))
    found = profile(str(tmp_path), ["k"], options=Options(time="at:s", windows=4), spark=spark)
    assert found.by_window.tolist() == [[2, 2, 2, 2]]
    assert dict(found.facts)["without_time"] == 0


def test_the_header_of_a_registry_is_no_part_of_a_key_that_strips_it(
    spark: SparkSession, tmp_path: Path, contract: Callable[..., Contract]
) -> None:
    keys = [b"\x00\x00\x00\x00\x07acme", b"\x00\x00\x00\x00\x09acme", b"no header"]
    write(tmp_path / "a.parquet", [{"k": key} for key in keys])
    for header, told, malformed in (("strip", [2], 1), ("keep", [1, 1, 1], 0)):
        made = contract(key={"fields": ["k"], "encoding": "raw", "registry_header": header})
        found = profile(str(tmp_path), contract=made, options=Options(windows=1), spark=spark)
        assert (found.records.tolist(), found.without_key.malformed) == (told, malformed)


def test_a_source_without_records_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([], pa.string())}), tmp_path / "a.parquet")
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a.csv").write_text("k,other\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.jsonl").write_text("")
    for source in ("a.parquet", "lines", "empty"):
        with pytest.raises(DataError, match=r"no records|no files"):
            profile(str(tmp_path / source), ["k"], spark=spark)


def test_counters_that_may_overflow_are_not_packed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keylane.pipelines import spark_counts as pipeline

    rows = records()
    write(tmp_path / "a.parquet", rows)
    monkeypatch.setattr(pipeline, "packing_for", lambda _: 1)
    found = profile(str(tmp_path / "a.parquet"), ["k"], options=Options(windows=5), spark=spark)
    assert counts(found) == expected(found, rows)


def test_only_the_columns_of_key_time_and_length_are_read(spark: SparkSession, tmp_path: Path) -> None:
    from keylane.contract.model import Key
    from keylane.profile.scan import ScanRequest
    from keylane.spark.context import RunContext
    from keylane.systems.endpoint import open_endpoint

    write(tmp_path / "a.parquet", records())
    endpoint = open_endpoint(str(tmp_path / "a.parquet"))
    with endpoint.scan(RunContext(spark), ScanRequest(Key(fields=("k",)), time="at")) as scan:
        frame: Any = scan.frame
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<k:string,at:timestamp>" in plan
