"""The names that pages use of `keylane.numbers` and of `windows`, where more than one is wanted at once."""

from __future__ import annotations

from keylane.numbers import chance, count, lanes, percent, share, short_count, spread, times
from keylane.report.windows import edge_name, edge_names, visible, window_names

__all__ = [
    "chance",
    "count",
    "edge_name",
    "edge_names",
    "lanes",
    "percent",
    "share",
    "short_count",
    "spread",
    "times",
    "visible",
    "window_names",
]
