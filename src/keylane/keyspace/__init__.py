"""The 128-bit key space of shards: hash keys, layouts, and the fewest calls from one layout to another. All pure.

    hash_keys    a hash key as text, the MD5 of a partition key, and what is refused or warned of
    sequences    four orders in which hash keys can be handed out, as closed forms
    key_tree     the next balanced hash key beside those that are in use, with weights and deletions
    layout       shards with inclusive ranges, parents and children; holes and overlaps; splits and merges
    load         load over the key space, by hash key or by shard
    cuts         where to cut, so that every shard is under a cap with the fewest calls
    reshard      the calls from one layout to another, in order

Number -> lane over such ranges is `placement.ranges`. Where handed-out keys are kept: `systems.hash_key_registry`.
"""
