"""`keylane doctor`: what is installed, what is missing, and the one line that fixes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from keylane.cli.output import Result, Section, output_option

if TYPE_CHECKING:
    from keylane.systems.config import Configuration
    from keylane.systems.doctor import Inspection

#: What runs on Spark, for a machine without it.
ON_SPARK = "route, match, aggregate, demo, large data"


@click.command(short_help="What is installed, what is missing, and the one line that fixes it.")
@click.option(
    "--broker",
    metavar="HOST:PORT",
    help="Check this broker too, and everything that Kafka needs; default: the configured one.",
)
@click.option("--spark-jars", metavar="DIR", type=click.Path(), help="Look for Spark's Kafka connector here.")
@output_option
def doctor(broker: str | None, spark_jars: str | None, output: str) -> tuple[Result, str]:
    """Report what keylane can use on this machine, what is missing, and the one line that fixes it.

    Looks by using: imports each library, runs Java, hashes the jars, asks the broker. Changes and fetches nothing.
    Shows what keylane.toml and KEYLANE_* configure, each with its source.

    \b
    keylane doctor
    keylane doctor --broker 127.0.0.1:9092

    Exit codes: 0 everything needed is there, 1 something needed is missing or wrong.
    """
    from keylane.systems.doctor import examined

    found: Configuration | None = click.get_current_context().find_root().obj
    named = broker or (found.get("kafka.brokers") if found else None)
    return as_result(list(examined(named, spark_jars)), found), output


def as_result(parts: list[Inspection], configured: Configuration | None = None) -> Result:
    """All parts as a table; below it what is configured and what to do, the needed first."""
    from keylane.documents.dev import ConfiguredSetting, DoctorDocument, ExaminedPart
    from keylane.systems.doctor import KAFKA, SPARK, is_well, lacking_for_kafka, lacking_for_spark

    fine = is_well(parts)
    rows = [
        ExaminedPart(
            part=one.part,
            state=one.state,
            needed=one.needed,
            used_for=one.used_for,
            found=one.found,
            fix=one.fix,
        )
        for one in parts
    ]
    values = configured.values if configured else ()
    document = DoctorDocument(
        ok=fine,
        parts=rows,
        environment=configured.environment if configured else None,
        configuration=[ConfiguredSetting(name=one.name, value=one.value, source=one.source) for one in values],
    )
    shown = [{**row.as_json(), **({} if row.needed or row.state == "ok" else {"state": "optional"})} for row in rows]
    problem = sorted((part for part in parts if part.fix), key=lambda part: not part.needed)
    lines = [f"{'needed' if part.needed else 'optional'}: {part.part}: {part.fix}" for part in problem]
    asked = ["files", *(use for use in (SPARK, KAFKA) if any(one.needed and one.used_for == use for one in parts))]
    uses = " and ".join(filter(None, (", ".join(asked[:-1]), asked[-1])))
    verdict = [f"ok: everything needed for {uses} is there" if fine else "broken: something needed is not there"]
    if spark := lacking_for_spark(parts):
        verdict.append(f"for Spark ({ON_SPARK}) this is missing: {', '.join(spark)}")
    if kafka := lacking_for_kafka(parts):
        verdict.append(f"for Kafka this is missing: {', '.join(kafka)}")
    columns = ("part", "state", "used_for", "found")
    title = "configured" + (f", environment {document.environment}" if document.environment else "")
    settings = Section(("name", "value", "source"), document.configuration, title)
    return Result(document, [Section(columns, shown), settings], lines, 0 if fine else 1, answer=verdict)
