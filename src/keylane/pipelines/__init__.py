"""Read -> steps -> write: one short module for each verb that runs on Spark.

route, batch   every record of a source in its lane: the run, and one batch of it
demo           a seeded day, routed under several contracts, and its figures
"""

from __future__ import annotations

from importlib.util import find_spec

from keylane.errors import MissingExtraError

if find_spec("pyspark") is None:
    raise MissingExtraError.named("spark", "pyspark")
