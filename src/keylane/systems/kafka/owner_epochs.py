"""The epoch of an owner in the headers of what it writes, and the filter by which readers drop what a former one wrote.

    keylane.source   TOPIC/LANE/OFFSET of the record that a record was made from, as `route` writes it
    keylane.epoch    the epoch of the owner that wrote it
    keylane.claim    on a record that is none: it announces the epoch of a lane's new owner, and has no value

For every lane that it takes over, an owner first writes a claim into every partition of its output, and waits until
they are acknowledged. From there on a reader refuses, by the order of the log alone, whatever a former owner still
writes from that lane. A claim has a key of its own, `keylane.claim/TOPIC/LANE`, so that compaction keeps the last.

Where readers cannot filter, transactions do the same at the broker: `owner_writers`. What an epoch is:
`keylane.groups.ownership`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.errors import DataError
from keylane.groups.ownership import EpochFence
from keylane.systems.messages.headers import EPOCH, SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    Headers: TypeAlias = list[tuple[str, bytes]]

CLAIM: Final = "keylane.claim"
#: What a record is to a reader. Unmarked: no owner wrote it, so there is no epoch to judge it by.
Judgement: TypeAlias = Literal["accepted", "stale", "claim", "unmarked"]


def owner_headers(topic: str, lane: int, offset: int, epoch: int) -> Headers:
    """The headers of a record that an owner has made from this one."""
    return [(SOURCE, f"{topic}/{lane}/{offset}".encode()), (EPOCH, str(epoch).encode())]


def claim_headers(topic: str, lane: int, epoch: int) -> Headers:
    """The headers of a claim."""
    return [(CLAIM, f"{topic}/{lane}".encode()), (EPOCH, str(epoch).encode())]


def claim_key(topic: str, lane: int) -> bytes:
    """The key of a claim."""
    return f"{CLAIM}/{topic}/{lane}".encode()


class EpochFilter:
    """Which records of an output topic a reader takes: it is asked about each message once, in the order of the log.

    Keep `highest` with the position of the reader, and begin with it again.
    """

    def __init__(self, highest: Mapping[str, int] | None = None) -> None:
        self._fence = EpochFence(highest)
        #: How many messages were what.
        self.counts: Counter[Judgement] = Counter()

    @property
    def highest(self) -> dict[str, int]:
        """The highest epoch by partition of the output and lane of the source."""
        return self._fence.highest

    @property
    def stale(self) -> Counter[str]:
        """Records that were dropped, by partition of the output and lane of the source."""
        return self._fence.stale

    def accepts(self, message: Any) -> bool:
        """Whether a message is a record of the owner that its lane has; others are counted and are to be dropped."""
        return self.judged(message) == "accepted"

    def judged(self, message: Any) -> Judgement:
        """What a message is."""
        what = self._judged(message.partition(), dict(message.headers() or ()))
        self.counts[what] += 1
        return what

    def _judged(self, partition: int, headers: dict[str, bytes]) -> Judgement:
        epoch, claimed, source = headers.get(EPOCH), headers.get(CLAIM), headers.get(SOURCE)
        if epoch is None or (claimed is None and source is None):
            return "unmarked"
        # Bytes that are no text make no lane of any owner, and need not be one.
        lane = (claimed or b"").decode(errors="replace") or (source or b"").decode(errors="replace").rpartition("/")[0]
        if not epoch.isdigit() or not lane:
            raise DataError.of("not the headers of an owner", got=headers, allowed=f"{SOURCE} and {EPOCH}, or {CLAIM}")
        fresh = self._fence.accepts(f"{partition}<{lane}", int(epoch))
        if claimed is not None:
            return "claim"
        return "accepted" if fresh else "stale"
