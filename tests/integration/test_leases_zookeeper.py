"""Leases in a real ZooKeeper: sessions that end, a server that is paused, requests without an answer."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.zookeeper_servers import free_port, zookeeper_running
from tests.unit.systems.leases.lease_stores import TTL, check_store

from keylane.errors import BrokerError, UsageError
from keylane.groups.ownership import Acquire, Lease, Release, Renew
from keylane.systems.leases import open_leases
from keylane.systems.leases.zookeeper import ZooKeeperLeases, zookeeper_leases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.integration.zookeeper_servers import ZooKeeperServers


@pytest.fixture(scope="module")
def zookeeper(start_up_archive: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    with zookeeper_running(tmp_path_factory.mktemp("zookeeper"), ["127.0.0.1"], [free_port()]) as servers:
        yield servers


def test_a_store_in_zookeeper_does_what_every_store_does(zookeeper: ZooKeeperServers) -> None:
    address = f"zookeeper://{zookeeper.address}/keylane"
    with open_leases(address, "same", 2, TTL) as one, open_leases(address, "same", 2, TTL) as other:
        check_store(one, other)
    with pytest.raises(UsageError, match="2"), open_leases(address, "same", 3, TTL):
        pass


def test_a_group_is_resized_while_nobody_holds_an_id(zookeeper: ZooKeeperServers) -> None:
    with leases(zookeeper, "resized") as one, leases(zookeeper, "resized") as other:
        mine = one.answer(Acquire("a", (0,), TTL))
        assert mine is not None
        with pytest.raises(UsageError, match="in use"):
            other.resize(3)
        assert one.answer(Release(mine)) is not None
        other.resize(3)
        with pytest.raises(UsageError, match="3"):
            one.answer(Acquire("a", (0,), TTL))
        grown = other.answer(Acquire("b", (2,), TTL))
        assert grown is not None
        assert grown.term == mine.term + 1


def test_a_group_is_not_resized_while_an_id_is_taken(
    zookeeper: ZooKeeperServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id is taken after the holders were read, and before the number is written."""
    with leases(zookeeper, "taken") as one, leases(zookeeper, "taken") as other:
        read, taken = other.read, list[Lease | None]()

        def read_late() -> tuple[Lease, ...]:
            found = read()
            if not taken:
                taken.append(one.answer(Acquire("a", (0,), TTL)))
            return found

        monkeypatch.setattr(other, "read", read_late)
        with pytest.raises(UsageError, match="in use"):
            other.resize(3)
        assert taken[0] is not None
        assert one.answer(Renew(taken[0])) is not None
        with pytest.raises(UsageError, match="instances"):
            other.resize(0)


@pytest.mark.parametrize(("ttl", "granted"), [(0.5, "1 s"), (60.0, "10 s")])
def test_a_time_to_live_that_the_ensemble_does_not_grant_is_refused(
    zookeeper: ZooKeeperServers, ttl: float, granted: str
) -> None:
    """With ticks of half a second sessions live from 1 to 10 s."""
    address = f"zookeeper://{zookeeper.address}/keylane"
    with pytest.raises(UsageError, match=granted), open_leases(address, "long", 1, ttl):
        pass
    with open_leases(address, "long", 1, 10.0) as store:
        with pytest.raises(UsageError, match="same ttl"):
            store.answer(Acquire("a", (0,), TTL))
        assert store.answer(Acquire("a", (0,), 10.0)) is not None


def test_a_connection_that_is_lost_in_the_middle_of_an_answer_is_silence(
    zookeeper: ZooKeeperServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leases(zookeeper, "lost") as store:
        mine = store.answer(Acquire("a", (0,), TTL))
        assert mine is not None
        wait = store._wait

        def lost(asked: object) -> object:
            found = wait(asked)
            monkeypatch.setattr(type(store._client), "client_id", None)
            return found

        monkeypatch.setattr(store, "_wait", lost)
        with pytest.raises(BrokerError, match="lost"):
            store.answer(Renew(mine))
        monkeypatch.undo()
        assert store.answer(Renew(mine)) is not None


def test_a_lease_goes_with_the_session_and_a_late_renewal_is_refused(zookeeper: ZooKeeperServers) -> None:
    with leases(zookeeper, "session") as one, leases(zookeeper, "session") as other:
        mine = one.answer(Acquire("a", (0,), TTL))
        assert mine is not None
        assert other.answer(Acquire("b", (0,), TTL)) is None
        expire(one, zookeeper)
        until = time.monotonic() + 120
        while (yours := other.answer(Acquire("b", (0,), TTL))) is None:
            assert time.monotonic() < until
        assert yours.term == mine.term + 1
        assert refused_soon(one, mine)


def test_what_a_request_without_an_answer_has_left_is_taken_back(zookeeper: ZooKeeperServers) -> None:
    """The ensemble took the id for us, and we never learned of it: the session lives, so it would be held forever."""
    with leases(zookeeper, "ghost") as one, leases(zookeeper, "ghost") as other:
        ghost = one.answer(Acquire("a", (0,), TTL))
        assert ghost is not None
        assert other.answer(Acquire("b", (0,), TTL)) is None
        again = one.answer(Acquire("a", (0,), TTL))
        assert again is not None
        assert again.term == ghost.term + 1
        assert one.answer(Renew(ghost)) is None


def test_a_server_that_is_paused_is_not_waited_for(zookeeper: ZooKeeperServers) -> None:
    with leases(zookeeper, "paused") as store:
        mine = store.answer(Acquire("a", (0,), TTL))
        assert mine is not None
        zookeeper.signal(1, signal.SIGSTOP)
        try:
            # It is still paused when the answer is there.
            with pytest.raises(BrokerError):
                store.answer(Renew(mine))
        finally:
            zookeeper.signal(1, signal.SIGCONT)


def test_an_address_without_a_server_or_a_path_is_refused() -> None:
    with pytest.raises(BrokerError), open_leases(f"zookeeper://127.0.0.1:{free_port()}/k", "g", 1, ttl=0.3):
        pass
    for address in ("127.0.0.1:2181", "127.0.0.1:first/k", "/k"):
        with pytest.raises(UsageError, match="address"), open_leases(f"zookeeper://{address}", "g", 1):
            pass


def leases(servers: ZooKeeperServers, group: str) -> AbstractContextManager[ZooKeeperLeases]:
    return zookeeper_leases(f"{servers.address}/keylane", group, 1, TTL)


def expire(store: ZooKeeperLeases, servers: ZooKeeperServers) -> None:
    """End a session as the ensemble does: whoever knows its id and password may close it."""
    from kazoo.client import KazooClient

    double = KazooClient(hosts=servers.address, client_id=store._client.client_id)
    double.start()
    double.stop()
    double.close()


def refused_soon(store: ZooKeeperLeases, lease: Lease) -> bool:
    """Whether a renewal is refused once the store is connected again."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            return store.answer(Renew(lease)) is None
        except BrokerError:
            time.sleep(0.1)
    return False
