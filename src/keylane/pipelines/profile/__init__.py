"""`profile`: every key of a source counted by window, in one pass.

run     the pass and its result
files   files prepared for counting: frame, windows, lanes
topics  a topic prepared the same way
"""

from __future__ import annotations

from keylane.pipelines.profile.run import Options, profile

__all__ = ["Options", "profile"]
