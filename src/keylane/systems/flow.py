"""What passes between the source and the target of a route: a batch of records, and what each asks of the other.

    Followed     a source: the stream of Spark's query, and how a batch of it becomes rows or messages
    RouteTarget  a target: what it holds, and how a batch is written and committed, once

Who makes them: the endpoints (`systems.endpoint`). Who brings them together: `pipelines.route`.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Followed", "RouteTarget"]


class Followed(Protocol):
    """The source of a route."""


class RouteTarget(Protocol):
    """The target of a route, open and locked."""
