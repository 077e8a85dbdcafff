"""Read -> steps -> write: one package or module for each verb that runs on Spark, or can.

    route      every record of a source in its lane
    verify     a target compared with its source
    profile    every key of a source counted by window, in one pass
    geo_table  a lane table from the locations of a source
    watermark  how far time has advanced in the sources of a run
    match      drivers near riders, as a batch or following two streams
    demo       a seeded day routed under several contracts, and its figures; `demo lesson`

The rules that they carry out are in the pure packages above; systems are opened by `keylane.systems.endpoint`.
"""

from __future__ import annotations

from importlib.util import find_spec

from keylane.errors import MissingExtraError

if find_spec("pyspark") is None:
    raise MissingExtraError.named("spark", "pyspark")
