"""A document as a notebook shows it. What that looks like is decided in `report.notebook`, not here.

A notebook asks an object for `_repr_html_`. Documents have no pages and know none, so the room that draws is asked by
its name, at the moment that somebody looks.
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
