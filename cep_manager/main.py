"""The manager process: from its configuration to an orderly end."""

from __future__ import annotations

import itertools
import logging
import signal
import sys
import threading
from contextlib import ExitStack

import msgspec

from cep_common.clock import Clock, SystemClock
from cep_common.inspection.endpoint import Inspection
from cep_common.process.freed_memory import give_back_freed_memory, share_freed_memory
from cep_common.process.priority import raise_process_priority
from cep_common.security.web import Gate
from cep_common.web.server import WebServer
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.first_admin import welcome_first_admin
from cep_manager.commands.stored_plans import StoredPlans
from cep_manager.config import ManagerConfig
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.errors import ManagerUnavailableError
from cep_manager.events.parquet import MOST_FILE_BYTES
from cep_manager.facade import ManagerFacade
from cep_manager.persistence.database import Database
from cep_manager.topics.cluster import KafkaCluster
from cep_manager.topics.keeper import TopicKeeper
from cep_manager.topics.store import TopicStore
from cep_manager.web.app import create_app

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.001
"""Threads take turns so often: while plans are compiled, heartbeats and the lease wait for 0.1 s at most, not 0.3 s."""

LOOK_AFTER_S = 0.5
"""How often the main thread makes sure that the control loop lives."""

GIVE_BACK_LOOKS = 20
"""After so many of these looks freed memory goes back to the system: to take the lead, or to answer for many plans,
takes megabytes for a moment."""


class ManagerProcess:
    """Store, control loop and web server of one manager. `close` may be called at any time, more than once."""

    def __init__(self, config: ManagerConfig, clock: Clock | None = None, insight: Inspection | None = None) -> None:
        """Start everything; the manager answers on return. `insight` is this process's own log and configuration.

        Raises PlanStoreError, PortInUseError; everything that was started is stopped then.
        """
        clock = clock or SystemClock()
        with ExitStack() as stack:
            database = Database(config.database, config.election.lease_ms)
            stack.callback(database.close)
            plans = StoredPlans(config.scripts, config.kafka)
            self.service = ManagerControlLoop(config, database, clock, plans.read, insight)
            stack.callback(self.service.stop)
            topics = TopicKeeper(config.kafka, TopicStore(database), KafkaCluster(config.kafka))
            self.manager = ManagerFacade(config, database.address(), self.service, clock, insight, topics)
            self.manager.compilers.warm_up()
            http = config.http
            names = (*config.security.hosts, config.http_name())
            login = config.accounts.login
            gate = Gate(msgspec.structs.replace(config.security, hosts=names), http.host, clock, users=login)
            accounts = Accounts(database, config.accounts, clock)
            app = create_app(self.manager, http.body_bytes, gate, accounts, secure=bool(config.security.certificate))
            where = "http.port (and http.host)"
            # The application limits each call itself, with its own messages.
            body_bytes = max(2 * http.body_bytes, MOST_FILE_BYTES)
            web = WebServer(
                app, http.host, http.port, http.threads, body_bytes, config.security, where, gate.admit_body
            )
            stack.callback(web.stop)
            stack.callback(self.manager.end_streams)
            self.service.start()
            stack.callback(self.manager.recorder.close)
            self.manager.recorder.start()
            stack.callback(self.manager.scaler.close)
            self.manager.scaler.start()
            if config.kafka.servers:
                stack.callback(self.manager.sweeper.close)
                self.manager.sweeper.start()
            if login:
                welcome_first_admin(accounts, config.http_address())
            self.manager.compilers.await_ready()
            web.start()
            if config.plan_folder.path:
                stack.callback(self.manager.folder.stop)
                self.manager.folder.start()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Close the web, then the control plane, then the store."""
        self._stack.close()


def run(config: ManagerConfig, insight: Inspection | None = None) -> None:
    """Run a manager until SIGTERM or SIGINT, then leaves in order; call it from the main thread.

    Raises PlanStoreError or PortInUseError when it cannot start, ManagerUnavailableError when its control loop dies.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_process_priority(config.control.priority)
    share_freed_memory()
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        process = ManagerProcess(config, insight=insight)
        try:
            logger.info(
                "manager ready control=%s:%d console=%s://%s:%d",
                config.host,
                config.control.port,
                "https" if config.security.certificate else "http",
                config.http.host,
                config.http.port,
            )
            for look in itertools.count(1):
                if stop.wait(LOOK_AFTER_S):
                    break
                if not process.service.alive():
                    raise ManagerUnavailableError("the control loop has ended; the log says why")
                if look % GIVE_BACK_LOOKS == 0:
                    give_back_freed_memory()
            logger.info("manager stopping")
        finally:
            process.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
