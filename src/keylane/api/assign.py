"""`keylane assign` as a function. Other verbs: `verbs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from keylane.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from keylane.api.shards import GivenPath
    from keylane.documents.assign import AssignDocument

__all__ = ["assign"]


def assign(
    source: GivenPath | None = None,
    *,
    lanes: int | Sequence[int] | Mapping[str, int] | str | None = None,
    members: int | Sequence[str] | str | None = None,
    reads: Mapping[str, Sequence[str]] | None = None,
    racks: Mapping[str, str] | None = None,
    assignor: str | None = None,
    previous: GivenPath | None = None,
    loads: GivenPath | None = None,
    group: str | None = None,
    properties: Iterable[tuple[str, str]] = (),
    remove: Sequence[str] = (),
    add: Sequence[str] = (),
    bounce: Sequence[str] = (),
    rolling: bool = False,
    round_seconds: float = 3.0,
    restart_seconds: float = 30.0,
    restore_seconds: float = 0.0,
    static_members: bool = False,
) -> AssignDocument:
    """Who reads which lane, now and after members come, go or restart; without `assignor` all are compared.

    `source` is a file of a group, or `kafka://host:port` with `group`; otherwise `lanes` and `members` describe one.
    `previous` and `loads` are files, as of the command. `restore_seconds` is what restoring the state of one lane
    takes.
    """
    from keylane.groups.changes import WaitTiming
    from keylane.pipelines.assign import Wanted, assign_group

    for name, given in (("remove", remove), ("add", add), ("bounce", bounce)):
        if isinstance(given, str):
            raise ArgumentError.of(f"{name} is a list of members", got=given, hint=f"{name}=[{given!r}]")
    timing = WaitTiming(round_seconds, restart_seconds, restore_seconds)
    return assign_group(
        None if source is None else os.fspath(source),
        lanes=_lanes(lanes),
        members=_members(members),
        reads=[f"{name}={','.join(topics)}" for name, topics in (reads or {}).items()],
        racks=[f"{name}={rack}" for name, rack in (racks or {}).items()],
        previous=None if previous is None else Path(previous),
        loads=None if loads is None else Path(loads),
        group=group,
        properties=properties,
        assignor=assignor,
        wanted=Wanted(tuple(remove), tuple(add), tuple(bounce), rolling, timing, static_members),
    )


def _lanes(given: int | Sequence[int] | Mapping[str, int] | str | None) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int):
        return str(given)
    if hasattr(given, "items"):
        return ",".join(f"{topic}={count}" for topic, count in given.items())
    return ",".join(map(str, given))


def _members(given: int | Sequence[str] | str | None) -> str | list[str] | None:
    if given is None or isinstance(given, str):
        return given
    return str(given) if isinstance(given, int) else list(given)
