"""The fields that a contract needs of a topic's records, in the form that the user says values have.

Key, time, JSON and text are Spark's own expressions (`spark.decoding`); Avro and Protobuf are read in Python workers, a
batch at a time (`systems.values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType

from keylane.pipelines.batch import needed_types
from keylane.spark.arrow import arrow_udf
from keylane.spark.decoding import from_key, from_value, value_fields
from keylane.systems.values import UNREAD, read_fields, value_form

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

    from keylane.contract.model import Contract
    from keylane.pipelines.kafka.options import KafkaOptions
    from keylane.systems.values import ValueForm

__all__ = ["fields_of"]


def fields_of(contract: Contract, said: KafkaOptions) -> tuple[dict[str, Column], Column | None]:
    """The columns that the contract needs, and which records cannot be read; None when all can."""
    names, types = value_fields(contract), needed_types(contract)
    if said.value not in {"avro", "protobuf"} or not names:
        fields, unread = from_value(contract, said.value, types)
        return {**from_key(contract), **fields}, unread
    numbers = [name for name in names if isinstance(types.get(name), LongType)]
    degrees = [name for name in names if isinstance(types.get(name), DoubleType)]
    form = value_form(str(said.value), said.value_schema, said.message, names, numbers, degrees)
    found = _read(form)(F.col("value"))
    return {**from_key(contract), **{name: found[name] for name in names}}, found[UNREAD]


def _read(form: ValueForm) -> Any:
    def read(values: pa.Array) -> pa.Array:
        return read_fields(form, values)

    kinds = ", ".join(f"`{name}`: {_written(form, name)}" for name in form.fields)
    return arrow_udf(read, f"struct<{kinds}, {UNREAD}: boolean>")


def _written(form: ValueForm, name: str) -> str:
    return "bigint" if name in form.numbers else "double" if name in form.degrees else "string"
