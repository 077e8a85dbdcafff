"""What a topic takes of a record, by its settings and the producer's."""

from __future__ import annotations

import pytest

from keylane.errors import TargetError
from keylane.records import RecordLimits
from keylane.systems.kafka.limits import LEAST_FOR_LETTERS, REQUEST_BYTES, check_for_letters, limits_of

NOW = 1_800_000_000_000
USUAL = {
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": "3600000",
    "cleanup.policy": "delete",
}


def test_the_settings_of_a_usual_topic() -> None:
    assert limits_of(USUAL, {}, NOW) == RecordLimits(REQUEST_BYTES, 0, NOW + 3_600_000)


def test_a_cluster_that_reports_nothing_leaves_the_limits_of_the_client() -> None:
    assert limits_of({}, {}, NOW) == RecordLimits(REQUEST_BYTES, 0, 2**62)


@pytest.mark.parametrize(
    ("settings", "producer", "largest"),
    [
        ({"max.message.bytes": "5000"}, {}, 5000),
        ({"max.message.bytes": "5000000"}, {}, REQUEST_BYTES),
        ({"max.message.bytes": "5000000"}, {"max.request.size": "3000000"}, 3_000_000),
        ({"max.message.bytes": "900000000"}, {"max.request.size": "900000000"}, 64 << 20),
        ({"max.message.bytes": "512000"}, {"compression.type": "zstd"}, 512_000 - 512 - 1000),
        ({"max.message.bytes": "512000"}, {"compression.type": "none"}, 512_000),
        ({"max.message.bytes": "0"}, {"compression.type": "lz4"}, 0),
    ],
)
def test_the_lowest_limit_counts(settings: dict[str, str], producer: dict[str, str], largest: int) -> None:
    assert limits_of({**USUAL, **settings}, producer, NOW).largest == largest


def test_times_count_where_the_broker_keeps_them() -> None:
    week = {"message.timestamp.before.max.ms": "604800000"}
    assert limits_of({**USUAL, **week}, {}, NOW).earliest == NOW - 604_800_000
    own = limits_of({**USUAL, **week, "message.timestamp.type": "LogAppendTime"}, {}, NOW)
    # Java's producer takes no time before 1970, whatever becomes of it.
    assert (own.earliest, own.latest) == (0, 2**62)


def test_a_compacted_topic_takes_keys_only() -> None:
    assert limits_of({**USUAL, "cleanup.policy": "compact,delete"}, {}, NOW).keyed


def test_dead_letters_need_a_topic_that_keeps_them() -> None:
    check_for_letters("t.dlq", RecordLimits(LEAST_FOR_LETTERS))
    with pytest.raises(TargetError, match="compacted"):
        check_for_letters("t.dlq", RecordLimits(REQUEST_BYTES, keyed=True))
    with pytest.raises(TargetError, match=r"only small records.*t\.dlq: 16383 bytes"):
        check_for_letters("t.dlq", RecordLimits(LEAST_FOR_LETTERS - 1))
