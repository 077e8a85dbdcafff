"""keylane: every key in its lane.

The packages, in the order a record travels. A package imports only from those above it, and `tests/architecture` reads
the imports to hold that. Every module with its purpose: the file map in docs/architecture.md.

    errors, records       values that everything uses: the error root, Placement, Reason, Finding
    extras                the command that installs a part of keylane where this one came from
    numbers               how counts, shares, sizes and times are written, everywhere
    formulas              the guard against formulas in CSV, put on and taken off
    private               folders and files out of the reach of other users, and temporary ones that no kill leaves
    geo                   locations as H3 cells, and tables of cells; the only package that imports H3
    contract              the promise: model, parser, validation, fingerprint, evolution
    keys                  record -> routing key: fields, encodings, windows
    hashing               routing key -> number: one algorithm a file, for one key and for a batch
    placement             number -> lane: folds, ranges, keyless rules, tables, hot keys, the named partitioners
    router, batch_router  the four steps on one page, for a record; the same over an Arrow batch
    keyspace              the 128-bit key space of shards: hash keys, layouts, splits and merges
    groups                who reads which lane: members, assignors, coordinator, leases
    matching              which drivers are near which riders, exactly
    migration             another contract or lane count for a stream: what moves, and which lane waits for which
    aggregation           standing queries: what is allowed, which lane a window is in, whether results are in order
    history               the history checker: the rules that `verify` judges by
    documents             what commands print with `-o json`, as models; the JSON Schemas come from them
    measure               what data shows: its writers, conformance, co-partitioning, balance, hot lanes
    profile               every key of a stream with its records by window, as values
    plan                  strategies compared and a change priced, from a profile alone
    brokers               what the brokers of a cluster carry, and the least that has to move
    testing               the test kit that ships: history checker, auditor of folders, golden vectors
    spark                 the same decision as columns of a frame; session, readers, writers, counters
    systems               files, folders, Kafka, Kinesis behind one endpoint; the only package that imports SDKs
    pipelines             read -> steps -> write: one package or module for each verb that runs on Spark
    report                HTML pages and charts: one file each, no network
    cli                   one file for each command; each returns data, one printer shows it
    api                   the verbs as functions: `keylane.profile`, `plan`, `check` and the others are these
    first_moment          Ctrl-C while the command is still being imported
    moved                 old names of modules, for imports written for earlier versions

The public names below load on first use, so that `keylane explain` never pays for Arrow or pydantic.

`keylane.profile` and `keylane.plan` are packages and verbs: modules that can be called. What is imported first makes no
difference.
"""

from __future__ import annotations

import keylane.first_moment  # noqa: F401  what it does is done before anything else is imported

# isort: split
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keylane.moved import Moved

if TYPE_CHECKING:
    from keylane.api.aggregate import add_queries, aggregate
    from keylane.api.assign import assign
    from keylane.api.migrate import migrate_plan, migrate_rollback, migrate_run, migrate_status, migrate_verify
    from keylane.api.progress import Progress
    from keylane.api.shards import shards_apply, shards_plan
    from keylane.api.verbs import check, dry_run, explain, find, identify, init, match, plan, profile, route, verify
    from keylane.contract.answers import Answers, answers
    from keylane.contract.evolve import Change, Evolution, evolve
    from keylane.contract.model import Contract
    from keylane.contract.parse import load_contract, parse_contract
    from keylane.errors import KeylaneError
    from keylane.migration.gate import LaneGate
    from keylane.placement.partitioners import partitioner
    from keylane.records import Finding, Placement, Reason
    from keylane.router import Router
    from keylane.systems.endpoint import StreamOptions
    from keylane.systems.migration_journal import migration_gate
    from keylane.systems.read_range import ReadRange

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "Change",
    "Contract",
    "Evolution",
    "Finding",
    "KeylaneError",
    "LaneGate",
    "Placement",
    "Progress",
    "ReadRange",
    "Reason",
    "Router",
    "StreamOptions",
    "__version__",
    "add_queries",
    "aggregate",
    "answers",
    "assign",
    "check",
    "dry_run",
    "evolve",
    "explain",
    "find",
    "identify",
    "init",
    "load_contract",
    "match",
    "migrate_plan",
    "migrate_rollback",
    "migrate_run",
    "migrate_status",
    "migrate_verify",
    "migration_gate",
    "parse_contract",
    "partitioner",
    "plan",
    "profile",
    "route",
    "shards_apply",
    "shards_plan",
    "verify",
]

_HOME = {
    "Answers": "contract.answers",
    "Change": "contract.evolve",
    "Contract": "contract.model",
    "Evolution": "contract.evolve",
    "Finding": "records",
    "KeylaneError": "errors",
    "Placement": "records",
    "Progress": "api.progress",
    "ReadRange": "systems.read_range",
    "Reason": "records",
    "Router": "router",
    "StreamOptions": "systems.endpoint",
    "answers": "contract.answers",
    "add_queries": "api.aggregate",
    "aggregate": "api.aggregate",
    "assign": "api.assign",
    "evolve": "contract.evolve",
    "check": "api.verbs",
    "dry_run": "api.verbs",
    "explain": "api.verbs",
    "find": "api.verbs",
    "identify": "api.verbs",
    "init": "api.verbs",
    "match": "api.verbs",
    "LaneGate": "migration.gate",
    **dict.fromkeys(
        ("migrate_plan", "migrate_rollback", "migrate_run", "migrate_status", "migrate_verify"), "api.migrate"
    ),
    "migration_gate": "systems.migration_journal",
    "route": "api.verbs",
    "shards_apply": "api.shards",
    "shards_plan": "api.shards",
    "verify": "api.verbs",
    "load_contract": "contract.parse",
    "parse_contract": "contract.parse",
    "partitioner": "placement.partitioners",
}

#: Verbs that have the name of a package.
_CALLED = ("plan", "profile")


class _Verb(ModuleType):
    """A package that is a verb too: called, it is the function of `api.verbs` of its name."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.__wrapped__(*given, **named)

    @property
    def __wrapped__(self) -> Any:
        """The function, for `inspect.signature` and editors."""
        return getattr(import_module("keylane.api.verbs"), self.__name__.rpartition(".")[2])


class _Package(ModuleType):
    """keylane itself. Python's import sets a package as an attribute here: that is when a verb becomes callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and type(value) is ModuleType:
            value.__class__ = _Verb
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if Moved not in sys.meta_path:
    sys.meta_path.append(Moved)


def __getattr__(name: str) -> Any:
    if name in _CALLED:
        return import_module(f"keylane.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'keylane' has no attribute {name!r}")
    return getattr(import_module(f"keylane.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
