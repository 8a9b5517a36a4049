"""Requests that are handled on the server's own thread, without the application."""

from __future__ import annotations

from typing import Protocol

from cep_common.web.requests import Exchange


class DirectCalls(Protocol):
    """Handles some requests on the thread of the server's loop."""

    def take(self, exchange: Exchange) -> bool:
        """Return whether it handles the exchange: now, by setting the answer, or later, by calling `Exchange.finish`.

        Must not block. The application handles the other exchanges.
        """
