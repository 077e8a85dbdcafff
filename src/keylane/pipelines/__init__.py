"""Read -> steps -> write: one short module for each verb that runs on Spark, or can.

route, batch   every record of a source in its lane: the run, and one batch of it
verify, sides  a target held against its source; and both as rows of a history
profile        every key of a source counted by window, in one pass; looking: the source before it
geo_table      a lane table from the places of a source, counted in one pass
demo           a seeded day, routed under several contracts, and its figures
lesson         H3 cells as Kafka keys on a real broker: two hashes, each figure beside what is asked
"""

from __future__ import annotations

from importlib.util import find_spec

from keylane.errors import MissingExtraError

if find_spec("pyspark") is None:
    raise MissingExtraError.named("spark", "pyspark")
