"""The lane table of a match that has no contract: made of its own pings, for its own radius, as `geo table` makes it.

Lanes decide how the work is divided and never which pairs are found. The hash of a cell does not know a city: one lane
has nearly all of it. A table of equal work costs one more pass over the pings.
"""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from keylane.contract.parse import parse_contract
from keylane.errors import KeylaneError
from keylane.numbers import count
from keylane.pipelines.engine import MOST_RECORDS
from keylane.pipelines.engine import Options as Counting
from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.systems.endpoint import open_endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keylane.contract.model import Contract
    from keylane.pipelines.match.options import Options
    from keylane.pipelines.match.sources import MatchSource
    from keylane.spark.context import Say

#: The name of the contract; it is not written anywhere.
NAME: Final = "match-by-table"
#: Without a contract and without a table: cells of about 1,770 km2, hashed.
PLAIN_RESOLUTION: Final = 4


def own_contract(
    drivers: MatchSource, lanes: int, given: Options, spark: SparkSession, say: Say
) -> tuple[Contract | None, str]:
    """The table with the least work for the radius; None where there can be none, and why."""
    columns = given.drivers
    counting = Counting(
        time=columns.time,
        scale=columns.scale,
        kind=given.kind,
        kafka=replace(given.kafka, read_range=given.kafka.read_range if drivers.messages else None),
    )
    wish = TableWish(lanes, radii=(given.radius,), name=NAME)
    records = open_endpoint(drivers.address, replace(counting.kafka, kind=given.kind)).estimated_records()
    session = None if records is not None and records <= MOST_RECORDS else spark
    try:
        made = geo_table(
            str(drivers.address), columns.lat, columns.lng, wish=wish, options=counting, spark=session, say=say
        )
    except KeylaneError as error:
        return None, f"{plain_lanes(lanes)}, because no table could be made: {error}"
    table, keep = made.document, table_command(drivers, lanes, given)
    how = f"a table of {count(table.leaves)} cells for {given.radius:g} m ({table.strategy}), made of these drivers"
    return parse_contract(made.contract, NAME), f"no contract: {how}; to keep it: {keep}"


def plain_lanes(lanes: int) -> str:
    """What lanes are without a contract and without a table."""
    return f"no contract: lanes by the hash of cells of resolution {PLAIN_RESOLUTION}, over {lanes}"


def table_command(drivers: MatchSource, lanes: int, given: Options) -> str:
    """How to write the contract that a match like this one should have."""
    columns = given.drivers
    named_columns = {"--lat": (columns.lat, "lat"), "--lng": (columns.lng, "lng")}
    named = [f" {option} {quote(name)}" for option, (name, usual) in named_columns.items() if name != usual]
    scale = "" if columns.scale is None else f" --scale {columns.scale:.12g}"
    time = f" --time {quote(columns.time)}"
    size = f" --lanes {lanes} --radius {given.radius:g}"
    return f"keylane geo table {quote(str(drivers))}{''.join(named)}{scale}{time}{size} --write places.yaml"
