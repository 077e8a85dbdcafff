from __future__ import annotations

from typing import TYPE_CHECKING, Any

import botocore.session
import pytest
from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator

from keylane.contract.shards import SPACE
from keylane.errors import UnplacedError, UsageError
from keylane.hashing.md5 import md5_128
from keylane.placement.ranges import KeySpace
from keylane.records import Reason
from keylane.router import Router
from keylane.systems.kinesis.put import put_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

    Make = Callable[..., Contract]


@pytest.fixture(scope="module")
def accepts() -> Callable[[dict[str, Any]], None]:
    """boto3's own check of what `put_record` is called with."""
    shape = botocore.session.get_session().get_service_model("kinesis").operation_model("PutRecord").input_shape

    def accepts(arguments: dict[str, Any]) -> None:
        report = ParamValidator().validate(arguments, shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())

    return accepts


def shard(arguments: dict[str, Any], shards: int) -> int:
    """Where the service puts it: the shard whose range holds the explicit hash key, or the MD5 of the key."""
    explicit = arguments.get("ExplicitHashKey")
    number = md5_128(arguments["PartitionKey"].encode()) if explicit is None else int(explicit)
    assert 0 <= number < SPACE
    return min(number // (SPACE // shards), shards - 1)


@pytest.mark.parametrize("shards", [1, 2, 7, 12, 100])
@pytest.mark.parametrize("name", ["kafka-java", "librdkafka-consistent", "kinesis-md5", "spark-hash"])
def test_every_record_lands_on_the_shard_of_its_lane(
    name: str, shards: int, contract: Make, accepts: Callable[[dict[str, Any]], None]
) -> None:
    router = Router(contract(lanes=shards, partitioner=name))
    for i in range(200):
        arguments = put_arguments(router, {"k": f"m-{i}"}, b"data")
        accepts(arguments)
        assert shard(arguments, shards) == router.lane({"k": f"m-{i}"})


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 100])
def test_every_lane_has_an_explicit_hash_key_inside_its_range(shards: int, contract: Make) -> None:
    for lane in range(shards):
        pinned = contract(lanes=shards, hot_keys=[{"keys": ["a"], "pin": {"lanes": [lane]}}])
        arguments = put_arguments(Router(pinned), {"k": "a"}, b"")
        assert shard(arguments, shards) == lane
        assert arguments["ExplicitHashKey"] == str(int(arguments["ExplicitHashKey"]))


def test_what_kinesis_places_itself_needs_no_explicit_hash_key(contract: Make) -> None:
    router = Router(contract(lanes=12, partitioner="kinesis-md5"))
    assert put_arguments(router, {"k": "m-7"}, b"data") == {"StreamName": "t", "Data": b"data", "PartitionKey": "m-7"}


def test_a_pinned_key_needs_one_even_there(contract: Make) -> None:
    own = Router(contract(lanes=12, partitioner="kinesis-md5")).lane({"k": "a"})
    assert own is not None
    pinned = contract(
        lanes=12, partitioner="kinesis-md5", hot_keys=[{"keys": ["a"], "pin": {"lanes": [(own + 1) % 12]}}]
    )
    arguments = put_arguments(Router(pinned), {"k": "a"}, b"")
    assert shard(arguments, 12) == (own + 1) % 12


@pytest.mark.parametrize("name", ["kafka-java", "kinesis-md5"])
def test_a_tier_is_cut_by_its_own_count_of_shards(name: str, contract: Make) -> None:
    keys = [f"vip-{i}" for i in range(20)]
    tiered = contract(lanes=64, partitioner=name, hot_keys=[{"keys": keys, "tier": {"stream": "t.vip", "lanes": 4}}])
    router = Router(tiered)
    for key in keys:
        arguments = put_arguments(router, {"k": key}, b"")
        assert arguments["StreamName"] == "t.vip"
        assert shard(arguments, 4) == router.place({"k": key}).lane


@pytest.mark.parametrize("name", ["kafka-java", "kinesis-md5"])
def test_shards_of_a_given_key_space_are_met_also_where_they_are_uneven(name: str, contract: Make) -> None:
    shards = KeySpace((0, 2**100, 2**126, 2**127, 2**127 + 2, SPACE - 2**120))
    uneven = Router(contract(lanes=6, partitioner=name), key_space=shards)
    equal = Router(contract(lanes=6, partitioner=name))
    sent = {router: [put_arguments(router, {"k": f"m-{i}"}, b"") for i in range(200)] for router in (uneven, equal)}

    def reached(arguments: dict[str, Any]) -> int:
        explicit = arguments.get("ExplicitHashKey")
        return shards.lane_of(md5_128(arguments["PartitionKey"].encode()) if explicit is None else int(explicit))

    right = [uneven.lane({"k": f"m-{i}"}) for i in range(200)]
    assert [reached(arguments) for arguments in sent[uneven]] == right
    assert len(set(right)) == (6 if name == "kafka-java" else 4)
    # The twin: what was made for equal shards misses these.
    assert [reached(arguments) for arguments in sent[equal]] != [equal.lane({"k": f"m-{i}"}) for i in range(200)]


@pytest.mark.parametrize("name", ["kafka-java", "librdkafka-consistent", "kinesis-md5"])
def test_a_null_key_is_refused(name: str, contract: Make) -> None:
    with pytest.raises(UnplacedError) as caught:
        put_arguments(Router(contract(partitioner=name)), {"k": None}, b"", position=7)
    assert caught.value.reason is Reason.NULL_KEY


def test_a_key_spread_by_position_needs_its_position(contract: Make) -> None:
    spread = Router(contract(lanes=12, hot_keys=[{"keys": ["hot"], "spread": {"over": 3, "by_position": True}}]))
    lanes = {shard(put_arguments(spread, {"k": "hot"}, b"", position), 12) for position in range(9)}
    assert len(lanes) == 3
    with pytest.raises(UnplacedError) as caught:
        put_arguments(spread, {"k": "hot"}, b"")
    assert caught.value.reason is Reason.NO_POSITION


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("x", id="one character"),
        pytest.param("x" * 256, id="256 characters"),
        pytest.param("é" * 256, id="256 characters of two bytes"),
        pytest.param("😀" * 128, id="256 units of UTF-16"),
    ],
)
def test_a_key_within_the_limits_is_taken(key: str, contract: Make, accepts: Callable[[dict[str, Any]], None]) -> None:
    arguments = put_arguments(Router(contract()), {"k": key}, b"")
    accepts(arguments)
    assert arguments["PartitionKey"] == key


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 257, id="257 characters"),
        pytest.param("😀" * 129, id="258 units of UTF-16"),
    ],
)
def test_a_key_beyond_the_limits_is_refused(key: str, contract: Make) -> None:
    with pytest.raises(UsageError, match="1 to 256"):
        put_arguments(Router(contract()), {"k": key}, b"")


def test_a_key_that_is_no_text_is_refused(contract: Make) -> None:
    numbers = Router(contract(key={"fields": ["k"], "encoding": "int64be"}))
    with pytest.raises(UsageError, match=r"got .*hint: encoding: utf8"):
        put_arguments(numbers, {"k": 2**62 + 255}, b"")


def test_boto3_refuses_what_is_not_a_put(accepts: Callable[[dict[str, Any]], None], contract: Make) -> None:
    """The twin: the check above does say no."""
    arguments = put_arguments(Router(contract()), {"k": "a"}, b"")
    for name, wrong in (("ExplicitHashKey", 7), ("PartitionKey", b"bytes"), ("PartitionKey", "")):
        with pytest.raises(ParamValidationError):
            accepts({**arguments, name: wrong})
