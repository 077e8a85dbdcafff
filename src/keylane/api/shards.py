"""`keylane shards` as functions: a plan of splits and merges, and a saved plan carried out. Other verbs: `verbs`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.shards import ShardsApplyDocument, ShardsPlanDocument
    from keylane.keyspace.load import LoadUnit
    from keylane.pipelines.shards import Measure

    GivenPath: TypeAlias = str | os.PathLike[str]

__all__ = ["shards_apply", "shards_plan"]


def shards_plan(
    layout: GivenPath,
    *,
    cap: float | None = None,
    to: GivenPath | None = None,
    shards: int | None = None,
    tolerance: int = 0,
    profile: GivenPath | None = None,
    load: GivenPath | None = None,
    registry: GivenPath | None = None,
    measure: Measure | None = None,
    unit: LoadUnit = "records",
    last: float | None = None,
    show_keys: bool = False,
    out: GivenPath | None = None,
) -> ShardsPlanDocument:
    """The fewest splits and merges that keep every shard under `cap`, or that lead to the layout in the file `to`.

    `layout` is a file, or the address of a stream. With `measure` the load of that stream is read, or its service asked
    for it, in records or bytes a second over the `last` seconds. `out` saves the plan for `shards_apply`.
    """
    from keylane.pipelines.shards import plan_shards

    document = plan_shards(
        os.fspath(layout),
        cap=cap,
        to=_path(to),
        shards=shards,
        tolerance=tolerance,
        profile=_path(profile),
        load=_path(load),
        registry=_path(registry),
        measure=measure,
        unit=unit,
        last=last,
        show_keys=show_keys,
    )
    if out is not None:
        from keylane.systems.atomic import write_text

        write_text(Path(out), json.dumps(document.as_json(), indent=2) + "\n")
    return document


def shards_apply(
    plan: GivenPath,
    *,
    yes: bool = False,
    stream: str | None = None,
    record: GivenPath | None = None,
    patience: float = 600.0,
    progress: Callable[[str], None] | None = None,
) -> ShardsApplyDocument:
    """Carry out a saved plan with `yes`, otherwise look how far it is; called again, it goes on.

    `patience` is how many seconds one call may take. `progress` is called with a line for each call that is done.
    """
    import time

    from keylane.pipelines.shards import apply_shards
    from keylane.systems.resharding import Waiting

    waiting = Waiting(time.monotonic, time.sleep, patience)
    say = progress or (lambda _: None)
    return apply_shards(Path(plan), stream=stream, record=_path(record), yes=yes, waiting=waiting, say=say)


def _path(given: GivenPath | None) -> Path | None:
    return None if given is None else Path(given)
