"""Restricted client keys: the tenant of the holder, and the streams that it may send to or listen to.

`clients/NAME.key` in the folder of a worker's keys is the public key with its restrictions as metadata:

    metadata
        tenant = "7"
        send = "Storms/Departures"
        listen = "Late*"
    curve
        public-key = "…"

The secret half goes to the client, in a folder of its own that `security.keys` of a client can name.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import zmq

from cep_common.errors import ConfigError
from cep_common.monitoring.paced_log import PacedLog

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

FOLDER = "clients"
SUFFIX = ".key"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
MOST_BYTES = 65_536
"""The maximum size of a key file."""
LOOK_S = 0.25
"""How long the contents of the folder are cached: every open link looks its name up once a second."""

LONGEST_NAME = 1_024
"""The maximum length of a stream's name: clients choose names, and the time of matching grows with them."""

_LINE = re.compile(r'\s+(tenant|send|listen|public-key) = "([^"\n]*)"\s*')
_KEY = re.compile(r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")

Action = Literal["send", "listen"]

_File = tuple[str, int, int]
"""Name, time of the last change of contents or permissions, and size."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A restricted key. `send` and `listen` are patterns of stream names as clients write them (see `matches`)."""

    name: str
    public: bytes
    tenant: int
    send: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()

    def refusal(self, action: Action, tenant: int, stream: str) -> str:
        """Return why the holder may not send to, or listen to, the tenant's `stream`; empty when it may."""
        if tenant != self.tenant:
            return f"the key {self.name} belongs to tenant {self.tenant}; use streams of that tenant"
        patterns = self.send if action == "send" else self.listen
        version = stream.rfind(":", stream.rfind("/") + 1)
        names = (stream, stream[:version]) if version > 0 else (stream,)
        if any(matches(name, pattern) for name in names for pattern in patterns):
            return ""
        verb = "send to" if action == "send" else "listen to"
        return f"the key {self.name} may not {verb} {stream}; it may {verb}: {', '.join(patterns) or 'nothing'}"


def matches(name: str, pattern: str) -> bool:
    """Return whether the name of a stream fits the pattern.

    `?` is any character and `*` any number of them, without `/`, which ends the name of a plan; `**` includes it.
    """
    if len(name) > LONGEST_NAME:
        return False
    # Dynamic programming over the positions at which the parts so far can end. A regular expression would backtrack
    # through every way to divide the characters among several stars.
    ends = bytearray(len(name) + 1)
    ends[0] = 1
    for part in re.split(r"(\*{2,}|[*?])", pattern):
        if part.startswith("**"):
            first = ends.find(1)
            ends[first:] = bytes([first >= 0]) * len(ends[first:])
        elif part == "*":
            for place, character in enumerate(name):
                ends[place + 1] |= ends[place] and character != "/"
        elif part:
            fits = [end for end in range(len(name)) if ends[end] and _begins(name, part, end)]
            ends = bytearray(len(ends))
            for end in fits:
                ends[end + len(part)] = 1
    return bool(ends[-1])


def _begins(name: str, part: str, place: int) -> bool:
    return name[place] != "/" if part == "?" else name.startswith(part, place)


class ClientKeys:
    """The keys in a folder, read again when its files change. Thread-safe.

    Files that cannot be read, or that have the same public key, are ignored: their holders cannot connect.
    """

    def __init__(self, folder: Path) -> None:
        """Use the files in `folder`, which need not exist."""
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: tuple[_File, ...] | None = None
        self._looked_s = 0.0
        self._by_public: dict[bytes, ClientKey] = {}
        self._by_name: dict[str, ClientKey] = {}

    def of(self, public: bytes) -> ClientKey | None:
        """Return the key with this public half; None if there is none."""
        with self._lock:
            self._refresh()
            return self._by_public.get(public)

    def named(self, name: str) -> ClientKey | None:
        """Return the key of that name; None if there is none. Changes of files are seen after at most `LOOK_S`."""
        with self._lock:
            if name not in self._by_name or time.monotonic() - self._looked_s >= LOOK_S:
                self._refresh()
            return self._by_name.get(name)

    def _refresh(self) -> None:
        self._looked_s = time.monotonic()
        seen: tuple[_File, ...] | None = tuple(sorted(_files(self._folder)))
        if seen == self._seen:
            return
        found: dict[bytes, list[ClientKey]] = {}
        for name, *_ in seen or ():
            path = self._folder / name
            try:
                key = read_client_key(path)
            except ConfigError as error:
                if isinstance(error.__cause__, OSError):  # the file may become readable without a change
                    seen = None
                paced_logger.problem(name, "client key ignored, its holder cannot connect: reason=%s", error.message)
            else:
                found.setdefault(key.public, []).append(key)
        self._seen = seen
        for keys in found.values():
            if len(keys) > 1:
                names = ", ".join(one.name for one in keys)
                paced_logger.problem(names, "client keys ignored, they have the same public key: names=%s", names)
        self._by_public = {public: keys[0] for public, keys in found.items() if len(keys) == 1}
        self._by_name = {one.name: one for one in self._by_public.values()}


def read_client_key(path: Path) -> ClientKey:
    """Return the key in the file.

    Raises:
        ConfigError: The file or its restrictions cannot be read.
    """
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a client's key: {error}") from error
    values: dict[str, list[str]] = {}
    for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
        values.setdefault(match[1], []).append(match[2])
    tenants, publics = values.get("tenant", []), values.get("public-key", [])
    if len(tenants) != 1 or not re.fullmatch(r"-?[0-9]{1,18}", tenants[0]):
        raise ConfigError(f"{path}: names no tenant; make keys with `cep client-key`")
    if len(text) > MOST_BYTES or len(publics) != 1 or not _KEY.fullmatch(publics[0]):
        raise ConfigError(f"{path}: holds no public key; make keys with `cep client-key`")
    return ClientKey(
        path.name.removesuffix(SUFFIX), publics[0].encode(), int(tenants[0]),
        tuple(values.get("send", ())), tuple(values.get("listen", ())),
    )  # fmt: skip


def new_client_key(name: str, tenant: int, send: Iterable[str], listen: Iterable[str]) -> tuple[ClientKey, bytes]:
    """Return a new key and its secret half.

    Raises:
        ConfigError: The name or a pattern cannot be written, or the key may do nothing.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: a key's name has letters, digits, '_', '.' and '-', at most 64")
    public, secret = zmq.curve_keypair()
    key = ClientKey(name, public, tenant, tuple(send), tuple(listen))
    for pattern in (*key.send, *key.listen):
        if not pattern or not pattern.isascii() or not pattern.isprintable() or '"' in pattern:
            raise ConfigError(f"{pattern!r}: is not a pattern of stream names, such as Storms/Departures or 'Storms/*'")
    if not (key.send or key.listen):
        raise ConfigError(
            "the key would permit nothing: name streams with --send and --listen ('*': all of the tenant)"
        )
    return key, secret


def metadata_of(key: ClientKey) -> Iterator[tuple[str, str]]:
    """Yield the restrictions of a key as metadata of its file."""
    yield "tenant", str(key.tenant)
    yield from (("send", pattern) for pattern in key.send)
    yield from (("listen", pattern) for pattern in key.listen)


def _files(folder: Path) -> Iterator[_File]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(SUFFIX)
                if name != entry.name and NAME.fullmatch(name) and entry.is_file():
                    status = entry.stat()
                    yield entry.name, status.st_ctime_ns, status.st_size
    except OSError:
        return
