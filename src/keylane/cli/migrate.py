"""`keylane migrate plan`: how a stream gets to another contract or lane count, before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from keylane.cli.options import client_options, properties_from
from keylane.cli.output import Result, Section, output_option
from keylane.numbers import count, plural, share

if TYPE_CHECKING:
    from keylane.documents.migrate import MigratePlanDocument

PENDING: Final = 3
STEPS: Final = ("step", "who", "action", "command")
DRAIN: Final = ("lane", "waits_for")
#: New lanes that a table shows; all of them are in the other formats.
SHOWN: Final = 48


@click.group(short_help="Another contract or lane count for a stream: what moves, and who waits for whom.")
def migrate() -> None:
    """Another contract or lane (partition) count for a stream, with the order of every key kept.

    \b
    keylane migrate plan old.yaml new.yaml     what moves, who waits for whom, and in which steps
    """


@migrate.command(short_help="What moves, who waits for whom, and in which steps.")
@click.argument("old", type=click.Path(), metavar="OLD.yaml")
@click.argument("new", type=click.Path(), metavar="NEW.yaml")
@click.option("--from", "source", metavar="ADDRESS", help="The stream as it is: it is asked for its lanes.")
@click.option("--to", "target", metavar="ADDRESS", help="The stream as it will be: the same one, or another.")
@click.option("--old-lanes", type=click.IntRange(min=1), help="The lane count of OLD.yaml, where it has live lanes.")
@click.option("--new-lanes", type=click.IntRange(min=1), help="The lane count of NEW.yaml, where it has live lanes.")
@click.option("--mode", type=click.Choice(("in-place", "mirror")), help="Default: in place wherever that is possible.")
@client_options
@output_option
def plan(
    old: str,
    new: str,
    source: str | None,
    target: str | None,
    old_lanes: int | None,
    new_lanes: int | None,
    mode: Any,
    output: str,
    **options: Any,
) -> tuple[Result, str]:
    """Plan the change of a stream from the contract OLD to the contract NEW. Nothing is changed.

    In place, producers stop at a fence, the stream grows, and each new lane is applied after the old lanes whose keys
    it takes over. By a mirror, records are copied into another stream, and producers and readers switch. Without
    addresses the plan is from the contracts alone.

    \b
    keylane migrate plan payments-12.yaml payments-24.yaml
    keylane migrate plan old.yaml new.yaml --from kafka://broker:9092/payments --to kafka://broker:9092/payments.v2

    Exit codes: 0 nothing to do; 3 there are steps; 2 impossible, with the reason.
    """
    from keylane.pipelines.migrate import plan_migrate
    from keylane.systems.endpoint import StreamOptions

    document = plan_migrate(
        old,
        new,
        source=source,
        target=target,
        lanes=(old_lanes, new_lanes),
        mode=mode,
        options=StreamOptions(properties_from(options)),
    )
    return _result(document), output


def _result(document: MigratePlanDocument) -> Result:
    steps = Section(STEPS, document.steps, "Steps, in order; -o json says why each is needed:")
    rows = [{"lane": lane, "waits_for": ", ".join(map(str, old))} for lane, old in document.drain.items()]
    title = "Each new lane (partition) waits for these old lanes to be drained to their fence:"
    if len(rows) > SHOWN:
        title = f"The first {SHOWN} of {count(len(rows))} new lanes wait for these old lanes; -o json has all:"
    sections = [steps, Section(DRAIN, rows[:SHOWN] if document.steps else [], title)]
    breaks = [f"note: {text}" for text in document.breaks]
    return Result(document, sections, breaks, PENDING if document.steps else 0, _answer(document))


def _answer(document: MigratePlanDocument) -> list[str]:
    if not document.steps:
        return [f"nothing to do: {document.reason}"]
    mode = "In place" if document.mode == "in-place" else "By a mirror"
    return [f"{mode}: {document.reason}", _moved(document), _waits(document)]


def _moved(document: MigratePlanDocument) -> str:
    if document.moved_share is None:
        text = "no key is placed by its hash on both sides"
    else:
        text = f"{share(document.moved_share)} of hashed keys change lane"
    if not document.named_keys:
        return text
    moved = f"{count(document.named_keys_moved)} of {plural(document.named_keys, 'key')} that a rule names"
    return f"{text}, and {moved}"


def _waits(document: MigratePlanDocument) -> str:
    parents, lanes = document.parents_at_most, document.old.lanes
    if not parents:
        return "no new lane waits for an old one: no order of a key is kept"
    return f"each new lane waits for at most {count(parents)} of {plural(lanes, 'old lane')}"
