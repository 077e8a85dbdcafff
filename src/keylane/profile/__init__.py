"""A profile: every key of a stream with its records by window, as values. Pure; who counts is `spark.count_keys`.

    model       the profile and its windows
    build       rows of counts, or sketches, -> a profile, its order and its fingerprint
    lookalikes  keys that look the same and are not
    document    a profile as a document: keys masked, figures explained

What a profile shows about lanes: `keylane.measure` and `keylane.plan`. The pipeline: `keylane.pipelines.profile`.
"""
