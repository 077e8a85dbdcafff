from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from keylane.errors import UsageError
from keylane.systems.health import serving_health


def asked(port: int, path: str = "/health", host: str | None = None, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_health_is_shown_while_the_block_runs() -> None:
    state: list[Any] = [True, {"phase": "serving"}]
    with serving_health(lambda: (state[0], state[1])) as port:
        assert asked(port) == (200, b'{"phase": "serving"}')
        state[:] = [False, {"phase": "stopped"}]
        code, body = asked(port)
        assert (code, json.loads(body)) == (503, {"phase": "stopped"})
    with pytest.raises(ConnectionError):
        asked(port)


@pytest.mark.parametrize(
    ("path", "host", "method", "code"),
    [
        ("/", None, "GET", 404),
        ("/health/../x", None, "GET", 404),
        ("/health", "evil.example", "GET", 403),
        ("/health", "127.0.0.1.evil.example:80", "GET", 403),
        ("/health", None, "POST", 501),
        ("/health", "localhost:1", "GET", 200),
    ],
)
def test_nothing_else_is_answered(path: str, host: str | None, method: str, code: int) -> None:
    with serving_health(lambda: (True, {})) as port:
        assert asked(port, path, host, method)[0] == code


def test_a_port_that_is_taken_is_refused() -> None:
    with (
        serving_health(lambda: (True, {})) as port,
        pytest.raises(UsageError),
        serving_health(lambda: (True, {}), port),
    ):
        pass
