"""`route --dry-run`: what a route would read, decide, create and write. Nothing is written, and Spark is not started.

Lanes are decided for a sample, by the router that a route has. The route itself: `route`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from keylane.batch_router import REASONS, decide
from keylane.contract.fields import FieldSpec, fields_of
from keylane.documents.route import DryRunDocument, RoutedLane
from keylane.numbers import count
from keylane.router import Router
from keylane.systems.endpoint import open_endpoint
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from keylane.contract.model import Contract
    from keylane.pipelines.engine import Watch
    from keylane.systems.endpoint import StreamOptions

#: Records that are decided.
SAMPLE: Final = 10_000


def dry_run(
    contract: Contract,
    source: str,
    target: str,
    *,
    options: StreamOptions,
    lanes: int | None = None,
    stream: str | None = None,
    most: int = SAMPLE,
    watch: Watch = iter,
) -> DryRunDocument:
    """Look at source and target, and decide the lanes of a sample; `watch` sees its batches go by."""
    start, end = open_endpoint(source, options), open_endpoint(target, options)
    end.check_apart(start)
    start.check_source(contract, end)
    plan = end.outlook(contract, lanes, stream)
    router = Router(contract, lanes=plan.lanes if contract.spec.lanes == "live" else lanes, stream=stream)
    if start.messages:
        start = open_endpoint(source, replace(options, read_range=ReadRange(most=most)))
    fields = FieldSpec.of(contract)
    fields = fields.keyed_by(contract.spec.key) if start.messages and options.value is None else fields
    described = start.describe(fields)
    dead: dict[str, int] = {}
    read = 0
    counts: dict[str, NDArray[np.int64]] = {}
    for batch in watch(described.batches(fields_of(contract))):
        some = batch.slice(0, most - read)
        decided = decide(router, some, np.arange(read, read + len(some)))
        read += len(some)
        for code, number in zip(*np.unique(decided.reason[decided.reason >= 0], return_counts=True), strict=True):
            dead[str(REASONS[code])] = dead.get(str(REASONS[code]), 0) + int(number)
        for number, name in enumerate(decided.streams):
            width = contract.tiers.get(name, router.lane_count)
            here = decided.lane[(decided.reason < 0) & (decided.stream == number)]
            counts[name] = counts.get(name, np.zeros(width, np.int64)) + np.bincount(here, minlength=width)
        if read >= most:
            break
    return DryRunDocument(
        contract=contract.metadata.name,
        fingerprint=contract.fingerprint,
        source=str(start.address),
        target=str(end.address),
        sampled=read,
        sample=described.sampled or (f"the first {count(read)} records" if read >= most else "all records"),
        lanes=[
            RoutedLane(stream=name, lane=lane, records=int(records))
            for name, several in counts.items()
            for lane, records in enumerate(several)
        ],
        dead=dead,
        creates=list(plan.creates),
        writes=list(plan.writes),
    )
