"""The contracts and keys that the benchmarks share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keylane import Contract, parse_contract

PAYMENTS = """
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: payments}
spec:
  streams: [payments.tx_events]
  lanes: LANES
  key: KEY
  partitioner: PARTITIONER
"""


def payments(partitioner: str = "kafka-java", lanes: int = 64, key: str = "{fields: [merchant_id]}") -> Contract:
    """64 lanes by merchant, by default."""
    text = PAYMENTS.replace("PARTITIONER", partitioner).replace("LANES", str(lanes)).replace("KEY", key)
    return parse_contract(text)


def one_length(count: int) -> pa.Array:
    """Keys of 15 bytes."""
    return pa.array([f"merchant_{i:06d}" for i in range(count)])


def mixed_lengths(count: int) -> pa.Array:
    """Keys of 9 to 40 bytes, seeded."""
    lengths = np.random.default_rng(7).integers(0, 32, count)
    return pa.array([f"{i:07d}-m{'x' * int(n)}" for i, n in enumerate(lengths)])
