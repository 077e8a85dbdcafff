"""Number -> lane: how each client folds a hash, what replaces a hash, and what overrides it. Pure.

    fold          sign, mask and modulo rules, one function each; what a lane count may be
    ranges        `KeySpace`: ranges of the 128-bit space, such as shards, and the lane of each
    keyless       sticky, random, round robin: lanes without a key, from a position
    partitioners  hash + fold = the partitioner named after its client
    overrides     hot keys and tables of a contract, ready for look-up
    spread        one key over several lanes, by sub-key or by position
    table         lanes from value and range lists
    accounts      building such a table: each account on as few lanes as its volume needs
    cell_lanes    a cell -> its lane, by the lane table of a geo contract
    lane_keys     a number for each lane that Spark's hash puts in that lane's partition

The four steps in a row: `keylane.router`.
"""
