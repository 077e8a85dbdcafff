"""Number -> lane: how each client folds a hash, what stands in for a hash, and what overrides it. Pure.

count         what a lane count may be
fold          sign, mask and modulo rules, one function each
ranges        equal ranges of the 128-bit key space (shards)
keyless       sticky, random, round robin: lanes without a key, from a position or a given source of chance
partitioners  hash + fold = the partitioner named after its client
spread        one key over several lanes, by sub-key or by position
table         lanes from value and range lists
accounts      building such a table: each account on as few lanes as its volume needs
overrides     hot keys and tables of a contract, ready for look-up

The four steps in a row: `keylane.router`.
"""
