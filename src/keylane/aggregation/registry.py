"""The rules of a registry of standing queries, wherever it is kept: what may be added, and what a change changes.

Every change gives the registry its next version, and is made as a whole or not at all. Versions are numbers, and a
registry that was restored from an older copy and changed again has one of them twice: so each has a digest, too, of the
change and of the digest before it (`next_digest`). Whoever keeps a version keeps its digest, and notices. A running
pipeline takes a snapshot at the border of each batch and writes it down with the batch, so that a batch that is made
again has the same queries. An id means one query for ever: a removed one keeps its id, so that the windows of two
queries never share a place in the results. Where registries are kept: `systems.query_registry`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from keylane.errors import UnknownNameError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keylane.aggregation.query import Query

Status: TypeAlias = Literal["active", "paused", "removed"]
_WORDS: Final[Mapping[str, Status]] = {"pause": "paused", "resume": "active", "remove": "removed"}


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a registry, as it was given, and the version that changed it last."""

    id: str
    definition: dict[str, Any]
    status: Status
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """A registry at one moment: its version with its digest, and the definitions of the queries that run."""

    version: int
    active: tuple[dict[str, Any], ...]
    digest: str = ""


class QueryRegistry(Protocol):
    """An open registry, in whatever it is kept. `systems.query_registry.open_queries` opens one."""

    def add(self, queries: Sequence[Query]) -> tuple[int, list[str]]:
        """Register all or none: the version, and the ids that are new. A query that is there already stays as it is.

        One that was paused or removed, and is given again as it was, runs again.
        """
        ...

    def change(self, ids: Sequence[str], what: str) -> tuple[int, list[str]]:
        """Pause, resume or remove queries, all or none: the version, and the ids that changed."""
        ...

    def all(self) -> list[Registered]:
        """Every query, by id; removed ones too."""
        ...

    def snapshot(self) -> RegistrySnapshot:
        """The registry as it is now; its version and its queries are of one moment."""
        ...

    def version(self) -> int:
        """The number of changes so far."""
        ...

    def digest_of(self, version: int) -> str:
        """The digest of all changes up to a version; nothing where it is not known any more."""
        ...


def added(known: Mapping[str, Registered], queries: Sequence[Query], version: int) -> list[Registered]:
    """What a registry is to write for these queries; an error where another query has one of their ids."""
    new = []
    for query in queries:
        there = known.get(query.id)
        if there is not None and there.definition != query.as_json():
            raise UsageError.of(
                f"another query has the id {query.id}; nothing was registered",
                got=query.definition,
                allowed=json.dumps(there.definition, ensure_ascii=False),
                hint="choose a new id: an id means one query for ever, removed ones too",
            )
        if there is None or there.status != "active":
            new.append(Registered(query.id, query.as_json(), "active", version))
    return new


def changed(known: Mapping[str, Registered], ids: Sequence[str], what: str, version: int) -> list[Registered]:
    """What a registry is to write to pause, resume or remove queries; an error where one is not there."""
    new = []
    for one in ids:
        there = known.get(one)
        if there is None or there.status == "removed":
            hint = did_you_mean(one, known) or "keylane aggregate queries list"
            raise UnknownNameError.of("no such query in the registry; nothing was changed", got=one, hint=hint)
        if there.status != _WORDS[what]:
            new.append(replace(there, status=_WORDS[what], version=version))
    return new


def snapshot_of(known: Mapping[str, Registered], version: int, digest: str) -> RegistrySnapshot:
    """The queries of a registry that run, by id."""
    active = (known[one].definition for one in sorted(known) if known[one].status == "active")
    return RegistrySnapshot(version, tuple(active), digest)


def next_digest(before: str, new: Sequence[Registered]) -> str:
    """The digest of a version: of the one before it, and of what the change has written.

    >>> one = Registered("q", {"id": "q"}, "active", 1)
    >>> next_digest("", [one]) == next_digest("", [one]) != next_digest("", [replace(one, status="paused")])
    True
    """
    rows = [[one.id, one.definition, one.status, one.version] for one in sorted(new, key=lambda one: one.id)]
    text = json.dumps([before, rows], ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
