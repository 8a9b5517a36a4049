"""A complete system on this machine: manager, driver and one worker as supervised processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import msgspec

from cep_cli.client.rest import ManagerClient
from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.clock import SystemClock
from cep_common.configuration.yaml_files import read_yaml
from cep_common.errors import CepError, ConfigError, PeerError
from cep_common.ids import Endpoint
from cep_common.process.private_folders import make_private
from cep_common.security.access import AccessRole
from cep_common.security.tokens import TokenFile
from cep_manager.accounts.accounts import Accounts
from cep_manager.accounts.administration import administration
from cep_manager.accounts.first_admin import first_login
from cep_manager.config import AccountsConfig, DatabaseConfig, Port
from cep_manager.persistence.database import Database

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 25.0
POLL_S = 0.1
RESTART_DELAY_S = 1.0
OWN_TOKEN = "up-token.json"  # noqa: S105 - a file's name
FIRST_ADMIN_MS = 5_000
LOCK = "up.lock"
PROCESSES = ("manager", "driver", "worker")
OWN_FILES = (
    *("manager.db", "manager.db-wal", "manager.db-shm", "checkpoints", OWN_TOKEN, LOCK),
    *("wal", "results", "errors", "positions"),
)
OPEN = {
    "CEP_WORKER__SINKS__FOLDERS": '["/"]',
    "CEP_WORKER__SINKS__URLS": '["*", "*://localhost", "*://127.0.0.0/8"]',
    "CEP_WORKER__SOURCES__URLS": '["*", "*://localhost", "*://127.0.0.0/8"]',
    "CEP_WORKER__PASSWORD_FILES__FOLDERS": '["/"]',
    "CEP_DRIVER__STAGES__STORE_URLS": "true",
}
"""The allow lists of plans on a system that only its user can access: everything that the user may access."""
NOT_AGAIN = 2
"""The exit code of a process with an invalid configuration, which is not restarted."""

PORT_VARIABLES = {
    "control": "CEP_MANAGER__CONTROL__PORT",
    "console": "CEP_MANAGER__HTTP__PORT",
    "http": "CEP_WORKER__HTTP__PORT",
    "ingress": "CEP_WORKER__INGRESS__PORT",
    "egress": "CEP_WORKER__EGRESS__PORT",
}
"""Environment variables that set the ports of the processes."""

Say = Callable[[str], None]


class LocalSystemError(CepError):
    """A process of the local system did not start; the message ends with the last lines of its log."""

    code = "local-system"


class Ports(msgspec.Struct, frozen=True):
    """The TCP ports of a local system, all on 127.0.0.1."""

    control: int = 8904
    console: int = 9080
    http: int = 8006
    ingress: int = 7611
    egress: int = 7612

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Ports:
        """Return the default ports, except those that `environment` sets. Raises ConfigError for what is not a port."""
        ports: dict[str, int] = {}
        for name, variable in PORT_VARIABLES.items():
            if variable in environment:
                try:
                    ports[name] = msgspec.convert(environment[variable], Port, strict=False)
                except msgspec.ValidationError as error:
                    raise ConfigError(f"{variable}: {error}") from error
        return cls(**ports)

    @classmethod
    def free(cls) -> Ports:
        """Return a port that is free now, so that a second system does not disturb the first.

        It is above the ranges of links, logs and checkpoints, and below the ephemeral ports, which outgoing connections
        could take before the port is listened on.
        """
        sockets: list[socket.socket] = []
        while len(sockets) < len(cls.__struct_fields__):
            with contextlib.suppress(OSError):
                sockets.append(socket.create_server(("127.0.0.1", random.randrange(18_000, 32_000))))  # noqa: S311 - nothing secret
        ports = [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        return cls(*ports)

    def refuse_taken(self) -> None:
        """Raise LocalSystemError for the first port that is in use.

        The processes of a second system would otherwise connect to the manager of the first one.
        """
        with contextlib.ExitStack() as opened:  # all at once, so that duplicates are found as well
            for name, variable in PORT_VARIABLES.items():
                port = getattr(self, name)
                try:
                    opened.enter_context(socket.create_server(("127.0.0.1", port)))
                except OSError as error:
                    raise LocalSystemError(
                        f"cannot listen on 127.0.0.1:{port}: {os.strerror(error.errno or 0)}; if another system runs"
                        f" here, end it first, or give this one a folder and ports of its own: {variable} sets this one"
                    ) from error


@dataclass(slots=True)
class _LocalProcess:
    command: list[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    died_at: float | None = None


@dataclass(slots=True)
class LocalSystem:
    """Starts the system in `folder` (database, accepted events, logs).

    Leave the context to stop it, with nothing left running.
    """

    folder: Path
    ports: Ports = field(default_factory=Ports)
    say: Say = lambda _: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    token: str = ""
    """The token of `client`, if `environment` names a file of tokens."""
    login: bool = False
    """Whether users must log in; otherwise every user of this machine has full access."""
    _children: dict[str, _LocalProcess] = field(default_factory=dict)
    _lock: TextIO | None = None

    @property
    def client(self) -> ManagerClient:
        """A client of the manager's REST API."""
        return ManagerClient(f"http://127.0.0.1:{self.ports.console}", token=self.token)

    @property
    def ingress(self) -> Endpoint:
        """Where the worker accepts events over ZeroMQ."""
        return Endpoint("127.0.0.1", self.ports.ingress)

    @property
    def egress(self) -> Endpoint:
        """Where the worker serves listeners of streams."""
        return Endpoint("127.0.0.1", self.ports.egress)

    @property
    def worker_http(self) -> str:
        """The address of the worker's HTTP server."""
        return f"http://127.0.0.1:{self.ports.http}"

    def __enter__(self) -> Self:
        """Start all processes, and stop those that started if one fails."""
        self._lock = _locked(self.folder)
        try:
            self.ports.refuse_taken()
            self._begin()
        except BaseException:
            self.stop()
            raise
        return self

    def _begin(self) -> None:
        if self.login:
            self._prepare_login()
        for name in PROCESSES:
            self._children[name] = _LocalProcess(
                [sys.executable, "-m", "cep_cli", name],
                {**self.environment, **self._settings()},
                self.folder / f"{name}.log",
            )
        for name, is_ready in (
            ("manager", self.client.is_healthy),
            ("driver", self._driver_lives),
            ("worker", self._worker_lives),
        ):
            self._start(name)
            if name != "driver":
                self._wait_for(name, is_ready)
        self._wait_for("driver", self._driver_lives)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all processes."""
        self.stop()

    def pid(self, name: str) -> int:
        """Return the process id of `manager`, `driver` or `worker`."""
        process = self._children[name].process
        if process is None:
            raise LocalSystemError(f"the {name} is not running")
        return process.pid

    def kill(self, name: str) -> None:
        """Kill a process, for tests."""
        process = self._children[name].process
        if process is not None:
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        """Start a process again that has ended."""
        self._start(name)

    def watch(self) -> None:
        """Restart processes that ended by themselves, after a delay; call this periodically.

        Processes with an invalid configuration are not restarted.
        """
        for name, child in self._children.items():
            if child.process is None or child.process.poll() is None:
                continue
            if child.died_at is None:
                child.died_at = time.monotonic()
                ended = f"the {name} ended with exit code {child.process.returncode}"
                if child.process.returncode == NOT_AGAIN:
                    self.say(f"{ended} and is not restarted; {child.log} ends with:\n{_last_lines(child.log)}")
                else:
                    self.say(f"{ended}; restarting it")
            elif child.process.returncode == NOT_AGAIN:
                continue
            elif time.monotonic() - child.died_at >= RESTART_DELAY_S:
                self._start(name)

    def _allowed(self) -> dict[str, str]:
        """Return the settings that let plans access more than by default.

        There are none if users log in, and none for keys that are configured in the environment or in files.
        """
        if self.login:
            return {}
        files = {process: _configured(process) for process in ("worker", "driver")}
        return {
            variable: value
            for variable, value in OPEN.items()
            if variable not in self.environment and not _is_set(variable, files)
        }

    def allowance(self) -> str:
        """Describe what plans may access in addition to the default; empty: nothing."""
        opened = [".".join(key.lower().split("__")[1:]) for key in self._allowed()]
        if not opened:
            return ""
        return (
            "login is off, so plans may access what you may, except the system itself: "
            f"{', '.join(opened)} are unrestricted; set them, or use --login, to restrict access"
        )

    def stop(self) -> None:
        """End all processes in order, and kill those that do not end in time.

        The driver is first, since topologies take a last checkpoint, for which workers must accept their results.
        """
        for name in ("driver", "worker", "manager"):
            child = self._children.get(name)
            if child is None or child.process is None:
                continue
            child.process.send_signal(signal.SIGTERM)
            try:
                child.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.say(f"the {name} did not end within {STOP_TIMEOUT_S:.0f} s and was killed")
                child.process.kill()
                child.process.wait()
            child.process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _prepare_login(self) -> None:
        """Create the token for health checks of the processes.

        The first admin's password is printed here, so that it is not in a log.
        """
        file = self.folder / OWN_TOKEN
        file.unlink(missing_ok=True)
        self.token = TokenFile(file).create("cep up", AccessRole.VIEWER, None, SystemClock().now_ms())
        database = Database(DatabaseConfig(self._settings()["CEP_MANAGER__DATABASE__URL"]), FIRST_ADMIN_MS)
        try:
            password = administration(Accounts(database, AccountsConfig(), SystemClock())).create_first()
        finally:
            database.close()
        if password is not None:
            self.say(first_login(self.client.url, password))

    def _settings(self) -> dict[str, str]:
        manager = f"[127.0.0.1:{self.ports.control}]"
        folder = self.folder.resolve()
        own = [folder / name for name in (*OWN_FILES, *(f"{name}.log" for name in PROCESSES))]
        protected = json.dumps([str(path) for path in own])
        return {
            "CEP_WORKER__PROTECTED": protected,
            "CEP_DRIVER__STAGES__PROTECTED": protected,
            **self._allowed(),
            LEAVES_WITH_PARENT: "1",
            **{variable: str(getattr(self.ports, name)) for name, variable in PORT_VARIABLES.items()},
            "CEP_MANAGER__DATABASE__URL": f"sqlite:///{self.folder.resolve()}/manager.db",
            "CEP_MANAGER__ACCOUNTS__LOGIN": str(self.login).lower(),
            **({"CEP_MANAGER__SECURITY__TOKENS": str(self.folder.resolve() / OWN_TOKEN)} if self.login else {}),
            "CEP_DRIVER__MANAGERS": manager,
            "CEP_DRIVER__CHECKPOINT__LOCATION": str(self.folder.resolve() / "checkpoints"),
            "CEP_WORKER__MANAGERS": manager,
            "CEP_WORKER__NAME": self.environment.get("CEP_WORKER__NAME", "worker-1"),
            "CEP_WORKER__WAL__PATH": str(self.folder.resolve() / "wal"),
            "CEP_WORKER__RESULTS__PATH": str(self.folder.resolve() / "results"),
            "CEP_WORKER__ERRORS__PATH": str(self.folder.resolve() / "errors"),
            "CEP_WORKER__FILE_SOURCES__POSITIONS": str(self.folder.resolve() / "positions"),
        }

    def _start(self, name: str) -> None:
        child = self._children[name]
        child.died_at = None
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(  # noqa: S603 - our own command
                child.command, env=dict(child.environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, name: str, is_ready: Callable[[], bool]) -> None:
        child = self._children[name]
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            if child.process is None or child.process.poll() is not None:
                raise LocalSystemError(f"the {name} did not start; {child.log} ends with:\n{_last_lines(child.log)}")
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise LocalSystemError(f"the {name} is not ready after {START_TIMEOUT_S:.0f} s; see {child.log}")
            time.sleep(POLL_S)

    def _driver_lives(self) -> bool:
        driver = self._cluster()["driver"]
        return bool(driver and driver["live"])

    def _worker_lives(self) -> bool:
        return bool(self._cluster()["workers"])

    def _cluster(self) -> Any:
        try:
            return self.client.cluster()
        except PeerError:
            return {"driver": None, "workers": []}


def _locked(folder: Path) -> TextIO:
    """Lock a file until it is closed.

    LocalSystemError when a system runs in `folder`, or it cannot be used.
    """
    with contextlib.ExitStack() as opened:
        try:
            make_private(folder)
            lock = opened.enter_context((folder / LOCK).open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"a system runs in {folder} already: end it first, or choose another folder"
            raise LocalSystemError(message) from error
        except OSError as error:
            raise LocalSystemError(f"{folder}: cannot be used: {error.strerror}") from error
        opened.pop_all()
    return lock


def _last_lines(log: Path, count: int = 8) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])


def _configured(process: str) -> Any:
    """Return the content of the process's configuration file; empty without one."""
    with contextlib.suppress(ConfigError):
        path = Path("conf") / f"{process}.yaml"
        return read_yaml(path) if path.is_file() else {}
    return {}


def _is_set(variable: str, files: Mapping[str, Any]) -> bool:
    """Return whether a file sets the key of `CEP_<PROCESS>__<SECTION>__<KEY>` to a value other than the default."""
    process, section, key = variable.removeprefix("CEP_").lower().split("__")
    group = files[process].get(section) if isinstance(files[process], dict) else None
    return isinstance(group, dict) and bool(group.get(key))
