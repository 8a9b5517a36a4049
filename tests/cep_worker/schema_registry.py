"""A schema registry in the test's process: what of Confluent's REST API clients use, and ways to misbehave."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass(slots=True)
class FakeRegistry:
    """Schemas by number and by subject. `answer` replaces every answer while it is set."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answer: tuple[int, bytes] | None = None
    incompatible: bool = False
    user: str = ""
    held: threading.Event | None = None
    """Requests are answered once it is set; `holding` says that one waits for that."""
    holding: threading.Event = field(default_factory=threading.Event)

    def add(self, text: str, type_: str = "AVRO", subject: str = "s", references: list[dict[str, Any]] = []) -> int:  # noqa: B006 - only read
        """Register a schema and return its number."""
        found = {"schema": text, **({} if type_ == "AVRO" else {"schemaType": type_})}
        if references:
            found["references"] = references
        number = next((id_ for id_, one in self.schemas.items() if one == found), len(self.schemas) + 1)
        self.schemas[number] = found
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def respond(self, method: str, path: str, body: Any, credentials: str) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path}")
        if self.held is not None:
            self.holding.set()
            self.held.wait(10)
        if self.answer is not None:
            return self.answer
        if self.user and base64.b64decode(credentials.removeprefix("Basic ")).decode() != self.user:
            return 401, b'{"error_code": 401, "message": "Unauthorized"}'
        parts = [unquote(one) for one in path.partition("?")[0].strip("/").split("/")]
        if parts[0] == "schemas":
            found = self.schemas.get(int(parts[2]))
            return (200, encoded(found)) if found else refused(404, 40403, "Schema not found")
        versions = self.subjects.get(parts[1], [])
        if method == "POST":
            if self.incompatible:
                return refused(409, 409, "Schema being registered is incompatible with an earlier schema")
            return 200, encoded({"id": self.add(body["schema"], body.get("schemaType", "AVRO"), parts[1])})
        if not versions:
            return refused(404, 40401, "Subject not found")
        version = len(versions) if parts[3] == "latest" else int(parts[3])
        if version > len(versions):
            return refused(404, 40402, "Version not found")
        number = versions[version - 1]
        return 200, encoded({"subject": parts[1], "version": version, "id": number, **self.schemas[number]})


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def refused(status: int, code: int, message: str) -> tuple[int, bytes]:
    return status, encoded({"error_code": code, "message": message})


@contextmanager
def schema_registry(certificate: tuple[str, str] | None = None) -> Iterator[FakeRegistry]:
    """Serve a registry on a free port, with a certificate over TLS."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve("GET", None)

        def do_POST(self) -> None:
            self._serve("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, method: str, body: Any) -> None:
            status, content = registry.respond(method, self.path, body, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the library
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
