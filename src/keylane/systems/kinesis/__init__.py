"""Kinesis: a contract in boto3, through explicit hash keys (`put`); what its addresses open to (`endpoint`)."""

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
