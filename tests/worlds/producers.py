"""Streams whose writers are known, from a seed: a grammar of partitioners, and what people do with them.

A writer is a product: hash x seed x fold x key bytes x lane count. Writers stand alone, are mixed by record or by key,
follow each other when a stream has grown; keys are skewed, few, null, empty, of every shape; and many hashes, folds and
key bytes are none that a search would try. Nothing here comes from keylane: what is claimed of these streams is judged
by `claims`.

    draw(seed)       a recipe: plain values, which can be made smaller and written as JSON
    made(recipe)     the case: keys, lanes and times of every record, and the truth about them
    shrunk(...)      the smallest recipe that still fails

A case as a file, with the truth printed:

    python -m tests.worlds.producers 17 --out case.parquet
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.worlds.folds import ENCODERS, FOLDS
from tests.worlds.hashes import BITS, hashed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Keys = Sequence[Any]

#: Hash and fold of the partitioners that keylane's contract knows by name; the names of one pair place alike.
LISTED: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("murmur2", "masked"): (
        "kafka-java",
        "librdkafka-murmur2",
        "librdkafka-murmur2-random",
        "kafkajs-2",
        "kafka-go-murmur2",
    ),
    ("crc32", "unsigned"): (
        "librdkafka-consistent-random",
        "librdkafka-consistent",
        "sarama-crc",
        "kafka-go-crc32",
    ),
    ("fnv1a", "absolute"): ("sarama-hash", "librdkafka-fnv1a", "librdkafka-fnv1a-random", "kafka-go-hash"),
    ("fnv1a", "masked"): ("sarama-reference", "kafka-go-reference"),
    ("kafkajs-legacy", "masked"): ("kafkajs-1",),
    ("murmur2-big-endian", "masked"): ("murmur2-big-endian",),
    ("java-string", "masked"): ("pulsar-java-string",),
    ("murmur3-32", "masked"): ("pulsar-murmur3",),
    ("spark-murmur3", "positive"): ("spark-hash",),
    ("spark-number", "positive"): ("spark-hash",),
    ("md5-128", "ranges"): ("kinesis-md5",),
    ("java-long", "absolute"): ("abs-long-hashcode",),
}
#: Hashes that take text alone, numbers of eight bytes alone, and numbers alone.
_TEXT_ONLY: Final = ("java-string", "murmur3-32", "md5-128", "spark-murmur3")
_LONG_ONLY: Final = ("java-long",)
_NUMBERS: Final = ("spark-number",)
_KNOWN_HASHES: Final = (
    "murmur2",
    "crc32",
    "fnv1a",
    "murmur2-big-endian",
    "java-string",
    "murmur3-32",
    "kafkajs-legacy",
)
_KNOWN_FOLDS: Final = ("masked", "unsigned", "absolute", "positive", "ranges")
_OTHER_HASHES: Final = (
    "murmur2-64",
    "fnv1",
    "fnv1a-64",
    "fnv1-64",
    "java-bytes",
    "djb2",
    "djb2a",
    "sdbm",
    "bkdr",
    "adler32",
    "crc32c",
    "crc16",
    "jenkins",
    "elf",
    "xxhash32",
    "xxhash64",
    "siphash",
    "siphash-1-3",
    "city-like",
    "fx",
    "md5-end",
    "md5-little",
    "sha1",
    # As one number of 128 bits, the way scripts do it.
    "md5-whole",
)
_NO_HASHES: Final = ("number", "sum", "first-byte", "last-byte")
_OTHER_FOLDS: Final = tuple(name for name in FOLDS if name not in _KNOWN_FOLDS)
_SEEDS: Final = (0, 1, 42, 1337, 0x12345678, 0x9747B28D)
#: Key bytes of each population: those that keylane's contract has, then others.
_BYTES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "text": (
        ("utf8",),
        (
            "json",
            "upper",
            "tenant",
            "suffix",
            "no-zeros",
            "utf16",
            "terminated",
            "avro",
            "registry",
            "msgpack",
            "base64",
            "last-four",
            "before-dash",
        ),
    ),
    "mixed-case": (("utf8",), ("lower", "upper", "quoted")),
    "int": (("utf8", "int32be", "int64be"), ("int32le", "int64le", "double", "json", "tenant", "registry")),
    "digits": (("utf8",), ("quoted", "no-zeros", "tenant", "last-four")),
    "uuid": (("utf8", "uuid"), ("uuid-le", "uuid-hex", "uuid-high", "upper", "quoted", "last-four", "before-dash")),
    "h3": (("utf8", "h3"), ("h3-le", "h3-decimal", "upper", "quoted", "last-four")),
    "binary": (("raw",), ("terminated", "suffix", "last-four", "avro")),
}
_POPULATIONS: Final[dict[str, str]] = {
    "padded": "text",
    "user": "text",
    "email": "text",
    "composite": "text",
    "words": "text",
    "unicode": "text",
    "url": "text",
    "ulid": "text",
    "mixed-case": "mixed-case",
    "sequence": "int",
    "spread-ints": "int",
    "negative-ints": "int",
    "digits": "digits",
    "padded-digits": "digits",
    "uuid": "uuid",
    "h3": "h3",
    "bytes": "binary",
}
_LANES: Final = (
    2,
    3,
    4,
    5,
    6,
    8,
    9,
    10,
    12,
    15,
    16,
    18,
    20,
    24,
    30,
    32,
    36,
    48,
    50,
    60,
    64,
    72,
    96,
    100,
    128,
    200,
    256,
    300,
    400,
)
FRESH: Final = 400
HOUR: Final = 3_600_000_000
BEGIN: Final = 1_780_000_000_000_000

#: Kinds of cases, and how often each is drawn.
KINDS: Final[dict[str, int]] = {
    "listed": 22,
    "parts": 12,
    "other hash": 8,
    "other fold": 6,
    "other bytes": 6,
    "no hash": 4,
    "keyless": 4,
    "mixed listed": 9,
    "mixed neighbours": 6,
    "mixed with another": 5,
    "three writers": 3,
    "listed and keyless": 4,
    "by key": 3,
    "grown": 5,
    "grown, another": 2,
    "switched": 2,
    "hot key pinned": 2,
    "hot key spread": 2,
}


@dataclass(frozen=True, slots=True)
class Writer:
    """One rule of placement: its parts. `seed` is None for the usual one of its hash."""

    hash: str
    fold: str
    encoding: str
    lanes: int
    seed: int | None = None

    def place(self, keys: Keys) -> NDArray[np.int64]:
        """The lane of each key; neither null nor empty keys are asked for."""
        encoded = [ENCODERS[self.encoding](key) for key in keys]
        if self.hash == "md5-whole":
            return np.array([int(hashlib.md5(one).hexdigest(), 16) % self.lanes for one in encoded], np.int64)
        return self.fold_of(hashed(self.hash, encoded, self.seed)).astype(np.int64)

    def fold_of(self, hashes: NDArray[np.uint64]) -> NDArray[Any]:
        """The lane of each hash."""
        return FOLDS[self.fold](hashes, BITS[self.hash], self.lanes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which keylane's contract has this rule: all of them place alike."""
        own = self.seed is None and self.encoding in {"utf8", "raw", "int32be", "int64be", "uuid", "h3"}
        return LISTED.get((self.hash, self.fold), ()) if own else ()

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" seed {self.seed:#x}"
        name = f" ({self.names[0]})" if self.names else ""
        return f"{self.hash}{seed} {self.fold} of {self.encoding} on {self.lanes} lanes{name}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a case is made of, as plain values: `made` is a function of it, `smaller` makes it simpler."""

    seed: int
    kind: str
    population: str
    distinct: int
    rows: int
    writers: tuple[Writer, ...]
    shares: tuple[float, ...]
    #: Who writes a record is decided by record, by its key, or by when it was written.
    mixed_by: str = "record"
    #: How often keys come: once, even, zipf, or hot (one key has a large part).
    skew: str = "even"
    #: What a writer without a rule does, and its share; lanes are those of the first writer.
    keyless: str = ""
    keyless_share: float = 0.0
    #: The hot key is pinned to a lane of its own, or spread over some.
    hot: str = ""
    null_share: float = 0.0
    empty_share: float = 0.0
    times: bool = False
    given: bool = False

    @property
    def lanes(self) -> int:
        """The lane count of the stream as it is now."""
        return max(writer.lanes for writer in self.writers)

    def as_json(self) -> str:
        """The recipe in one line."""
        usual = {one.name: one.default for one in fields(self)}
        return json.dumps({name: value for name, value in asdict(self).items() if value != usual[name]})

    @classmethod
    def of_json(cls, text: str) -> Recipe:
        """The recipe that such a line holds."""
        given = json.loads(text)
        given["writers"] = tuple(Writer(**one) for one in given["writers"])
        given["shares"] = tuple(given.get("shares", (1.0,)))
        return cls(**given)


@dataclass(frozen=True, eq=False)
class Case:
    """A stream, and the truth about it.

    `origin` is the number of the writer of each record; -1 where no rule placed it: null and empty keys, a writer
    without a rule, a hot key that is placed by itself. `fresh` are keys of the same population that are not in it.
    """

    recipe: Recipe
    keys: tuple[Any, ...]
    lanes: NDArray[np.int64]
    origin: NDArray[np.int64]
    times: NDArray[np.int64] | None
    fresh: tuple[Any, ...]
    given: int | None
    #: The records of the one key that is placed by itself.
    hot_key: Any = None

    @property
    def writers(self) -> tuple[Writer, ...]:
        """Those that placed records by a rule."""
        return self.recipe.writers

    @property
    def count(self) -> int:
        """The lane count of the stream as it is now."""
        return self.recipe.lanes

    @cached_property
    def keyed(self) -> NDArray[np.bool_]:
        """Which records have a key that is neither null nor empty."""
        return np.array([key is not None and key not in ("", b"") for key in self.keys], bool)

    @cached_property
    def distinct(self) -> tuple[Any, ...]:
        """The keys of the data, in the order in which they come first."""
        return tuple(dict.fromkeys(key for key, keyed in zip(self.keys, self.keyed, strict=True) if keyed))

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The number of each record's key in `distinct`; -1 for null and empty."""
        at = {key: code for code, key in enumerate(self.distinct)}
        return np.array([at[key] if keyed else -1 for key, keyed in zip(self.keys, self.keyed, strict=True)], np.int64)

    def share(self, writer: int) -> float:
        """The share of keyed records that this writer placed."""
        return float((self.origin[self.keyed] == writer).mean()) if self.keyed.any() else 0.0

    def expected(self, place: Callable[[Keys], NDArray[np.int64]]) -> NDArray[np.int64]:
        """The lane of each keyed record by another rule."""
        return place(self.distinct)[self.codes[self.keyed]]

    @property
    def future(self) -> Writer | None:
        """The one rule by which all keys are placed from now on; None where there is none.

        A hot key that is placed by itself is not asked for.
        """
        recipe = self.recipe
        if recipe.keyless or not recipe.writers or (len(recipe.writers) > 1 and recipe.mixed_by != "time"):
            return None
        return recipe.writers[-1]

    def truth(self, key: Any) -> int | None:
        """The lane of any key from now on; None where it is not decided by the key alone."""
        return int(self.future.place([key])[0]) if self.future else None

    def describe(self) -> str:
        """The case in one line."""
        return described(self.recipe, rows=len(self.keys), distinct=len(self.distinct))

    def table(self) -> pa.Table:
        """The records as columns `key`, `lane` and, with times, `time`."""
        kind = {"int": pa.int64(), "binary": pa.binary()}.get(_POPULATIONS[self.recipe.population], pa.string())
        columns = {"key": pa.array(self.keys, kind), "lane": pa.array(self.lanes.astype(np.int32))}
        if self.times is not None:
            columns["time"] = pa.array(self.times, pa.timestamp("us", "UTC"))
        return pa.table(columns)

    def write(self, path: str) -> str:
        """The records as a file of Parquet; the commands of keylane that look at it can be typed."""
        pq.write_table(self.table(), path)
        return path


def described(recipe: Recipe, *, rows: int | None = None, distinct: int | None = None) -> str:
    """What a recipe says, for people."""
    by = {"record": "", "key": " by key", "time": " one after the other"}[recipe.mixed_by]
    shares = [f"{share:.1%} " if len(recipe.shares) > 1 else "" for share in recipe.shares]
    who = " + ".join(share + str(writer) for share, writer in zip(shares, recipe.writers, strict=True))
    more = [f"{recipe.keyless_share:.0%} {recipe.keyless}"] if recipe.keyless else []
    more += [f"hot key {recipe.hot}"] if recipe.hot else []
    more += [f"{recipe.null_share:.0%} null"] if recipe.null_share else []
    more += [f"{recipe.empty_share:.0%} empty"] if recipe.empty_share else []
    more += ["lane count given"] if recipe.given else []
    more += ["with times"] if recipe.times else []
    size = f"{rows or recipe.rows:,} rows of {distinct or recipe.distinct:,} keys ({recipe.population}, {recipe.skew})"
    return f"{recipe.kind}, seed {recipe.seed}: {', '.join([who + by, *more])}; {size}"


def draw(seed: int, kind: str | None = None, **fixed: Any) -> Recipe:
    """A recipe from a seed; `kind` and other fields of it may be fixed."""
    rng = np.random.default_rng([seed, 30])
    names = list(KINDS)
    weights = np.array(list(KINDS.values()), float)
    drawn = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    return _Drawing(rng, seed, kind or drawn, fixed).recipe()


class _Drawing:
    """One recipe as it is drawn, part by part."""

    def __init__(self, rng: np.random.Generator, seed: int, kind: str, fixed: dict[str, Any]) -> None:
        self.rng, self.seed, self.kind, self.fixed = rng, seed, kind, fixed
        self.count: int = fixed.pop("lanes", 0) or (
            self.pick(_LANES) if rng.random() < 0.8 else int(rng.integers(2, 500))
        )
        self.population: str = fixed.pop("population", "") or self.pick(tuple(_POPULATIONS))
        if kind == "no hash" and "population" not in fixed:
            self.population = self.pick(("padded", "user", "sequence", "spread-ints", "digits", "padded-digits"))
        self.bytes, self.other_bytes = _BYTES[_POPULATIONS[self.population]]

    def pick(self, among: Sequence[Any]) -> Any:
        return among[int(self.rng.integers(len(among)))]

    def log_uniform(self, low: float, high: float) -> float:
        return exp(self.rng.uniform(log(low), log(high)))

    def recipe(self) -> Recipe:
        rng = self.rng
        writers, shares = self.writers()
        few = rng.random() < 0.25
        distinct = int(self.log_uniform(10, 400) if few else self.log_uniform(400, 6_000))
        skew = self.pick(("once", "even", "even", "zipf", "zipf", "hot"))
        rows = distinct if skew == "once" else int(min(20_000, distinct * self.log_uniform(1, 8)))
        keyless = {"keyless": 1.0, "listed and keyless": float(rng.uniform(0.05, 0.6))}.get(self.kind, 0.0)
        hot = {"hot key pinned": "pinned", "hot key spread": "spread"}.get(self.kind, "")
        in_turn = self.kind.startswith("grown") or self.kind == "switched"
        text = _POPULATIONS[self.population] not in {"int", "binary"}
        drawn = Recipe(
            seed=self.seed,
            kind=self.kind,
            population=self.population,
            distinct=distinct,
            rows=max(rows, distinct * 3) if hot else rows,
            writers=writers,
            shares=shares,
            mixed_by="time" if in_turn else "key" if self.kind == "by key" else "record",
            skew="hot" if hot else skew,
            keyless=self.pick(("random", "round-robin", "sticky")) if keyless else "",
            keyless_share=keyless,
            hot=hot,
            null_share=float(rng.uniform(0, 0.4)) if rng.random() < 0.2 else 0.0,
            empty_share=float(rng.uniform(0, 0.1)) if rng.random() < 0.1 and text else 0.0,
            times=bool(rng.random() < 0.5),
            given=bool(rng.random() < 0.4),
        )
        return replace(drawn, **self.fixed)

    def writers(self) -> tuple[tuple[Writer, ...], tuple[float, ...]]:
        single = {
            "listed": self.listed,
            "parts": self.parts,
            "other hash": self.other_hash,
            "other fold": self.other_fold,
            "other bytes": self.other_key_bytes,
            "no hash": self.no_hash,
        }
        if self.kind in single:
            return (single[self.kind](),), (1.0,)
        if self.kind in {"keyless", "listed and keyless", "hot key pinned", "hot key spread"}:
            return (self.listed(),), (1.0,)
        first = self.listed()
        if self.kind in {"grown", "grown, another"}:
            rule = first if self.kind == "grown" else self.another()
            before = max(2, int(self.count / self.pick((1.25, 1.5, 2, 2, 3, 4))))
            share = float(self.rng.uniform(0.05, 0.95))
            return (replace(rule, lanes=before), replace(rule, lanes=max(self.count, before + 1))), (share, 1 - share)
        if self.kind == "switched":
            share = float(self.rng.uniform(0.2, 0.8))
            return (first, _unlike(first, self.listed)), (share, 1 - share)
        second = {
            "mixed listed": self.listed,
            "by key": self.listed,
            "mixed neighbours": lambda: self.neighbour(first),
            "mixed with another": self.another,
            "three writers": self.listed,
        }[self.kind]
        writers = [first, _unlike(first, second)]
        small = self.log_uniform(0.01, 0.5)
        if self.kind == "three writers":
            writers.append(_unlike(writers[1], lambda: _unlike(first, self.listed)))
            third = self.log_uniform(0.02, 0.3)
            return tuple(writers), (1 - small * 0.6 - third, small * 0.6, third)
        return tuple(writers), (1 - small, small)

    def listed(self) -> Writer:
        encoding = self.pick(self.bytes)
        fit = [pair for pair in LISTED if _can_hash(pair[0], encoding)]
        # The clients of Kafka more often than the rest.
        common = [pair for pair in fit if pair[0] in {"murmur2", "crc32", "fnv1a"}]
        hash_, fold = self.pick(common if self.rng.random() < 0.6 else fit)
        return Writer(hash_, fold, encoding, self.count)

    def parts(self) -> Writer:
        """A hash and a fold of clients that no listed client puts together."""
        while True:
            encoding = self.pick(self.bytes)
            writer = Writer(self.pick(_KNOWN_HASHES), self.pick(_KNOWN_FOLDS), encoding, self.count)
            if not writer.names and _can_hash(writer.hash, encoding):
                return writer

    def another(self) -> Writer:
        """One of which some part is outside of what clients do."""
        return self.pick((self.other_hash, self.other_fold, self.other_key_bytes, self.parts))()

    def other_hash(self) -> Writer:
        if self.rng.random() < 0.2:
            hash_ = self.pick(("murmur2", "murmur3-32", "crc32", "fnv1a", "spark-murmur3"))
            return Writer(hash_, self.pick(_KNOWN_FOLDS), self.pick(self.bytes), self.count, self.pick(_SEEDS[1:]))
        hash_ = self.pick(_OTHER_HASHES)
        fold = "unsigned" if hash_ == "md5-whole" else self.pick(_KNOWN_FOLDS)
        return Writer(hash_, fold, self.pick(self.bytes), self.count)

    def other_fold(self) -> Writer:
        while True:
            encoding = self.pick(self.bytes)
            hash_ = self.pick((*_KNOWN_HASHES, "md5-128"))
            if _can_hash(hash_, encoding):
                return Writer(hash_, self.pick(_OTHER_FOLDS), encoding, self.count)

    def other_key_bytes(self) -> Writer:
        hash_, fold = self.pick([pair for pair in LISTED if pair[0] not in {*_LONG_ONLY, *_NUMBERS}])
        return Writer(hash_, fold, self.pick(self.other_bytes), self.count)

    def no_hash(self) -> Writer:
        return Writer(self.pick(_NO_HASHES), self.pick(("unsigned", "masked")), "utf8", self.count)

    def neighbour(self, first: Writer) -> Writer:
        """The same but for one part."""
        folds = [fold for fold in FOLDS if fold != first.fold]
        changes: list[dict[str, Any]] = [{"fold": self.pick(_KNOWN_FOLDS)}, {"fold": self.pick(folds)}]
        changes += [{"lanes": max(2, self.count - int(self.rng.integers(1, 4)))}] if self.count > 3 else []
        return replace(first, **self.pick(changes))


def _unlike(first: Writer, other: Callable[[], Writer]) -> Writer:
    """Another writer, which is not the same."""
    for _ in range(50):
        if (found := other()) != first:
            return found
    return replace(first, fold="unsigned" if first.fold != "unsigned" else "masked")


def _can_hash(hash_: str, encoding: str) -> bool:
    if hash_ in _LONG_ONLY:
        return encoding in {"int64be", "h3"}
    if hash_ in _NUMBERS:
        return encoding in {"int32be", "int64be", "h3"}
    return encoding == "utf8" if hash_ in _TEXT_ONLY else True


def made(recipe: Recipe) -> Case:
    """The case of a recipe: the same at every call, on every machine."""
    rng = np.random.default_rng([recipe.seed, 31])
    population = _population(rng, recipe.population, recipe.distinct + FRESH)
    keys, fresh = population[: recipe.distinct], population[recipe.distinct :]
    code = _coming(rng, recipe)
    origin = _origin(rng, recipe, code)
    lanes = np.zeros(recipe.rows, np.int64)
    for number, writer in enumerate(recipe.writers):
        lanes = np.where(origin == number, writer.place(keys)[code], lanes)
    lanes = np.where(origin < 0, _without_rule(rng, recipe), lanes)
    hot = None
    if recipe.hot:
        hot = keys[0]
        mine = code == 0
        own = recipe.writers[0].place([hot])[0] + 1
        width = 1 if recipe.hot == "pinned" else max(2, recipe.lanes // 4)
        lanes = np.where(mine, (own + rng.integers(0, width, recipe.rows)) % recipe.lanes, lanes)
        origin = np.where(mine, -1, origin)
    column: list[Any] = [keys[at] for at in code.tolist()]
    for share, value in ((recipe.null_share, None), (recipe.empty_share, "")):
        for at in np.flatnonzero(rng.random(recipe.rows) < share).tolist():
            column[at], origin[at] = value, -1
            lanes[at] = int(rng.integers(recipe.lanes))
    times = BEGIN + np.sort(rng.integers(0, 24 * HOUR, recipe.rows)) if recipe.times else None
    given = recipe.lanes if recipe.given else None
    return Case(recipe, tuple(column), lanes, origin, times, tuple(fresh), given, hot)


def _coming(rng: np.random.Generator, recipe: Recipe) -> NDArray[np.int64]:
    """The number of each record's key."""
    distinct, rows = recipe.distinct, recipe.rows
    if recipe.skew == "once":
        return rng.permutation(rows) % distinct
    if recipe.skew == "zipf":
        weights = 1 / np.arange(1, distinct + 1) ** rng.uniform(0.8, 1.4)
        return rng.choice(distinct, rows, p=weights / weights.sum())
    code = rng.integers(0, distinct, rows)
    if recipe.skew == "hot":
        code = np.where(rng.random(rows) < rng.uniform(0.1, 0.5), 0, code)
    return code


def _origin(rng: np.random.Generator, recipe: Recipe, code: NDArray[np.int64]) -> NDArray[np.int64]:
    """Who wrote each record."""
    edges = np.cumsum(recipe.shares)[:-1]
    if recipe.mixed_by == "time":
        drawn = np.arange(recipe.rows) / recipe.rows
    elif recipe.mixed_by == "key":
        drawn = rng.random(recipe.distinct)[code]
    else:
        drawn = rng.random(recipe.rows)
    origin = np.searchsorted(edges, drawn, side="right")
    if recipe.keyless:
        origin = np.where(rng.random(recipe.rows) < recipe.keyless_share, -1, origin)
    return origin.astype(np.int64)


def _without_rule(rng: np.random.Generator, recipe: Recipe) -> NDArray[np.int64]:
    rows, lanes = recipe.rows, recipe.lanes
    if recipe.keyless == "round-robin":
        return np.arange(rows) % lanes
    if recipe.keyless == "sticky":
        return rng.integers(0, lanes, rows // 32 + 1).repeat(32)[:rows]
    return rng.integers(0, lanes, rows)


def _population(rng: np.random.Generator, name: str, size: int) -> list[Any]:
    """So many distinct keys of one shape."""
    makers: dict[str, Callable[[int], list[Any]]] = {
        "padded": lambda n: [f"merchant_{at:06d}" for at in _ids(rng, n)],
        "user": lambda n: [f"user-{at}" for at in _ids(rng, n)],
        "email": lambda n: [f"{_word(rng, 7)}.{at}@example.com" for at in _ids(rng, n)],
        "composite": lambda n: [f"{_word(rng, 2)}|{at}|{_word(rng, 3)}" for at in _ids(rng, n)],
        "words": lambda n: [
            row.tobytes()[:size].decode()
            for row, size in zip(rng.integers(97, 123, (n, 9), np.uint8), rng.integers(3, 9, n).tolist(), strict=True)
        ],
        "unicode": lambda n: [f"Zoë-{at}-ж" if at % 3 else f"plain-{at}" for at in _ids(rng, n)],
        "url": lambda n: [
            f"https://shop.example.com/item/{_word(rng, 12)}?id={at}&ref={_word(rng, 9)}" for at in _ids(rng, n)
        ],
        "ulid": lambda n: [f"01HZX{at:08d}{_word(rng, 10).upper()}" for at in _ids(rng, n)],
        "mixed-case": lambda n: [_word(rng, 4).title() + _word(rng, 4).upper() + str(at) for at in _ids(rng, n)],
        "sequence": lambda n: list(range(first := int(rng.integers(1, 1_000_000)), first + n)),
        "spread-ints": lambda n: rng.integers(0, 2**31, n).tolist(),
        "negative-ints": lambda n: rng.integers(-(2**31), 2**31, n).tolist(),
        "digits": lambda n: [str(at) for at in _ids(rng, n)],
        "padded-digits": lambda n: [f"{at:010d}" for at in _ids(rng, n)],
        "uuid": lambda n: [_uuid(rng.bytes(16).hex()) for _ in range(n)],
        "h3": lambda n: _cells(rng, n),
        "bytes": lambda n: [rng.bytes(int(rng.integers(6, 20))) for _ in range(n)],
    }
    found: dict[Any, None] = {}
    while len(found) < size:
        found |= dict.fromkeys(makers[name](size))
    keys = list(found)
    return [keys[at] for at in rng.permutation(len(keys))[:size].tolist()]


def _ids(rng: np.random.Generator, size: int) -> list[int]:
    """Numbers one after the other, or spread."""
    if rng.random() < 0.5:
        return list(range(first := int(rng.integers(0, 5000)), first + size))
    return [int(at) for at in rng.integers(0, 10_000_000, size)]


def _uuid(digits: str) -> str:
    """A UUID of version 4 of 32 hexadecimal digits."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _word(rng: np.random.Generator, length: int) -> str:
    return (rng.integers(97, 123, length, np.uint8)).tobytes().decode()


def _cells(rng: np.random.Generator, size: int) -> list[str]:
    """Cells of H3 as text: a mode, a resolution, a base cell, a digit for each resolution, and ones behind."""
    resolution = int(rng.integers(6, 12))
    number = (1 << 59) | (resolution << 52)
    cells = [number | int(base) << 45 for base in rng.choice([10, 31, 42, 49, 63, 97], size)]
    for depth in range(1, 16):
        digits = rng.integers(0, 7, size).tolist() if depth <= resolution else [7] * size
        cells = [cell | digit << 3 * (15 - depth) for cell, digit in zip(cells, digits, strict=True)]
    return [f"{cell:x}" for cell in cells]


def smaller(recipe: Recipe) -> Iterator[Recipe]:
    """The recipe with one thing simpler, what saves most first."""
    for rows in (recipe.rows // 2, recipe.rows * 3 // 4):
        if rows >= 10:
            yield replace(recipe, rows=rows, distinct=min(recipe.distinct, rows))
    if recipe.distinct >= 20:
        yield replace(recipe, distinct=recipe.distinct // 2)
    if recipe.keyless and recipe.keyless_share < 1:
        yield replace(recipe, keyless="", keyless_share=0.0)
    plain = (
        replace(recipe, null_share=0.0),
        replace(recipe, empty_share=0.0),
        replace(recipe, times=False),
        replace(recipe, skew="once"),
        replace(recipe, given=False),
    )
    yield from (one for one in (*plain, *_fewer_writers(recipe), *_fewer_lanes(recipe)) if one != recipe)


def _fewer_writers(recipe: Recipe) -> Iterator[Recipe]:
    for at in range(len(recipe.writers) if len(recipe.writers) > 1 else 0):
        writers, shares = list(recipe.writers), list(recipe.shares)
        del writers[at], shares[at]
        yield replace(recipe, writers=tuple(writers), shares=tuple(share / sum(shares) for share in shares))


def _fewer_lanes(recipe: Recipe) -> Iterator[Recipe]:
    if len({writer.lanes for writer in recipe.writers}) == 1 and recipe.lanes > 2:
        for lanes in (max(2, recipe.lanes // 2), recipe.lanes - 1):
            yield replace(recipe, writers=tuple(replace(writer, lanes=lanes) for writer in recipe.writers))


def shrunk(recipe: Recipe, fails: Callable[[Recipe], bool], tries: int = 60) -> Recipe:
    """The smallest recipe found that still fails."""
    left = tries
    while left:
        for one in smaller(recipe):
            left -= 1
            if fails(one):
                recipe = one
                break
            if not left:
                return recipe
        else:
            return recipe
    return recipe


def main(given: Sequence[str] | None = None) -> None:
    """Print the truth of a case, and write its records."""
    parser = argparse.ArgumentParser(description="One case: its truth, and its records as a file.")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--recipe", help="A recipe as JSON, as a failure prints it, instead of a seed.")
    parser.add_argument("--out", help="Where the records go, as Parquet.")
    asked = parser.parse_args(given)
    case = made(Recipe.of_json(asked.recipe) if asked.recipe else draw(asked.seed, asked.kind))
    print(case.describe())
    if asked.out:
        lanes = f" --lanes {case.given}" if case.given else ""
        print(f"keylane identify {case.write(asked.out)} --key key --lane lane{lanes}")


if __name__ == "__main__":
    main()
