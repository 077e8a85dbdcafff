"""Which engine counts a source: this process, by Arrow and NumPy, or Spark.

Small sources are counted here: Spark takes longer to start than this takes to answer. Both give the same document.
Topics, sketches, and whatever asks for a cluster or for settings of Spark run on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from keylane.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keylane.pipelines.profile import Options
    from keylane.profile.count import TooManyKeysError
    from keylane.spark.context import Say
    from keylane.systems.endpoint import Endpoint

Engine: TypeAlias = Literal["auto", "local", "spark"]
#: Records that are counted in this process where nothing is said of the engine.
MOST_RECORDS: Final = 20_000_000


def chosen_engine(endpoint: Endpoint, options: Options, spark: SparkSession | None) -> Literal["local", "spark"]:
    """The engine that was asked for, or the one that answers first."""
    if options.engine == "spark":
        return "spark"
    why = _why_spark(options, spark)
    if options.engine == "local" and why:
        hint = f"--engine spark, or leave {why} out"
        raise UsageError.of("only Spark can do this", got=f"--engine local with {why}", hint=hint)
    if why:
        return "spark"
    records = endpoint.estimated_records()
    if options.engine == "local":
        if records is None:
            what = "only files are counted without Spark"
            raise UsageError.of(what, got=str(endpoint.address), hint="--engine spark, or leave --engine out")
        return "local"
    return "local" if records is not None and records <= MOST_RECORDS else "spark"


def _why_spark(options: Options, spark: SparkSession | None) -> str:
    """What was asked for that only Spark has."""
    asked = {
        "a session": spark is not None,
        "--approximate": options.approximate,
        "--for": options.seconds is not None,
        "--master": options.master is not None,
        "--conf": bool(options.conf),
    }
    return next((name for name, given in asked.items() if given), "")


def switched(error: TooManyKeysError, options: Options, say: Say | None) -> None:
    """Report that Spark counts what has more keys than this process does; an error where that was ruled out."""
    if options.engine == "local":
        raise error
    if say is None:
        from keylane.spark.context import warn

        say = warn
    say(f"{str(error).partition('; hint')[0]}; counting on Spark instead")
