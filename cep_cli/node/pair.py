"""Two nodes on this machine, at 127.0.0.1 and 127.0.0.2, for `make demo-ha` and fault-injection tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
import yaml

from cep_cli.client.rest import ManagerClient
from cep_cli.system.local_system import LocalSystemError
from cep_common.nodes.files import MIRROR_FILE, ROLE_FILE, FileView, MirrorReport, NodeRole
from cep_common.nodes.role_watch import monotonic_ms

HOSTS = ("127.0.0.1", "127.0.0.2")
START_S = 120.0
LOOK_S = 0.02
SEND_S = 5.0


@dataclass(slots=True)
class PairNode:
    """One of the two nodes, whose processes can be started, killed, suspended and resumed."""

    name: str
    host: str
    folder: Path
    file: Path
    console: int
    http: int
    process: subprocess.Popen[bytes] | None = None
    stopped: list[int] = field(default_factory=list)

    @property
    def role(self) -> NodeRole | None:
        """Return the node's role."""
        return FileView(self.folder / ROLE_FILE, NodeRole).read()

    @property
    def mirror(self) -> MirrorReport | None:
        """Return the state of its worker's mirror."""
        return FileView(self.folder / MIRROR_FILE, MirrorReport).read()

    @property
    def client(self) -> ManagerClient:
        """Return a client of its manager."""
        return ManagerClient(f"http://{self.host}:{self.console}")

    @property
    def events(self) -> str:
        """Return where its worker accepts events over HTTP when it is active."""
        return f"http://{self.host}:{self.http}/events"

    def is_active(self) -> bool:
        """Return whether the node is active now."""
        role = self.role  # the file of a killed node remains
        return self.process is not None and role is not None and role.is_active(monotonic_ms())

    def start(self) -> None:
        """Start `cep node`."""
        # It removes the file, too, but not before its interpreter is up: what was killed would look active until then.
        (self.folder / ROLE_FILE).unlink(missing_ok=True)
        with self.file.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "cep_cli", "node", "--config", str(self.file)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill all its processes at once, as a power failure would."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self.process = None

    def hang(self) -> None:
        """Suspend all its processes until `wake`."""
        self.stopped = self.processes()
        for process in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def wake(self) -> None:
        """Resume its processes."""
        stopped, self.stopped = self.stopped, []
        for process in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    def stop(self) -> None:
        """End the node in order."""
        if self.process is None:
            return
        self.wake()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def processes(self) -> list[int]:
        """Return the ids of its processes, the supervisor first."""
        if self.process is None:
            return []
        children: dict[int, list[int]] = {}
        for process, parent in _parents():
            children.setdefault(parent, []).append(process)
        found = [self.process.pid]
        for process in found:
            found += children.get(process, [])
        return found


class NodePair:
    """Both nodes, in `folder`. Leave the context to end what is still running."""

    def __init__(self, folder: Path, ports: Mapping[str, int] | None = None, **settings: Any) -> None:
        """`ports` are those of both nodes, `sync` that of event-sync servers; `settings` replace keys of node.yaml."""
        self.folder = folder
        ports = dict(ports or {})
        sync = ports.pop("sync", 9893)
        self.nodes: list[PairNode] = []
        for number, host in enumerate(HOSTS, start=1):
            name = f"node-{number}"
            file = folder / f"{name}.yaml"
            values: dict[str, Any] = {
                "wso2.carbon": {"id": name},
                "host": host,
                "folder": str(folder / name),
                "login": False,
                "ports": ports,
                "cluster.config": {
                    "groupId": "demo",
                    "strategyConfig": {"datasource": f"sqlite:///{folder.resolve()}/cluster/cluster.db"},
                },
                "deployment.config": {"type": "ha", "eventSyncServer": {"port": sync}},
                "driver": {"spark": {"master": "local[2]"}, "checkpoint": {"interval_ms": 2_000}},
                "worker": {"sinks": {"folders": [str(folder.resolve())]}},
                **settings,
            }
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(yaml.safe_dump(values), encoding="utf-8")
            console, http = ports.get("console", 9080), ports.get("http", 8006)
            self.nodes.append(PairNode(name, host, folder / name, file, console, http))

    def __enter__(self) -> Self:
        """Return the pair; its nodes are started one by one."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop both nodes."""
        for node in self.nodes:
            node.stop()

    def start(self) -> None:
        """Start both; return when one protects the other."""
        for node in self.nodes:
            node.start()
        self.await_protected()

    def active(self) -> PairNode | None:
        """Return the node that is active."""
        return next((node for node in self.nodes if node.is_active()), None)

    def other(self, node: PairNode) -> PairNode:
        """Return the other node."""
        return self.nodes[1 - self.nodes.index(node)]

    def await_protected(self) -> PairNode:
        """Wait until a node is active and the other one has every accepted event; return the active one."""

        def protected() -> PairNode | None:
            node = self.active()
            mirror = node.mirror if node is not None else None
            if node is None or mirror is None or mirror.state != "protected":
                return None
            return node if node.client.is_healthy() else None

        found: PairNode = self.wait(protected, "a node that is active and protected")
        return found

    def wait(self, condition: Callable[[], Any], what: str, timeout_s: float = START_S) -> Any:
        """Wait for a true answer of `condition` and return it. Raises LocalSystemError."""
        until = time.monotonic() + timeout_s
        while not (found := condition()):
            for node in self.nodes:
                if node.process is not None and node.process.poll() is not None:
                    log = node.file.with_suffix(".log").read_text(encoding="utf-8")[-2_000:]
                    raise LocalSystemError(f"{node.name} has ended:\n{log}")
            if time.monotonic() > until:
                raise LocalSystemError(f"not within {timeout_s:.0f} s: {what}; see the logs in {self.folder}")
            time.sleep(LOOK_S)
        return found


class PairFeeder(threading.Thread):
    """Sends numbered events to the node that accepts them until `close`, and keeps a ledger of acknowledged ones."""

    def __init__(self, pair: NodePair, stream: str, pause_s: float = 0.005, rows: int = 1) -> None:
        """Create the thread; `start` begins to send.

        Args:
            pair: The nodes to send to.
            stream: The stream that gets the events.
            pause_s: The pause between two batches, in seconds.
            rows: The number of events in each batch.
        """
        super().__init__(name="feeder", daemon=True)
        self.accepted: list[int] = []
        self.uncertain: list[int] = []
        """Events without an answer, each of which may have been counted once or not."""
        self.last_accepted_at = 0.0
        self.longest_gap_s = 0.0
        self._urls = [f"{node.events}/{stream}" for node in pair.nodes]
        self._pause_s, self._rows = pause_s, rows
        self._closing = threading.Event()

    def close(self) -> None:
        """Stop sending."""
        self._closing.set()
        self.join()

    def run(self) -> None:
        """Send until `close`."""
        number, place = 0, 0
        session = requests.Session()
        while not self._closing.wait(self._pause_s):
            events = [{"number": number + row + 1} for row in range(self._rows)]
            numbers = [event["number"] for event in events]
            number += self._rows
            while not self._closing.is_set():
                try:
                    answer = session.post(self._urls[place], json=events, timeout=SEND_S)
                except requests.RequestException as error:
                    session = requests.Session()
                    place = 1 - place
                    if "Failed to establish a new connection" in str(error):
                        time.sleep(LOOK_S)
                        continue
                    self.uncertain += numbers
                    break
                if answer.ok:
                    self._note(numbers)
                    break
                time.sleep(LOOK_S)

    def _note(self, numbers: list[int]) -> None:
        now = time.monotonic()
        if self.last_accepted_at:
            self.longest_gap_s = max(self.longest_gap_s, now - self.last_accepted_at)
        self.last_accepted_at = now
        self.accepted += numbers


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])
