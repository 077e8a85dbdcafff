"""How each figure of a profile was obtained, one sentence a figure: what `overview` puts under `how`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.measure.profile import Profile

__all__ = ["how_obtained"]


def how_obtained(profile: Profile) -> dict[str, str]:
    """A sentence for each figure that a reader may ask about."""
    return {name: text for name, text in _sentences(profile, dict(profile.facts)) if text}


def _sentences(profile: Profile, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    sketched = profile.approximate
    if sketched is None:
        yield "records", "Every record was counted once, by the bytes of its key: the figures are exact."
        yield "distinct_keys", "Keys that differ in a byte are different keys; all of them were counted."
    else:
        yield "records", "The sum is exact. Records of a key are estimates of a sketch, which keeps the heavy keys."
        yield "heavy", _bounds(profile)
        yield "distinct_keys", f"Estimated by HyperLogLog, within {sketched.distinct_error:.1%} in 997 of 1,000 cases."
    yield "source", _source(facts)
    yield "windows", _windows(profile, facts)
    yield "bytes", _bytes(profile, facts)
    yield "without_key", "Null and empty keys, and records or keys that could not be read, are in no key's count."
    if "place" in facts:
        yield "places", _places(facts)
    yield "lookalikes", "Keys that are equal but for capitals, spaces, the spelling in Unicode or a registry's number."
    if profile.lanes is not None:
        yield "lanes", _lanes(profile)


def _places(facts: dict[str, Any]) -> str:
    lost = ", ".join(f"{count:,} {reason}" for reason, count in facts.get("no_place", {}).items())
    fields = " and ".join(facts["place"])
    return f"The key is the home cell of {fields}, an H3 cell of resolution 9. Malformed, by reason: {lost or 'none'}."


def _bounds(profile: Profile) -> str:
    found = profile.approximate
    assert found is not None
    over = f"A key's records are over by at most {found.most_over:,}, or under by at most {found.most_under:,}"
    return f"{over}; keys with fewer than that may be missing, and have {found.untold:,} records in all."


def _source(facts: dict[str, Any]) -> str:
    if facts.get("seconds"):
        return f"What arrived in {facts['seconds']:g} s was read, as committed: from {_offsets(facts)}."
    if "offsets" in facts:
        return f"All that was there when it began was read, as committed: from {_offsets(facts)}."
    return f"{facts.get('files', 0):,} file(s) were read, in the order of their names." if "files" in facts else ""


def _offsets(facts: dict[str, Any]) -> str:
    ranges = facts["offsets"]
    return f"{len(ranges):,} lane(s), {sum(end - start for start, end in ranges):,} offsets"


def _windows(profile: Profile, facts: dict[str, Any]) -> str:
    count = len(profile.windows)
    if profile.windows.kind == "position":
        return f"{count} windows of equal numbers of records, in the order of the source: no time was named."
    text = f"{count} windows of one length between the first and the last time in {facts.get('time')!r}, in UTC."
    without = facts.get("without_time", 0)
    if without:
        text += f" {without:,} record(s) have no time that can be read: they count for their key, in the first window."
    if facts.get("time") == "timestamp" and "offsets" in facts:
        text += " The ends are those of the lanes' first and last records; times beyond them are in the windows there."
    return text


def _bytes(profile: Profile, facts: dict[str, Any]) -> str:
    if profile.size is not None and "offsets" in facts:
        return "Key and value of each record; headers and what the log adds are not counted."
    if facts.get("bytes"):
        return f"The sum of column {facts['bytes']!r}."
    return "The size of the files: what a single record or key takes was not measured; --bytes COLUMN measures it."


def _lanes(profile: Profile) -> str:
    assert profile.lanes is not None
    text = "Records by the lane they were found in."
    if profile.lanes.misplaced is None:
        return text
    return f"{text} {profile.lanes.misplaced:,} record(s) lie in another lane than the contract gives their key."
