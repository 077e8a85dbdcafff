"""A checker of histories, in the manner of Jepsen's Kafka workload, for streams whose record keys have an order.

What was sent, read, applied and owned goes in as Arrow batches; a verdict comes out: lost, invented, duplicated,
reordered, split key, misrouted, inconsistent offsets, stale epochs, two owners, early applies. docs/history.md explains
each.

    rows      the columns of a history, how to make rows, and the vector steps that the rules share
    digests   one number for the content of each record
    rules     the rules, as pure functions of a bucket: of records, of their order, of lanes
    verdict   violations, counts, the verdict
    check     the verdict on this machine: which rows are judged together, in bounded memory

For a history larger than a machine: `keylane.spark.history`, with the same rules. For two streams instead of a history:
`keylane.pipelines.verify`, which is `keylane verify`. Users import it as `keylane.testing.history`.
"""
