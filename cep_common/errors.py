"""The errors of the running system, all under one base.

    CepError
    ├── ConfigError             a configuration key is unknown, missing or wrong
    ├── DecodeError             bytes from outside are not a message of the protocol
    ├── PeerError               a peer cannot be reached, or does not answer in time
    ├── UnauthorisedError       a peer sent what its role may not
    ├── RequestRejectedError    a peer understood the request and refused it
    ├── PortInUseError          no free port where a process should listen
    └── InputError              events or requests from outside that do not fit (stream, attribute, type, size)

Errors in the text of a plan are `siddhi.errors.SiddhiError`; those of the query plan are `query_plan`'s own.
"""

from __future__ import annotations

from typing import ClassVar


class CepError(Exception):
    """An error that a user can act on: a stable `code`, a message that says what, where and what to do."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        """Create the error.

        Args:
            message: What happened, where, and what to do.
        """
        super().__init__(message)
        self.message = message


class ConfigError(CepError):
    """Configuration that cannot be used; the message names the dotted key."""

    code = "config"
    exit_code = 2


class DecodeError(CepError):
    """Bytes that are not a message of the protocol, or a message that is too large."""

    code = "decode"


class UnauthorisedError(CepError):
    """The caller's role does not permit the request."""

    code = "not-authorised"


class PeerError(CepError):
    """A peer cannot be reached, or did not answer in time."""

    code = "peer-unreachable"
    exit_code = 3


class RequestRejectedError(CepError):
    """A peer refused the request; `reason_code` is the peer's own stable code."""

    code = "rejected"

    def __init__(self, reason_code: str, message: str) -> None:
        """Create the error.

        Args:
            reason_code: The reason as a code that programs can compare.
            message: The reason in words.
        """
        super().__init__(message)
        self.reason_code = reason_code


class PortInUseError(CepError):
    """The port, or every port of the range, is in use."""

    code = "port-in-use"


class InputError(CepError):
    """Events from outside that do not fit; `reason_code` says how (`unknown-stream`, `wrong-type`, …)."""

    code = "input"

    def __init__(self, reason_code: str, message: str) -> None:
        """Create the error.

        Args:
            reason_code: The reason as a code that programs can compare.
            message: The reason in words.
        """
        super().__init__(message)
        self.reason_code = reason_code
