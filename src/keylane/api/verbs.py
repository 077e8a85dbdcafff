"""Each verb as a function that returns the document its command prints with `-o json`.

Sources are addresses or paths, contracts are `Contract`s, paths or text; errors are keylane's. `options` is what else
may be set about a stream (`StreamOptions`), `progress` is called with `Progress`. Every other argument is an option of
the command under its own name, and tests/unit/api compares the two. Nothing heavy is imported before a verb is called.
"""

from __future__ import annotations

import os
from dataclasses import fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, get_args

from keylane.api.arguments import check_arguments, check_one_key, saved_or_path
from keylane.api.progress import Reporter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.api.arguments import ArrowStream
    from keylane.api.progress import OnProgress
    from keylane.contract.answers import OrderScope
    from keylane.contract.given import GivenContract
    from keylane.contract.model import Contract
    from keylane.contract.names import Encoding
    from keylane.documents.check import CheckedFindings
    from keylane.documents.explain import Explained
    from keylane.documents.find import FindDocument
    from keylane.documents.identify import IdentifyDocument, InitDocument
    from keylane.documents.match import MatchDocument
    from keylane.documents.plan import PlanDocument
    from keylane.documents.profile import ProfileDocument
    from keylane.documents.route import DryRunDocument, RouteDocument
    from keylane.documents.verify import VerifyDocument
    from keylane.history.verdict import Mode
    from keylane.pipelines.engine import Engine, Options
    from keylane.pipelines.match.options import Assignment, Columns
    from keylane.profile.model import Profile
    from keylane.systems.endpoint import FileFormat, StreamOptions

    #: A path, or the address of a stream.
    Source: TypeAlias = str | os.PathLike[str]
    #: Records in memory: Arrow batches, one by one, or a table, reader or frame.
    Batches: TypeAlias = Iterable[pa.RecordBatch] | ArrowStream

__all__ = ["check", "dry_run", "explain", "find", "identify", "init", "match", "plan", "profile", "route", "verify"]

P = ParamSpec("P")
T = TypeVar("T")


def _verb(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments that the verb does not have, and values of wrong types: `ArgumentError`, and so a TypeError."""

    @wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> T:
        check_arguments(function, given, named)
        return function(*given, **named)

    return called


@_verb
def explain(
    key: Any,
    *,
    lanes: int | None = None,
    layout: Source | None = None,
    contract: GivenContract | None = None,
    encoding: Encoding = "utf8",
    position: int | None = None,
    like: str | None = None,
) -> Explained:
    """Where a key goes, under every client that might write it; and, with a contract, under that.

    With a contract `key` is a record, or the value of the key's only field. Without one it is a value that `encoding`
    turns into bytes, bytes, or None, and `lanes` is needed: the lane count is never guessed. `layout` is a file or an
    address with the shards of a contract of live lanes.
    """
    from keylane.contract.names import ENCODINGS, PARTITIONERS
    from keylane.errors import UnplacedError, UsageError
    from keylane.pipelines.explain import by_client, explained_by

    _check_choice("encoding", encoding, ENCODINGS)
    _check_choice("like", like, PARTITIONERS)
    check_one_key(key)
    if contract is not None:
        from keylane.router import Router

        space = None
        if layout is not None:
            from keylane.pipelines.shards import layout_at

            space = layout_at(os.fspath(layout))[0].key_space
        router = Router(contract, lanes=lanes, key_space=space)
        record = key if hasattr(key, "keys") else {router.only_field(): key}
        return explained_by(router, record, position, like, typed=_shown(key)).document
    if lanes is None:
        raise UsageError.of("the lane count is never guessed", hint="lanes=12, or contract=...")
    from keylane.keys.encode import encode

    try:
        asked = key if key is None or isinstance(key, bytes) else encode(key, encoding)
    except UnplacedError as error:
        raise UsageError(str(error)) from None
    return by_client(asked, lanes, encoding, like or "kafka-java", typed=_shown(key))


@_verb
def find(
    key: Any,
    source: Source,
    *,
    contract: GivenContract | None = None,
    partitioner: str | Sequence[str] = (),
    all_lanes: bool = False,
    encoding: Encoding = "utf8",
    count: int = 10,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> FindDocument:
    """The newest records of a key in a topic; only the lanes that it may be in are read.

    These are the contract's for this key, those of the partitioners that are named, or those of every client that
    `explain` knows. With a contract `key` is a record, or the value of the key's only field. The document states what
    was read: not found in that is not the same as not there.
    """
    from keylane.contract.given import contract_from
    from keylane.contract.names import ENCODINGS, PARTITIONERS
    from keylane.errors import ArgumentError, UnplacedError, UsageError
    from keylane.keys.encode import encode
    from keylane.pipelines.find import Sought
    from keylane.pipelines.find import find as run
    from keylane.router import Router

    _check_choice("encoding", encoding, ENCODINGS)
    named = (partitioner,) if isinstance(partitioner, str) else tuple(partitioner)
    for one in named:
        _check_choice("partitioner", one, PARTITIONERS)
    if count < 1:
        raise ArgumentError.of("so many records at most", got=count, allowed="1 or more")
    if contract is not None and named:
        raise UsageError.of("contract and partitioner both say which lanes to read", hint="leave one out")
    check_one_key(key)
    typed = _shown(key) or "a record"
    if contract is not None:
        loaded = contract_from(contract)
        record = key if hasattr(key, "keys") else {Router(loaded, lanes=_live(loaded)).only_field(): key}
        sought = Sought(typed, record=record, contract=loaded, all_lanes=all_lanes)
    else:
        try:
            asked = key if isinstance(key, bytes) else encode(key, encoding)
        except UnplacedError as error:
            raise UsageError(str(error)) from None
        sought = Sought(typed, asked, partitioners=named, encoding=encoding, all_lanes=all_lanes)
    report = Reporter("find", progress)
    return run(os.fspath(source), sought, most_found=count, options=options, watch=report.watch)


def _live(contract: Contract) -> int | None:
    """Any count, where the contract leaves it to the stream and only its key is asked for."""
    return 1 if contract.spec.lanes == "live" else None


@_verb
def identify(
    source: Source | Batches,
    lanes: int | None = None,
    *,
    key: str | None = None,
    lane: str | None = None,
    time: str | None = None,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> IdentifyDocument:
    """Which client's partitioner wrote a stream, and whether a second writer disagrees, and since when.

    The source may also be a table, reader or frame, or Arrow batches; they are read once. `key` and `lane` name their
    columns; by default the key is the first and the lane the second.
    """
    from keylane.pipelines import identify as pipeline

    report = Reporter("identify", progress)
    if isinstance(source, str | os.PathLike):
        seen = pipeline.identify(
            os.fspath(source),
            key=key,
            lane=lane,
            lanes=lanes,
            time=time,
            options=options,
            watch=report.watch,
        )
    else:
        from keylane.batch_router import batches_with

        seen = pipeline.of_batches(report.watch(batches_with(source, key, lane)), lanes)
    return pipeline.document_of(seen, _salt(source, show_keys=show_keys))


@_verb
def init(
    data: Source,
    key: str | None = None,
    *,
    lane: str | None = None,
    lanes: int | None = None,
    partitioner: str | None = None,
    time: str | None = None,
    out: Source | None = None,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> InitDocument:
    """Write the first contract of a stream, from what its data shows, to `out`, by default NAME.yaml here.

    Of files, `key` names the column of the key; files without a column of lanes take `lanes`, for the stream that they
    are going to be. A file that exists is never replaced. `next` of the document are commands to go on with.
    """
    from keylane.pipelines.init import InitRequest
    from keylane.pipelines.init import init as run

    asked = InitRequest(os.fspath(data), key, lane, lanes, time)
    to, watch = None if out is None else os.fspath(out), Reporter("init", progress).watch
    salt = _salt(data, show_keys=False)
    return run(asked, partitioner=partitioner, out=to, salt=salt, options=options, watch=watch).document


@_verb
def check(
    *given: GivenContract,
    data: Source | None = None,
    key: str | None = None,
    lane: str | None = None,
    lanes: int | None = None,
    group: str | Sequence[str] = (),
    show_keys: bool = False,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> CheckedFindings:
    """Whether a stream keeps its contract: one contract, alone or with `data`.

    Two or more contracts, or two or more data sets with `key`: whether they are co-partitioned. A path is that of a
    contract where it ends in .yaml or .yml. With `group` no record of `data` is read: it is asked whether each of
    these reader groups has every lane of the contract. `ok` says whether all is well; nothing is raised for what is
    found. Keys of examples are cut and hashed unless `show_keys`.
    """
    from keylane.errors import UsageError
    from keylane.pipelines.check import check_contract, compare_contracts, compare_streams

    watch = Reporter("check", progress).watch
    contracts = [one for one in given if _is_contract(one)]
    salt = _salt(data if contracts or not given else given[0], show_keys=show_keys)
    if not given or (contracts and len(contracts) < len(given)):
        raise UsageError.of("contracts and data sets cannot be compared with each other", hint="data=...")
    if not contracts:
        streams = [os.fspath(one) for one in given]  # type: ignore[arg-type]  # what is no contract is a path
        return compare_streams(streams, key=key, lane=lane, lanes=lanes, options=options, watch=watch, salt=salt)
    if len(contracts) == 1:
        where = None if data is None else os.fspath(data)
        (one,), groups = contracts, (group,) if isinstance(group, str) else group
        return check_contract(
            one, where, lane=lane, lanes=lanes, groups=groups, options=options, watch=watch, salt=salt
        )
    if group:
        raise UsageError.of("groups go with one contract, and with data", got=f"{len(contracts)} contracts")
    if data is not None:
        raise UsageError.of("data goes with one contract", got=f"{len(contracts)} contracts")
    return compare_contracts(contracts)


@_verb
def verify(
    source: Source,
    target: Source,
    contract: GivenContract | None = None,
    *,
    mode: Mode = "exactly-once",
    engine: Engine = "auto",
    keep: int = 10,
    values: bool = True,
    show_keys: bool = False,
    lanes: int | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
) -> VerifyDocument:
    """Whether every record of a source is in a target once, in order and in its lane: a certificate, or what is wrong.

    `keep` is how many violations of each rule are listed; without `values` contents are not compared, and so nothing
    is certified. `ok` is true only where everything was proven.
    """
    from keylane.history.verdict import Mode
    from keylane.pipelines.certificate import document_of
    from keylane.pipelines.engine import Engine
    from keylane.pipelines.verify import verify as run

    _check_choice("mode", mode, get_args(Mode))
    _check_choice("engine", engine, get_args(Engine))
    report = Reporter("verify", progress)
    with report.on_spark():
        found = run(
            os.fspath(source),
            os.fspath(target),
            _maybe(contract),
            mode=mode,
            engine=engine,
            keep=keep,
            values=values,
            lanes=lanes,
            topics=options,
            spark=spark,
            watch=report.watch,
        )
    return document_of(found, _salt(source, show_keys=show_keys or not found.verdict.violations))


@_verb
def route(
    contract: GivenContract,
    source: Source,
    target: Source,
    *,
    follow: bool = False,
    stop: threading.Event | None = None,
    lanes: int | None = None,
    stream: str | None = None,
    kind: FileFormat | None = None,
    schema: str | None = None,
    max_files: int = 1000,
    every: str = "1 second",
    after: Sequence[str] = (),
    journal: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
) -> RouteDocument:
    """Put every record of a source in its lane under a target, exactly once; run again, it goes on where it ended.

    With `follow` it goes on until `stop` is set, and ends between two batches. `kind` is the format of files,
    `schema` gives types to columns of JSON lines and CSV. `after` are saved plans that were carried out, behind which
    it goes on, and `journal` that of a migration, where it is not beside its plan. What it would do, with nothing
    written: `dry_run`.
    """
    from keylane.contract.given import contract_from
    from keylane.pipelines.route import Options, document_of
    from keylane.pipelines.route import route as run
    from keylane.spark.context import warn
    from keylane.systems.endpoint import FileFormat, StreamOptions

    _check_choice("kind", kind, get_args(FileFormat))
    loaded, report = contract_from(contract), Reporter("route", progress)
    given = Options(
        *(lanes, stream, kind, schema, max_files, every, master, dict(conf or {})),
        kafka=options or StreamOptions(),
        after=[after] if isinstance(after, str) else after,
        journal=journal,
    )
    with report.on_spark():
        found = run(
            loaded,
            os.fspath(source),
            os.fspath(target),
            follow=follow,
            options=given,
            spark=spark,
            stop_asked=stop,
            tell=lambda done: report.more(done.counts.in_),
            say=warn if progress is None else report.step,
        )
    return document_of(found, loaded, report.seconds())


@_verb
def dry_run(
    contract: GivenContract,
    source: Source,
    target: Source,
    *,
    lanes: int | None = None,
    stream: str | None = None,
    kind: FileFormat | None = None,
    schema: str | None = None,
    after: Sequence[str] = (),
    journal: str | None = None,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> DryRunDocument:
    """What `route` would read, decide, create and write. Nothing is written; Spark is started only to read a `schema`.

    Lanes are decided for a sample, which the document states. What `route` refuses is refused here.
    """
    from keylane.contract.given import contract_from
    from keylane.pipelines.changes import with_change
    from keylane.pipelines.dry_run import dry_run as run
    from keylane.systems.endpoint import FileFormat, StreamOptions

    _check_choice("kind", kind, get_args(FileFormat))
    given = options or StreamOptions()
    streams = replace(given, kind=kind or given.kind, schema=schema or given.schema)
    streams = with_change(streams, [after] if isinstance(after, str) else after, journal)
    loaded, watch = contract_from(contract), Reporter("dry_run", progress).watch
    ends = os.fspath(source), os.fspath(target)
    return run(loaded, *ends, options=streams, lanes=lanes, stream=stream, watch=watch)


@_verb
def match(
    drivers: Source,
    riders: Source,
    target: Source,
    radius: float,
    *,
    contract: GivenContract | None = None,
    driver_columns: Columns | Mapping[str, Any] | None = None,
    rider_columns: Columns | Mapping[str, Any] | None = None,
    nearest: int | None = None,
    expire: float | None = None,
    lanes: int | None = None,
    assign: Assignment | None = None,
    window: float = 5.0,
    offer_for: float = 15.0,
    verify: bool = False,
    co_partitioned: bool = False,
    kind: FileFormat | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    follow: bool = False,
    stop: threading.Event | None = None,
    late: float | None = None,
    keep: float | None = None,
    ahead: float | None = None,
    state: Source | None = None,
    checkpoint: Source | None = None,
    every: str | None = None,
    max_files: int | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
) -> MatchDocument:
    """Every available driver within `radius` metres of each rider, at the rider's own moment; pairs go to `target`.

    Columns are called `id`, `time` (ts), `lat`, `lng`, `available`; those of the location are by default the fields of
    a contract that routes by one; a time may say how it is written, as `ts:ms`, and `scale` is how many of a location's
    numbers make a degree. `co_partitioned` requires that both sources are in lanes already.

    With `follow` it goes on until `stop` is set, and ends between two batches; only then `late`, `keep`, `ahead`,
    `state`, `checkpoint`, `every` and `max_files` may be given, as in the command.
    """
    from keylane.pipelines.match.options import Assignment, Columns, Options, check_following, location_columns
    from keylane.spark.context import warn
    from keylane.systems.endpoint import FileFormat, StreamOptions

    _check_choice("assign", assign, get_args(Assignment))
    _check_choice("kind", kind, get_args(FileFormat))
    asked = {"late": late, "keep": keep, "ahead": ahead, "state": state, "checkpoint": checkpoint}
    known = check_following({**asked, "every": every, "max_files": max_files}, follow=follow)
    streams, loaded = options or StreamOptions(), _maybe(contract)
    given = Options(
        radius,
        nearest,
        expire,
        drivers=_columns(Columns, driver_columns, location_columns(loaded)),
        riders=_columns(Columns, rider_columns, location_columns(loaded)),
        kind=kind,
        lanes=lanes,
        verify=verify,
        co_partitioned=co_partitioned,
        assign=assign,
        window=window,
        offer_for=offer_for,
        master=master,
        conf=dict(conf or {}),
        kafka=replace(streams, value=streams.value or "json"),
    ).checked(follow=follow)
    report, ends = Reporter("match", progress), (os.fspath(drivers), os.fspath(riders), os.fspath(target))
    say = warn if progress is None else report.step
    with report.on_spark():
        if not follow:
            from keylane.pipelines.match.batch import match as run

            return run(*ends, given, contract=loaded, spark=spark, say=say).document
        from keylane.pipelines.match.follow import Following
        from keylane.pipelines.match.follow import follow as run_following

        return run_following(
            *ends,
            given,
            Following(**known),
            contract=loaded,
            spark=spark,
            stop_asked=stop,
            tell=lambda figures: report.reached(figures.total["pings"] + figures.total["asked"]),
            say=say,
        )


@_verb
def profile(
    source: Source,
    key: str | Sequence[str] = (),
    *,
    place: Sequence[str] = (),
    encoding: Encoding | Sequence[Encoding] = "utf8",
    contract: GivenContract | None = None,
    time: str | None = None,
    size: str | None = None,
    lane: str | None = None,
    windows: int | None = None,
    seconds: float | None = None,
    scale: float | None = None,
    approximate: bool = False,
    engine: Engine = "auto",
    kind: FileFormat | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    out: Source | None = None,
    force: bool = False,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
) -> ProfileDocument:
    """Who is heavy in a stream, since when, and why a lane is hot; or of a profile that was saved with `out`.

    The key is named by `key`, by `place` (latitude and longitude) or by the contract. Windows are cut by the column
    `time`; `size` is the column with the size of a record, `lane` that of its lane, and `seconds` is how long a topic
    is listened to. Keys are personal data: they are cut and hashed unless `show_keys`.
    """
    from keylane.pipelines.engine import Options
    from keylane.pipelines.profile import document_of, saved_in

    loaded, where = _maybe(contract), os.fspath(source)
    kept = None if out is None else os.fspath(out)
    given = _counting(
        Options(
            *(time, size, lane, windows, seconds, scale, approximate, engine),
            *(kind, master, dict(conf or {})),
        ),
        options,
    )
    report = Reporter("profile", progress)
    made = _profiled(where, key, place, encoding, loaded, given, spark, report, kept, force=force)
    return document_of(made, loaded, show_keys=show_keys, out=kept or saved_in(where))


@_verb
def plan(
    source: Source | ProfileDocument,
    key: str | Sequence[str] = (),
    *,
    contract: GivenContract | None = None,
    lanes: int | tuple[int, int] | None = None,
    keep_order: OrderScope | None = None,
    max_over_mean: float | None = None,
    sub_key: str | None = None,
    today_lanes: int | None = None,
    joined_with: Sequence[GivenContract] = (),
    radius: float | None = None,
    growth: float | None = None,
    headroom: float | None = None,
    lane_mb_s: float | None = None,
    lane_records_s: float | None = None,
    reader_mb_s: float | None = None,
    reader_records_s: float | None = None,
    readers: int | None = None,
    service: str | None = None,
    brokers: int | None = None,
    place: Sequence[str] = (),
    encoding: Encoding | Sequence[Encoding] = "utf8",
    time: str | None = None,
    size: str | None = None,
    lane: str | None = None,
    windows: int | None = None,
    seconds: float | None = None,
    scale: float | None = None,
    approximate: bool = False,
    engine: Engine = "auto",
    kind: FileFormat | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
) -> PlanDocument:
    """Which strategy and how many lanes; what a change would gain, move and break, before it is made.

    The source is a saved profile, or whatever `profile` reads, by the same arguments (`key` to `conf`).
    `contract` is today's, `lanes` a count or the lowest and the highest, `keep_order` the least order that readers
    need: per-key, or what today's contract keeps, where none is given. With `radius`, in metres, locations are matched
    and copies count. What the stream must carry: `growth` to `brokers`. The contract of the plan is `contract` of the
    document.
    """
    from keylane.contract.answers import OrderScope
    from keylane.contract.given import contract_from, text_of
    from keylane.pipelines.engine import Options
    from keylane.pipelines.plan import PlanRequest, document_of, question_of
    from keylane.pipelines.profile import saved_in
    from keylane.plan.planner import make_plan

    _check_choice("keep_order", keep_order, get_args(OrderScope))
    demands = {
        "growth": growth,
        "headroom": headroom,
        "lane_mb_s": lane_mb_s,
        "lane_records_s": lane_records_s,
        "reader_mb_s": reader_mb_s,
        "reader_records_s": reader_records_s,
        "readers": readers,
        "service": service,
        "brokers": brokers,
    }
    where, loaded = saved_or_path(source), _maybe(contract)
    asked = PlanRequest(
        loaded,
        (lanes, lanes) if isinstance(lanes, int) else lanes,
        keep_order,
        max_over_mean,
        sub_key,
        today_lanes,
        tuple(map(contract_from, joined_with)),
        {name: value for name, value in demands.items() if value is not None},
        radius,
        "" if contract is None else text_of(contract),
    )
    counted = (time, size, lane, windows, seconds, scale, approximate, engine, kind, master)
    given = _counting(Options(*counted, dict(conf or {})), options)
    report = Reporter("plan", progress)
    made = _profiled(where, key, place, encoding, loaded, given, spark, report)
    report.step("comparing strategies")
    found = make_plan(made, question_of(made, asked))
    return document_of(made, found, show_keys=show_keys, stored=saved_in(where))


def _counting(given: Options, options: StreamOptions | None) -> Options:
    """How a source is counted, with the options of its stream; a choice that does not exist is refused."""
    from keylane.pipelines.engine import Engine
    from keylane.systems.endpoint import FileFormat

    _check_choice("engine", given.engine, get_args(Engine))
    _check_choice("kind", given.kind, get_args(FileFormat))
    return given if options is None else replace(given, kafka=options)


def _profiled(
    source: str,
    key: str | Sequence[str],
    place: Sequence[str],
    encoding: Encoding | Sequence[Encoding],
    contract: Contract | None,
    given: Options,
    spark: SparkSession | None,
    report: Reporter,
    out: str | None = None,
    *,
    force: bool = False,
) -> Profile:
    """A saved profile, or a new one."""
    from pathlib import Path

    from keylane.contract.names import ENCODINGS
    from keylane.errors import UsageError
    from keylane.pipelines.engine import Options
    from keylane.pipelines.profile import profile as run
    from keylane.pipelines.profile import saved_in
    from keylane.systems.profiles import read_profile

    for one in (encoding,) if isinstance(encoding, str) else encoding:
        _check_choice("encoding", one, ENCODINGS)
    if saved_in(source):
        usual = Options()
        named = {"key": key, "place": place, "encoding": encoding != "utf8", "out": out}
        called = {"kafka": "options"}
        of_options = {
            called.get(one.name, one.name): getattr(given, one.name) != getattr(usual, one.name)
            for one in fields(Options)
        }
        got = [name for name, is_given in {**named, **of_options}.items() if is_given]
        if got:
            hint = "leave it out"
            raise UsageError.of("the source is a profile, and counted already", got=", ".join(got), hint=hint)
        return read_profile(Path(source))
    with report.on_spark():
        return run(
            source,
            (key,) if isinstance(key, str) else tuple(key),
            place=tuple(place),
            encoding=encoding,
            contract=contract,
            options=given,
            out=out,
            replace_profile=force,
            spark=spark,
            say=report.step,
            watch=report.watch,
        )


def _columns(kind: type[Columns], given: Columns | Mapping[str, Any] | None, usual: Mapping[str, str]) -> Columns:
    """The columns of one side of a match; a name that is none is refused with those that are."""
    if isinstance(given, kind):
        return given
    from keylane.errors import ArgumentError, did_you_mean

    named = dict(given or {})  # type: ignore[arg-type]  # a mapping, where it is no Columns
    known = tuple(kind.__dataclass_fields__)
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ArgumentError.of("no such column of a match", got=name, allowed=", ".join(known), hint=hint)
    return kind(**{**usual, **named})


def _maybe(contract: GivenContract | None) -> Contract | None:
    from keylane.contract.given import contract_from

    return None if contract is None else contract_from(contract)


def _is_contract(given: Any) -> bool:
    from keylane.contract.given import is_text
    from keylane.systems.endpoint import is_contract_file

    return not isinstance(given, str | os.PathLike) or is_text(given) or is_contract_file(os.fspath(given))


def _check_choice(name: str, given: object, allowed: Sequence[str]) -> None:
    """Refuse a value that is none of the choices of an argument; None, where it is a default, chooses nothing."""
    if given is not None and given not in allowed:
        from keylane.errors import ArgumentError, did_you_mean

        hint = did_you_mean(given, allowed) if isinstance(given, str) else ""
        raise ArgumentError.of(f"{name} has no such choice", got=given, allowed=", ".join(allowed), hint=hint)


def _salt(source: object, *, show_keys: bool) -> bytes | None:
    """What goes into the hashes of keys of a source; of this call where it has no address, None to show them whole."""
    import secrets

    from keylane.systems.masks import salt_of

    fresh = secrets.token_bytes(16)
    if show_keys:
        return None
    return salt_of(str(source), fresh) if isinstance(source, str | os.PathLike) else fresh


def _shown(key: Any) -> str | None:
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, bytes | bytearray):
        return key.decode("utf-8", "backslashreplace")
    return None if hasattr(key, "keys") else str(key)
