"""Every (partitioner, encoding) that could have written a column of keys, one for each family that places alike.

Partitioners of one family differ only in what they do with null and empty keys, so keyed rows cannot tell them apart;
`narrowed` uses the null and empty rows where there are any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keylane.contract.partitioners import FACTS
from keylane.errors import DataError
from keylane.hashing.batch import hash_batch
from keylane.keys.binary import plain
from keylane.keys.columns import encode_column, strip_registry_headers
from keylane.placement.fold import FOLDS
from keylane.placement.partitioners import Partitioner, partitioner
from keylane.placement.ranges import range_lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from keylane.contract.names import Encoding

__all__ = ["Candidate", "candidates_for", "family_of", "narrowed", "not_keys"]

#: The member of a family that is shown first: the one most streams were written by.
_USUAL: Final = {"crc32/unsigned": "librdkafka-consistent-random", "fnv1a/absolute": "sarama-hash"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """One hypothesis about a writer."""

    partitioner: Partitioner
    encoding: Encoding
    strip_header: bool = False

    @property
    def name(self) -> str:
        """The partitioner's contract name."""
        return self.partitioner.name

    def key_bytes(self, keys: pa.Array) -> pa.Array:
        """Routing keys under this hypothesis; null where the value does not fit it."""
        encoded, _ = encode_column(_as_numbers(keys, self.encoding), self.encoding, "key")
        return strip_registry_headers(encoded)[0] if self.strip_header else encoded

    def hashed(self, keys: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Hashes before the fold, and which keys fit at all; so that many lane counts can be tried on one hash."""
        routing = self.key_bytes(keys)
        assert self.partitioner.hash is not None
        fits = routing.is_valid().to_numpy(zero_copy_only=False)
        return hash_batch(self.partitioner.hash, routing), fits

    def fold(self, hashed: NDArray[Any], lanes: int) -> NDArray[Any]:
        """Hashes to lanes."""
        kind = self.partitioner.facts.fold
        return range_lanes(hashed, lanes) if kind == "ranges" else FOLDS[kind](hashed, lanes)

    def lanes(self, keys: pa.Array, lanes: int) -> NDArray[np.int32]:
        """Predicted lanes; -1 where the key does not fit."""
        hashed, fits = self.hashed(keys)
        predicted = self.fold(hashed, lanes).astype(np.int32)
        return predicted if fits.all() else np.where(fits, predicted, np.int32(-1))


def family_of(family: str) -> list[str]:
    """Names of a family, the usual one first."""
    names = [name for name, facts in FACTS.items() if facts.family == family]
    return sorted(names, key=lambda name: name != _USUAL.get(family, names[0]))


def candidates_for(keys: pa.Array) -> list[Candidate]:
    """The hypotheses worth trying on keys of this type and form."""
    encodings = _encodings(plain(keys))
    families = dict.fromkeys(facts.family for facts in FACTS.values() if facts.hash)
    return [
        Candidate(partitioner(name, encoding), encoding, strip)
        for encoding, strip in encodings
        for name in (family_of(family)[0] for family in families)
        if encoding in FACTS[name].encodings
    ]


def _encodings(keys: pa.Array) -> list[tuple[Encoding, bool]]:
    """Ways the values could have become bytes: (encoding, registry header stripped)."""
    kind = keys.type
    if pa.types.is_null(kind):
        return [("utf8", False)]
    if pa.types.is_integer(kind):
        return [(e, False) for e in ("utf8", "int32be", "int64be") if _all_fit(keys, e)]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        guises = ("uuid", "h3", *(("int32be", "int64be") if _all_digits(keys) else ()))
        return [("utf8", False), *[(e, False) for e in guises if _all_fit(keys, e)]]
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        raise not_keys(kind)
    return [("raw", False), *_binary_guises(keys)]


def not_keys(kind: pa.DataType) -> DataError:
    """Build the error for a column that can hold no key."""
    return DataError.of("a key column holds text, bytes or whole numbers", got=str(kind))


def _binary_guises(keys: pa.Array) -> list[tuple[Encoding, bool]]:
    """Bytes that could be something more: text, or a key behind a registry header."""
    text: list[tuple[Encoding, bool]] = [("utf8", False)] if _all_fit(keys, "utf8") else []
    return [*text, ("raw", True)] if _all_framed(keys) else text


def _all_fit(keys: pa.Array, encoding: Encoding) -> bool:
    sample = _as_numbers(keys.drop_null().slice(0, 100), encoding)
    return len(sample) > 0 and not encode_column(sample, encoding, "key")[1].any()


def _all_digits(keys: pa.Array) -> bool:
    """Whether texts are whole numbers written out, as a CSV holds them."""
    sample = keys.drop_null().slice(0, 100).cast(pa.string())
    return len(sample) > 0 and pc.all(pc.match_substring_regex(sample, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()


def _as_numbers(keys: pa.Array, encoding: str) -> pa.Array:
    """Digits as the numbers they spell, where the encoding wants numbers; text that is none becomes null."""
    if not encoding.startswith("int") or pa.types.is_integer(keys.type):
        return keys
    digits = pc.match_substring_regex(keys, r"^(0|-?[1-9][0-9]{0,17})$")
    return pc.if_else(digits, keys, pa.scalar(None, keys.type)).cast(pa.int64())


def _all_framed(keys: pa.Array) -> bool:
    sample = keys.drop_null().slice(0, 100).cast(pa.large_binary())
    return len(sample) > 0 and not strip_registry_headers(sample)[1].any()


def narrowed(names: Sequence[str], nulls: NDArray[np.int64], empties: NDArray[np.int64], lanes: int) -> list[str]:
    """Keep the members of a family whose null and empty rules fit where such rows were found.

    `nulls` and `empties` count such rows in each lane. Fewer than ten rows say nothing; more, all in the lane of the
    hash of nothing, were hashed (a sticky client's may be together too, but in any lane); others were not.
    """
    kept = list(names)
    for counts, rule, key in ((nulls, "on_null", None), (empties, "on_empty", b"")):
        if counts.sum() >= 10:
            hashed = np.flatnonzero(counts).tolist() == [_lane_of_nothing(names[0], key, lanes)]
            fitting = [name for name in kept if (getattr(FACTS[name], rule) == "hash") == hashed]
            kept = fitting or kept
    return kept


def _lane_of_nothing(name: str, key: bytes | None, lanes: int) -> int | None:
    """Where the null or empty key lands if it is hashed."""
    one = partitioner(name)
    return one.fold(one.hash.of(key), lanes) if one.hash else None
