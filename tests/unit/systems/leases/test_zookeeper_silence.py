"""Leases in ZooKeeper, as far as they need no ensemble: what becomes of one that does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo import client as kazoo
from kazoo.retry import ForceRetryError

from keylane.errors import BrokerError
from keylane.systems.leases import open_leases


def test_an_ensemble_that_does_not_answer_is_asked_at_an_even_pace_and_without_a_line_for_each(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    retries: list[Any] = []
    made = kazoo.KazooClient

    def client(**given: Any) -> Any:
        retries.append(given["connection_retry"])
        return made(**given)

    monkeypatch.setattr(kazoo, "KazooClient", client)
    with (
        pytest.raises(BrokerError, match="ZooKeeper does not answer"),
        open_leases("zookeeper://127.0.0.1:1/a", "g", 1, 0.2),
    ):
        pass
    assert capfd.readouterr().err == ""
    slept = list[float]()
    (again,) = retries
    again.interrupt, again.sleep_func = None, slept.append

    def refused() -> None:
        if len(slept) < 2_000:
            raise ForceRetryError

    again(refused)
    assert min(slept) == max(slept) == 0.05, "delays that shrink become a loop without any"
