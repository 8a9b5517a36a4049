"""The TCP and UDP sockets on which processes of this host listen, as the kernel lists them."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTENING = "0A"
"""The kernel's code of a listening TCP socket."""


@dataclass(frozen=True, slots=True, order=True)
class ListeningSocket:
    """A socket that accepts connections (TCP) or datagrams (UDP). `command` is the command line of its process."""

    protocol: str
    address: str
    port: int
    process_id: int
    command: str

    def is_loopback(self) -> bool:
        """Return whether only this host can reach it."""
        return ipaddress.ip_address(self.address).is_loopback

    def where(self) -> str:
        """Return the address as people write it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def listening_sockets(roots: Iterable[int]) -> list[ListeningSocket]:
    """Return the sockets on which the processes `roots` and their descendants listen, sorted.

    Processes that end meanwhile, or that belong to another user, are left out.
    """
    known = dict(_bound())
    found = set()
    for process_id in family(roots):
        command = _command(process_id)
        for inode in _sockets_of(process_id):
            if inode in known:
                found.add(ListeningSocket(*known[inode], process_id, command))
    return sorted(found)


def family(roots: Iterable[int]) -> set[int]:
    """Return these processes and all their descendants."""
    parents = {int(entry.name): _parent(entry) for entry in PROC.iterdir() if entry.name.isdecimal()}
    found = set(roots)
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def _parent(entry: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _command(process_id: int) -> str:
    with suppress(OSError):
        return (PROC / str(process_id) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _sockets_of(process_id: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (PROC / str(process_id) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _bound() -> Iterator[tuple[str, tuple[str, str, int]]]:
    """Yield the inode of each socket that listens, with protocol, address and port.

    A UDP socket that is connected to a peer takes nothing from others and is left out.
    """
    for table in ("tcp", "tcp6", "udp", "udp6"):
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        protocol = table[:3]
        for fields in map(str.split, lines):
            local, peer, state, inode = fields[1], fields[2], fields[3], fields[9]
            if state == _LISTENING if protocol == "tcp" else peer.endswith(":0000"):
                address, _, port = local.partition(":")
                yield inode, (protocol, _address(address), int(port, 16))


def _address(written: str) -> str:
    """Return an address of the kernel's tables: words of 32 bits in the machine's order."""
    words = [written[start : start + 8] for start in range(0, len(written), 8)]
    octets = b"".join(struct.pack("=I", int(word, 16)) for word in words)
    address = ipaddress.ip_address(octets)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
