"""A Kinesis stream behind an address: what `open_endpoint` gives for `kinesis://region/stream`.

It has no ability yet; each is refused before anything is contacted. A contract in boto3: `put`.
"""

from __future__ import annotations

from typing import ClassVar

from keylane.systems.endpoint import Endpoint


class KinesisEndpoint(Endpoint):
    """A stream of a region."""

    messages: ClassVar[bool] = True
