"""Masks of keys in `identify`, `check` and `init`: one key of one source is shown alike by all, and never whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from keylane import partitioner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

#: Keys that nobody else may see; the second half of the rows is another writer's.
KEYS = [f"customer-{n:04}@example.org" for n in range(600)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEYLANE_MASKS", str(tmp_path / "masks"))
    monkeypatch.chdir(tmp_path)
    java, other = (partitioner(name) for name in ("kafka-java", "librdkafka-consistent-random"))
    rows = [(key, (java if n % 6 else other).lane(key.encode(), 12)) for n, key in enumerate(KEYS)]
    (tmp_path / "a.csv").write_text("k,lane\n" + "".join(f"{key},{lane}\n" for key, lane in rows))
    return tmp_path / "a.csv"


def identified(run: Run, data: Path, *more: str) -> dict[int, str]:
    """The keys that `identify` shows, by their row."""
    code, out, err = run("identify", data, "-k", "k", "-l", "lane", "-n", 12, "-o", "json", *more)
    assert code == 0, err
    return {one["row"]: one["key"] for writer in json.loads(out)["writers"] for one in writer["examples"]}


def test_the_commands_show_a_key_of_a_source_alike(run: Run, data: Path, tmp_path: Path) -> None:
    seen = identified(run, data)
    assert seen
    assert identified(run, data) == seen, "the same in the next run"
    code, out, err = run("init", data, "-k", "k", "-l", "lane", "-n", 12, "--write", tmp_path / "a.yaml", "-o", "json")
    assert code == 0, err
    writers = json.loads(out)["identified"]["writers"]
    assert {one["row"]: one["key"] for writer in writers for one in writer["examples"]} == seen
    code, out, _ = run("check", tmp_path / "a.yaml", "--data", data, "-o", "json")
    assert code == 4
    checked = {one["row"]: one["key"] for one in json.loads(out)["data"]["examples"]}
    both = set(checked) & set(seen)
    assert both
    assert {row: checked[row] for row in both} == {row: seen[row] for row in both}


@pytest.mark.parametrize(
    "line", ["identify {} -k k -l lane -n 12", "init {} -k k -l lane -n 12", "check c.yaml --data {}"]
)
@pytest.mark.parametrize("output", ["table", "json", "md"])
def test_no_key_is_shown_whole(line: str, output: str, run: Run, data: Path, tmp_path: Path) -> None:
    assert run("identify", data, "-k", "k", "-l", "lane", "-n", 12, "--write", tmp_path / "c.yaml")[0] == 0
    _, out, err = run(*line.format(data).split(), "-o", output)
    # `init` for people has no table of keys.
    assert "…" in out or (line.startswith("init") and output != "json")
    assert not [key for key in KEYS if key in out + err]


def test_twin_whole_keys_are_shown_where_they_are_asked_for(run: Run, data: Path) -> None:
    assert set(identified(run, data, "--show-keys").values()) <= set(KEYS)


def test_twin_another_secret_gives_other_masks(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = identified(run, data)
    monkeypatch.setenv("KEYLANE_MASKS", str(tmp_path / "other"))
    assert not set(identified(run, data).values()) & set(seen.values())
