"""A web hook that keeps its callers waiting until it is opened."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WebHook:
    """Counts the events that it took, by their attribute `number`."""

    def __init__(self, port: int = 0) -> None:
        self.opened = threading.Event()
        self.numbers: Counter[Any] = Counter()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.opened.wait()
                events = json.loads(body)
                hook.numbers.update(
                    one["event"]["number"] for one in (events if isinstance(events, list) else [events])
                )
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called there
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Let callers go, and listen no more."""
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()
