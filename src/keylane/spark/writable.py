"""Records that a topic would not take, and dead letters that their topic takes in any case.

    unwritable     records beyond the limits of their topic get a reason: too large, a time or a header, no key
    with_letters   dead letters with the headers that say why; what does not fit is left out and described

The limits are those of the batch's plan (`systems.kafka.limits`), so that a batch that is run again decides the same.
Nothing is found out by trying: a record that the client or the broker refuses would stop all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from keylane.records import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from keylane.records import RecordLimits

DEAD_PREFIX: Final = "__keylane.errors."
HEADERS: Final = "array<struct<key:string,value:binary>>"
#: A batch of one record, the record's own fields, and the lengths of key, value and headers: at most.
_RECORD_BYTES: Final = 61 + 21 + 3 * 5
#: The two lengths of a header: at most.
_HEADER_BYTES: Final = 2 * 5
#: The headers that every record gets, without the position in the source: contract, epoch, attempt, and their names.
_OWN_BYTES: Final = 256
#: A topic's name is given; partition, offset and two slashes beside it.
_POSITION_BYTES: Final = 32
#: What Java reads where the bytes of a header's name are no text. Which bytes they were is not known then.
_NO_TEXT: Final = "\ufffd"
LETTER: Final = "keylane_letter"


def unwritable(frame: DataFrame, limits: Mapping[str, RecordLimits], topic: str) -> DataFrame:
    """Give each record that has a lane, and that the topic of its stream would not take, the reason why.

    `topic` is where the records came from; empty where their positions are spelled.
    """
    if not limits:
        return frame
    time, key = F.col("keylane_time"), F.col("keylane_key")
    size = _size() + _own_bytes(topic)
    # By the position in an array, because Spark writes a number into its code: what is new in each batch would have the
    # code of each batch recompiled, by Java too.
    earliest, latest = (
        F.get(F.array(_by_stream(limits, end)), F.when(time.isNotNull(), 0)) for end in ("earliest", "latest")
    )
    reason = (
        F.when(size > _by_stream(limits, "largest"), F.lit(str(Reason.TOO_LARGE)))
        .when((time < earliest) | (time > latest), F.lit(str(Reason.UNWRITABLE_TIME)))
        .when(misread_header("keylane_headers"), F.lit(str(Reason.MALFORMED_HEADER)))
        .when(_by_stream(limits, "keyed") & key.isNull(), F.lit(str(Reason.UNWRITABLE_KEY)))
    )
    return frame.withColumn("reason", F.coalesce("reason", reason))


def misread_header(headers: str) -> Column:
    """Whether the name of a header is not the text that was written."""
    return F.contains(F.concat_ws("", F.col(f"{headers}.key")), F.lit(_NO_TEXT))


def _by_stream(limits: Mapping[str, RecordLimits], name: str) -> Column:
    values = {stream: getattr(one, name) for stream, one in limits.items()}
    first = next(iter(values.values()))
    found = F.lit(first)
    for stream, value in values.items():
        found = found if value == first else F.when(F.col("stream") == stream, F.lit(value)).otherwise(found)
    return found


def _size() -> Column:
    """The bytes of a record, at most, without the headers that it gets."""
    parts = [F.octet_length(f"keylane_{name}") for name in ("key", "value")]
    return F.lit(_RECORD_BYTES) + sum((F.coalesce(part, F.lit(0)) for part in parts), _headers_size())


def _headers_size() -> Column:
    headers = F.col("keylane_headers")
    text = F.concat_ws("", headers["key"], headers["value"].cast("array<string>"))
    return F.octet_length(text) + F.coalesce(F.size(headers), F.lit(0)) * _HEADER_BYTES


def _own_bytes(topic: str) -> Column:
    source = F.lit(len(topic) + _POSITION_BYTES) if topic else F.octet_length("keylane_source")
    return source + _OWN_BYTES


def with_letters(
    frame: DataFrame,
    columns: Sequence[str],
    about: Mapping[str, Column],
    limits: RecordLimits | None,
    topic: str,
) -> DataFrame:
    """Give each record without a lane its dead letter, with these columns: the reason is in headers, after its own.

    A letter that is too large goes without its value; if that is not enough, without its own headers, and then without
    its key. Of what is left out the letter has the size and, of key and value, the SHA-256. A time that the topic would
    not take is left out: it is among the headers.
    """
    time = F.col("keylane_time")
    texts = {name: value.cast("string").cast("binary") for name, value in about.items()}
    timely = time.between(limits.earliest, limits.latest) if limits else F.lit(True)

    def letter(cut: Column) -> Column:
        without_value, without_headers, without_key = (cut >= level for level in (1, 2, 3))
        nothing = F.array().cast(HEADERS)
        count = {"headers.count": F.size("keylane_headers").cast("string").cast("binary")}
        headers = F.concat(
            F.when(without_headers, nothing).otherwise(F.coalesce("keylane_headers", nothing)),
            _as_headers(texts),
            F.when(without_value, _described("value")).otherwise(nothing),
            F.when(without_headers, _as_headers(count)).otherwise(nothing),
            F.when(without_key, _described("key")).otherwise(nothing),
        )
        changed = {
            "key": F.when(~without_key, F.col("keylane_key")),
            "value": F.when(~without_value, F.col("keylane_value")),
            "time": F.when(timely, time),
            "headers": headers,
        }
        return F.struct(*(changed.get(name, F.col(f"keylane_{name}")).alias(name) for name in columns))

    # In a function of an array, because Spark compiles none of it: as part of the code that runs for every record, it
    # makes that longer than what Java translates to machine code, and every record pays for letters that are rare.
    cut = F.lit(0) if limits is None else _cut(texts, limits, topic)
    made = F.get(F.transform(F.array(cut), letter), F.lit(0))
    return frame.withColumn(LETTER, F.when(F.col("reason").isNotNull(), made))


def _cut(texts: Mapping[str, Column], limits: RecordLimits, topic: str) -> Column:
    """How much of a letter is left out, so that it fits: nothing, the value, its own headers, its key."""
    value = F.coalesce(F.octet_length("keylane_value"), F.lit(0))
    added = F.lit(sum(len(DEAD_PREFIX) + len(name) + _HEADER_BYTES for name in texts)) + _DESCRIBED_BYTES
    for text in texts.values():
        added = added + F.coalesce(F.octet_length(text), F.lit(0))
    whole, largest = _size() + _own_bytes(topic) + added, limits.largest
    return (
        F.when(whole <= largest, 0)
        .when(whole - value <= largest, 1)
        .when(whole - value - _headers_size() <= largest, 2)
        .otherwise(3)
    )


#: The headers that describe what is left out: at most.
_DESCRIBED_BYTES: Final = 512


def _described(part: str) -> Column:
    """The size and the SHA-256 of the key or value."""
    bytes_of = F.col(f"keylane_{part}")
    about = {f"{part}.bytes": F.octet_length(bytes_of).cast("string"), f"{part}.sha256": F.sha2(bytes_of, 256)}
    return _as_headers({name: text.cast("binary") for name, text in about.items()})


def _as_headers(texts: Mapping[str, Column]) -> Column:
    return F.array(
        *(F.struct(F.lit(f"{DEAD_PREFIX}{name}").alias("key"), text.alias("value")) for name, text in texts.items())
    )


#: What is around a record that is packed with its headers as text, at most: lengths, indexes, a checksum, a hash key.
_PACKED_BYTES: Final = 2048


def unpackable(frame: DataFrame, limits: Mapping[str, RecordLimits], topic: str) -> DataFrame:
    """As `unwritable`, where keys and headers are packed as text, a third longer if they are none."""
    value = F.coalesce(F.octet_length("keylane_value"), F.lit(0))
    texts = F.coalesce(F.octet_length("keylane_key"), F.lit(0)) + _headers_size()
    size = value + texts + F.ceil(texts / 3) + _own_bytes(topic) + _PACKED_BYTES
    reason = F.when(size > _by_stream(limits, "largest"), F.lit(str(Reason.TOO_LARGE)))
    reason = reason.when(misread_header("keylane_headers"), F.lit(str(Reason.MALFORMED_HEADER)))
    return frame.withColumn("reason", F.coalesce("reason", reason))
