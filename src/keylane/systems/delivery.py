"""What a pipeline with state delivers into streams: the messages of a batch, and whether the batch is there already.

A pipeline makes the same messages of a batch whenever it is made again. A system that can write a batch and its number
in one step makes that exactly once: `next_batch` is the first that is not there. One that cannot has no such number;
a batch that was ended on its way is then written again, and readers have to know a message that comes twice.

Who makes them: `Endpoint.deliveries`. How a route writes: `systems.flow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class OutMessage:
    """A message on its way into a stream; those of one key stay in their order."""

    stream: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """A message as it is in a stream: its place, as errors name it, and its value."""

    place: str
    value: bytes | None


class BatchDelivery(Protocol):
    """Streams that are open for the batches of one pipeline."""

    @property
    def exactly_once(self) -> bool:
        """Whether a batch that is written again is noticed."""
        ...

    def next_batch(self) -> int | None:
        """The first batch that is not in the streams; None where the system does not keep that."""
        ...

    def write(self, batch: int, messages: Sequence[OutMessage]) -> None:
        """Write a batch as a whole."""
        ...
