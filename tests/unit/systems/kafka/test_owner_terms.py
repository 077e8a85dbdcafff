from __future__ import annotations

from typing import Any

import pytest

from keylane.systems.kafka.owner_terms import TermFilter, claim_headers, claim_key, owner_headers


class Message:
    """What the filter asks of a message of confluent-kafka."""

    def __init__(self, partition: int, headers: list[tuple[str, bytes]] | None) -> None:
        self._partition, self._headers = partition, headers

    def partition(self) -> int:
        return self._partition

    def headers(self) -> Any:
        return self._headers


def record(lane: int, term: int, partition: int = 0) -> Message:
    return Message(partition, owner_headers("g", "orders", lane, 17, term))


def test_what_a_former_owner_writes_behind_a_claim_is_stale_by_lane_and_partition() -> None:
    fence = TermFilter()
    claim = Message(0, claim_headers("g", "orders", 1, 4))
    messages = [record(1, 2), claim, record(1, 2), record(2, 3), record(1, 2, partition=1), record(1, 4), claim]
    judged = [fence.judged(message) for message in messages]
    assert judged == ["accepted", "claim", "stale", "accepted", "accepted", "accepted", "claim"]
    assert fence.stale == {"0<g<orders/1": 1}
    assert fence.counts == {"accepted": 4, "claim": 2, "stale": 1}
    again = TermFilter(fence.highest)
    assert not again.accepts(record(1, 3))
    assert TermFilter().accepts(record(1, 3)), "twin: a reader that has forgotten"


def test_a_claim_of_a_former_owner_that_comes_late_lowers_nothing() -> None:
    fence = TermFilter()
    for message in (Message(0, claim_headers("g", "orders", 1, 4)), Message(0, claim_headers("g", "orders", 1, 2))):
        assert fence.judged(message) == "claim"
    assert not fence.accepts(record(1, 2))


@pytest.mark.parametrize("term", [b"soon", b"g/-1", b"g/0x3", b"/3", b"3", b"\xff/3", b"g/" + b"9" * 5_000])
def test_a_header_that_is_no_term_marks_nothing_and_stops_no_reader(term: bytes) -> None:
    fence = TermFilter()
    for source in (b"orders/1/2", b"\xff", b""):
        assert fence.judged(Message(0, [("keylane.source", source), ("keylane.term", term)])) == "unmarked"
    assert [fence.judged(Message(0, headers)) for headers in (None, [], [("keylane.term", b"g/3")])] == ["unmarked"] * 3
    assert (fence.highest, fence.counts["unmarked"]) == ({}, 6)


def test_groups_that_write_from_one_topic_into_one_do_not_fence_each_other() -> None:
    fence = TermFilter()
    assert fence.judged(Message(0, claim_headers("busy", "orders", 1, 40))) == "claim"
    assert fence.accepts(Message(0, owner_headers("new", "orders", 1, 3, 1)))
    assert not fence.accepts(Message(0, owner_headers("busy", "orders", 1, 3, 39))), "twin"
    assert claim_key("busy", "orders", 1) != claim_key("new", "orders", 1), "compaction keeps both"


def test_a_term_is_never_in_the_header_of_a_contract() -> None:
    for headers in (owner_headers("g", "orders", 1, 3, 1), claim_headers("g", "orders", 1, 1)):
        assert "keylane.epoch" not in dict(headers)
