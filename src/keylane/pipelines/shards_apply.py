"""`shards apply`: a saved plan of splits and merges, on the stream it was made of. The rules: `systems.resharding`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from keylane.documents.shards import AppliedCall, ShardRow, ShardsApplyDocument, ShardsPlanDocument
from keylane.errors import DataError, UnreadableError, UsageError
from keylane.systems.endpoint import open_endpoint, parse_address
from keylane.systems.resharding import Waiting, carry_out, check_stream, open_record, position

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from keylane.systems.resharding import PlanRecord, StreamState

RECORD_ENDING: Final = ".record"


def read_shards_plan(path: Path) -> tuple[ShardsPlanDocument, str]:
    """The plan in a file, and its text; UsageError where it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError.of("the file is not UTF-8", got=str(path)) from None
    except OSError as error:
        raise UnreadableError.of(f"the file cannot be read: {error.strerror}", got=str(path)) from error
    hint = "keylane shards plan --out FILE saves one"
    try:
        return ShardsPlanDocument.from_json(json.loads(text)), text
    except (ValueError, RecursionError, DataError):
        raise UsageError.of("not a saved plan of shards", got=str(path), hint=hint) from None


def apply_shards(
    path: Path,
    *,
    stream: str | None = None,
    record: Path | None = None,
    yes: bool = False,
    waiting: Waiting | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> ShardsApplyDocument:
    """Carry a saved plan out with `yes`, otherwise look how far it is; `stream` where the plan names no address."""
    plan, text = read_shards_plan(path)
    address = parse_address(stream or plan.source)
    if address.is_path:
        hint = "--stream ADDRESS"
        raise UsageError.of("the plan was made of a file, and does not name its stream", got=plan.source, hint=hint)
    kept = record or path.with_name(path.name + RECORD_ENDING)
    resharder = open_endpoint(address).resharder()
    with open_record(kept, text, str(address)) as known:
        if yes:
            before = known.done
            wait = waiting or Waiting(time.monotonic, time.sleep)
            done = carry_out(plan, resharder, known, wait, say).done
            return _document(path, plan, str(address), kept, resharder.state(), done, done - before, applied=True)
        state = resharder.state()
        done = _looked_at(plan, known, state)
        return _document(path, plan, str(address), kept, state, done, 0, applied=False)


def _looked_at(plan: ShardsPlanDocument, known: PlanRecord, state: StreamState) -> int:
    """How far the plan is; of a stream that is being changed what the record says."""
    if not state.active:
        return known.done
    check_stream(plan, state)
    return position(plan, known, state)


def _document(
    path: Path,
    plan: ShardsPlanDocument,
    stream: str,
    record: Path,
    state: StreamState,
    done: int,
    now: int,
    *,
    applied: bool,
) -> ShardsApplyDocument:
    return ShardsApplyDocument(
        plan=str(path),
        stream=stream,
        record=str(record),
        applied=applied,
        done=done,
        now=now,
        left=len(plan.calls) - done,
        calls=[
            AppliedCall(step=n, call=call.call, at=call.at, state="done" if n <= done else "left")
            for n, call in enumerate(plan.calls, 1)
        ],
        layout=[ShardRow(id=one.id, start=str(one.start), end=str(one.end), load=None) for one in state.layout.open],
    )
