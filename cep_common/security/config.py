"""Configuration of the keys of processes, and of the tokens and certificates of HTTP servers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cep_common.security.web_limits import WebLimits


class SecurityConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configure how connections between processes are protected.

    `keys` is the folder that `cep keys` created, or a copy of the files that a host needs; empty: no keys. Without keys
    a process listens on loopback only, unless it is `insecure`: then it accepts any client from anywhere.
    """

    keys: str = ""
    insecure: bool = False


class ServerSecurity(SecurityConfig, frozen=True, forbid_unknown_fields=True):
    """Security of processes that also serve HTTP.

    `tokens` is the file that `cep token` manages; with it every request needs a token, without it HTTP is served on
    loopback only. `certificate` and `certificate_key` (PEM files) enable HTTPS. `hosts` are further names by which
    clients may call the server. One client may send `requests_per_s` (0: any number). `limits` bounds the resources of
    slow clients and large bodies.
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
