"""`keylane migrate` as a function: a migration planned from two contracts. Other verbs: `verbs`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from keylane.documents.migrate import MigratePlanDocument
    from keylane.systems.endpoint import StreamOptions

    GivenPath: TypeAlias = str | os.PathLike[str]

__all__ = ["migrate_plan"]


def migrate_plan(
    old: GivenPath,
    new: GivenPath,
    *,
    source: str | None = None,
    target: str | None = None,
    old_lanes: int | None = None,
    new_lanes: int | None = None,
    mode: Literal["in-place", "mirror"] | None = None,
    options: StreamOptions | None = None,
) -> MigratePlanDocument:
    """How a stream gets from the contract in the file `old` to that in the file `new`: nothing is changed.

    `source` and `target` are addresses of streams, which are asked for their lanes; `old_lanes` and `new_lanes` are
    the counts of contracts with live lanes, where no stream is given. Without `steps` there is nothing to do.
    """
    from keylane.pipelines.migrate import plan_migrate

    lanes = old_lanes, new_lanes
    return plan_migrate(
        os.fspath(old), os.fspath(new), source=source, target=target, lanes=lanes, mode=mode, options=options
    )
