"""`profile`: every key of a source counted by window, in one pass (`run`). Who scans a source: `systems.endpoint`."""

from __future__ import annotations

from keylane.pipelines.profile.run import Options, profile

__all__ = ["Options", "profile"]
