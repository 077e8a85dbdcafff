"""Kinesis: streams, their shards and records, through boto3. The only package that imports it.

    endpoint    what an address of a stream opens to
    access      region and endpoint; credentials are found by boto3, and errors show none
    shards      the shards of a stream as they are, and which of them may be read next
    reader      the records of a shard, in order; aggregated: those that stand in one record of the service
    messages    records as messages with headers, and back
    follow      a stream as the source of a route; target: as its target; writer: what a task of it writes
    stream      a stream as `verify` reads it; data: as `identify`, `check` and `profile` do
    load        what a stream carries over its key space: read, or as its metrics count it
    reshard     splits and merges of a stream; lineage: where each shard ended, and what is in it
    migration   a stream as the new side of a mirror
    put         a contract in boto3, through explicit hash keys; requests, and what becomes of refused records

The public names are those of `put`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keylane.systems.kinesis.put import KinesisPosition, put_arguments, put_records

__all__ = ["KinesisPosition", "put_arguments", "put_records"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("keylane.systems.kinesis.put"), name)
