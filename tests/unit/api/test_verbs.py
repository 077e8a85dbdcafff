"""The verbs as functions give what the commands print, and take what callers have."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keylane
from keylane import KeylaneError, Progress, Router, check, explain, identify, parse_contract, plan, profile
from keylane.api import verbs
from keylane.api.progress import Reporter
from keylane.cli.main import cli
from keylane.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec: {streams: [tx], lanes: 15, key: {fields: [merchant]}, partitioner: kafka-java}
"""
VERBS = ("check", "dry_run", "explain", "find", "identify", "init", "match", "plan", "profile", "route", "verify")
KEYS = [f"m{number * number % 997}" for number in range(3_000)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"merchant": KEYS, "lane": Router(TEXT).lanes_of_keys(KEYS)})
    pq.write_table(table, "a.parquet")
    (tmp_path / "payments.yaml").write_text(TEXT)
    return tmp_path / "a.parquet"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document of a command."""
    from keylane.cli.output import render

    result, output = cli.main([*arguments, "-o", "json"], prog_name="keylane", standalone_mode=False)
    capsys.readouterr()
    return json.loads(render(result, output, terminal=False))


SAME: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "identify": (
        lambda: identify("a.parquet", key="merchant", lane="lane"),
        ["identify", "a.parquet", "-k", "merchant", "-l", "lane"],
    ),
    "check": (lambda: check("payments.yaml"), ["check", "payments.yaml"]),
    "check data": (
        lambda: check("payments.yaml", data="a.parquet", show_keys=True),
        ["check", "payments.yaml", "--data", "a.parquet", "--show-keys"],
    ),
    "check several": (
        lambda: check("a.parquet", "a.parquet", key="merchant"),
        ["check", "a.parquet", "a.parquet", "-k", "merchant"],
    ),
    "dry run": (
        lambda: keylane.dry_run("payments.yaml", "a.parquet", "lanes"),
        ["route", "payments.yaml", "--from", "a.parquet", "--to", "lanes", "--dry-run"],
    ),
    "profile": (
        lambda: profile("a.parquet", "merchant", lane="lane", show_keys=True),
        ["profile", "a.parquet", "-k", "merchant", "-l", "lane", "--show-keys"],
    ),
    "plan": (
        lambda: plan("a.parquet", contract=TEXT, lanes=(12, 15), show_keys=True),
        ["plan", "a.parquet", "-c", "payments.yaml", "-n", "12..15", "--show-keys"],
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_verb_gives_the_document_that_its_command_prints(
    case: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, command = SAME[case]
    assert json.loads(json.dumps(ask().as_json())) == printed(capsys, *command)
    assert data.exists()


def test_explain_gives_the_document_that_its_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import asdict

    given = json.loads(json.dumps(asdict(explain("TT0124", lanes=15))))
    assert given == printed(capsys, "explain", "TT0124", "-n", "15")
    assert explain(b"TT0124", lanes=15) == explain("TT0124", lanes=15)
    by_contract: Any = explain("TT0124", contract=TEXT)
    assert by_contract.contract.lane == 10
    assert explain({"merchant": "TT0124"}, contract=parse_contract(TEXT)).contract == by_contract.contract  # type: ignore[union-attr]  # placed


def test_a_contract_is_checked_as_text_as_path_and_as_itself(data: Path) -> None:
    given = (TEXT, data.parent / "payments.yaml", "payments.yaml", parse_contract(TEXT))
    assert {check(one, data=data).ok for one in given} == {True}
    assert check(*given[:2]).as_json()["compared"] == ["contract", str(given[1])]
    broken = check(TEXT.replace("lanes: 15", "lanes: none"))
    assert not broken.ok
    assert broken.findings[0].line == 5


def test_batches_are_identified_as_a_file_of_them_is(data: Path) -> None:
    batches = pq.read_table(data).select(["merchant", "lane"]).to_batches()
    assert identify(batches) == identify(data, key="merchant", lane="lane")


def test_a_profile_is_kept_and_planned_from(data: Path) -> None:
    made = profile(data, "merchant", out="a.profile")
    assert made.profile == "a.profile"
    assert profile("a.profile").records == made.records == len(KEYS)
    planned = plan("a.profile", contract=TEXT)
    assert planned.profile.records == len(KEYS)
    with pytest.raises(UsageError, match="counted already: got 'key'"):
        profile("a.profile", "merchant")
    lacking = "got 'a profile without times and sizes of records'; hint: profile it with --time COLUMN and --bytes"
    for mb_s in (None, 1.0):
        with pytest.raises(UsageError, match=lacking):
            plan("a.profile", growth=2.0, lane_mb_s=mb_s)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: check(3), ArgumentError, "not a contract: got 3"),  # type: ignore[arg-type]  # what is tested
        (lambda: check(TEXT, "a.parquet"), UsageError, "cannot be compared"),
        (lambda: check(TEXT, TEXT, data="a.parquet"), UsageError, "data goes with one contract"),
        (lambda: explain("a"), UsageError, "the lane count is never guessed"),
        (lambda: explain(object(), lanes=3), UsageError, "got object <object"),
        (lambda: identify("nowhere.parquet"), KeylaneError, "nowhere"),
        (lambda: profile("a.parquet", "merchant", tme="at"), ArgumentError, "did you mean 'time'"),  # type: ignore[call-arg]  # what is tested
        (lambda: keylane.route(TEXT, "a", "b", lane=3), ArgumentError, "did you mean 'lanes'"),  # type: ignore[call-arg]  # what is tested
        (lambda: keylane.verify("a", "b", vales=False), ArgumentError, "did you mean 'values'"),  # type: ignore[call-arg]  # what is tested
        (lambda: keylane.match("a", "b", "c", 1.0, near=3), ArgumentError, "match has no such argument: got 'near'"),  # type: ignore[call-arg]  # what is tested
    ],
)
def test_what_is_wrong_is_an_error_of_keylane(
    ask: Callable[[], object], error: type[Exception], message: str, data: Path
) -> None:
    assert data.exists()
    with pytest.raises(error, match=message):
        ask()


def test_the_first_contract_is_written_and_its_data_is_identified(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = keylane.init("a.parquet", "merchant", out="first.yaml")
    command = printed(capsys, "init", "a.parquet", "--key", "merchant", "--out", "second.yaml")
    assert json.loads(json.dumps(made.as_json()).replace("first.yaml", "second.yaml")) == command
    assert made.partitioner_from == "identified"
    assert check("first.yaml", data=data).ok
    with pytest.raises(UsageError, match="is there already"):
        keylane.init("a.parquet", "merchant", out="first.yaml")
    with pytest.raises(LookupError, match="did you mean 'kafka-java'"):
        keylane.init("a.parquet", "merchant", out="third.yaml", partitioner="kafka-jav")


def test_a_dry_run_writes_nothing(data: Path) -> None:
    before = sorted(data.parent.iterdir())
    planned = keylane.dry_run(TEXT, data, "lanes")
    assert sum(one.records for one in planned.lanes) == planned.sampled == len(KEYS)
    assert sorted(data.parent.iterdir()) == before


def test_keys_of_examples_are_masked_unless_they_are_asked_for(data: Path) -> None:
    wrong = TEXT.replace("kafka-java", "librdkafka-consistent")
    masked, whole = (check(wrong, data=data, show_keys=shown).as_json()["data"]["examples"] for shown in (False, True))
    assert {one["key"] for one in whole} <= set(KEYS)
    assert not {one["key"] for one in masked} & set(KEYS)


FOLLOWING = ("late", "keep", "ahead", "state", "checkpoint", "every", "max_files")


@pytest.mark.parametrize("name", FOLLOWING)
def test_an_option_of_following_is_refused_for_a_batch(name: str) -> None:
    value: Any = {"state": "s", "checkpoint": "c", "every": "1 second"}.get(name, 3)
    with pytest.raises(UsageError, match="follows its sources"):
        keylane.match("a", "b", "c", 1.0, **{name: value})


def test_a_match_that_follows_is_not_verified_and_reads_all() -> None:
    with pytest.raises(UsageError, match="--verify is of a batch"):
        keylane.match("a", "b", "c", 1.0, follow=True, verify=True)
    part = keylane.StreamOptions(read_range=keylane.ReadRange(most=3))
    with pytest.raises(UsageError, match="reads all that arrives"):
        keylane.match("a", "b", "c", 1.0, follow=True, options=part)
    with pytest.raises(ArgumentError, match="no such column of a match: got 'tme'"):
        keylane.match("a", "b", "c", 1.0, driver_columns={"tme": "at"})


VERBS_ON_DATA: dict[str, Callable[[Callable[[Progress], None]], object]] = {
    "identify": lambda tell: identify("a.parquet", key="merchant", lane="lane", progress=tell),
    "check": lambda tell: check(TEXT, data="a.parquet", progress=tell),
    "dry_run": lambda tell: keylane.dry_run(TEXT, "a.parquet", "lanes", progress=tell),
    "init": lambda tell: keylane.init("a.parquet", "merchant", out=f"{id(tell)}.yaml", progress=tell),
    "profile": lambda tell: profile("a.parquet", "merchant", progress=tell),
    "plan": lambda tell: plan("a.parquet", contract=TEXT, progress=tell),
}


@pytest.mark.parametrize("verb", VERBS_ON_DATA)
def test_progress_has_one_shape_and_what_it_raises_ends_the_verb(verb: str, data: Path) -> None:
    seen: list[Progress] = []
    VERBS_ON_DATA[verb](seen.append)
    assert data.exists()
    assert {one.verb for one in seen} == {verb}
    assert max(one.records for one in seen) == len(KEYS)

    def enough(_: Progress) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        VERBS_ON_DATA[verb](enough)


def test_what_profile_returned_is_planned_from_where_it_was_saved(data: Path) -> None:
    saved = profile(data, "merchant", out="a.profile")
    assert plan(saved, lanes=15) == plan("a.profile", lanes=15)
    with pytest.raises(ArgumentError, match=r"out='payments\.profile'"):
        plan(profile(data, "merchant"), lanes=15)
    with pytest.raises(ArgumentError, match="a path or an address, what keylane"):
        plan(3, lanes=15)  # type: ignore[arg-type]  # a type that is not taken


def test_several_keys_are_explained_one_at_a_time() -> None:
    with pytest.raises(ArgumentError, match="one key at a time"):
        explain(["TT0124", "TT0125"], lanes=15)
    assert explain("TT0124", lanes=15).lanes == 15


def test_what_a_callback_raises_while_spark_works_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keylane.api.progress.BEAT", 0.01)
    work = type("Work", (), {"starting": True, "tasks": 0})()
    fake = type(sys)("keylane.spark.session")
    vars(fake)["work_now"] = lambda: work
    monkeypatch.setitem(sys.modules, "keylane.spark.session", fake)
    seen: list[str] = []

    def stop(one: Progress) -> None:
        seen.append(one.text)
        raise TimeoutError

    def work_on_spark() -> None:
        with Reporter("match", stop).on_spark():
            while not seen:
                pass

    with pytest.raises(TimeoutError):
        work_on_spark()
    assert seen == ["starting Spark"]


IN_ORDER = {
    "verb first": "from keylane import {verb}",
    "package first": "import keylane.profile.model, keylane.plan.planner; from keylane import {verb}",
    "attribute": "import keylane; {verb} = keylane.{verb}",
    "package after": "from keylane import {verb}; import keylane.profile.build, keylane.plan.choose",
}


@pytest.mark.parametrize("order", IN_ORDER)
def test_verbs_and_packages_of_one_name_are_both_there_whatever_is_imported_first(order: str) -> None:
    lines = [f"{IN_ORDER[order].format(verb=verb)}; assert callable({verb}), '{verb}'" for verb in VERBS]
    lines += ["from keylane.profile.model import Profile", "import keylane.plan.planner as p", "p.make_plan"]
    lines += ["import keylane, inspect", "assert 'keep_order' in inspect.signature(keylane.plan).parameters"]
    lines += ["import sys; assert not {'pyspark', 'confluent_kafka', 'boto3'} & set(sys.modules)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_package_that_is_no_verb_cannot_be_called() -> None:
    assert not callable(import_module("keylane.measure"))
    assert callable(import_module("keylane.plan"))


def test_every_verb_is_public_and_documented() -> None:
    assert tuple(sorted(verbs.__all__)) == VERBS
    assert set(VERBS) <= set(keylane.__all__)
    assert all(inspect.getdoc(getattr(verbs, name)) for name in VERBS)


def test_explain_without_a_contract_loads_neither_pydantic_nor_numpy() -> None:
    code = "from keylane import explain; explain('TT0124', lanes=15)\nimport sys\n"
    code += "assert not {'pydantic', 'numpy', 'pyarrow'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_parquet_file_that_asks_for_views_is_counted_as_one_of_text(tmp_path: Path) -> None:
    keys = pa.array([f"m-{n % 7}" for n in range(100)])
    for name, column in (("view", keys.cast(pa.string_view())), ("text", keys)):
        pq.write_table(pa.table({"k": column}), tmp_path / f"{name}.parquet")
    view, text = (profile(tmp_path / f"{name}.parquet", "k", show_keys=True) for name in ("view", "text"))
    assert pq.read_schema(tmp_path / "view.parquet").field("k").type == pa.string_view()
    assert (view.records, view.heavy) == (100, text.heavy)
