"""Hash + fold = the partitioner named after the client whose placement it is. The facts are `contract.partitioners`.

`partitioner("kafka-java").lane(b"TT0124", 15)` is 10. None means that the key does not decide the lane: it is null or
empty and that client places such records without it, or the client ignores keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.partitioners import PartitionerFacts, facts_of
from keylane.errors import ArgumentError
from keylane.hashing import HASHES, Hash
from keylane.hashing.murmur3 import SPARK_SEED, spark_int, spark_long, spark_words_rows
from keylane.placement.fold import FOLDS, lane_count
from keylane.placement.ranges import KeySpace, range_lane, range_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from keylane.contract.names import Encoding
    from keylane.placement.ranges import Lanes

SPARK_INT: Final = Hash(
    "spark-int", lambda key: spark_int(int.from_bytes(key, "big")), spark_words_rows, null=SPARK_SEED
)
SPARK_LONG: Final = Hash(
    "spark-long", lambda key: spark_long(int.from_bytes(key, "big")), spark_words_rows, null=SPARK_SEED
)
#: Spark's hash knows the column's type; Kafka's and the others see bytes only.
TYPED: Final[dict[str, Hash]] = {"int32be": SPARK_INT, "int64be": SPARK_LONG, "h3": SPARK_LONG, "place": SPARK_LONG}


@dataclass(frozen=True, slots=True)
class Partitioner:
    """A placement rule that can be asked about any key, any lane count, one key or a batch."""

    facts: PartitionerFacts
    hash: Hash | None

    @property
    def name(self) -> str:
        """The contract name."""
        return self.facts.name

    def lane(self, key: bytes | None, lanes: Lanes) -> int | None:
        """The lane of one routing key, null and empty keys as this client treats them."""
        lanes = lanes if isinstance(lanes, KeySpace) else lane_count(lanes)
        given: Any = key
        if given is not None and not isinstance(given, bytes | bytearray | memoryview):
            hint = "a text is .encode()d; Router and explain take values"
            raise ArgumentError.of(
                "a partitioner sees the bytes of a key", got=key, allowed="bytes, or None", hint=hint
            )
        rule = self.facts.on_null if key is None else self.facts.on_empty if not key else "hash"
        if self.hash is None or rule != "hash":
            return None
        if self.facts.hash == "java-long" and (key is None or len(key) != 8):
            return None  # This client cannot have such a key: a Long has eight bytes.
        return self.fold(self.hash.of(key), self.over(lanes))

    def over(self, lanes: Lanes) -> Lanes:
        """What this client's fold runs over: the key space itself for ranges, its lane count for every other rule."""
        return lanes if self.facts.fold == "ranges" or isinstance(lanes, int) else len(lanes)

    @property
    def fold(self) -> Callable[[int, Any], int]:
        """Hash, and trusted lane count (for ranges: or key space) -> lane."""
        return range_lane if self.facts.fold == "ranges" else FOLDS[self.facts.fold]

    def fold_batch(self, hashed: NDArray[Any], lanes: Lanes) -> NDArray[Any]:
        """The same for the hashes of a batch, as `hash_batch` gives them."""
        fold: Callable[[Any, Any], Any] = range_lanes if self.facts.fold == "ranges" else FOLDS[self.facts.fold]
        return fold(hashed, self.over(lanes))

    def hashed_lanes(self, keys: pa.Array, lanes: Lanes) -> NDArray[Any]:
        """Lanes of a batch as uint32, every key hashed, null as empty; the router decides which are hashed."""
        from keylane.hashing.batch import hash_batch

        assert self.hash is not None
        return self.fold_batch(hash_batch(self.hash, keys), lanes)


def partitioner(name: str, encoding: Encoding = "utf8") -> Partitioner:
    """Look a partitioner up. `encoding` matters to `spark-hash` alone, which hashes numbers as numbers.

    >>> partitioner("librdkafka-consistent-random").lane(b"TT0124", 15)
    9
    """
    facts = facts_of(name)
    typed = TYPED.get(encoding) if name == "spark-hash" else None
    return Partitioner(facts, typed or (HASHES[facts.hash] if facts.hash else None))
