"""The contract's fields: what each may hold, at its edges and just beyond them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ValidationError

from keylane.contract import model
from keylane.contract.fingerprint import fingerprint
from keylane.contract.model import Contract, Expect, HotKeys, Key, Spec, Spread, Tier
from keylane.contract.parse import examine, parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.records import Finding

LONGEST_NAME = "a" * 249
SIXTEEN = ", ".join(f"f{i}" for i in range(16))
WINDOW = "key: {{fields: [merchant], window: {{field: at, size: {size}}}}}"
HOT = "hot_keys: [{{keys: [{key}], spread: {{over: 2, by: order}}}}]"
MODELS: list[type[BaseModel]] = [
    one
    for one in vars(model).values()
    if isinstance(one, type) and issubclass(one, BaseModel) and one.__module__ == model.__name__
]


def test_the_example_of_the_design_says_what_it_says(design_example: str) -> None:
    spec = parse_contract(design_example).spec
    assert spec == Spec(
        streams=("payments.tx_events",),
        lanes=64,
        key=Key(fields=("merchant_id",), encoding="utf8", on_null="sticky", on_empty="hash"),
        partitioner="kafka-java",
        hot_keys=(
            HotKeys(keys=("merchant_000042",), spread=Spread(over=8, by="order_id")),
            HotKeys(keys=("merchant_000007",), tier=Tier(stream="payments.tx_events.vip", lanes=16)),
        ),
        expect=Expect(max_over_mean=1.3, max_key_share=0.02, min_distinct_keys=100_000),
    )


def test_what_a_small_contract_leaves_out_has_its_documented_default(contract: Callable[..., Contract]) -> None:
    made = contract()
    key = made.spec.key
    assert (made.metadata.epoch, made.metadata.owner, made.metadata.labels) == (1, None, {})
    assert (key.encoding, key.join, key.window, key.registry_header) == ("utf8", None, None, "keep")
    assert (key.on_null, key.on_empty) == ("client", "client")
    assert (made.spec.hot_keys, made.spec.table, made.spec.expect, made.spec.golden) == ((), None, Expect(), ())


def test_a_windows_defaults_are_milliseconds_and_its_start(contract: Callable[..., Contract]) -> None:
    window = contract(WINDOW.format(size="1h")).spec.key.window
    assert window is not None
    assert (window.unit, window.as_) == ("ms", "start_ms")


@pytest.mark.parametrize(
    ("key", "encodings"),
    [
        pytest.param("{fields: [a]}", ("utf8",), id="the default"),
        pytest.param("{fields: [a, b, c], encoding: uuid}", ("uuid", "uuid", "uuid"), id="one for all"),
        pytest.param("{fields: [a, b], encoding: [h3, utf8]}", ("h3", "utf8"), id="one for each"),
    ],
)
def test_there_is_one_encoding_for_each_field(
    key: str, encodings: tuple[str, ...], contract: Callable[..., Contract]
) -> None:
    assert contract(f"key: {key}").spec.key.encodings == encodings


def test_a_contract_knows_its_fingerprint(contract: Callable[..., Contract]) -> None:
    made = contract()
    assert made.fingerprint == fingerprint(made)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("kind", "Other", id="contract"),
        pytest.param("metadata.epoch", 2, id="metadata"),
        pytest.param("spec.lanes", 13, id="spec"),
        pytest.param("spec.key.encoding", "raw", id="key"),
        pytest.param("spec.hot_keys", (), id="hot keys"),
        pytest.param("spec.expect.max_over_mean", 2.0, id="expect"),
    ],
)
def test_a_contract_is_immutable(path: str, value: Any, design_example: str) -> None:
    owner: Any = parse_contract(design_example)
    *way, last = path.split(".")
    for name in way:
        owner = getattr(owner, name)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(owner, last, value)


@pytest.mark.parametrize("one", MODELS, ids=lambda one: one.__name__)
def test_every_model_is_frozen_and_refuses_unknown_fields(one: type[BaseModel]) -> None:
    assert one.model_config["frozen"] is True
    assert one.model_config["extra"] == "forbid"


@pytest.mark.parametrize("name", [one.__name__ for one in MODELS if one.__name__[0] != "_"])
def test_every_model_is_public_and_says_what_it_is(name: str) -> None:
    assert name in model.__all__
    assert vars(model)[name].__doc__


REFUSED = {
    # lanes
    "lanes zero": ("lanes: 0", "spec.lanes"),
    "lanes negative": ("lanes: -1", "spec.lanes"),
    "lanes fractional": ("lanes: 1.5", "spec.lanes"),
    "lanes whole, but a float": ("lanes: 64.0", "spec.lanes"),
    "lanes with an exponent": ("lanes: 1e3", "spec.lanes"),
    "lanes one too many": ("lanes: 100001", "spec.lanes"),
    "lanes absurd": ("lanes: 1000000000", "spec.lanes"),
    "lanes beyond 64 bits": ("lanes: 99999999999999999999", "spec.lanes"),
    "lanes true": ("lanes: true", "spec.lanes"),
    "lanes a number as text": ("lanes: '64'", "spec.lanes"),
    "lanes text": ("lanes: many", "spec.lanes"),
    "lanes live in capitals": ("lanes: LIVE", "spec.lanes"),
    "lanes null": ("lanes: null", "spec.lanes"),
    "lanes a list": ("lanes: [12]", "spec.lanes"),
    # streams
    "streams empty": ("streams: []", "spec.streams"),
    "streams not a list": ("streams: payments", "spec.streams"),
    "streams one too many": (f"streams: [{', '.join(f's{i}' for i in range(1001))}]", "spec.streams"),
    "stream with a space": ("streams: [tx events]", "spec.streams[0]"),
    "stream with a slash": ("streams: [ok, tx/events]", "spec.streams[1]"),
    "stream that begins with a dot": ("streams: [.hidden]", "spec.streams[0]"),
    "stream with an empty name": ("streams: ['']", "spec.streams[0]"),
    "stream with a name too long": (f"streams: [{LONGEST_NAME}a]", "spec.streams[0]"),
    "stream with a line end": ('streams: ["tx\\n"]', "spec.streams[0]"),
    "stream that is a number": ("streams: [7]", "spec.streams[0]"),
    # key
    "key is text": ("key: merchant", "spec.key"),
    "fields empty": ("key: {fields: []}", "spec.key.fields"),
    "fields missing": ("key: {encoding: utf8}", "spec.key.fields"),
    "fields seventeen": (f"key: {{fields: [{SIXTEEN}, f16]}}", "spec.key.fields"),
    "field name empty": ("key: {fields: ['']}", "spec.key.fields[0]"),
    "field name too long": (f"key: {{fields: [{'x' * 256}]}}", "spec.key.fields[0]"),
    "field name a number": ("key: {fields: [7]}", "spec.key.fields[0]"),
    "encoding unknown": ("key: {fields: [a], encoding: utf16}", "spec.key.encoding"),
    "encoding null": ("key: {fields: [a], encoding: null}", "spec.key.encoding"),
    "encodings empty": ("key: {fields: [a], encoding: []}", "spec.key.encoding"),
    "encoding of one field unknown": ("key: {fields: [a, b], encoding: [utf8, int]}", "spec.key.encoding[1]"),
    "join too long": (f"key: {{fields: [a, b], join: '{'|' * 17}'}}", "spec.key.join"),
    "join a number": ("key: {fields: [a, b], join: 0}", "spec.key.join"),
    "on_null unknown": ("key: {fields: [a], on_null: drop}", "spec.key.on_null"),
    "on_empty unknown": ("key: {fields: [a], on_empty: null}", "spec.key.on_empty"),
    "registry header unknown": ("key: {fields: [a], registry_header: drop}", "spec.key.registry_header"),
    # window
    "window without a size": ("key: {fields: [a], window: {field: at}}", "spec.key.window.size"),
    "window without a field": ("key: {fields: [a], window: {size: 1h}}", "spec.key.window.field"),
    "window of nothing": (WINDOW.format(size="0s"), "spec.key.window.size"),
    "window negative": (WINDOW.format(size="-5m"), "spec.key.window.size"),
    "window fractional": (WINDOW.format(size="1.5h"), "spec.key.window.size"),
    "window without a unit": (WINDOW.format(size="60"), "spec.key.window.size"),
    "window of an unknown unit": (WINDOW.format(size="1w"), "spec.key.window.size"),
    "window of ten digits": (WINDOW.format(size="1000000000s"), "spec.key.window.size"),
    "window with a line end": (WINDOW.format(size='"1h\\n"'), "spec.key.window.size"),
    "window time in an unknown unit": (WINDOW.format(size="1h, unit: ns"), "spec.key.window.unit"),
    "window written in an unknown way": (WINDOW.format(size="1h, as: iso"), "spec.key.window.as"),
    # partitioner
    "partitioner unknown": ("partitioner: kafka", "spec.partitioner"),
    "partitioner in capitals": ("partitioner: Kafka-Java", "spec.partitioner"),
    "partitioner null": ("partitioner: null", "spec.partitioner"),
    # hot keys
    "hot keys not a list": ("hot_keys: {keys: [a]}", "spec.hot_keys"),
    "hot keys with no keys": (HOT.format(key=""), "spec.hot_keys[0].keys"),
    "hot key a float": (HOT.format(key="1.5"), "spec.hot_keys[0].keys[0]"),
    "hot key true": (HOT.format(key="true"), "spec.hot_keys[0].keys[0]"),
    "hot key null": (HOT.format(key="null"), "spec.hot_keys[0].keys[0]"),
    "hot key a mapping": (HOT.format(key="{a: b}"), "spec.hot_keys[0].keys[0]"),
    "hot key of no values": (HOT.format(key="[]"), "spec.hot_keys[0].keys[0]"),
    "hot key above 64 bits": (HOT.format(key=2**63), "spec.hot_keys[0].keys[0]"),
    "hot key below 64 bits": (HOT.format(key=-(2**63) - 1), "spec.hot_keys[0].keys[0]"),
    "hot key too long": (HOT.format(key="k" * 65_537), "spec.hot_keys[0].keys[0]"),
    "pin without lanes": ("hot_keys: [{keys: [a], pin: {lanes: []}}]", "spec.hot_keys[0].pin.lanes"),
    "pin negative": ("hot_keys: [{keys: [a], pin: {lanes: [-1]}}]", "spec.hot_keys[0].pin.lanes[0]"),
    "pin beyond every stream": (
        "lanes: live\nhot_keys: [{keys: [a], pin: {lanes: [100000]}}]",
        "spec.hot_keys[0].pin.lanes[0]",
    ),
    "spread over one": ("hot_keys: [{keys: [a], spread: {over: 1, by: o}}]", "spec.hot_keys[0].spread.over"),
    "spread over 257": (
        "lanes: 1000\nhot_keys: [{keys: [a], spread: {over: 257, by: o}}]",
        "spec.hot_keys[0].spread.over",
    ),
    "spread over text": ("hot_keys: [{keys: [a], spread: {over: all, by: o}}]", "spec.hot_keys[0].spread.over"),
    "spread on one lane": ("hot_keys: [{keys: [a], spread: {lanes: [1], by: o}}]", "spec.hot_keys[0].spread.lanes"),
    "spread by an empty name": ("hot_keys: [{keys: [a], spread: {over: 2, by: ''}}]", "spec.hot_keys[0].spread.by"),
    "spread by position, perhaps": (
        "hot_keys: [{keys: [a], spread: {over: 2, by_position: maybe}}]",
        "spec.hot_keys[0].spread.by_position",
    ),
    "tier without a stream": ("hot_keys: [{keys: [a], tier: {lanes: 4}}]", "spec.hot_keys[0].tier.stream"),
    "tier without lanes": ("hot_keys: [{keys: [a], tier: {stream: vip}}]", "spec.hot_keys[0].tier.lanes"),
    "tier of no lanes": ("hot_keys: [{keys: [a], tier: {stream: vip, lanes: 0}}]", "spec.hot_keys[0].tier.lanes"),
    "tier with live lanes": (
        "hot_keys: [{keys: [a], tier: {stream: vip, lanes: live}}]",
        "spec.hot_keys[0].tier.lanes",
    ),
    "tier with a bad name": (
        "hot_keys: [{keys: [a], tier: {stream: v i p, lanes: 4}}]",
        "spec.hot_keys[0].tier.stream",
    ),
    # table
    "table a list": ("table: [a]", "spec.table"),
    "table lane negative": ("table: {values: {a: -1}}", "spec.table.values.a"),
    "table lane text": ("table: {values: {a: first}}", "spec.table.values.a"),
    "table lane true": ("table: {values: {a: true}}", "spec.table.values.a"),
    "table lanes empty": ("table: {by: o, values: {a: []}}", "spec.table.values.a"),
    "table otherwise unknown": ("table: {values: {a: 1}, otherwise: drop}", "spec.table.otherwise"),
    "table range without a lane": ("table: {ranges: [{from: a, below: b}]}", "spec.table.ranges[0].lane"),
    "table range from a float": ("table: {ranges: [{from: 1.5, lane: 1}]}", "spec.table.ranges[0].from"),
    # expect
    "fullest lane under the mean": ("expect: {max_over_mean: 0.99}", "spec.expect.max_over_mean"),
    "fullest lane absurd": ("expect: {max_over_mean: 1000001}", "spec.expect.max_over_mean"),
    "fullest lane infinite": ("expect: {max_over_mean: 1e999}", "spec.expect.max_over_mean"),
    "key share of nothing": ("expect: {max_key_share: 0}", "spec.expect.max_key_share"),
    "key share above all": ("expect: {max_key_share: 1.01}", "spec.expect.max_key_share"),
    "key share in percent": ("expect: {max_key_share: 2%}", "spec.expect.max_key_share"),
    "no distinct keys": ("expect: {min_distinct_keys: 0}", "spec.expect.min_distinct_keys"),
    "half a distinct key": ("expect: {min_distinct_keys: 1.5}", "spec.expect.min_distinct_keys"),
    "absurdly many distinct keys": ("expect: {min_distinct_keys: 1000000000001}", "spec.expect.min_distinct_keys"),
    "null share negative": ("expect: {max_null_share: -0.1}", "spec.expect.max_null_share"),
    "null share above all": ("expect: {max_null_share: 1.1}", "spec.expect.max_null_share"),
    "null share not a number": ("expect: {max_null_share: nan}", "spec.expect.max_null_share"),
    # golden
    "golden without a lane": ("golden: [{key: a}]", "spec.golden[0].lane"),
    "golden lane negative": ("golden: [{key: a, lane: -1}]", "spec.golden[0].lane"),
    "golden lanes zero": ("golden: [{key: a, lane: 0, lanes: 0}]", "spec.golden[0].lanes"),
    "golden lanes live": ("golden: [{key: a, lane: 0, lanes: live}]", "spec.golden[0].lanes"),
    "golden record of a list": ("golden: [{record: {a: [1]}, lane: 0}]", "spec.golden[0].record.a"),
    "golden stream with a bad name": ("golden: [{key: a, lane: 0, stream: v i p}]", "spec.golden[0].stream"),
}

ACCEPTED = {
    "lanes one": "lanes: 1",
    "lanes the most": "lanes: 100000",
    "lanes live": "lanes: live",
    "streams the most": f"streams: [{', '.join(f's{i}' for i in range(1000))}]",
    "stream with every kind of character": "streams: [Pay.ments_tx-2]",
    "stream with the longest name": f"streams: [{LONGEST_NAME}]",
    "stream that begins with a digit": "streams: ['2026.tx']",
    "fields sixteen": f"key: {{fields: [{SIXTEEN}]}}",
    "field name the longest": f"key: {{fields: [{'x' * 255}]}}",
    "field name in any script": "key: {fields: [händler, 商户]}",
    "join nothing": "key: {fields: [a, b], join: ''}",
    "join the longest": f"key: {{fields: [a, b], join: '{'|' * 16}'}}",
    "window in milliseconds": WINDOW.format(size="500ms"),
    "window in seconds": WINDOW.format(size="30s, unit: s, as: start_s"),
    "window in minutes": WINDOW.format(size="5m, unit: us, as: index"),
    "window in days": WINDOW.format(size="1d"),
    "window of nine digits": WINDOW.format(size="999999999s"),
    "hot key the greatest number": HOT.format(key=2**63 - 1),
    "hot key the least number": HOT.format(key=-(2**63)),
    "hot key the longest": HOT.format(key="k" * 65_536),
    "hot key empty": HOT.format(key="''"),
    "hot key of several fields": "key: {fields: [a, b]}\n" + HOT.format(key="[x, 7]"),
    "spread over two": "hot_keys: [{keys: [a], spread: {over: 2, by: o}}]",
    "spread over 256": "lanes: 256\nhot_keys: [{keys: [a], spread: {over: 256, by_position: true}}]",
    "spread on two lanes": "hot_keys: [{keys: [a], spread: {lanes: [0, 11], by: o}}]",
    "pin": "hot_keys: [{keys: [a, b], pin: {lanes: [0, 11]}}]",
    "tier of one lane": "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 1}}]",
    "tier with a spread": "hot_keys: [{keys: [a], tier: {stream: vip, lanes: 4, spread: {over: 4, by: o}}}]",
    "table of values": "table: {values: {a: 0, b: [1, 2]}, by: o, otherwise: reject}",
    "table of ranges": "table: {ranges: [{below: m, lane: 0}, {from: m, lane: 1}]}",
    "expect at its low edges": "expect: {max_over_mean: 1, max_key_share: 1e-9, min_distinct_keys: 1, "
    "max_null_share: 0}",
    "expect at its high edges": "expect: {max_over_mean: 1000000, max_key_share: 1, min_distinct_keys: 1000000000000, "
    "max_null_share: 1}",
    "golden by key": "golden: [{key: a, lane: 11}]",
    "golden by record": "golden: [{record: {merchant: a, order: 7}, lane: 0}]",
    "golden for another lane count": "golden: [{key: a, lane: 63, lanes: 64}]",
}

METADATA_REFUSED = {
    "name missing": ("{epoch: 1}", "metadata.name"),
    "name empty": ("{name: ''}", "metadata.name"),
    "name a number": ("{name: 7}", "metadata.name"),
    "name with a space": ("{name: pay ments}", "metadata.name"),
    "name too long": (f"{{name: {LONGEST_NAME}a}}", "metadata.name"),
    "epoch zero": ("{name: p, epoch: 0}", "metadata.epoch"),
    "epoch negative": ("{name: p, epoch: -1}", "metadata.epoch"),
    "epoch beyond 31 bits": (f"{{name: p, epoch: {2**31}}}", "metadata.epoch"),
    "epoch a float": ("{name: p, epoch: 1.0}", "metadata.epoch"),
    "epoch text": ("{name: p, epoch: '2'}", "metadata.epoch"),
    "epoch true": ("{name: p, epoch: true}", "metadata.epoch"),
    "owner too long": (f"{{name: p, owner: {'o' * 256}}}", "metadata.owner"),
    "owner a list": ("{name: p, owner: [me]}", "metadata.owner"),
    "labels a list": ("{name: p, labels: [a]}", "metadata.labels"),
    "label a number": ("{name: p, labels: {tier: 1}}", "metadata.labels.tier"),
    "labels one too many": (f"{{name: p, labels: {{{', '.join(f'l{i}: x' for i in range(65))}}}}}", "metadata.labels"),
}

METADATA_ACCEPTED = {
    "name the longest": f"{{name: {LONGEST_NAME}}}",
    "name of one letter": "{name: p}",
    "epoch the greatest": f"{{name: p, epoch: {2**31 - 1}}}",
    "owner the longest": f"{{name: p, owner: {'o' * 255}}}",
    "owner in any script": "{name: p, owner: Zoë}",
    "labels the most": f"{{name: p, labels: {{{', '.join(f'l{i}: x' for i in range(64))}}}}}",
}


@pytest.mark.parametrize(("spec", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_a_value_out_of_bounds_is_refused_at_its_field(
    spec: str, where: str, findings: Callable[..., list[Finding]]
) -> None:
    assert where in [finding.where for finding in findings(spec)]


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_value_at_its_bound_is_accepted(spec: str, findings: Callable[..., list[Finding]]) -> None:
    assert findings(spec) == []


@pytest.mark.parametrize(("metadata", "where"), METADATA_REFUSED.values(), ids=METADATA_REFUSED.keys())
def test_metadata_out_of_bounds_is_refused_at_its_field(
    metadata: str, where: str, findings: Callable[..., list[Finding]]
) -> None:
    assert [finding.where for finding in findings(metadata=metadata)] == [where]


@pytest.mark.parametrize("metadata", METADATA_ACCEPTED.values(), ids=METADATA_ACCEPTED.keys())
def test_metadata_at_its_bound_is_accepted(metadata: str, findings: Callable[..., list[Finding]]) -> None:
    assert findings(metadata=metadata) == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        pytest.param("keylane/v1", "keylane/v2", "apiVersion", id="another version"),
        pytest.param("keylane/v1", "1", "apiVersion", id="a version of nothing"),
        pytest.param("RoutingContract", "Routingcontract", "kind", id="another kind"),
        pytest.param("RoutingContract", "null", "kind", id="no kind"),
    ],
)
def test_only_version_one_of_a_routing_contract_is_read(
    old: str, new: str, where: str, document: Callable[..., str]
) -> None:
    assert [finding.where for finding in examine(document().replace(old, new))[1]] == [where]


@pytest.mark.parametrize("field", ["apiVersion", "kind", "metadata", "spec"])
def test_every_part_of_a_contract_is_needed(field: str, document: Callable[..., str]) -> None:
    text = re.sub(rf"^{field}:.*\n(  .*\n)*", "", document(), flags=re.MULTILINE)
    (finding,) = examine(text)[1]
    assert (finding.where, finding.message) == (field, "required, but missing")


@pytest.mark.parametrize("field", ["streams", "lanes", "key", "partitioner"])
def test_every_part_of_a_spec_is_needed(field: str, document: Callable[..., str]) -> None:
    text = re.sub(rf"^  {field}:.*\n", "", document(), flags=re.MULTILINE)
    (finding,) = examine(text)[1]
    assert (finding.where, finding.message) == (f"spec.{field}", "required, but missing")


@pytest.mark.parametrize("word", ["no", "off", "yes", "1", "'true'"])
def test_a_yes_or_no_is_true_or_false_and_nothing_like_it(word: str, findings: Callable[..., list[Finding]]) -> None:
    """`no` is text in a contract; read as a boolean it would say the opposite of what `cross` sees in it."""
    spec = f"hot_keys: [{{keys: [a], spread: {{over: 2, by_position: {word}}}}}]"
    assert "spec.hot_keys[0].spread.by_position" in [finding.where for finding in findings(spec)]


@pytest.mark.parametrize("value", ["'1.3'", "true"])
def test_an_expectation_is_a_number_and_nothing_like_it(value: str, findings: Callable[..., list[Finding]]) -> None:
    where = [finding.where for finding in findings(f"expect: {{max_over_mean: {value}}}")]
    assert where == ["spec.expect.max_over_mean"]


@pytest.mark.parametrize(
    ("right", "python"),
    [
        pytest.param("apiVersion: keylane/v1", "api_version: keylane/v1", id="apiVersion"),
        pytest.param("as: index", "as_: index", id="as"),
        pytest.param("from: b", "from_: b", id="from"),
    ],
)
def test_a_file_uses_the_published_field_names_not_pythons(
    right: str, python: str, document: Callable[..., str]
) -> None:
    """What the JSON Schema refuses and `cross` does not see must not get in: a `from_` escapes every range check."""
    text = document(
        """
        key: {fields: [merchant], window: {field: at, size: 1h, as: index}}
        table: {ranges: [{from: b, lane: 1}]}
        """
    )
    assert examine(text)[1] == []
    assert examine(text.replace(right, python))[1] != []
