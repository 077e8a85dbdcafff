"""`match`: every available driver within a radius of a rider, exactly; a batch of two sources, or two streams.

    options         what may be set about a match, and what is refused before it starts
    own_table       without a contract: the lane table of its own drivers, for its own radius
    sources         a file, a folder, a routed folder or a topic -> a frame of raw records with their positions
    records         raw records -> pings and requests, and dead letters
    lanes           requests -> a copy for each lane that can hold a driver near them; pings and copies -> pairs
    offers          matches -> offers, time window by time window
    write           the target: a folder that is there whole or not at all, or a topic
    document        the document that a match ends with
    batch           a match of everything that is there
    follow          `--follow`: matches as records arrive
    follow_sources  the two sources as streams of blocks
    follow_plan     its stateful steps, by driver and by lane: one plan, in Java
    follow_batch    one batch of it
    follow_metrics  its figures

Its state folder and files of blocks: `stateful`. Who is near whom is decided in `keylane.matching`, without Spark.
"""

from __future__ import annotations

import keylane.pipelines.with_spark  # noqa: F401  imported for its error
