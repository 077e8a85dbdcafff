"""A document as a notebook shows it. What that looks like is decided in `report.notebook`, not here.

A notebook asks an object for `_repr_html_`. Documents do not import what draws them, so `report.notebook` is
imported by its name when a notebook displays one.
"""

from __future__ import annotations

from importlib import import_module


def drawn(document: object) -> str:
    """The document as HTML that needs nothing else."""
    return str(import_module("keylane.report.notebook").html_of(document))


class InNotebook:
    """For documents that are dataclasses."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return drawn(self)
