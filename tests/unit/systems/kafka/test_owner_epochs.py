from __future__ import annotations

from typing import Any

import pytest

from keylane.errors import DataError
from keylane.systems.kafka.owner_epochs import EpochFilter, claim_headers, owner_headers


class Message:
    """What the filter asks of a message of confluent-kafka."""

    def __init__(self, partition: int, headers: list[tuple[str, bytes]] | None) -> None:
        self._partition, self._headers = partition, headers

    def partition(self) -> int:
        return self._partition

    def headers(self) -> Any:
        return self._headers


def record(lane: int, epoch: int, partition: int = 0) -> Message:
    return Message(partition, owner_headers("orders", lane, 17, epoch))


def test_what_a_former_owner_writes_behind_a_claim_is_stale_by_lane_and_partition() -> None:
    fence = EpochFilter()
    claim = Message(0, claim_headers("orders", 1, 4))
    messages = [record(1, 2), claim, record(1, 2), record(2, 3), record(1, 2, partition=1), record(1, 4), claim]
    judged = [fence.judged(message) for message in messages]
    assert judged == ["accepted", "claim", "stale", "accepted", "accepted", "accepted", "claim"]
    assert fence.stale == {"0<orders/1": 1}
    assert fence.counts == {"accepted": 4, "claim": 2, "stale": 1}
    again = EpochFilter(fence.highest)
    assert not again.accepts(record(1, 3))
    assert EpochFilter().accepts(record(1, 3)), "twin: a reader that has forgotten"


def test_a_claim_of_a_former_owner_that_comes_late_lowers_nothing() -> None:
    fence = EpochFilter()
    for message in (Message(0, claim_headers("orders", 1, 4)), Message(0, claim_headers("orders", 1, 2))):
        assert fence.judged(message) == "claim"
    assert not fence.accepts(record(1, 2))


def test_a_record_of_nobody_is_unmarked_and_one_that_makes_no_sense_an_error() -> None:
    fence = EpochFilter()
    assert [fence.judged(Message(0, headers)) for headers in (None, [], [("keylane.epoch", b"3")])] == ["unmarked"] * 3
    for source, epoch in ((b"orders/1/2", b"soon"), (b"\xff", b"3"), (b"", b"3")):
        with pytest.raises(DataError):
            fence.judged(Message(0, [("keylane.source", source), ("keylane.epoch", epoch)]))
