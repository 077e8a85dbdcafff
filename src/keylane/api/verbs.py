"""Each verb as a function that returns the document its command prints with `-o json`.

Sources are addresses or paths, contracts are `Contract`s, paths or text; errors are keylane's. `options` is what else
may be set about a stream (`keylane.systems.endpoint.StreamOptions`), `progress` is called with `Progress`. Nothing
heavy is imported before a verb is called.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.api.progress import Reporter

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from keylane.api.progress import OnProgress
    from keylane.contract.given import GivenContract
    from keylane.contract.model import Contract
    from keylane.documents.check import CheckedFindings
    from keylane.documents.explain import Explained
    from keylane.documents.identify import IdentifyDocument
    from keylane.documents.match import MatchDocument
    from keylane.documents.plan import PlanDocument
    from keylane.documents.profile import ProfileDocument
    from keylane.documents.route import RouteDocument
    from keylane.documents.verify import VerifyDocument
    from keylane.pipelines.match.options import Columns
    from keylane.profile.model import Profile
    from keylane.systems.endpoint import StreamOptions

    #: A path, or the address of a stream.
    Source: TypeAlias = str | os.PathLike[str]

_SPARK: Final = ("kind", "master", "conf")

__all__ = ["check", "explain", "identify", "match", "plan", "profile", "route", "verify"]


def explain(
    key: Any,
    *,
    lanes: int | None = None,
    contract: GivenContract | None = None,
    encoding: str = "utf8",
    position: int | None = None,
    like: str | None = None,
) -> Explained:
    """Where a key goes, under every client that might write it; and, with a contract, under that.

    With a contract `key` is a record, or the value of the key's only field. Without one it is a value that `encoding`
    turns into bytes, bytes, or None, and `lanes` is needed: the lane count is never guessed.
    """
    from keylane.errors import UnplacedError, UsageError
    from keylane.pipelines.explain import by_client, explained_by

    if contract is not None:
        from keylane.router import Router

        router = Router(contract, lanes=lanes)
        record = key if hasattr(key, "keys") else {router.only_field(): key}
        return explained_by(router, record, position, like, typed=_shown(key)).document
    if lanes is None:
        raise UsageError.of("the lane count is never guessed", hint="lanes=12, or contract=...")
    from keylane.keys.encode import encode

    try:
        asked = key if key is None or isinstance(key, bytes) else encode(key, encoding)  # type: ignore[arg-type]  # checked where it is used
    except UnplacedError as error:
        raise UsageError(str(error)) from None
    return by_client(asked, lanes, encoding, like or "kafka-java", typed=_shown(key))


def identify(
    source: Source | Iterable[pa.RecordBatch],
    lanes: int | None = None,
    *,
    key: str | None = None,
    lane: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> IdentifyDocument:
    """Which client's partitioner wrote a stream, and whether a second writer disagrees, and since when.

    The source may also be Arrow batches whose first column is the key and whose second is the lane; they are read once.
    """
    import secrets

    from keylane.pipelines import identify as pipeline

    report = Reporter("identify", progress)
    if isinstance(source, str | os.PathLike):
        asked = {"key": key, "lane": lane, "lanes": lanes, "time": time, "time_unit": time_unit}
        seen = pipeline.identify(os.fspath(source), **asked, options=options, watch=report.watch)  # type: ignore[arg-type]  # checked where it is used
    else:
        seen = pipeline.of_batches(report.watch(iter(source)), lanes)
    return pipeline.document_of(seen, None if show_keys else secrets.token_bytes(16))


def check(
    *given: GivenContract,
    data: Source | None = None,
    key: str | None = None,
    lane: str | None = None,
    lanes: int | None = None,
    options: StreamOptions | None = None,
    progress: OnProgress | None = None,
) -> CheckedFindings:
    """Whether a stream keeps its contract: one contract, alone or with `data`.

    Two or more contracts, or two or more data sets with `key`: whether they are co-partitioned. A path is that of a
    contract where it ends in .yaml or .yml. `ok` says whether all is well; nothing is raised for what is found.
    """
    from keylane.errors import UsageError
    from keylane.pipelines.check import check_contract, compare_contracts, compare_streams

    watch = Reporter("check", progress).watch
    contracts = [one for one in given if _is_contract(one)]
    if not given or (contracts and len(contracts) < len(given)):
        raise UsageError.of("contracts and data sets cannot be compared with each other", hint="data=...")
    if not contracts:
        streams = [os.fspath(one) for one in given]  # type: ignore[arg-type]  # what is no contract is a path
        return compare_streams(streams, key=key, lane=lane, lanes=lanes, options=options, watch=watch)
    if len(contracts) == 1:
        where = None if data is None else os.fspath(data)
        return check_contract(contracts[0], where, lane=lane, lanes=lanes, options=options, watch=watch)
    if data is not None:
        raise UsageError.of("data goes with one contract", got=f"{len(contracts)} contracts")
    return compare_contracts(contracts)


def verify(
    source: Source,
    target: Source,
    contract: GivenContract | None = None,
    *,
    lanes: int | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
    **more: Any,
) -> VerifyDocument:
    """Whether every record of a source is in a target once, in order and in its lane: a certificate, or what is wrong.

    `more` may hold `mode`, `engine`, `keep` and `values`, as the options of the command. `ok` is true only where
    everything was proven.
    """
    from keylane.pipelines.certificate import document_of
    from keylane.pipelines.verify import verify as run

    _only(more, "mode", "engine", "keep", "values")
    report = Reporter("verify", progress)
    known = {"lanes": lanes, "topics": options, "spark": spark, "watch": report.watch}
    with report.on_spark():
        return document_of(run(os.fspath(source), os.fspath(target), _maybe(contract), **known, **more))  # type: ignore[arg-type]  # checked where it is used


def route(
    contract: GivenContract,
    source: Source,
    target: Source,
    *,
    follow: bool = False,
    stop: threading.Event | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
    **more: Any,
) -> RouteDocument:
    """Put every record of a source in its lane under a target, exactly once; run again, it goes on where it ended.

    With `follow` it goes on until `stop` is set, and ends between two batches. `more` may hold `lanes`, `stream`,
    `kind`, `schema`, `max_files`, `every`, `master` and `conf`, as the options of the command.
    """
    from keylane.contract.given import contract_from
    from keylane.pipelines.route import Options, document_of
    from keylane.pipelines.route import route as run

    _only(more, "lanes", "stream", "kind", "schema", "max_files", "every", "master", "conf")
    loaded, report = contract_from(contract), Reporter("route", progress)
    given = Options(**more) if options is None else Options(kafka=options, **more)
    told = {} if progress is None else {"say": report.say, "tell": lambda done: report.more(done.counts.in_)}
    ends = os.fspath(source), os.fspath(target)
    with report.on_spark():
        found = run(loaded, *ends, follow=follow, options=given, spark=spark, stop_asked=stop, **told)  # type: ignore[arg-type]  # checked where it is used
    return document_of(found, loaded, report.seconds())


def match(
    drivers: Source,
    riders: Source,
    target: Source,
    radius: float,
    *,
    contract: GivenContract | None = None,
    driver_columns: Columns | Mapping[str, Any] | None = None,
    rider_columns: Columns | Mapping[str, Any] | None = None,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
    **more: Any,
) -> MatchDocument:
    """Every available driver within `radius` metres of each rider, at the rider's own moment; pairs go to `target`.

    Columns are called `id`, `time` (ts), `lat`, `lng`, `available`, and `unit` is that of integer times. `more` may
    hold `nearest`, `expire`, `lanes`, `assign`, `window`, `offer_for`, `verify`, `co_partitioned`, `kind`, `master`
    and `conf`.
    """
    from keylane.pipelines.match.batch import match as run
    from keylane.pipelines.match.options import Columns, Options

    _only(more, "nearest", "expire", "lanes", "assign", "window", "offer_for", "verify", "co_partitioned", *_SPARK)
    sides = [one if isinstance(one, Columns) else Columns(**(one or {})) for one in (driver_columns, rider_columns)]
    given = Options(radius, drivers=sides[0], riders=sides[1], **more)
    if options is not None:
        given = replace(given, kafka=replace(options, value=options.value or "json"))
    report = Reporter("match", progress)
    told: dict[str, Any] = {} if progress is None else {"say": report.say}
    where = (os.fspath(drivers), os.fspath(riders), os.fspath(target))
    with report.on_spark():
        return run(*where, given, contract=_maybe(contract), spark=spark, **told).document


#: How a source is read and counted: `profile` and `plan` take them all.
READING: Final = (
    *("time", "unit", "size", "lane", "windows", "seconds", "scale"),
    *("approximate", "engine", *_SPARK),
)


def profile(
    source: Source,
    key: str | Sequence[str] = (),
    *,
    place: Sequence[str] = (),
    encoding: str | Sequence[str] = "utf8",
    contract: GivenContract | None = None,
    out: Source | None = None,
    force: bool = False,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
    **more: Any,
) -> ProfileDocument:
    """Who is heavy in a stream, since when, and why a lane is hot; or of a profile that was kept with `out`.

    The key is named by `key`, by `place` (latitude and longitude) or by the contract. `more` may hold `time`, `unit`,
    `size`, `lane`, `windows`, `seconds`, `scale`, `approximate`, `engine`, `kind`, `master` and `conf`, as in the
    command.
    Keys are personal data: they are cut and hashed unless `show_keys`.
    """
    from keylane.pipelines.profile import document_of, kept_in

    loaded, where = _maybe(contract), os.fspath(source)
    kept = None if out is None else os.fspath(out)
    asked = {"key": key, "place": place, "encoding": encoding, "contract": loaded, **more}
    report = Reporter("profile", progress)
    made = _profiled(where, asked, options, spark, report, kept, force=force)
    return document_of(made, loaded, show_keys=show_keys, out=kept or kept_in(where))


def plan(
    source: Source,
    *,
    contract: GivenContract | None = None,
    lanes: int | tuple[int, int] | None = None,
    keep_order: str | None = None,
    max_over_mean: float | None = None,
    sub_key: str | None = None,
    today_lanes: int | None = None,
    joined_with: Sequence[GivenContract] = (),
    radius: float | None = None,
    show_keys: bool = False,
    options: StreamOptions | None = None,
    spark: SparkSession | None = None,
    progress: OnProgress | None = None,
    **more: Any,
) -> PlanDocument:
    """Which strategy and how many lanes; what a change would gain, move and break, before it is made.

    The source is a profile that was kept, or whatever `profile` reads, by the same arguments (`key`, `place`, ...).
    `contract` is today's, `lanes` a count or the lowest and the highest, `keep_order` the least order that readers
    need: per-key, or what today's contract keeps, where none is given. With `radius`, in metres, locations are matched
    and copies count. `more` may hold what the stream must carry:
    `growth`, `headroom`, `lane_mb_s`, `lane_records_s`, `reader_mb_s`, `reader_records_s`, `readers`, `service`,
    `brokers`. The contract of the plan is `contract` of the document.
    """
    from keylane.contract.given import contract_from
    from keylane.pipelines.plan import DEMANDS, PlanRequest, document_of, question_of
    from keylane.pipelines.profile import kept_in
    from keylane.plan.planner import make_plan

    demands = {name: more.pop(name) for name in DEMANDS if name in more}
    where, loaded = os.fspath(source), _maybe(contract)
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
    )
    report = Reporter("plan", progress)
    made = _profiled(where, {**more, "contract": loaded}, options, spark, report)
    report.say("comparing strategies")
    found = make_plan(made, question_of(made, asked))
    return document_of(made, found, show_keys=show_keys, stored=kept_in(where))


def _profiled(
    source: str,
    asked: dict[str, Any],
    options: StreamOptions | None,
    spark: SparkSession | None,
    report: Reporter,
    out: str | None = None,
    *,
    force: bool = False,
) -> Profile:
    """A profile that was kept, or a new one."""
    from pathlib import Path

    from keylane.errors import UsageError
    from keylane.pipelines.profile import Options, kept_in
    from keylane.pipelines.profile import profile as run
    from keylane.systems.profiles import read_profile

    _only(asked, "key", "place", "encoding", "contract", *READING)
    if kept_in(source):
        given = [name for name, value in asked.items() if name != "contract" and value and value != "utf8"]
        if given or out:
            got = ", ".join([*given, *(["out"] if out else [])])
            raise UsageError.of("the source is a profile, and counted already", got=got, hint="leave it out")
        return read_profile(Path(source))
    key, encoding = asked.pop("key", ()), asked.pop("encoding", "utf8")
    place, contract = asked.pop("place", ()), asked.pop("contract", None)
    given_options = Options(**asked) if options is None else Options(kafka=options, **asked)
    with report.on_spark():
        return run(
            source,
            (key,) if isinstance(key, str) else tuple(key),
            place=tuple(place),
            encoding=encoding,
            contract=contract,
            options=given_options,
            out=out,
            replace_profile=force,
            spark=spark,
            say=report.say,
            watch=report.watch,
        )


def _maybe(contract: GivenContract | None) -> Contract | None:
    from keylane.contract.given import contract_from

    return None if contract is None else contract_from(contract)


def _is_contract(given: Any) -> bool:
    from keylane.contract.given import is_text

    if not isinstance(given, str | os.PathLike) or is_text(given):
        return True
    return os.fspath(given).endswith((".yaml", ".yml")) and "://" not in os.fspath(given)


def _only(given: Mapping[str, Any], *known: str) -> None:
    """Refuse what no option is called, with the nearest that is."""
    from keylane.errors import ArgumentError, did_you_mean

    for name in given:
        if name not in known:
            raise ArgumentError.of(
                "no such argument", got=name, allowed=", ".join(known), hint=did_you_mean(name, known)
            )


def _shown(key: Any) -> str | None:
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, bytes | bytearray):
        return key.decode("utf-8", "backslashreplace")
    return None if hasattr(key, "keys") else str(key)
