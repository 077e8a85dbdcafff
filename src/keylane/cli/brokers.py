"""`keylane brokers`: what each broker of a Kafka cluster carries, and a reassignment that evens it out."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from keylane.brokers.layout import ALERT, Layout, figures
from keylane.cli.interrupts import interrupts
from keylane.cli.options import Applies, bytes_in, check_applies, client_options, properties_from
from keylane.cli.output import Result, Section, output_option
from keylane.cli.progress import StatusLine
from keylane.cli.terminal import fail, say
from keylane.errors import visible
from keylane.numbers import count, duration, plural, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from keylane.brokers.layout import Evenness, LayoutFigures
    from keylane.brokers.plan_file import UnderWay
    from keylane.brokers.rebalance import Reassignment
    from keylane.documents.brokers import BrokerLoad, BrokersFiles, BrokersPlan, BrokerSpread
    from keylane.systems.kafka.reassign import Applied

#: How often a line is printed where there is no terminal.
LINE_SECONDS: Final = 10.0
#: How long throttles may take to be removed after an interrupt; a second one ends the command at once.
WAY_OUT_SECONDS: Final = 600.0
FILES: Final = {"reassignment": ".json", "rollback": ".rollback.json", "plan": ".plan.json"}


@click.command(short_help="What each broker carries, and a reassignment that evens it out.")
@click.argument("given", required=False, metavar="[kafka://HOST:PORT]")
@click.option("--topic", "topics", multiple=True, metavar="T", help="Move lanes of this topic only; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), default=4_000, show_default=True, help="Copies a broker may have.")
@click.option("--out", type=click.Path(), help="Write the reassignment here, for Kafka's own tool or for --plan.")
@click.option("--plan", "plan", type=click.Path(), help="Take the plan from this file, NAME.plan.json.")
@click.option("--throttle", default="20MB", show_default=True, help="Bytes a second and broker: 20MB, 500kB, none.")
@click.option("--apply", "apply_", is_flag=True, help="Carry it out, after asking.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option("--status", is_flag=True, help="Only report what is under way, and which throttles are set.")
@click.option("--wait", is_flag=True, help="With --status: until nothing is under way.")
@client_options
@output_option
def brokers(
    given: str | None,
    topics: tuple[str, ...],
    limit: int,
    out: str | None,
    plan: str | None,
    throttle: str,
    apply_: bool,
    yes: bool,
    status: bool,
    wait: bool,
    output: str,
    **kafka: Any,
) -> tuple[Result, str]:
    """Report what each broker of a cluster carries, and how to even it out with the fewest bytes moved.

    Without an address: the brokers that keylane.toml or KEYLANE_KAFKA names.

    Nothing is changed without --apply. A plan is bound to the cluster as it was seen: it is refused when that has
    changed, and when another reassignment is under way.

    \b
    keylane brokers kafka://localhost:9092
    keylane brokers kafka://localhost:9092 --out reassignment.json
    keylane brokers kafka://localhost:9092 --plan reassignment.plan.json --apply

    Exit codes: 0 in balance, or done; 3 a reassignment is proposed; 4 something is wrong that no reassignment fixes.
    """
    from keylane.systems.kafka.reassign import cluster_access, cluster_address, open_admin

    check_applies(
        Applies(("wait",), status, "--status; --apply always waits"),
        Applies(("apply_", "out", "plan", "limit"), not status, "anything but --status, which only reads"),
        Applies(("out", "topics"), not (status or plan), "a new plan: without --status and --plan"),
        Applies(("yes",), apply_, "--apply"),
        # How long a plan takes is reckoned with it, too.
        Applies(("throttle",), not status, "anything but --status, which only reads"),
    )
    options = BrokersOptions(topics, limit, out, plan, bytes_of(throttle), apply_, yes)
    address = cluster_address(given)
    access = cluster_access(address, properties_from(kafka))
    with open_admin(access) as client:
        if status:
            return _status(client, address, wait=wait), output
        return _found_in(client, address, options), output


@dataclass(frozen=True, slots=True)
class BrokersOptions:
    """What is asked for; `rate` is the throttle in bytes a second, None for none."""

    topics: tuple[str, ...]
    limit: int
    out: str | None
    plan: str | None
    rate: int | None
    apply_: bool
    yes: bool


def bytes_of(text: str) -> int | None:
    """`20MB` as a number of bytes; None for `none`.

    >>> bytes_of("20MB"), bytes_of("500kB"), bytes_of("none")
    (20000000, 500000, None)
    """
    return (
        None
        if text.strip().lower() == "none"
        else bytes_in(text, "--throttle", "bytes a second, as 20MB or 500kB, or none")
    )


def _found_in(client: Any, address: str, options: BrokersOptions) -> Result:

    from keylane.systems.kafka.reassign import is_carried_out, observed, under_way

    layout, busy = observed(client), under_way(client)
    _check_topics(options.topics, layout)
    change = _change(layout, busy, options)
    if options.plan or options.apply_:
        _refuse(change, layout, busy)
    if options.plan and is_carried_out(client, change, layout, busy):
        change = replace(change, moves=(), elections=(), after=layout.lanes)
    files = _write(change, address, options)
    done = _apply(client, address, change, options, files) if options.apply_ and not change.is_empty else None
    seen = observed(client) if done else layout
    return as_result(address, seen, change, options, files=files, done=done, busy=len(busy))


def _check_topics(topics: tuple[str, ...], layout: Layout) -> None:
    from keylane.errors import UnknownNameError

    known = sorted({lane.topic for lane in layout.lanes})
    for topic in topics:
        if topic not in known:
            raise UnknownNameError.among("topic", topic, known)


def _change(layout: Layout, busy: dict[tuple[str, int], UnderWay], options: BrokersOptions) -> Reassignment:
    """The plan of the file, or a new one; while a cluster is busy with another, none."""
    from keylane.brokers.plan_file import completed
    from keylane.brokers.rebalance import reassignment

    if options.plan:
        return completed(_read(options.plan), layout)
    change = reassignment(layout, topics=options.topics or None)
    return replace(change, moves=(), elections=(), after=layout.lanes) if busy else change


def _read(path: str) -> Reassignment:
    from keylane.brokers.plan_file import read_plan
    from keylane.errors import UsageError

    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError.of("the plan cannot be read", got=path, hint=str(error)) from None
    return read_plan(document)


def _refuse(change: Reassignment, layout: Layout, busy: dict[tuple[str, int], UnderWay]) -> None:
    from keylane.brokers.plan_file import obstacle
    from keylane.errors import BrokerError

    if reason := obstacle(change, layout, busy):
        hint = "keylane brokers ADDRESS --status shows what is under way; make a new plan when that is done"
        raise BrokerError.of(f"{reason}; nothing was changed", hint=hint)


def _write(change: Reassignment, address: str, options: BrokersOptions) -> BrokersFiles | None:
    """Write the plan, the file for Kafka's own tool, and the way back; the paths. A way back is never overwritten."""
    from keylane.brokers.plan_file import document_of
    from keylane.brokers.rebalance import kafka_json
    from keylane.documents.brokers import BrokersFiles
    from keylane.systems.atomic import write_json

    given = options.out or ("reassignment.json" if options.apply_ else None)
    if options.plan or change.is_empty or not given:
        return None
    stem = Path(given).name.removesuffix(".json")
    paths = {kind: Path(given).with_name(f"{stem}{end}") for kind, end in FILES.items()}
    _check_free(paths, change.fingerprint)
    write_json(paths["plan"], document_of(change, address))
    if not change.moves:
        return BrokersFiles(reassignment=None, rollback=None, plan=str(paths["plan"]))
    write_json(paths["rollback"], kafka_json((*move.place, move.before) for move in change.moves))
    write_json(paths["reassignment"], kafka_json((*move.place, move.replicas) for move in change.moves))
    return BrokersFiles(
        reassignment=str(paths["reassignment"]), rollback=str(paths["rollback"]), plan=str(paths["plan"])
    )


def _check_free(paths: dict[str, Path], fingerprint: str) -> None:
    from keylane.errors import TargetError

    there = [path for path in paths.values() if path.exists()]
    with suppress(OSError, ValueError, AttributeError):
        if json.loads(paths["plan"].read_text(encoding="utf-8")).get("fingerprint") == fingerprint:
            return
    if there:
        hint = "another --out; or, to finish what that plan began, --plan"
        raise TargetError.of("a file of an earlier plan is not overwritten", got=str(there[0]), hint=hint)


def _apply(
    client: Any, address: str, change: Reassignment, options: BrokersOptions, files: BrokersFiles | None
) -> Applied | None:
    """Ask, carry out, and wait; None when the answer was no."""
    from keylane.systems.kafka.reassign import applied

    if not options.yes and not _agreed(visible(question(change, options.rate), keep="\n")):
        return None
    plan = options.plan or (files and files.plan)
    finish = f"keylane brokers {address} --plan {plan} --apply"
    line = StatusLine(LINE_SECONDS)
    cut_short = f"interrupted; removing the throttles, the cluster goes on with what is under way; finish it: {finish}"
    with _interruptible(), interrupts.costly(cut_short, WAY_OUT_SECONDS):
        try:
            return applied(client, change, options.rate, lambda text: line.show(f"brokers: {text}"))
        except Exception as error:
            line.clear()
            if interrupts.came:
                # Nobody prints errors after an interrupt, and a throttle that stays must not be missed.
                fail(str(error))
            else:
                say(f"brokers: cut short; what is under way goes on in the cluster; finish it: {finish}")
            raise
        finally:
            line.clear()


def _agreed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if interrupts.came or sys.stdin.isatty():
            raise
        raise click.UsageError("nobody is there to ask; nothing was changed; hint: --yes") from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: the throttles are removed on the way out."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _status(client: Any, address: str, *, wait: bool) -> Result:

    from keylane.systems.kafka.reassign import observed, throttles, under_way

    line = StatusLine(LINE_SECONDS)
    while (busy := under_way(client)) and wait:
        line.show(f"brokers: {count(len(busy))} lanes under way")
        time.sleep(1.0)
    line.clear()
    return status_result(address, busy, throttles(client, observed(client)))


# What `keylane brokers` found, as a document, a table and words. The command itself: `brokers`.

COLUMNS = ("broker", "rack", "replicas", "leaders", "bytes", "receives", "sends", "replicas_after", "leaders_after")


def as_result(
    address: str,
    layout: Layout,
    change: Reassignment,
    options: BrokersOptions,
    *,
    files: BrokersFiles | None,
    done: Applied | None,
    busy: int,
) -> Result:
    """The brokers of a cluster as they are, what is proposed, and what was done. 3: proposed; 4: wrong, not fixed."""
    from keylane.documents.brokers import AppliedChange, BrokersDocument

    found = figures(layout, limit=options.limit)
    after = figures(Layout(layout.brokers, change.after), limit=options.limit)
    proposed = not change.is_empty and done is None
    findings = _findings(found, options.limit, 0 if done else busy, done)
    rows = _rows(layout, found, after, change)
    document = BrokersDocument(
        cluster=address,
        fingerprint=change.fingerprint,
        ok=not findings,
        alert=ALERT,
        limit=options.limit,
        lanes=len(layout.lanes),
        replicas=_spread(found.replicas),
        leaders=_spread(found.leaders),
        under_replicated=found.under_replicated,
        offline=found.offline,
        below_min_isr=found.below_min_isr,
        rack_violations=found.rack_violations,
        not_preferred=found.not_preferred,
        over_limit=list(found.over_limit),
        under_way=0 if done else busy,
        brokers=rows,
        findings=findings,
        plan=None if change.is_empty else _plan(change, after, options.rate),
        files=files,
        applied=AppliedChange(
            lanes=done.lanes, elected=done.elected, not_elected=done.not_elected, seconds=done.seconds
        )
        if done
        else None,
    )
    code = 3 if proposed else 4 if findings else 0
    spent = options.plan is not None and change.is_empty
    lines = [
        *(["nothing is left to do: this plan has been carried out"] if spent else []),
        *findings,
        *_said(change, options, files, done),
        *([] if findings or proposed or spent else ["in balance: nothing is left to do"]),
    ]
    sizes = dict.fromkeys(("bytes", "receives", "sends"), size)
    sections = [Section(COLUMNS, rows, forms=sizes), *([_moves(change)] if proposed else [])]
    written = [line for line in lines if line.startswith("written: ")]
    return Result(document, sections, written, code, [line for line in lines if line not in written])


def _moves(change: Reassignment) -> Section:
    """Which partition goes where."""
    rows: list[dict[str, Any]] = [
        {"topic": one.topic, "partition": one.partition, "from": list(one.before), "to": list(one.replicas)}
        for one in change.moves
    ]
    rows += [
        {"topic": topic, "partition": partition, "from": None, "to": "its preferred leader"}
        for topic, partition in change.elections
    ]
    return Section(("topic", "partition", "from", "to"), rows, "Moves, by the brokers of the replicas:")


#: Figures that should be nought, and what one more of them is called.
WRONG = {
    "under_replicated": "{} with a copy behind or gone",
    "offline": "{} without a leader",
    "below_min_isr": "{} with fewer copies in step than the topic demands",
    "rack_violations": "{} on fewer racks than they could be",
}


def _findings(found: LayoutFigures, limit: int, busy: int, done: Applied | None) -> list[str]:
    """What is wrong, in words."""
    wrong = [
        _uneven(name, one) for name, one in (("replicas", found.replicas), ("leaders", found.leaders)) if not one.even
    ]
    wrong += [text.format(plural(getattr(found, name), "lane")) for name, text in WRONG.items() if getattr(found, name)]
    wrong += [f"broker {broker} has more than {count(limit)} replicas" for broker in found.over_limit]
    wrong += (
        [f"a reassignment of {plural(busy, 'lane')} is under way; a plan is made when that is done"] if busy else []
    )
    return wrong + (
        [f"{plural(done.not_elected, 'preferred leader')} not elected"] if done and done.not_elected else []
    )


def _uneven(name: str, one: Evenness) -> str:
    shown = "a broker has none" if one.over_min is None else f"max/min {one.over_min:.2f}"
    return f"{name} per broker: {shown}, over the alert of {ALERT}"


def _spread(one: Evenness) -> BrokerSpread:
    from keylane.documents.brokers import BrokerSpread

    return BrokerSpread(
        total=sum(one.counts),
        max=max(one.counts, default=0),
        min=min(one.counts, default=0),
        max_over_min=one.over_min,
        max_over_mean=one.over_mean,
        even=one.even,
    )


def _rows(layout: Layout, found: LayoutFigures, after: LayoutFigures, change: Reassignment) -> list[BrokerLoad]:
    from keylane.documents.brokers import BrokerLoad

    received, sent = change.received(), change.sent()
    return [
        BrokerLoad(
            broker=broker.id,
            rack=broker.rack,
            replicas=found.replicas.counts[i],
            leaders=found.leaders.counts[i],
            bytes=found.bytes[i] if found.bytes is not None else None,
            receives=received.get(broker.id, 0) if received is not None else None,
            sends=sent.get(broker.id, 0) if sent is not None else None,
            replicas_after=after.replicas.counts[i],
            leaders_after=after.leaders.counts[i],
        )
        for i, broker in enumerate(layout.brokers)
    ]


def _plan(change: Reassignment, after: LayoutFigures, rate: int | None) -> BrokersPlan:
    from keylane.documents.brokers import BrokerElection, BrokersPlan, MovedLane

    return BrokersPlan(
        partitions=[
            MovedLane(
                topic=move.topic, partition=move.partition, before=list(move.before), replicas=list(move.replicas)
            )
            for move in change.moves
        ],
        elections=[BrokerElection(topic=topic, partition=partition) for topic, partition in change.elections],
        moved_replicas=change.copies,
        leader_changes=change.leaders,
        moved_bytes=change.bytes,
        throttle=rate,
        seconds=change.seconds(rate),
        replicas=_spread(after.replicas),
        leaders=_spread(after.leaders),
    )


def _said(change: Reassignment, options: BrokersOptions, files: BrokersFiles | None, done: Applied | None) -> list[str]:
    if change.is_empty:
        return []
    paths = (files.reassignment, files.rollback, files.plan) if files else ()
    written = ", ".join(path for path in paths if path)
    wrote = [f"written: {written}"] if written else []
    if done:
        lists = f"new replica lists of {plural(done.lanes, 'lane')}, {plural(done.elected, 'leader')} changed"
        return [*wrote, f"done in {duration(done.seconds)}: {lists}"]
    return [f"proposed: {cost(change, options.rate)}", *wrote]


def cost(change: Reassignment, rate: int | None) -> str:
    """What a change amounts to, in words."""
    amount = "size unknown" if change.bytes is None else size(change.bytes)
    seconds = change.seconds(rate)
    time = f" (at least {duration(seconds)} at {size(rate or 0)}/s and broker)" if seconds else ""
    reordered = sum(not move.added for move in change.moves)
    parts = [f"{plural(change.copies, 'replica')} to move, {amount}{time}"] if change.copies else []
    parts += [f"{plural(reordered, 'list')} in another order"] if reordered else []
    return ", ".join([*parts, f"{plural(change.leaders, 'leader')} to change"])


def question(change: Reassignment, rate: int | None) -> str:
    """What is asked before a cluster is changed."""
    return f"{cost(change, rate)}. Carry it out?"


def status_result(
    address: str, busy: Mapping[tuple[str, int], UnderWay], set_now: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> Result:
    """What is under way, and which throttles are set."""
    from keylane.documents.brokers import BrokersStatusDocument, MovingLane, ThrottleSetting

    rows = [
        MovingLane(topic=topic, partition=partition, adding=list(one.adding), removing=list(one.removing))
        for (topic, partition), one in sorted(busy.items())
    ]
    throttles = [
        ThrottleSetting(kind="broker" if kind == "broker" else "topic", name=name, setting=setting, value=value)
        for kind, names in set_now.items()
        for name, settings in names.items()
        for setting, value in settings.items()
    ]
    document = BrokersStatusDocument(cluster=address, under_way=rows, throttles=throttles)
    lines = [] if rows else ["nothing is under way"]
    lines += [f"throttle on {one.kind} {one.name}: {one.setting} = {one.value}" for one in throttles]
    return Result(document, [Section(("topic", "partition", "adding", "removing"), rows)], lines)
