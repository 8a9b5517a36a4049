"""Errors that end the driver process, and the error with which a task ends its topology without a restart."""

from __future__ import annotations

from cep_common.errors import CepError


class SessionLostError(CepError):
    """The Spark session ended unexpectedly; the supervisor restarts the driver."""

    code = "session-lost"


class UnfitPlanError(CepError):
    """The plan cannot run here, so that restarting the topology does not help."""

    code = "unfit-plan"


class DriverReplacedError(CepError):
    """A driver process of the same name that started later has taken over.

    If this one started again it would replace the later one in turn, so the exit code is that of a configuration
    error, and supervisors do not restart it.
    """

    code = "driver-replaced"
    exit_code = 2
