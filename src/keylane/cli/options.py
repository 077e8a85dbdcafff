"""Options that several commands share: declared once, and turned into what the packages below take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.systems.endpoint import StreamOptions

__all__ = [
    "client_options",
    "kafka_options",
    "profiling_from",
    "profiling_options",
    "properties_from",
    "reading_from",
    "reading_options",
    "taken_from",
]

_CLIENT: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--kafka", "pairs", multiple=True, metavar="KEY=VALUE", help="A Kafka client property; repeatable."),
    click.option("--kafka-file", "file", type=click.Path(), help="A file of such properties."),
)
_VALUES: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--value", type=click.Choice(["json", "avro", "protobuf", "utf8"]), help="How values are written."),
    click.option(
        "--value-schema", type=click.Path(), help="Their schema: an .avsc file, or a Protobuf descriptor set."
    ),
    click.option("--message", help="The message of the descriptor set, when it has several."),
)
_CONNECTOR: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--spark-jars", "jars", type=click.Path(), help="A folder with Spark's Kafka connector."),
    click.option("--spark-packages", "packages", help="The connector by its coordinates, for Spark to fetch."),
)
_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    *_CLIENT,
    click.option(
        "--state", type=click.Path(), help="Where a route into Kafka keeps its state; default: keylane-state/."
    ),
    click.option(
        "--delivery",
        type=click.Choice(["exactly-once", "at-least-once"]),
        default="exactly-once",
        show_default=True,
        help="Into Kafka: in transactions, or without them.",
    ),
    click.option(
        "--start", default="earliest", show_default=True, help="earliest, latest, a time, or offsets as JSON."
    ),
    click.option(
        "--max-records",
        type=click.IntRange(min=1),
        default=1_000_000,
        show_default=True,
        help="Records of a topic in one batch.",
    ),
    click.option(
        "--writers", type=click.IntRange(1, 1000), help="Divide by lane among so many; default: by source partition."
    ),
    click.option("--dead-letters", metavar="TOPIC", help="Where records without a lane go; default: <topic>.dlq."),
    click.option(
        "--on-poison",
        type=click.Choice(["dlq", "stop", "dlq-and-park-key"]),
        default="dlq",
        show_default=True,
        help="What a record without a lane does.",
    ),
    click.option(
        "--on-growth",
        type=click.Choice(["stop", "keep"]),
        default="stop",
        show_default=True,
        help="What a topic with more lanes than before does.",
    ),
    click.option("--create", is_flag=True, help="Make topics that do not exist."),
    *_VALUES,
    *_CONNECTOR,
)
_NAMES: Final = (
    *("state", "delivery", "start", "max_records", "writers", "dead_letters", "on_poison", "on_growth", "create"),
    *("value", "value_schema", "message", "jars", "packages"),
)


def kafka_options(command: Any) -> Any:
    """Give a command all of them."""
    return _given(command, _OPTIONS)


def client_options(command: Any) -> Any:
    """Give a command those that say how a cluster is reached."""
    return _given(command, _CLIENT)


def reading_options(command: Any) -> Any:
    """Give a command those that say how topics are read."""
    return _given(command, (*_CLIENT, *_VALUES))


def profiling_options(command: Any) -> Any:
    """Give a command those that say how topics are read on Spark."""
    return _given(command, (*_CLIENT, *_VALUES, *_CONNECTOR))


def profiling_from(options: dict[str, Any]) -> StreamOptions:
    """Take the options that say how streams are read on Spark out of a command's; the rest stays."""
    from keylane.systems.endpoint import StreamOptions

    names = ("value", "value_schema", "message", "jars", "packages")
    return StreamOptions(properties_from(options), **{name: options.pop(name) for name in names})


def _given(command: Any, several: tuple[Callable[[Any], Any], ...]) -> Any:
    for option in reversed(several):
        command = option(command)
    return command


def taken_from(options: dict[str, Any]) -> StreamOptions:
    """Take these options out of a command's; the rest stays."""
    from keylane.systems.endpoint import StreamOptions

    return StreamOptions(properties_from(options), **{name: options.pop(name) for name in _NAMES})


def reading_from(options: dict[str, Any]) -> StreamOptions:
    """Take the options that say how streams are read out of a command's; the rest stays."""
    from keylane.systems.endpoint import StreamOptions

    names = ("value", "value_schema", "message", "dead_letters", "state")
    return StreamOptions(properties_from(options), **{name: options.pop(name) for name in names if name in options})


def properties_from(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Take the properties of a client out of a command's options; the rest stays."""
    from keylane.systems.kafka.access import read_properties

    file, pairs = options.pop("file"), [_pair(text) for text in options.pop("pairs")]
    return (*(read_properties(file) if file else ()), *pairs)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        # What stands there may be a secret that lost its name.
        raise click.UsageError("--kafka takes NAME=VALUE")
    return name, value
