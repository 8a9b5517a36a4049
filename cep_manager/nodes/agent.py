"""Publishes to the other processes of this node what it may do, and records the requests of its worker.

`role.json` is written by a thread that never waits for the database: its deadline is the lease's. Before the database
learns of a shorter lease, the thread that sends the request writes the earlier deadline.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from cep_common.clock import Clock
from cep_common.errors import CepError
from cep_common.ids import Endpoint
from cep_common.monitoring.paced_log import PacedLog
from cep_common.nodes.config import ManagerNode
from cep_common.nodes.files import MIRROR_FILE, ROLE_FILE, FileView, MirrorReport, NodeOrder, NodeRole, write_file
from cep_common.nodes.orders import ORDER_VALID_S
from cep_common.sockets.probe import Probes
from cep_manager.election.leadership import Leadership
from cep_manager.nodes.rolling import ROLLING_MS, WAITS_TO_RESTART, RollingRestart
from cep_manager.persistence.node_store import NodeStore, StoredNode

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

LOOK_S = 0.02
NODES_S = 0.5
"""How often the nodes are read."""
WATCH_S = 0.1
"""How often a passive node checks whether the active one has ended, or has handed over."""
LEAVES_MS = 90_000
"""A node that ends in order has ended by then."""


class NodeAgent:
    """Keeps the state of a node in files and database, each with its own thread, from `start` to `close`."""

    def __init__(self, config: ManagerNode, store: NodeStore, leadership: Leadership, clock: Clock) -> None:
        self._folder = Path(config.folder)
        self._store = store
        self._leadership = leadership
        self._clock = clock
        self._view = FileView(self._folder / MIRROR_FILE, MirrorReport)
        self._written: NodeRole | None = None
        self._writing = threading.Lock()
        self._handled: tuple[int, int, int] = (0, 0, 0)
        """Token, process and number of the newest request that was recorded."""
        self._in_sync_under = 0
        """The newest token under which the other node was, or may have been, recorded as in sync."""
        self._asked = False
        self._read_at = self._watched_at = 0.0
        self._handed_over = 0
        """The token under which this node has handed over."""
        self._probes: Probes[str] = Probes()
        self._waiting_reads: set[Callable[[], None]] = set()
        self.nodes: tuple[StoredNode, ...] = ()
        self.report: MirrorReport | None = None
        self.order: NodeOrder = ""
        """The order that this node carries out; the processes of the node begin without an order."""
        self._order_until_ms = 0
        self.rolling: RollingRestart | None = None
        self.orders: Mapping[str, NodeOrder] = {}
        """The commands to nodes in the database, by name."""
        self._database = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nodes")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-agent", daemon=True)

    @property
    def name(self) -> str:
        """Return the name of this node."""
        return self._store.name

    @property
    def role(self) -> NodeRole | None:
        """Return the node's role as last assigned."""
        return self._written

    def guard_of(self, _control: Endpoint) -> Endpoint | None:
        """Return the guard port of the other node, whose manager is the only other one; None when none is known."""
        return next((node.guard for node in self.nodes if node.name != self._store.name), None)

    def is_contested(self) -> bool:
        """Return whether the other node may claim the lease: it is in sync, or is about to be recorded so.

        If not, no node would be active if this one resigned because the database is slow. Any thread.
        """
        # The claim has recorded that the other node lacks events; what was read of the nodes before says otherwise.
        if self._in_sync_under != self._leadership.token():
            return False
        return self._asked or not self.nodes or any(one.in_sync for one in self.nodes if one.name != self._store.name)

    def write_deadline(self) -> None:
        """Write an earlier end of the lease than the processes of this node know. Any thread.

        Call it before the database learns of a shorter lease: while the disk is slow, the other node could claim that
        before the processes of this one know that they have less time. Raises OSError.
        """
        with self._writing:
            written, (token, until_ms) = self._written, self._leadership.tenure()
            if written is not None and written.token == token and written.until_ms > until_ms:
                self._write(msgspec.structs.replace(written, until_ms=until_ms))

    def restart_all(self, peer: str) -> None:
        """Restart the node `peer`, and this one when that is back. Raises PlanStoreError."""
        token, _ = self._leadership.tenure()
        self.give_order(peer, "restart")
        until_ms = self._clock.monotonic_ms() + ROLLING_MS
        self.rolling = RollingRestart(token, self._clock.now_ms(), self._managers(), until_ms)

    def _managers(self) -> frozenset[str]:
        return frozenset(sight.manager.instance for sight in self._leadership.election_status.sights)

    def under_way(self) -> Mapping[str, str]:
        """Return the orders that nodes have not completed yet, by name, for display."""
        texts = {"restart": "restarts", "stop": "is shut down", "": ""}
        found = {name: texts[order] for name, order in self.orders.items()}
        if self.order:
            found[self.name] = texts[self.order]
        elif self.rolling is not None:
            found[self.name] = WAITS_TO_RESTART
        return found

    def give_order(self, name: str, order: NodeOrder) -> None:
        """Have node `name` restarted or stopped, in place of both in turn. Raises PlanStoreError."""
        self.rolling = None
        if name == self._store.name:
            self._take(order)
            return
        self._store.give_order(name, order)
        self.orders = {**self.orders, name: order}

    def start(self) -> None:
        """Begin. Raises PlanStoreError, and ConfigError when this node cannot be part of the group."""
        self._store.register(self._clock.now_ms())
        self._store.take_order()  # one that was given before the node started is done with
        self._write_role(NodeRole(self._store.name))
        self._thread.start()

    def close(self) -> None:
        """Notify the other processes that this node is not active, and end."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._database.shutdown(wait=True, cancel_futures=True)
        self._probes.close()
        self._write_role(NodeRole(self._store.name))

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            try:
                self._turn()
            except OSError as error:  # the deadline passes then, and the node is passive
                paced_logger.problem(
                    "role", "the node's role cannot be written: folder=%s reason=%s", self._folder, error
                )

    def _turn(self) -> None:
        token, until_ms = self._leadership.tenure()
        if token == self._handed_over:
            token = until_ms = 0
        report = self.report = self._view.read()
        if time.monotonic() - self._read_at >= NODES_S:
            self._read_at = time.monotonic()
            self._submit_read(self._read)
        if not token:
            self._watch_the_active_one()
        elif report is not None and (report.state, report.token) == ("left", token) and self.order:
            self._hand_over(token)
            return
        if report is not None and token and report.token == token and report.request:
            wanted = (token, report.process, report.request)
            if wanted != self._handled and not self._asked:
                self._answer(wanted, in_sync=report.wants_in_sync)
        peer = next((node for node in self.nodes if node.name != self._store.name), None)
        self._forget_old_order()
        rolling = self.rolling
        reason = rolling.refusal(token, self._clock.monotonic_ms()) if rolling is not None else ""
        if reason:
            logger.warning("this node does not restart after the other one: %s", reason)
            self.rolling = None
        elif (
            rolling is not None
            and peer is not None
            and peer.name not in self.orders
            and rolling.is_my_turn(report, self._managers())
        ):
            self._take("restart")
        handled = self._handled if self._handled[0] == token else (0, 0, 0)
        self._write_role(
            NodeRole(
                node=self._store.name,
                token=token,
                until_ms=until_ms,
                peer=peer.name if peer is not None else "",
                peer_sync=peer.sync if peer is not None else None,
                peer_in_sync=peer is not None and peer.in_sync,
                answered=handled[2],
                answered_process=handled[1],
                order=self.order,
                order_until_ms=self._order_until_ms,
            )
        )

    def _answer(self, wanted: tuple[int, int, int], *, in_sync: bool) -> None:
        """Have the request of the worker recorded, unless the transaction that claimed the lease has done so."""
        token = wanted[0]
        if not in_sync and self._in_sync_under != token:
            self._handled = wanted  # a node that has just taken over accepts events without waiting for the database
            return
        if in_sync:
            self._in_sync_under = token
        self._asked = True
        self._submit(lambda: self._record(wanted, in_sync=in_sync))

    def _watch_the_active_one(self) -> None:
        """Claim the lease soon after the active node has ended or released it, as no node is active meanwhile."""
        peer = next((node for node in self.nodes if node.name != self._store.name), None)
        now_ms = self._clock.monotonic_ms()
        if time.monotonic() - self._watched_at >= WATCH_S:
            self._watched_at = time.monotonic()
            self._submit_read(self._look_for_a_free_lease)
            if peer is not None:
                self._probes.begin(peer.name, peer.guard, now_ms)
        if self._probes.refused(now_ms):
            self._leadership.peer_gone()

    def _hand_over(self, token: int) -> None:
        """Give the lease back: the worker has closed its ports, and the other node has every event."""
        # Before the lease is free: nothing of this node is active then. If the disk is full the next turn tries again.
        self._write_role(NodeRole(self._store.name))
        self._handed_over = token
        self._leadership.hand_over()

    def _take(self, order: NodeOrder) -> None:
        if not self.order:
            self._order_until_ms = self._clock.monotonic_ms() + ORDER_VALID_S * 1_000
        self.order = order

    def _forget_old_order(self) -> None:
        # A node that ends in order still has this manager for a while: it is no news then that the order was taken.
        if self.order and self._clock.monotonic_ms() >= self._order_until_ms + LEAVES_MS:
            logger.warning(
                "an order has expired, it was not carried out within %d s: order=%s", ORDER_VALID_S, self.order
            )
            self.order, self.rolling = "", None

    def _write_role(self, role: NodeRole) -> None:
        with self._writing:
            token, until_ms = self._leadership.tenure()  # it may have become shorter since the role was made
            if role.token == token and role.until_ms > until_ms:
                role = msgspec.structs.replace(role, until_ms=until_ms)
            if role != self._written:
                self._write(role)

    def _write(self, role: NodeRole) -> None:
        write_file(self._folder / ROLE_FILE, role)
        self._written = role

    # ---- the database's thread --------------------------------------------------------------------------------------

    def _submit(self, task: Callable[[], None]) -> None:
        self._database.submit(self._guarded, task)

    def _submit_read(self, task: Callable[[], None]) -> None:
        """Submit the task unless it waits already: a database that does not answer must not be asked in a row then."""
        if task not in self._waiting_reads:
            self._waiting_reads.add(task)
            self._submit(task)

    def _guarded(self, task: Callable[[], None]) -> None:
        self._waiting_reads.discard(task)
        try:
            task()
        except CepError as error:
            paced_logger.problem("nodes", "nodes cannot be read or recorded: reason=%s", error.message)
        except Exception:  # the border of this thread
            paced_logger.exception("nodes cannot be read or recorded")

    def _read(self) -> None:
        self.nodes = self._store.nodes()
        self.orders = self._store.orders()
        if self._store.name in self.orders:
            self._take(self._store.take_order())

    def _look_for_a_free_lease(self) -> None:
        may_claim = any(node.in_sync for node in self.nodes if node.name == self._store.name)
        if may_claim and (free := self._store.free_lease()) is not None:
            self._leadership.claim_free(*free)

    def _record(self, wanted: tuple[int, int, int], *, in_sync: bool) -> None:
        try:
            if self._store.record(wanted[0], in_sync=in_sync, now_ms=self._clock.now_ms()):
                self._read()
                self._handled = wanted
                say = logger.info if in_sync else logger.warning
                say("the other node %s", "has every accepted event" if in_sync else "now lacks accepted events")
        finally:
            self._asked = False
