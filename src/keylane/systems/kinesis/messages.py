"""A record of a stream as a message, with key, value, time and headers; and a message as a user record with tags.

    message_of   what was read -> key, value and headers
    user_of      key, value, headers and the tags of a route -> a user record for one lane

A record of the service has no headers. What a route has to say of a record, and the headers that it came with, are tags
of an aggregated record of one user record or of some of one key (`aggregated`), a place that the format has for such:
readers that know it see the data alone. Tags are text: a header whose bytes are no text has base64 in its tag, and
`;base64` at its name. A key that the service does not take is hashed, and is itself in the tag `keylane.key`.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from keylane.errors import UsageError
from keylane.hashing.md5 import md5_128
from keylane.keyspace.hash_keys import checked_partition_key
from keylane.systems.kinesis.aggregated import UserRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from keylane.systems.kinesis.reader import ReadRecord

    Header = tuple[str, bytes | None]

#: Of a record that was read: the service's number of it, and its place in an aggregated record.
SEQUENCE: Final = "kinesis.sequence"
SUBSEQUENCE: Final = "kinesis.subsequence"
#: Of a record that was written, beside those of every route: the time that it had, and a key or value that is none.
TIME: Final = "keylane.time"
KEY: Final = "keylane.key"
NO_VALUE: Final = "keylane.no-value"
_BASE64: Final = ";base64"
_NULL: Final = "null"


@dataclass(frozen=True, slots=True)
class Message:
    """Key, value and headers of a record, as other systems have them."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def message_of(read: ReadRecord) -> Message:
    """A record of a source; its sequence number is a header, because a position does not say it."""
    headers = [*own_headers(read.user), (SEQUENCE, read.sequence.encode())]
    if read.sub is not None:
        headers.append((SUBSEQUENCE, b"%d" % read.sub))
    return Message(key_of(read.user), value_of(read.user), tuple(headers))


def own_headers(user: UserRecord) -> list[Header]:
    """All tags as headers, but those that stand for key and value."""
    return [_header(name, text) for name, text in user.tags if name not in {KEY, NO_VALUE}]


def key_of(user: UserRecord) -> bytes | None:
    """The key's bytes: the partition key, or what stands for it in a tag; null where there is none."""
    for name, text in user.tags:
        if name == KEY:
            return None if text in {None, _NULL} else base64.b64decode(str(text))
    return user.partition_key.encode() or None


def value_of(user: UserRecord) -> bytes | None:
    """The data; null where the record was written without a value."""
    return None if any(name == NO_VALUE for name, _ in user.tags) else user.data


def user_of(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
    tags: Sequence[tuple[str, str]],
    bounds: tuple[int, int],
    hash_key: int | None = None,
) -> UserRecord:
    """A message as a user record on the lane with these bounds; `tags` are those of the route.

    The hash of a key decides the shard where it lies within the bounds. Otherwise the record has an explicit hash key,
    the first of the lane, or the one that the contract has for the key (`hash_key`): a key has always the same.
    """
    text, marks = _partition_key(key)
    own = md5_128(key or b"")
    inside = bounds[0] <= own <= bounds[1]
    explicit = None if inside and not marks else own if inside else bounds[0]
    if hash_key is not None and bounds[0] <= hash_key <= bounds[1]:
        explicit = hash_key
    if value is None:
        marks.append((NO_VALUE, None))
    carried = [_tag(name, content) for name, content in headers]
    return UserRecord(text, value or b"", explicit, (*carried, *marks, *tags))


def _partition_key(key: bytes | None) -> tuple[str, list[tuple[str, str | None]]]:
    """The text that the service takes for a key, and the tag that says what it was where it is another."""
    if key is None:
        return _NULL, [(KEY, _NULL)]
    try:
        return checked_partition_key(key.decode()), []
    except (UnicodeDecodeError, UsageError):
        return f"{md5_128(key):032x}", [(KEY, base64.b64encode(key).decode())]


def _tag(name: str, value: bytes | None) -> tuple[str, str | None]:
    if value is None:
        return name, None
    try:
        text = None if name.endswith(_BASE64) else value.decode()
    except UnicodeDecodeError:
        text = None
    return (name, text) if text is not None else (f"{name}{_BASE64}", base64.b64encode(value).decode())


def _header(name: str, text: str | None) -> Header:
    if text is None:
        return name, None
    if name.endswith(_BASE64):
        try:
            return name.removesuffix(_BASE64), base64.b64decode(text, validate=True)
        except ValueError:
            return name, text.encode()
    return name, text.encode()
