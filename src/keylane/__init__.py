"""keylane: every key in its lane.

The file map, in the order a record travels. A package imports only from those above it, and
`tests/architecture` reads the imports to hold that:

    errors, records     values that everything speaks of: the error root, Placement, Finding
    geo                 places on the earth as cells, and tables of cells: the only room that knows H3
    contract            the promise: names, model, parse, answers, fingerprint, evolve
    keys                record -> routing key: fields, encodings, windows, the registry header
    hashing             routing key -> number: one algorithm a file, for one key and for a batch
    placement           number -> lane: folds, ranges, keyless, tables, hot keys, the named partitioners
    router, batches     the four steps on one page, for a record; the same over an Arrow batch
    matching            who is near whom, exactly: covers, timelines, offers
    measure             what data says: who wrote it (identify), whether it keeps its promise (check), who is heavy
    plan                strategies compared, a change priced, the budget of a cluster: from figures alone
    testing             shipped test kit: history checker, auditor of folders, golden vectors
    spark               the same decision as columns of a frame; a session that is right by itself
    systems             files, kafka, kinesis: the only rooms that know an SDK
    pipelines           read -> steps -> write: one module for each verb that runs on Spark
    report              what a person looks at: one HTML file that asks nothing of the network
    cli                 one file for each command; each returns data, one printer shows it

The public names below load on first use, so that `keylane explain` never pays for Arrow or pydantic.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from keylane.moved import Moved

if TYPE_CHECKING:
    from keylane.contract.answers import Answers, answers
    from keylane.contract.evolve import Change, Evolution, evolve
    from keylane.contract.model import Contract
    from keylane.contract.parse import load_contract, parse_contract
    from keylane.errors import KeylaneError
    from keylane.measure.identify import identify
    from keylane.placement.partitioners import partitioner
    from keylane.records import Finding, Placement, Reason
    from keylane.router import Router

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "Change",
    "Contract",
    "Evolution",
    "Finding",
    "KeylaneError",
    "Placement",
    "Reason",
    "Router",
    "__version__",
    "answers",
    "evolve",
    "identify",
    "load_contract",
    "parse_contract",
    "partitioner",
]

_HOME = {
    "Answers": "contract.answers",
    "Change": "contract.evolve",
    "Contract": "contract.model",
    "Evolution": "contract.evolve",
    "Finding": "records",
    "KeylaneError": "errors",
    "Placement": "records",
    "Reason": "records",
    "Router": "router",
    "answers": "contract.answers",
    "evolve": "contract.evolve",
    "identify": "measure.identify",
    "load_contract": "contract.parse",
    "parse_contract": "contract.parse",
    "partitioner": "placement.partitioners",
}

if Moved not in sys.meta_path:
    sys.meta_path.append(Moved)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'keylane' has no attribute {name!r}")
    return getattr(import_module(f"keylane.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
