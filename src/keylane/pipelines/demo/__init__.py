"""The demo: a seeded day, routed under several contracts, and what became of its lanes.

traffic    the day: payments, rides, standing queries, as Arrow tables
cities     data for it
choose     the contracts compared: files in `contracts/`, and those made from the morning or from population
counts     Spark: records of each lane and half hour, keys that parted
figures    pure: counts -> max/mean, order kept or given up, hot keys, drift
run        the steps in a row

What a person looks at: `keylane.report`.
"""
