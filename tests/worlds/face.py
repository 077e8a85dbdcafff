"""The public face of keylane as the oracles touch it: a command line in this process, and a public function by name.

The one module of `tests/worlds` that imports keylane: where a name or a keyword changes, the change is here. What is
made up to be run: the other modules of this folder, which know nothing of keylane.
"""

from __future__ import annotations

import io
import json
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
from tests.worlds.claims import Answer, Named, listed
from tests.worlds.producers import Writer

import keylane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.worlds.producers import Case

#: How a command ends that refuses because the data does not show what was asked.
NOT_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line did: how it ended, and what it wrote."""

    code: int
    out: str
    err: str


def run(words: Sequence[str], *, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Ran:
    """Run `keylane WORDS` in this process, in a folder; exits and errors end as they do for a user."""
    from keylane.cli.failures import fail
    from keylane.cli.main import _run
    from keylane.cli.terminal import shown

    before = replace(shown)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["keylane", *words]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        mock.patch.dict("os.environ", environ or {}),
        chdir(folder or Path.cwd()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = _run()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except Exception as error:  # noqa: BLE001  as the entry point does
            code = fail(error)
    # What a line asks to be shown is kept by the process, and the next line is another process's.
    for field in fields(shown):
        setattr(shown, field.name, getattr(before, field.name))
    return Ran(code, *(one.buffer.getvalue().decode("utf-8", "surrogateescape") for one in (out, err)))


def call(name: str, *given: Any, **named: Any) -> Any:
    """A public function of the package, by its name."""
    return getattr(keylane, name)(*given, **named)


def declaration() -> Any:
    """The root of the command line, as click has it."""
    from keylane.cli.main import cli

    return cli


def identified(case: Case, folder: Path | None = None) -> dict[str, Any]:
    """The document of `identify`, of the records of a case; with a folder: of a file of it, with times."""
    if folder is None:
        table = case.table().select(["key", "lane"])
        return dict(keylane.identify(table, case.given, key="key", lane="lane").as_json())
    path, time = case.write(f"{folder}/case.parquet"), None if case.times is None else "time"
    return dict(keylane.identify(path, case.given, key="key", lane="lane", time=time).as_json())


def first_contract(case: Case, folder: Path) -> tuple[dict[str, Any] | None, str | None]:
    """What `identify` says on the way to a first contract, and the contract's path; None each where it is refused."""
    path, contract = case.write(f"{folder}/case.parquet"), folder / "case.yaml"
    contract.unlink(missing_ok=True)
    try:
        found = keylane.init(path, "key", lane="lane", lanes=case.given, out=contract)
    except keylane.KeylaneError as error:
        if error.exit_code != NOT_SHOWN:
            raise
        if contract.exists():
            raise AssertionError(f"refused ({error}), and {contract} was written") from error
        return None, None
    return dict(found.as_json()["identified"]), str(contract)


def placed(contract: str, keys: Sequence[Any]) -> Any:
    """The lane of each key by a contract; None where it refuses some of them, or all as a column."""
    column = pa.record_batch({"key": pa.array(keys, pa.binary() if isinstance(keys[0], bytes) else None)})
    try:
        lanes = keylane.Router(contract).lanes(column)
    except keylane.KeylaneError:
        return None
    return None if lanes.null_count else lanes.to_numpy(zero_copy_only=False)


def answer_of(document: Mapping[str, Any]) -> Answer:
    """The claims of a document of `identify`."""
    return Answer(
        document["verdict"],
        document["lanes"],
        document["lanes_from"],
        tuple(_named(writer, document) for writer in document["writers"]),
    )


def _named(writer: Mapping[str, Any], document: Mapping[str, Any]) -> Named:
    lanes = writer.get("lanes") or document["lanes"]
    encoding = writer.get("encoding") or "utf8"
    name, parts = writer["partitioner"], writer.get("rule")
    rule = None
    if name is not None:
        rule = listed(name, encoding, lanes)
    elif parts is not None:
        # All of its 128 bits, where it is not ranges of them.
        hash_ = "md5-whole" if parts["hash"] == "md5-128" and parts["fold"] != "ranges" else parts["hash"]
        rule = Writer(hash_, parts["fold"], encoding, lanes, parts["seed"])
    advice = " ".join(fix["action"] for fix in writer.get("fixes", ()))
    return Named(
        rule,
        writer["share"],
        also=tuple(listed(other, encoding, lanes) for other in writer.get("also", ())),
        restart="restart" in advice and "if it still writes" not in advice,
        first_row=writer.get("since_row"),
        last_row=writer.get("until_row"),
        first_time=_micros(writer.get("since")),
        last_time=_micros(writer.get("until")),
    )


def _micros(time: str | None) -> int | None:
    """A time of a document in microseconds, if it is one of a day."""
    if time is None:
        return None
    at = datetime.fromisoformat(time)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1e6)


def stated_moves(old: Path, new: Path) -> dict[str, float | None]:
    """The share of keys that changes lane between two contracts, by each verb that states one; None: not known."""
    evolution = keylane.evolve(keylane.load_contract(old), keylane.load_contract(new))
    stated = {"evolve": evolution.moved.share, "migrate plan": keylane.migrate_plan(old, new).moved_share}
    # What one of several changes does to null keys alone is 0.
    parts = {f"evolve, {one.where}": one.moved_share for one in evolution.of("moves-keys") if one.moved_share}
    return {**stated, **parts}


def profiled(path: str, contract: Path) -> dict[str, Any]:
    """The document of `profile`, with whole keys."""
    return dict(keylane.profile(path, contract=contract, lane="lane", time="time", show_keys=True).as_json())


def planned(path: str, contract: Path, lanes: int) -> dict[str, Any]:
    """The document of `plan` for so many lanes, with whole keys."""
    found = keylane.plan(path, contract=contract, lanes=lanes, lane="lane", time="time", show_keys=True)
    return dict(found.as_json())


def places(contract: Path, keys: Iterable[str]) -> dict[str, tuple[str | None, int | None]]:
    """Where a contract puts each key: the stream, which a tier has of its own, and the lane."""
    router = keylane.Router(contract)
    found = {key: router.place({"key": key}) for key in keys}
    return {key: (one.stream, one.lane) for key, one in found.items()}


# A route and what goes with it, for the lives of streams (`life`).


def route(contract: Path, source: str, target: str, *, spark: Any, kill: Any = None, **how: Any) -> Any:
    """Route all there is in a session that is given; `kill` names a step and how often it is passed before the end."""
    from tests.worlds.life import Outcome

    from keylane.errors import KeylaneError
    from keylane.pipelines.route import KafkaOptions, Options
    from keylane.pipelines.route import route as run_route

    class KilledError(Exception):
        """What a run that is killed ends with."""

    left = [kill[1] if kill else 0]

    def probe(at: str, _batch: int) -> None:
        if kill and at == kill[0]:
            left[0] -= 1
            if not left[0]:
                raise KilledError(at)

    clock, after = how.pop("clock", 0.0), how.pop("after", ())
    options = Options(max_files=2, after=after, kafka=KafkaOptions(**how))
    now = time.time

    def turned() -> float:
        return now() + clock

    try:
        with mock.patch("time.time", turned):
            loaded = keylane.load_contract(contract)
            run_route(loaded, source, target, options=options, spark=spark, say=lambda _: None, probe=probe)
    except KilledError:
        return Outcome("killed")
    except KeylaneError as error:
        return Outcome("refused", str(error))
    return Outcome("done")


def migrate(old: Path, new: Path, stream: str, plan: Path, groups: Sequence[str], into: str | None = None) -> Any:
    """Plan a migration, in place or into another stream, save the plan and carry it out; all producers have stopped."""
    from tests.worlds.life import Outcome

    from keylane.errors import KeylaneError
    from keylane.pipelines.migrate import plan_migrate
    from keylane.pipelines.migrate_run import run_migrate

    try:
        found = plan_migrate(str(old), str(new), source=stream, target=into, groups=tuple(groups))
        plan.write_text(json.dumps(found.as_json()))
        done = run_migrate(plan, all_stopped=True, patience=60)
    except KeylaneError as error:
        return Outcome("refused", str(error))
    return Outcome("done" if done.phase == "done" else "refused", f"it is {done.phase}")


def verified(source: str, target: str, contract: Path, **how: Any) -> str:
    """The certificate's verdict, or the text of a refusal; a verdict that is not certified says of which rules."""
    from keylane.errors import KeylaneError
    from keylane.pipelines.verify import verify
    from keylane.systems.endpoint import StreamOptions

    try:
        loaded = keylane.load_contract(contract)
        found = verify(source, target, loaded, topics=StreamOptions(**how), engine="local")
    except KeylaneError as error:
        return f"refused: {error}"
    rules = [rule for rule, count in found.verdict.counts.items() if count]
    return f"{found.outcome}: {', '.join([*rules, *found.miscounted, *(one.rule for one in found.unproven)])}"


def checked(contract: Path, path: str) -> dict[str, Any]:
    """The document of `check CONTRACT --data`."""
    return dict(keylane.check(contract, data=path, lane="lane").as_json())
