"""What holds for every file and every contract: no text raises, layout does not count, a contract survives a dump."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from keylane.contract.answers import answers, weakest
from keylane.contract.edit import edited_text
from keylane.contract.evolve import evolve
from keylane.contract.fingerprint import fingerprint, placement_fingerprint
from keylane.contract.model import Contract
from keylane.contract.names import PARTITIONERS
from keylane.contract.parse import examine, parse_contract
from keylane.contract.partitioners import FACTS
from keylane.router import Router

if TYPE_CHECKING:
    from random import Random

#: Files of any shape are cheap to try and many: more of them than the profile of `tests/conftest.py` asks for.
MANY = settings(max_examples=6 * settings().max_examples)


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes, so that no word is taken for a number by any reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
Quoting.add_representer(tuple, lambda dumper, items: dumper.represent_list(list(items)))


def dump(data: Any, random: Random | None = None) -> str:
    """YAML text, in one of many layouts when there is a random to choose by."""
    style = random.choice([True, False, None]) if random else False
    indent = random.randint(2, 8) if random else 2
    text = yaml.dump(data, Dumper=Quoting, sort_keys=False, default_flow_style=style, indent=indent, width=10_000)
    return f"# {random.random()}\n\n{text}" if random else text


# Valid contracts, as plain data

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
FIELDS = st.text(min_size=1, max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "utf8": st.text(max_size=8),
    "int32be": st.integers(-(2**31), 2**31 - 1),
    "int64be": st.integers(-(2**63), 2**63 - 1),
    "uuid": st.uuids().map(str),
}


@st.composite
def keys(draw: st.DrawFn, partitioner: str) -> dict[str, Any]:
    single = FACTS[partitioner].hash == "java-long"
    fields = draw(st.lists(FIELDS, min_size=1, max_size=1 if single else 3, unique=True))
    encodings = st.sampled_from([one for one in FACTS[partitioner].encodings if one != "place"])
    hashed = ["hash"] if FACTS[partitioner].hash and not single else []
    optional: dict[str, st.SearchStrategy[Any]] = {
        "join": st.none() | st.text(max_size=3),
        "on_null": st.sampled_from(["client", "sticky", "random", "round_robin", "reject"]),
        "on_empty": st.sampled_from(["client", *hashed, "sticky", "reject"]),
        "registry_header": st.just("keep"),
    }
    if not single:
        window = {"field": FIELDS, "size": st.sampled_from(["500ms", "30s", "5m", "1h", "1d"])}
        written = {"unit": st.sampled_from(["s", "ms", "us"]), "as": st.sampled_from(["start_ms", "start_s", "index"])}
        optional["window"] = st.none() | st.fixed_dictionaries(window, optional=written)
    each = st.lists(encodings, min_size=len(fields), max_size=len(fields))
    required = {"fields": st.just(fields), "encoding": encodings | each}
    return draw(st.fixed_dictionaries(required, optional=optional))


@st.composite
def places(draw: st.DrawFn, lanes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A key that is a place or a cell, and its lanes."""
    key = draw(st.sampled_from([("place", ["lat", "lng"]), ("h3", ["cell"]), ("raw", ["key"])]))
    words = draw(st.lists(st.sampled_from(["8329b6", "8429b0d", "8928308280f", "831fb4"]), unique=True))
    leaves = [" ".join(words[n::2]) for n in range(min(2, lanes))]
    region = st.none() | st.just([-20, 175.5, 60, -175])
    geo = {"resolution": st.integers(0, 3), "leaves": st.just(leaves), "region": region}
    rule = {"on_null": draw(st.sampled_from(["client", "reject"]))}
    return {"fields": key[1], "encoding": key[0], **rule}, draw(st.fixed_dictionaries(geo))


@st.composite
def spreads(draw: st.DrawFn, lanes: int) -> dict[str, Any]:
    lane_list = st.lists(st.integers(0, lanes - 1), min_size=2, max_size=4, unique=True)
    width: dict[str, Any] = draw(
        st.fixed_dictionaries({"over": st.integers(2, min(lanes, 256))}) | lane_list.map(lambda x: {"lanes": x})
    )
    by: dict[str, Any] = draw(st.sampled_from([{"by": "a sub-key of its own"}, {"by_position": True}]))
    return {**width, **by}


@st.composite
def hot_keys(draw: st.DrawFn, encodings: list[str], lanes: int) -> list[dict[str, Any]]:
    one = st.tuples(*(VALUES[encoding] for encoding in encodings)).map(list)
    found = draw(st.lists(one, max_size=6, unique_by=repr))
    rules = []
    while found:
        size = draw(st.integers(1, len(found)))
        taken, found = found[:size], found[size:]
        rule: dict[str, Any] = {"keys": [key[0] if len(encodings) == 1 else key for key in taken]}
        kind = draw(st.sampled_from(["pin", "tier", "spread"] if lanes > 1 else ["pin", "tier"]))
        if kind == "pin":
            rule["pin"] = {"lanes": draw(st.lists(st.integers(0, lanes - 1), min_size=size, max_size=size))}
        elif kind == "spread":
            rule["spread"] = draw(spreads(lanes))
        else:
            rule["tier"] = {"stream": "the.tier", "lanes": 16}
            if draw(st.booleans()):
                rule["tier"]["spread"] = draw(spreads(16))
        rules.append(rule)
    return rules


@st.composite
def tables(draw: st.DrawFn, encoding: str, lanes: int) -> dict[str, Any]:
    lane = st.integers(0, lanes - 1)
    several = st.lists(lane, min_size=1, max_size=3, unique=True)
    cuts = sorted(draw(st.lists(VALUES[encoding], min_size=2, max_size=5, unique=True)))
    rows = [{"from": start, "below": end, "lane": draw(lane)} for start, end in pairwise(cuts)]
    values = draw(st.dictionaries(VALUES[encoding], lane | several, max_size=4))
    otherwise = draw(st.sampled_from(["hash", "reject"]))
    return {"values": values, "ranges": rows, "by": "a sub-key of its own", "otherwise": otherwise}


EXPECTS = st.fixed_dictionaries(
    {},
    optional={
        "max_over_mean": st.floats(1, 1e6),
        "max_key_share": st.floats(0, 1, exclude_min=True),
        "min_distinct_keys": st.integers(1, 10**12),
        "max_null_share": st.floats(0, 1),
    },
)


@st.composite
def contracts(draw: st.DrawFn) -> dict[str, Any]:
    partitioner = draw(st.sampled_from(PARTITIONERS))
    key = draw(keys(partitioner))
    lanes: int | str = draw(st.integers(1, 5000) | st.just("live"))
    count = lanes if isinstance(lanes, int) else 100_000
    streams = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    spec: dict[str, Any] = {"streams": streams, "lanes": lanes, "key": key, "partitioner": partitioner}
    encodings = key["encoding"] if isinstance(key["encoding"], list) else [key["encoding"]] * len(key["fields"])
    if "place" in FACTS[partitioner].encodings and FACTS[partitioner].hash == "murmur2" and draw(st.booleans()):
        spec["key"], spec["geo"] = draw(places(count))
        encodings = [spec["key"]["encoding"]]
    known = all(encoding in VALUES for encoding in encodings) and FACTS[partitioner].fold != "keyless"
    if known and draw(st.booleans()):
        spec["hot_keys"] = draw(hot_keys(encodings, count))
    if known and len(encodings) == 1 and encodings[0] != "uuid" and draw(st.booleans()):
        spec["table"] = draw(tables(encodings[0], count))
    if draw(st.booleans()):
        spec["expect"] = draw(EXPECTS)
    optional = {
        "epoch": st.integers(1, 2**31 - 1),
        "owner": st.none() | st.text(max_size=20),
        "labels": st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
    }
    metadata = draw(st.fixed_dictionaries({"name": NAMES}, optional=optional))
    assume("the.tier" not in streams)
    return {"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": spec}


def shuffled(value: Any, random: Random) -> Any:
    """The same data with the fields of every mapping in another order."""
    if isinstance(value, dict):
        names = random.sample(list(value), len(value))
        return {name: shuffled(value[name], random) for name in names}
    return [shuffled(one, random) for one in value] if isinstance(value, list) else value


def regrouped(data: dict[str, Any], random: Random) -> dict[str, Any]:
    """The same contract with its streams, hot keys and ranges in another order, and a rule for each hot key."""
    out = shuffled(data, random)
    spec = out["spec"]
    random.shuffle(spec["streams"])
    rules = []
    for rule in spec.get("hot_keys", []):
        for i, key in enumerate(rule["keys"]):
            pin = {"pin": {"lanes": [rule["pin"]["lanes"][i]]}} if "pin" in rule else {}
            rules.append({**rule, "keys": [key], **pin})
    random.shuffle(rules)
    spec["hot_keys"] = rules
    if "table" in spec:
        random.shuffle(spec["table"]["ranges"])
    return out


# Anything at all

JUNK = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 12, 1.5, 10**9, "", "a", "live", "no", "utf8", "kafka-java", "hash"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "keys", "lanes", "pin", "spread", "tier", "stream", "over", "by", "lane", "from", "below"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "streams": JUNK,
        "lanes": JUNK,
        "partitioner": JUNK | st.sampled_from(PARTITIONERS),
        "key": JUNK | st.fixed_dictionaries({}, optional={"fields": JUNK, "encoding": JUNK, "window": JUNK}),
        "hot_keys": JUNK
        | st.lists(
            st.fixed_dictionaries({}, optional={"keys": JUNK, "pin": JUNK, "spread": JUNK, "tier": JUNK}), max_size=3
        ),
        "table": JUNK | st.fixed_dictionaries({}, optional={"values": JUNK, "ranges": JUNK, "by": JUNK}),
        "expect": JUNK,
        "golden": JUNK | st.lists(st.fixed_dictionaries({}, optional={"key": JUNK, "lane": JUNK}), max_size=2),
    },
)
WORDS = ["apiVersion", "spec", "lanes", "12", "0123", "1e9", "null", "<<"]
SIGNS = [
    ": ",
    ":",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "'",
    '"',
    "|",
    ">",
    "#",
    "%",
    "@",
    "? ",
]
BREAKS = ["\n", "\n  ", "---\n", "...\n", "\t", "\ufeff"]
YAML_PIECES = st.lists(st.sampled_from([*WORDS, *SIGNS, *BREAKS]), max_size=40).map("".join)


def examined_well(text: str) -> None:
    """Either a contract and nothing to say, or no contract and something to say, each with a place."""
    contract, findings = examine(text)
    assert (contract is None) == bool(findings)
    lines = len(text.splitlines()) + 1
    for finding in findings:
        assert finding.severity == "error"
        assert finding.where
        assert finding.message
        assert finding.line is None or 1 <= finding.line <= lines


@MANY
@given(text=st.text() | YAML_PIECES)
@example(text="a: &a [*a]")
@example(text="\x00")
@example(text="? ")
@example(text="\u2028a: \x85")
def test_no_text_raises(text: str) -> None:
    examined_well(text)


@MANY
@given(spec=SPECS, metadata=JUNK)
def test_no_shape_of_contract_raises(spec: Any, metadata: Any) -> None:
    examined_well(dump({"apiVersion": "keylane/v1", "kind": "RoutingContract", "metadata": metadata, "spec": spec}))


@given(data=contracts(), junk=JUNK, random=st.randoms(use_true_random=False))
def test_a_contract_with_one_value_replaced_is_read_or_refused_but_never_raises(
    data: dict[str, Any], junk: Any, random: Random
) -> None:
    owner: Any = data["spec"]
    while True:
        name = random.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
        if not isinstance(owner[name], dict | list) or not owner[name] or random.random() < 0.3:
            break
        owner = owner[name]
    owner[name] = junk
    examined_well(dump(data))


@given(data=contracts(), end=st.integers(0, 2000))
def test_a_contract_cut_short_never_raises(data: dict[str, Any], end: int) -> None:
    examined_well(dump(data)[:end])


# Every valid contract


@given(data=contracts())
def test_a_valid_contract_is_accepted_and_can_be_carried_out(data: dict[str, Any]) -> None:
    contract = parse_contract(dump(data))
    assert Router(contract, lanes=100_000 if contract.spec.lanes == "live" else None).contract is contract


@given(data=contracts(), random=st.randoms(use_true_random=False))
def test_layout_does_not_change_a_contract(data: dict[str, Any], random: Random) -> None:
    one, other = parse_contract(dump(data)), parse_contract(dump(shuffled(data, random), random))
    assert one == other
    assert fingerprint(one) == fingerprint(other)
    assert evolve(one, other).changes == ()


@given(data=contracts(), random=st.randoms(use_true_random=False))
def test_order_and_grouping_do_not_change_a_fingerprint(data: dict[str, Any], random: Random) -> None:
    one, other = parse_contract(dump(data)), parse_contract(dump(regrouped(data, random), random))
    assert fingerprint(one) == fingerprint(other)
    assert placement_fingerprint(one) == placement_fingerprint(other)


@given(data=contracts(), exclude_defaults=st.booleans())
def test_a_contract_survives_being_written_and_read(data: dict[str, Any], exclude_defaults: bool) -> None:
    contract = parse_contract(dump(data))
    written = contract.model_dump(by_alias=True, exclude_defaults=exclude_defaults)
    assert parse_contract(dump(written)) == contract


@given(data=contracts())
def test_a_contract_survives_json(data: dict[str, Any]) -> None:
    """JSON has no numbers as names, so a table is compared by what it promises."""
    contract = parse_contract(dump(data))
    again = Contract.model_validate_json(contract.model_dump_json(by_alias=True))
    assert fingerprint(again) == fingerprint(contract)


@given(data=contracts())
def test_a_contract_that_stays_has_no_changes(data: dict[str, Any]) -> None:
    contract = parse_contract(dump(data))
    evolution = evolve(contract, contract, [contract])
    assert evolution.changes == ()
    assert evolution.epoch_to_raise is None


@given(old=contracts(), new=contracts())
def test_any_contract_can_be_held_against_any_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    one, other = parse_contract(dump(old)), parse_contract(dump(new))
    evolution = evolve(one, other, [one, other])
    assert (evolution.old, evolution.new) == (fingerprint(one), fingerprint(other))
    shares = [change.moved_share for change in evolution.changes if change.moved_share is not None]
    assert all(0 <= share <= 1 for share in shares)


@given(data=contracts())
def test_every_rule_of_a_contract_has_its_answers(data: dict[str, Any]) -> None:
    contract = parse_contract(dump(data))
    told = answers(contract)
    rules = [f"hot_keys[{i}]" for i in range(len(contract.spec.hot_keys))]
    rules += ["table"] * (contract.spec.table is not None)
    rules += ["geo.leaves"] * (contract.spec.geo is not None and any(contract.spec.geo.leaves))
    assert [one.rule for one in told] == ["every other key", *rules]
    assert all(one.readers_merge for one in told if one.lanes_per_key != 1)
    assert weakest(told) in {one.order_scope for one in told}


# A file changed into another contract


@given(before=contracts(), after=contracts(), random=st.randoms(use_true_random=False))
def test_any_file_is_changed_into_any_contract_in_place(
    before: dict[str, Any], after: dict[str, Any], random: Random
) -> None:
    """The comment at its head would be gone if the file had been written anew."""
    former, wanted = dump(shuffled(before, random), random), dump(after)
    text = edited_text(former, parse_contract(former), wanted)
    assert parse_contract(text) == parse_contract(wanted)
    assert text.partition("\n")[0] == former.partition("\n")[0]
