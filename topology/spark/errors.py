"""Errors that end the driver process, and the error with which a task ends its topology without a restart."""

from __future__ import annotations

from cep_common.errors import CepError


class SessionLostError(CepError):
    """The Spark session has ended without having been stopped here; the driver's supervisor restarts it."""

    code = "session-lost"


class UnfitPlanError(CepError):
    """A task has found that the plan cannot run here: starting the topology again does not help."""

    code = "unfit-plan"


class DriverReplacedError(CepError):
    """A later process of the same name is the driver now.

    If this one started again it would replace the later one in turn, so the exit code is that of a configuration
    error, and supervisors do not restart it.
    """

    code = "driver-replaced"
    exit_code = 2
