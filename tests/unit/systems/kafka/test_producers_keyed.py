"""A contract in confluent-kafka's producer, against librdkafka's own mock cluster: no broker, real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from keylane.contract.partitioners import FACTS
from keylane.errors import KeylaneError, UnplacedError
from keylane.records import Reason
from keylane.router import Router
from keylane.systems.kafka.producers import KeyedProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]

KEYS = [f"m-{i}" for i in range(40)]
#: Without producer ids, which take librdkafka half a second to fetch; one test below has them.
PLAIN: dict[str, Any] = {"enable_idempotence": False, "allow_auto_create_topics": True}


def delivered(producer: KeyedProducer, records: Iterable[dict[str, Any]], **options: Any) -> list[tuple[str, int, Any]]:
    """Send, and say where each record went: topic, partition and key."""
    went: list[tuple[str, int, Any]] = []

    def note(error: Any, message: Any) -> None:
        assert error is None, error
        went.append((message.topic(), message.partition(), message.key()))

    for record in records:
        producer.send(record, b"value", on_delivery=note, **options)
    assert producer.producer.flush(10) == 0
    return went


@pytest.mark.parametrize("name", list(FACTS))
def test_every_record_is_delivered_to_the_lane_of_its_contract(name: str, broker: str, contract: Make) -> None:
    numbers = FACTS[name].encodings[0] != "utf8"
    made = contract(lanes=4, partitioner=name, key={"fields": ["k"], "encoding": FACTS[name].encodings[0]})
    router = Router(made)
    records = [{"k": i if numbers else key} for i, key in enumerate(KEYS)]
    went = delivered(KeyedProducer(router, broker, **PLAIN), records)
    where = {key: (topic, partition) for topic, partition, key in went}
    assert len(where) == len(KEYS)
    for record in records:
        placement = router.place(record)
        topic, partition = where[placement.routing_key]
        assert topic == "t"
        assert placement.lane in (partition, None)


def test_the_settings_as_they_are_deliver_and_what_is_given_reaches_librdkafka_with_dots(contract: Make) -> None:
    router = Router(contract(lanes=4))
    producer = KeyedProducer(router, "unused:1", test_mock_num_brokers=1, allow_auto_create_topics=True, client_id="me")
    assert delivered(producer, [{"k": "a"}]) == [("t", router.lane({"k": "a"}), b"a")]


def test_callbacks_can_be_given(broker: str, contract: Make) -> None:
    heard: list[str] = []
    producer = KeyedProducer(
        Router(contract(lanes=4)), broker, stats_cb=heard.append, statistics_interval_ms=10, log_level=0, **PLAIN
    )
    delivered(producer, [{"k": "a"}])
    producer.producer.poll(1)
    assert heard


def test_send_returns_the_placement(broker: str, contract: Make) -> None:
    router = Router(contract(lanes=4))
    producer = KeyedProducer(router, broker, **PLAIN)
    assert producer.send({"k": "TT0124"}, None) == router.place({"k": "TT0124"})
    producer.producer.flush(10)


def test_a_tier_goes_to_its_own_topic(broker: str, contract: Make) -> None:
    tiered = contract(lanes=4, hot_keys=[{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 4}}])
    router = Router(tiered)
    went = delivered(KeyedProducer(router, broker, **PLAIN), [{"k": "vip"}, {"k": "other"}])
    vip, other = router.place({"k": "vip"}), router.place({"k": "other"})
    assert sorted(went) == sorted([("t.vip", vip.lane, b"vip"), ("t", other.lane, b"other")])


def test_a_spread_key_goes_where_its_sub_key_says(broker: str, contract: Make) -> None:
    spread = contract(lanes=4, hot_keys=[{"keys": ["hot"], "spread": {"over": 3, "by": "order"}}])
    router = Router(spread)
    records = [{"k": "hot", "order": f"o-{i}"} for i in range(30)]
    went = delivered(KeyedProducer(router, broker, **PLAIN), records)
    assert sorted(partition for _, partition, _ in went) == sorted(router.lane(record) or 0 for record in records)
    assert len({partition for _, partition, _ in went}) == 3


def test_a_key_spread_by_position_goes_where_its_position_says(broker: str, contract: Make) -> None:
    router = Router(contract(lanes=4, hot_keys=[{"keys": ["hot"], "spread": {"over": 2, "by_position": True}}]))
    producer = KeyedProducer(router, broker, **PLAIN)
    for position in range(4):
        (one,) = delivered(producer, [{"k": "hot"}], position=position)
        assert one[1] == router.lane({"k": "hot"}, position)


def test_a_key_spread_by_position_never_leaves_its_lanes(broker: str, contract: Make) -> None:
    """Without a position the client must not hash it to a lane that the contract does not allow."""
    home = Router(contract(lanes=4)).lane({"k": "hot"})
    among = [lane for lane in range(4) if lane != home][:2]
    spread = contract(lanes=4, hot_keys=[{"keys": ["hot"], "spread": {"lanes": among, "by_position": True}}])
    producer = KeyedProducer(Router(spread), broker, **PLAIN)
    try:
        went = delivered(producer, [{"k": "hot"}] * 20)
    except KeylaneError:
        return  # to refuse is right too
    assert {partition for _, partition, _ in went} <= set(among)


@pytest.mark.parametrize(
    ("record", "spec", "reason"),
    [
        pytest.param({"k": None}, {"key": {"fields": ["k"], "on_null": "reject"}}, Reason.NULL_KEY, id="null"),
        pytest.param({"k": ""}, {"key": {"fields": ["k"], "on_empty": "reject"}}, Reason.EMPTY_KEY, id="empty"),
        pytest.param({"x": 1}, {}, Reason.MISSING_FIELD, id="no key field"),
        pytest.param({"k": 1.5}, {}, Reason.MALFORMED_KEY, id="malformed"),
        pytest.param(
            {"k": "x"}, {"table": {"values": {"a": 0}, "otherwise": "reject"}}, Reason.NOT_IN_TABLE, id="not in table"
        ),
    ],
)
def test_a_record_without_a_lane_is_refused_and_nothing_is_sent(
    record: dict[str, Any], spec: dict[str, Any], reason: Reason, broker: str, contract: Make
) -> None:
    producer = KeyedProducer(Router(contract(lanes=4, **spec)), broker, **PLAIN)
    with pytest.raises(UnplacedError) as caught:
        producer.send(record, b"value")
    assert caught.value.reason is reason
    assert len(producer.producer) == 0


def test_a_null_key_is_left_to_the_client_where_the_client_places_it(broker: str, contract: Make) -> None:
    went = delivered(KeyedProducer(Router(contract(lanes=4)), broker, **PLAIN), [{"k": None}] * 3)
    assert [key for _, _, key in went] == [None] * 3


def test_a_hashed_null_key_goes_to_the_lane_of_the_hash(broker: str, contract: Make) -> None:
    router = Router(contract(lanes=4, partitioner="librdkafka-murmur2"))
    (one,) = delivered(KeyedProducer(router, broker, **PLAIN), [{"k": None}])
    assert one == ("t", router.lane({"k": None}), None)


@pytest.mark.parametrize(
    ("record", "spec"),
    [
        pytest.param(
            {"k": None},
            {"partitioner": "librdkafka-consistent", "key": {"fields": ["k"], "on_null": "random"}},
            id="null keys under a setting that hashes them",
        ),
        pytest.param(
            {"k": ""},
            {"key": {"fields": ["k"], "on_empty": "random"}},
            id="empty keys under a setting that hashes them",
        ),
    ],
)
def test_keys_that_the_contract_strews_are_strewn(
    record: dict[str, Any], spec: dict[str, Any], broker: str, contract: Make
) -> None:
    """The contract says random; the client's own setting would hash all of them to one lane."""
    producer = KeyedProducer(Router(contract(lanes=4, **spec)), broker, sticky_partitioning_linger_ms=0, **PLAIN)
    lanes = {partition for _, partition, _ in delivered(producer, [record] * 60)}
    assert len(lanes) > 1


def test_a_schema_registry_header_stays_on_the_key_that_is_sent(broker: str, contract: Make) -> None:
    """`strip` says what is hashed; readers still need the header to read the key."""
    stripped = contract(lanes=4, key={"fields": ["k"], "encoding": "raw", "registry_header": "strip"})
    router = Router(stripped)
    key = b"\0\0\0\0\x07m-7"
    (one,) = delivered(KeyedProducer(router, broker, **PLAIN), [{"k": key}])
    assert one[1] == router.lane({"k": key})
    assert one[2] == key


def test_a_window_is_part_of_the_key_that_is_sent(broker: str, contract: Make) -> None:
    router = Router(contract(lanes=4, key={"fields": ["k"], "window": {"field": "ts", "size": "1h"}}))
    record = {"k": "m-7", "ts": 3_600_001}
    assert delivered(KeyedProducer(router, broker, **PLAIN), [record]) == [("t", router.lane(record), b"m-7|3600000")]
