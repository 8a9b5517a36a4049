"""Connections of sinks.

The guard checks the address that a name resolves to, and the sink connects to that same address, so that the name
cannot resolve to another host in between (DNS rebinding).
"""

from __future__ import annotations

import socket

from cep_common.errors import CepError
from cep_common.reach.guard import Guard, UrlUse


class ReachError(CepError):
    """A plan may not access an address or a file."""

    code = "not-allowed"


def allowed_addresses(guard: Guard, scheme: str, host: str, port: int, use: UrlUse = "sink") -> list[str]:
    """Return the addresses of `host` that may be connected to, in the system's order.

    Raises:
        ReachError: When one of them is not allowed.
        OSError: When the name is unknown.
    """
    if reason := guard.refuse_url(scheme, host, port, use):
        raise ReachError(reason)
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        reason = guard.refuse_address(scheme, host, port, address, use)
        if not reason and is_here(address):
            reason = guard.refuse_here(scheme, host, port)
        if reason:
            raise ReachError(reason)
    return addresses


def is_here(address: str) -> bool:
    """Return whether the address is one of this host's, to which a socket can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
