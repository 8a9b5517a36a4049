"""Requests that are answered without the application."""

from __future__ import annotations

from typing import Protocol

from cep_common.web.requests import Exchange


class DirectCalls(Protocol):
    """Answers some requests on the thread of the server's loop."""

    def take(self, exchange: Exchange) -> bool:
        """Return whether it answers the exchange: now, by setting its answer, or later, by `Exchange.finish`.

        Must not block. What it does not take the application answers.
        """
