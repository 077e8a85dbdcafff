"""`keylane apply`: carries out a plan that was saved: the contract, its streams, and what is left to people."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import Applies, check_applies, client_options, properties_from
from keylane.cli.output import Result, Section, output_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.contract.model import Contract
    from keylane.documents.apply import AppliedContract, AppliedStream, ApplyDocument, BoundSource, SavedPlan
    from keylane.systems.endpoint import Endpoint

PENDING: Final = 3
#: How much of a stream is checked after a change: what came before it has the old placement.
SETTLED: Final = "10m"
AGAIN: Final = "what it was made from has changed: run keylane plan again"


@click.command(short_help="Carry out a saved plan: the contract and its streams; dry without --yes.")
@click.argument("plan", type=click.Path(), metavar="PLAN")
@click.option("--yes", is_flag=True, help="Do it; otherwise only what would be done is printed.")
@click.option(
    "--streams", "at", metavar="ADDRESS", help="Where the contract's streams are; default: the plan's source."
)
@client_options
@output_option
def apply(plan: str, yes: bool, at: str | None, output: str, **kafka: Any) -> tuple[Result, str]:
    """Carry out PLAN, a file that `keylane plan --out` saved.

    Without --yes nothing is changed: what would be done is printed, with the diff of the contract. With it, missing
    streams are created, then the contract is written in the place of today's: only what the plan changes differs, and
    comments, order and quotes stay. What only people can do is printed, with the commands for it: settings
    of producers, the drain of consumers, lanes added to a topic in use. A plan is bound to what it was made from: the
    contract file, the profile, the topic and its lanes. Where one of them has changed, nothing is done.

    \b
    keylane plan payments.profile --contract payments.yaml --out plan.json
    keylane apply plan.json
    keylane apply plan.json --yes

    Exit codes: 0 done, or nothing to do; 3 something would be done; 1 refused or failed; 2 usage.
    """
    from keylane.contract.parse import parse_contract
    from keylane.plan.saved import read_saved
    from keylane.systems.endpoint import open_endpoint

    saved = read_saved(Path(plan).read_text(encoding="utf-8-sig", errors="replace"), plan)
    check_applies(
        Applies(("at",), lambda: at is not None and open_endpoint(at).own_lanes, "a topic or a stream"),
        Applies(("pairs", "file"), lambda: _asks_kafka(saved, at), "a topic of Kafka"),
    )
    properties = properties_from(kafka)
    if saved.contract is None:
        return _result(_document(plan, saved, None, [], None)), output
    contract = parse_contract(saved.contract.text, plan)
    endpoint = _endpoint(saved, at, properties)
    file = _file(saved)
    streams = _streams(contract, endpoint)
    if yes:
        file, streams = _carried_out(saved, file, streams, endpoint)
    return _result(_document(plan, saved, file, streams, endpoint, contract, applied=yes)), output


def _endpoint(saved: SavedPlan, at: str | None, properties: tuple[tuple[str, str], ...]) -> Endpoint | None:
    """Where the streams are, if they have lanes of their own; the source must be the one that was counted."""
    from keylane.systems.endpoint import StreamOptions, open_endpoint

    options, source = StreamOptions(properties=properties), saved.bound.source
    _check_profile(source)
    seen = open_endpoint(source.address, options)
    if seen.own_lanes:
        _check_source(source, seen)
    found = seen if at is None else open_endpoint(at, options)
    return found if found.own_lanes else None


def _asks_kafka(saved: SavedPlan, at: str | None) -> bool:
    from keylane.systems.endpoint import open_endpoint

    return any(open_endpoint(one).connector for one in (saved.bound.source.address, at) if one is not None)


def _check_profile(source: BoundSource) -> None:
    from keylane.systems.profiles import read_profile

    # One that is gone is noted; one that is no profile any more has changed.
    if source.profile is None or not Path(source.profile).exists():
        return
    found = read_profile(Path(source.profile)).fingerprint
    if found != source.profile_fingerprint:
        _refuse("the profile is not the one that the plan was made from", found[:16], source.profile_fingerprint[:16])


def _check_source(source: BoundSource, seen: Endpoint) -> None:
    name = seen.address.name
    there = seen.lanes_there([name])[name]
    if not there or (source.lanes is not None and there != source.lanes):
        _refuse(f"{name} has another lane count than when the plan was made", there, str(source.lanes or "some"))
    now = seen.identity() if source.id else ""
    if source.id and now and now != source.id:
        _refuse(f"{name} was deleted and created again", now, source.id)


def _refuse(what: str, got: object, allowed: str) -> None:
    from keylane.errors import TargetError

    raise TargetError.of(f"{what}; nothing was done", got=got, allowed=allowed, hint=AGAIN)


def _file(saved: SavedPlan) -> AppliedContract:
    """The contract's file: as it was when the plan was made, or as the plan leaves it."""
    from keylane.documents.apply import AppliedContract

    assert saved.contract is not None
    bound, path = saved.bound.contract, Path(saved.bound.contract.path)
    there = path.read_bytes() if path.exists() else None
    digest = None if there is None else hashlib.sha256(there).hexdigest()
    wanted = hashlib.sha256(saved.contract.text.encode()).hexdigest()
    if digest not in (bound.digest, wanted):
        _refuse(
            f"{path} has changed since the plan was made", (digest or "no file")[:16], (bound.digest or "no file")[:16]
        )
    action: Any = "in-place" if digest == wanted else "write"
    return AppliedContract(
        path=str(path),
        action=action,
        epoch=saved.contract.epoch,
        fingerprint=saved.contract.fingerprint,
        diff=_diff(there, saved.contract.text, _typed(str(path))) if action == "write" else "",
    )


def _diff(there: bytes | None, text: str, name: str) -> str:
    """The change of the file as `diff -u` writes it, which `git apply` and `patch` take."""
    from difflib import unified_diff

    before = "" if there is None else there.decode("utf-8", "replace")
    names = ("/dev/null" if there is None else f"a/{name}", f"b/{name}")
    lines = unified_diff(before.splitlines(keepends=True), text.splitlines(keepends=True), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _streams(contract: Contract, endpoint: Endpoint | None) -> list[AppliedStream]:
    """Every stream of the contract and of its tiers, as the cluster has it where there is one."""
    from keylane.plan.saved import streams_of

    names = [*contract.spec.streams, *contract.tiers]
    return streams_of(contract, endpoint.lanes_there(names) if endpoint else None)


def _carried_out(
    saved: SavedPlan, file: AppliedContract, streams: list[AppliedStream], endpoint: Endpoint | None
) -> tuple[AppliedContract, list[AppliedStream]]:
    """The streams first, the contract last: a run that was cut short is repeated, and finds what is there."""
    from keylane.systems.atomic import replace_text

    assert saved.contract is not None
    made = [_created(one, endpoint) for one in streams]
    if file.action == "write":
        # Looked at once more under a lock: another apply may have been quicker.
        replace_text(Path(file.path), saved.contract.text, lambda: _file(saved))
        file = file.model_copy(update={"action": "written"})
    return file, made


def _created(one: AppliedStream, endpoint: Endpoint | None) -> AppliedStream:
    if one.action != "create" or endpoint is None or one.lanes is None:
        return one
    endpoint.create_stream(one.stream, one.lanes)
    there = endpoint.lanes_there([one.stream])[one.stream]
    if there != one.lanes:
        _refuse(f"{one.stream} was created with another lane count by somebody else", there, str(one.lanes))
    return one.model_copy(update={"action": "created", "there": there})


def _document(
    plan: str,
    saved: SavedPlan,
    file: AppliedContract | None,
    streams: list[AppliedStream],
    endpoint: Endpoint | None,
    contract: Contract | None = None,
    *,
    applied: bool = False,
) -> ApplyDocument:
    from keylane.documents.apply import ApplyDocument
    from keylane.plan.saved import by_hand

    # As it would be typed here: commands that people copy are short.
    path = _typed(saved.bound.contract.path)
    commands = endpoint.commands_for({one.stream: one.lanes or 1 for one in streams}) if endpoint else {}
    later = _later(contract, endpoint) if contract else None
    left = [one for one in streams if one.action == "create"]
    return ApplyDocument(
        plan=plan,
        applied=applied,
        pending=bool(file and file.action == "write") or bool(left),
        contract=file,
        streams=streams,
        by_hand=by_hand(saved.plan, contract, path, streams, commands, later) if contract else [],
        notes=list(_notes(saved, endpoint)) if contract else ["today's contract stays: there is nothing to do"],
    )


def _typed(path: str) -> str:
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _later(contract: Contract, endpoint: Endpoint | None) -> list[str] | None:
    """The contract's streams as `keylane check` reads what has come into them of late."""
    if endpoint is None:
        return None
    part = f" --last {SETTLED}" if endpoint.messages else ""
    return [f"{replace(endpoint.address, name=name)}{part}" for name in contract.spec.streams]


def _notes(saved: SavedPlan, endpoint: Endpoint | None) -> Iterator[str]:
    source = saved.bound.source
    if endpoint is None:
        yield "no stream was looked at: --streams kafka://HOST:PORT/TOPIC says where they are"
    elif not source.id:
        yield "the plan does not know the topic's id: whether it was created again since was not compared"
    if source.profile is not None and not Path(source.profile).exists():
        yield f"the profile is not at {source.profile} any more, and was not compared"


def _result(document: ApplyDocument) -> Result:
    rows: list[dict[str, Any]] = [
        *(
            [{"what": "contract", "name": _typed(document.contract.path), "action": document.contract.action}]
            if document.contract
            else []
        ),
        *(
            {"what": "stream", "name": one.stream, "lanes": one.lanes, "there": one.there, "action": one.action}
            for one in document.streams
        ),
    ]
    lines = list(_lines(document))
    return Result(
        document,
        [Section(("what", "name", "lanes", "there", "action"), rows)],
        lines,
        PENDING if document.pending else 0,
        diff=document.contract.diff if document.contract else "",
    )


def _has_done(document: ApplyDocument) -> bool:
    """Whether this run has changed anything."""
    written = document.contract is not None and document.contract.action == "written"
    return document.applied and (written or any(one.action == "created" for one in document.streams))


def _lines(document: ApplyDocument) -> Iterator[str]:
    if document.contract is None:
        yield "Nothing to do: today's contract stays."
        return
    if document.pending:
        yield "Nothing was changed. The same command with --yes does what is listed above."
    elif any(one.action == "not-checked" for one in document.streams):
        done, state = (
            ("Done", "written") if _has_done(document) else ("Nothing is left to do for this command", "in place")
        )
        yield f"{done}: the contract is {state}; not every stream was looked at."
    else:
        yield "Done." if _has_done(document) else "Nothing is left to do for this command: all of it is in place."
    if document.by_hand:
        yield "What only people can do:"
    for number, one in enumerate(document.by_hand, 1):
        yield f"  {number}. {one.who}: {one.what}"
        yield from (f"     {command}" for command in one.commands)
    yield from (f"  {note}" for note in document.notes)
