"""Every command with small files to work on: what is run on a pseudo-terminal, to its end and interrupted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import yaml
from pyarrow import parquet

from keylane import add_queries
from keylane.keyspace.layout import layout_to_json, new_layout

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 200_000


@dataclass(frozen=True)
class Call:
    """A command line in a folder of its own; `{out}` is where it may write. `spark`: it starts Java.

    `{kafka}` are brokers, which run in the folder `{dir}`, and `{stream}` is a stream of four shards of its own.
    """

    words: str
    codes: tuple[int, ...] = (0,)
    spark: bool = False
    broker: bool = False
    #: It goes on until it is interrupted, and then ends in order.
    follows: bool = False
    #: Its result takes a while to print, and may be cut off.
    is_long: bool = False
    #: A command that has to be done before it, with any code.
    first: str = ""

    @property
    def needs(self) -> set[str]:
        """What it needs that takes long to make: names of fixtures."""
        both = self.words + self.first
        return {name for name, signs in NEEDS.items() if any(one in both for one in signs)}


NEEDS = {"kafka": ("{kafka}", "{dir}"), "kinesalite": ("{stream}",), "routed": ("{f}/lanes",)}
KEYS = "--registry {out}/r.sqlite"


CALLS = {
    "explain": Call("explain TT0124 -n 15"),
    "explain -c": Call("explain k7 -c {f}/c.yaml"),
    "identify": Call("identify {f}/data.parquet -k k -l lane"),
    "init": Call("init {f}/data.parquet -k k -l lane --out {out}/c.yaml", codes=(0, 4)),
    "check": Call("check {f}/c.yaml --data {f}/data.parquet", codes=(0, 4)),
    "profile": Call("profile {f}/data.parquet -k k --out {out}/p.profile --report {out}/p.html"),
    "plan": Call("plan {f}/data.parquet -k k -n 8 --write {out}/c.yaml --out {out}/p.json", codes=(0, 3, 4)),
    "geo table": Call("geo table {f}/pings.parquet -n 6 --write {out}/c.yaml --report {out}/p.html"),
    "apply": Call(
        "apply {out}/p.json --yes",
        first="plan {f}/data.parquet -k k -n 16 --out {out}/p.json --write {out}/c.yaml",
    ),
    "apply nothing": Call("apply {out}/none.json", codes=(1, 2)),
    "compact": Call("compact {f}/lanes"),
    "verify": Call("verify --source {f}/day --target {f}/lanes -c {f}/c.yaml", codes=(0, 4)),
    "shards keys add": Call(f"shards keys add acme {KEYS}"),
    "shards keys import": Call(f"shards keys import {{f}}/accounts.csv {KEYS}"),
    "shards keys list": Call(
        f"shards keys list {KEYS}", first=f"shards keys import {{f}}/accounts.csv {KEYS}", is_long=True
    ),
    "shards keys remove": Call(f"shards keys remove a7 {KEYS}", first=f"shards keys import {{f}}/accounts.csv {KEYS}"),
    "shards keys redistribute": Call(
        f"shards keys redistribute {KEYS}", first=f"shards keys import {{f}}/accounts.csv {KEYS}", is_long=True
    ),
    "shards apply": Call(
        "shards apply {out}/p.json --yes",
        first="shards plan --layout {stream} --to {f}/wanted.json --out {out}/p.json",
    ),
    "migrate plan": Call("migrate plan {f}/c.yaml {f}/c.yaml"),
    **{
        f"migrate {verb} nothing": Call(f"migrate {verb} {{out}}/none.json", codes=(1, 2))
        for verb in ("run", "status", "verify", "rollback")
    },
    "aggregate queries": Call("aggregate queries add {f}/queries.json --queries {out}/q.sqlite"),
    "aggregate queries list": Call("aggregate queries list --queries {f}/q.sqlite"),
    **{
        f"aggregate queries {verb}": Call(
            f"aggregate queries {verb} q --queries {{out}}/q.sqlite",
            first="aggregate queries add {f}/queries.json --queries {out}/q.sqlite",
        )
        for verb in ("pause", "resume", "remove")
    },
    "aggregate verify nothing": Call("aggregate verify {out}/none", codes=(1, 2)),
    "aggregate explain nothing": Call("aggregate explain {out}/none", codes=(1, 2)),
    "aggregate": Call("aggregate --from {f}/day --to {out}/results --queries {f}/q.sqlite", spark=True),
    "shards plan": Call("shards plan --layout {f}/layout.json --cap 60 --report {out}/p.html", codes=(3,)),
    "assign": Call("assign --lanes 12,12 --members A,B,C --rolling --report {out}/p.html"),
    "doctor": Call("doctor", codes=(0, 1)),
    "dev status": Call("dev kafka status --dir {out}/none", codes=(1,)),
    "completion": Call("completion bash"),
    "help": Call("help explain"),
    "route": Call("route {f}/c.yaml --from {f}/day --to {out}/lanes", spark=True),
    "route --follow": Call("route {f}/c.yaml --from {f}/day --to {out}/lanes --follow", spark=True, follows=True),
    "profile on Spark": Call("profile {f}/data.parquet -k k --engine spark --out {out}/p.profile", spark=True),
    "match": Call(
        "match --drivers {f}/pings.parquet --riders {f}/riders.parquet --radius 500 --to {out}/m", spark=True
    ),
    "match --follow": Call(
        "match --drivers {f}/drivers --riders {f}/rider --radius 500 --to {out}/m --follow", spark=True, follows=True
    ),
    "demo": Call("demo --to {out}/demo --scale 0.01", spark=True),
    "demo fence": Call("demo fence --hours 0.5"),
    "demo shards": Call("demo shards"),
    "demo lesson": Call("demo lesson --to {out}/lesson", spark=True),
    "demo migrate": Call(
        "demo migrate --bootstrap kafka://{kafka} --seconds 2 --slow 1 --to {out}/growth", broker=True
    ),
    "dev jars": Call("dev jars --to {out}/jars"),
    "dev kafka up": Call("dev kafka up --dir {out}/kafka", broker=True),
    "dev kafka down": Call("dev kafka down --dir {out}/kafka", broker=True, first="dev kafka up --dir {out}/kafka"),
    "dev kafka env": Call("dev kafka env --dir {dir}"),
    "dev kafka load": Call("dev kafka load {f}/data.parquet -k k -t {name} --dir {dir}"),
    "brokers": Call("brokers kafka://{kafka}", codes=(0, 3, 4), broker=True),
    "find": Call("find k7 --from kafka://{kafka}/t", broker=True, codes=(0, 4)),
    "identify a topic": Call("identify kafka://{kafka}/t", broker=True),
    "profile a topic": Call("profile kafka://{kafka}/t --out {out}/p.profile --report {out}/p.html", broker=True),
    "init a topic": Call("init kafka://{kafka}/t --out {out}/c.yaml", broker=True),
    "assign a group": Call("assign kafka://{kafka} --group none", broker=True, codes=(2,)),
    "route a topic": Call(
        "route {f}/c.yaml --from kafka://{kafka}/t --to {out}/lanes --value json", spark=True, broker=True
    ),
    "no broker": Call("identify kafka://127.0.0.1:1/t", codes=(1,)),
}


def files(folder: Path) -> None:
    """Data of two hundred thousand rows, a contract, a day of files, pings and riders."""
    keys = [f"k{n * n % 5_000}" for n in range(ROWS)]
    parquet.write_table(pa.table({"k": keys, "lane": [n % 8 for n in range(ROWS)]}), folder / "data.parquet")
    spec = {"streams": ["t"], "lanes": 8, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
    contract = {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": {"name": "t"}, "spec": spec}
    (folder / "c.yaml").write_text(yaml.safe_dump(contract))
    for name in ("day", "drivers", "rider"):
        (folder / name).mkdir()
    for part in range(4):
        parquet.write_table(pa.table({"k": keys[part::40], "v": keys[part::40]}), folder / "day" / f"{part}.parquet")
    pings = {
        "id": [f"d{n % 500}" for n in range(20_000)],
        "ts": [1_700_000_000_000 + n * 50 for n in range(20_000)],
        "lat": [40.7 + (n * 7 % 900) / 10_000 for n in range(20_000)],
        "lng": [-74.0 + (n * 13 % 900) / 10_000 for n in range(20_000)],
    }
    ends = [(0, 2**127 - 1, 90), (2**127, 2**128 - 1, 10)]
    shards = [{"id": f"s{n}", "start": str(one[0]), "end": str(one[1]), "load": one[2]} for n, one in enumerate(ends)]
    query = {"id": "q", "filter": "k = 'k1'", "aggregates": {"n": "count(*)"}, "window": "1 minute", "time": "v"}
    (folder / "queries.json").write_text(json.dumps(query))
    add_queries(folder / "q.sqlite", query)
    (folder / "layout.json").write_text(json.dumps({"shards": shards}))
    (folder / "wanted.json").write_text(json.dumps(layout_to_json(new_layout(3))))
    accounts = "".join(f"a{n},{n * n % 977 + 1}\n" for n in range(20_000))
    (folder / "accounts.csv").write_text("account,weight\n" + accounts)
    table = pa.table(pings)
    for place in ("pings.parquet", "drivers/0.parquet"):
        parquet.write_table(table, folder / place)
    for place in ("riders.parquet", "rider/0.parquet"):
        parquet.write_table(table.slice(10_000, 500), folder / place)


def damaged(out: Path) -> list[str]:
    """Files that are there in part: under the name of one that is being written, or not what their ending says."""
    return [str(path.relative_to(out)) for path in sorted(out.rglob("*")) if path.is_file() and _is_damaged(path)]


def _is_damaged(path: Path) -> bool:
    if path.suffix in {".html", ".json", ".yaml"} and not path.stat().st_size:
        return True
    if path.suffix == ".html":
        return "</html>" not in path.read_text()
    if path.suffix == ".json" and path.parent.name != "_manifests":
        try:
            json.loads(path.read_text())
        except ValueError:
            return True
    return path.name.startswith(".") and path.name.endswith(".new")
