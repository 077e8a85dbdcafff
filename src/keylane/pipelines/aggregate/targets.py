"""Where results go: a folder, in which a batch appears by renames; or streams, into which it is written as messages.

    ResultFolder    results/, corrections/, _dead/ and _load/ of a batch, staged and moved when it is committed
    ResultStreams   results, corrections and dead letters as messages of three streams; the rest in the state

Into streams a batch is written before it is committed in the state. Where the system keeps the number of the batch
beside its messages, one that was written and not committed is known when it is made again, and is not written twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from keylane.errors import TargetError
from keylane.pipelines.aggregate.results import messages_of, table_of
from keylane.pipelines.stateful.state_folder import read_sealed, write_sealed
from keylane.systems.delivery import OutMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from keylane.pipelines.aggregate.results import ResultRows
    from keylane.pipelines.stateful.state_folder import StateFolder
    from keylane.systems.delivery import BatchDelivery

DEAD_COLUMNS: Final = ("source", "reason", "original")
#: Streams beside that of the results.
CORRECTIONS, DEAD = ".corrections", ".dlq"


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """What a batch delivers: rows with the columns of their queries, and dead letters."""

    results: ResultRows
    corrections: ResultRows
    letters: Sequence[Mapping[str, Any]]
    columns: Mapping[str, Mapping[str, str]]
    #: The slide of each query, by which its windows are numbered.
    slides: Mapping[str, int]


class ResultTarget(Protocol):
    """Where results go."""

    @property
    def folder(self) -> Path:
        """Where metrics are, and results where the target is a folder."""
        ...

    def check(self, last: int) -> None:
        """Refuse a state that is older than the target; `last` is its last batch."""
        ...

    def stage(self, staging: Path, batch: int, made: BatchOutput) -> list[str]:
        """Write a batch, into its staging folder or into streams: what is to be moved once it is committed."""
        ...


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """A folder."""

    folder: Path

    def check(self, last: int) -> None:
        """By the state folder (`StateFolder.check_target`)."""

    def stage(self, staging: Path, batch: int, made: BatchOutput) -> list[str]:
        """As Parquet."""
        for name, rows in (("results", made.results), ("corrections", made.corrections)):
            if rows:
                _write(staging / name / f"batch={batch}", table_of(rows, made.columns))
        if made.letters:
            letters = {name: [letter[name] for letter in made.letters] for name in DEAD_COLUMNS}
            schema = pa.schema([(name, pa.string()) for name in DEAD_COLUMNS])
            _write(staging / "_dead" / f"batch={batch}", pa.table(letters, schema=schema))
        _stage_load(staging, batch, made)
        return _staged(staging, batch)


@dataclass(frozen=True, slots=True)
class ResultStreams:
    """Streams of one system."""

    state: StateFolder
    stream: str
    delivery: BatchDelivery

    @property
    def folder(self) -> Path:
        """The state has what is no message."""
        return self.state.path

    def check(self, last: int) -> None:
        """By the number that is kept beside the messages."""
        there = self.delivery.next_batch()
        if there is not None and there > last + 2:
            raise TargetError.of(
                f"the state is older than the target: {self.state.path}",
                got=f"batch {last} is its last",
                allowed=f"batch {there - 1}, of {self.stream}",
                hint="restore the newest state, or start anew with another --to and --state",
            )

    def stage(self, staging: Path, batch: int, made: BatchOutput) -> list[str]:
        """Into the streams, unless the batch is there."""
        if not self._is_there(batch):
            write_sealed(self._begun, {"batch": batch})
            self.delivery.write(batch, [*self._messages(made)])
        _stage_load(staging, batch, made)
        return _staged(staging, batch)

    def _messages(self, made: BatchOutput) -> list[OutMessage]:
        messages = messages_of(made.results, made.columns, self.stream)
        messages += messages_of(made.corrections, made.columns, f"{self.stream}{CORRECTIONS}")
        for letter in made.letters:
            headers = tuple((f"keylane.dead.{name}", str(letter[name]).encode()) for name in ("source", "reason"))
            key, value = str(letter["source"]).encode(), str(letter["original"]).encode()
            messages.append(OutMessage(f"{self.stream}{DEAD}", key[:200], value, headers))
        return messages

    @property
    def _begun(self) -> Path:
        return self.state.path / "delivering.json"

    def _is_there(self, batch: int) -> bool:
        there = self.delivery.next_batch()
        if there is None or there == batch:
            return False
        if there == batch + 1:
            return True
        # Brokers forget the offsets of a group after some days: then only a batch that was never begun is safe.
        if there == 0 and not (self._begun.exists() and read_sealed(self._begun)["batch"] >= batch):
            return False
        raise TargetError.of(
            f"whether batch {batch} is in {self.stream} is not known",
            got=f"batch {there} is the next by the number in the target" if there else "the number is gone",
            allowed=f"{batch} or {batch + 1}",
            hint="restore the newest state; or start anew with another --to and --state",
        )


def _stage_load(staging: Path, batch: int, made: BatchOutput) -> None:
    """Events and partial aggregates of each window, for `explain`."""
    if made.results:
        rows = made.results
        load = {
            "query_id": rows.query,
            "window": [start // made.slides[query] for query, start in zip(rows.query, rows.start, strict=True)],
            "events": rows.events,
            "partials": rows.partials,
        }
        _write(staging / "_load" / f"batch={batch}", pa.table(load))


def _staged(staging: Path, batch: int) -> list[str]:
    names = (f"{name}/batch={batch}" for name in ("results", "corrections", "_dead", "_load"))
    return [name for name in names if (staging / name).exists()]


def _write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part-00000.parquet")


def write_metrics(staging: Path, batch: int, metrics: Mapping[str, Any]) -> str:
    """Stage the metrics of a batch: what is to be moved."""
    name = f"_metrics/{batch:010d}.json"
    (staging / name).parent.mkdir(parents=True, exist_ok=True)
    (staging / name).write_text(json.dumps(metrics), encoding="utf-8")
    return name
