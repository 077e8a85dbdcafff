"""Aggregated records: several user records in one record of the service, in the format of Amazon's producer library.

    parsed     the bytes of a record -> the user records inside; None where it is a record as it is
    packed     user records -> the bytes of one record
    UserRecord key, explicit hash key, data and tags of one

Rule: four bytes of magic, a Protobuf message, and the MD5 of that message. Keys stand in tables at its head, and each
record names its own by an index. Bytes that begin with the magic and do not fit the rest, in checksum, structure or
index, are a plain record: that is what the service's own libraries take them for.

Worked example: two records of the key `a` are one table with `a` in it, and two records with the index 0.

A consumer that knows the range of its shard drops an aggregated record as a whole when the hash key of any user record
inside lies outside that range: `is_discarded`. Keys are hashed to the shard by the outer record alone, so a writer that
puts keys of two shards into one record, or a split between two attempts, makes such. keylane puts only records of one
key together, and so never does. When not to use it: for readers that do not know the format, they see the framing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from keylane.contract.shards import hash_key_problem
from keylane.errors import MissingExtraError
from keylane.hashing.md5 import md5_128

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_CHECKSUM: Final = 16
_REQUIRED, _OPTIONAL, _REPEATED = 2, 1, 3
_STRING, _BYTES, _MESSAGE, _UINT64 = 9, 12, 11, 4
#: Message -> name, number, label, type and the message it holds of each field.
_FIELDS: Final = {
    "Tag": (("key", 1, _REQUIRED, _STRING, ""), ("value", 2, _OPTIONAL, _STRING, "")),
    "Record": (
        ("partition_key_index", 1, _REQUIRED, _UINT64, ""),
        ("explicit_hash_key_index", 2, _OPTIONAL, _UINT64, ""),
        ("data", 3, _REQUIRED, _BYTES, ""),
        ("tags", 4, _REPEATED, _MESSAGE, "Tag"),
    ),
    "AggregatedRecord": (
        ("partition_key_table", 1, _REPEATED, _STRING, ""),
        ("explicit_hash_key_table", 2, _REPEATED, _STRING, ""),
        ("records", 3, _REPEATED, _MESSAGE, "Record"),
    ),
}


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A record as its producer gave it; `tags` are names with texts, or None where one has none."""

    partition_key: str
    data: bytes
    explicit_hash_key: int | None = None
    tags: tuple[tuple[str, str | None], ...] = ()

    @property
    def hash_key(self) -> int:
        """Where in the key space it belongs."""
        return md5_128(self.partition_key.encode()) if self.explicit_hash_key is None else self.explicit_hash_key


@cache
def _message() -> Any:
    """The class of an aggregated record, made from the fields above: no generated code, and no compiler."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise MissingExtraError.named("kinesis", "protobuf") from None
    file = descriptor_pb2.FileDescriptorProto(name="keylane/aggregated.proto", package="keylane", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, label, kind, held in fields:
            message.field.add(
                name=field, number=number, label=label, type=kind, type_name=f".keylane.{held}" if held else None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("keylane.AggregatedRecord"))


def parsed(data: bytes) -> list[UserRecord] | None:
    """The user records inside; None where the bytes are no aggregated record.

    >>> parsed(b"plain"), [one.data for one in parsed(packed([UserRecord("a", b"1"), UserRecord("a", b"2")]))]
    (None, [b'1', b'2'])
    """
    body, checksum = data[len(MAGIC) : -_CHECKSUM], data[-_CHECKSUM:]
    if not data.startswith(MAGIC) or hashlib.md5(body, usedforsecurity=False).digest() != checksum:
        return None
    from google.protobuf.message import DecodeError

    try:
        return _records(_message().FromString(body))
    except (DecodeError, IndexError, UnicodeDecodeError, ValueError):
        return None


def _records(message: Any) -> list[UserRecord]:
    keys, hash_keys = list(message.partition_key_table), list(message.explicit_hash_key_table)
    tags_of = [text for one in message.records for tag in one.tags for text in (tag.key, tag.value)]
    # What is no UTF-8 is parsed all the same, and comes as bytes.
    if any(map(hash_key_problem, hash_keys)) or not all(isinstance(text, str) for text in (*keys, *tags_of)):
        raise ValueError("a text is none, or an explicit hash key")
    found = []
    for one in message.records:
        explicit = int(hash_keys[one.explicit_hash_key_index]) if one.HasField("explicit_hash_key_index") else None
        tags = tuple((tag.key, tag.value if tag.HasField("value") else None) for tag in one.tags)
        found.append(UserRecord(keys[one.partition_key_index], one.data, explicit, tags))
    return found


def packed(records: Sequence[UserRecord]) -> bytes:
    """One record of the service; the reverse of `parsed`."""
    message = _message()()
    keys = list(dict.fromkeys(one.partition_key for one in records))
    given = (one.explicit_hash_key for one in records)
    hash_keys = list(dict.fromkeys(number for number in given if number is not None))
    message.partition_key_table.extend(keys)
    message.explicit_hash_key_table.extend(map(str, hash_keys))
    for one in records:
        made = message.records.add(partition_key_index=keys.index(one.partition_key), data=one.data)
        if one.explicit_hash_key is not None:
            made.explicit_hash_key_index = hash_keys.index(one.explicit_hash_key)
        for name, text in one.tags:
            made.tags.add(key=name, value=text)
    body = message.SerializeToString(deterministic=True)
    return MAGIC + body + hashlib.md5(body, usedforsecurity=False).digest()


def is_discarded(records: Sequence[UserRecord], start: int, end: int) -> bool:
    """Whether a consumer of the shard with this range, both ends included, drops the record that these stand in."""
    return not all(start <= one.hash_key <= end for one in records)
