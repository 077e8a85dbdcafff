"""Trace commands of keylane and print the modules that each of them passes, in the order of first entry.

    python scripts/walk.py                              # every walk, as a table
    python scripts/walk.py --json                       # the same as JSON, with the modules in order
    python scripts/walk.py --only explain,verify
    python scripts/walk.py --src ../old/src/keylane     # another tree, by the same rule

Each command runs in a process of its own, through the command line, so that the walks work on any version of keylane.
A module is passed when one of its functions is called: `passed` counts every call, also those made while a module is
being imported; `at_run_time` leaves those out, and is what `docs/architecture.md` draws. Bodies of modules and classes
are no calls. Spark's Python workers are not traced: they are other processes. Threads are, because Spark calls a batch
back in one. The walk into Kafka starts a broker of its own. Used by `scripts/house.py`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SOURCE: Final = Path(__file__).resolve().parent.parent / "src/keylane"
RECORDS: Final = 4_000
CONTRACT: Final = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec:
  streams: [payments]
  lanes: 4
  key: {fields: [merchant]}
  partitioner: kafka-java
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """A command to trace. Words in capital letters stand for paths and addresses of the run."""

    name: str
    arguments: tuple[str, ...]
    exit_codes: tuple[int, ...] = (0,)
    #: The walk that writes what this one reads.
    after: str | None = None
    needs_broker: bool = False


WALKS: Final = (
    Walk("explain", ("explain", "TT0124", "--lanes", "15")),
    Walk("explain with a contract", ("explain", "TT0124", "--contract", "CONTRACT")),
    Walk("route files", ("route", "CONTRACT", "--from", "SOURCE", "--to", "FOLDER")),
    Walk(
        "verify", ("verify", "--source", "SOURCE", "--target", "FOLDER", "--contract", "CONTRACT"), after="route files"
    ),
    Walk("profile", ("profile", "SOURCE", "--key", "merchant", "--time", "at:ms", "--out", "PROFILE")),
    Walk("plan", ("plan", "PROFILE", "--lanes", "8"), (0, 3), "profile"),
    Walk(
        "plan with report",
        ("plan", "PROFILE", "--lanes", "8", "--contract", "CONTRACT", "--report", "PAGE", "--explain", "--show-keys"),
        (0, 3),
        "profile",
    ),
    Walk(
        "route Kafka",
        ("route", "CONTRACT", "--from", "RAW", "--to", "LANES", "--state", "STATE", "--create", "--value", "json"),
        needs_broker=True,
    ),
)


@dataclass(slots=True)
class Trace:
    """What a profile function sees: modules in the order of first entry, each with its first function and caller."""

    package: str
    passed: dict[str, str] = field(default_factory=dict)
    at_run_time: dict[str, tuple[str, str]] = field(default_factory=dict)
    changes: int = 0
    _last: str = ""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take note of a call. Code without CO_OPTIMIZED is the body of a module or a class."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.package) or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        name = module_name(code.co_filename, self.package)
        if name != self._last:
            self.changes, self._last = self.changes + 1, name
        self.passed.setdefault(name, code.co_name)
        if name not in self.at_run_time:
            callers = self._callers(frame)
            if callers is not None:
                self.at_run_time[name] = code.co_name, next((caller for caller in callers if caller != name), "")

    def _callers(self, frame: FrameType) -> list[str] | None:
        """The modules on the stack, nearest first; None while a module of the package is being imported."""
        callers, caller = [], frame.f_back
        while caller is not None:
            if caller.f_code.co_filename.startswith(self.package):
                if caller.f_code.co_name == "<module>":
                    return None
                callers.append(module_name(caller.f_code.co_filename, self.package))
            caller = caller.f_back
        return callers


def module_name(file: str, package: str) -> str:
    """`/src/keylane/cli/main.py` -> `cli.main`; the `__init__` of a package has the package's name."""
    name = file.removeprefix(package).removesuffix(".py").strip("/").replace("/", ".")
    return "keylane" if name == "__init__" else name.removesuffix(".__init__")


def trace(package: str, out: Path, arguments: list[str]) -> int:
    """Run one command in this process, and write what it passed."""
    sys.path.insert(0, str(Path(package).parent))
    from keylane.cli.main import main

    seen, code = Trace(package), 0
    sys.argv = ["keylane", *arguments]
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    steps = [{"module": name, "function": at[0], "caller": at[1]} for name, at in seen.at_run_time.items()]
    found = {"passed": list(seen.passed), "at_run_time": steps, "changes": seen.changes}
    out.write_text(json.dumps(found), encoding="utf-8")
    return code


def walked(package: Path, only: set[str]) -> dict[str, Any]:
    """Every walk on a tree, by its name."""
    chosen = [walk for walk in WALKS if not only or walk.name in only]
    needed = {walk.name for walk in chosen} | {walk.after for walk in chosen}
    with tempfile.TemporaryDirectory(prefix="keylane-walk-") as name:
        folder = Path(name)
        words = inputs(folder)
        with broker(package, wanted=any(walk.needs_broker for walk in chosen)) as addresses:
            found = {walk.name: run(package, walk, words | addresses, folder) for walk in WALKS if walk.name in needed}
        return {walk.name: found[walk.name] for walk in chosen}


def run(package: Path, walk: Walk, words: dict[str, str], folder: Path) -> dict[str, Any]:
    """One walk in a process of its own."""
    out = folder / "trace.json"
    arguments = [words.get(argument, argument) for argument in walk.arguments]
    command = [sys.executable, __file__, "--trace", str(out), "--src", str(package), "--", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)  # noqa: S603  ours
    if done.returncode not in walk.exit_codes:
        sys.exit(f"walk {walk.name!r} ended with {done.returncode}: {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {"command": " ".join(["keylane", *walk.arguments]), **found}


def inputs(folder: Path) -> dict[str, str]:
    """A contract and a small source, and the names of what the walks write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "contract.yaml").write_text(CONTRACT, encoding="utf-8")
    (folder / "source").mkdir()
    pq.write_table(pa.Table.from_pylist(records()), folder / "source/day.parquet")
    paths = {"CONTRACT": "contract.yaml", "SOURCE": "source", "FOLDER": "lanes", "PROFILE": "day.profile"}
    return {word: str(folder / name) for word, name in {**paths, "PAGE": "plan.html", "STATE": "state"}.items()}


def records() -> list[dict[str, Any]]:
    """A day of payments: few merchants have most of them."""
    return [
        {
            "merchant": f"merchant_{row * row % (7 + row % 400):05}",
            "order_id": row,
            "at": 1_763_164_800_000 + row * 20_000,
        }
        for row in range(RECORDS)
    ]


@contextmanager
def broker(package: Path, *, wanted: bool) -> Iterator[dict[str, str]]:
    """A broker with a topic of records, for the walks that need one: its addresses."""
    if not wanted:
        yield {}
        return
    sys.path.insert(0, str(package.parent))
    os.environ["PYTHONPATH"] = str(package.parent)  # the broker starts a Python of its own, which ends with this one
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    from keylane.systems.broker import running

    with running() as cluster:
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(settings)
        for created in admin.create_topics([NewTopic("raw", 2), NewTopic("payments", 4)]).values():
            created.result()
        producer = Producer(settings)
        for record in records():
            producer.produce("raw", key=record["merchant"], value=json.dumps(record))
        producer.flush()
        address = f"kafka://{cluster.bootstrap}"
        yield {"RAW": f"{address}/raw", "LANES": f"{address}/payments"}


def main() -> None:
    """Trace one command, or all walks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--src", type=Path, default=SOURCE, help="the package to trace; default: src/keylane")
    parser.add_argument("--only", default="", help="names of walks, with commas between them")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    package = options.src.resolve()
    if options.trace:
        sys.exit(trace(f"{package}/", options.trace, options.arguments))
    found = walked(package, set(filter(None, options.only.split(","))))
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, walk in found.items():
        print(f"{name:26}{len(walk['passed']):4} passed{len(walk['at_run_time']):4} at run time")


if __name__ == "__main__":
    main()
