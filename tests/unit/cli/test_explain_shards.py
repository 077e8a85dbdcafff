"""`keylane explain` under a contract of shards: MD5, range and shard, a drawing, live layouts, and odd hash keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from keylane.cli.explain import DRAWN, explain
from keylane.contract.shards import SPACE
from keylane.errors import LaneCountError
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.layout import layout_to_json, new_layout

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {name: accounts}
spec:
  streams: [accounts]
  key: {fields: [account]}
  partitioner: kinesis-md5
"""


def contract(folder: Path, hash_keys: dict[str, int] | None = None, shards: int = 40, *, live: bool = False) -> Path:
    """Equal shards of which the last is split, in a file or live."""
    layout = new_layout(shards - 1)
    last = layout.open[-1]
    (folder / "today.json").write_text(json.dumps(layout_to_json(layout.split(last.id, last.start + 2**100))))
    given: dict[str, Any] = {} if live else {"layout": "today.json"}
    if hash_keys:
        given["hash_keys"] = {name: str(key) for name, key in hash_keys.items()}
    own = f"  shards: {json.dumps(given)}\n" if given else ""
    path = folder / "accounts.yaml"
    path.write_text(f"{HEAD}  lanes: {'live' if live else shards}\n{own}")
    return path


def asked(*arguments: str) -> Any:
    found = CliRunner().invoke(explain, [*arguments], standalone_mode=False, catch_exceptions=False)
    return found.return_value[0]


def test_key_md5_range_and_shard_are_shown(tmp_path: Path) -> None:
    result = asked("abcd", "--contract", str(contract(tmp_path)))
    mine = result.document.contract
    shard, number = mine.shard, hash_key_of("abcd")
    assert (shard.md5, shard.hash_key, shard.explicit) == (f"0x{number:032x}", str(number), False)
    assert int(shard.start) <= number <= int(shard.end)
    assert shard.at == pytest.approx(number / SPACE)
    assert next(row.lane for row in result.document.placements if row.partitioner == "kinesis-md5") == mine.lane


def test_an_explicit_hash_key_decides_and_a_plain_number_warns(tmp_path: Path) -> None:
    path = contract(tmp_path, {"acme": 2**127, "bolt": 3})
    found = asked("acme", "--contract", str(path)).document.contract.shard
    assert (found.hash_key, found.explicit) == (str(2**127), True)
    assert found.warning is not None
    fine = asked("acme", "--contract", str(contract(tmp_path, {"acme": 2**127}))).document.contract.shard
    assert fine.warning is None


@pytest.mark.parametrize("hash_key", [0, 2**127, SPACE - 1])
@pytest.mark.parametrize("shards", [3, 40])
def test_the_drawing_marks_the_key_and_fits_80_columns(tmp_path: Path, hash_key: int, shards: int) -> None:
    shown = asked("acme", "--contract", str(contract(tmp_path, {"acme": hash_key}, shards))).answer
    at = next(n for n, line in enumerate(shown) if line.endswith(" 2**128"))
    assert max(len(line) for line in shown[at - 4 : at + 2]) <= 80
    drawn = shown[at][4:].split()[0]
    assert len(drawn) == DRAWN
    cell = shown[at + 1].index("^") - 4
    assert cell == hash_key * DRAWN // SPACE
    assert drawn[cell] in "=|"
    # The narrow shard shares a letter with the one before it.
    assert drawn.count("|") == (2 if shards == 3 else 0)


def test_live_shards_are_given_beside_the_contract(tmp_path: Path) -> None:
    path = contract(tmp_path, live=True)
    given = asked("abcd", "--contract", str(path), "--layout", str(tmp_path / "today.json")).document.contract
    written = asked("abcd", "--contract", str(contract(tmp_path))).document.contract
    assert (given.lane, given.shard) == (written.lane, written.shard)
    assert CliRunner().invoke(explain, ["abcd", "--lanes", "3", "--layout", "x.json"]).exit_code == 2


def test_clients_of_kafka_are_compared_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = str(contract(tmp_path))
    shown, whole = asked("abcd", "--contract", path), asked("abcd", "--contract", path, "--all")
    assert [one for one in shown.sections if not one.for_programs] == []
    assert "disagree" not in " ".join(shown.answer)
    assert "disagree" in " ".join(whole.answer), "the twin compares them"
    assert shown.document == whole.document


def test_several_keys_have_their_md5_and_shard(tmp_path: Path) -> None:
    path = str(contract(tmp_path, {"acme": 2**127}))
    shown = asked("abcd", "acme", "--contract", path)
    mine = [asked(key, "--contract", path).document.contract for key in ("abcd", "acme")]
    wanted = [(one.lane, one.shard.id, one.shard.md5) for one in mine]
    assert [(row["lane"], row["shard"], row["md5"]) for row in shown.sections[0].rows] == wanted
    assert [row["placed_by"] for row in shown.sections[0].rows] == ["MD5", "explicit hash key"]
    assert shown.answer == ["2 keys on 2 of 40 shards"]


def test_errors_name_the_option_that_is_missing_or_disagrees(tmp_path: Path) -> None:
    live = str(contract(tmp_path, {"acme": 2**127}, live=True))
    with pytest.raises(LaneCountError, match="--layout ADDRESS of the stream, or FILE of its shards"):
        asked("abcd", "--contract", live)
    fixed = tmp_path / "four.yaml"
    fixed.write_text(HEAD + "  lanes: 4\n")
    with pytest.raises(LaneCountError, match=r"has 40 open shards, contract accounts has 4 lanes.*`lanes: live`"):
        asked("abcd", "--contract", str(fixed), "--layout", str(tmp_path / "today.json"))


def test_contracts_without_ranges_have_no_shard(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(HEAD.replace("kinesis-md5", "kafka-java") + "  lanes: 3\n")
    assert not hasattr(asked("abcd", "--contract", str(path)).document.contract, "shard")
