"""Out and in again is the same: every form that keylane writes and reads, tried on made-up values.

A trip writes something, reads it back by another command, and yields what is not the same, each with the command line
that shows it. `TRIPS` has them by name; `test_round_trips` runs them with a fixed seed, with new ones and with planted
faults.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from tests.worlds import face, inputs
from tests.worlds.hostile_names import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random


@dataclass
class Trip:
    """One trip in a folder of its own, with the files of `inputs` in it."""

    folder: Path
    random: Random
    reached: set[str] = field(default_factory=set)

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """What a command printed; one that does not end as it should is an error of the trip."""
        ran = face.run(words, folder=self.folder, environ={"KEYLANE_MASKS": str(self.folder / "masks")})
        assert ran.code in codes, f"keylane {shlex.join(words)} => {ran.code}: {ran.err}"
        return ran.out

    def document(self, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
        return json.loads(self.run(*words, "-o", "json", codes=codes))

    def compared(self, what: str, one: Any, other: Any) -> Iterator[str]:
        self.reached.add(what)
        if one != other:
            yield f"{what}: {first_difference(one, other)}"


def first_difference(one: Any, other: Any, at: str = "") -> str:
    """Where two values part."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            if one.get(name) != other.get(name):
                return first_difference(one.get(name), other.get(name), f"{at}.{name}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return first_difference(a, b, f"{at}[{n}]")
    return f"{at or 'all of it'}: {str(one)[:200]!r} became {str(other)[:200]!r}"


def hash_keys(trip: Trip) -> Iterator[str]:
    """A registry of hash keys: by CSV and by JSON into another one, and by CSV into a contract."""
    accounts = names(trip.random, 40)
    weights = [trip.random.choice((1, 0.001, 2.5, 10**6)) for _ in accounts]
    for account, weight in zip(accounts, weights, strict=True):
        trip.run("shards", "keys", "add", f"--weight={weight}", "--registry", "one.sqlite", "--", account)
    listed = trip.document("shards", "keys", "list", "--registry", "one.sqlite")
    yield from trip.compared(
        "accounts as added",
        list(zip(accounts, weights, strict=True)),
        [(one["account"], one["weight"]) for one in listed["keys"]],
    )
    for form in ("csv", "json"):
        (trip.folder / f"keys.{form}").write_text(
            trip.run("shards", "keys", "list", "--registry", "one.sqlite", "-o", form)
        )
        trip.run("shards", "keys", "import", f"keys.{form}", "--registry", f"{form}.sqlite")
        again = trip.document("shards", "keys", "list", "--registry", f"{form}.sqlite")
        yield from trip.compared(f"keys by {form}", plain_keys(listed), plain_keys(again))
    shards = {"layout": "layout.json", "hash_keys": "keys.csv"}
    own = {one["account"]: one["hash_key"] for one in listed["keys"]}
    for name, given in (("by-file", "keys.csv"), ("by-name", own)):
        spec = inputs.contract(lanes=2, partitioner="kinesis-md5", shards={**shards, "hash_keys": given})
        (trip.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec, allow_unicode=True))
    two = [trip.document("check", f"{name}.yaml")["fingerprint"] for name in ("by-file", "by-name")]
    yield from trip.compared("keys of a contract by CSV", *two)
    formulas = [row[0] for row in csv.reader(io.StringIO((trip.folder / "keys.csv").read_text(), newline=""))]
    run = [cell for cell in formulas if cell.lstrip()[:1] in set("=+@\uff1d") or cell[:1] in set("\t\r\n")]
    yield from trip.compared("cells that a spreadsheet runs", [], run)


def plain_keys(document: Any) -> list[Any]:
    return [(one["account"], one["hash_key"], one["weight"]) for one in document["keys"]]


def queries(trip: Trip) -> Iterator[str]:
    """A registry of queries, by the JSON that lists it, and as YAML."""
    made = []
    for n, name in enumerate(names(trip.random, 6)):
        value = name.replace("'", "''")
        query = {"id": f"q{n}", "filter": f"k <> '{value}'", "aggregates": {"n": "count(*)"}, "window": "1 minute"}
        made.append({**query, "time": "ts", **({"group_by": ["k"]} if n % 2 else {})})
    (trip.folder / "made.json").write_text(json.dumps(made))
    trip.run("aggregate", "queries", "add", "made.json", "--queries", "one.sqlite")
    listed = trip.document("aggregate", "queries", "list", "--queries", "one.sqlite")
    for form, dump in (("json", json.dumps), ("yaml", yaml.safe_dump)):
        definitions = [{"id": one["query_id"], **one["definition"]} for one in listed["queries"]]
        (trip.folder / f"again.{form}").write_text(dump(definitions))
        trip.run("aggregate", "queries", "add", f"again.{form}", "--queries", f"{form}.sqlite")
        again = trip.document("aggregate", "queries", "list", "--queries", f"{form}.sqlite")
        yield from trip.compared(f"queries by {form}", listed["queries"], again["queries"])


def saved_profile(trip: Trip) -> Iterator[str]:
    """A profile that is saved, and read again: the same document, and the same plan from both."""
    told = trip.document("profile", "data.parquet", "--key", "k", "--time", "ts", "--out", "p.profile")
    again = trip.document("profile", "p.profile")
    yield from trip.compared("a saved profile", told, again)
    of_file = trip.document("plan", "data.parquet", "--key", "k", "--time", "ts", "--lanes", "8..16", codes=(0, 3, 4))
    of_saved = trip.document("plan", "p.profile", "--lanes", "8..16", codes=(0, 3, 4))
    for one in (of_file, of_saved):
        one.pop("profile")
        one.pop("contract")
    yield from trip.compared("plans of a file and of its profile", of_file, of_saved)


COMMENTED = """# whose it is: the payments team
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: "t", epoch: 1}  # raised by hand
spec:
  streams: [t]
  lanes: 8       # since March
  key:
    fields: ['k']
  partitioner: librdkafka-consistent
"""


def plan_and_contract(trip: Trip) -> Iterator[str]:
    """A plan that is saved and applied: the file is the text that was planned, comments stay, and once is enough."""
    file, link = trip.folder / "real.yaml", trip.folder / "today.yaml"
    file.write_text(COMMENTED)
    link.symlink_to("real.yaml")
    lanes = str(trip.random.choice((4, 12, 16, 24)))
    plan = ("plan", "data.parquet", "--key", "k", "--contract", "today.yaml", "--lanes", lanes)
    trip.run(*plan, "--out", "saved.json", "--write", "wanted.yaml", codes=(0, 3, 4))
    saved = json.loads((trip.folder / "saved.json").read_text())
    yield from trip.compared(
        "a planned contract as written", saved["contract"]["text"], (trip.folder / "wanted.yaml").read_text()
    )
    trip.run("apply", "saved.json", "--yes")
    yield from trip.compared("a planned contract as applied", saved["contract"]["text"], file.read_text())
    yield from trip.compared(
        "applied twice", "in-place", trip.document("apply", "saved.json", "--yes")["contract"]["action"]
    )
    kept = [line.partition("#")[2] for line in COMMENTED.splitlines() if "#" in line]
    yield from trip.compared("comments", [], [one for one in kept if one not in file.read_text()])
    yield from trip.compared("a link", True, link.is_symlink())
    told = trip.document("check", "today.yaml")
    yield from trip.compared(
        "the fingerprint of an applied plan", saved["contract"]["fingerprint"], told["fingerprint"]
    )
    loaded = face.call("load_contract", file)
    yield from trip.compared("the contract as parsed", told["fingerprint"], loaded.fingerprint)
    yield from trip.compared(
        "the contract from its text", loaded.fingerprint, face.call("parse_contract", file.read_text()).fingerprint
    )


def layouts(trip: Trip) -> Iterator[str]:
    """A layout that is written: reading it again there is nothing to do, and it holds the loads that it had."""
    parts = sorted({0, *(trip.random.randrange(2**128) >> 8 << 8 for _ in range(trip.random.randrange(1, 6)))})
    ends = [*parts[1:], 2**128]
    rows = [
        {"id": f"s{n}", "start": str(a), "end": str(b - 1), "load": trip.random.choice((1.5, 0.1, 70, 3e-5))}
        for n, (a, b) in enumerate(zip(parts, ends, strict=True))
    ]
    (trip.folder / "mine.json").write_text(json.dumps({"shards": rows}))
    planned = trip.document(
        "shards", "plan", "--layout", "mine.json", "--cap", "60", "--write", "next.json", codes=(0, 3, 4)
    )
    same = trip.document("shards", "plan", "--layout", "next.json", "--to", "next.json")
    yield from trip.compared("calls from a layout to itself", [], same["calls"])
    written = json.loads((trip.folder / "next.json").read_text())["shards"]
    bounds = [(row["start"], row["end"]) for row in written]
    yield from trip.compared(
        "a layout as planned", [(row["start"], row["end"]) for row in planned["after"]["layout"]], bounds
    )


def assignments(trip: Trip) -> Iterator[str]:
    """An assignment as printed is the one before; the map is the same."""
    members, lanes = str(trip.random.randrange(2, 6)), str(trip.random.randrange(3, 20))
    text = trip.run(
        "assign", "--lanes", lanes, "--members", members, "--assignor", "sticky", "--map", "map.json", "-o", "json"
    )
    (trip.folder / "printed.json").write_text(text)
    told = json.loads(text)
    yield from trip.compared("a map", told["assignment"], json.loads((trip.folder / "map.json").read_text()))
    for name in ("printed.json", "map.json"):
        again = trip.document("assign", "--previous", name, "--assignor", "sticky")
        yield from trip.compared(
            f"an assignment from {name}", (told["assignment"], 0), (again["assignment"], again["moved"])
        )


def lane_tables(trip: Trip) -> Iterator[str]:
    """A table of cells as a contract: changed by no moves it is the same, but for the next epoch."""
    lanes = str(trip.random.choice((3, 4, 6)))
    trip.run("geo", "table", "data.parquet", "--lanes", lanes, "--write", "places.yaml")
    trip.run("geo", "table", "data.parquet", "--sticky", "places.yaml", "--most-moved", "0", "--write", "again.yaml")
    one, other = (yaml.safe_load((trip.folder / name).read_text()) for name in ("places.yaml", "again.yaml"))
    yield from trip.compared("a table without moves", one["spec"], other["spec"])
    place = f"{40.7 + trip.random.random() / 20:.4f},-73.9{trip.random.randrange(10)}"
    lane = [
        trip.document("explain", "--contract", name, place)["contract"]["lane"]
        for name in ("places.yaml", "again.yaml")
    ]
    yield from trip.compared("a place in a table", *lane)


def formats(trip: Trip) -> Iterator[str]:
    """The same records as Parquet, CSV and JSON lines have the same answers."""
    for words in (
        ("identify", "{}", "--key", "k"),
        ("check", "c.yaml", "--data", "{}", "--show-keys"),
        ("profile", "{}", "--key", "k", "--time", "ts", "--lane", "lane", "--show-keys"),
        ("profile", "{}", "--place", "lat,lng", "--time", "ts", "--show-keys"),
        ("route", "c.yaml", "--from", "{}", "--to", "lanes", "--dry-run"),
    ):
        found = {}
        for form in ("parquet", "csv", "jsonl"):
            name = f"data.{form}"
            text = json.dumps(trip.document(*[name if word == "{}" else word for word in words]))
            found[form] = json.loads(text.replace(name, "data"))
            # How long a line is differs, and how a time is written, and so what a profile is made of.
            for name in ("profile", "bytes", "fingerprint", "how"):
                found[form].pop(name, None)
        for form in ("csv", "jsonl"):
            yield from trip.compared(f"{' '.join(words[:1] + words[2:3])} of {form}", found["parquet"], found[form])


#: Command lines whose output depends on nothing but their files; run in a process of its own.
ANYWHERE = (
    "explain k1 --contract c.yaml -o json",
    "check c.yaml --data data.csv -o json",
    "identify data.csv --key k --time ts",
    "profile data.csv --key k --time ts --show-keys -o json",
    "plan day.profile --lanes 8..12 --show-keys -o json",
    "geo table data.jsonl --lanes 4 --time ts -o json",
    "shards keys list --registry keys.sqlite -o csv",
    "shards plan --layout layout.json --cap 60",
    "migrate plan c.yaml c16.yaml",
    "assign --lanes 7 --members A,B,C --rolling -o json",
    "aggregate queries list --queries queries.sqlite",
    "route c.yaml --from data.csv --to lanes --dry-run -o json",
)
SCRIPT = """
import json, sys
from pathlib import Path
from tests.worlds import face
print(json.dumps([face.run(line.split(), folder=Path(sys.argv[1])).out for line in json.loads(sys.argv[2])]))
"""
#: Another clock, another locale, another order of sets.
PLACES: dict[str, dict[str, str]] = {
    "here": {"TZ": "UTC", "PYTHONHASHSEED": "1"},
    "far": {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "77", "COLUMNS": "31"},
}


def anywhere(trip: Trip) -> Iterator[str]:
    """The same bytes with another clock, locale and hash seed."""
    found = {}
    for name, environ in PLACES.items():
        words = [sys.executable, "-c", SCRIPT, str(trip.folder), json.dumps(ANYWHERE)]
        given = {**os.environ, **environ, "KEYLANE_MASKS": str(trip.folder / "masks")}
        done = subprocess.run(words, capture_output=True, env=given, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.decode()[-500:]
        found[name] = json.loads(done.stdout)
    for line, here, far in zip(ANYWHERE, found["here"], found["far"], strict=True):
        assert here, line
        yield from trip.compared(f"anywhere: {line}", here, far)


TRIPS: dict[str, Callable[[Trip], Iterator[str]]] = {
    "hash keys": hash_keys,
    "queries": queries,
    "saved profile": saved_profile,
    "plan and contract": plan_and_contract,
    "layouts": layouts,
    "assignments": assignments,
    "lane tables": lane_tables,
    "formats": formats,
    "anywhere": anywhere,
}
