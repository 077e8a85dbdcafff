"""Command lines on the files of `inputs`: what each command takes in each of its modes, and values that it must not.

A `Mode` is a command line that ends well, with the options that have an effect there. Every other option that the
command declares has none, and is to be refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DIGITS = "9" * 25
#: Kind of value -> values that are never taken.
WRONG: dict[str, tuple[str, ...]] = {
    "count": ("", "-1", "0", "1e400", "²", "NaN", "=1+1", "1.5", "kafka://"),
    "from 0": ("", "-1", "1e400", "²", "NaN", "=1+1", "1.5"),
    "above 0": ("", "-1", "0", "1e400", "²", "NaN", "=1+1", "-inf"),
    "from 0.": ("", "-1", "1e400", "²", "NaN", "=1+1"),
    "share": ("", "-1", "1e400", "²", "NaN", "=1+1", "7"),
    "at least 1": ("", "-1", "0", "1e400", "²", "NaN", "=1+1"),
    "counts": ("", "-1", "0", "1e400", "²", "NaN", "8..", "16..8", "=1+1"),
    "length": ("", "-1", "0", "0s", "10", "1e400", "²s", "NaN", "1.5h"),
    "size": ("", "-1", "0", "1e400", "²", "NaN", "=1+1", "5 bananas"),
    "time": ("", "-1", "²", "yesterday", "2026-13-01", "=1+1"),
    "column": ("", "nope", "²", "=1+1"),
    "choice": ("", "nope", "²", "-1"),
    "setting": ("", "x"),
    "address": ("", "kafka://", "http://x/y", "kafka://host/t", "kinesis://x"),
    "file": ("", "none/at/all", "folder/none.json"),
    "target": ("", ".", "none/new", "data.csv", "c.yaml/new"),
    "folder": ("",),
    "made": ("",),
    "profile": ("", ".", "data.csv", "c.yaml/new"),
    "query": ("", "nope", "²"),
    "text": (),
    "flag": (),
    "character": ("", ";;", "\n", "²"),
    "place": ("", "lat", "lat,", "lat,nope", "lat,lat"),
}
#: Values at the border: taken or refused, but never a fault of keylane's own.
ODD: dict[str, tuple[str, ...]] = {
    "count": (DIGITS, "\udcff", "٣"),
    "above 0": ("1e-300", "1e308", "inf", DIGITS),
    "length": ("9" * 9 + "d", "1ms"),
    "size": ("9" * 12 + "T", DIGITS),
    "text": ("", "=1+1", "\udcff", DIGITS, "\x1b[31m"),
    "column": ("\udcff", "\x1b[31m"),
    "file": ("\udcff", "\x1b[31m", "kafka://"),
    "target": ("\udcff", "a" * 300),
    "time": ("0001-01-01", "9999-12-31T23:59:59-23:59", "9" * 13),
    "query": ("\udcff",),
}


@dataclass(frozen=True)
class Mode:
    """A command line that ends well; `takes`: option -> (kind of value, a right value), of those that are not in it.

    `given` are the options in it, `arguments` what stands before them, each with its kind.
    """

    command: str
    name: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    given: dict[str, tuple[str, str]] = field(default_factory=dict)
    takes: dict[str, tuple[str, str]] = field(default_factory=dict)
    codes: tuple[int, ...] = (0,)
    #: Options that are neither taken nor refused here: what they do is of another mode.
    skip: frozenset[str] = frozenset()
    #: The files that carry no rows of their own to compare, such as `--explain`.
    forms: bool = True

    @property
    def key(self) -> str:
        return f"{self.command} {self.name}".strip()

    def words(self, **changed: str) -> list[str]:
        """The command line, with other values for some options or arguments (by their place: `_0`)."""
        words = [*self.command.split(), *(changed.get(f"_{n}", value) for n, (value, _) in enumerate(self.arguments))]
        for option, (kind, value) in self.given.items():
            words += [option] if kind == "flag" else [option, changed.get(option, value)]
        return words


CSV = {"--csv-null": ("text", "NULL"), "--delimiter": ("character", ",")}
SPARK = frozenset({"--master", "--conf", "--engine", "--approximate"})
READS_FILE = {"--lane": ("column", "lane"), "--time": ("column", "ts")}
COUNTED = {
    **READS_FILE,
    "--bytes": ("column", "amount"),
    "--windows": ("count", "6"),
    "--show-keys": ("flag", ""),
    "--encoding": ("choice", "utf8"),
    "--format": ("choice", "parquet"),
}
PLANNED = {
    "--lanes": ("counts", "8..16"),
    "--keep-order": ("choice", "none"),
    "--max-over-mean": ("at least 1", "3"),
    "--sub-key": ("text", "sub"),
    "--write": ("target", "new.yaml"),
    "--out": ("target", "new.json"),
    "--report": ("target", "new.html"),
    "--explain": ("flag", ""),
    "--with": ("file", "other.yaml"),
    "--readers": ("count", "3"),
}
CHANGED = {
    "--remove": ("query", "A"),
    "--add": ("text", "C"),
    "--bounce": ("query", "B"),
    "--rolling": ("flag", ""),
    "--assignor": ("choice", "sticky"),
    "--loads": ("file", "loads.json"),
    "--map": ("target", "new.json"),
    "--report": ("target", "new.html"),
}
K = {"--key": ("column", "k")}
REGISTRY = {"--registry": ("file", "keys.sqlite")}
QUERIES = {"--queries": ("file", "queries.sqlite")}


def file(name: str) -> tuple[str, str]:
    return name, "file"


MODES: tuple[Mode, ...] = (
    Mode(
        "explain",
        "by client",
        (("k1", "text"),),
        {"--lanes": ("count", "8")},
        {
            "--encoding": ("choice", "utf8"),
            "--all": ("flag", ""),
            "--like": ("choice", "sarama-hash"),
            "--keys-from": ("file", "keys.txt"),
        },
        skip=frozenset({"--null", "--contract"}),
    ),
    Mode(
        "explain",
        "by contract",
        (("k1", "text"),),
        {"--contract": ("file", "c.yaml")},
        {
            "--encoding": ("choice", "utf8"),
            "--all": ("flag", ""),
            "--like": ("choice", "sarama-hash"),
            "--lanes": ("count", "8"),
            "--position": ("from 0", "3"),
            "--keys-from": ("file", "keys.txt"),
        },
        skip=frozenset({"--null", "--field", "--layout"}),
    ),
    Mode(
        "explain",
        "shards",
        (("a1", "text"),),
        {"--contract": ("file", "shards.yaml")},
        {"--all": ("flag", ""), "--like": ("choice", "sarama-hash"), "--layout": ("file", "layout.json")},
        skip=frozenset({"--null", "--field", "--encoding", "--lanes", "--position", "--keys-from"}),
    ),
    *(
        Mode(
            "identify",
            name,
            ((data, "file"),),
            K,
            {
                **READS_FILE,
                "--lanes": ("count", "8"),
                "--show-keys": ("flag", ""),
                "--write": ("target", "new.yaml"),
                **(CSV if name == "CSV" else {}),
            },
        )
        for name, data in (("Parquet", "data.parquet"), ("CSV", "data.csv"), ("JSON", "data.jsonl"), ("", "folder"))
    ),
    Mode(
        "init",
        "",
        (file("data.parquet"),),
        {**K, "--write": ("target", "new.yaml")},
        {**READS_FILE, "--lanes": ("count", "8"), "--partitioner": ("choice", "kafka-java")},
    ),
    Mode("check", "a contract", (file("c.yaml"),), skip=frozenset({"--data"})),
    Mode(
        "check",
        "contracts",
        (file("c.yaml"), file("other.yaml")),
        takes={"--show-keys": ("flag", "")},
        codes=(0, 4),
    ),
    *(
        Mode(
            "check",
            f"data, {data}",
            (file("c.yaml"),),
            {"--data": ("file", data)},
            {
                "--lane": ("column", "lane"),
                "--lanes": ("count", "8"),
                "--show-keys": ("flag", ""),
                **(CSV if "csv" in data else {}),
            },
        )
        for data in ("data.parquet", "data.csv")
    ),
    Mode(
        "check",
        "data sets",
        (file("data.parquet"), file("folder")),
        K,
        {"--lane": ("column", "lane"), "--lanes": ("count", "8"), "--show-keys": ("flag", "")},
    ),
    *(
        Mode(
            "profile",
            data,
            (file(data),),
            K,
            {
                **COUNTED,
                "--format": ("choice", data.removeprefix("data.")),
                "--out": ("profile", "new.profile"),
                "--report": ("target", "new.html"),
                **(CSV if "csv" in data else {}),
            },
            skip=SPARK | {"--contract", "--place"},
        )
        for data in ("data.parquet", "data.csv")
    ),
    Mode(
        "profile",
        "by place",
        (file("data.parquet"),),
        {"--place": ("place", "lat,lng")},
        {"--scale": ("above 0", "1"), "--time": ("column", "ts")},
        skip=SPARK | {"--contract", "--key", *COUNTED, "--out", "--report", "--encoding"},
    ),
    Mode(
        "profile",
        "saved",
        (file("day.profile"),),
        takes={"--show-keys": ("flag", ""), "--report": ("target", "new.html")},
        skip=frozenset({"--contract"}),
    ),
    Mode(
        "plan",
        "of a file",
        (file("data.parquet"),),
        {**K, "--contract": ("file", "c.yaml")},
        {"--time": ("column", "ts"), "--windows": ("count", "6"), **PLANNED},
        codes=(0, 3, 4),
        skip=SPARK
        | frozenset(
            {"--lane", "--bytes", "--show-keys", "--encoding", "--format", "--place", "--growth", "--headroom"}
            | {"--lane-mb-s", "--lane-records-s", "--reader-mb-s", "--reader-records-s", "--service", "--brokers"}
        ),
    ),
    Mode(
        "plan",
        "of a profile",
        (file("day.profile"),),
        {"--lanes": ("counts", "8")},
        {
            **{name: value for name, value in PLANNED.items() if name not in ("--lanes", "--sub-key")},
            "--contract": ("file", "c.yaml"),
            "--show-keys": ("flag", ""),
        },
        codes=(0, 3, 4),
        skip=frozenset(
            {"--growth", "--headroom", "--lane-mb-s", "--lane-records-s", "--reader-mb-s", "--reader-records-s"}
            | {"--service", "--brokers", "--sub-key"}
        ),
    ),
    Mode("apply", "dry", (file("plan.json"),), codes=(0, 3), takes={"--yes": ("flag", "")}),
    Mode(
        "geo table",
        "",
        (file("data.parquet"),),
        {"--lanes": ("count", "4")},
        {
            "--lat": ("column", "lat"),
            "--lng": ("column", "lng"),
            "--place": ("place", "lat,lng"),
            "--scale": ("above 0", "1"),
            "--time": ("column", "ts"),
            "--tau": ("above 0", "0.4"),
            "--strategy": ("choice", "hours"),
            "--name": ("text", "places"),
            "--stream": ("text", "pings"),
            "--radius": ("above 0", "500"),
            "--format": ("choice", "parquet"),
            "--write": ("target", "new.yaml"),
            "--report": ("target", "new.html"),
        },
        skip=SPARK | {"--contract", "--sticky"},
    ),
    Mode(
        "shards plan",
        "--cap",
        given={"--layout": ("file", "layout.json"), "--cap": ("above 0", "60")},
        takes={
            "--shards": ("count", "8"),
            "--load": ("file", "loads.csv"),
            "--registry": ("file", "keys.sqlite"),
            "--write": ("target", "new.json"),
            "--out": ("target", "new.json"),
            "--report": ("target", "new.html"),
        },
        codes=(0, 3, 4),
        skip=frozenset({"--profile", "--measure", "--to"}),
    ),
    Mode(
        "shards plan",
        "--to",
        given={"--layout": ("file", "layout.json"), "--to": ("file", "wanted.json")},
        takes={
            "--tolerance": ("from 0", "5"),
            "--write": ("target", "new.json"),
            "--out": ("target", "new.json"),
            "--report": ("target", "new.html"),
        },
        codes=(0, 3, 4),
        skip=frozenset({"--profile", "--measure", "--cap", "--load", "--registry"}),
    ),
    Mode(
        "shards keys add",
        "",
        (("new", "text"),),
        {"--registry": ("made", "keys.sqlite")},
        {"--weight": ("above 0", "2"), "--sequence": ("choice", "golden"), "--explain": ("flag", "")},
    ),
    Mode("shards keys list", "", given=REGISTRY),
    Mode("shards keys remove", "", (("a3", "query"),), REGISTRY),
    Mode("shards keys import", "", (file("accounts.csv"),), {"--registry": ("made", "keys.sqlite")}),
    Mode(
        "shards keys redistribute",
        "",
        given=REGISTRY,
        takes={"--sequence": ("choice", "golden"), "--dry-run": ("flag", "")},
    ),
    Mode(
        "assign",
        "numbers",
        given={"--lanes": ("counts", "6"), "--members": ("text", "A,B")},
        takes={**CHANGED, "--reads": ("setting", "A=topic-0"), "--rack": ("setting", "A=r1")},
        skip=frozenset({"--previous"}),
    ),
    Mode(
        "assign",
        "a file",
        (file("group.json"),),
        takes={**{k: v for k, v in CHANGED.items() if k != "--loads"}},
        skip=frozenset({"--previous", "--lanes", "--members", "--loads"}),
    ),
    Mode(
        "assign",
        "a restart",
        given={"--lanes": ("counts", "6"), "--members": ("text", "A,B"), "--rolling": ("flag", "")},
        takes={
            "--state": ("size", "2GB"),
            "--round": ("length", "2s"),
            "--restart": ("length", "20s"),
            "--static-members": ("flag", ""),
            "--previous": ("file", "previous.json"),
        },
        skip=frozenset({*CHANGED, "--reads", "--rack"}),
    ),
    Mode(
        "assign",
        "state",
        given={
            "--lanes": ("counts", "6"),
            "--members": ("text", "A,B"),
            "--bounce": ("query", "A"),
            "--state": ("size", "2GB"),
        },
        takes={"--restore-rate": ("size", "9MB")},
        skip=frozenset({*CHANGED, "--reads", "--rack", "--previous", "--round", "--restart", "--static-members"}),
    ),
    Mode(
        "migrate plan",
        "",
        (file("c.yaml"), file("c16.yaml")),
        takes={
            "--mode": ("choice", "in-place"),
            "--producer": ("text", "p"),
            "--group": ("text", "g"),
            "--old-lanes": ("count", "8"),
            "--new-lanes": ("count", "16"),
            "--out": ("target", "new.json"),
            "--report": ("target", "new.html"),
        },
        codes=(0, 3),
        skip=frozenset({"--no-gate", "--dual-write", "--from", "--to"}),
    ),
    Mode(
        "route",
        "dry",
        (file("c.yaml"),),
        {"--from": ("file", "data.parquet"), "--to": ("folder", "lanes"), "--dry-run": ("flag", "")},
        {"--format": ("choice", "parquet"), "--stream": ("query", "t"), "--max-files": ("count", "5")},
        skip=frozenset({"--master", "--conf", "--follow", "--after"}),
    ),
    Mode(
        "route",
        "dry, CSV, live",
        (file("live.yaml"),),
        {
            "--from": ("file", "data.csv"),
            "--to": ("folder", "lanes"),
            "--dry-run": ("flag", ""),
            "--lanes": ("count", "8"),
        },
        {**CSV, "--schema": ("text", "k string"), "--format": ("choice", "csv")},
        skip=frozenset({"--master", "--conf", "--follow", "--after", "--stream", "--max-files"}),
    ),
    Mode(
        "aggregate queries add",
        "",
        (file("queries.json"),),
        {"--queries": ("made", "queries.sqlite")},
    ),
    Mode("aggregate queries list", "", given=QUERIES, takes={"--all": ("flag", "")}),
    *(Mode(f"aggregate queries {what}", "", (("q", "query"),), QUERIES) for what in ("pause", "resume", "remove")),
    Mode(
        "demo fence",
        "",
        given={"--hours": ("above 0", "0.2")},
        takes={
            "--seed": ("from 0", "3"),
            "--lease": ("above 0", "9"),
            "--pause": ("above 0", "40"),
            "--drift": ("from 0.", "0.1"),
        },
    ),
    Mode(
        "demo shards",
        "",
        given={"--accounts": ("count", "300"), "--shards": ("count", "4")},
        takes={"--skew": ("from 0.", "0.5"), "--seed": ("from 0", "3"), "--report": ("target", "new.html")},
    ),
    Mode("dev kafka status", "", given={"--dir": ("folder", "kafka")}, codes=(1,)),
    Mode("dev kafka down", "", given={"--dir": ("folder", "kafka")}),
    Mode("completion", "", (("bash", "choice"),), forms=False),
    Mode("help", "", (("explain", "query"),), forms=False),
)

#: Commands that need Spark, a broker or a stream to end well: they are tried as far as their refusals go.
REFUSED: tuple[Mode, ...] = (
    Mode(
        "apply",
        "nothing",
        (file("none.json"),),
        codes=(1,),
        skip=frozenset({"--yes", "--streams", "--kafka", "--kafka-file"}),
    ),
    Mode("compact", "", (("none", "folder"),), codes=(1, 2)),
    Mode(
        "verify",
        "",
        given={"--source": ("file", "data.parquet"), "--target": ("folder", "folder")},
        codes=(1, 2),
        skip=frozenset({"--contract", "--mode", "--engine", "--keep", "--values", "--show-keys"}),
    ),
    Mode(
        "shards apply",
        "",
        (file("shards.json"),),
        codes=(1, 2),
        skip=frozenset({"--yes", "--stream", "--record", "--patience"}),
    ),
    *(
        Mode(
            f"migrate {verb}",
            "",
            (file("migration.json"),),
            codes=(1, 2),
            skip=frozenset({"--journal", "--lease", "--patience", "--producers-stopped", "--allow-dead-letters"})
            | frozenset({"--around", "--out", "--report", "--kafka", "--kafka-file", "--csv-null", "--delimiter"})
            | frozenset({"--value", "--value-schema", "--message", "--spark-jars", "--spark-packages"}),
        )
        for verb in ("run", "status", "verify", "rollback")
    ),
    Mode(
        "match",
        "a batch",
        given={
            "--drivers": ("file", "data.parquet"),
            "--riders": ("file", "data.parquet"),
            "--to": ("folder", "m"),
            "--radius": ("above 0", "500"),
            "--contract": ("file", "c.yaml"),
        },
        codes=(),
        skip=frozenset(
            {"--from", "--nearest", "--expire", "--lanes", "--assign", "--id", "--time-column", "--lat", "--lng"}
            | {f"--{side}-{what}" for side in ("driver", "rider") for what in ("id", "time", "lat", "lng", "scale")}
            | {"--scale", "--available", "--format", "--master", "--conf", "--follow", "--verify"}
            | {"--report", "--driver-scale", "--rider-scale"}
        ),
    ),
    Mode(
        "aggregate",
        "a batch",
        given={
            "--from": ("file", "data.parquet"),
            "--to": ("folder", "results"),
            "--queries": ("file", "queries.sqlite"),
        },
        codes=(),
        skip=frozenset(
            {"--follow", "--by", "--lanes", "--no-partial", "--ahead", "--state", "--max-files"}
            | {"--format", "--master", "--conf"}
        ),
    ),
    Mode(
        "find",
        "",
        (("k1", "text"),),
        {"--from": ("address", "kafka://127.0.0.1:1/t")},
        codes=(),
        skip=frozenset(
            {"--contract", "--encoding", "--all-lanes", "--last", "--since", "--until", "--max-records", "--partitions"}
            | {"--count", "--partitioner", "--kafka", "--kafka-file", "--value"}
        ),
    ),
    Mode("aggregate verify", "", (("none", "folder"),), codes=(1, 2), skip=frozenset({"--state"})),
    Mode("aggregate explain", "", (("none", "folder"),), codes=(1, 2), skip=frozenset({"--lanes", "--report"})),
    Mode("dev kafka env", "", given={"--dir": ("folder", "kafka")}, codes=(1,)),
    Mode(
        "dev kafka load",
        "",
        (file("data.csv"),),
        {**K, "--dir": ("folder", "kafka")},
        codes=(1,),
        skip=frozenset({"--topic", "--partitions", "--time", "--csv-null", "--delimiter"}),
    ),
    Mode(
        "brokers",
        "",
        (("kafka://127.0.0.1:1", "address"),),
        codes=(1,),
        skip=frozenset(
            {"--topic", "--limit", "--throttle", "--out", "--plan", "--apply", "--status", "--kafka", "--kafka-file"}
        ),
    ),
)
#: Commands that start what takes long, and are tried by `tests/terminal` instead.
ELSEWHERE = frozenset({"demo", "demo lesson", "demo migrate", "dev jars", "dev kafka up", "doctor"})
#: Options of every command that say how a result is shown.
SHOWN = frozenset({"--output", "--quiet", "--color", "--help"})
#: A value for an option that a mode does not take, by its name; any other gets `x`.
IDLE: dict[str, str] = {
    "--last": "1h",
    "--since": "2026-11-16",
    "--until": "2026-11-16",
    "--max-records": "5",
    "--partitions": "0",
    "--for": "10s",
    "--kafka": "client.id=x",
    "--kafka-file": "kafka.properties",
    "--value": "json",
    "--value-schema": "c.yaml",
    "--lanes": "8",
    "--windows": "6",
    "--today-lanes": "8",
    "--radius": "500",
    "--copies": "2",
    "--most-moved": "0.1",
    "--most": "5",
    "--tau": "0.4",
    "--shards": "8",
    "--tolerance": "5",
    "--unit": "bytes",
    "--limit": "10",
    "--throttle": "5MB",
    "--state": "x",
    "--round": "2s",
    "--restart": "2s",
    "--restore-rate": "5MB",
    "--start": "latest",
    "--delivery": "at-least-once",
    "--writers": "2",
    "--on-poison": "stop",
    "--on-growth": "keep",
    "--retry-for": "5s",
    "--scale": "1",
    "--window": "5",
    "--offer-for": "5",
    "--late": "5",
    "--keep": "5",
    "--ahead": "5",
    "--max-files": "5",
    "--patience": "5s",
    "--csv-null": "NULL",
    "--delimiter": ",",
    "--format": "parquet",
    "--engine": "local",
    "--position": "3",
    "--field": "k=1",
    "--layout": "layout.json",
    "--data": "data.parquet",
    "--contract": "c.yaml",
    "--encoding": "utf8",
    "--to": "wanted.json",
    "--place": "lat,lng",
    "--readers": "2",
    "--brokers": "3",
    "--schema": "k string",
}
