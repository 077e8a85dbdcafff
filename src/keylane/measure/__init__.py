"""What data shows about a stream. Pure functions over Arrow batches and profiles; files are read by `systems`.

    evidence      one pass over keys and lanes: the lane count, and every rule that could have written them
    identify      which client's partitioner wrote this data, and whether a second writer disagrees
    trace         since when each writer of a mixture is there, examples, and the setting that fixes it
    self_test     a contract's golden examples and chosen keys, without data
    conformance   does this data conform to its contract, lane by lane?
    expectations  what a contract expects of its traffic, and which part of what a sample shows is chance
    copartition   are these contracts, or these data sets, co-partitioned?
    balance       how evenly lanes are filled, and how evenly they could be
    chance        is the fullest lane fuller than chance makes it? with a stated rate of false alarms
    hot_lanes     why a lane is hot: one key, few keys, an unlucky hash, a mixed writer

The keys of a stream counted by window: `keylane.profile`.
"""
