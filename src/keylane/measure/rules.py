"""Every rule that could have placed a column of keys: hash x seed x fold x form of the key's bytes.

    Rule          one of them: keys and a lane count -> lanes
    rules_for     those worth trying on keys of this type and form
    named         the partitioner that a rule is, where a contract has a name for it; `spelled` names it by its parts
    future_keys   keys like those that were seen, to ask where two rules will part

Which rules explain data, and how sure that is: `mixture`. Clients that use a rule without a name:
`contract.client_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.client_rules import rules_of
from keylane.contract.partitioners import FACTS
from keylane.errors import DataError
from keylane.hashing import HASHES, Hash, fnv1a, java, murmur2, murmur3, phash2, xxhash32
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import as_binary, plain
from keylane.keys.columns import AS_WRITTEN, encode_column, strip_registry_headers
from keylane.placement.fold import FOLDS
from keylane.placement.partitioners import TYPED
from keylane.placement.ranges import range_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from keylane.contract.client_rules import ClientRule
    from keylane.contract.names import Encoding
    from keylane.placement.ranges import KeySpace

#: The member of a family that is shown first: the one most streams were written by.
_USUAL: Final = {"crc32/unsigned": "librdkafka-consistent-random", "fnv1a/absolute": "sarama-hash"}
#: How a form of key is named whose keys have five bytes of a schema registry before them.
STRIPPED: Final = " behind a registry header"
#: What a serializer makes of a text or a number, and no contract can name: its form -> how it is written in words.
UNNAMED_FORMS: Final = {
    "json": "a JSON string, in double quotes",
    "int64le": "8 bytes, little-endian",
    "int32le": "4 bytes, little-endian",
}
_KAFKA: Final = murmur2.SEED
#: Hashes with a seed that is not the usual one of their name.
_SEEDED: Final[tuple[tuple[Hash, int], ...]] = (
    *(
        (Hash("murmur2", partial(murmur2.murmur2, seed=s), partial(murmur2.murmur2_rows, seed=s)), s)
        for s in (0, 1, 42)
    ),
    *(
        (Hash("murmur3-32", partial(murmur3.murmur3_32, seed=s), partial(murmur3.murmur3_32_rows, seed=s)), s)
        for s in (42, 25_342, 104_729, 0x9747B28C)
    ),
    (
        Hash("xxhash32", partial(xxhash32.xxhash32, seed=_KAFKA), partial(xxhash32.xxhash32_rows, seed=_KAFKA)),
        _KAFKA,
    ),
)
#: Hashes of clients that no contract names.
UNNAMED: Final = {
    hash_.name: hash_
    for hash_ in (
        Hash("fnv1", fnv1a.fnv1, fnv1a.fnv1_rows),
        Hash("java-bytes", java.java_bytes, java.java_bytes_rows),
        Hash("xxhash32", xxhash32.xxhash32, xxhash32.xxhash32_rows),
        Hash("erlang-phash2", phash2.phash2, phash2.phash2_rows),
    )
}
#: Every hash that is searched, with its seed where that is not the usual one.
SEARCHED_HASHES: Final[tuple[tuple[Hash, int | None], ...]] = (
    *((hash_, None) for hash_ in HASHES.values()),
    *((hash_, None) for hash_ in UNNAMED.values()),
    *_SEEDED,
)
#: The folds of `placement.fold`, and equal ranges of the hash: hash * lanes >> 32.
_FOLDS: Final = (*FOLDS, "ranges")
_U = np.uint64


@dataclass(frozen=True, slots=True)
class Rule:
    """One hypothesis about a writer: how a key became bytes, the bytes a number, and the number a lane.

    `space` are the lanes as ranges, for a rule of ranges where they are not equal.
    """

    hash: Hash
    seed: int | None
    fold: str
    form: str
    strip_header: bool = False
    space: KeySpace | None = field(default=None, compare=False)

    @property
    def family(self) -> str:
        """Hash and fold: rules of one family place all keys of one form alike."""
        seed = "" if self.seed is None else f"#{self.seed}"
        return f"{hash_name(self)}{seed}/{self.fold}"

    @property
    def hash_of_form(self) -> tuple[str, int | None, str, bool]:
        """What decides the number: rules that share it are related, whatever their folds."""
        return self.hash.name, self.seed, self.form, self.strip_header

    @property
    def encoding(self) -> str:
        """The form of the key's bytes, as answers name it."""
        return self.form + (STRIPPED if self.strip_header else "")

    def key_bytes(self, keys: pa.Array) -> pa.Array:
        """Routing keys under this rule; null where the value does not fit it."""
        encoded = _in_form(keys, self.form)
        return strip_registry_headers(encoded)[0] if self.strip_header else encoded

    def hashed(self, keys: pa.Array) -> Hashed:
        """Hashes before the fold, and which keys fit at all; so that many lane counts can be tried on one hash."""
        routing = self.key_bytes(keys)
        fits = routing.is_valid().to_numpy(zero_copy_only=False)
        numbers = hash_batch(self.hash, routing)
        return Hashed(numbers.astype(np.uint64), np.asarray(fits, bool))

    def folded(self, hashed: Hashed, lanes: int) -> NDArray[np.int64]:
        """Lanes of hashes; -1 where the key does not fit."""
        at = self._fold(hashed.numbers, lanes).astype(np.int64)
        return at if hashed.all_fit else np.where(hashed.fits, at, -1)

    def lanes(self, keys: pa.Array, lanes: int) -> NDArray[np.int64]:
        """Lanes of keys; of a dictionary every value is hashed once."""
        if pa.types.is_dictionary(keys.type):
            if len(keys.dictionary) > len(keys):
                return self.lanes(keys.dictionary_decode(), lanes)
            return self.lanes(keys.dictionary, lanes)[keys.indices.to_numpy()]
        return self.folded(self.hashed(keys), lanes)

    def _fold(self, numbers: NDArray[Any], lanes: int) -> NDArray[Any]:
        if numbers.ndim == 2:
            if self.fold == "ranges":
                return range_lanes(
                    numbers, self.space if self.space is not None and len(self.space) == lanes else lanes
                )
            return _modulo_128(numbers, lanes)
        if self.fold == "ranges":
            return numbers * _U(lanes) >> _U(32)
        return FOLDS[self.fold](numbers.astype(np.int64), lanes)

    def grid(self, hashed: Hashed, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lanes of some hashes at many counts: a row a key, a column a count."""
        if hashed.numbers.ndim == 2 and (self.space is not None or self.fold != "ranges"):
            return np.stack([self.folded(hashed, int(count)) for count in counts], 1)
        if hashed.numbers.ndim == 2:
            # Of equal ranges the highest 32 bits decide, but for one key in millions.
            high = hashed.numbers[:, 0] >> _U(32)
            at = (high[:, None] * counts.astype(np.uint64)[None, :] >> _U(32)).astype(np.int64)
        elif self.fold == "ranges":
            at = (hashed.numbers[:, None] * counts.astype(np.uint64)[None, :] >> _U(32)).astype(np.int64)
        else:
            at = _folds_of_many(self.fold)(hashed.numbers.astype(np.int64)[:, None], counts[None, :])
        return at if hashed.all_fit else np.where(hashed.fits[:, None], at, -1)

    def counts(self, seen: int) -> range:
        """Lane counts to try: around the highest lane seen; ranges, which have no use for a smaller one, from there."""
        most = min(2 * seen, seen + 192) + 64
        if self.space is not None and self.fold == "ranges":
            return range(len(self.space), len(self.space) + 1)
        return range(seen if self.hash.bits == 128 and self.fold == "ranges" else 2, most)


@dataclass(frozen=True, slots=True)
class Hashed:
    """Numbers of keys, 64 bits wide or in two halves, and which keys have one."""

    numbers: NDArray[Any]
    fits: NDArray[np.bool_]

    @property
    def all_fit(self) -> bool:
        """Whether every key has a number."""
        return bool(self.fits.all())

    def top(self, bits: int) -> NDArray[np.int64]:
        """The highest bits of each number: what the folds that know a sign differ by."""
        if self.numbers.ndim == 2:
            return (self.numbers[:, 0] >> _U(64 - bits)).astype(np.int64)
        return (self.numbers >> _U(32 - bits)).astype(np.int64)

    def residue(self, of: int) -> NDArray[np.int64]:
        """Each number modulo a small one."""
        if self.numbers.ndim == 2:
            return _modulo_128(self.numbers, of).astype(np.int64)
        return (self.numbers % _U(of)).astype(np.int64)


def _folds_of_many(fold: str) -> Callable[[Any, Any], Any]:
    """A fold over an array of counts: the functions are the same, and their types say one count."""
    return FOLDS[fold]


def _modulo_128(halves: NDArray[Any], lanes: int) -> NDArray[Any]:
    step = _U(pow(2, 64, lanes))
    n = _U(lanes)
    return ((halves[:, 0] % n) * step + halves[:, 1] % n) % n


#: Spark hashes numbers by their type: one name for its three hashes.
HASH_NAMES: Final = {"spark-int": "spark-murmur3", "spark-long": "spark-murmur3"}


def family_of(family: str) -> list[str]:
    """Names of a family, the usual one first."""
    names = [name for name, facts in FACTS.items() if facts.family == family]
    return sorted(names, key=lambda name: name != _USUAL.get(family, names[0]))


def named(rule: Rule) -> list[str]:
    """The partitioners that a rule is, the usual one first; none for a rule that no contract can name."""
    if rule.form in UNNAMED_FORMS:
        return []
    return [name for name in family_of(rule.family) if rule.form in FACTS[name].encodings]


def spelled(rule: Rule) -> str:
    """A rule by its parts, in words.

    >>> spelled(Rule(HASHES["murmur2"], None, "unsigned", "utf8"))
    'murmur2 (unsigned) modulo the lane count'
    """
    seed = (
        "" if rule.seed is None else f" with seed {rule.seed:#x}" if rule.seed > 1 << 20 else f" with seed {rule.seed}"
    )
    form = f", of the key as {UNNAMED_FORMS[rule.form]}" if rule.form in UNNAMED_FORMS else ""
    return f"{hash_name(rule)}{seed} {_FOLD_WORDS[rule.fold]}{form}"


_FOLD_WORDS: Final = {
    "masked": "(sign bit cleared) modulo the lane count",
    "unsigned": "(unsigned) modulo the lane count",
    "absolute": "(absolute value) modulo the lane count",
    "positive": "(floor) modulo the lane count",
    "ranges": "by ranges of the hash",
}


def rules_for(keys: pa.Array, space: KeySpace | None = None) -> list[Rule]:
    """The rules worth trying on keys of this type and form, those that have a name first; no two are the same.

    Keys that are bytes may be text: a rule that sees bytes takes them as they are; only a rule of text decodes them.
    """
    forms = _forms(plain(keys))
    found: dict[tuple[Any, ...], Rule] = {}
    for form, strip in forms:
        for hash_, seed in SEARCHED_HASHES:
            if not _sees(hash_, form):
                continue
            typed = TYPED.get(form) if hash_.name == "spark-murmur3" else None
            folds = ("ranges", "unsigned") if hash_.bits == 128 else _FOLDS
            for fold in folds:
                rule = Rule(typed or hash_, seed, fold, form, strip, space if fold == "ranges" else None)
                bytes_alike = (
                    "raw" if form == "utf8" and ("raw", False) in forms and hash_.name != "java-string" else form
                )
                known = found.get((hash_.name, seed, fold, bytes_alike, strip))
                if known is None or (named(rule) and not named(known)):
                    found[hash_.name, seed, fold, bytes_alike, strip] = rule
    return sorted(found.values(), key=lambda rule: not named(rule))


def _sees(hash_: Hash, form: str) -> bool:
    """Whether a hash can be asked about keys of a form: some are of texts or of numbers only."""
    if hash_.name == "java-string":
        return form in {"utf8", "json"}
    if hash_.name == "java-long":
        return form in {"int64be", "h3"}
    return True


def _forms(keys: pa.Array) -> list[tuple[str, bool]]:
    """How the values could have become bytes: (form, registry header stripped)."""
    kind = keys.type
    if pa.types.is_null(kind):
        return [("utf8", False)]
    numbers = ("int32be", "int64be", "int32le", "int64le")
    if pa.types.is_integer(kind):
        return [(e, False) for e in ("utf8", *numbers) if _all_fit(keys, e)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        guises = ("uuid", "h3", *(numbers if _all_digits(keys) else ()))
        return [("utf8", False), *[(e, False) for e in guises if _all_fit(keys, e)], ("json", False)]
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        raise not_keys(kind)
    text: list[tuple[str, bool]] = [("utf8", False)] if _all_fit(keys, "utf8") else []
    return [("raw", False), *text, *([("raw", True)] if _all_framed(keys) else [])]


def not_keys(kind: pa.DataType) -> DataError:
    """Build the error for a column that can hold no key."""
    return DataError.of("a key column holds text, bytes or whole numbers", got=str(kind), hint=AS_WRITTEN)


def _in_form(keys: pa.Array, form: str) -> pa.Array:
    if form == "json":
        return _quoted(keys)
    width = {"int32le": 4, "int64le": 8}.get(form)
    encoding: Any = f"int{width * 8}be" if width else form
    encoded, _ = encode_column(_as_numbers(keys, encoding), encoding, "key")
    if width is None:
        return encoded
    rows = np.frombuffer(as_binary(encoded.fill_null(bytes(width))).buffers()[2], np.uint8).reshape(-1, width)
    turned = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows[:, ::-1]))]
    ).cast(pa.binary())
    return pc.if_else(encoded.is_valid(), turned, pa.scalar(None, pa.binary()))


def _quoted(keys: pa.Array) -> pa.Array:
    """Texts in double quotes, as JSON writes those that need no escape; others do not fit."""
    quote = pa.scalar('"', keys.type)
    plain_text = pc.invert(pc.match_substring_regex(keys, r'["\\\x00-\x1f]'))
    joined = pc.binary_join_element_wise(quote, keys, quote, pa.scalar("", keys.type))
    return pc.if_else(plain_text, joined, pa.scalar(None, keys.type)).cast(pa.large_binary())


def _all_fit(keys: pa.Array, form: str) -> bool:
    sample = keys.drop_null().slice(0, 100)
    return len(sample) > 0 and _in_form(sample, form).null_count == 0


_DIGITS: Final = r"^(0|-?[1-9][0-9]{0,17})$"


def _all_digits(keys: pa.Array) -> bool:
    """Whether texts are whole numbers written out, as a CSV holds them."""
    sample = keys.drop_null().slice(0, 100).cast(pa.string())
    return len(sample) > 0 and pc.all(pc.match_substring_regex(sample, _DIGITS)).as_py()


def _as_numbers(keys: pa.Array, encoding: str) -> pa.Array:
    """Digits as the numbers they spell, where the encoding wants numbers; text that is not a number becomes null."""
    if not encoding.startswith("int") or pa.types.is_integer(keys.type):
        return keys
    digits = pc.match_substring_regex(keys, _DIGITS)
    return pc.if_else(digits, keys, pa.scalar(None, keys.type)).cast(pa.int64())


def _all_framed(keys: pa.Array) -> bool:
    sample = keys.drop_null().slice(0, 100).cast(pa.large_binary())
    return len(sample) > 0 and not strip_registry_headers(sample)[1].any()


def contract_encoding(rule: Rule) -> tuple[Encoding, bool]:
    """The encoding of a rule that has a name, and whether the header of a schema registry stands before its keys."""
    encoding: Any = rule.form
    return encoding, rule.strip_header


def future_keys(keys: pa.Array, rng: np.random.Generator, most: int = 2_000) -> pa.Array:
    """Keys like those that were seen and mostly not among them: each byte is that of another seen key in its place.

    So two rules that place all keys of a sample alike can be asked whether they will go on to. Whole numbers are drawn
    from up to four times as far as the largest seen.

    >>> future_keys(pa.array(["a1", "b2"]), np.random.default_rng(0), 40).unique().sort().to_pylist()
    ['a1', 'a2', 'b1', 'b2']
    """
    values = plain(keys).drop_null()
    if pa.types.is_integer(values.type):
        low, high = pc.min(values).as_py(), pc.max(values).as_py()
        room = np.iinfo(values.type.to_pandas_dtype())
        return pa.array(
            rng.integers(low, min(int(room.max), max(4 * high, high + 1_000)), most, endpoint=True), values.type
        )
    texts = [bytes(value) for value in as_binary(values).to_pylist()]
    by_length: dict[int, list[bytes]] = {}
    for text in texts:
        by_length.setdefault(len(text), []).append(text)
    made: list[bytes] = []
    for length, alike in by_length.items():
        rows = np.frombuffer(b"".join(alike), np.uint8).reshape(len(alike), length)
        count = -(-most * len(alike) // len(texts))
        drawn = rng.integers(len(alike), size=(count, length))
        made += [row.tobytes() for row in rows[drawn, np.arange(length)[None, :]]]
    if (
        pa.types.is_binary(values.type)
        or pa.types.is_large_binary(values.type)
        or pa.types.is_fixed_size_binary(values.type)
    ):
        return pa.array(made, pa.binary())
    return pa.array([text.decode("utf-8", "replace") for text in made], pa.string())


def same_ahead(one: Rule, other: Rule, lanes: int, ahead: pa.Array) -> bool:
    """Whether two rules place keys to come alike on a lane count."""
    return bool((one.lanes(ahead, lanes) == other.lanes(ahead, lanes)).all())


def parts_at(one: Rule, other: Rule, lanes: int, keys: pa.Array) -> int | None:
    """The next higher lane count at which two rules place some of these keys otherwise; None up to twice the count."""
    first, second = one.hashed(keys), other.hashed(keys)
    for count in range(lanes + 1, 2 * lanes + 3):
        if (one.folded(first, count) != other.folded(second, count)).any():
            return count
    return None


def lane_of_nothing(name: str, key: bytes | None, lanes: int) -> int | None:
    """Where the null or the empty key is placed by a partitioner that hashes it."""
    facts = FACTS[name]
    if facts.hash is None:
        return None
    hash_ = HASHES[facts.hash]
    if facts.fold == "ranges":
        return None
    return int(FOLDS[facts.fold](hash_.of(key), lanes))


def narrowed(names: Sequence[str], nulls: NDArray[np.int64], empties: NDArray[np.int64], lanes: int) -> list[str]:
    """Keep the members of a family whose null and empty rules fit where such rows were found.

    `nulls` and `empties` count such rows in each lane. Fewer than ten rows show nothing; more, all in the lane of the
    hash of nothing, were hashed (a sticky client's may be together too, but in any lane); others were not.
    """
    kept = list(names)
    for counts, rule, key in ((nulls, "on_null", None), (empties, "on_empty", b"")):
        if kept and counts.sum() >= 10:
            hashed = np.flatnonzero(counts).tolist() == [lane_of_nothing(names[0], key, lanes)]
            fitting = [name for name in kept if (getattr(FACTS[name], rule) == "hash") == hashed]
            kept = fitting or kept
    return kept


def client_rules(rule: Rule) -> tuple[ClientRule, ...]:
    """The clients that are known to place by a rule, where no partitioner is named after them."""
    return () if rule.strip_header else rules_of(hash_name(rule), rule.seed, rule.fold)


def hash_name(rule: Rule) -> str:
    """A rule's hash by its name."""
    return HASH_NAMES.get(rule.hash.name, rule.hash.name)


def distinct_hashes(rules: Sequence[Rule]) -> Iterator[tuple[Rule, list[Rule]]]:
    """Rules by what gives their number, so that each hash is computed once."""
    groups: dict[tuple[Any, ...], list[Rule]] = {}
    for rule in rules:
        groups.setdefault(rule.hash_of_form, []).append(rule)
    yield from ((alike[0], alike) for alike in groups.values())
