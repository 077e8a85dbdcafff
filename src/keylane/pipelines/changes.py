"""A saved plan that was carried out, as a route goes on behind it: which contract took the place of which, and where.

Two commands carry plans out: `migrate run`, whose journal says how far it is, and `apply`, which replaces the file of
the contract. What a route makes of it: `systems.messages.target`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.parse import load_contract
from keylane.documents.migrate import MigratePlanDocument
from keylane.errors import KeylaneError, UsageError
from keylane.migration.cutover import SWITCHED, phase_of
from keylane.pipelines.shards_files import text_in
from keylane.plan.saved import read_saved
from keylane.systems.endpoint import ContractChange, open_endpoint, parse_address
from keylane.systems.migration_journal import check_same_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.systems.endpoint import StreamOptions

#: Where the journal of a migration is, unless it is given: beside its plan.
JOURNAL_ENDING: Final = ".journal"


def with_change(options: StreamOptions, after: Sequence[str], journal: str | None) -> StreamOptions:
    """The options of a route that goes on behind the changes of saved plans, each from the contract of the one before.

    As they are where there is none.
    """
    if not after:
        if journal is not None:
            raise UsageError.of("a journal is that of a plan", got=journal, hint="--after PLAN")
        return options
    if journal is not None and len(after) > 1:
        hint = "leave each journal beside its plan; or one --after at a time"
        raise UsageError.of("one journal, and several plans", got=journal, hint=hint)
    changes = [change_of(Path(one), journal, options) for one in after]
    whole = changes[0]
    for one in changes[1:]:
        if one.old != whole.new:
            hint = "give the plans in the order in which they were carried out"
            raise UsageError.of(f"{one.plan} does not begin where {whole.plan} ends", got=one.old[:12], hint=hint)
        whole = _joined(whole, one)
    return replace(options, after=whole)


def _joined(first: ContractChange, then: ContractChange) -> ContractChange:
    """Both as one change, from the first contract to the last."""
    return replace(
        first,
        plan=f"{first.plan} --after {then.plan}",
        new=then.new,
        new_stream=then.new_stream or first.new_stream,
        old_address=first.old_address or then.old_address,
        unfinished=first.unfinished or then.unfinished,
    )


def change_of(path: Path, journal: str | None, options: StreamOptions) -> ContractChange:
    """The change that a saved plan is: of `keylane plan --out`, or of `keylane migrate plan --out`."""
    text = text_in(path)
    try:
        schema = json.loads(text).get("schema")
    except (ValueError, AttributeError, RecursionError):
        schema = None
    if schema == "keylane.saved-plan/1":
        return _applied(path, text)
    if schema == MigratePlanDocument.model_fields["schema_"].default:
        return _migrated(path, json.loads(text), journal or f"{path}{JOURNAL_ENDING}", options)
    hint = "what keylane migrate plan --out or keylane plan --out has saved"
    raise UsageError.of("not a saved plan", got=str(path), hint=hint)


def _migrated(path: Path, document: Any, journal: str, options: StreamOptions) -> ContractChange:
    """A migration is carried out once its journal lets producers go on under the new contract."""
    plan = MigratePlanDocument.from_json(document)
    if plan.observed is None:
        raise UsageError.of("the plan is from contracts alone, and was not carried out", got=str(path))
    found = open_endpoint(journal, replace(options, after=None)).migration_journal()
    is_new = check_same_plan(found.plan(), plan.as_json(), journal)
    phase = None if is_new else phase_of(found.entries())
    unfinished = "" if phase in SWITCHED else f"{journal} is at {phase or 'no entry at all'}"
    old, new = plan.observed.address, plan.new.address if plan.mode == "mirror" else None
    names = (parse_address(old).name, parse_address(new or old).name)
    prints = (plan.old.fingerprint, plan.new.fingerprint)
    return ContractChange(str(path), *prints, plan.old.file, *names, old if new else "", unfinished)


def _applied(path: Path, text: str) -> ContractChange:
    """A plan is applied where the file of its contract has the planned one."""
    saved = read_saved(text, str(path))
    if saved.contract is None or saved.bound.contract.fingerprint is None:
        hint = "today's contract stays, so that the route goes on as it is" if saved.contract is None else ""
        raise UsageError.of("the plan does not put one contract in the place of another", got=str(path), hint=hint)
    file = saved.bound.contract.path
    try:
        there = load_contract(file).fingerprint
    except KeylaneError as error:
        there = str(error)
    planned = saved.contract.fingerprint
    unfinished = "" if there == planned else f"{file} does not have the planned contract"
    return ContractChange(str(path), saved.bound.contract.fingerprint, planned, unfinished=unfinished)
