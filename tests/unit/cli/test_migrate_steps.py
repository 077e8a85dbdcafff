"""Each step of a planned migration is a command that can be copied: it is taken here, as far as no broker is needed."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from tests.worlds.face import run

from keylane.cli.migrate import client_again, drain_rows

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """\
apiVersion: keylane/v1
kind: RoutingContract
metadata: {{name: pay ments, epoch: {epoch}}}
spec: {{streams: [{stream}], lanes: {lanes}, partitioner: kafka-java, key: {{fields: [k], encoding: utf8}}}}
"""


def planned(folder: Path, *more: str, stream: str = "payments", code: int = 3) -> dict[str, Any]:
    (folder / "the old.yaml").write_text(CONTRACT.format(epoch=1, lanes=12, stream="payments").replace("pay m", "paym"))
    (folder / "new.yaml").write_text(CONTRACT.format(epoch=1, lanes=24, stream=stream).replace("pay m", "paym"))
    ran = run(["migrate", "plan", "the old.yaml", "new.yaml", *more, "-o", "json"], folder=folder)
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


WAYS = {
    "in place": (),
    "named": ("--producer", "till-1", "--group", "ledger"),
    "saved": ("--out", "my plan.json"),
    "mirror": ("--mode", "mirror", "--to", "kafka:copies"),
}


@pytest.mark.parametrize("more", list(WAYS.values()), ids=list(WAYS))
def test_every_command_is_one_that_keylane_takes(more: tuple[str, ...], tmp_path: Path) -> None:
    steps = planned(tmp_path, *more[: 2 if "mirror" in more else None])["steps"]
    commands = [one["command"] for one in steps]
    assert any(command.startswith("keylane migrate run ") for command in commands)
    for command in commands:
        name, *words = shlex.split(command)
        ran = run(words, folder=tmp_path)
        assert name == "keylane"
        assert "Traceback" not in ran.err
        told = ("no such option", "no such command", "missing", "unexpected", "placeholder")
        assert not any(one in ran.err for one in told), f"{command}: {ran.err}"
        # Without a broker, and before the plan is saved, each is refused for just that.
        assert ran.code in (0, 3) or any(one in ran.err for one in ("KEYLANE_KAFKA", "plan.json")), ran.err


def test_the_plan_is_saved_by_the_options_that_made_it(tmp_path: Path) -> None:
    first = next(
        one["command"] for one in planned(tmp_path, *WAYS["named"])["steps"] if "migrate plan" in one["command"]
    )
    words = shlex.split(first)
    assert words[3:5] == ["the old.yaml", "new.yaml"]
    assert ("till-1" in words, words[words.index("--group") + 1], words[-2:]) == (
        True,
        "ledger",
        ["--out", "plan.json"],
    )
    saved = planned(tmp_path, *WAYS["saved"])["steps"]
    again = [one["command"] for one in saved if "migrate plan" in one["command"]]
    assert again == [one for one in again if one.endswith("--out 'my plan.json' --force")], "the epoch is raised first"
    assert any("keylane migrate verify" in one["command"] or "'my plan.json'" in one["command"] for one in saved)


def test_a_plan_from_contracts_alone_is_saved_again_with_its_stream(tmp_path: Path) -> None:
    """It was saved and cannot be run: the commands after it are of a plan that names the stream."""
    first = planned(tmp_path, "--out", "plan.json")["steps"]
    saves = [shlex.split(one["command"]) for one in first if "migrate plan" in one["command"]]
    assert [("--from" in words, words[-3:]) for words in saves] == [(True, ["--out", "plan.json", "--force"])]


def test_secrets_of_the_client_are_not_in_a_command() -> None:
    given = {"pairs": ("sasl.password=hush", "client.id=me"), "file": "my client.properties"}
    assert client_again(given) == " --kafka client.id=me --kafka-file 'my client.properties'"


def test_lanes_that_wait_alike_are_one_line() -> None:
    grown = {str(lane): [lane % 12] for lane in range(24)}
    assert [row["lane"] for row in drain_rows(grown)] == ["0 to 11", "12 to 23"]
    odd: dict[str, list[int | str]] = {"0": [0, 1], "1": [0, 1], "2": [2], "vip/0": ["vip/0"], "vip/1": ["vip/0"]}
    assert [row["lane"] for row in drain_rows(odd)] == list(odd), "no three in a row wait alike"
    assert [row["waits_for"] for row in drain_rows(odd)] == ["0, 1", "0, 1", "2", "vip/0", "vip/0"]
