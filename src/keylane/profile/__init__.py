"""A profile: every key of a stream with its records by window, as values. Pure.

    model       the profile and its windows
    scan        what is asked of a source, and the source that is counted in this process
    read_rows   rows as they are read for it, and the windows between their times
    count       batches of Arrow -> one row for each key; cells: the same for locations. On Spark: `spark.count_keys`
    writers     who wrote the records of a profile that has lanes
    build       rows of counts, or sketches, -> a profile, its order and its fingerprint
    lookalikes  keys that look the same and are not
    document    a profile as a document: keys masked, figures explained

What a profile shows about lanes: `keylane.measure` and `keylane.plan`. The pipeline: `keylane.pipelines.profile`.
"""
