"""Errors of requests in Storm's format."""

from __future__ import annotations

from cep_manager.errors import BadRequestError, UnknownPlanError


class StormRequestError(BadRequestError):
    """The request asks for what Storm has and this system has not, or cannot be understood."""


class NotAliveError(UnknownPlanError):
    """No topology has the id."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"NotAliveException(msg:{identifier} is not alive)")
