"""Which ports a process listens on, and what each answers to a stranger. Linux only."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

#: As the system lists them: IPv4, IPv4 within IPv6, IPv6.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def listening(pid: int) -> list[tuple[str, int]]:
    """Address and port of every socket on which a process listens; none when it has ended."""
    inodes = set()
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    for link in links:
        # A connection that the process closes meanwhile is no longer there; its other sockets are.
        with suppress(OSError):
            inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    out = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                out.append((address, int(port, 16)))
    return out


def descendants(pid: int) -> list[int]:
    try:
        tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    children = [int(one) for text in tasks for one in text.split()]
    return [pid, *(found for child in children for found in descendants(child))]


def answer_of(port: int, message: bytes, seconds: float = 0.7, *, until: bytes = b"") -> bytes:
    """What comes back within some seconds of the last part: up to a text that ends it, or all of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as there:
        there.sendall(message)
        there.settimeout(seconds)
        out = b""
        try:
            while part := there.recv(65536):
                out += part
                if until and until in out:
                    break
        except OSError:
            pass
        return out
