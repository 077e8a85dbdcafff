"""`match --follow`: pairs as records arrive, the same as a match of all of them would find.

    follow_sources   records as blocks; which of them make a batch is in Spark's checkpoint
    follow_plan      what is known of drivers and lanes, and the answers: one plan, in Java
    follow_batch     what is done with the rows of a batch
    stateful         its folder, and which batches are in the target

A driver's ping and a rider's request meet in event time: a request is answered when the newest ping is `late` seconds
past it. A match of all that is there, with nothing to wait for: `batch`.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keylane.errors import SparkError, TargetError, UsageError
from keylane.pipelines.match.batch import Work, session_for
from keylane.pipelines.match.document import document_of
from keylane.pipelines.match.follow_batch import MatchBatches
from keylane.pipelines.match.follow_metrics import Figures, empty_counts, totals
from keylane.pipelines.match.follow_plan import MatchPlan, MatchRules, check_lanes
from keylane.pipelines.match.follow_sources import Epochs, Sources, same_topics
from keylane.pipelines.match.options import MICROS, agreed
from keylane.pipelines.match.sources import find
from keylane.pipelines.match.write import Written, check_target
from keylane.pipelines.stateful.state_folder import RunHead, open_state, place_of
from keylane.placement.cell_lanes import cell_lanes
from keylane.spark.blocks import loading_by, use_slots
from keylane.spark.checkpoint_files import RemoteFolder
from keylane.spark.context import RunContext, java_process, translated, warn
from keylane.spark.session import (
    active_session_kept,
    existing_session,
    for_small_batches,
    is_submitted,
    require_classic,
)
from keylane.spark.streaming import run_query
from keylane.systems.checkpoint import check_checkpoint, check_sums, drop_unforced, log_numbers, query_id, unreadable
from keylane.systems.endpoint import parse_address, path_of, without_login
from keylane.systems.files.listing import refuse_patterns
from keylane.systems.jars import fetch_cells
from keylane.systems.journal import no_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.documents.match import MatchDocument
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.pipelines.stateful.state_folder import BatchManifest, StateFolder
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Address
    from keylane.systems.journal import Probe

#: In the target, unless another folder is given.
STATE: Final = "_state"
#: Errors of Spark about a checkpoint whose files do not belong together; none names them.
_OF_CHECKPOINT: Final = re.compile(r"STATE_STORE|STATEFUL_OPERATOR|checkpoint offsets|No usable value for")


def _of_times(sides: tuple[MatchSource, MatchSource]) -> list[str]:
    """How times are read whose unit is not given."""
    text = "times that are numbers are read each by its size, as seconds to nanoseconds; text is UTC"
    return [text] * any(one.columns.moment.form is None for one in sides)


@dataclass(frozen=True, slots=True)
class MatchHead(RunHead):
    """What every run of a match has to agree with."""

    drivers: str
    riders: str
    target: str
    lanes: int
    radius: float
    nearest: int | None
    expire: float | None
    assign: str | None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Following:
    """How a match follows its sources.

    `late` seconds is how far a ping may be behind the newest one; `keep` how far, in seconds, requests may be behind
    pings before they are too late for an exact answer. A record more than `ahead` seconds ahead of this machine's
    clock is a dead letter: one wrong clock would otherwise end every answer. `state` is by default `_state` in the
    target. `checkpoint` is where Spark keeps what is known, by default in the state: any address that Spark can write
    to. `max_files` bounds a batch of files, `every` is how often it polls for new records. With `available_now` it
    ends when all that is there is taken; requests that are not ripe stay waiting in the state.
    """

    late: float = 10.0
    keep: float = 600.0
    ahead: float = 86_400.0
    state: str | None = None
    checkpoint: str | None = None
    every: str = "1 second"
    max_files: int = 1000
    available_now: bool = False
    tasks: int | None = None
    matching: bool = True


def follow(
    drivers: str,
    riders: str,
    target: str,
    options: Options,
    following: Following | None = None,
    *,
    contract: Contract | None = None,
    spark: SparkSession | None = None,
    stop_asked: threading.Event | None = None,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[Figures], None] = lambda _: None,
    say: Say = warn,
    probe: Probe = no_probe,
) -> MatchDocument:
    """Match what arrives until `stop_asked` is set, and return the document of all that this match has done.

    Run again it goes on where the last run ended, whether that was finished, stopped or killed.
    """
    require_classic(spark)
    given, how, began = options.checked(follow=True), _checked(following or Following()), time.monotonic()
    to = parse_address(target)
    sides = (find("drivers", drivers, given.drivers, given), find("riders", riders, given.riders, given))
    chosen, lanes, notes = agreed(*sides, contract, given)
    work = Work(*sides, to, chosen, cell_lanes(chosen, lanes), given, notes)
    check_lanes(work.lanes)
    state, folder = _places(to, given, how)
    elsewhere = _elsewhere(how.checkpoint)
    _check_apart(sides, {"target": folder, "state": state})
    if not all(side.messages for side in sides):
        # Records of files are left there as blocks, which Spark reads.
        refuse_patterns(state, "the state")
    own = given.radius, given.nearest, given.expire, given.assign
    places = [place_of(address) for address in (sides[0].address, sides[1].address, to)]
    head = MatchHead(places[0], places[1], places[2], lanes, *own, str(elsewhere) if elsewhere else None)
    with open_state(state, head) as own_state, ExitStack() as opened:
        if not all(side.messages for side in sides):
            own_state.check_place()
        last = own_state.last()
        own_state.check_target(last, folder)
        if last.token:
            own_state.move(last, folder)
        held = own_state if isinstance(elsewhere, str) else _compared(own_state, elsewhere, last)
        with active_session_kept(), session_for(work, spark, say, _conf(given, spark)) as session:
            held.lock.note_java(java_process(session))
            if isinstance(elsewhere, str):
                held = _compared(own_state, RemoteFolder.of(session, elsewhere), last)
            fetch_cells(session, say)
            slots = held.settled("slots", lambda: how.tasks or session.sparkContext.defaultParallelism)
            use_slots(session, slots)
            topics = opened.enter_context(same_topics(sides, given, held, say))
            written, figures, goes_on = Written(folder, to, given), list[Figures](), True
            asked = _rules(how, given, slots)
            while goes_on:
                epochs, rules = Epochs(chosen, lanes).of(last), _rules_of(last, held, asked)
                plan = MatchPlan.of(session, given, rules, [one.lanes for one in epochs])
                sources = Sources(session, sides, given, chosen, plan, held, probe)
                body = MatchBatches(given, epochs, rules, held, written, last, tell, sources, topics, probe, figures)
                body.is_again = rules != asked
                ready()
                ready = _nothing
                stopping = stop_asked if how.available_now and not body.is_again else _Either(stop_asked, body)
                run = RunContext(follow=not how.available_now, every=how.every, stop_asked=stopping)
                _run(sources, body, run, how)
                last = body.last
                # Only a query that is ended between two batches can lose a lane table that no driver is in any more.
                goes_on = (run.follow or body.is_again) and body.needs_new_plan
                goes_on = goes_on and not (stop_asked and stop_asked.is_set())
    counted = last.counts or empty_counts(lanes)
    total = totals(counted, figures[-1].metrics if figures else {})
    return document_of(
        sides, to, chosen, given, total, notes=[*notes, *_of_times(sides)], seconds=time.monotonic() - began
    )


def _nothing() -> None:
    """Ready is reported once."""


class _Either(threading.Event):
    """Set when the caller asks to stop, or when a batch was the last of the plan that this query has."""

    def __init__(self, asked: threading.Event | None, body: MatchBatches) -> None:
        super().__init__()
        self._asked, self._body = asked, body

    def is_set(self) -> bool:
        return (self._asked is not None and self._asked.is_set()) or self._body.needs_new_plan


def _run(sources: Sources, body: MatchBatches, run: RunContext, how: Following) -> None:
    named = replace(run, work="the match")
    try:
        with sources.files_followed(how.max_files, named) as check:
            answers = sources.plan.answers(sources.blocks())
            with loading_by(sources.spark, sources.plan.loader):
                run_query(answers, body, body.state.checkpoint, named, lambda _: check())
    except Exception as error:
        failed = translated(error, work="the match")
        if isinstance(failed, SparkError):
            for checkpoint in (body.state.checkpoint, body.state.files):
                if isinstance(checkpoint, Path):
                    check_sums(checkpoint)
            if _OF_CHECKPOINT.search(str(failed)):
                raise unreadable(body.state.elsewhere or body.state.path, str(failed)) from error
        raise failed from error
    finally:
        # Where the checkpoint cannot be reached, what is in memory goes when it is idle.
        with suppress(TargetError):
            sources.plan.forget(query_id(body.state.checkpoint))


def _compared(held: StateFolder, elsewhere: Path | RemoteFolder | None, last: BatchManifest) -> StateFolder:
    """The state with its checkpoint, which is the one that the last batch was made with, or an error."""
    state = held if elsewhere is None else replace(held, elsewhere=elsewhere)
    if elsewhere is not None and not held.has_begun and any(elsewhere.glob("*")):
        raise TargetError.of(
            "the checkpoint is not empty, and this match has not begun",
            got=str(elsewhere),
            allowed="a new folder for each match",
            hint="give another --checkpoint, or the --state that belongs to this one",
        )
    drop_unforced(state.checkpoint, last.batch, last.batch)
    check_checkpoint(state.checkpoint, last.batch, last.query, last.offsets)
    return state


def _rules_of(last: BatchManifest, held: StateFolder, asked: MatchRules) -> MatchRules:
    """The rules that were asked for; those of the last batch where Spark will give that once more, for its state."""
    if last.batch in {-1, *log_numbers(held.checkpoint / "commits")}:
        return asked
    return asked.with_changed(last.rules)


def _conf(given: Options, spark: SparkSession | None) -> Mapping[str, str]:
    """The settings of the session: one that is started for this match is set up for small batches."""
    is_new = spark is None and existing_session() is None and not is_submitted()
    master = given.master or given.conf.get("spark.master", "local")
    return for_small_batches(given.conf, one_machine=master.startswith("local")) if is_new else given.conf


def _rules(how: Following, given: Options, slots: int) -> MatchRules:
    window = 1 if given.assign is None else round(given.window * MICROS)
    late, keep, ahead = (round(seconds * MICROS) for seconds in (how.late, how.keep, how.ahead))
    return MatchRules(late, keep, slots, how.matching, window, ahead, round(given.offer_for * MICROS))


def _checked(how: Following) -> Following:
    for name, value in (("late", how.late), ("keep", how.keep), ("ahead", how.ahead)):
        if not 0 <= value < 10**9:
            raise UsageError.of(f"--{name} is not a duration", got=value, allowed="seconds, 0 or more")
    return how


def _check_apart(sides: tuple[MatchSource, MatchSource], places: Mapping[str, Path]) -> None:
    """Refuse to write into a source: what is written there would be read."""
    for side in (side for side in sides if not side.messages):
        source = path_of(side.address, f"the {side.side}").resolve()
        for name, place in places.items():
            if place.resolve().is_relative_to(source):
                raise UsageError.of(
                    f"the {name} lies in the source of the {side.side}, where it would be read",
                    got=str(place),
                    allowed=f"a folder outside of {source}",
                )


def _elsewhere(checkpoint: str | None) -> Path | str | None:
    """Where Spark's checkpoint is, unless it is in the state: a path, or an address for Spark's file systems."""
    if checkpoint is None or "://" not in checkpoint:
        return None if checkpoint is None else Path(checkpoint).absolute()
    scheme, _, rest = checkpoint.partition("://")
    if "@" in rest.partition("/")[0]:
        raise UsageError.of(
            "the address of a checkpoint has a login in it, and addresses are written down and printed",
            got=without_login(checkpoint),
            hint="give it to Spark as a setting: --conf spark.hadoop....=...",
        )
    return Path(rest).absolute() if scheme == "file" else checkpoint.rstrip("/")


def _places(to: Address, given: Options, how: Following) -> tuple[Path, Path]:
    """The state folder, and the folder that batches add to."""
    if how.state is not None and "://" in how.state:
        raise UsageError.of(
            "the state is a folder of this machine",
            got=without_login(how.state),
            allowed="a path",
            hint="--checkpoint takes the address of another file system; there is what is known of drivers and riders",
        )
    state = None if how.state is None else Path(how.state).absolute()
    if to.is_path:
        folder = path_of(to, "the target")
        if not (state or folder / STATE).exists():
            check_target(to, given)
        return state or folder / STATE, folder
    if state is None:
        raise UsageError.of("a match into a topic needs a state folder", hint="--state DIR")
    check_target(to, given)
    return state, state
