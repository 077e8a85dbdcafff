"""One form for every place a stream can be: a path, `kafka://host:port/topic`, `kinesis://region/stream`.

Parsing dials nothing and looks at no disk. What is done with an address is the business of the room it names:
`folders` and `files` for paths, `kafka`, `kinesis`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from keylane.errors import UsageError

__all__ = ["Address", "parse_address", "path_of"]

System: TypeAlias = Literal["files", "kafka", "kinesis"]

FORMS: Final = "a path, kafka://host:port/topic, kinesis://region/stream"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BROKER = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
_KAFKA = re.compile(rf"({_BROKER}(?:,{_BROKER})*)/([A-Za-z0-9._-]{{1,249}})")
_KINESIS = re.compile(r"([a-z]{2}(?:-[a-z]+)+-[0-9]+)/([A-Za-z0-9._-]{1,128})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a stream is: the system, the place in it (brokers, a region, nothing for files), and its name there."""

    system: System
    place: str
    name: str

    def __str__(self) -> str:
        return self.name if self.system == "files" else f"{self.system}://{self.place}/{self.name}"


def parse_address(text: str) -> Address:
    """Read an address; `str` of the result gives it back.

    >>> parse_address("kafka://broker:9092/payments")
    Address(system='kafka', place='broker:9092', name='payments')
    >>> str(parse_address("data/day1"))
    'data/day1'
    """
    if not text:
        raise UsageError.of("an address is empty", allowed=FORMS)
    found = _SCHEME.fullmatch(text)
    if found is None:
        return Address("files", "", text)
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return Address("files", "", _local(rest, text))
    if scheme == "kafka":
        return _parts("kafka", _KAFKA, rest, text, "kafka://host:port/topic")
    if scheme == "kinesis":
        return _parts("kinesis", _KINESIS, rest, text, "kinesis://region/stream")
    hint = "a path to a file system that every machine sees, as a mount gives it"
    raise UsageError.of("not a system that keylane knows", got=text, allowed=FORMS, hint=hint)


def path_of(address: Address, what: str) -> Path:
    """The path of an address of files; any other system is refused, with what is coming."""
    if address.system != "files":
        raise UsageError.of(
            f"{what}: {address.system} is not read or written by this version; nothing was contacted",
            got=str(address),
            allowed="a path",
            hint="Kafka topics and Kinesis streams come as sources and sinks of their own",
        )
    return Path(address.name).absolute()


def _local(rest: str, text: str) -> str:
    if not rest.startswith("/"):
        raise UsageError.of("a file address names another machine", got=text, allowed="file:///path, or a path")
    return unquote(rest)


def _parts(system: System, form: re.Pattern[str], rest: str, text: str, allowed: str) -> Address:
    found = form.fullmatch(rest)
    if found is None:
        raise UsageError.of(f"not a {system} address", got=text, allowed=allowed)
    return Address(system, found[1], found[2])
