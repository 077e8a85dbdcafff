"""Profiles in memory, for tests of what is read off them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from keylane.contract.model import Key
from keylane.profile.build import ProfileMetadata, profile_of
from keylane.profile.model import position_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.profile.model import Profile

__all__ = ["made", "rows_of"]


def rows_of(columns: dict[str, Any], counts: Sequence[Sequence[int]]) -> pa.Table:
    """Counted rows, with a sum for each window."""
    matrix = np.array(counts, np.int64).reshape(len(counts), -1)
    return pa.table({**columns, **{f"keylane_w{n}": matrix[:, n] for n in range(matrix.shape[1])}})


def made(keys: Sequence[Any], counts: Sequence[Sequence[int]], key: Key | None = None, **changes: Any) -> Profile:
    """A profile of these keys of one field, with their records by window."""
    given = key or Key(fields=("k",))
    total = int(np.sum(counts))
    head = ProfileMetadata("data/", given, position_windows(total, len(counts[0])), packing=1)
    return replace(profile_of(rows_of({given.fields[0]: pa.array(keys)}, counts), head), **changes)
