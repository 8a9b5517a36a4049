"""How a process is told of its keys."""

from __future__ import annotations

import msgspec


class SecurityConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`keys` is the folder that `cep keys` made, or a copy of what a host needs of it; empty is none. Without keys a
    process listens on loopback only, unless `insecure` lets anybody in from anywhere."""

    keys: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.keys and self.insecure:
            raise ValueError("insecure: has no meaning where there are keys; remove one of both")
