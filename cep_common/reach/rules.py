"""Lists of URLs that plans may call or listen on: `scheme://host:port`, with `*` for any of the three. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS: dict[str, tuple[int, ...]] = {
    "http": (80,),
    "https": (443,),
    "smtp": (25, 465, 587),
    "postgresql": (5432,),
    "mysql": (3306,),
    "mariadb": (3306,),
    "mssql": (1433,),
    "oracle": (1521,),
}
"""The default ports of rules without a port; for other schemes such a rule allows any port."""

METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16")
)
"""The addresses of clouds' metadata services, which provide credentials."""

_RULE = re.compile(
    r"(?:(?P<scheme>\*|[a-z][a-z0-9+.-]*)://)?"
    r"(?P<host>\[[0-9a-f:.]+\](?:/\d+)?|\*|(?:\*\.)?[a-z0-9_.-]+(?:/\d+)?)"
    r"(?::(?P<port>\*|\d{1,5}(?:-\d{1,5})?))?/?"
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def address_in(text: str) -> Address | None:
    """Return the IP address in `text`, an IPv4 address if IPv6 maps one; None for a name."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return unwrapped(address)


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address maps, else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_forbidden(address: Address) -> bool:
    """Return whether no rule can allow the address: a link-local, unspecified, multicast or cloud metadata address."""
    return address.is_link_local or address in METADATA or address.is_unspecified or address.is_multicast


@dataclass(frozen=True, slots=True)
class UrlRule:
    """One entry of a list. `network` is set if the host is an address or a block of addresses."""

    scheme: str
    host: str
    ports: tuple[int, int] | None
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None

    @classmethod
    def parse(cls, text: str) -> UrlRule:
        """Return the rule in `text`. Raise ValueError when it is invalid."""
        found = _RULE.fullmatch(text.strip().casefold())
        if found is None:
            raise ValueError(
                f"{text!r} must read scheme://host:port, such as https://hooks.example.org:443; each may be *"
            )
        host, port = found["host"], found["port"]
        network = None
        if host != "*" and not host.startswith("*."):
            try:
                network = ipaddress.ip_network(host.replace("[", "").replace("]", ""))
            except ValueError:
                if "/" in host:
                    raise ValueError(f"{text!r}: {host} is not a block of addresses") from None
        ports = None
        if port not in (None, "*"):
            first, _, last = port.partition("-")
            ports = int(first), int(last or first)
            if not 1 <= ports[0] <= ports[1] <= 65_535:
                raise ValueError(f"{text!r}: {port} is not a port")
        scheme = found["scheme"] or "*"
        if port is None and scheme in DEFAULT_PORTS and len(DEFAULT_PORTS[scheme]) == 1:
            ports = (DEFAULT_PORTS[scheme][0], DEFAULT_PORTS[scheme][0])
        return cls(scheme, host, ports, network)

    def matches(self, scheme: str, host: str, port: int) -> bool:
        """Return whether the rule applies to this URL, as it is written."""
        if self.scheme not in ("*", scheme) or (self.ports is not None and not self.ports[0] <= port <= self.ports[1]):
            return False
        if self.ports is None and self.scheme == "smtp" and port not in DEFAULT_PORTS["smtp"]:
            return False
        address = address_in(host)
        if self.network is not None and address is not None:
            return address in self.network
        name = host.casefold().rstrip(".")
        return self.host in ("*", name) or (self.host.startswith("*.") and name.endswith(self.host[1:]))

    def names_loopback(self) -> bool:
        """Return whether the rule explicitly names this host."""
        return self.host == "localhost" or (self.network is not None and self.network.is_loopback)


class UrlRules:
    """A list of rules.

    An invalid entry allows nothing. Configurations refuse it (`UrlRule.parse`), but messages of other processes may
    contain it.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Parse the rules.

        Args:
            texts: The rules as written in a configuration file; one that is not valid allows nothing.
        """
        rules = []
        for text in texts:
            with suppress(ValueError):
                rules.append(UrlRule.parse(text))
        self._rules = tuple(rules)

    def allow(self, scheme: str, host: str, port: int) -> bool:
        """Return whether a rule names this URL."""
        return any(rule.matches(scheme, host, port) for rule in self._rules)

    def allow_loopback(self, scheme: str, host: str, port: int) -> bool:
        """Return whether a rule names this URL and explicitly names this host."""
        return any(rule.names_loopback() and rule.matches(scheme, host, port) for rule in self._rules)
