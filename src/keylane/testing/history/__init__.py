"""A checker of histories, in the manner of Jepsen's Kafka workload, for streams whose *record keys* have an order.

What was sent, read, applied and owned goes in as Arrow batches; a verdict comes out: lost, invented, duplicated,
reordered, split key, misrouted, inconsistent offsets, stale epochs, two owners, early applies. docs/history.md explains
each.

    rows         the columns of a history, and how to make rows
    check        the verdict, on this machine
    judgements   which rows are seen together, and how they are dealt to buckets
    records, order, lanes   the rules, as pure functions of a bucket
    columns      the vector steps that the rules share
    buckets      bounded memory
    found        violations, counts, the verdict

For a history larger than a machine: `keylane.spark.history`, with the same rules. For two streams instead of a history:
`keylane.pipelines.verify`, which is `keylane verify`.
"""

from __future__ import annotations

from keylane.testing.history.check import check
from keylane.testing.history.found import RULES, LaneSeen, Mode, Rule, Settings, Verdict, Violation
from keylane.testing.history.rows import SCHEMA, rows

__all__ = ["RULES", "SCHEMA", "LaneSeen", "Mode", "Rule", "Settings", "Verdict", "Violation", "check", "rows"]
