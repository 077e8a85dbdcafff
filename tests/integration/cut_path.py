"""A second way to a broker, through this process, that can be cut: both ways, or one way only.

What is sent while the path is cut is neither lost nor answered: it waits, as packets do that are sent again until they
get through; so does the end of a connection. A connection that is opened meanwhile stays without an answer.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, TypeAlias

from keylane.systems.broker.faults import kill9, restart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keylane.systems.broker import Cluster

Cut: TypeAlias = Literal["both ways", "to the broker", "from the broker"]
HOST = "127.0.0.1"


class CutPath:
    """A port of this process that leads to another one. `log` has what was done to it, with seconds since the start."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self.to = port, to
        self.log: list[tuple[float, str]] = []
        self._began = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    @contextmanager
    def cut(self, how: Cut) -> Iterator[None]:
        """Nothing gets through inside the block."""
        gates = [self._there] * (how != "from the broker") + [self._back] * (how != "to the broker")
        self._set(gates, is_open=False)
        self._note(f"cut {how}")
        try:
            yield
        finally:
            self._set(gates, is_open=True)
            self._note("healed")

    def close(self) -> None:
        """End it, and every connection over it."""
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(10)

    def _note(self, text: str) -> None:
        self.log.append((round(time.monotonic() - self._began, 1), text))

    def _set(self, gates: list[asyncio.Event], *, is_open: bool) -> None:
        done = threading.Event()

        def turn() -> None:
            for gate in gates:
                (gate.set if is_open else gate.clear)()
            done.set()

        self._loop.call_soon_threadsafe(turn)
        assert done.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._serve())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self) -> None:
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self._there.set()
        self._back.set()
        async with await asyncio.start_server(self._connected, HOST, self.port) as server:
            self._ready.set()
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self.to)
        except OSError:
            writer.close()
            return
        try:
            there, back = self._passed(reader, far_writer, self._there), self._passed(far_reader, writer, self._back)
            await asyncio.gather(there, back)
        finally:
            writer.close()
            far_writer.close()

    @staticmethod
    async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await gate.wait()
                writer.write(data)
                await writer.drain()
        await gate.wait()
        writer.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def far_path(cluster: Cluster) -> Iterator[CutPath]:
    """A path to a cluster of one broker, which is restarted: it tells clients of that path to come back over it."""
    inner, outer = free_port(), free_port()
    settings = cluster.home(1) / "server.properties"
    text = settings.read_text(encoding="utf-8")
    for name, more in [
        ("listeners", f"FAR://{HOST}:{inner}"),
        ("advertised.listeners", f"FAR://{HOST}:{outer}"),
        ("listener.security.protocol.map", "FAR:PLAINTEXT"),
    ]:
        text, changed = re.subn(rf"(?m)^{re.escape(name)}=(.*)$", rf"{name}=\1,{more}", text)
        assert changed == 1, name
    kill9(cluster)
    settings.write_text(text, encoding="utf-8")
    restart(cluster)
    path = CutPath(outer, inner)
    try:
        yield path
    finally:
        path.close()
