"""The `shards` section: in the contract and in files, what is wrong with each, its fingerprint, what a change does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from keylane import Router, evolve, load_contract
from keylane.contract.fingerprint import placement_fingerprint
from keylane.contract.model import Contract
from keylane.contract.parse import examine, examine_file, parse_contract
from keylane.errors import ContractError, LaneCountError, UsageError
from keylane.keyspace.layout import layout_to_json, new_layout
from keylane.placement.ranges import KeySpace

if TYPE_CHECKING:
    from pathlib import Path

LAST = 2**128 - 1
THREE = [
    {"id": "s-3", "start": "0", "end": str(2**126 - 1)},
    {"id": "s-4", "start": str(2**126), "end": str(2**127 - 1)},
    {"id": "s-1", "start": str(2**127), "end": str(LAST)},
]
ACCOUNTS = {"acme": str(2**126), "bolt": "0"}


def document(shards: Any, **spec: Any) -> dict[str, Any]:
    usual = {"streams": ["accounts"], "lanes": 3, "key": {"fields": ["account"]}, "partitioner": "kinesis-md5"}
    return {
        "apiVersion": "keylane/v1",
        "kind": "RoutingContract",
        "metadata": {"name": "accounts"},
        "spec": {**usual, "shards": shards, **spec},
    }


def text(shards: Any, **spec: Any) -> str:
    return yaml.safe_dump(document(shards, **spec), allow_unicode=True, sort_keys=False)


def problems(shards: Any, **spec: Any) -> list[tuple[str, str]]:
    contract, findings = examine(text(shards, **spec))
    assert (contract is None) == bool(findings)
    return [(finding.where, finding.message) for finding in findings]


def in_files(folder: Path, layout: Any = None, accounts: str | None = None) -> Path:
    """A contract whose shards are in files beside it."""
    (folder / "today.json").write_text(json.dumps(layout or {"shards": THREE}))
    (folder / "accounts.csv").write_text(accounts or "account,hash_key\nacme," + ACCOUNTS["acme"] + "\nbolt,0\n")
    path = folder / "accounts.yaml"
    path.write_text(text({"layout": "today.json", "hash_keys": "accounts.csv"}))
    return path


def test_a_router_takes_shards_and_hash_keys_from_the_contract() -> None:
    router = Router(text({"layout": THREE, "hash_keys": ACCOUNTS}))
    assert router.key_space == KeySpace((0, 2**126, 2**127), ("s-3", "s-4", "s-1"))
    assert (router.lane("acme"), router.lane("bolt"), router.explicit_hash_key("acme")) == (1, 0, 2**126)
    # The MD5 of "a" is below 2**126, that of "abcd" above 2**127.
    assert (router.lane("a"), router.lane("abcd")) == (0, 2)


def test_files_are_as_good_as_the_contract_itself(tmp_path: Path) -> None:
    layout = {"shards": [{**one, "load": 1.5} for one in THREE] + [{**THREE[2], "id": "s-0", "closed": True}]}
    loaded = load_contract(in_files(tmp_path, layout))
    inline = parse_contract(text({"layout": THREE[::-1], "hash_keys": ACCOUNTS}))
    assert loaded.fingerprint == inline.fingerprint
    assert Router(loaded).key_space == Router(inline).key_space
    # It holds what was in the files: they may go.
    (tmp_path / "accounts.csv").unlink()
    assert Router(loaded).lane("acme") == 1
    assert Router(Contract.model_validate_json(loaded.model_dump_json(by_alias=True))).lane("acme") == 1


def test_a_file_that_changes_makes_another_contract(tmp_path: Path) -> None:
    path = in_files(tmp_path)
    before = load_contract(path)
    in_files(tmp_path, accounts=f"account,hash_key\nacme,{2**126 + 1}\nbolt,0\n")
    after = load_contract(path)
    assert before.fingerprint != after.fingerprint
    assert placement_fingerprint(before) != placement_fingerprint(after)
    assert evolve(before, after).epoch_to_raise == 2


def test_contracts_without_shards_keep_their_fingerprint() -> None:
    plain = document(None)
    del plain["spec"]["shards"]
    named = [{**one, "id": f"other-{n}"} for n, one in enumerate(THREE)]
    prints = [placement_fingerprint(parse_contract(yaml.safe_dump(one))) for one in (plain, document(None))]
    assert len(set(prints)) == 1
    same = [placement_fingerprint(parse_contract(text({"layout": one}))) for one in (THREE, named)]
    assert len(set(same)) == 1


def moved(index: int, **change: str) -> list[dict[str, str]]:
    return [{**one, **(change if n == index else {})} for n, one in enumerate(THREE)]


@pytest.mark.parametrize(
    ("shards", "spec", "where", "part"),
    [
        ({}, {}, "", "layout or hash_keys is required"),
        ({"layout": THREE}, {"partitioner": "kafka-java"}, "", "kinesis-md5"),
        ({"layout": THREE}, {"lanes": "live"}, ".layout", "asks the stream"),
        ({"layout": THREE}, {"lanes": 4}, ".layout", "got 3 shards; allowed: 4"),
        ({"layout": moved(1, start=str(2**126 + 1))}, {}, ".layout", f"a hole from {2**126} to {2**126}"),
        ({"layout": moved(1, start=str(2**126 - 1))}, {}, ".layout", f"an overlap from {2**126 - 1} to {2**126 - 1}"),
        ({"layout": moved(2, end=str(LAST - 1))}, {}, ".layout", f"a hole from {LAST} to {LAST}"),
        ({"layout": moved(2, end=str(LAST + 1))}, {}, ".layout[2].end", "beyond the key space"),
        ({"layout": moved(0, start="00")}, {}, ".layout[0].start", "no leading zero"),
        ({"layout": [{**THREE[0], "start": 0}, *THREE[1:]]}, {}, ".layout[0].start", "in quotes"),
        ({"layout": moved(1, id="s-3")}, {}, ".layout", "2 shards have the id 's-3'"),
        ({"layout": [{**THREE[0], "load": 1}, *THREE[1:]]}, {}, ".layout[0].load", "unknown field"),
        ({"layout": THREE, "layot": 1}, {}, ".layot", "did you mean 'layout'"),
        ({"hash_keys": {"acme": 7}}, {}, ".hash_keys.acme", "in quotes"),
        ({"hash_keys": {"acme": str(2**128)}}, {}, ".hash_keys.acme", "beyond the key space"),
        ({"hash_keys": {"": "7"}}, {}, ".hash_keys", "0 UTF-16 units"),
        ({"hash_keys": {"😀" * 129: "7"}}, {}, ".hash_keys", "258 UTF-16 units"),
        ({"hash_keys": ACCOUNTS}, {"table": {"values": {"x": 1}}}, ".hash_keys", "a table"),
        ({"hash_keys": ACCOUNTS}, {"key": {"fields": ["a", "b"]}}, ".hash_keys", "2 fields"),
        (
            {"hash_keys": ACCOUNTS},
            {"hot_keys": [{"keys": ["acme"], "pin": {"lanes": [0]}}]},
            ".hash_keys.acme",
            "in hot_keys too",
        ),
        ({"layout": "today.json"}, {}, ".layout", "as text cannot name a file"),
    ],
)
def test_each_thing_that_is_wrong_is_named_where_it_is(
    shards: Any, spec: dict[str, Any], where: str, part: str
) -> None:
    found = problems(shards, **spec)
    assert [one for one, _ in found] == [f"spec.shards{where}"]
    assert part in found[0][1]


def test_the_widest_partition_key_and_two_keys_a_shard_will_do() -> None:
    narrow = [
        {"id": "a", "start": "0", "end": "1"},
        {"id": "b", "start": "2", "end": "3"},
        {"id": "c", "start": "4", "end": str(LAST)},
    ]
    assert problems({"layout": narrow, "hash_keys": {"😀" * 128: "3"}}) == []
    one = [{"id": "a", "start": "0", "end": "0"}, {"id": "b", "start": "1", "end": "3"}, narrow[2]]
    assert "one key wide" in problems({"layout": one})[0][1]


@pytest.mark.parametrize(
    ("name", "given", "content", "part"),
    [
        ("layout", "none.json", None, "cannot be read"),
        ("layout", "../today.json", None, "in the folder of the contract"),
        ("layout", "/etc/passwd", None, "in the folder of the contract"),
        ("layout", "today.csv", "", "in the folder of the contract"),
        ("layout", "today.json", "[]", "no list of shards"),
        ("layout", "today.json", "{", "not JSON"),
        ("layout", "today.json", "[" * 100_000, "not JSON"),
        ("layout", "today.json", b"\xff\xfe", "not UTF-8"),
        ("hash_keys", "accounts.csv", "", "no column account and hash_key"),
        ("hash_keys", "accounts.csv", "account,hash_key\n", "no account"),
        ("hash_keys", "accounts.csv", "account,hash_key\na,1\na,2\n", "line 3: 'a' has two hash keys"),
        ("hash_keys", "accounts.csv", "account,hash_key\na\n", "line 2 has 1 cells"),
    ],
)
def test_a_file_that_will_not_do_is_named(
    tmp_path: Path, name: str, given: str, content: str | bytes | None, part: str
) -> None:
    path = in_files(tmp_path)
    if content is not None:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / given).write_bytes(raw)
    path.write_text(text({name: given}))
    contract, findings = examine_file(path)
    assert contract is None
    assert [finding.where for finding in findings] == [f"spec.shards.{name}"]
    assert part in findings[0].message


def test_hash_keys_of_a_file_are_as_strict(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"hash_keys\.acme"):
        load_contract(in_files(tmp_path, accounts="account,hash_key\nacme,007\n"))


def test_a_key_space_that_contradicts_the_contract_is_refused() -> None:
    contract = parse_contract(text({"layout": THREE}))
    today = KeySpace((0, 2**126, 2**127), ("s-7", "s-8", "s-1"))
    assert Router(contract, key_space=today).key_space.ids == today.ids
    with pytest.raises(LaneCountError, match="not the shards of the contract"):
        Router(contract, key_space=KeySpace.equal(3))


def test_hash_keys_that_are_given_join_those_of_the_contract() -> None:
    contract = parse_contract(text({"hash_keys": ACCOUNTS}))
    assert Router(contract, hash_keys={"core": LAST}).lane("core") == 2
    assert Router(contract, hash_keys={"acme": 2**126}).explicit_hash_key("acme") == 2**126
    with pytest.raises(UsageError, match="two hash keys"):
        Router(contract, hash_keys={"acme": 5})


def test_a_contract_whose_files_were_not_read_is_no_router() -> None:
    unread = Contract.model_validate(document({"layout": "today.json"}))
    with pytest.raises(UsageError, match="was not read"):
        Router(unread)


def test_what_a_change_of_shards_does() -> None:
    split = layout_to_json(new_layout(2).split("shardId-000000000001", 3 * 2**126))["shards"]
    two = layout_to_json(new_layout(2))["shards"]
    opened = [{name: one[name] for name in ("id", "start", "end")} for one in split if not one.get("closed")]
    old = parse_contract(text({"layout": two, "hash_keys": ACCOUNTS}, lanes=2))
    new = parse_contract(text({"layout": opened, "hash_keys": {**ACCOUNTS, "bolt": "9"}}))
    found = {change.where: change.moved_share for change in evolve(old, new).changes}
    assert found == {"spec.lanes": None, "spec.shards.layout": 0.25, "spec.shards.hash_keys": None}
    assert evolve(old, old).changes == ()
