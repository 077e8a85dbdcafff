"""A lane table from the places of a topic is that of the same places in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tests.integration.timed_records import BEGAN, send

from keylane.pipelines.geo_table import TableWish, geo_table
from keylane.pipelines.profile import Options
from keylane.pipelines.route import KafkaOptions
from keylane.systems.read_range import ReadRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from keylane.systems.broker import Cluster

RECORDS = 400


def test_a_topic_gives_the_table_of_the_same_places_in_a_file(
    broker: Cluster, topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    lat, lng = (40.7 + rng.normal(0, 0.2, RECORDS)).tolist(), (-74.0 + rng.normal(0, 0.2, RECORDS)).tolist()
    at = [BEGAN + n * 7500 for n in range(RECORDS)]
    name = topic(3)
    places = zip(lat, lng, at, strict=True)
    send(broker, name, [(b"d", json.dumps({"lat": y, "lng": x}).encode(), when) for y, x, when in places])
    send(broker, name, [(b"d", b'{"lat": 0, "lng": 0}', BEGAN), (b"d", b'{"lat": "north", "lng": 1}', BEGAN)])
    parquet.write_table(pa.table({"lat": lat, "lng": lng, "ts": at}), tmp_path / "a.parquet")
    wish = TableWish(4)
    there = geo_table(
        f"kafka://{broker.bootstrap}/{name}", wish=wish, options=Options(kafka=KafkaOptions(value="json")), spark=spark
    ).document
    here = geo_table(str(tmp_path / "a.parquet"), wish=wish, options=Options(time="ts:ms"), spark=spark).document
    assert there.dead == {"malformed-key": 1, "place-zero": 1}
    assert {**there.as_json(), "source": "", "dead": {}} == {**here.as_json(), "source": ""}
    windowed = KafkaOptions(value="json", read_range=ReadRange(since=BEGAN + 300 * 7500))
    later = geo_table(
        f"kafka://{broker.bootstrap}/{name}", wish=wish, options=Options(kafka=windowed), spark=spark
    ).document
    # The two that are no locations were sent last: a window is cut by offsets.
    assert (later.records, later.dead) == (100, there.dead)
    assert later.notes[0].startswith("not all of the topic was read, but "), later.notes
