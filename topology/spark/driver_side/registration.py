"""The driver's registration with the leading manager: when one is due, and what the manager's answer means."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from cep_common.clock import Clock
from cep_common.errors import PeerError, RequestRejectedError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.protocol.drivers import DriverRegistered, RegisterDriver, SavepointReport, TopologyReport
from cep_common.sockets.transport import ControlClient
from topology.driver.fencing import OrderFence
from topology.spark.driver_side.reports import IncrementalReports, RegistrationReport
from topology.spark.errors import DriverReplacedError

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

RETRY_MS = 500
"""Time after a registration that no manager accepted until the next one.

The driver continues to run its topologies meanwhile.
"""
CHANGES_PAUSE = 2
"""The next registration with changes waits this many times as long as the last one took.

While a thousand plans start there are always changes, and the manager checks all plans after each registration.
"""
REPLACED = "driver-replaced"


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The parts of the driver's status whose changes are reported at once; `hosts` is compared only."""

    topologies: tuple[TopologyReport, ...]
    savepoints: tuple[SavepointReport, ...]
    hosts: object


class ManagerRegistration:
    """Registers the driver with the leader of the managers that `fence` follows. Belongs to the driver's thread."""

    def __init__(
        self, fence: OrderFence, clock: Clock, managers: tuple[Endpoint, ...], request_timeout_ms: int
    ) -> None:
        """Create a registration that is due at once.

        Args:
            fence: Which managers to follow; it gets the system and the token of each answer.
            clock: The driver's clock.
            managers: The configured managers, until the leader names all of them.
            request_timeout_ms: The time-out of a request: an upper bound of the pause after a failed one.
        """
        self._fence = fence
        self._clock = clock
        self._retry_ms = min(RETRY_MS, request_timeout_ms)
        self.managers = managers
        """All known managers."""
        self.answered = True
        """Whether the last registration was answered."""
        self.due_ms = 0
        """Monotonic time of the next heartbeat."""
        self.changes_due_ms = 0
        """Monotonic time from which changes may be reported before the next heartbeat."""
        self.changes_wait = False
        """Whether there are changes that wait for `changes_due_ms`."""
        self._reported: DriverStatus | None = None
        self._incremental = IncrementalReports()

    def is_registered(self) -> bool:
        """Return whether a manager has accepted the last registration."""
        return self._reported is not None and self.answered

    def is_due(self, status: DriverStatus, now_ms: int) -> bool:
        """Return whether to register now: for a heartbeat, or because `status` has changed."""
        changed = self.answered and status != self._reported
        self.changes_wait = changed and now_ms < self.changes_due_ms
        return now_ms >= self.due_ms or (changed and not self.changes_wait)

    def send(
        self,
        client: ControlClient,
        status: DriverStatus,
        message: Callable[[RegistrationReport], RegisterDriver],
        now_ms: int,
    ) -> None:
        """Register, and apply the answer.

        Args:
            client: The connection to the managers.
            status: The present status.
            message: Returns the registration with the given part of the status.
            now_ms: The monotonic time.

        Raises:
            DriverReplacedError: A driver of the same name that started later has taken over.
        """
        self._exchange(client, status, message, now_ms)
        ended_ms = self._clock.monotonic_ms()
        self.changes_due_ms = ended_ms + CHANGES_PAUSE * (ended_ms - now_ms)

    def _exchange(
        self,
        client: ControlClient,
        status: DriverStatus,
        message: Callable[[RegistrationReport], RegisterDriver],
        now_ms: int,
    ) -> None:
        part = self._incremental.part(status.topologies, status.savepoints)
        try:
            answer = client.request(message(part))
        except (PeerError, RequestRejectedError) as error:
            if isinstance(error, RequestRejectedError) and error.reason_code == REPLACED:
                raise DriverReplacedError(str(error)) from error
            paced_logger.problem("manager", "manager did not take the registration: %s", error)
            self.answered = False
            self._incremental.unanswered()
            self.due_ms = self._clock.monotonic_ms() + self._retry_ms
            return
        if isinstance(answer, DriverRegistered) and not self._fence.follows(answer.system):
            text = (
                "the manager is of another system, its commands are refused: its_system=%s followed_system=%s; "
                "start the manager on its former "
                "database, or restart this driver"
            )
            paced_logger.problem("system", text, answer.system, self._fence.system, level=logging.ERROR)
            self._try_another(client)
            return
        if isinstance(answer, DriverRegistered) and not self._fence.admits(answer.token):
            paced_logger.problem("manager", "manager led before: token=%d current=%d", answer.token, self._fence.token)
            self._try_another(client)
            return
        paced_logger.over("manager", "a manager responds again: manager=%s", client.manager().url())
        self._reported, self.managers, self.answered = status, client.managers(), True
        if isinstance(answer, DriverRegistered):
            known = self._incremental.answered(answer.knows)
            unknown = not part.whole and not known  # another manager leads now and needs a complete report at once
            self.due_ms = now_ms if unknown else now_ms + answer.heartbeat_ms

    def _try_another(self, client: ControlClient) -> None:
        client.leave()
        self.due_ms = self._clock.monotonic_ms() + RETRY_MS
