"""`keylane verify`: is a target what source and contract make of it? A certificate, or what is wrong or not proven."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import click

from keylane import numbers
from keylane.cli.options import (
    LANE_COUNT,
    Applies,
    check_applies,
    check_sources,
    reading_applies,
    reading_from,
    reading_options,
)
from keylane.cli.output import CERTIFICATE_CODES, Result, Section, output_option

if TYPE_CHECKING:
    from keylane.documents.verify import VerifyDocument
    from keylane.history.verdict import Rule, Unproven
    from keylane.pipelines.verify import Verified

#: Lanes that a table shows; all of them are in the JSON.
SHOWN_LANES: Final = 32


@click.command(short_help="Is every record of a source once, in order and in its lane in a target?")
@click.option(
    "--source", required=True, metavar="SRC", help="Where the records came from: a file, a folder, a topic, a stream."
)
@click.option(
    "--target", required=True, metavar="DST", help="Where they went: a folder, topic or stream written by route."
)
@click.option("--contract", "-c", type=click.Path(), help="Check lanes and keys too, against this contract.")
@click.option(
    "--mode",
    type=click.Choice(["exactly-once", "at-least-once"]),
    default="exactly-once",
    show_default=True,
    help="Guarantee to check; at-least-once allows a whole batch to be written again.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Where to check; auto: in process, and on Spark from ten million records on.",
)
@click.option(
    "--keep", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Violations of each rule to show."
)
@click.option(
    "--values/--no-values",
    default=True,
    show_default=True,
    help="Compare the contents of all records; without that nothing is certified.",
)
@click.option("--show-keys", is_flag=True, help="Show whole keys; otherwise they are cut and hashed.")
@click.option("--lanes", "-n", type=LANE_COUNT, help="The lane count, where the contract has `lanes: live`.")
@click.option("--dead-letters", metavar="TOPIC", help="Where records without a lane went; default: <topic>.dlq.")
@click.option("--state", type=click.Path(), help="State folder of the route, to check its own counts as well.")
@reading_options
@output_option
def verify(
    source: str, target: str, contract: str | None, show_keys: bool, output: str, **options: Any
) -> tuple[Result, str]:
    """Hold DST against SRC, and print a certificate, or the first violations with their positions.

    Every record of SRC has to be in DST once, unchanged, in its lane or among the dead letters; nothing else may be
    there; and what the contract keeps in order has to be in the order of SRC. Nothing is changed, and nothing that DST
    says of itself is believed without counting.

    Certified means that every rule that the contract calls for was checked on all records. Anything less is not proven:
    then it says which rule was not checked, on how many records, why, and what to do.

    \b
    keylane verify --source day1/ --target lanes/ --contract payments.yaml
    keylane verify --source day1/ --target lanes/ -o json
    keylane verify --source kafka://b1:9092/raw --target kafka://b1:9092/payments -c payments.yaml

    Topics are read at read_committed, up to where they end when this begins; lanes are partitions, and the records of
    a target say by their headers where they came from.

    Exit codes: 0 certified, 1 cannot be read, 2 usage or another contract's target, 4 broken or not proven.
    """
    check_sources(source)
    from keylane.cli.progress import counted
    from keylane.contract.parse import load_contract
    from keylane.pipelines.verify import verify as run
    from keylane.systems.endpoint import open_endpoint
    from keylane.systems.masks import salt_of

    loaded = load_contract(contract) if contract else None
    into = open_endpoint(target)
    check_applies(
        Applies(("dead_letters", "state"), into.messages, "a target that is a topic or a stream"),
        Applies(("lanes",), loaded is not None and loaded.spec.lanes == "live", "a --contract of `lanes: live`"),
        *reading_applies(source, into=(target,)),
    )
    topics = reading_from(options)
    found = run(source, target, loaded, topics=topics, watch=lambda rows: counted(rows, "verify"), **options)
    # A certificate shows no keys, and its check leaves no secret behind.
    masks = not show_keys and bool(found.verdict.violations)
    return as_result(found, salt_of(source, secrets.token_bytes(16)) if masks else None), output


def as_result(found: Verified, salt: bytes | None = None) -> Result:
    """The certificate as data, and as a person reads it."""
    from keylane.pipelines.certificate import document_of

    document = document_of(found, salt)
    shard = () if found.located is None else ("shard",)
    columns = ("rule", "stream", "lane", *shard, "offset", "source", "position", "key", "detail")
    rules = [
        {"rule": rule, "found": found.verdict.counts[rule], "checked": _checked(found, rule)} for rule in found.rules
    ]
    sections = [Section(columns, document.violations), Section(("rule", "found", "checked"), rules)]
    if len(document.lanes) <= SHOWN_LANES:
        ends = ("first_shard", "first", "last_shard", "last") if shard else ("first", "last")
        sections.append(Section(("stream", "lane", "records", *ends), document.lanes))
    return Result(
        document, sections, _lines(found, document), CERTIFICATE_CODES[found.outcome], answer=[_answer(found)]
    )


def _checked(found: Verified, rule: Rule) -> str:
    """On which records a rule was checked: all, all but some, or none."""
    missing = [one for one in found.unproven if one.rule == rule]
    total = found.verdict.records + found.verdict.facts.get("dead", 0)
    if not missing:
        return "yes"
    counts = [one.records for one in missing]
    known = sum(count or 0 for count in counts)
    if None in counts:
        return "in part"
    return "no" if known >= min(total, found.verdict.records or total) else f"all but {numbers.count(known)}"


def _lines(found: Verified, document: VerifyDocument) -> list[str]:
    records = {
        "records sent": document.sent,
        "of sources that are gone": document.unvouched,
        "in lanes": document.records,
        "dead letters": document.dead,
        "repeats": document.repeats,
    }
    counts = ", ".join(f"{numbers.count(count)} {words}" for words, count in records.items() if count)
    lines = [f"{found.source} -> {found.target}: {counts or 'nothing'}"]
    if found.fingerprint:
        lines.append(f"contract {found.contract}, epoch {found.epoch}, {found.fingerprint}")
    if found.claimed:
        claimed = ", ".join(f"{name} {numbers.count(count)}" for name, count in found.claimed.as_json().items())
        lines.append(f"the target says: {claimed}")
    lines += [f"miscounted: {text}" for text in found.miscounted]
    if found.not_taken:
        some = ", ".join(found.not_taken[:3]) + (", …" if len(found.not_taken) > 3 else "")
        lines.append(
            f"not taken yet: {numbers.plural(len(found.not_taken), 'source file')}, whose records count as lost: {some}"
        )
    lines += [f"note: {remark}" for remark in found.remarks]
    if found.cost:
        digests, total = found.cost
        lines.append(
            f"contents: {numbers.count(document.compared)} compared; digests took {digests:.2f} s of {total:.2f} s"
        )
    lines += [_open_rule(one) for one in found.unproven]
    return lines


def _open_rule(one: Unproven) -> str:
    many = "not on all records" if one.records is None else f"not on {numbers.plural(one.records, 'record')}"
    return f"not proven: {one.rule}, {many}: {one.why}" + (f"; {one.hint}" if one.hint else "")


def _answer(found: Verified) -> str:
    if found.outcome == "certified":
        return f"certified, {found.verdict.mode}"
    if found.outcome == "not proven":
        rules = ", ".join(dict.fromkeys(one.rule for one in found.unproven))
        return f"not proven, {found.verdict.mode}: {rules}; nothing was found wrong"
    broken = [f"{rule} {numbers.count(count)}" for rule, count in found.verdict.counts.items() if count]
    return "broken: " + ", ".join([*broken, *(["miscounted"] if found.miscounted else [])])
