"""The allow lists of what plans may access from one process, checked before anything is opened."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from cep_common.reach.files import NOT_LISTED, real_path, refuse_file, written_path
from cep_common.reach.rules import UrlRules, address_in, is_forbidden

FileUse = Literal["sink", "source", "password", "store"]
UrlUse = Literal["sink", "source"]


class Reach(msgspec.Struct, frozen=True, omit_defaults=True):
    """What sources and sinks of plans may access from a worker.

    Workers report it to managers, which reject plans that access anything else. Relative paths begin in its
    `working_folder`.
    """

    sink_folders: tuple[str, ...] = ()
    sink_urls: tuple[str, ...] = ()
    source_folders: tuple[str, ...] = ()
    source_urls: tuple[str, ...] = ()
    password_folders: tuple[str, ...] = ()
    working_folder: str = ""


FILE_KEYS: dict[FileUse, str] = {
    "sink": "sinks.folders",
    "source": "file_sources.folders",
    "password": "password_files.folders",
    "store": "sinks.folders",
}
_OF_WORKER = "of the worker's configuration"


class Guard:
    """Checks what a plan may open. Immutable and so thread-safe."""

    def __init__(
        self,
        reach: Reach,
        *,
        here: bool = True,
        protected: Collection[str] = (),
        own: Collection[tuple[str, int]] = (),
        own_ports: Collection[range] = (),
        shared: Collection[tuple[str, int]] = (),
    ) -> None:
        """Create a guard.

        `here` says that files and hosts are those of this process; a manager checks plans for workers without accessing
        either. Plans may never access `protected` files, the system's `own` addresses, or its `own_ports` on this host;
        over ZeroMQ they may access `shared` ones, which ask a client for its tenant.
        """
        self.reach = reach
        self.here = here
        self._protected = tuple(protected)
        self._urls: dict[UrlUse, UrlRules] = {
            "sink": UrlRules(reach.sink_urls),
            "source": UrlRules(reach.source_urls),
        }
        self._own = frozenset(own)
        self._own_ports = tuple(own_ports)
        self._shared = frozenset(shared)

    def refuse_file(self, path: str | Path, use: FileUse) -> str:
        """Return why the file may not be opened for this use, and the key that would allow it; empty when it may."""
        folders = {
            "sink": self.reach.sink_folders,
            "store": self.reach.sink_folders,
            "source": self.reach.source_folders,
            "password": self.reach.password_folders,
        }[use]
        resolve = real_path if self.here else partial(written_path, self.reach.working_folder)
        reason = refuse_file(str(path), folders, self._protected, resolve, self.here)
        if not reason:
            return ""
        advice = f"; name them in {FILE_KEYS[use]} {_OF_WORKER}" if reason == NOT_LISTED else ""
        return f"{path} {reason}{advice}"

    def refuse_url(self, scheme: str, host: str, port: int, use: UrlUse = "sink") -> str:
        """Return why a sink (or a source that connects) may not call the URL with this text; empty when it may."""
        shown = f"{scheme}://{host}:{port}"
        if not self._urls[use].allow(scheme, host, port):
            return f"{shown} may not be called; name it in {use}s.urls {_OF_WORKER}"
        address = address_in(host)
        if address is None and host.casefold().rstrip(".") != "localhost":
            return self._refuse_own(scheme, host, port, shown)
        return self.refuse_address(scheme, host, port, str(address or "127.0.0.1"), use)

    def refuse_source(self, scheme: str, host: str, port: int) -> str:
        """Check a URL as `refuse_url` does, for a source that connects."""
        return self.refuse_url(scheme, host, port, "source")

    def refuse_address(self, scheme: str, host: str, port: int, address: str, use: UrlUse = "sink") -> str:
        """Return why a sink (or source) may not connect to `address` of `host`; empty when it may."""
        found = address_in(address)
        shown = f"{scheme}://{host}:{port}"
        if found is None:
            return f"{shown} may not be called: {address} is not an address"
        if is_forbidden(found):
            return f"{shown} may not be called: {found} is only for this host's own network"
        if found.is_loopback and not self._urls[use].allow_loopback(scheme, host, port):
            advice = f"name {scheme}://localhost:{port} in {use}s.urls {_OF_WORKER} to allow it"
            return f"{shown} may not be called: it is this host; {advice}"
        if (scheme == "tcp" and self._is_shared(str(found), port)) or not self._is_own(str(found), port):
            return ""
        return _belongs(shown)

    def refuse_here(self, scheme: str, host: str, port: int) -> str:
        """Return why a sink may not connect to the port at an address of this host; empty when it may."""
        own = any(port == one for _, one in self._own) or any(port in ports for ports in self._own_ports)
        shared = scheme == "tcp" and any(port == one for _, one in self._shared)
        return _belongs(f"{scheme}://{host}:{port}") if own and not shared else ""

    def refuse_listening(self, scheme: str, host: str, port: int) -> str:
        """Return why a source may not listen there; empty when it may."""
        if self._urls["source"].allow(scheme, host, port):
            return ""
        return f"{scheme}://{host}:{port} may not be listened on; name it in sources.urls {_OF_WORKER}"

    def _refuse_own(self, scheme: str, host: str, port: int, shown: str) -> str:
        own = (host.casefold().rstrip("."), port) in self._own
        return _belongs(shown) if own and not (scheme == "tcp" and (host, port) in self._shared) else ""

    def _is_own(self, address: str, port: int) -> bool:
        loopback = (found := address_in(address)) is not None and found.is_loopback
        if (address, port) in self._own or (loopback and any(port == own for _, own in self._own)):
            return True
        local = loopback or any(address == host for host, _ in self._own)
        return local and any(port in ports for ports in self._own_ports)

    def _is_shared(self, address: str, port: int) -> bool:
        loopback = (found := address_in(address)) is not None and found.is_loopback
        return (address, port) in self._shared or (loopback and any(port == one for _, one in self._shared))


def _belongs(shown: str) -> str:
    return f"{shown} may not be called: it belongs to this system"
