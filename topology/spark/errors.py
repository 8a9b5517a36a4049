"""Errors that end the driver process."""

from __future__ import annotations

from cep_common.errors import CepError


class SessionLostError(CepError):
    """The Spark session is over, though nobody stopped it here; whoever supervises the driver starts it again."""

    code = "session-lost"


class DriverReplacedError(CepError):
    """A later process of the same name is the driver now. To start this one again would only replace that one in turn,
    so the exit code is that of a configuration error, and supervisors leave it alone."""

    code = "driver-replaced"
    exit_code = 2
