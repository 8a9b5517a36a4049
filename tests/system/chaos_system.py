"""A whole system over two hosts that is meant to be hurt: two managers, a driver on a standalone Spark cluster, and a
worker on each host. Whatever dies is started again, as a supervisor would do it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from shifted_clocks import ShiftedClocks
from standalone_cluster import Host, StandaloneCluster
from two_hosts import Network

from cep_cli.client.rest import ManagerClient
from cep_cli.system.local_system import Ports
from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.errors import CepError, PeerError
from cep_common.security.access import AccessRole
from cep_common.security.keys import write_keys
from cep_common.security.tokens import TokenFile

RESTART_DELAY_S = 1.0
READY_S = 180.0
STOP_S = 20.0
LOOK_S = 0.1
CHECKPOINT_MS = 2_000
TOKENS = "tokens.json"


@dataclass(slots=True)
class Supervised:
    """A process of the system, in a folder of its own."""

    name: str
    role: str
    host: Host
    settings: Mapping[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    died_s: float | None = None

    def start(self) -> None:
        """The process runs, in its folder, and writes its log there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.died_s = None
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*self.host.prefix, sys.executable, "-m", "cep_cli", self.role],
                env={**os.environ, LEAVES_WITH_PARENT: "1", **self.settings},
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def watch(self, now_s: float) -> None:
        """It is started again a moment after it died."""
        if self.process is None or self.process.poll() is None:
            return
        if self.died_s is None:
            self.died_s = now_s
        elif now_s - self.died_s >= RESTART_DELAY_S:
            self.start()

    def stop(self) -> None:
        """It has ended, in order if it can."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass(slots=True)
class ChaosSystem:
    """Runs on the hosts of `network` in `folder` while its context is open."""

    folder: Path
    network: Network
    ports: Ports
    processes: dict[str, Supervised] = field(default_factory=dict)
    cluster: StandaloneCluster | None = None
    token: str = ""
    """What workers let events in for."""
    more_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By role, what else is in the environment of its processes."""
    _opened: ExitStack = field(default_factory=ExitStack)
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._opened.close()

    @property
    def clocks(self) -> ShiftedClocks:
        """Those of all processes: of executors there is one for both hosts."""
        return ShiftedClocks(self.folder / "clocks")

    @property
    def hosts(self) -> tuple[Host, Host]:
        """This host, where managers and driver run too, and the other one."""
        return self.network.hosts

    def client(self) -> ManagerClient:
        """The manager that leads, or any that answers."""
        clients = self.clients()
        for client in clients.values():
            try:
                if client.is_healthy():
                    return client
            except PeerError:
                continue
        return clients["manager-1"]

    def clients(self) -> dict[str, ManagerClient]:
        """Those of all managers."""
        return {name: ManagerClient(self._console(name)) for name in ("manager-1", "manager-2")}

    def worker_urls(self) -> dict[str, str]:
        """Where each worker takes events."""
        return {f"worker-{number}": f"http://{host.address}:{self.ports.http}" for number, host in self._numbered()}

    def results(self, plan: str) -> list[dict[str, Any]]:
        """All results of `plan` that have come to the sinks of any worker; half a line at the end is not there yet."""
        rows = []
        for name in self.worker_urls():
            path = self.folder / name / f"{plan}.ndjson"
            if path.exists():
                lines = path.read_bytes().split(b"\n")[:-1]
                rows += [json.loads(line) for line in lines if line]
        return rows

    def stages(self) -> list[int]:
        """The process ids of all tasks."""
        found = self.answer(lambda client: client.cluster()["tasks"]) or []
        return [task["process_id"] for task in found]

    def answer(self, ask: Any) -> Any:
        """What `ask` gets from the managers; None while none answers."""
        try:
            return ask(self.client())
        except CepError:
            return None

    def until(self, is_so: Any, within_s: float = READY_S) -> None:
        """Returns when `is_so()`."""
        deadline_s = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not so within {within_s:.0f} s; the logs are in {self.folder}")
            time.sleep(LOOK_S)

    def _numbered(self) -> list[tuple[int, Host]]:
        return list(enumerate(self.hosts, 1))

    def _console(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports.console + int(name[-1]) - 1}"

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        keys = self.folder / "keys"
        write_keys(keys)
        self.token = TokenFile(self.folder / TOKENS).create("feeder", AccessRole.SENDER, None, 0)
        self.cluster = self._opened.enter_context(
            StandaloneCluster(
                self.folder, 2, 4, {**os.environ, **self.clocks.environment("executor")}, hosts=self.hosts
            )
        )
        home = self.hosts[0]
        control = [f"{home.address}:{self.ports.control + number}" for number in (0, 1)]
        for number in (1, 2):
            self._add(f"manager-{number}", "manager", home, self._manager(number, keys))
        self._add("driver", "driver", home, self._driver(control, keys))
        for number, host in self._numbered():
            self._add(f"worker-{number}", "worker", host, self._worker(number, host, control, keys))
        supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        for one in self.processes.values():
            one.start()
            self._opened.callback(one.stop)
        supervisor.start()
        self._opened.callback(supervisor.join)
        self._opened.callback(self._leaving.set)
        self.until(self._is_complete)

    def _is_complete(self) -> bool:
        cluster = self.answer(lambda client: client.cluster())
        return bool(cluster) and len(cluster["workers"]) == 2 and bool((cluster["driver"] or {}).get("live"))

    def _add(self, name: str, role: str, host: Host, settings: Mapping[str, str]) -> None:
        whole = {**settings, **self.clocks.environment(name), **self.more_settings.get(role, {})}
        self.processes[name] = Supervised(name, role, host, whole, self.folder / name)

    def _supervise(self) -> None:
        while not self._leaving.wait(LOOK_S):
            for one in self.processes.values():
                one.watch(time.monotonic())

    def _manager(self, number: int, keys: Path) -> dict[str, str]:
        home = self.hosts[0].address
        return {
            "CEP_MANAGER__HOST": home,
            "CEP_MANAGER__SECURITY__KEYS": str(keys),
            "CEP_MANAGER__CONTROL__PORT": str(self.ports.control + number - 1),
            "CEP_MANAGER__HTTP__PORT": str(self.ports.console + number - 1),
            "CEP_MANAGER__DATABASE__URL": f"sqlite:///{self.folder}/manager.db",
            "CEP_MANAGER__ACCOUNTS__LOGIN": "false",
        }

    def _driver(self, control: list[str], keys: Path) -> dict[str, str]:
        assert self.cluster is not None
        return {
            **self.cluster.driver_settings(),
            "CEP_DRIVER__HOST": self.hosts[0].address,
            "CEP_DRIVER__SECURITY__KEYS": str(keys),
            "CEP_DRIVER__MANAGERS": f"[{', '.join(control)}]",
            "CEP_DRIVER__CHECKPOINT__LOCATION": str(self.folder / "checkpoints"),
            "CEP_DRIVER__CHECKPOINT__INTERVAL_MS": str(CHECKPOINT_MS),
        }

    def _worker(self, number: int, host: Host, control: list[str], keys: Path) -> dict[str, str]:
        return {
            "CEP_WORKER__NAME": f"worker-{number}",
            "CEP_WORKER__HOST": host.address,
            "CEP_WORKER__SECURITY__KEYS": str(keys),
            "CEP_WORKER__MANAGERS": f"[{', '.join(control)}]",
            **{f"CEP_WORKER__{part}__HOST": host.address for part in ("HTTP", "INGRESS", "EGRESS", "OUTFLOW")},
            "CEP_WORKER__SECURITY__TOKENS": str(self.folder / TOKENS),
            "CEP_WORKER__SINKS__FOLDERS": json.dumps([str(self.folder)]),
            "CEP_WORKER__HTTP__PORT": str(self.ports.http),
            "CEP_WORKER__INGRESS__PORT": str(self.ports.ingress),
            "CEP_WORKER__EGRESS__PORT": str(self.ports.egress),
        }
