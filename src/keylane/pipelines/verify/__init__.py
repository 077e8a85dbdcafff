"""`verify`: a target compared with its source.

run   the verdict and its certificate
rows  both streams as rows of a history
"""

from __future__ import annotations

from keylane.pipelines.verify.run import verify

__all__ = ["verify"]
