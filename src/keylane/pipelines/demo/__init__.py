"""The demo: a seeded day, routed under several contracts, and what became of its lanes.

    traffic    the day: payments, rides, standing queries, as Arrow tables
    contracts  the contracts compared: files in `contracts/`, and those made from the morning or from population
    run        the steps in a row
    standing   standing queries on the pipeline of `keylane aggregate`: loads of its lanes, results in order
    figures    counts -> max/mean, order kept or given up, hot keys, drift
    lesson     `demo lesson`: H3 cells as Kafka keys on a real broker, with two hashes
    migrate    `demo migrate`: a topic that grows under load on a real broker, without the gate and with it

The page: `keylane.report.demo_page`.
"""

from __future__ import annotations

import keylane.pipelines.with_spark  # noqa: F401  imported for its error
