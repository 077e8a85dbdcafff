"""Make the sample that `make run` looks at: a seeded day of payments, and the contracts around it.

One producer uses the Java client, another librdkafka with its default partitioner: the mistake of many a bug report.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keylane.placement.partitioners import partitioner

ROWS = 200_000
LANES = 12
CONTRACT = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: {name}, owner: team-payments}}
spec:
  streams: [{stream}]
  lanes: {lanes}
  key: {{fields: [merchant_id], encoding: utf8}}
  partitioner: {partitioner}
  expect: {{max_over_mean: 1.5, max_key_share: 0.05, min_distinct_keys: 1000}}
  golden:
    - {{key: TT0124, lanes: 15, lane: {golden}}}
"""


def main(folder: Path) -> None:
    """Write payments.parquet, payments.yaml and refunds.yaml."""
    rng = np.random.default_rng(2026)
    merchants = (rng.pareto(0.9, ROWS) * 20).astype(np.int64) % 20_000
    keys = pa.array([f"merchant_{m:06d}" for m in merchants])
    java = partitioner("kafka-java").hashed_lanes(keys, LANES)
    other = partitioner("librdkafka-consistent-random").hashed_lanes(keys, LANES)
    lanes = np.where(rng.random(ROWS) < 0.04, other, java).astype(np.int32)
    pq.write_table(pa.table({"merchant_id": keys, "lane": lanes}), folder / "payments.parquet")
    for name, stream, count, who, golden in (
        ("payments", "payments.tx_events", LANES, "kafka-java", 10),
        ("refunds", "payments.refunds", LANES, "librdkafka-consistent-random", 9),
    ):
        text = CONTRACT.format(name=name, stream=stream, lanes=count, partitioner=who, golden=golden)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
