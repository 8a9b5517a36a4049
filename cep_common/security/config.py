"""Where a process finds its keys, and HTTP servers their tokens and certificates."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.security.web_limits import WebLimits


class SecurityConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How connections between processes are protected.

    `keys` is the folder that `cep keys` made, or a copy of what a host needs of it; empty is none. Without keys a
    process listens on loopback only, unless it is `insecure`: then it accepts every client from everywhere.
    """

    keys: str = ""
    insecure: bool = False


class ServerSecurity(SecurityConfig, frozen=True, forbid_unknown_fields=True):
    """Security of processes that also serve HTTP.

    `tokens` is the file that `cep token` keeps; with it every request needs a token, without it HTTP is on loopback
    only. `certificate` and `certificate_key` (PEM files) make it HTTPS. `hosts` are further names by which clients
    may call the server, and one client makes `requests_per_s` at most (0: any). `limits` bounds what slow clients and
    large bodies may use.
    """

    tokens: str = ""
    certificate: str = ""
    certificate_key: str = ""
    hosts: tuple[str, ...] = ()
    requests_per_s: Annotated[int, msgspec.Meta(ge=0)] = 50_000
    limits: WebLimits = WebLimits()

    def __post_init__(self) -> None:
        """Check that certificate and key are configured together.

        Raises:
            ValueError: Only one of them is there.
        """
        if bool(self.certificate) != bool(self.certificate_key):
            raise ValueError("certificate: goes together with certificate_key; name both or none")
