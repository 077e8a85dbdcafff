"""A Kafka topic behind an address: what `open_endpoint` gives for `kafka://host:port/topic`.

What each ability does is in a module of its own, which is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from keylane.systems.endpoint import Endpoint

if TYPE_CHECKING:
    from keylane.contract.fields import FieldSpec
    from keylane.contract.model import Contract
    from keylane.systems.kafka.values import TopicFields
    from keylane.systems.streams import Description, Stream

__all__ = ["KafkaEndpoint"]


class KafkaEndpoint(Endpoint):
    """A topic of a cluster."""

    messages: ClassVar[bool] = True

    def describe(self, fields: FieldSpec) -> Description:
        """The topic up to where its lanes end now."""
        from keylane.systems.kafka.data import describe_topic

        return describe_topic(self.address, fields, self.options)

    def as_source(self, target: Stream, contract: Contract | None) -> Stream:  # noqa: ARG002  a topic is all there is
        """The topic up to where its lanes end now, with offsets for positions."""
        from keylane.systems.kafka.stream import source_topic

        return source_topic(self.address, contract, self.options)

    def as_target(self, source: Endpoint, contract: Contract | None) -> Stream:
        """The topic, those of the contract's tiers, and that of the dead letters."""
        from keylane.systems.kafka.stream import target_topic

        return target_topic(self.address, contract, self.options, from_messages=source.messages)

    def message_fields(self, fields: FieldSpec) -> TopicFields:
        """By the format of values that the options give."""
        from keylane.systems.kafka.values import fields_for

        return fields_for(fields, self.options)
