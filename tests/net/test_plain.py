"""The net without Spark: commands that need none, contracts, pages of stored profiles, formats that are written here.

How snapshots are rewritten: `tests.net.snapshots`. Commands on Spark: `test_commands`; what they leave: `test_formats`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from tests.net import internals
from tests.net.fixed_inputs import CONTRACTS, contract_file, contract_text, keyed_file
from tests.net.pages import page_held
from tests.net.running import document_held, keylane, refusals_held, words_held
from tests.net.snapshots import held, held_text, normalised, normalised_text
from tests.net.trees import tree_held

import keylane as public
from keylane import Router, parse_contract, partitioner

if TYPE_CHECKING:
    from collections.abc import Iterator

PROFILES = Path(__file__).parent / "profiles"
ADDRESS = "kafka://b:9092"
RECORDS: list[dict[str, Any]] = [
    {"k": "key-1", "n": 7, "order": "order-1", "ts": 1_763_185_276_000, "lat": 51.5, "lng": -0.12},
    {"k": "hot", "n": 120, "order": "order-2", "ts": 1_763_188_876_000, "lat": 40.7, "lng": -74.0},
    {"k": "", "n": -3, "order": "", "ts": 0, "lat": 0.0, "lng": 0.0},
    {"k": None, "n": None, "order": None, "ts": None, "lat": None, "lng": None},
    {},
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, so that names of files are plain."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def placed_by(writer: str, lanes: int = 15, keys: int = 300) -> list[int]:
    """Lanes of `key-0`, … as a client places them."""
    found = [partitioner(writer).lane(f"key-{n}".encode(), lanes) for n in range(keys)]
    return [lane for lane in found if lane is not None]


# What a command takes.


def _options(one: click.Command) -> list[dict[str, Any]]:
    return [
        {
            "name": param.name,
            "opts": [*param.opts, *param.secondary_opts],
            "type": param.type.name,
            "choices": list(param.type.choices) if isinstance(param.type, click.Choice) else None,
            "required": param.required,
            "multiple": param.multiple,
            "nargs": param.nargs,
            "flag": isinstance(param, click.Option) and param.is_flag,
            "default": repr(param.to_info_dict().get("default")),
        }
        for param in one.params
    ]


def _commands(one: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, one
    if isinstance(one, click.Group):
        context = click.Context(one)
        for inner in one.list_commands(context):
            found = one.get_command(context, inner)
            assert found is not None
            yield from _commands(found, f"{name} {inner}")


def test_commands_and_their_options() -> None:
    found = dict(_commands(internals.cli, "keylane"))
    held("options", normalised({name: _options(one) for name, one in found.items()}))


def test_help() -> None:
    helps = [" ".join([*name.split()[1:], "--help"]) for name, _ in _commands(internals.cli, "keylane")]
    text = "\n".join(f"$ keylane {line}\n{keylane(*line.split()).out}" for line in helps)
    held_text("help", normalised_text(text))


def test_public_names() -> None:
    held("public-names", sorted(public.__all__))


# Contracts.


def test_fingerprints_and_placements() -> None:
    found = {}
    for name in CONTRACTS:
        contract = parse_contract(contract_text(name))
        router = Router(contract, lanes=9 if contract.spec.lanes == "live" else None)
        shown = [asdict(router.place(record, position)) for position, record in enumerate(RECORDS)]
        for one in shown:
            one["routing_key"] = None if one["routing_key"] is None else one["routing_key"].hex()
        found[name] = {"fingerprint": contract.fingerprint, "placements": normalised(shown)}
    held("contracts", found)


def test_changes_between_contracts() -> None:
    texts = {name: parse_contract(contract_text(name)) for name in ("hash", "window", "hot-spread", "tier", "table")}
    texts["more-lanes"] = parse_contract(contract_text("hash", lanes=20))
    first = texts.pop("hash")
    told = {name: _plain(public.evolve(first, other)) for name, other in texts.items()}
    held("evolve", normalised(told))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(asdict(value), default=str))


# Commands.


def test_explain(here: Path) -> None:
    document_held("explain", "explain", "TT0124", "-n", 15)
    document_held("explain-raw", "explain", "00ff", "-e", "raw", "-n", 60, "--like", "sarama-hash")
    document_held("explain-null", "explain", "--null", "-n", 15)
    words_held("explain", "explain", "TT0124", "-n", 15)
    for name in ("hot-spread", "tier", "table", "expect"):
        document_held(
            f"explain-{name}", "explain", "hot", "-f", "order=order-1", "-c", contract_file(here, name), places=[here]
        )
    hourly = contract_file(here, "window")
    document_held("explain-window", "explain", "-f", "k=m-7", "-f", "ts=1763185276000", "-c", hourly)
    document_held("explain-geo", "explain", "-33.87,151.21", "-c", contract_file(here, "geo"))
    document_held("explain-missing", "explain", "-f", "other=1", "-c", hourly)
    asked = [["explain", "a"], ["explain", "-n", "0", "a"], ["explain", "a", "-c", "no.yaml"], ["explain"]]
    refusals_held("explain-refused", [*asked, ["explain", "a", "-n", "2", "--like", "me"]], here)


def test_identify(here: Path) -> None:
    keyed_file(here / "java.parquet", placed_by("kafka-java"))
    keyed_file(here / "few.parquet", placed_by("kafka-java", keys=2))
    (here / "both").mkdir()
    keyed_file(here / "both" / "a.parquet", placed_by("kafka-java"))
    keyed_file(here / "both" / "b.parquet", placed_by("sarama-hash"))
    columns = ["-k", "k", "-l", "lane"]
    document_held("identify", "identify", "java.parquet", *columns)
    document_held("identify-few", "identify", "few.parquet", *columns)
    document_held("identify-mixed", "identify", "both", *columns, "-n", 15)
    words_held("identify", "identify", "java.parquet", *columns)
    asked = [["identify", "java.parquet"], ["identify", "none.parquet", *columns]]
    refusals_held("identify-refused", [*asked, ["identify", "java.parquet", "-k", "kk", "-l", "lane"]], here)


def test_check(here: Path) -> None:
    good, data = contract_file(here, "hash").name, keyed_file(here / "a.parquet", placed_by("kafka-java")).name
    keyed_file(here / "b.parquet", placed_by("sarama-hash"))
    (here / "bad.yaml").write_text("spec: {lanes: 0}\n")
    other, golden = contract_file(here, "hash", lanes=7).name, contract_file(here, "expect").name
    document_held("check", "check", good)
    document_held("check-table", "check", contract_file(here, "table").name)
    document_held("check-golden", "check", golden)
    wrong = contract_file(here, "expect", golden=[{"key": "key-1", "lane": 9}]).name
    document_held("check-golden-broken", "check", wrong)
    document_held("check-invalid", "check", "bad.yaml")
    document_held("check-data", "check", golden, "--data", data, "--show-keys")
    document_held("check-data-broken", "check", good, "--data", "b.parquet", "--show-keys")
    document_held("check-contracts", "check", good, other)
    document_held("check-together", "check", data, "a.parquet", "-k", "k")
    document_held("check-apart", "check", data, "b.parquet", "-k", "k", "--show-keys")
    words_held("check", "check", good, "--data", data)
    refusals_held(
        "check-refused", [["check"], ["check", "no.yaml"], ["check", good, data], ["check", data, data]], here
    )


def test_plan_of_a_profile_that_an_earlier_version_kept(here: Path) -> None:
    shutil.copytree(PROFILES / "day.profile", here / "day.profile")
    today = contract_file(here, "hash", lanes=6).name
    asked = ["plan", "day.profile", "--lanes", "6", "--show-keys"]
    document_held("plan", *asked, "--write", "new.yaml", "--out", "plan.json", "--report", "plan.html")
    page_held("plan-page", here / "plan.html", here)
    written = (here / "new.yaml").read_text(encoding="utf-8")
    fingerprint = parse_contract(written).fingerprint
    held("plan-contract", {"fingerprint": fingerprint, "contract": normalised(yaml.safe_load(written))})
    held("plan-file", normalised(json.loads((here / "plan.json").read_text(encoding="utf-8"))["plan"]))
    document_held("plan-today", *asked, "--contract", today, "--sub-key", "order", "--keep-order", "per-sub-key")
    document_held("plan-unmet", "plan", "day.profile", "--lanes", "4..6", "--max-over-mean", "1")
    words_held("plan", *asked)
    words_held("plan-explained", *asked, "--contract", today, "--explain")
    wrong = [["plan", "day.profile", "--lanes", "x"], ["plan", "none.profile"], ["plan", "day.profile", "-k", "k"]]
    refusals_held("plan-refused", [*wrong, ["plan", "day.profile", "--report", "plan.html"]], here)


def test_plan_of_places(here: Path) -> None:
    shutil.copytree(PROFILES / "pings.profile", here / "pings.profile")
    document_held("plan-places", "plan", "pings.profile", "--lanes", "4", "--report", "plan.html", "--write", "p.yaml")
    page_held("plan-places-page", here / "plan.html", here)
    held("plan-places-contract", parse_contract((here / "p.yaml").read_text(encoding="utf-8")).fingerprint)


def test_profile_that_an_earlier_version_kept(here: Path) -> None:
    shutil.copytree(PROFILES / "day.profile", here / "day.profile")
    contract_file(here, "hash")
    asked = ["profile", "day.profile", "--show-keys"]
    document_held("profile-kept", *asked, "--report", "page.html", "-c", "hash.yaml")
    page_held("profile-kept-page", here / "page.html", here)
    document_held("profile-masked", "profile", "day.profile")
    words_held("profile-kept", *asked)
    (here / "day.profile" / "profile.json").write_text("{}")
    asked = ["profile", "day.profile", "--out", "other.profile"]
    refusals_held("profile-kept-refused", [["profile", "day.profile"], asked], here)


def test_verify_and_compact(here: Path) -> None:
    file = contract_file(here, "tier")
    internals.make_target(here, parse_contract(file.read_text()), internals.payments(3, rows=80))
    sides = ["verify", "--source", "source", "--target", "target"]
    document_held("verify", *sides, "-c", file.name, places=[here])
    document_held("verify-at-least-once", *sides, "--mode", "at-least-once", places=[here])
    words_held("verify", *sides, "-c", file.name, places=[here])
    document_held("compact", "compact", "target", places=[here])
    words_held("compact-again", "compact", "target", places=[here])
    tree_held("compact-tree", here / "target", here)
    document_held("verify-compacted", *sides, "-c", file.name, places=[here])
    next((here / "target").glob("stream=t/lane=*/*.parquet")).unlink()
    document_held("verify-broken", *sides, "-c", file.name, "--keep", 2, places=[here])
    other = contract_file(here, "hash").name
    asked = [[*sides, "-c", other], ["verify", "--source", "source", "--target", "none"], ["verify"]]
    refusals_held("verify-refused", asked, here)
    refusals_held("compact-refused", [["compact", "none"], ["compact", "target", "--size", "x"], ["compact"]], here)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `brokers` finds at its address."""
    there = internals.cluster()

    @contextmanager
    def found(_: object) -> Iterator[Any]:
        yield there

    monkeypatch.setattr(internals.OPEN_ADMIN, found)
    monkeypatch.setattr(internals.POLL_SECONDS, 0.0)
    return there


def test_brokers(cluster: Any, here: Path) -> None:
    document_held("brokers", "brokers", ADDRESS, "--out", "r.json")
    document_held("brokers-status", "brokers", ADDRESS, "--status")
    words_held("brokers", "brokers", ADDRESS)
    files = {path.name: json.loads(path.read_text()) for path in sorted(here.glob("r*.json"))}
    held("brokers-files", normalised(files))
    document_held("brokers-applied", "brokers", ADDRESS, "--plan", "r.plan.json", "--apply", "--yes")
    held("brokers-calls", normalised({"written": [one.replace(" ", "/") for one in cluster.written]}))
    document_held("brokers-even", "brokers", ADDRESS)
    asked = [
        ["brokers", ADDRESS, "--yes"],
        ["brokers", ADDRESS, "--throttle", "x"],
        ["brokers", ADDRESS, "--topic", "x"],
    ]
    refusals_held("brokers-refused", [*asked, ["brokers", "nonsense"], ["brokers", ADDRESS, "--plan", "no.json"]], here)


def test_doctor(here: Path) -> None:
    document = json.loads(keylane("doctor", "-o", "json").out)
    assert isinstance(document.pop("ok"), bool)
    held("doctor", normalised(document))
    document_held("doctor-without-jars", "doctor", "--spark-jars", here, places=[here])
    refusals_held("doctor-refused", [["doctor", "--broker"], ["doctor", "x"]], here)


def test_dev(here: Path) -> None:
    document_held("dev-kafka-status", "dev", "kafka", "status", "--dir", "none", places=[here])
    document_held("dev-kafka-down", "dev", "kafka", "down", "--dir", "none", places=[here])
    refusals_held("dev-refused", [["dev", "jars", "none"], ["dev", "kafka", "up", "--brokers", "2"]], here)


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        ended = keylane("completion", shell)
        assert ended.code == 0
        held_text(f"completion-{shell}", normalised_text(ended.out))
    refusals_held("completion-refused", [["completion"], ["completion", "csh"]])


def test_commands_on_spark_refuse_before_it_starts(here: Path) -> None:
    contract_file(here, "hash")
    contract_file(here, "geo")
    (here / "full").mkdir()
    (here / "full" / "mine.txt").touch()
    demo = [["demo", "--to", "full"], ["demo", "--scale", "0"], ["demo", "--seed", "3", "lesson"]]
    refusals_held(
        "demo-refused", [*demo, *(["demo", one, "--bootstrap", "nonsense"] for one in ("lesson", "migrate"))], here
    )
    geo = [["geo", "table", "x", "--most-moved", "0.1"], ["geo", "table", "x", "-c", "geo.yaml", "--name", "n"]]
    refusals_held("geo-table-refused", [*geo, ["geo", "table"], ["geo", "x"]], here)
    match = [["match", "--to", "x"], ["match", "--drivers", "a", "--to", "x", "--radius", "5"]]
    both = ["match", "--drivers", "a", "--riders", "b", "--to", "x", "--radius"]
    refusals_held("match-refused", [*match, [*both, "-1"], [*both, "5", "--late", "1"]], here)
    route = [["route", "hash.yaml"], ["route", "no.yaml", "--from", "a", "--to", "b"]]
    to = ["route", "hash.yaml", "--from", "a", "--to", "b", "--conf", "x=1"]
    refusals_held("route-refused", [*route, to], here)
    asked = [["profile", "x", "--for", "soon"], ["profile", "x", "--place", "a"], ["profile", "x", "-e", "latin1"]]
    refusals_held("profile-refused", [*asked, ["profile"], ["nothing"], []], here)


def test_the_document_of_the_lesson() -> None:
    held("demo-lesson", normalised(internals.lesson()))


def test_the_document_and_the_page_of_a_growth(here: Path) -> None:
    document, page = internals.growth()
    held("demo-migrate", normalised(document))
    (here / "growth.html").write_text(page, encoding="utf-8")
    page_held("demo-migrate-page", here / "growth.html", here)


# What is written down of a route into Kafka, and the names of its headers.


def test_the_state_of_a_route_into_kafka(here: Path) -> None:
    head = internals.RouteHead(
        "payments",
        2,
        "f" * 64,
        "kafka://b:9092/raw",
        ADDRESS + "/payments",
        {"payments": 4, "vip": 2},
        "kafka",
        "*",
        "json",
    )
    parked = internals.Parked("routing-key", "6b", 1, 17)
    counts = internals.Counts(10, 8, 1, 1)
    done = internals.BatchDone(
        0, "q", counts, counts + counts, {"payments": [3, 2, 2, 1], "vip": [0, 0]}, 1, 20, 2, 300, "k string", "{}"
    )
    with internals.open_state(here / "state", head) as state:
        plans = [
            internals.BatchPlan(0, head.topics, 0, 1_763_185_276.5, (parked,)),
            internals.BatchPlan(1, head.topics, 3, 1_763_185_277.5, (), False, "payments.dlq", '{"raw":{"0":5}}', 2),
        ]
        for plan in plans:
            state.write_plan(plan)
        state.write_parked([parked])
        state.write_done(done)
    tree_held("kafka-state", here / "state", here)
    with internals.open_state(here / "state", head) as state:
        assert [state.plan(0), state.plan(1), state.plan(2)] == [*plans, None]
        assert (state.last(), state.parked()) == (done, [parked])
    held(
        "kafka-names", {"state": internals.state_name("payments", ADDRESS + "/payments"), "headers": internals.HEADERS}
    )
    assert internals.dead_topic("payments") == "payments.dlq"


def test_names_of_headers_and_of_forms() -> None:
    """Whatever module they are in: headers, schemas and forms that other programs know by their names."""
    names = re.compile(r'"(__keylane\.[\w.]*|keylane\.(?:source|contract|epoch|attempt)|keylane\.[a-z-]+/\d+)"')
    folder = Path(public.__file__).parent
    texts = {kind: [path.read_text("utf-8") for path in folder.rglob(f"*.{kind}")] for kind in ("py", "java")}
    held(
        "names", {kind: sorted({one for text in found for one in names.findall(text)}) for kind, found in texts.items()}
    )


def test_a_profile_on_disk(here: Path) -> None:
    for name in ("day", "pings"):
        tree_held(f"profile-folder-{name}", PROFILES / f"{name}.profile", here)


def test_schemas() -> None:
    """Their descriptions may be worded anew; all else is a promise."""
    folder = Path(public.__file__).parent / "schemas"
    found = {
        path.name: normalised(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("contract-*.json"))
    }
    held("schemas", {name: hashlib.sha256(json.dumps(one).encode()).hexdigest() for name, one in found.items()})
