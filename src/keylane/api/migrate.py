"""`keylane migrate` as functions: a migration planned, carried out, looked at and certified. Other verbs: `verbs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from keylane.documents.migrate import MigrateCertificateDocument, MigratePlanDocument, MigrateStatusDocument
    from keylane.systems.endpoint import StreamOptions

    GivenPath: TypeAlias = str | os.PathLike[str]

__all__ = ["migrate_plan", "migrate_rollback", "migrate_run", "migrate_status", "migrate_verify"]


def migrate_plan(
    old: GivenPath,
    new: GivenPath,
    *,
    source: str | None = None,
    target: str | None = None,
    old_lanes: int | None = None,
    new_lanes: int | None = None,
    mode: Literal["in-place", "mirror"] | None = None,
    producers: Sequence[str] = (),
    groups: Sequence[str] = (),
    gated: bool = True,
    dual: bool = False,
    options: StreamOptions | None = None,
) -> MigratePlanDocument:
    """How a stream gets from the contract in the file `old` to that in the file `new`: nothing is changed.

    `source` and `target` are addresses of streams, which are asked for their lanes; `old_lanes` and `new_lanes` are
    the counts of contracts with live lanes, where no stream is given. Without `steps` there is nothing to do.
    `producers` stop by themselves, the committed offsets of `groups` show the drain, and without `gated` readers drain
    before producers go on. With `dual` the producers of a mirror write to both streams instead of stopping.
    `json.dumps(document.as_json())` is what `--out` saves.
    """
    from keylane.pipelines.migrate import plan_migrate

    lanes = old_lanes, new_lanes
    return plan_migrate(
        os.fspath(old),
        os.fspath(new),
        source=source,
        target=target,
        lanes=lanes,
        mode=mode,
        producers=producers,
        groups=groups,
        gated=gated,
        dual=dual,
        options=options,
    )


def migrate_run(
    plan: GivenPath,
    *,
    journal: str | None = None,
    lease: str | None = None,
    producers_stopped: bool = False,
    allow_dead_letters: bool = False,
    patience: float = 600.0,
    options: StreamOptions | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> MigrateStatusDocument:
    """Carry out a saved plan from wherever it is, until it is over or has waited `patience` seconds for somebody.

    `journal` is a folder or an address, `PLAN.journal` by default; `lease` is where the driver's lease is kept. Called
    again, by any process that sees the journal, it goes on. With `producers_stopped` those who do not acknowledge by
    themselves are taken to have stopped; with `allow_dead_letters` a mirror goes on past records that have no lane.
    """
    from keylane.pipelines.migrate_run import run_migrate

    return run_migrate(
        Path(plan),
        journal=journal,
        lease=lease,
        all_stopped=producers_stopped,
        allow_dead=allow_dead_letters,
        patience=patience,
        options=options,
        say=say,
    )


def migrate_status(
    plan: GivenPath, *, journal: str | None = None, options: StreamOptions | None = None
) -> MigrateStatusDocument:
    """How far the migration of a saved plan is. Nothing is changed."""
    from keylane.pipelines.migrate_run import status_migrate

    return status_migrate(Path(plan), journal=journal, options=options)


def migrate_rollback(
    plan: GivenPath,
    *,
    journal: str | None = None,
    lease: str | None = None,
    patience: float = 600.0,
    options: StreamOptions | None = None,
) -> MigrateStatusDocument:
    """Let producers go on under the old contract; TargetError once the stream has been given its new lanes."""
    from keylane.pipelines.migrate_run import rollback_migrate

    return rollback_migrate(Path(plan), journal=journal, lease=lease, patience=patience, options=options)


def migrate_verify(
    plan: GivenPath, *, journal: str | None = None, around: int | None = None, options: StreamOptions | None = None
) -> MigrateCertificateDocument:
    """The certificate of a migration, from its journal and the records of its stream.

    `around` reads so many offsets on each side of every fence only, and the certificate says so.
    """
    from keylane.pipelines.migrate_verify import verify_migrate

    return verify_migrate(Path(plan), journal=journal, around=around, options=options)
