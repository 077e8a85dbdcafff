"""A profile as the document that is printed, saved and drawn: `keylane.profile/1`. Heavy keys are cut and hashed.

The profile itself: `profile`. Why a lane is hot: `hot`, which gives the part of that name.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from keylane.measure.lookalikes import Lookalikes, lookalikes
from keylane.measure.masking import masked, shown
from keylane.measure.sentences import how_obtained

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from keylane.measure.profile import Profile, Windows

    Show = Callable[[int], str]

__all__ = ["HEAVY", "RANKS", "edge_texts", "key_ranks", "overview", "shown_keys"]

#: Heavy keys that are listed, and ranks of the curve.
HEAVY: Final = 20
RANKS: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def overview(
    profile: Profile,
    *,
    salt: bytes,
    show_keys: bool = False,
    stored: str | None = None,
    hot: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document. `salt` goes into the hashes of keys; `stored` is the profile's folder; `hot` is `hot.why_hot`'s."""
    show = shown_keys(profile, None if show_keys else salt)
    alike = lookalikes(profile)
    lanes, approximate, records = profile.lanes, profile.approximate, profile.records
    return {
        "schema": "keylane.profile/1",
        "source": profile.source,
        "key": list(profile.key.fields),
        "encoding": list(profile.key.encodings),
        "records": profile.total,
        "bytes": profile.bytes_total,
        "distinct_keys": profile.keys.num_rows if approximate is None else approximate.distinct_keys,
        "without_key": asdict(profile.without_key),
        "windows": _windows(profile),
        "heavy": _heavy(profile, records, show),
        "key_ranks": key_ranks(records, profile.total),
        "lookalikes": _alike(alike, records, show),
        "hot": hot,
        "lanes": None
        if lanes is None
        else {"count": len(lanes.by_window), "by_window": lanes.by_window.tolist(), "misplaced": lanes.misplaced},
        "approximate": None if approximate is None else asdict(approximate),
        "how": how_obtained(profile),
        "profile": stored,
        "fingerprint": profile.fingerprint,
    }


def shown_keys(profile: Profile, salt: bytes | None) -> Show:
    """How a key is shown, by its rank: cut and hashed with a salt, or whole without one."""

    def show(rank: int) -> str:
        text = shown(tuple(column[rank].as_py() for column in profile.keys.columns))
        return text if salt is None else masked(text, salt)

    return show


def _windows(profile: Profile) -> dict[str, Any]:
    seen = profile.by_window > 0
    told = dict(profile.facts)
    first = np.bincount(seen.argmax(axis=1), minlength=len(profile.windows)) if len(seen) else np.zeros(0, np.int64)
    return {
        "kind": profile.windows.kind,
        "edges": edge_texts(profile.windows),
        "records": told.get("window_records") or profile.by_window.sum(axis=0, dtype=np.int64).tolist(),
        "distinct_keys": told.get("window_keys") or seen.sum(axis=0).tolist(),
        "new_keys": told.get("window_new_keys") or first.tolist(),
    }


def edge_texts(windows: Windows) -> list[Any]:
    """The edges of windows as people read them: times in UTC, or positions.

    >>> from keylane.measure.profile import Windows
    >>> edge_texts(Windows("time", (0, 1_500_000)))
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500000Z']
    """
    if windows.kind == "position":
        return list(windows.edges)
    return [_time(edge) for edge in windows.edges]


def _time(micros: int) -> str:
    """Beyond the years that Python can name, the number itself."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        return f"{micros} us"


def _heavy(profile: Profile, records: NDArray[np.int64], show: Show) -> list[dict[str, Any]]:
    total, error = max(1, profile.total), profile.approximate.most_over if profile.approximate else 0
    return [
        {
            "rank": rank + 1,
            "key": show(rank),
            "records": int(records[rank]),
            "share": int(records[rank]) / total,
            "error": error,
            "by_window": profile.by_window[rank].tolist(),
            "bytes": None if profile.size is None else int(profile.size[rank]),
        }
        for rank in range(min(HEAVY, len(records)))
    ]


def key_ranks(records: NDArray[np.int64], total: int) -> list[dict[str, Any]]:
    """Shares of keys by rank, at about 60 ranks that are evenly apart on a logarithmic scale; the last key is the last.

    >>> [(one["rank"], one["cumulative"]) for one in key_ranks(np.array([6, 3, 1]), 10)]
    [(1, 0.6), (2, 0.9), (3, 1.0)]
    """
    if not len(records):
        return []
    ranks = np.unique(np.round(np.geomspace(1, len(records), RANKS)).astype(int))
    sums = np.cumsum(records)
    return [
        {"rank": int(r), "share": int(records[r - 1]) / max(1, total), "cumulative": int(sums[r - 1]) / max(1, total)}
        for r in ranks
    ]


def _alike(found: Lookalikes, records: NDArray[np.int64], show: Show) -> dict[str, Any]:
    examples = [
        {
            "kind": group.kind,
            "keys": [show(rank) for rank in group.ranks],
            "records": [int(records[rank]) for rank in group.ranks],
        }
        for group in found.examples
    ]
    return {"groups": found.groups, "records": found.records, "examples": examples}
