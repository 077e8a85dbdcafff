"""The lane as a function of Spark SQL: `keylane_lane('payments', merchant_id)`. As a column: `frames.lane`.

Spark SQL has no way to hand an expression of many parts to a function of its own, so this one goes over Arrow, a batch
at a time in Spark's Python workers: the router itself decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from keylane.contract.fields import fields_of
from keylane.contract.given import contract_from
from keylane.errors import UsageError, did_you_mean
from keylane.router import Router
from keylane.spark.hashes import arrow_udf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from keylane.contract.given import GivenContract

FUNCTION: Final = "keylane_lane"


def register(
    spark: SparkSession,
    contracts: Mapping[str, GivenContract | Router] | Iterable[GivenContract | Router] | GivenContract | Router,
    *,
    name: str = FUNCTION,
) -> None:
    """Make `keylane_lane(contract, field, ...)` known to a session, for these contracts.

    In SQL a contract is called by its name: that of its metadata, or the one it has in a mapping. The fields are those
    of its key, in its order, then that of its window and those that divide hot keys. The lane is that of `lane`: null
    where there is none. Contracts with `lanes: live` come as routers, which know the count.
    """
    # A router holds functions, which do not travel: workers make their own, once for all batches of a task.
    known = {
        called: (one.contract, one.stream, one.key_space, one.hash_keys) for called, one in _routers(contracts).items()
    }
    made: dict[str, Router] = {}

    def place(*arrays: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        names, columns = arrays[0], list(arrays[1:])
        lanes = pa.nulls(len(names), pa.int32())
        for called in pc.unique(names).to_pylist():
            if called not in made:
                contract, stream, space, hash_keys = _called(known, called)
                made[called] = Router(contract, stream=stream, key_space=space, hash_keys=hash_keys)
            fields = list(fields_of(made[called].contract))
            if len(fields) != len(columns):
                got, allowed = f"{len(columns)} for {called}", ", ".join(fields)
                raise UsageError.of(f"{name} takes a contract and its fields", got=got, allowed=allowed)
            found = made[called].lanes(pa.RecordBatch.from_arrays(columns, names=fields))
            lanes = pc.if_else(pc.equal(names, called), found, lanes)
        return lanes

    spark.udf.register(name, arrow_udf(place, "int"))


def _routers(given: Any) -> dict[str, Router]:
    if isinstance(given, Mapping):
        found = [(str(called), _router(one)) for called, one in given.items()]
    else:
        made = [_router(one) for one in (given if isinstance(given, list | tuple | set) else [given])]
        found = [(one.contract.metadata.name, one) for one in made]
    if len(dict(found)) < len(found):
        hint = "give them names: {'payments': ..., 'refunds': ...}"
        raise UsageError.of("two contracts have one name", got=", ".join(called for called, _ in found), hint=hint)
    return dict(found)


def _router(given: Any) -> Router:
    return given if isinstance(given, Router) else Router(contract_from(given))


def _called(known: Mapping[str, Any], called: Any) -> Any:
    if called not in known:
        hint = did_you_mean(str(called), known)
        raise UsageError.of("no such contract is registered", got=called, allowed=", ".join(known), hint=hint)
    return known[called]
