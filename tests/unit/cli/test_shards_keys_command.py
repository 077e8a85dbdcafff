"""`keylane shards keys`: the forms that other tools lean on, the drawing, warnings and refusals."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from keylane.cli.output import render
from keylane.cli.shards_keys import drawn, import_, redistribute, rows_of
from keylane.errors import UsageError
from keylane.keyspace.layout import layout_to_json, new_layout
from keylane.keyspace.sequences import nth_key
from keylane.systems.hash_key_registry import UNIT, HandedOut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def keys(run: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A command on one registry that must end well: its JSON."""

    def keys(*arguments: object) -> dict[str, Any]:
        code, out, err = run("shards", "keys", *arguments, "--registry", tmp_path / "k.sqlite", "-o", "json")
        assert code == 0, err
        document: dict[str, Any] = json.loads(out)
        return document

    return keys


def test_an_account_gets_the_next_key_as_decimal_text_and_keeps_it(keys: Callable[..., dict[str, Any]]) -> None:
    first = keys("add", "acme")
    assert (first["account"], first["hash_key"], first["new"]) == ("acme", str(2**127), True)
    assert keys("add", "acme")["hash_key"] == first["hash_key"]
    assert [keys("add", name)["hash_key"] for name in "bc"] == [str(2**126), str(3 * 2**126)]


@pytest.mark.parametrize("sequence", ["tree", "left-right", "halves", "golden"])
def test_every_sequence(keys: Callable[..., dict[str, Any]], sequence: Any) -> None:
    found = [keys("add", f"a{n}", "--sequence", sequence)["hash_key"] for n in range(9)]
    assert found == [str(nth_key(sequence, n)) for n in range(1, 10)]


@pytest.mark.parametrize("accounts", [50, 51])
def test_a_long_import_shows_its_first_accounts_on_80_columns_and_all_to_programs(
    tmp_path: Path, accounts: int
) -> None:
    file, registry = tmp_path / "a.csv", tmp_path / "k.sqlite"
    rows = [f"account-{n:04},{(n + 1) << 96}" for n in range(accounts)]
    file.write_text("\n".join(["account,hash_key", *rows]) + "\n")
    assert import_.callback is not None
    assert redistribute.callback is not None
    imported, _ = import_.callback(file, registry, "table")
    moved, _ = redistribute.callback(registry, None, True, "table")
    assert len(render(imported, "csv").splitlines()) == len(render(moved, "csv").splitlines()) == accounts + 1
    for result in (imported, moved):
        lines = render(result, "table", terminal=True, colour=False, width=80, height=500).splitlines()
        assert max(map(len, lines)) <= 80
        assert len([line for line in lines if line.startswith("account-")]) == 50
        assert any(f"the first 50 of {accounts}" in line for line in lines) == (accounts > 50)
    shown = render(imported, "table", terminal=True, colour=False, width=80, height=500)
    assert all(f" {(n + 1) << 96} " in shown for n in range(50))


def test_list_and_remove(keys: Callable[..., dict[str, Any]], run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        keys("add", name, "--weight", "2.5")
    listed = keys("list")
    assert [(one["account"], one["weight"]) for one in listed["keys"]] == [("a", 2.5), ("b", 2.5)]
    assert (listed["sequence"], listed["total_weight"]) == ("tree", 5)
    assert keys("remove", "a")["hash_key"] == str(2**127)
    assert [one["account"] for one in keys("list")["keys"]] == ["b"]
    code, out, err = run("shards", "keys", "remove", "a", "--registry", tmp_path / "k.sqlite")
    assert (code, out, "'a'" in err) == (2, "", True)


def test_weights_steer_and_may_change(keys: Callable[..., dict[str, Any]]) -> None:
    keys("add", "heavy", "--weight", "100")
    assert all(int(keys("add", f"a{n}")["hash_key"]) < 2**127 for n in range(5))
    again = keys("add", "heavy", "--weight", "3")
    assert (again["former_weight"], again["weight"], again["hash_key"]) == (100, 3, str(2**127))


def test_import_with_keys_and_without(keys: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"account,hash_key,weight\na,{2**127},1\nb,,5\nc,{2**128 - 1},\n")
    done = keys("import", file)
    assert (done["imported"], done["handed_out"], done["known"], done["warnings"]) == (3, 1, 0, [])
    assert [one["weight"] for one in keys("list")["keys"]] == [1, 5, 1]
    assert keys("import", file)["known"] == 3
    file.write_text("account,weight\na,4\nb,5\n")
    again = keys("import", file)
    assert (again["known"], again["reweighed"]) == (2, [{"account": "a", "former_weight": 1, "weight": 4}])


def test_plain_numbers_as_hash_keys_are_warned_of(run: Run, keys: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("account,hash_key\na,0\nb,1\nc,2\n")
    code, out, err = run("shards", "keys", "import", file, "--registry", tmp_path / "k.sqlite", "-o", "json")
    assert (code, len(json.loads(out)["warnings"]), "first shard" in err) == (0, 1, True)
    assert len(keys("list")["warnings"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name\na\n",
        "account,hash_key\na,007\n",
        f"account,hash_key\na,{2**128}\n",
        "account,hash_key\n,5\n",
        "account,weight\na,-1\n",
        "account,weight\na,x\n",
        "account,hash_key\na,5\nb,5\n",
        "account,hash_key\na,5\na,6\n",
        "account,weight\na,5\na,6\n",
        "account\na\0b\n",
        f"account\n{'a' * 200_000}\n",
        f"account\n{'a' * 257}\n",
        'account,hash_key\n"a,5\nb,6\nc,7\n',
        "account,hash_key\na,5,6,7\n",
        "account,hash_key,hash_key\na,5,6\n",
        "account;hash_key\na;5\n",
        "account,weight\na,٣\n",
        "account,weight\na,1_0\n",
    ],
)
def test_a_bad_list_imports_nothing(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    registry = tmp_path / "k.sqlite"
    code, out, err = run("shards", "keys", "import", tmp_path / "a.csv", "--registry", registry)
    assert (code, out, "error" in err) == (2, "", True)
    if registry.exists():
        assert json.loads(run("shards", "keys", "list", "--registry", registry, "-o", "json")[1])["keys"] == []


def test_redistribution_counts_what_moves_and_names_the_fence(
    run: Run, keys: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("account,hash_key\n" + "".join(f"a{n},{n + 2**100}\n" for n in range(8)))
    keys("import", file)
    before = keys("list")["keys"]
    planned = keys("redistribute", "--dry-run")
    assert (planned["moved"], planned["accounts"], planned["dry_run"], len(planned["moves"])) == (8, 8, True, 8)
    assert (planned["heaviest_eighth_before"], planned["heaviest_eighth_after"]) == (1.0, 0.125)
    assert keys("list")["keys"] == before
    code, shown, _ = run("shards", "keys", "redistribute", "--registry", tmp_path / "k.sqlite", "--dry-run")
    assert (code, "needs a fence" in shown) == (0, True), "people are warned as programs are"
    assert run("shards", "keys", "add", "b", "--weight", "1_0", "--registry", tmp_path / "k.sqlite")[0] == 2
    code, _, err = run("shards", "keys", "redistribute", "--registry", tmp_path / "k.sqlite", "-o", "json")
    assert (code, "fence" in err) == (0, True)
    assert {one["account"]: one["hash_key"] for one in keys("list")["keys"]} == {
        one["account"]: one["hash_key"] for one in planned["moves"]
    }
    again = keys("redistribute", "--dry-run")
    assert (again["moved"], again["warnings"]) == (0, [])


def test_explain_gives_the_steps_and_draws_them(run: Run, keys: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    for name in "abc":
        keys("add", name)
    steps = keys("add", "d", "--explain")["steps"]
    assert [(one["middle"], one["left"], one["right"], one["went"]) for one in steps] == [
        (str(2**127), 1, 2, "left"),
        (str(2**126), 0, 1, "left"),
    ]
    _, out, _ = run("shards", "keys", "add", "e", "--explain", "--registry", tmp_path / "k.sqlite")
    assert "3 * 2**126 is in use" in out
    assert "5 * 2**125 is free" in out


def test_the_drawing_has_a_mark_for_every_key_of_the_upper_levels() -> None:
    entries = [HandedOut(f"a{n}", nth_key("tree", n), UNIT, "tree") for n in range(1, 5)]
    lines = drawn(entries, nth_key("tree", 4))
    assert [line.count("o") for line in lines[1:6]] == [1, 2, 0, 0, 0]
    assert [line.count(".") for line in lines[1:6]] == [0, 0, 3, 8, 16]
    assert lines[1].index("o") == 32
    assert (lines[3].index("*"), lines[6].index("*")) == (8, 8)
    assert [line.split("|")[1:-1] for line in lines[-3:-1]] == [
        ["2".ljust(31), "2".ljust(31)],
        ["1".ljust(15), "1".ljust(15), "1".ljust(15), "1".ljust(15)],
    ]


def test_a_registry_is_needed_and_must_be_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("account,hash_key\n" * 100)
    assert run("shards", "keys", "add", "a")[0] == 2
    assert run("shards", "keys", "list", "--registry", tmp_path / "none")[0] == 2
    assert run("shards", "keys", "add", "a", "--registry", tmp_path / "text")[0] == 2
    assert run("shards", "keys", "add", "a", "--registry", tmp_path / "k", "--weight", "0")[0] == 2
    assert run("shards", "keys", "import", tmp_path / "none.csv", "--registry", tmp_path / "k")[0] == 1


def test_a_damaged_registry_ends_with_1(run: Run, keys: Callable[..., Any], tmp_path: Path) -> None:
    keys("add", "a")
    path = tmp_path / "k.sqlite"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    (tmp_path / "layout.json").write_text(json.dumps(layout_to_json(new_layout(2))))
    for line in (
        ("keys", "list", "--registry", path),
        ("plan", "--layout", tmp_path / "layout.json", "--cap", 1, "--registry", path),
    ):
        code, out, err = run("shards", *line)
        assert (code, out, "Traceback" in err, str(path) in err) == (1, "", False, True)


def test_a_list_may_quote_its_accounts_and_begin_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    with file.open("w", newline="", encoding="utf-8-sig") as out:
        csv.writer(out).writerows([["account", "hash_key"], ['a "b", c', "7"], ["d\ne", ""]])
    assert [(row.account, row.key) for row in rows_of(file)] == [('a "b", c', 7), ("d\ne", None)]
    file.write_bytes(b"account\n\xff\n")
    with pytest.raises(UsageError):
        rows_of(file)


def test_an_account_that_is_no_text_is_refused_by_every_command(keys: Callable[..., dict[str, Any]], run: Run) -> None:
    registry = keys("add", "a")["registry"]
    for what in ("add", "remove"):
        code, out, err = run("shards", "keys", what, "\udcff", "--registry", registry)
        assert (code, out, "an account is text" in err) == (2, "", True), err


def test_what_is_refused_makes_no_registry(run: Run, tmp_path: Path) -> None:
    registry, rows = tmp_path / "new.sqlite", tmp_path / "rows.csv"
    rows.write_text("account,hash_key\na,1\nb,1\n")
    for refused in (("add", ""), ("import", rows)):
        code, out, _ = run("shards", "keys", *refused, "--registry", registry)
        assert (code, out, registry.exists()) == (2, "", False)


@pytest.mark.parametrize(
    "change",
    ["UPDATE settings SET value = 'nope'", "UPDATE cursors SET next = 'x'", "UPDATE cursors SET next = -5",
     "UPDATE cursors SET next = 9223372036854775807"],
)  # fmt: skip
def test_a_damaged_sequence_is_named(
    keys: Callable[..., dict[str, Any]], run: Run, change: str, tmp_path: Path
) -> None:
    registry = tmp_path / "k.sqlite"
    keys("add", "a", "--sequence", "golden")
    with closing(sqlite3.connect(registry)) as connection, connection:
        connection.execute(change)
    before = registry.read_bytes()
    code, out, err = run("shards", "keys", "add", "b", "--registry", registry)
    assert (code, out, "the registry is damaged" in err) == (1, "", True), err
    assert registry.read_bytes() == before
