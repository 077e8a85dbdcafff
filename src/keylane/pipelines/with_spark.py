"""Imported first by every pipeline that runs on Spark alone: without pyspark it names the extra that brings it.

What can run in this process too, as `profile` does, asks for it only when it comes to that.
"""

from __future__ import annotations

from importlib.util import find_spec

from keylane.errors import MissingExtraError

if find_spec("pyspark") is None:
    raise MissingExtraError.named("spark", "pyspark")
