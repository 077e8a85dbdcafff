"""Targets as `route` makes them, made without Spark: source files, and lanes, dead letters, head and manifests."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane import Router
from keylane.systems.folders.folder import Counts, Head, Manifest, TakenFile, dead_file, lane_file
from keylane.systems.journal import write_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from keylane import Contract


def make(folder: Path, contract: Contract, tables: Sequence[pa.Table]) -> tuple[Path, Path]:
    """Source and target; each table is one source file, and one batch of the target."""
    source, target = folder / "source", folder / "target"
    source.mkdir(parents=True)
    for part in ("batches", "staging"):
        (target / "_keylane" / part).mkdir(parents=True)
    router = Router(contract)
    tiers = {rule.tier.stream: rule.tier.lanes for rule in contract.spec.hot_keys if rule.tier}
    streams, meta = {router.stream: router.lane_count, **tiers}, contract.metadata
    head = Head(meta.name, meta.epoch, contract.fingerprint, streams, str(source), "parquet", "*.{parquet,pq}")
    write_document(target / "_keylane" / "target.json", head.as_json())
    state = Manifest.before_all(head)
    for number, table in enumerate(tables):
        name = f"f{number:03d}.parquet"
        pq.write_table(table, source / name)
        os.utime(source / name, (1_700_000_000 + number,) * 2)
        state = _batch(target, router, state, name, table)
    return source, target


def _batch(target: Path, router: Router, state: Manifest, name: str, table: pa.Table) -> Manifest:
    positions = np.arange(state.next_position, state.next_position + len(table))
    placed = router.placements(table.combine_chunks(), positions)
    file = pa.repeat(name, len(table))
    source = pa.StructArray.from_arrays([file, pa.array(np.arange(len(table)))], names=["file", "row"])
    full = table.append_column("keylane_source", source)
    reason = placed.column("reason").is_valid().to_numpy(zero_copy_only=False)
    stream, lane = placed.column("stream").to_pylist(), placed.column("lane").to_pylist()
    following = {s: list(starts) for s, starts in state.next.items()}
    for where in sorted({(s, n) for s, n, bad in zip(stream, lane, reason, strict=True) if not bad}):
        rows = [i for i, at in enumerate(zip(stream, lane, strict=True)) if at == where and not reason[i]]
        first = following[where[0]][where[1]]
        _write(target / lane_file(*where, state.batch + 1), full.take(rows), first)
        following[where[0]][where[1]] += len(rows)
    dead = np.flatnonzero(reason)
    if len(dead):
        originals = [json.dumps(row).encode() for row in table.take(dead).to_pylist()]
        letters = full.select(["keylane_source"]).take(dead)
        letters = letters.append_column("reason", placed.column("reason").take(dead))
        letters = letters.append_column("original", pa.array(originals, pa.binary()))
        letters = letters.append_column("fingerprint", pa.repeat(state.fingerprint, len(dead)))
        _write(target / dead_file(state.batch + 1), letters, state.next_dead)
    counts = Counts(len(table), len(table) - len(dead), len(dead), 0)
    manifest = Manifest(
        batch=state.batch + 1,
        query="",
        fingerprint=state.fingerprint,
        staging="",
        counts=counts,
        total=state.total + counts,
        next=following,
        next_dead=state.next_dead + len(dead),
        placed=(),
        taken=(TakenFile(name, 1, 1, len(table)),),
        next_position=state.next_position + len(table),
        taken_files=state.taken_files + 1,
        taken_bytes=0,
        schema="",
    )
    write_document(target / "_keylane" / "batches" / f"{manifest.batch:010d}.json", manifest.as_json())
    return manifest


def _write(path: Path, rows: pa.Table, first: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    offsets = pa.array(np.arange(first, first + len(rows)))
    pq.write_table(rows.append_column("keylane_offset", offsets), path)


def payments(files: int = 3, rows: int = 400, *, nulls: bool = True) -> list[pa.Table]:
    """Tables of payments: a few keys, of which one is hot, an order each, a time; one key in 40 is null."""
    tables = []
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        keys = [None if nulls and n % 40 == 39 else "hot" if n % 3 == 0 else f"key-{n % 17}" for n in ids]
        orders = [f"order-{n % 7}" for n in ids]
        times = [1_763_000_000_000 + n * 60_000 for n in ids]
        tables.append(pa.table({"k": keys, "order": orders, "ts": times, "n": list(ids)}))
    return tables


def rewrite(file: Path, rows: Sequence[int], *, keep_offsets: bool = True) -> None:
    """A file with its rows in another order, or only some of them; the offsets stay where they were."""
    table = pq.ParquetFile(file).read()
    offsets = table["keylane_offset"].to_pylist()
    changed = table.take(list(rows))
    if keep_offsets:
        at = changed.schema.get_field_index("keylane_offset")
        changed = changed.set_column(at, "keylane_offset", pa.array(offsets[: len(rows)]))
    pq.write_table(changed, file)
