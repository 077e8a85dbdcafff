"""Files that commands read, small and whole, and the same files damaged: absent, empty, cut, of another kind.

What only keylane can make (a saved profile, a saved plan, a registry) is made by the command lines in `PREPARED`.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml
from pyarrow import csv, parquet

if TYPE_CHECKING:
    from pathlib import Path

LANES, ROWS, KEYS = 8, 900, 500
#: 2026-11-16T08:00:00Z in milliseconds.
BEGIN = 1_794_816_000_000
SPACE = 2**128

#: Command lines that make the rest of the files, in this order.
PREPARED = (
    "profile data.parquet --key k --time ts --lane lane --out day.profile -q",
    "plan data.parquet --key k --lanes 4 --contract c.yaml --out plan.json -q",
    "shards keys import accounts.csv --registry keys.sqlite -q",
    "aggregate queries add queries.json --queries queries.sqlite -q",
    "migrate plan c.yaml c16.yaml --out migration.json -q",
    "shards plan --layout layout.json --cap 60 --out shards.json -q",
    "assign --lanes 6 --members A,B -o json",
)


def lane_of(key: str, lanes: int = LANES) -> int:
    """Where a client with CRC-32 puts a key: librdkafka's own default."""
    return zlib.crc32(key.encode()) % lanes


def contract(name: str = "t", **spec: Any) -> dict[str, Any]:
    """A contract of one text key over eight lanes, with other fields of `spec`."""
    usual = {"streams": [name], "lanes": LANES, "key": {"fields": ["k"]}, "partitioner": "librdkafka-consistent"}
    metadata = {"name": name, "epoch": spec.pop("epoch", 1)}
    return {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": {**usual, **spec}}


def table() -> pa.Table:
    """Records with a key, its lane, a time, an amount and a location."""
    keys = [f"k{n * n * 7 % KEYS}-{n % KEYS}" for n in range(ROWS)]
    return pa.table(
        {
            "k": keys,
            "lane": pa.array([lane_of(key) for key in keys], pa.int32()),
            "ts": pa.array([BEGIN + n * 40_000 for n in range(ROWS)], pa.timestamp("ms")),
            "amount": [n * 37 % 1000 for n in range(ROWS)],
            "sub": [f"s{n % 31}" for n in range(ROWS)],
            "lat": [40.7 + (n * 7 % 900) / 10_000 for n in range(ROWS)],
            "lng": [-74.0 + (n * 13 % 900) / 10_000 for n in range(ROWS)],
        }
    )


def write(folder: Path) -> None:
    """All files that need no keylane."""
    rows = table()
    parquet.write_table(rows, folder / "data.parquet")
    csv.write_csv(rows, folder / "data.csv")
    lines = [json.dumps({**row, "ts": row["ts"].isoformat() + "Z"}) for row in rows.to_pylist()]
    (folder / "data.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "folder").mkdir()
    parquet.write_table(rows, folder / "folder" / "part-0.parquet")
    contracts = {
        "c": contract(),
        "c16": contract(lanes=16, epoch=2),
        "live": contract(lanes="live"),
        "other": contract("other", partitioner="kafka-java"),
        "windowed": contract(key={"fields": ["k"], "window": {"field": "ts", "size": "1h"}}),
        "shards": contract(
            lanes=2, partitioner="kinesis-md5", shards={"layout": "layout.json", "hash_keys": "accounts.csv"}
        ),
    }
    for name, document in contracts.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(document))
    halves = [(0, SPACE // 2 - 1, 90.0), (SPACE // 2, SPACE - 1, 10.0)]
    shards = [{"id": f"s{n}", "start": str(a), "end": str(b), "load": load} for n, (a, b, load) in enumerate(halves)]
    (folder / "layout.json").write_text(json.dumps({"shards": shards}))
    quarters = [{"id": f"q{n}", "start": str(SPACE // 4 * n), "end": str(SPACE // 4 * (n + 1) - 1)} for n in range(4)]
    (folder / "wanted.json").write_text(json.dumps({"shards": quarters}))
    places = [SPACE // 16 * n + 5 for n in range(16)]
    (folder / "loads.csv").write_text(
        "hash_key,load\n" + "".join(f"{place},{n + 1}\n" for n, place in enumerate(places))
    )
    (folder / "accounts.csv").write_text("account,hash_key\n" + "".join(f"a{n},{p}\n" for n, p in enumerate(places)))
    query = {"id": "q", "filter": "amount > 3", "aggregates": {"n": "count(*)"}, "window": "1 minute", "time": "ts"}
    (folder / "queries.json").write_text(json.dumps([query, {**query, "id": "r", "group_by": ["k"]}]))
    (folder / "queries.yaml").write_text(yaml.safe_dump({"kind": "Deployment", "apiVersion": "apps/v1", "spec": {}}))
    (folder / "accounts.json").write_text(json.dumps({"accounts": ["a", "b"], "schema": "keylane.nothing/1"}))
    parquet.write_table(pa.table({"x": [1, 2, 3]}), folder / "x.parquet")
    group = {"topics": {"t": 6}, "members": [{"id": "A"}, {"id": "B", "rack": "r1"}]}
    (folder / "group.json").write_text(json.dumps(group))
    (folder / "loads.json").write_text(json.dumps({"topic-0": [1, 2, 3, 4, 5, 60]}))
    (folder / "previous.json").write_text(json.dumps({"A": [["topic-0", n] for n in range(6)], "B": []}))
    (folder / "keys.txt").write_text("a\nb\nc\n")
    (folder / "kafka.properties").write_text("client.id=x\n")


#: What may be wrong with a file, by name; None: the file is not there.
FAULTS: tuple[str, ...] = ("absent", "empty", "half", "folder", "bytes", "nul", "deep", "other", "kind")
#: By the ending: whole files that somebody may take for one another.
KINDS = {
    ".sqlite": ("keys.sqlite", "queries.sqlite"),
    ".json": ("queries.json", "accounts.json"),
    ".yaml": ("queries.yaml",),
    ".parquet": ("x.parquet",),
}


def damaged(file: Path, fault: str, to: Path) -> None:
    """A copy of a file with a fault, under the ending that it had."""
    whole = (file if file.is_file() else next(one for one in sorted(file.rglob("*")) if one.is_file())).read_bytes()
    if fault == "kind":
        others = [file.with_name(name) for name in KINDS.get(file.suffix, ())]
        to.write_bytes(next((one.read_bytes() for one in others if one.read_bytes() != whole), b"x,y\n1,2\n"))
    elif fault == "folder":
        to.mkdir()
    elif fault != "absent":
        to.write_bytes(
            {
                "empty": b"",
                "half": whole[: len(whole) // 2],
                "bytes": bytes(range(256)) * 4,
                "nul": b"\0" * 300,
                "deep": b"[" * 100_000,
                "other": b"just a line of text, with: a colon\n",
            }[fault]
        )
