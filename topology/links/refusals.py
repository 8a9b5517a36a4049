"""What a client of a worker raises when its link or subscription is refused."""

from __future__ import annotations

from cep_common.errors import InputError, PeerError
from cep_common.protocol.registry import Rejected

CONNECT_AGAIN = frozenset({"leaving", "starting", "link-unknown", "link-expired"})
"""Refusals that are about the worker or the connection and not about what the client asks for or sends: the worker
shuts down or has just started, or no longer knows the link. The same request succeeds later, or at another worker."""


def refusal_error(refusal: Rejected, where: str) -> InputError | PeerError:
    """Return the error for `refusal` by the worker at `where`: PeerError when connecting again is all that it takes."""
    if refusal.code in CONNECT_AGAIN:
        return PeerError(f"the worker at {where} ended the connection: {refusal.reason} [{refusal.code}]")
    return InputError(refusal.code.removeprefix("frame-"), refusal.reason)
