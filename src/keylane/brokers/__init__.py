"""What the brokers of a cluster carry, and how little has to move to even it out. Pure: no client, no clock.

    layout     brokers, partitions and their weights, and the figures of a layout
    rebalance  a layout -> the cheapest one that is even: the moves, as Kafka's tools take them
    plan_file  a reassignment as a file, and what stands in its way

Reading a cluster and carrying a plan out: `keylane.systems.kafka.reassign`. The command: `keylane.cli.brokers`.
"""
