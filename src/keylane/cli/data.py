"""The data of `identify` and `check`: a file, a folder, or a topic, by one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.contract.model import Contract
    from keylane.systems.files import Data
    from keylane.systems.streams import TopicOptions
    from keylane.systems.topic_data import TopicData

__all__ = ["is_topic", "named", "opened"]


def is_topic(path: str) -> bool:
    """Whether an address is of Kafka."""
    return path.lower().startswith("kafka://")


def opened(
    path: str, said: TopicOptions, text: Sequence[str] = (), contract: Contract | None = None
) -> Data | TopicData:
    """Find the data; of a topic, what is there of it now."""
    from keylane.systems.address import parse_address, path_of

    address = parse_address(path)
    if address.system == "kafka":
        from keylane.systems.topic_data import open_topic

        return open_topic(address, contract, said)
    from keylane.systems.files import open_data

    path_of(address, "the data")
    return open_data(address.name, text=text)


def named(data: Data | TopicData, *, key: str | None, lane: str | None) -> list[str]:
    """The columns of key and lane: as given, or as a topic has them."""
    if key and lane:
        return [key, lane]
    if not is_topic(data.path):
        missing = "'--lane' / '-l'" if key else "'--key' / '-k'"
        raise click.UsageError(f"Missing option {missing}: data in files does not say which column it is.")
    return [key or "key", lane or "lane"]
