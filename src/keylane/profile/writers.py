"""Who wrote the records of a profile that has lanes: `measure.identify` on its counted rows, without a second read.

A row is a key and a lane with its records. Every record counts, as in `identify`, up to as many as that reads of a
topic; of more they are drawn from the rows at equal steps, keys in the order of their hashes: the same rows, the same
draw, whichever engine has counted them. Where there is a contract it says where
records belong, and nobody has to be identified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import as_binary, nulls_of, plain
from keylane.keys.read import read_batch
from keylane.measure.identify import Identification, Writer, identify
from keylane.profile.build import LANE, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from keylane.placement.ranges import KeySpace
    from keylane.profile.build import ProfileMetadata
    from keylane.profile.model import Profile

#: Records that are drawn at most.
DRAWN: Final = 1_000_000
_BATCH: Final = 1 << 16


def writers_in(
    rows: pa.Table, head: ProfileMetadata, lanes: int | None, space: KeySpace | None = None
) -> dict[str, Any] | None:
    """The writers of counted rows with lanes, as a fact of the profile; None where no key says anything.

    `lanes` is their number, where it is known, and `space` are their ranges, where they have such.
    """
    fields = rows.select(list(head.key.fields))
    base = read_batch(fields, head.key).base
    placed = plain(rows.column(LANE)).to_numpy(zero_copy_only=False) >= 0
    keyed = np.flatnonzero(~nulls_of(base) & placed)
    if not len(keyed) or lanes == 1:
        return None
    keys, at, drawn = _drawn(rows, head, base, keyed)
    named = plain(fields.column(0)) if len(head.key.fields) == 1 else base
    found = identify(_batches(named.take(pa.array(keys)), at), lanes, space)
    writers = [
        {
            "partitioner": one.partitioner,
            "rule": None if one.partitioner or one.rule is None else one.name,
            "share": round(one.share, 6),
            "lanes": one.lanes,
        }
        for one in found.writers
    ]
    return {"verdict": found.verdict, "found": writers, "records": drawn}


def identified(profile: Profile, lanes: int) -> Identification | None:
    """What was found of the writers of a profile; None where nobody looked, or nothing was found."""
    found = profile.known.get("writers")
    if found is None or found["verdict"] == "unknown":
        return None
    # A rule without a name stands here by its parts: it is shown, and not looked up.
    writers = tuple(
        Writer(one["partitioner"] or one.get("rule"), one["share"], lanes=one["lanes"]) for one in found["found"]
    )
    drawn = found["records"]
    return Identification(found["verdict"], writers, lanes, "given", drawn, drawn, 0, 0, 0, 0)


def _drawn(
    rows: pa.Table, head: ProfileMetadata, base: pa.Array, keyed: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.int64], int]:
    """Rows, each as often as it was drawn, and their lanes."""
    lane = plain(rows.column(LANE)).to_numpy(zero_copy_only=False).astype(np.int64)
    records = unpacked(rows, len(head.windows), head.packing).sum(axis=1, dtype=np.int64)
    values = as_binary(base.take(pa.array(keyed)))
    hashes = hash_batch(HASHES["murmur2"], values).astype(np.uint32)
    texts = np.array(values.to_pylist(), object) if len(np.unique(hashes)) < len(hashes) else hashes
    order = keyed[sorted(range(len(keyed)), key=lambda n: (hashes[n], texts[n], lane[keyed[n]]))]
    ends = np.cumsum(records[order])
    count = min(DRAWN, int(ends[-1]))
    steps = (np.arange(count) * int(ends[-1]) + int(ends[-1]) // 2) // count
    drawn = order[np.searchsorted(ends, steps, side="right")]
    return drawn, lane[drawn], count


def _batches(keys: pa.Array, lanes: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(keys), _BATCH):
        some = pa.array(lanes[at : at + _BATCH])
        yield pa.RecordBatch.from_arrays([keys.slice(at, _BATCH), some], names=["key", "lane"])
