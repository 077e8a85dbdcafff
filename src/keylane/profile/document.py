"""A profile as the document that is printed, saved and drawn: `keylane.profile/1`. Heavy keys are cut and hashed.

Here, too: how keys are cut and hashed for every command, and what a reader has to know of a profile, in sentences. The
profile itself: `model`. Why a lane is hot: `measure.hot_lanes`, which gives the part `hot`.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from keylane import numbers
from keylane.documents.profile import (
    Approximate,
    HeavyKey,
    KeyRank,
    KeysAlike,
    LanesSeen,
    LookalikeKeys,
    NoKey,
    ProfileDocument,
    ProfileWindows,
    SeenWriters,
)
from keylane.keys.times import UNIT_NAMES
from keylane.measure.balance import useful_lanes
from keylane.measure.identify import STRAY
from keylane.numbers import share
from keylane.profile.lookalikes import lookalikes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from keylane.documents.profile import Edge, Hot
    from keylane.profile.lookalikes import Lookalikes
    from keylane.profile.model import Profile, ProfileFacts, Windows

    Show = Callable[[int], str]

# Methods: how each figure of a profile was obtained, one sentence a figure, under `how`.


def how_obtained(profile: Profile) -> dict[str, str]:
    """A sentence for each figure that a reader may ask about."""
    return {name: text for name, text in _sentences(profile, profile.known) if text}


def _sentences(profile: Profile, facts: ProfileFacts) -> Iterator[tuple[str, str]]:
    sketched = profile.approximate
    if sketched is None:
        yield "records", "Every record was counted once, by the bytes of its key: the figures are exact."
        yield "distinct_keys", "Keys that differ in a byte are different keys; all of them were counted."
    else:
        yield "records", "The sum is exact. Records of a key are estimates of a sketch, which keeps the heavy keys."
        yield "heavy", _bounds(profile)
        yield (
            "distinct_keys",
            f"Estimated by HyperLogLog, within {numbers.share(sketched.distinct_error)} in 997 of 1,000 cases.",
        )
    yield "source", _source(facts)
    if facts.get("sampled"):
        yield "sampled", f"Not all of the stream was read, but {facts['sampled']}."
    yield "windows", _windows_text(profile, facts)
    yield "bytes", _bytes(profile, facts)
    yield "without_key", "Null and empty keys, and records or keys that could not be read, are not counted for any key."
    if "place" in facts:
        yield "places", _places(facts)
    alike = "Keys that are equal but for capitals, spaces, the spelling in Unicode or a schema registry id"
    yield "lookalikes", f"{alike}; the records are those of all but the heaviest key of each group."
    if profile.lanes is not None:
        yield "lanes", _lanes(profile)
    if "writers" in facts:
        drawn = f"{numbers.count(facts['writers']['records'])} records"
        yield "writers", f"Keys and lanes of {drawn} were compared with the partitioners of all known clients."


def _places(facts: ProfileFacts) -> str:
    lost = ", ".join(f"{numbers.count(count)} {reason}" for reason, count in facts.get("no_place", {}).items())
    fields = " and ".join(facts["place"])
    if "scale" in facts:
        fields += f", {numbers.count(facts['scale'])} to a degree"
    return f"The key is the home cell of {fields}, an H3 cell of resolution 9. Malformed, by reason: {lost or 'none'}."


def _bounds(profile: Profile) -> str:
    found = profile.approximate
    assert found is not None
    over = f"The count of a key is too high by at most {numbers.count(found.most_over)}"
    under = f"too low by at most {numbers.count(found.most_under)}"
    rest = f"keys with fewer than that may be missing, and have {numbers.count(found.untracked)} records in all"
    return f"{over}, or {under}; {rest}."


def _source(facts: ProfileFacts) -> str:
    if facts.get("seconds"):
        arrived = f"Records that arrived within {facts['seconds']:g} s were read, committed ones only"
        return f"{arrived}: from {_offsets(facts)}."
    if "offsets" in facts:
        return f"All records present at the start were read, committed ones only: from {_offsets(facts)}."
    if "files" not in facts:
        return ""
    files = numbers.plural(facts["files"], "file")
    return f"{files}, read in the order of their names." if facts["files"] > 1 else f"{files}, read from its beginning."


def _offsets(facts: ProfileFacts) -> str:
    ranges = facts["offsets"]
    return (
        f"{numbers.plural(len(ranges), 'lane')}, {numbers.plural(sum(end - start for start, end in ranges), 'offset')}"
    )


#: What the text on windows states of times whose form nobody gave, or that are set aside; the command repeats it.
NO_TIME: Final = "no readable time"
BY_SIZE: Final = "By their size, its whole numbers are"
FAR_OFF: Final = "dated far from all others"
NO_ZONE: Final = "without an offset"


def _windows_text(profile: Profile, facts: ProfileFacts) -> str:
    count = len(profile.windows)
    if profile.windows.kind == "position":
        return f"{count} windows of equal numbers of records, in the order of the source: no time field was given."
    text = f"{count} windows of one length between the first and the last time in {facts.get('time')!r}, in UTC."
    if facts.get("unit_by_size"):
        others = facts.get("other_units", 0)
        odd = f", but for {numbers.count(others)} of another unit" if others else ""
        other = "ms" if facts["unit"] == "s" else "s"
        text += f" {BY_SIZE} {UNIT_NAMES[facts['unit']]}{odd}; --time {facts.get('time')}:{other} sets another unit."
    if facts.get("written_times"):
        text += f" Text {NO_ZONE} is UTC."
    if "time_format" in facts:
        text += f" Text is read as {facts['time_format']!r}. Text {NO_ZONE} is UTC."
    if "strays" in facts:
        before, after, first, last = facts["strays"]
        records, are = numbers.plural(before + after, "record"), numbers.agree(before + after, "is", "are")
        ends = " and ".join(dict.fromkeys(written_time(one) for one in (first, last)))
        text += f" {records} {are} {FAR_OFF}, at {ends}: set aside, counted for the key only, evenly over the windows."
    without = facts.get("without_time", 0)
    if without:
        records, have = numbers.plural(without, "record"), numbers.agree(without, "has", "have")
        text += f" {records} {have} {NO_TIME}: counted for the key, evenly over the windows."
    if facts.get("time") == "timestamp" and "offsets" in facts:
        text += " The ends are those of the lanes' first and last records; times beyond count in the window nearest."
    return text


def _bytes(profile: Profile, facts: ProfileFacts) -> str:
    if profile.size is not None and "offsets" in facts:
        return "Key and value of each record; headers and the overhead of the log are not counted."
    if facts.get("bytes"):
        return f"The sum of column {facts['bytes']!r}."
    return "The size of the files: the size of a single record or key was not measured; --bytes COLUMN measures it."


def _lanes(profile: Profile) -> str:
    assert profile.lanes is not None
    text = "Records by the lane they are in."
    if nowhere := profile.total - int(profile.lanes.by_window.sum()):
        text += f" {numbers.plural(nowhere, 'line')} that cannot be read {numbers.agree(nowhere, 'is', 'are')} in none."
    if profile.lanes.misplaced is None:
        return text
    odd, are = numbers.plural(profile.lanes.misplaced, "record"), numbers.agree(profile.lanes.misplaced, "is", "are")
    return f"{text} {odd} {are} not in the lane that the contract gives the key."


def writers_text(writers: SeenWriters) -> str:
    """Who wrote the records, in a sentence."""
    if writers.verdict == "unknown":
        return "Keys and lanes do not show who wrote the records."
    if writers.verdict == "one-writer":
        return f"One writer: {writers.found[0].partitioner or writers.found[0].rule}."
    known = [
        f"{one.partitioner or one.rule}{f' on {one.lanes} lanes' if one.lanes else ''} {share(one.share)}"
        for one in writers.found
        if one.partitioner or one.rule
    ]
    rest = sum(one.share for one in writers.found if not (one.partitioner or one.rule))
    left = f" No known rule places {share(rest)} of the records." if rest else ""
    if len(known) == 1:
        return f"One known rule places a part of the records: {known[0]}.{left}"
    return f"{len(known)} rules place keys differently: {', '.join(known)}. Keys are split between lanes.{left}"


def misplaced_text(document: ProfileDocument) -> str | None:
    """How many records are not where the contract of the profile puts them; None where that is next to none."""
    odd = document.lanes.misplaced if document.lanes else None
    keyed = document.records - document.without_key.null - document.without_key.empty - document.without_key.malformed
    if not odd or odd <= STRAY * max(keyed, 1):
        return None
    counts = f"{share(odd / max(keyed, odd))} of the records ({numbers.count(odd)} of {numbers.count(keyed)})"
    return f"{counts} are not in the lane that the contract gives their key"


def heat_text(document: ProfileDocument, hot: Hot, how: str = "") -> str:
    """Why lanes are hot, and of which records; `how` says more of these.

    What is known of several writers is there only where neither their shares nor a count are.
    """
    known = (document.writers and document.writers.verdict == "mixed") or (document.lanes and document.lanes.misplaced)
    says = hot.verdict if known or not hot.mixed else f"{hot.verdict} {hot.mixed}"
    return f"Of {hot.basis or 'all records'}{how}: {says[:1].lower()}{says[1:]}"


# Masking: keys as they may be shown to others, cut, with a hash that distinguishes them. Keys are personal data.


def masked(key: str, salt: bytes) -> str:
    """A key cut to its beginning, with a salted hash that distinguishes two of them and reveals neither.

    At most four characters, and never more than a third of them: of a short key the beginning is all there is.

    >>> masked("merchant_000042", b"a")[:5], masked("7", b"a")[:1]
    ('merc…', '…')
    """
    digest = hashlib.sha256(salt + key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{key[: min(4, len(key) // 3)]}…{digest[:6]}"


def shown(values: tuple[Any, ...]) -> str:
    r"""The fields of a key as one text: bytes as the text they spell, otherwise in hex.

    >>> shown(("shop", 7)), shown((b"m-1",)), shown((b"\xff\x00",))
    ('shop | 7', 'm-1', '0xff00')
    """
    return " | ".join(_text(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"


#: Heavy keys that are listed, and ranks of the curve.
HEAVY: Final = 20
RANKS: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def overview(
    profile: Profile,
    *,
    salt: bytes,
    show_keys: bool = False,
    stored: str | None = None,
    hot: Hot | None = None,
) -> ProfileDocument:
    """The document. `salt` goes into the hashes of keys; `stored` is the profile's folder; `hot`: `planner.heat_of`."""
    show = shown_keys(profile, None if show_keys else salt)
    alike = lookalikes(profile)
    lanes, approximate, records = profile.lanes, profile.approximate, profile.records
    return ProfileDocument(
        source=profile.source,
        key=list(profile.key.fields),
        encoding=list(profile.key.encodings),
        records=profile.total,
        bytes=profile.bytes_total,
        bytes_of=_bytes_of(profile),
        distinct_keys=profile.keys.num_rows if approximate is None else approximate.distinct_keys,
        without_key=NoKey(**asdict(profile.without_key)),
        windows=_windows(profile),
        heavy=_heavy(profile, records, show),
        key_ranks=key_ranks(records, profile.total),
        lookalikes=_alike(alike, records, show),
        hot=hot,
        lanes=None
        if lanes is None
        else LanesSeen(
            count=len(lanes.by_window),
            by_window=lanes.by_window.tolist(),
            misplaced=lanes.misplaced,
            read=profile.known.get("partitions"),
            shards=[id_ for id_, _ in profile.known.get("shards") or ()] or None,
        ),
        writers=None if (writers := profile.known.get("writers")) is None else SeenWriters.model_validate(writers),
        approximate=None if approximate is None else Approximate(**asdict(approximate)),
        how=how_obtained(profile),
        profile=stored,
        fingerprint=profile.fingerprint,
    )


def _bytes_of(profile: Profile) -> Literal["records", "disk"] | None:
    if profile.bytes_total is None:
        return None
    return "records" if profile.size is not None or profile.known.get("bytes") else "disk"


def shown_keys(profile: Profile, salt: bytes | None) -> Show:
    """How a key is shown, by its rank: cut and hashed with a salt, or whole without one."""

    def show(rank: int) -> str:
        text = shown(tuple(column[rank].as_py() for column in profile.keys.columns))
        return text if salt is None else masked(text, salt)

    return show


def _windows(profile: Profile) -> ProfileWindows:
    seen = profile.by_window > 0
    known = profile.known
    first = np.bincount(seen.argmax(axis=1), minlength=len(profile.windows)) if len(seen) else np.zeros(0, np.int64)
    return ProfileWindows(
        kind=profile.windows.kind,
        edges=edge_texts(profile.windows),
        records=known.get("window_records") or profile.by_window.sum(axis=0, dtype=np.int64).tolist(),
        distinct_keys=known.get("window_keys") or seen.sum(axis=0).tolist(),
        new_keys=known.get("window_new_keys") or first.tolist(),
    )


def edge_texts(windows: Windows) -> list[Edge]:
    """The edges of windows as people read them: times in UTC, or positions.

    >>> from keylane.profile.model import Windows
    >>> edge_texts(Windows("time", (0, 1_500_000)))
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:01.500000Z']
    """
    if windows.kind == "position":
        return list(windows.edges)
    return [written_time(edge) for edge in windows.edges]


def written_time(micros: int) -> str:
    """A time as text; beyond the years that can be named, the last or the first of them."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError:
        return "9999-12-31T23:59:59.999999Z" if micros > 0 else "0001-01-01T00:00:00Z"


def _heavy(profile: Profile, records: NDArray[np.int64], show: Show) -> list[HeavyKey]:
    total, error = max(1, profile.total), profile.approximate.most_over if profile.approximate else 0
    return [
        HeavyKey(
            rank=rank + 1,
            key=show(rank),
            records=int(records[rank]),
            share=int(records[rank]) / total,
            error=error,
            by_window=profile.by_window[rank].tolist(),
            bytes=None if profile.size is None else int(profile.size[rank]),
        )
        for rank in range(min(HEAVY, len(records)))
    ]


def key_ranks(records: NDArray[np.int64], total: int) -> list[KeyRank]:
    """Shares of keys by rank: at 1, 10, 100, …, and at about 60 more evenly apart on a logarithmic scale, to the last.

    >>> [(one.rank, one.cumulative) for one in key_ranks(np.array([6, 3, 1]), 10)]
    [(1, 0.6), (2, 0.9), (3, 1.0)]
    """
    if not len(records):
        return []
    even = np.round(np.geomspace(1, len(records), RANKS)).astype(int)
    round_ones = 10 ** np.arange(int(np.log10(len(records))) + 1)
    ranks = np.unique(np.concatenate([even, round_ones]))
    sums = np.cumsum(records)
    return [
        KeyRank(rank=int(r), share=int(records[r - 1]) / max(1, total), cumulative=int(sums[r - 1]) / max(1, total))
        for r in ranks
    ]


def _alike(found: Lookalikes, records: NDArray[np.int64], show: Show) -> LookalikeKeys:
    examples = [
        KeysAlike(
            kind=group.kind,
            keys=[show(rank) for rank in group.ranks],
            records=[int(records[rank]) for rank in group.ranks],
        )
        for group in found.examples
    ]
    return LookalikeKeys(groups=found.groups, records=found.records, examples=examples)


# What a reader has to know of a profile, in sentences: on the terminal, and on pages.

#: A key below this share fills no lane of any stream that people run.
_LIGHT: Final = 0.001
#: A window with less than this share of the mean is as good as empty.
_STRAY: Final = 0.01


def keys_verdict(document: ProfileDocument) -> str:
    """What the heaviest key means for a number of lanes, where no lanes are known."""
    top = document.heavy[0].share
    most, of = numbers.count(useful_lanes(top)), f"all {numbers.count(document.records)} records"
    if top < _LIGHT:
        keys = numbers.count(document.distinct_keys)
        return f"No key is heavy: up to {most} lanes (partitions), none of {keys} keys fills more than one."
    alone = "the heaviest key alone is a hot spot"
    lanes = "lane (partition)" if most == "1" else "lanes (partitions)"
    return f"On more than {most} {lanes} {alone}: it has {share(top)} of {of}."


def profile_notes(document: ProfileDocument) -> Iterator[str]:
    """What a reader should know before trusting the tables."""
    without = {name: count for name, count in document.without_key.as_json().items() if count}
    if without:
        yield "without a key: " + ", ".join(f"{numbers.count(count)} {name}" for name, count in without.items())
    yield from (document.how[name] for name in ("sampled", "places") if name in document.how)
    alike = document.lookalikes
    if alike.groups:
        kinds = sorted({one.kind for one in alike.examples})
        first = " = ".join(alike.examples[0].keys)
        groups = f"{numbers.plural(alike.groups, 'group')} of keys"
        text = f"{groups} {numbers.agree(alike.groups, 'looks the same and is', 'look the same and are')} not"
        records = numbers.plural(alike.records, "record")
        yield f"{text} ({', '.join(kinds)}), {records} under the rarer spelling: {first}"
    yield from window_notes(document)
    lanes = document.lanes
    if lanes and lanes.misplaced and misplaced_text(document) is None:
        records = numbers.plural(lanes.misplaced, "record")
        yield f"{records} {numbers.agree(lanes.misplaced, 'is', 'are')} in another lane than the contract gives the key"
    nowhere = document.records - sum(map(sum, lanes.by_window)) if lanes else 0
    if nowhere:
        are = numbers.agree(nowhere, "is", "are")
        yield f"{numbers.plural(nowhere, 'record')} that cannot be read, or whose lane is null, {are} in no lane"
    if document.approximate:
        yield document.how["heavy"]


def window_notes(document: ProfileDocument) -> Iterator[str]:
    """What is odd about the windows: pages show it too, which have the rest in sections of their own."""
    windows = document.windows
    records = windows.records
    mean = sum(records) / len(records)
    stray = [n + 1 for n, count in enumerate(records) if count < _STRAY * mean]
    if windows.kind == "time" and stray and len(records) > 1:
        which = numbers.lanes(stray)
        hold = f"windows {which} hold" if len(stray) > 1 else f"window {which} holds"
        yield f"{hold} next to nothing: the source pauses there, or a few odd times stretch it"
    for sentence in document.how["windows"].split(". ")[1:]:
        if any(part in sentence for part in (BY_SIZE, FAR_OFF, NO_TIME, NO_ZONE)):
            yield sentence.strip().removesuffix(".")
