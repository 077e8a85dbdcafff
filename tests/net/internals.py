"""Everything of keylane that the net takes by an inner name. Code that moves is followed here, and nowhere else in it.

The rest of the net goes through the command line and the public names of `keylane`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.history.written_targets import make as make_target
from tests.history.written_targets import payments

import keylane
from keylane.cli.main import cli, main
from keylane.records import Parked
from keylane.systems.folders.folder import Counts
from keylane.systems.messages import headers
from keylane.systems.messages.state import BatchDone, BatchPlan, RouteHead, open_state, state_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = [
    "HEADERS",
    "OPEN_ADMIN",
    "POLL_SECONDS",
    "BatchDone",
    "BatchPlan",
    "Counts",
    "Parked",
    "RouteHead",
    "cli",
    "cluster",
    "dead_topic",
    "followed",
    "growth",
    "lesson",
    "main",
    "make_target",
    "open_state",
    "payments",
    "state_name",
    "world_of_two",
]

#: Where `brokers` looks for its cluster, and how long it sleeps between two looks: replaced by tests.
OPEN_ADMIN: Final = "keylane.systems.kafka.reassign.open_admin"
POLL_SECONDS: Final = "keylane.systems.kafka.reassign.POLL_SECONDS"
#: Headers of the records that a route writes, by their names in the code.
HEADERS: Final = {name: getattr(headers, name) for name in ("SOURCE", "CONTRACT", "EPOCH", "ATTEMPT", "REASON")}
dead_topic: Final[Callable[[str], str]] = headers.dead_topic


def cluster() -> Any:
    """A Kafka cluster in memory with six lanes on two of three brokers."""
    from tests.unit.brokers.example_clusters import Admin, on_two_brokers

    return Admin(on_two_brokers())


def lesson() -> Any:
    """The document of `demo lesson`, whose run needs a broker."""
    from tests.unit.cli.lesson_documents import made

    return made(lag_samples=0).as_json()


def growth() -> tuple[Any, str]:
    """The document and the page of `demo migrate`, whose run needs a broker."""
    from tests.unit.report.growth_documents import grown

    from keylane.report.demo_migrate_page import demo_migrate_page

    return grown().as_json(), demo_migrate_page(grown())


def world_of_two() -> Any:
    """Pings and requests around London, in two files each."""
    from tests.match.stream_traffic import world

    return world(files=2, drivers=20, riders=20)


def followed(spark: SparkSession, drivers: Path, riders: Path, target: Path, contract: Path) -> dict[str, Any]:
    """`match --follow` of what is there; the command itself would go on until it is stopped."""
    from keylane.pipelines.match.follow import Following, follow
    from keylane.pipelines.match.options import Options

    given = Options(radius=3000.0, assign="greedy")
    how = Following(max_files=1, available_now=True, tasks=2)
    loaded = keylane.load_contract(str(contract))
    return follow(str(drivers), str(riders), str(target), given, how, contract=loaded, spark=spark).as_json()
