"""As much of the protocol of S3 as a store of checkpoints uses, in this process. Who comes is not asked."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "cep"


class S3Server(ThreadingHTTPServer):
    """`objects` by their names in the bucket `cep`; `asked` are the requests so far, and `who` the keys that they
    were signed with. A part of an upload whose number is
    in `refused_parts` is answered with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.asked: list[str] = []
        self.who: set[str] = set()
        self.refused_parts: set[int] = set()

    def location(self, folder: str) -> str:
        """What `checkpoint.location` is for a folder on this server."""
        place = f"s3://somebody:some%2Fsecret@{BUCKET}/{folder}"
        return f"{place}?region=eu-central-1&scheme=http&endpoint_override=127.0.0.1:{self.server_port}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with an empty bucket."""
    server = S3Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: S3Server

    def do_PUT(self) -> None:
        name, query = self._asked()
        data = self._body()
        number = int(query.get("partNumber", 0))
        if not self.path.startswith(f"/{BUCKET}/"):
            self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>there is none</Message></Error>")
            return
        if number in self.server.refused_parts:
            self._answer(403, b"<Error><Code>AccessDenied</Code><Message>no more</Message></Error>")
            return
        if number:
            self.server.uploads[query["uploadId"]][number] = data
        else:
            self.server.objects[name] = data
        self._answer(200, headers={"ETag": _tag(data)})

    def do_POST(self) -> None:
        name, query = self._asked()
        self._body()
        if "uploads" in query:
            upload = str(len(self.server.asked))
            self.server.uploads[upload] = {}
            self._xml(f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")
        else:
            parts = self.server.uploads.pop(query["uploadId"])
            self.server.objects[name] = b"".join(parts[number] for number in sorted(parts))
            self._xml("<CompleteMultipartUploadResult><ETag>all</ETag></CompleteMultipartUploadResult>")

    def do_GET(self) -> None:
        name, query = self._asked()
        if "list-type" in query:
            self._list(query)
        else:
            self._give(name)

    def do_HEAD(self) -> None:
        self._give(self._asked()[0])

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._asked()[0], None)
        self._answer(204)

    def log_message(self, *_arguments: object) -> None:
        """Requests are in `asked`."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        bucket, _, name = unquote(parts.path).lstrip("/").partition("/")
        query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.server.who.update(re.findall(r"Credential=(\w+)/", self.headers.get("Authorization", "")))
        self.server.asked.append(f"{self.command} {bucket}/{name}")
        return name, query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = _joined(self.rfile)
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _joined(BytesIO(data)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

    def _list(self, query: Mapping[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        files, folders = [], set()
        for name, data in sorted(self.server.objects.items()):
            if not name.startswith(prefix):
                continue
            first, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            if cut:
                folders.add(f"{prefix}{first}{delimiter}")
            else:
                files.append(f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size></Contents>")
        shown = [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        self._xml(f"<ListBucketResult>{''.join(files + shown)}</ListBucketResult>")

    def _xml(self, text: str) -> None:
        self._answer(200, f'<?xml version="1.0"?>{text}'.encode(), {"Content-Type": "application/xml"})

    def _give(self, name: str) -> None:
        found = self.server.objects.get(name)
        asked = self.headers.get("Range")
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif asked is None:
            self._answer(200, found, {"ETag": _tag(found)})
        else:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            place = {"Content-Range": f"bytes {first}-{last}/{len(found)}", "ETag": _tag(found)}
            self._answer(206, found[int(first) : int(last) + 1], place)

    def _answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _joined(stream: BinaryIO) -> bytes:
    """What was sent in pieces, each after a line with its size; what follows the last, empty piece is left out."""
    pieces = []
    while size := int(stream.readline().partition(b";")[0], 16):
        pieces.append(stream.read(size))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(pieces)


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'
