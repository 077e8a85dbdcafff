"""The path that the tests cut really is cut: what tests of faults stand on."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from tests.integration.cut_path import HOST, CutPath, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.cut_path import Cut


@pytest.fixture
def ends() -> Iterator[tuple[CutPath, socket.socket, socket.socket]]:
    """A path, and a connection over it: the client's end and the broker's."""
    listener = socket.create_server((HOST, 0))
    path = CutPath(free_port(), listener.getsockname()[1])
    found: list[socket.socket] = []
    thread = threading.Thread(target=lambda: found.append(listener.accept()[0]))
    thread.start()
    client = socket.create_connection((HOST, path.port))
    thread.join(10)
    for one in (client, *found):
        one.settimeout(0.3)
    yield path, client, found[0]
    for one in (client, *found, listener):
        one.close()
    path.close()


def arrives(sender: socket.socket, receiver: socket.socket, text: bytes) -> bool:
    sender.sendall(text)
    try:
        return receiver.recv(100) == text
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    ("how", "there", "back"),
    [("both ways", False, False), ("to the broker", False, True), ("from the broker", True, False)],
)
def test_a_cut_path_lets_nothing_through_and_what_was_sent_arrives_when_it_is_healed(
    how: Cut, there: bool, back: bool, ends: tuple[CutPath, socket.socket, socket.socket]
) -> None:
    path, client, broker = ends
    assert arrives(client, broker, b"a")
    assert arrives(broker, client, b"b")
    with path.cut(how):
        assert arrives(client, broker, b"there") == there
        assert arrives(broker, client, b"back") == back
    for receiver, came, late in ((broker, there, b"there"), (client, back, b"back")):
        if not came:
            receiver.settimeout(10)
            assert receiver.recv(100) == late
    assert [text for _, text in path.log] == [f"cut {how}", "healed"]
