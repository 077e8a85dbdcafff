"""What a case is: a contract, columns, and the rows' places in their source. How each way takes it is in `ways`.

A case is small, and has its misfits in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml

from keylane.contract.parse import parse_contract
from keylane.router import Router

if TYPE_CHECKING:
    from keylane.contract.model import Contract
    from keylane.placement.ranges import KeySpace

Columns = dict[str, pa.Array]
Spec = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One contract and one batch. `lanes` is the live count, where the contract asks for it.

    `positions`: whether the way is told the places of the rows, one of which is null.
    `alone`: whether Spark's `lane(contract)` is asked beside `route`. With overrides, which take long to compile twice,
    a few cases of each kind do.
    `by_record`: False where a column holds what no Python value can.
    `key_space`: the layout of the shards, where they are not of equal width.
    """

    spec: Spec
    columns: Columns
    positions: bool = True
    lanes: int | None = None
    alone: bool | None = None
    by_record: bool = True
    key_space: KeySpace | None = None

    @property
    def asked_alone(self) -> bool:
        return {"hot_keys", "table"}.isdisjoint(self.spec) if self.alone is None else self.alone

    @property
    def fits_spark(self) -> bool:
        """Spark has no unsigned integers, so no frame can hold them; `test_spark_backends` holds that against Spark."""
        return not any(pa.types.is_unsigned_integer(column.type) for column in self.columns.values())

    @cached_property
    def contract(self) -> Contract:
        usual = {"streams": ["t"], "lanes": 16, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
        document = {
            "apiVersion": "keylane/v1",
            "kind": "RoutingContract",
            "metadata": {"name": "test"},
            "spec": {**usual, **self.spec},
        }
        return parse_contract(yaml.safe_dump(document, allow_unicode=True))

    @property
    def router(self) -> Router:
        return Router(self.contract, lanes=self.lanes, key_space=self.key_space)

    @property
    def table(self) -> pa.Table:
        return pa.table(self.columns)

    @property
    def at(self) -> list[int | None]:
        """The places: before zero too, one unknown, and the last there can be."""
        rows = len(next(iter(self.columns.values())))
        out: list[int | None] = [257 * i - 600 for i in range(rows)]
        return [*out[:3], None, *out[4:-1], 2**63 - 1] if rows > 4 else out

    @property
    def frame(self) -> pa.Table:
        """The columns, and the places beside them: what a frame on Spark is made of."""
        return self.table.append_column("at", pa.array(self.at, pa.int64()))


def of(values: list[Any], kind: Any = None, name: str = "k") -> Columns:
    return {name: pa.array(values, kind)}


def crossed(**lists: list[Any]) -> Columns:
    """Every combination of the values, as columns."""
    rows: list[dict[str, Any]] = [{}]
    for name, values in lists.items():
        rows = [{**row, name: value} for row in rows for value in values]
    return {name: pa.array([row[name] for row in rows]) for name in lists}


def key(encoding: Any = "utf8", fields: tuple[str, ...] = ("k",), **more: Any) -> Spec:
    return {"key": {"fields": list(fields), "encoding": encoding, **more}}


def window(size: str, **more: Any) -> Spec:
    return {"window": {"field": "t", "size": size, **more}}


def hot(**rule: Any) -> Spec:
    return {"hot_keys": [{"keys": ["a"], **rule}]}


def many(count: int) -> list[str]:
    return [f"key-{i:04d}" for i in range(count)]
