"""Leases in ZooKeeper, through kazoo, for instances on several machines.

    PATH/GROUP            how many ids the group has
    PATH/GROUP/term      the last term
    PATH/GROUP/live-K     who holds id K, with what term: ephemeral, so it goes with the session of its owner

The time to live is that of the session, judged by the leader of the ensemble. To take an id is one transaction that
writes the next term and creates the node: both or neither. To renew it is a write, too, and not a read: a server that
is cut off from the others still answers reads. An ensemble bounds the timeouts of sessions (from 2 to 20 ticks where
it is not configured); a time to live that it does not grant is refused.

A request that the ensemble took and did not answer may leave a node of our own session, which would never expire while
this process lives. Whoever asks next removes it first. So a store serves one instance.

The rules: `keylane.groups.ownership.LeaseTable`. For one machine: `sqlite`.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from keylane.errors import BrokerError, DataError, MissingExtraError, UsageError
from keylane.groups.ownership import Acquire, Lease, Release
from keylane.systems.leases.group import check_group, in_use, other_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.groups.ownership import LeaseRequest

#: How often an id is tried for while others take ids, too: each of them makes one attempt fail.
ATTEMPTS: Final = 8
#: A store that does not connect within so many times to live cannot be used.
PATIENCE: Final = 3.0
#: Timeouts of sessions are whole numbers of these.
_MILLISECOND: Final = 0.001


class ZooKeeperLeases:
    """An open store of one group. `zookeeper_leases` opens one."""

    def __init__(self, client: Any, path: str, group: str, instances: int, ttl: float) -> None:
        self.group, self.instances, self.ttl = group, instances, ttl
        self._client, self._path = client, f"{path}/{group}"
        self._granted = _GrantedTimeout.of(client)

    def answer(self, request: LeaseRequest) -> Lease | None:
        """Carry a request out as `LeaseTable.answer` does."""
        with self._asking():
            if isinstance(request, Acquire):
                return self._acquired(request)
            held = self._mine(request.lease)
            if held is None:
                return None
            data, version = held
            path = self._live(request.lease.instance)
            from kazoo.exceptions import BadVersionError, NoNodeError

            try:
                if isinstance(request, Release):
                    self._wait(self._client.delete_async(path, version=version))
                else:
                    self._wait(self._client.set_async(path, data, version=version))
            except (BadVersionError, NoNodeError):
                return None
            return request.lease

    def read(self) -> tuple[Lease, ...]:
        """The ids and who holds them now. `expires` is not known: that of an owner's session is the ensemble's."""
        with self._asking():
            return tuple(self._held(k) or Lease(k) for k in range(self.instances))

    def resize(self, instances: int) -> None:
        """Give the group another number of ids; refused while anybody holds one. Terms go on from where they were."""
        check_group(self.group, instances)
        with self._asking():
            # To take an id is to write the term: where that is as it was, nobody has taken one since. After the change
            # nobody takes one of the former number, because all compare the version of the group.
            group_version = self._group_version()
            term_version = self._wait(self._client.get_async(self._term))[1].version
            holders = [one.owner for one in self.read() if one.owner]
            if holders:
                raise in_use(self.group, holders)
            both = self._client.transaction()
            both.check(self._term, term_version)
            both.set_data(self._path, _json(instances=instances), version=group_version)
            if not self._is_done(both):
                raise in_use(self.group, [one.owner for one in self.read() if one.owner] or ["one that has just left"])
            self.instances = instances

    def register(self) -> None:
        """Enter a new group; a group that has another number of ids is refused."""
        from kazoo.exceptions import NodeExistsError

        with self._asking():
            self._granted.check(self.ttl)
            for path, data in ((self._path, _json(instances=self.instances)), (self._term, b"0")):
                with suppress(NodeExistsError):
                    self._wait(self._client.create_async(path, data, makepath=True))
            self._group_version()

    def _acquired(self, request: Acquire) -> Lease | None:
        if request.ttl != self.ttl:
            what = "the time to live of a lease is not that of the store's sessions"
            hint = "give Terms and open_leases the same ttl"
            raise UsageError.of(what, got=request.ttl, allowed=str(self.ttl), hint=hint)
        self._granted.check(self.ttl)
        free = [k for k in request.wanted if self._is_free(k)]
        if not free:
            return None
        for _ in range(ATTEMPTS):
            group_version = self._group_version()
            data, stat = self._wait(self._client.get_async(self._term))
            term = max(_number(data), request.above) + 1
            both = self._client.transaction()
            both.check(self._path, group_version)
            both.set_data(self._term, str(term).encode(), version=stat.version)
            both.create(self._live(free[0]), _json(owner=request.owner, term=term), ephemeral=True)
            if self._is_done(both):
                return Lease(free[0], term, request.owner, self.ttl)
            free = [k for k in free if self._is_free(k)]
            if not free:
                return None
        return None

    def _is_free(self, instance: int) -> bool:
        """Whether nobody holds an id. What is left of a request of ours that had no answer is removed."""
        from kazoo.exceptions import NoNodeError

        stat = self._wait(self._client.exists_async(self._live(instance)))
        if stat is None:
            return True
        if stat.ephemeralOwner != self._session():
            return False
        with suppress(NoNodeError):
            self._wait(self._client.delete_async(self._live(instance)))
        return True

    def _mine(self, lease: Lease) -> tuple[bytes, int] | None:
        """The node of a lease and its version, if it is still that of this lease and of this session."""
        from kazoo.exceptions import NoNodeError

        try:
            data, stat = self._wait(self._client.get_async(self._live(lease.instance)))
        except NoNodeError:
            return None
        is_ours = stat.ephemeralOwner == self._session() and _document(data).get("term") == lease.term
        return (data, stat.version) if is_ours else None

    def _held(self, instance: int) -> Lease | None:
        from kazoo.exceptions import NoNodeError

        try:
            data, _ = self._wait(self._client.get_async(self._live(instance)))
        except NoNodeError:
            return None
        node = _document(data)
        return Lease(instance, node["term"], node["owner"], self.ttl)

    def _group_version(self) -> int:
        data, stat = self._wait(self._client.get_async(self._path))
        instances = int(_document(data)["instances"])
        if instances != self.instances:
            raise other_count(self.group, instances, self.instances)
        return int(stat.version)

    def _session(self) -> int:
        """The session of this store. There is none between the loss of a connection and the next one."""
        found = self._client.client_id
        if found is None:
            raise _unreachable(self._client, "the connection was lost")
        return int(found[0])

    def _is_done(self, transaction: Any) -> bool:
        """Commit: whether all of it took effect, or nothing."""
        return not any(isinstance(one, Exception) for one in self._wait(transaction.commit_async()))

    @property
    def _term(self) -> str:
        return f"{self._path}/term"

    def _live(self, instance: int) -> str:
        return f"{self._path}/live-{instance}"

    def _wait(self, asked: Any) -> Any:
        """The answer to a request, within half of the time to live: later it is of no use."""
        return asked.get(timeout=self.ttl / 2)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        if not self._client.connected:
            # What is asked now would wait, and take effect long after the caller has given up.
            raise _unreachable(self._client, "not connected")
        try:
            yield
        except (KazooException, KazooTimeoutError) as error:
            raise _unreachable(self._client, str(error) or type(error).__name__) from error


@contextmanager
def zookeeper_leases(address: str, group: str, instances: int, ttl: float) -> Iterator[ZooKeeperLeases]:
    """Open the leases of a group at `HOST:PORT,.../PATH`; the path is made where there is none."""
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
        from kazoo.retry import KazooRetry
    except ImportError:
        raise MissingExtraError.named("zookeeper", "kazoo") from None
    hosts, slash, path = address.partition("/")
    if not hosts or not slash or not path.strip("/"):
        raise _not_an_address(address)
    # Without jitter: kazoo multiplies each delay by that of the one before, which comes to nothing after a while.
    again = KazooRetry(max_tries=-1, delay=0.05, backoff=1, max_jitter=0, max_delay=max(0.1, ttl / 10))
    # What becomes of the session is in the errors; kazoo would print a line for each attempt.
    log = logging.getLogger("kazoo")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    try:
        client = KazooClient(hosts=hosts, timeout=ttl, connection_retry=again)
    except ValueError as error:
        raise _not_an_address(address) from error
    store = ZooKeeperLeases(client, f"/{path.strip('/')}", group, instances, ttl)
    try:
        try:
            client.start(timeout=ttl * PATIENCE)
        except KazooTimeoutError as error:
            raise _unreachable(client, str(error) or "no answer") from error
        store.register()
        yield store
    finally:
        client.stop()
        client.close()


class _GrantedTimeout:
    """The timeout that the ensemble granted the session, which may be another than was asked for.

    kazoo negotiates it and keeps to itself what it was: two thirds of it is how long it waits for an answer, the first
    of the two numbers that its `_connect` returns. A kazoo without that method is not checked.
    """

    def __init__(self) -> None:
        self._known, self._seconds = Event(), 0.0

    @classmethod
    def of(cls, client: Any) -> _GrantedTimeout:
        granted = cls()
        handler: Any = getattr(client, "_connection", None)
        connect = getattr(handler, "_connect", None)
        if connect is None:
            granted._known.set()
            return granted

        def connected(*given: Any) -> Any:
            found = connect(*given)
            granted._seconds = found[0] * 1.5 / 1000
            granted._known.set()
            return found

        handler._connect = connected  # noqa: SLF001  see above
        return granted

    def check(self, ttl: float) -> None:
        """Refuse another time to live than the session has: who counts on a longer one works beside its successor."""
        # The client is connected a moment before the number is here.
        self._known.wait(ttl)
        if self._seconds and abs(self._seconds - ttl) >= _MILLISECOND:
            raise UsageError.of(
                "the ensemble grants sessions of another length",
                got=f"a time to live of {ttl:g} s",
                allowed=f"{self._seconds:g} s is the nearest that it grants",
                hint="another ttl, or minSessionTimeout and maxSessionTimeout of the ensemble",
            )


def _not_an_address(address: str) -> UsageError:
    return UsageError.of(
        "not an address of leases", got=f"zookeeper://{address}", allowed="zookeeper://HOST:PORT,.../PATH"
    )


def _unreachable(client: Any, why: str) -> BrokerError:
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts)
    return BrokerError.of(f"ZooKeeper does not answer: {why}", got=hosts)


def _json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError.of("not a node that keylane has written", got=data)
    return found


def _number(data: bytes) -> int:
    if not data.isdigit():
        raise DataError.of("not a term that keylane has written", got=data)
    return int(data)
