"""The election in a manager's process: queries the database in separate threads, and decides when to lead.

The control loop calls `turn`; nothing here ever makes it wait.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from cep_common.clock import Clock
from cep_common.errors import CepError
from cep_common.ids import Endpoint, InspectionAddress
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.priority import raise_priority
from cep_common.protocol.registry import Rejected
from cep_common.sockets.probe import Probes
from cep_common.sockets.transport import NO_LEADER_KNOWN, NOT_LEADER
from cep_manager.config import ManagerConfig
from cep_manager.election.election import Election
from cep_manager.election.lease_store import LeaseStore
from cep_manager.election.messages import (
    ClaimLease,
    ConfirmLease,
    ElectionTiming,
    GiveBack,
    Instruction,
    Lead,
    LeaderChange,
    Lease,
    ManagerAddress,
    ManagerSighting,
    ProbeHolder,
    ReadLease,
    ReadPlans,
    Request,
    Resign,
)
from cep_manager.log_line import LogLine
from cep_manager.persistence.database import Database
from cep_manager.persistence.node_store import NodeStore
from cep_manager.plans.record import PlanToRun

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

ALONE_LEASES = 5
"""The factor by which the lease of a single manager is longer."""


PROBE_POLL_MS = 20
"""Interval at which the answer to a probe is polled."""


class ElectionStatus(msgspec.Struct, frozen=True):
    """State of the election, for readers in other threads.

    `leader` None: no known leader. `token` and `since_ms` (time of day) are the leader's; `sights` are all managers, at
    the monotonic time `now_ms`. `changes` are the last changes of leader that this manager has seen.
    """

    now_ms: int
    me: ManagerAddress
    leader: ManagerAddress | None = None
    token: int = 0
    since_ms: int = 0
    sights: tuple[ManagerSighting, ...] = ()
    problem: str = ""
    changes: tuple[LeaderChange, ...] = ()


MOST_CHANGES = 100
"""The number of changes of leader that are remembered."""


class Led(msgspec.Struct, frozen=True):
    """This manager leads from now on under `token`, and these are the plans that should run."""

    token: int
    plans: tuple[PlanToRun, ...]


class Resigned(msgspec.Struct, frozen=True):
    """This manager no longer leads."""


class Leadership:
    """One manager's part in the election.

    Only the control loop's thread and the thread that ends it may call `turn`, `settle` and `close`; any thread may
    call the rest.
    """

    def __init__(
        self,
        config: ManagerConfig,
        database: Database,
        clock: Clock,
        read_plans: Callable[[], tuple[PlanToRun, ...]],
        wake: Callable[[], None],
        insight: InspectionAddress | None = None,
        nodes: NodeStore | None = None,
    ) -> None:
        """Prepare the election; nothing runs before `start`.

        `read_plans` is called in a separate thread and may raise CepError. `wake` is called when there is something for
        `turn` to do. Other managers learn that they can read this one's log at `insight`.
        """
        election = config.election
        run, where = (insight.run, insight.endpoint) if insight is not None else (uuid.uuid4().hex, None)
        self.me = ManagerAddress(run, config.control_endpoint(), config.http_address(), where)
        self._named = config.manager_endpoints()
        self._clock = clock
        self._read_plans = read_plans
        self._wake = wake
        self._leases = LeaseStore(database, self.me, clock.now_ms, nodes)
        self.probed_at: Callable[[Endpoint], Endpoint | None] = lambda control: control
        """Where to probe whether the manager with that control plane has ended; None without an address. nowhere."""
        self.before_confirming: Callable[[], None] = lambda: None
        """Called before the database learns of the lease's next length; OSError: it does not learn of it."""
        self.contested: Callable[[], bool] = lambda: True
        """Whether another manager may claim the lease when it expires."""
        lease_ms = election.lease_ms
        pace = ElectionTiming(election.heartbeat_ms, election.poll_ms, lease_ms, ALONE_LEASES * lease_ms)
        self._election = Election(self.me, pace, of_two_nodes=nodes is not None)
        self._plans: tuple[PlanToRun, ...] = ()
        self._reports: queue.SimpleQueue[Callable[[int], list[Instruction]]] = queue.SimpleQueue()
        # A thread of its own, at raised priority: reading a thousand plans must not delay the confirmation of the
        # lease.
        self._lease_thread = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="lease", initializer=raise_priority, initargs=(config.control.priority,)
        )
        self._plans_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-plans")
        self._probes: Probes[tuple[int, int]] = Probes()
        self._settled = threading.Event()
        self._closed = False
        self._changes: deque[LeaderChange] = deque(maxlen=MOST_CHANGES)
        self._seen: Lease | None = None
        self.election_status = ElectionStatus(clock.monotonic_ms(), self.me)

    def leads(self) -> bool:
        """Return whether this manager may act as the leader; ask right before each act."""
        return self._election.leads(self._clock.monotonic_ms())

    def token(self) -> int:
        """Return the token under which this manager leads, or last did."""
        return self._election.token

    def tenure(self) -> tuple[int, int]:
        """Return the token under which this manager leads and the monotonic time until which it does.

        Zeros: it does not lead.
        """
        return self._election.tenure(self._clock.monotonic_ms())

    def managers(self) -> tuple[Endpoint, ...]:
        """Return the control planes of all managers that are known, this one first."""
        seen = tuple(one.manager.control for one in self.election_status.sights)
        return tuple(dict.fromkeys((self.me.control, *seen, *self._named)))

    def refusal(self) -> Rejected:
        """Return the answer of a manager that does not lead to any request."""
        leader = self._election.leader(self._clock.monotonic_ms())
        if leader is None or leader.instance == self.me.instance:
            problem = self.election_status.problem
            return Rejected(NOT_LEADER, f"the database cannot be used: {problem}" if problem else NO_LEADER_KNOWN)
        where = f"{leader.control.host}:{leader.control.port}"
        return Rejected(NOT_LEADER, f"the manager at {where} leads", leader=leader.control)

    def wait_settled(self, timeout_s: float) -> bool:
        """Return whether it was clear whether this manager leads; False when it is not within `timeout_s`."""
        return self._settled.wait(timeout_s)

    def refused(self, token: int, reason: str) -> None:
        """Resign, since something that this manager did under `token` was refused."""
        self._report(lambda _: self._election.refused(token, reason))

    def peer_gone(self) -> None:
        """Claim the lease early: of two managers, the other one has been seen to have ended. Any thread."""
        self._report(self._election.peer_gone)

    def claim_free(self, token: int, beat: int) -> None:
        """Claim the lease now, since it has been seen to be free, with this `token` and `beat`. Any thread."""
        self._report(lambda now_ms: self._election.claim_free(token, beat, now_ms))

    def hand_over(self) -> None:
        """Give the lease back at once and take no further part in the election. Any thread."""
        self._report(lambda _: self._election.leave())

    def wait_ms(self) -> int:
        """Return after how long `turn` must be called at the latest."""
        wait_ms = self._election.wait_ms(self._clock.monotonic_ms())
        return min(wait_ms, PROBE_POLL_MS) if self._probes.pending else wait_ms

    def turn(self) -> list[Led | Resigned]:
        """Return the changes of leadership; call it before anything is done as a leader, and often."""
        changes: list[Led | Resigned] = []
        self._election.contested = self.contested()
        # Time first: what came in while this process was held up does not count for more than it is.
        self._carry_out(self._election.tick(self._clock.monotonic_ms()), changes)
        now_ms = self._clock.monotonic_ms()
        for token, beat in self._probes.refused(now_ms):
            self._carry_out(self._election.holder_gone(token, beat, now_ms), changes)
        while True:
            try:
                report = self._reports.get_nowait()
            except queue.Empty:
                break
            self._carry_out(report(self._clock.monotonic_ms()), changes)
        return changes

    def settle(self) -> None:
        """Publish the state of the election, and wake threads that wait until it is known whether this manager leads.

        Call it after acting on what `turn` returned, so that a leader's plans can be read.
        """
        self._publish(self._clock.monotonic_ms())
        if not self._settled.is_set() and self._election.is_settled(self._clock.monotonic_ms()):
            self._settled.set()

    def close(self) -> None:
        """Give the lease back if it is held, so that another manager need not wait for its end.

        Repeated calls do nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._probes.close()
        self._plans_thread.shutdown(wait=True, cancel_futures=True)
        # Behind a request that may be under way: a claim that took effect after the release would leave the lease with
        # a process that has ended.
        self._lease_thread.submit(self._give_back, self._election.token)
        self._lease_thread.shutdown(wait=True)

    def _publish(self, now_ms: int) -> None:
        election = self._election
        leader = election.leader(now_ms)
        lease = election.lease
        self._note_change(lease)
        self.election_status = ElectionStatus(
            now_ms=now_ms,
            me=self.me,
            leader=leader,
            token=lease.token if lease is not None and leader is not None else 0,
            since_ms=lease.since_ms if lease is not None and leader is not None else 0,
            sights=tuple(election.sights[control] for control in sorted(election.sights)),
            problem=election.problem,
            changes=tuple(self._changes),
        )

    def _note_change(self, lease: Lease | None) -> None:
        before, self._seen = self._seen, lease
        # A lease that was released was handed over in order; only a takeover from a holder is a change to report.
        if before is None or lease is None or before.holder is None or lease.holder is None:
            return
        if lease.token != before.token:
            self._changes.append(LeaderChange(lease.since_ms, lease.token, before.holder.control, lease.holder.control))

    def _carry_out(self, instructions: list[Instruction], changes: list[Led | Resigned]) -> None:
        for instruction in instructions:
            match instruction:
                case ReadLease() | ClaimLease() | ConfirmLease():
                    self._lease_thread.submit(self._ask, instruction)
                case ProbeHolder(token, beat, control):
                    where = self.probed_at(control)
                    if where is not None:
                        self._probes.begin((token, beat), where, self._clock.monotonic_ms())
                case ReadPlans():
                    self._plans_thread.submit(self._read, instruction.token, instruction.changes)
                case Lead(token):
                    # Until the plans are taken over no request is to be sent here, nor to the manager that led before.
                    self.election_status = msgspec.structs.replace(self.election_status, leader=None, token=0)
                    changes.append(Led(token, self._plans))
                case Resign():
                    changes.append(Resigned())
                case GiveBack(token):
                    self._lease_thread.submit(self._give_back, token)
                case LogLine():
                    instruction.write(logger)

    # ---- the database's threads ------------------------------------------------------------------------------------

    def _report(self, report: Callable[[int], list[Instruction]]) -> None:
        self._reports.put(report)
        self._wake()

    def _ask(self, request: Request) -> None:
        try:
            if isinstance(request, ConfirmLease):
                self.before_confirming()
            seen = self._leases.carry_out(request)
        except CepError as error:
            reason = error.message
            self._report(lambda now_ms: self._election.failed(reason, now_ms))
        except OSError as error:
            reason = f"the node's role cannot be written: {error}"
            self._report(lambda now_ms: self._election.failed(reason, now_ms))
        except Exception:
            # The outermost frame of this thread: no caller would see an exception.
            paced_logger.exception("lease not read")
            self._report(lambda now_ms: self._election.failed("the manager failed; see its log", now_ms))
        else:
            self._report(lambda now_ms: self._election.heard(seen, now_ms))

    def _read(self, token: int, changes: int) -> None:
        try:
            plans = self._read_plans()
        except CepError as error:
            paced_logger.problem("plans", "plans not read reason=%r", error.message)
            self.refused(token, error.message)
        except Exception:
            # The border of this thread.
            paced_logger.exception("plans not read")
            self.refused(token, "the manager failed; see its log")
        else:
            paced_logger.over("plans", "plans can be read again")
            self._report(lambda now_ms: self._prepared(token, changes, plans, now_ms))

    def _prepared(self, token: int, changes: int, plans: tuple[PlanToRun, ...], now_ms: int) -> list[Instruction]:
        self._plans = plans
        return self._election.prepared(token, changes, now_ms)

    def _give_back(self, token: int) -> None:
        try:
            self._leases.give_back(token)
        except CepError as error:
            logger.warning("lease not released, it expires by itself reason=%r", error.message)
