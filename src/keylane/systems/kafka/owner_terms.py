"""The term of an owner in the headers of what it writes, and the filter by which readers drop what a former one wrote.

    keylane.source   TOPIC/LANE/OFFSET of the record that a record was made from, as `route` writes it
    keylane.term     GROUP/TERM of the owner that wrote it
    keylane.claim    on a record that is none: it announces the term of a lane's new owner, and has no value

For every lane that it takes over, an owner first writes a claim into every partition of its output, and waits until
they are acknowledged. From there on a reader refuses, by the order of the log alone, whatever a former owner still
writes from that lane. A claim has a key of its own, `keylane.claim/GROUP/TOPIC/LANE`: compaction keeps the last. Terms
are counted by group: of two groups that read one topic neither knows those of the other, so that their claims and
records are kept apart. A header that is none of keylane's marks nothing: headers are anybody's to write.

Where readers cannot filter, transactions do the same at the broker: `owner_writers`. What a term is:
`keylane.groups.ownership`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from keylane.groups.ownership import TermFence
from keylane.systems.messages.headers import SOURCE, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    Headers: TypeAlias = list[tuple[str, bytes]]

#: Of a lease, never of a contract: that is `keylane.epoch`.
TERM: Final = "keylane.term"
CLAIM: Final = "keylane.claim"
#: What a record is to a reader. Unmarked: no owner wrote it, so there is no term to judge it by.
Judgement: TypeAlias = Literal["accepted", "stale", "claim", "unmarked"]


def owner_headers(group: str, topic: str, lane: int, offset: int, term: int) -> Headers:
    """The headers of a record that an owner has made from this one."""
    return [(SOURCE, f"{topic}/{lane}/{offset}".encode()), (TERM, f"{group}/{term}".encode())]


def claim_headers(group: str, topic: str, lane: int, term: int) -> Headers:
    """The headers of a claim."""
    return [(CLAIM, f"{topic}/{lane}".encode()), (TERM, f"{group}/{term}".encode())]


def claim_key(group: str, topic: str, lane: int) -> bytes:
    """The key of a claim."""
    return f"{CLAIM}/{group}/{topic}/{lane}".encode()


def term_of(text: bytes | None) -> tuple[str, int] | None:
    """Group and term in a header; None without one, or where it is foreign.

    >>> term_of(b"balances/4"), term_of(b"4"), term_of(b"balances/-1"), term_of(None)
    (('balances', 4), None, None, None)
    """
    group, _, number = (text or b"").rpartition(b"/")
    found = number_of(number)
    try:
        return None if found is None or not group else (group.decode(), found)
    except UnicodeDecodeError:
        return None


class TermFilter:
    """Which records of an output topic a reader takes: it is asked about each message once, in the order of the log.

    Keep `highest` with the position of the reader, and begin with it again.
    """

    def __init__(self, highest: Mapping[str, int] | None = None) -> None:
        self._fence = TermFence(highest)
        #: How many messages were what.
        self.counts: Counter[Judgement] = Counter()

    @property
    def highest(self) -> dict[str, int]:
        """The highest term by partition of the output, group, and lane of the source."""
        return self._fence.highest

    @property
    def stale(self) -> Counter[str]:
        """Records that were dropped, as `highest` names lanes."""
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
        term, claimed, source = term_of(headers.get(TERM)), headers.get(CLAIM), headers.get(SOURCE)
        # Bytes that are no text make no lane of any owner, and need not be one.
        lane = (claimed or b"").decode(errors="replace") or (source or b"").decode(errors="replace").rpartition("/")[0]
        if term is None or not lane:
            return "unmarked"
        fresh = self._fence.accepts(f"{partition}<{term[0]}<{lane}", term[1])
        if claimed is not None:
            return "claim"
        return "accepted" if fresh else "stale"
