"""`identify`: who wrote a stream, from one pass over it in this process. How it is told: `measure.identify`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from keylane.contract.fields import FieldSpec
from keylane.documents.identify import IdentifiedWriter, IdentifyDocument
from keylane.measure import identify as evidence
from keylane.pipelines.check import columns_of
from keylane.systems.endpoint import StreamOptions, open_endpoint

if TYPE_CHECKING:
    from keylane.measure.identify import Identification
    from keylane.pipelines.engine import Watch


def identify(
    source: str,
    *,
    key: str | None = None,
    lane: str | None = None,
    lanes: int | None = None,
    options: StreamOptions | None = None,
    watch: Watch = iter,
) -> Identification:
    """The writers of a file, a folder or a topic; `watch` sees its batches go by."""
    stream = open_endpoint(source, options or StreamOptions()).describe(FieldSpec((key,) if key else ()))
    batches = watch(stream.batches(columns_of(stream, key=key, lane=lane)))
    found = evidence.identify(batches, stream.lanes if lanes is None else lanes)
    skipped = (stream.skipped.text,) if stream.skipped.lines else ()
    return replace(found, notes=(*skipped, *found.notes))


def document_of(found: Identification) -> IdentifyDocument:
    """What was found, as it is printed."""
    return IdentifyDocument(
        verdict=found.verdict,
        writers=[
            IdentifiedWriter(
                partitioner=writer.partitioner,
                share=round(writer.share, 6),
                encoding=writer.encoding,
                also=list(writer.also),
                fitting_keys=writer.fitting_keys,
                chance=writer.chance,
                setting=writer.setting,
                lanes=writer.lanes,
            )
            for writer in found.writers
        ],
        lanes=found.lanes,
        lanes_from=found.lanes_from,
        rows=found.rows,
        keyed_rows=found.keyed_rows,
        null_rows=found.null_rows,
        empty_rows=found.empty_rows,
        distinct_keys=found.distinct_keys,
        unexplained_rows=found.unexplained_rows,
        notes=list(found.notes),
    )
