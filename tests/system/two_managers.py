"""A system with two managers as processes of their own, on one PostgreSQL database, and a flow of numbered events."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests
from late_plan import PLAN

from cep_cli.client.rest import ManagerClient
from cep_cli.system.local_system import LocalSystem, Ports
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

POLL_S = 0.02
EVERY_S = 0.01
LAST_EVENTS_S = 10.0


class ManagerPair(LocalSystem):
    """The system of `LocalSystem`, whose manager is called `one`; `two` is started beside it."""

    def __init__(self, folder: Path, database: str) -> None:
        super().__init__(folder, Ports.free())
        self.database = database
        self.other = Ports.free()
        self._two: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> ManagerClient:
        return ManagerClient(f"{self.url('one')},{self.url('two')}")

    def url(self, manager: str) -> str:
        return f"http://127.0.0.1:{(self.ports if manager == 'one' else self.other).console}"

    def log(self, manager: str) -> str:
        name = "manager.log" if manager == "one" else "manager-two.log"
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def start_manager(self, manager: str) -> None:
        """The manager runs and is on standby, or leads."""
        if manager == "one":
            self.start("manager")
        else:
            settings = {
                **self._settings(),
                "CEP_MANAGER__CONTROL__PORT": str(self.other.control),
                "CEP_MANAGER__HTTP__PORT": str(self.other.console),
            }
            with (self.folder / "manager-two.log").open("ab") as log:
                self._two = subprocess.Popen(
                    [sys.executable, "-m", "cep_cli", "manager"], env={**self.environment, **settings},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        self.until(lambda: self.leads(manager) is not None, 30.0)

    def signal_manager(self, manager: str, number: signal.Signals) -> None:
        process = self._two if manager == "two" else self._children["manager"].process
        assert process is not None
        process.send_signal(number)
        if number is signal.SIGKILL:
            process.wait()

    def leads(self, manager: str) -> bool | None:
        """Whether the manager says that it leads; None when it does not answer."""
        try:
            return bool(requests.get(f"{self.url(manager)}/api/v1/health", timeout=0.3).json()["leads"])
        except requests.RequestException:
            return None

    def leader(self) -> str:
        """The manager that leads."""
        return self.until(lambda: next((one for one in ("one", "two") if self.leads(one)), None), 20.0)[0]

    def until(self, found: Callable[[], Any], within_s: float) -> tuple[Any, float]:
        """What `found` gives once it gives something, and how long that took."""
        since = time.monotonic()
        while not (value := found()):
            assert time.monotonic() - since < within_s, self.log("one")[-2_000:] + self.log("two")[-2_000:]
            time.sleep(POLL_S)
        return value, time.monotonic() - since

    def stop(self) -> None:
        if self._two is not None:
            self._two.send_signal(signal.SIGCONT)
            self._two.terminate()
            self._two.wait(15)
            self._two = None
        LocalSystem.stop(self)

    def _settings(self) -> dict[str, str]:
        return {**LocalSystem._settings(self), "CEP_MANAGER__DATABASE__URL": self.database}


@dataclass
class Flow:
    """Numbered events that are sent all the time, and when each came out."""

    sent: int = 0
    came: list[int] = field(default_factory=list)
    longest_pause_s: float = 0.0

    def assert_whole(self) -> None:
        assert self.came == list(range(self.sent)), "each event came once, in order"


@contextmanager
def steady_flow(system: LocalSystem) -> Iterator[Flow]:
    """A hundred events a second go through the plan; all of them have come when the context ends."""
    flow, stopping, ready, all_sent = Flow(), threading.Event(), threading.Event(), threading.Event()
    schema = fetch_schema(system.worker_http, f"{PLAN}/Departures")

    def listen() -> None:
        with EventListener(system.egress, f"{PLAN}/Late") as listener:
            ready.set()
            last, deadline = None, None
            while deadline is None or (len(flow.came) < flow.sent and time.monotonic() < deadline):
                batch = listener.receive(200)
                now = time.monotonic()
                if all_sent.is_set() and deadline is None:
                    deadline = now + LAST_EVENTS_S
                if batch is not None:
                    flow.longest_pause_s = max(flow.longest_pause_s, now - last if last is not None else 0.0)
                    last = now
                    flow.came += [delay - 100 for delay in batch.column("dep_delay").to_pylist()]

    def send() -> None:
        with EventSender(system.ingress, schema, "flow") as sender:
            while not stopping.wait(EVERY_S):
                row = {
                    "_timestamp": time.time_ns() // 1_000_000,
                    "_kind": 0,
                    "carrier": "UA",
                    "dep_delay": 100 + flow.sent,
                }
                sender.send(pa.RecordBatch.from_pylist([row], schema=sender.arrow_schema))
                flow.sent += 1

    listening, sending = threading.Thread(target=listen), threading.Thread(target=send)
    listening.start()
    ready.wait(10)
    sending.start()
    try:
        yield flow
    finally:
        stopping.set()
        sending.join()
        all_sent.set()  # before, the last event may have been sent and not been counted
        listening.join()
