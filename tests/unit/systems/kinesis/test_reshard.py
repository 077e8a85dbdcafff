"""What a stream says of itself before its shards are changed: settings, quotas, and answers that mean later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from keylane.errors import BrokerError, TargetError
from keylane.systems.kinesis import access as access_module
from keylane.systems.kinesis.access import KinesisAccess
from keylane.systems.kinesis.reshard import KinesisResharder


class ServiceError(Exception):
    """As botocore raises it."""

    __module__ = "botocore.exceptions"

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling the X operation: no")
        self.response = {"Error": {"Code": code}}


class Client:
    """A client with canned answers."""

    def __init__(
        self, *, summary: dict[str, Any] | None = None, limits: Any = None, call: Exception | None = None
    ) -> None:
        self.summary, self.limits, self.call = summary or {}, limits, call

    def describe_stream_summary(self, **_: Any) -> dict[str, Any]:
        usual = {
            "StreamStatus": "ACTIVE",
            "StreamARN": "arn",
            "StreamCreationTimestamp": datetime.fromtimestamp(1, UTC),
        }
        return {"StreamDescriptionSummary": {**usual, **self.summary}}

    def list_shards(self, **_: Any) -> dict[str, Any]:
        ends = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
        return {"Shards": [{"ShardId": "shardId-000000000000", "HashKeyRange": ends, "SequenceNumberRange": {}}]}

    def describe_limits(self) -> Any:
        if isinstance(self.limits, Exception):
            raise self.limits
        return self.limits

    def split_shard(self, **_: Any) -> None:
        if self.call is not None:
            raise self.call


def resharder(monkeypatch: pytest.MonkeyPatch, **given: Any) -> KinesisResharder:
    client = Client(**{"limits": {"ShardLimit": 20, "OpenShardCount": 15}, **given})
    monkeypatch.setattr(access_module, "_client", lambda *_: client)
    return KinesisResharder(KinesisAccess("eu-west-1"), "s")


@pytest.mark.parametrize(
    ("summary", "setting"),
    [
        ({}, ""),
        ({"RecordDistributionStrategy": "USER_PARTITION_KEY"}, ""),
        ({"RecordDistributionStrategy": "AUTO"}, "RecordDistributionStrategy AUTO"),
        ({"StreamModeDetails": {"StreamMode": "ON_DEMAND"}}, "StreamMode ON_DEMAND"),
    ],
)
def test_a_stream_that_ignores_keys_or_scales_itself_says_so(
    monkeypatch: pytest.MonkeyPatch, summary: dict[str, Any], setting: str
) -> None:
    state = resharder(monkeypatch, summary=summary).state()
    assert (state.setting, bool(state.refusal)) == (setting, bool(setting))
    assert (state.active, state.most) == (True, 6)


def test_a_stream_that_is_being_changed_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not resharder(monkeypatch, summary={"StreamStatus": "UPDATING"}).state().active
    with pytest.raises(TargetError):
        resharder(monkeypatch, summary={"StreamStatus": "DELETING"}).state()


def test_a_quota_that_is_not_said_is_left_to_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resharder(monkeypatch, limits=ServiceError("UnknownOperationException")).state().most is None
    with pytest.raises(BrokerError):
        resharder(monkeypatch, limits=ServiceError("InternalFailure")).state()


@pytest.mark.parametrize("code", ["ResourceInUseException", "LimitExceededException", "ThrottlingException"])
def test_answers_that_mean_later_are_no_errors(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    assert resharder(monkeypatch, call=ServiceError(code)).split("a", 5) is False
    assert resharder(monkeypatch).split("a", 5) is True
    with pytest.raises(BrokerError, match="InvalidArgumentException"):
        resharder(monkeypatch, call=ServiceError("InvalidArgumentException")).split("a", 5)
