"""kill -9 of the whole process tree in the middle of a transaction, and between Spark's two logs: nothing shows.

The long series, with live producers and broken brokers, and what kills do to Spark's own sink:
`test_route_kafka_faults`. The transaction alone: `test_kafka_writer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.killable_routes import Routes
from tests.integration.route_records import contract, faults, numbered, read_committed, send
from tests.integration.topics import create_topic

from keylane.pipelines.route import KafkaOptions, Options, route
from keylane.pipelines.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster


@pytest.mark.parametrize(
    ("writers", "point", "deaths"),
    [
        pytest.param(None, "sent p1", 1, id="by part"),
        pytest.param(None, "sent p1", 2, id="by part, twice", marks=pytest.mark.faults),
        pytest.param(4, "sent 3", 2, id="by lane, twice", marks=pytest.mark.faults),
    ],
)
def test_killed_in_a_transaction_and_between_the_logs(
    broker: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    writers: int | None,
    point: str,
    deaths: int,
) -> None:
    source, target = topic(2, "src"), topic(4, "dst")
    create_topic(broker, f"{target}.dlq", 1)
    said: dict[str, Any] = {"max_records": 200, "writers": writers}
    routes = Routes(broker, source, target, tmp_path / "state", kafka=said)
    send(broker, source, numbered(0, 600))
    # This writer has sent and not committed; others may have committed their part of the same batch.
    routes.die_at(point, 1)
    assert routes.spark_logs() == ({"0", "1"}, {"0"}), "the kill was not between the two logs"
    early, noted = read_committed(broker, target), routes.taken()
    if deaths == 2:
        steps = routes.die_at("written", 1)
        assert [at for at, batch in steps if batch == 1 and at == "planned"] == ["planned"]
        assert routes.spark_logs() == ({"0", "1"}, {"0"})
        assert routes.taken() == noted, "the batch was written, and not noted"
    middle = read_committed(broker, target)
    options = Options(kafka=KafkaOptions(state=str(routes.state), **said))
    last = route(contract(target), routes.asked["source"], routes.asked["target"], options=options, spark=spark)
    assert last.total.as_json() == {"in": 600, "out": 600, "dead": 0, "filtered": 0}
    assert last.repeated == len(middle) - noted, "what was there of the batch is passed over"
    assert deaths == 1 or last.repeated > 0
    found = read_committed(broker, target)
    assert set(early) <= set(middle) <= set(found), "what a reader has seen never goes and never changes"
    assert faults(read_committed(broker, source), found, contract(target)) == []
    certificate = verify(routes.asked["source"], routes.asked["target"], contract(target))
    assert certificate.ok, certificate.verdict.violations
