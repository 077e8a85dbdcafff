"""Splits and merges of a stream, by boto3: what `systems.resharding` asks of a system.

A call is sent once: whether one that got no answer was taken, only the stream itself shows. What the service says when
it is busy, or when the rate of an account is used up, is an answer that the call was not taken; every other error is
one. How shards are listed: `shards`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keylane.errors import TargetError
from keylane.keyspace.layout import ShardLayout
from keylane.systems.kinesis.access import calling, code_of
from keylane.systems.kinesis.shards import describe_stream, shards_of
from keylane.systems.resharding import StreamState

if TYPE_CHECKING:
    from keylane.systems.kinesis.access import KinesisAccess

#: What the service answers when a call may be made later: it is being changed, or asked too often.
_LATER: Final = ("ResourceInUseException", "LimitExceededException", "ThrottlingException")
#: What servers answer that do not know a question.
_UNKNOWN: Final = ("UnknownOperationException", "InvalidAction", "UnrecognizedClientException")
AUTO: Final = "the service places records of this stream without their keys, so that shards by key do nothing"
ON_DEMAND: Final = "the service splits and merges the shards of this stream itself"


class KinesisResharder:
    """The shards of one stream."""

    def __init__(self, access: KinesisAccess, stream: str) -> None:
        self.access, self.stream = access, stream

    def state(self) -> StreamState:
        """Status, settings and open shards, and the quota of the account."""
        with calling(self.access, self.stream, TargetError):
            client = self.access.client()
            found = client.describe_stream_summary(StreamName=self.stream)["StreamDescriptionSummary"]
        if found["StreamStatus"] == "UPDATING":
            return StreamState("", ShardLayout(()), active=False)
        facts = describe_stream(self.access, self.stream, TargetError)
        refusal, setting = "", ""
        if not facts.heeds_keys:
            refusal, setting = AUTO, "RecordDistributionStrategy AUTO"
        elif not facts.provisioned:
            refusal, setting = ON_DEMAND, "StreamMode ON_DEMAND"
        layout = shards_of(self.access, self.stream, TargetError)
        return StreamState(facts.id, layout, True, refusal, setting, self._most(len(layout.open)))

    def _most(self, own: int) -> int | None:
        """Open shards that this stream may have beside those of others; None where a server does not know."""
        try:
            limits = self.access.client().describe_limits()
            return int(limits["ShardLimit"]) - int(limits["OpenShardCount"]) + own
        except Exception as error:
            # The errors of boto3 are not known here; a quota that cannot be read is left to the service.
            if code_of(error) in (*_UNKNOWN, *_LATER, "AccessDeniedException", "404"):
                return None
            with calling(self.access, self.stream, TargetError):
                raise

    def split(self, shard: str, at: int) -> bool:
        """SplitShard."""
        return self._call("split_shard", ShardToSplit=shard, NewStartingHashKey=str(at))

    def merge(self, lower: str, upper: str) -> bool:
        """MergeShards."""
        return self._call("merge_shards", ShardToMerge=lower, AdjacentShardToMerge=upper)

    def _call(self, name: str, **arguments: Any) -> bool:
        try:
            getattr(self.access.client(tries=1), name)(StreamName=self.stream, **arguments)
        except Exception as error:
            if code_of(error) in _LATER:
                return False
            with calling(self.access, self.stream, TargetError):
                raise
        return True
