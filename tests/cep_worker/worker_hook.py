"""A web hook for tests of sinks."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """A web hook: keeps what is posted, answers with `status`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.taken: list[bytes] = []
        """The bodies that were answered with 200."""
        self.free = threading.Event()
        """No request is answered while it is not set."""
        self.free.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.bodies.append(body)
                hook.headers.append(dict(self.headers))
                hook.free.wait()
                status = hook.status
                if status == 200:
                    hook.taken.append(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Tests need no access log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def events(self, bodies: list[bytes] | None = None) -> list[Any]:
        found: list[Any] = []
        for body in self.bodies if bodies is None else bodies:
            value = json.loads(body)
            found += value if isinstance(value, list) else [value]
        return found

    def close(self) -> None:
        self.free.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
