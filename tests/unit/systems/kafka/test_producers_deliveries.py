"""Keyed producers whose records cannot be delivered: librdkafka's mock cluster, in this process, that goes away."""

from __future__ import annotations

import gc
import os
import warnings
from typing import TYPE_CHECKING, Any
from weakref import ref

import pytest
from confluent_kafka import KafkaError, Producer

from keylane.errors import BrokerError, DeliveryError, LaneCountError, UsageError
from keylane.router import Router
from keylane.systems.kafka import producers
from keylane.systems.kafka.producers import KeyedProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract
    from keylane.records import Undelivered

    Make = Callable[..., Contract]

QUICK: dict[str, Any] = {"enable_idempotence": False, "allow_auto_create_topics": True, "log_level": 0}


def lanes_are(monkeypatch: pytest.MonkeyPatch, producer: KeyedProducer, answer: int | None) -> list[tuple[str, bool]]:
    """Let the cluster say that a topic has so many lanes; returns what was asked."""
    asked: list[tuple[str, bool]] = []

    def lanes_of(topic: str, *, is_new: bool) -> int | None:
        asked.append((topic, is_new))
        return answer

    monkeypatch.setattr(producer, "_lanes_of", lanes_of)
    return asked


class Away:
    """A broker that can be ended, and a producer whose records fail soon after."""

    def __init__(self, contract: Contract, **given: Any) -> None:
        self.owner: Any = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1, "log_level": 0})
        (one,) = self.owner.list_topics("t", timeout=10).brokers.values()
        settings = {**QUICK, "delivery_timeout_ms": 300, "linger_ms": 0, **given}
        self.producer = KeyedProducer(Router(contract), f"{one.host}:{one.port}", **settings)

    def end(self) -> None:
        self.owner = None


@pytest.fixture
def away(contract: Make) -> Away:
    """A topic of four lanes that has taken one record."""
    made = Away(contract(lanes=4))
    made.producer.send({"k": "first"}, b"")
    made.producer.flush(10)
    return made


def fail(away: Away, *keys: str, **options: Any) -> None:
    away.end()
    for key in keys:
        away.producer.send({"k": key}, b"", **options)


def test_a_failed_delivery_is_raised_by_flush_and_names_its_records(away: Away) -> None:
    fail(away, "a", "b", "c", "d")
    with pytest.raises(DeliveryError, match=r"^4 records not delivered: t lane \d, key b'.': .*and 1 more") as caught:
        away.producer.flush(10)
    lane = away.producer.router.lane
    named = {(one.stream, one.lane, one.key) for one in caught.value.records}
    assert named == {("t", lane({"k": key}), key.encode()) for key in "abcd"}
    away.producer.flush(1)  # raised once


def test_a_failed_delivery_is_raised_by_the_next_send_which_sends_nothing(away: Away) -> None:
    fail(away, "a")
    away.producer.producer.flush(5)
    with pytest.raises(DeliveryError, match="key b'a'"):
        away.producer.send({"k": "b"}, b"")
    assert len(away.producer.producer) == 0


def test_a_failed_delivery_is_raised_by_close_and_close_ends_it(away: Away) -> None:
    fail(away, "a")
    with pytest.raises(DeliveryError):
        away.producer.close()
    away.producer.close()
    with pytest.raises(UsageError, match="closed"):
        away.producer.send({"k": "b"}, b"")


def test_a_block_that_ends_raises_what_was_not_delivered(away: Away) -> None:
    with pytest.raises(DeliveryError), away.producer:
        fail(away, "a")


def test_an_error_of_the_block_is_not_hidden_and_has_a_note_of_the_lost_records(away: Away) -> None:
    def block() -> None:
        with away.producer:
            fail(away, "a")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        block()
    assert any("1 record not delivered" in note for note in caught.value.__notes__)


def test_flush_raises_when_records_still_wait(contract: Make) -> None:
    away = Away(contract(lanes=4), delivery_timeout_ms=60_000)
    away.producer.send({"k": "first"}, b"")
    away.producer.flush(10)
    fail(away, "a", "b")
    with pytest.raises(DeliveryError, match=r"2 records not delivered yet: got 0.1 s") as caught:
        away.producer.flush(0.1)
    assert (caught.value.waiting, caught.value.records) == (2, ())
    with pytest.raises(DeliveryError) as caught:
        away.producer.close(0.1)
    assert len(caught.value.records) == 2, "given up, and named"


def test_flush_without_a_bound_says_what_still_waits(away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may give up before every record has an answer: kafka-python does when a topic is gone."""
    monkeypatch.setattr(away.producer, "_wait", lambda _timeout: 3)
    with pytest.raises(DeliveryError, match=r"3 records not delivered yet: got no answer; hint"):
        away.producer.flush()


def test_nobody_waits_for_a_record_that_the_client_never_had(away: Away) -> None:
    with pytest.raises(TypeError):
        away.producer.send({"k": "a"}, 5)  # type: ignore[arg-type]  # what is tested
    away.producer.flush(10)
    assert away.producer._waiting() == 0


def test_failures_go_to_a_function_where_one_is_given(contract: Make) -> None:
    failed: list[Undelivered] = []
    away = Away(contract(lanes=4), on_failure=failed.append)
    away.producer.send({"k": "first"}, b"")
    away.producer.flush(10)
    fail(away, "a", "b")
    away.producer.close()
    assert [one.key for one in failed] == [b"a", b"b"]


@pytest.mark.parametrize("how", ["send", "callback", "settings"])
def test_the_callers_own_callback_is_called_too(how: str, contract: Make) -> None:
    heard: list[Any] = []

    def note(error: KafkaError | None, message: Any) -> None:
        heard.append((error is None, message.key()))

    away = Away(contract(lanes=4), **({"on_delivery": note} if how == "settings" else {}))
    options: dict[str, Any] = {"send": {"on_delivery": note}, "callback": {"callback": note}, "settings": {}}[how]
    away.producer.send({"k": "first"}, b"", **options)
    away.producer.flush(10)
    fail(away, "a", **options)
    with pytest.raises(DeliveryError):
        away.producer.flush(10)
    assert heard == [(True, b"first"), (False, b"a")]


def test_a_full_queue_is_waited_for(broker: str, contract: Make) -> None:
    sender = KeyedProducer(Router(contract(lanes=4)), broker, queue_buffering_max_messages=10, **QUICK)
    with sender:
        for number in range(500):
            sender.send({"k": f"m-{number}"}, b"")


def test_a_queue_that_stays_full_is_an_error(monkeypatch: pytest.MonkeyPatch, contract: Make) -> None:
    monkeypatch.setattr("keylane.systems.kafka.producers.ANSWER_SECONDS", 0.05)
    full = Away(contract(lanes=4), queue_buffering_max_messages=3, delivery_timeout_ms=60_000)
    lanes_are(monkeypatch, full.producer, 4)
    full.end()
    for key in "abc":
        full.producer.send({"k": key}, b"")
    with pytest.raises(BrokerError, match=r"queue has been full for 0.05 s: got '3 records'"):
        full.producer.send({"k": "d"}, b"")
    with pytest.raises(DeliveryError):
        full.producer.close(0)


@pytest.mark.parametrize("lanes", [3, 5])
def test_a_topic_with_another_lane_count_takes_nothing(lanes: int, broker: str, contract: Make) -> None:
    sender = KeyedProducer(Router(contract(lanes=lanes)), broker, **QUICK)
    with pytest.raises(LaneCountError, match=rf"t has another .* got 4; allowed: {lanes}; hint: .*evolve"):
        sender.send({"k": "a"}, b"")
    assert len(sender.producer) == 0


def test_the_topic_of_a_tier_is_compared_too(broker: str, contract: Make) -> None:
    tiered = contract(lanes=4, hot_keys=[{"keys": ["vip"], "tier": {"stream": "t.vip", "lanes": 3}}])
    sender = KeyedProducer(Router(tiered), broker, **QUICK)
    sender.send({"k": "other"}, b"")
    with pytest.raises(LaneCountError, match=r"t\.vip has another lane count .* got 4; allowed: 3"):
        sender.send({"k": "vip"}, b"")
    sender.close(10)


def test_a_live_contract_has_the_count_it_was_given_and_a_change_under_way_is_refused(
    broker: str, contract: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LaneCountError, match=r"Router\(contract, lanes=4\)"):
        KeyedProducer(Router(contract(lanes="live"), lanes=6), broker, **QUICK).send({"k": "a"}, b"")
    sender = KeyedProducer(Router(contract(lanes="live"), lanes=4), broker, check_seconds=0, **QUICK)
    sender.send({"k": "a"}, b"")
    lanes_are(monkeypatch, sender, 8)
    with pytest.raises(LaneCountError, match="t has another lane count now: got 8; allowed: 4"):
        sender.send({"k": "a"}, b"")
    sender.close(10)


def test_lanes_are_compared_again_after_a_while_and_when_a_delivery_says_so(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = away.producer
    asked = lanes_are(monkeypatch, sender, 4)
    sender.send({"k": "a"}, b"")
    assert asked == [], "seen a moment ago"
    sender.check_seconds = 0.0
    sender.send({"k": "a"}, b"")
    assert asked == [("t", False)]
    sender.check_seconds = 1e9
    sender._look_again("t")
    sender.send({"k": "a"}, b"")
    assert asked == [("t", False)] * 2
    sender.flush(10)


def test_a_broker_that_does_not_answer_a_second_look_does_not_stop_the_sender(
    contract: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(contract(lanes=4), check_seconds=0.0)
    away.producer.send({"k": "first"}, b"")
    away.producer.flush(10)
    lanes_are(monkeypatch, away.producer, None)
    fail(away, "a")
    with pytest.raises(DeliveryError, match="key b'a'"):
        away.producer.flush(10)


def drop(away: Away) -> list[str]:
    """What is said when the last reference to a producer with a record on its way goes."""
    away.producer.send({"k": "a"}, b"")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        del away.producer
        gc.collect()
    return [str(one.message) for one in said]


def test_a_producer_that_is_dropped_with_records_warns(contract: Make) -> None:
    away = Away(contract(lanes=4), delivery_timeout_ms=60_000, linger_ms=5_000)
    assert any("dropped with 1 record" in text for text in drop(away))


def test_twin_a_callback_that_holds_its_producer_leaves_the_loss_unsaid(
    contract: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(contract(lanes=4), delivery_timeout_ms=60_000, linger_ms=5_000)
    held = ref(away.producer)
    monkeypatch.setattr(producers, "ref", lambda one: lambda: one)
    assert drop(away) == []
    left = held()
    assert left is not None
    left.close(10)


def test_a_program_that_ends_with_an_open_producer_waits_for_its_records_and_names_the_lost(away: Away) -> None:
    away.producer.send({"k": "a"}, b"")
    producers._close_all()
    assert away.producer._waiting() == 0
    other = Away(away.producer.router.contract)
    other.producer.send({"k": "first"}, b"")
    other.producer.flush(10)
    fail(other, "b")
    with pytest.warns(RuntimeWarning, match=r"program ended with an open producer: 1 record .* key b'b'"):
        producers._close_all()


def test_a_producer_refuses_after_a_fork_and_leaves_the_records_of_its_parent_alone(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    away.producer.send({"k": "a"}, b"")
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: 1)
        for call in (lambda: away.producer.send({"k": "b"}, b""), away.producer.flush):
            with pytest.raises(UsageError, match=r"made in another process.*hint: make a producer in each process"):
                call()
        away.producer.close()
        away.producer.__del__()
    away.producer.send({"k": "c"}, b"")
    away.producer.close()


def test_twin_without_the_callback_a_failed_delivery_goes_unnoticed(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away.producer, "_fail", lambda *_args, **_more: None)
    fail(away, "a")
    away.producer.close()
