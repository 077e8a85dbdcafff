"""How a running service is, over HTTP on loopback: `GET /health`, read-only, nothing else.

200 while it is well, 503 while it is not, and a JSON object either way. Requests under another host name than that of
this machine are refused, so that no page of a browser can read it. For an orchestrator on another machine: let its
agent on this one ask, or run the check as a command.

Who reports: `keylane.systems.kafka.owner`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from keylane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Whether it is well, and the object to show.
Report: TypeAlias = "Callable[[], tuple[bool, dict[str, Any]]]"
LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = frozenset({"127.0.0.1", "localhost"})


@contextmanager
def serving_health(report: Report, port: int = 0) -> Iterator[int]:
    """Answer on loopback while the block runs; gives the port, a free one where 0 was asked for."""

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            if (self.headers.get("Host") or "").partition(":")[0] not in _NAMES:
                self._answer(HTTPStatus.FORBIDDEN, {"error": "not a name of this machine"})
            elif self.path != "/health":
                self._answer(HTTPStatus.NOT_FOUND, {"error": "GET /health"})
            else:
                is_well, shown = report()
                self._answer(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, shown)

        def _answer(self, status: HTTPStatus, shown: dict[str, Any]) -> None:
            body = json.dumps(shown).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: what a service logs is its own affair."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise UsageError.of(
            f"no port for the health endpoint: {error.strerror}", got=port, hint="0 takes a free one"
        ) from error
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="keylane-health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
