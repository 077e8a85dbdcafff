"""Co-partitioning of contracts or of data sets: lane count, hash and key bytes compared; the one that differs is named.

Kafka Streams can check the lane count only, so a stream with another hash or other key bytes joins wrongly without an
error. Contracts are compared as promises. Data sets are compared on keys they share: both sides keep the keys whose
murmur2 ends in enough zero bits, so two samples drawn apart hold the same keys.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from keylane import numbers
from keylane.contract.fingerprint import key_bytes_form, placement_form
from keylane.contract.partitioners import FACTS
from keylane.hashing import HASHES
from keylane.hashing.batch import hash_batch
from keylane.keys.arrow_bytes import plain
from keylane.keys.columns import encode_column
from keylane.measure.identify import Identification, identify
from keylane.measure.rules import family_of
from keylane.records import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from keylane.contract.model import Contract
    from keylane.measure.rules import Rule

#: Keys kept of each data set; beyond it the sample is thinned by half.
KEPT: Final = 50_000
CONFIDENCE: Final = 0.95
#: As many keys are shown for each thing that is wrong.
EXAMPLES: Final = 3
#: Stands for the lane of a key that was seen in several.
TORN: Final = -1


def compare_contracts(contracts: Mapping[str, Contract], name_key: Callable[[str], str] = str) -> list[Finding]:
    """Every way in which the contracts would place one key differently; empty when they are co-partitioned.

    `name_key` gives a key of a rule or a table as it is shown.
    """
    facets: dict[str, Callable[[Contract], Any]] = {
        "spec.lanes": lambda c: c.spec.lanes,
        "spec.partitioner": lambda c: FACTS[c.spec.partitioner].family,
        "spec.key": key_bytes_form,
        "spec.key.on_null": lambda c: placement_form(c)["on_null"],
        "spec.key.on_empty": lambda c: placement_form(c)["on_empty"],
        "spec.hot_keys": _hot_keys,
        "spec.table": lambda c: placement_form(c)["table"],
        "spec.geo": _geo,
        "spec.shards": lambda c: placement_form(c).get("shards"),
    }
    found = [finding for where, facet in facets.items() for finding in _facet(where, facet, contracts, name_key)]
    if any(contract.spec.lanes == "live" for contract in contracts.values()):
        found.append(Finding("warning", "spec.lanes", "live: equal only if the clusters report the same count"))
    return found


def _geo(contract: Contract) -> dict[str, Any] | None:
    """Lanes by location; in which unit a stream's records write theirs is their own, and gives the same cells."""
    geo = placement_form(contract).get("geo")
    return geo and {name: value for name, value in geo.items() if name != "scale"}


def _hot_keys(contract: Contract) -> dict[str, Any]:
    """What hot keys do; what a tier is called is each stream's own."""
    hot = placement_form(contract)["hot_keys"]
    return {key: {**rule, "tier": rule["tier"] and {**rule["tier"], "stream": None}} for key, rule in hot.items()}


def _facet(
    where: str, facet: Callable[[Contract], Any], contracts: Mapping[str, Contract], name_key: Callable[[str], str]
) -> Iterator[Finding]:
    values = {name: facet(contract) for name, contract in contracts.items()}
    shown = {name: _shown(value, list(values.values())) for name, value in values.items()}
    if len(set(shown.values())) > 1:
        severity: Severity = "warning" if where in ("spec.key.on_null", "spec.key.on_empty") else "error"
        differs = _difference({name: _in_words(value, list(values.values())) for name, value in values.items()})
        if where == "spec.hot_keys":
            differs = _by_key(values, _rule, name_key)
        if where == "spec.table":
            differs = _table_difference(values, name_key)
        yield Finding(severity, where, f"not the same: {differs}{_the_odd_one(shown)}")


def _shown(value: Any, all_values: Sequence[Any]) -> str:
    """A facet as text; of a mapping only what the others have otherwise."""
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if any((other or {}).get(k) != v for other in all_values)}
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _in_words(value: Any, all_values: Sequence[Any]) -> str:
    """The same as a person reads it.

    >>> _in_words({"encodings": ["utf8"], "window": None}, [{"encodings": ["int64be"], "window": "1h"}])
    'encodings: utf8, window: none'
    """
    if isinstance(value, dict):
        parts = {k: v for k, v in value.items() if any((other or {}).get(k) != v for other in all_values)}
        return ", ".join(f"{name}: {_in_words(part, [])}" for name, part in parts.items()) or "nothing else"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _table_difference(tables: Mapping[str, Mapping[str, Any] | None], name_key: Callable[[str], str]) -> str:
    """Which contract places which keys by a table, and where it is otherwise the keys whose lanes differ."""
    values = {name: table["values"] if table else {} for name, table in tables.items()}
    if all(tables.values()) and len({json.dumps(one) for one in values.values()}) > 1:
        return _by_key(values, _table_lanes, name_key)
    return ", ".join(f"{name} has {_table(table, name_key)}" for name, table in tables.items())


def _table(table: Mapping[str, Any] | None, name_key: Callable[[str], str]) -> str:
    if table is None:
        return "no table: it places all keys by the hash"
    rows = [f"{name_key(_named_key(key))}: {_table_lanes(lanes)}" for key, lanes in table["values"].items()]
    more = f", and {numbers.count(len(rows) - EXAMPLES)} more" if len(rows) > EXAMPLES else ""
    listed = f" ({', '.join(rows[:EXAMPLES])}{more})" if rows else ""
    ranges = f" and {numbers.plural(len(table['ranges']), 'range')} of keys" if table["ranges"] else ""
    others = "the others by the hash" if table["otherwise"] == "hash" else "and no others"
    by = f", divided by {table['by']}" if table["by"] else ""
    return f"a table of {numbers.plural(len(rows), 'key')}{listed}{ranges}{by}, {others}"


def _table_lanes(lanes: Sequence[int] | None) -> str:
    if lanes is None:
        return "it not in its table"
    return f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {numbers.lanes(list(lanes))}"


def _difference(shown: Mapping[str, str]) -> str:
    """Which stream has what."""
    return ", ".join(f"{name} has {value[:200]}" for name, value in shown.items())


def _the_odd_one(shown: Mapping[str, str]) -> str:
    """Of three or more, the one that differs."""
    common, most = Counter(shown.values()).most_common(1)[0]
    odd = [name for name, value in shown.items() if value != common]
    return f"; the one that differs: {', '.join(odd)}" if most > 1 and len(shown) > 2 else ""


def _by_key(
    rules: Mapping[str, Mapping[str, Any]], in_words: Callable[[Any], str], name_key: Callable[[str], str]
) -> str:
    """Key by key, what each contract does with it."""
    keys = sorted({key for own in rules.values() for key in own})
    apart = [key for key in keys if any(own.get(key) != rules[next(iter(rules))].get(key) for own in rules.values())]
    listed = [
        f"key {name_key(_named_key(key))}: "
        + ", ".join(f"{name} has {in_words(own.get(key))}" for name, own in rules.items())
        for key in apart[:EXAMPLES]
    ]
    return "; ".join(
        [*listed, *([f"and {numbers.count(len(apart) - EXAMPLES)} more keys"] if len(apart) > EXAMPLES else [])]
    )


def _named_key(name: str) -> str:
    """The key of a rule as people write it."""
    values = json.loads(name)
    return " | ".join(map(str, values)) if isinstance(values, list) else str(values)


def _rule(rule: Mapping[str, Any] | None) -> str:
    """What a rule does with its key, in words."""
    if rule is None:
        return "no rule for it"
    if rule["pin"] is not None:
        return f"it pinned to lane {rule['pin']}"
    tier = rule["tier"]
    if tier is None:
        return _spread(rule["spread"])
    spread = f", {_spread(tier['spread'])}" if tier["spread"] else ""
    return f"it in a tier of {tier['lanes']} lanes{spread}"


def _spread(spread: Mapping[str, Any]) -> str:
    lanes = f"lanes {', '.join(map(str, spread['lanes']))}" if spread["lanes"] else f"{spread['over']} lanes"
    return f"it spread over {lanes}" + (
        f" by {spread['by']}" if spread["by"] else " by position" if spread["by_position"] else ""
    )


@dataclass(slots=True)
class Agreement:
    """What the shared keys of data sets show."""

    shared_keys: int
    disagreeing_keys: int
    #: At most this share of all shared keys disagrees, with 95 % confidence.
    at_most: float | None
    writers: dict[str, Identification]
    #: Keys seen in several lanes of one data set.
    torn: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    #: Keys that are apart: each with a data set, and the lanes it has there.
    examples: list[tuple[bytes, str, list[int]]] = field(default_factory=list)


def compare_data(sets: Mapping[str, Callable[[], Iterable[pa.RecordBatch]]], lanes: int | None = None) -> Agreement:
    """Compare data sets whose batches hold (key, lane); each is read twice. Rows whose lane is null are set aside."""
    laneless: Counter[str] = Counter()
    writers = {name: identify(_in_lanes(read()), lanes) for name, read in sets.items()}
    filled = {name: _Sample().fill(_in_lanes(read(), laneless, name)) for name, read in sets.items()}
    samples = _samples(filled)
    shared = set.intersection(*(set(sample) for sample in samples.values()))
    apart = [key for key in shared if not _one_lane({sample[key] for sample in samples.values()})]
    bound = 1 - (1 - CONFIDENCE) ** (1 / len(shared)) if shared and not apart else None
    torn = {name: sum(lane == TORN for lane in sample.values()) for name, sample in samples.items()}
    agreement = Agreement(len(shared), len(apart), bound, writers, {name: n for name, n in torn.items() if n})
    agreement.findings = [
        Finding("warning", name, f"{numbers.plural(count, 'row')} not compared: their lane is null")
        for name, count in laneless.items()
        if count
    ]
    agreement.findings += _data_findings(agreement)
    torn_keys = [key for sample in samples.values() for key in sorted(k for k, lane in sample.items() if lane == TORN)]
    apart_only = [key for key in sorted(apart) if key not in torn_keys]
    agreement.examples = [
        (key, name, filled[name].seen(key))
        for key in dict.fromkeys([*torn_keys[:EXAMPLES], *apart_only[:EXAMPLES]])
        for name, sample in samples.items()
        if key in sample
    ]
    return agreement


def _in_lanes(
    batches: Iterable[pa.RecordBatch], left_out: Counter[str] | None = None, name: str = ""
) -> Iterator[pa.RecordBatch]:
    """The rows that have a lane; how many have none is counted."""
    for batch in batches:
        there = batch.column(1).is_valid()
        if left_out is not None:
            left_out[name] += batch.column(1).null_count
        yield batch.filter(there) if batch.column(1).null_count else batch


def _one_lane(seen: set[int]) -> bool:
    return len(seen) == 1 and TORN not in seen


@dataclass(slots=True)
class _Sample:
    """Keys and their lanes, thinned by the key's own hash so that every data set keeps the same ones."""

    level: int = 0
    lanes: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    #: The lanes of those that have several.
    several: dict[bytes, set[int]] = field(default_factory=dict)

    def fill(self, batches: Iterable[pa.RecordBatch]) -> _Sample:
        for batch in batches:
            self._add(plain(batch.column(0)), batch.column(1).to_numpy(zero_copy_only=False))
        return self

    def _add(self, keys: pa.Array, at: Any) -> None:
        coded = keys.dictionary_encode()
        valid = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
        pairs = np.stack([coded.indices.drop_null().to_numpy().astype(np.int64), np.asarray(at)[valid]])
        code, lanes = np.unique(pairs, axis=1)
        values = coded.dictionary.take(pa.array(code))
        encoded = encode_column(values, "raw" if _is_bytes(values) else "utf8", "key")[0]
        hashes = hash_batch(HASHES["murmur2"], encoded)
        while True:
            mine = np.flatnonzero(hashes % (1 << self.level) == 0)
            if len(mine) + len(self.lanes) <= KEPT or self.level >= 31:
                break
            self.level += 1
            self.lanes = {key: kept for key, kept in self.lanes.items() if kept[1] % (1 << self.level) == 0}
            self.several = {key: lanes for key, lanes in self.several.items() if key in self.lanes}
        for i in mine:
            self._note(encoded[int(i)].as_py(), int(lanes[i]), int(hashes[i]))

    def _note(self, key: bytes, lane: int, number: int) -> None:
        known = self.lanes.get(key, (lane, number))[0]
        if known != lane:
            self.several.setdefault(key, {known}).add(lane)
        self.lanes[key] = (lane if known == lane else TORN, number)

    def seen(self, key: bytes) -> list[int]:
        """The lanes of a key."""
        return sorted(self.several.get(key) or {self.lanes[key][0]})

    def at(self, level: int) -> dict[bytes, int]:
        return {key: lane for key, (lane, number) in self.lanes.items() if number % (1 << level) == 0}


def _is_bytes(array: pa.Array) -> bool:
    kind = array.type
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _samples(filled: Mapping[str, _Sample]) -> dict[str, dict[bytes, int]]:
    level = max(sample.level for sample in filled.values())
    return {name: sample.at(level) for name, sample in filled.items()}


def _data_findings(agreement: Agreement) -> Iterator[Finding]:
    writers = agreement.writers
    counts = {name: str(found.lanes) for name, found in writers.items() if found.lanes_from != "seen"}
    if len(set(counts.values())) > 1:
        yield Finding("error", "lanes", f"not the same lane count: {_difference(counts)}{_the_odd_one(counts)}")
    names = {name: _who(found) for name, found in writers.items()}
    if len(set(names.values())) > 1:
        severity: Severity = "warning" if "unknown" in names.values() else "error"
        yield Finding(
            severity, "writers", f"not the same writers: {_difference(names)}{_the_odd_one(names)}{_odd_of_two(names)}"
        )
    for name, found in writers.items():
        if found.rival_lanes is not None:
            either = f"{found.rival_lanes} lanes explain it as well as {found.lanes}"
            yield Finding("warning", "lanes", f"{name} may be a part of a stream: {either}; hint: --lanes N")
    for name, count in agreement.torn.items():
        yield Finding("error", "keys", f"{numbers.plural(count, 'key')} of {name} in several lanes")
    if agreement.shared_keys == 0:
        yield Finding(
            "warning", "keys", "no key in common: the key bytes or the keys differ, so lanes cannot be compared"
        )
    elif agreement.disagreeing_keys:
        apart = f"{numbers.count(agreement.disagreeing_keys)} of {numbers.count(agreement.shared_keys)} shared keys"
        yield Finding("error", "keys", f"{apart} are in different lanes")


def _who(found: Identification) -> str:
    """The writers, each by the usual name of its family: members place keyed records alike."""
    names = [
        f"{family_of(FACTS[w.partitioner].family)[0] if w.partitioner else w.name} ({_form(w.rule)})"
        if w.rule
        else w.name
        for w in found.writers
    ]
    return " + ".join(names) or "unknown"


def _form(rule: Rule) -> str:
    """Which bytes a key is, by one name: text in a column of bytes is the same bytes as in a column of text."""
    if rule.strip_header:
        return f"{rule.encoding} without its header"
    return "utf8" if rule.encoding == "raw" else rule.encoding


def _odd_of_two(names: Mapping[str, str]) -> str:
    """Of two, the one that differs is the one that does not place as most streams are placed."""
    usual: Sequence[str] = [name for name, who in names.items() if who.startswith("kafka-java (") and "+" not in who]
    odd = [name for name in names if name not in usual]
    return f"; the one that differs: {odd[0]}" if len(names) == 2 and len(usual) == 1 else ""
