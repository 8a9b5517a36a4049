"""The supervisor of a node, which monitors, fences and restarts its manager, driver and worker."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from cep_cli.node.config import NodeConfig, environment_of
from cep_cli.system.local_system import LocalSystemError
from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.nodes.files import DRAINED_FILE, ROLE_FILE, FileView, NodeRole
from cep_common.nodes.role_watch import FENCED, monotonic_ms
from cep_common.process.private_folders import make_private

PROCESSES = ("manager", "driver", "worker")
ACTIVE_ONES = ("driver", "worker")
LOOK_S = 0.05
DRAINED_LOOK_S = 0.01
PROBES_AT_ONCE = 128
RESTART_S = 0.5
LONGEST_RESTART_S = 30.0
"""The delay before a failed process is restarted; it doubles with every consecutive failure."""
STEADY_S = 60.0
"""The running time after which a failure is not consecutive to the previous one."""
HANDOVERS_IN_A_ROW = 2
"""The number of failures soon after becoming active from which a node does not switch over any more.

The cause, such as an event or the configuration, would end the processes of the other node, too.
"""
GIVES_WAY_S = 1.0
"""How long no process of a node runs, so that the other node detects this and takes over."""
SILENT_LOOKS = 40
"""The number of checks with an expired role after which the manager counts as hung, or unable to write its files.

That is 2 s, and longer on a host that is so busy that this process is late, too, as the manager is then.
"""
NOT_AGAIN = 2
"""Exit code of a process whose configuration must be changed first."""
STOP_S = {"driver": 25.0, "worker": 25.0, "manager": 15.0}
LOCK = "node.lock"

Say = Callable[[str], None]


@dataclass(slots=True)
class _NodeProcess:
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    restart_at: float = 0.0
    started_at: float = 0.0
    failures: int = 0
    """The number of consecutive failures."""


@dataclass(slots=True)
class Node:
    """One node. `run` keeps it running until `stopping` is set."""

    config: NodeConfig
    say: Say = lambda _: None
    stopping: threading.Event = field(default_factory=threading.Event)
    _children: dict[str, _NodeProcess] = field(default_factory=dict)
    _guard: socket.socket | None = None
    _lock: TextIO | None = None
    _was_active: bool = False
    _active_since: float = 0.0
    _failed_terms: int = 0
    """The number of consecutive failures of a process soon after this node became active."""
    _expired_looks: int = 0

    @property
    def folder(self) -> Path:
        """Return the node's folder."""
        return Path(self.config.folder).absolute()

    def run(self) -> None:
        """Run the node. Raises LocalSystemError and ConfigError when it cannot start."""
        try:
            self._open()
            for name in PROCESSES:
                self._start(name)
            view = FileView(self.folder / ROLE_FILE, NodeRole)
            while not self.stopping.wait(LOOK_S):
                self._answer_probes()
                self._watch(view.read())
        finally:
            self._stop()

    def _open(self) -> None:
        make_private(self.folder)
        (self.folder / "state").mkdir(exist_ok=True, mode=0o700)
        self._lock = (self.folder / LOCK).open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalSystemError(f"a node runs in {self.folder} already") from error
        for name in (ROLE_FILE, DRAINED_FILE):
            (self.folder / name).unlink(missing_ok=True)
        database = self.config.database()
        if database.startswith("sqlite:///"):
            Path(database.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        self._open_guard()
        settings = environment_of(self.config, self.folder)
        for name in PROCESSES:
            environment = {**os.environ, **settings[name], LEAVES_WITH_PARENT: "1"}
            self._children[name] = _NodeProcess(environment, self.folder / f"{name}.log")

    def _open_guard(self) -> socket.socket:
        where = self.config.host, self.config.ports.guard
        try:
            guard = socket.create_server(where)
        except OSError as error:
            raise LocalSystemError(f"cannot listen on {where[0]}:{where[1]} (ports.guard): {error.strerror}") from error
        guard.set_inheritable(True)
        guard.settimeout(0.0)
        self._guard = guard
        return guard

    def _answer_probes(self) -> None:
        """Accept the other node's connections to the guard port, whose queue would fill up otherwise."""
        if self._guard is None:
            return
        # Not more than the queue holds, and no failure of one connection, or of the process's files, ends the node.
        with contextlib.suppress(OSError):
            for _ in range(PROBES_AT_ONCE):
                self._guard.accept()[0].close()

    def _watch(self, role: NodeRole | None) -> None:
        active = role is not None and role.is_active(monotonic_ms())
        if active != self._was_active:
            self._was_active = active
            self._active_since = time.monotonic()
            token = role.token if role is not None else 0
            self.say(f"node {self.config.name} is {f'ACTIVE, token {token}' if active else 'passive'}")
            if not active:  # they end by themselves; hung ones are ended here
                for name in ACTIVE_ONES:
                    self._kill(name)
        self._check_manager(role)
        order = role.order_at(monotonic_ms()) if role is not None else ""
        if order == "stop":
            self.say(f"node {self.config.name} is shut down")
            self.stopping.set()
            return
        if role is not None and order == "restart":
            self.say(f"node {self.config.name} " + (f"hands over to {role.peer}" if active else "restarts"))
            self._leave()
        now = time.monotonic()
        for name, child in self._children.items():
            if child.process is not None and child.process.poll() is not None:
                self._ended(name, child, now, role)
                return  # other ended processes are handled next, unless they were ended with this one
            if child.process is None and now >= child.restart_at and self._has_guard(now):
                self._start(name)

    def _has_guard(self, now: float) -> bool:
        """Return whether the guard port is open, and open it if it is not; a process that ends may still have it."""
        try:
            self._guard = self._guard or self._open_guard()
        except LocalSystemError as error:
            self.say(f"{error.message}; trying again")
            for child in self._children.values():
                child.restart_at = max(child.restart_at, now + GIVES_WAY_S)
        return self._guard is not None

    def _check_manager(self, role: NodeRole | None) -> None:
        """End the node's processes if the manager leaves an expired role as it is: the other node may take over."""
        is_expired = role is not None and role.token > 0 and not role.is_active(monotonic_ms())
        self._expired_looks = self._expired_looks + 1 if is_expired else 0
        if self._expired_looks > SILENT_LOOKS:
            self._expired_looks = 0
            self.say("the manager hangs, or cannot write the node's role; see manager.log. All processes start again")
            self._give_way()

    def _ended(self, name: str, child: _NodeProcess, now: float, role: NodeRole | None) -> None:
        assert child.process is not None  # noqa: S101 - asked by the caller
        code = child.process.returncode
        self._kill(name)
        child.restart_at = max(child.restart_at, now + RESTART_S)
        if code == NOT_AGAIN:
            raise LocalSystemError(f"the {name} cannot start:\n{_last_lines(child.log)}")
        failed = code not in (0, FENCED)
        active = role is not None and role.is_active(monotonic_ms())
        if failed:
            self._count_failure(child, now, active=active)
        # The other node, whose processes are up, takes over sooner than a process can be restarted here. Without a
        # manager the lease is not renewed, so no process of the node may act under it.
        takes_over = failed and active and role is not None and role.peer_in_sync
        gives_way = takes_over and (name == "manager" or self._failed_terms <= HANDOVERS_IN_A_ROW)
        if failed:
            then = f"{role.peer} takes over" if role is not None and gives_way else "starting it again"
            if takes_over and not gives_way:
                then += (
                    f" in {child.restart_at - now:.1f} s. Processes failed {self._failed_terms} times soon after this "
                    f"node became active, so handing over to {role.peer if role else ''} does not help; see {child.log}"
                )
            self.say(f"the {name} ended with exit code {code}; {then}")
        if gives_way or name == "manager":
            self._give_way()

    def _count_failure(self, child: _NodeProcess, now: float, *, active: bool) -> None:
        """Count consecutive failures of the process and of this node as active, and set the time of the restart."""
        child.failures = child.failures + 1 if now - child.started_at < STEADY_S else 1
        in_a_row = child.failures
        if active:
            soon = now - max(self._active_since, child.started_at) < STEADY_S
            self._failed_terms = self._failed_terms + 1 if soon else 0
            in_a_row = max(in_a_row, self._failed_terms)
        wait_s = min(RESTART_S * 2 ** min(in_a_row - 1, 10), LONGEST_RESTART_S)
        child.restart_at = max(child.restart_at, now + wait_s)

    def _give_way(self) -> None:
        """Kill all processes and close the guard port, so that the other node takes over."""
        for name in self._children:
            self._kill(name)
        (self.folder / ROLE_FILE).unlink(missing_ok=True)
        self._was_active = False
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        for child in self._children.values():
            child.restart_at = max(child.restart_at, time.monotonic() + GIVES_WAY_S)

    def _leave(self) -> None:
        """End all processes in order, so that the other node takes over from an active one, and restart as passive."""
        self._stop_processes()
        self._was_active = False
        now = time.monotonic()
        for child in self._children.values():
            child.restart_at = now
        (self.folder / ROLE_FILE).unlink(missing_ok=True)

    def _start(self, name: str) -> None:
        child = self._children[name]
        assert self._guard is not None  # noqa: S101 - by the caller
        child.started_at = time.monotonic()
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "cep_cli", name],
                env=dict(child.environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=(self._guard.fileno(),),
            )  # fmt: skip

    def _kill(self, name: str) -> None:
        """End the process, and all that it has started, at once."""
        child = self._children[name]
        process, child.process = child.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        child.restart_at = max(child.restart_at, time.monotonic() + LOOK_S)

    def _stop_processes(self) -> None:
        """End all processes in order.

        Topologies take a last checkpoint while the worker accepts events; then the worker closes its ports and sends
        the rest to the passive node, and the manager gives the lease back. Spark ends meanwhile, which takes longest.
        """
        ends_at = {}
        for name in ("driver", "worker", "manager"):
            child = self._children.get(name)
            if child is None or child.process is None:
                continue
            child.process.send_signal(signal.SIGTERM)
            ends_at[name] = time.monotonic() + STOP_S[name]
            if name == "driver" and self._await_drained(child.process, ends_at[name]):
                continue
            # before the lease is released, since remaining topologies must not run beside those of the other node
            self._await_end(name, child.process, ends_at[name])
        if "driver" in ends_at and (process := self._children["driver"].process) is not None:
            self._await_end("driver", process, ends_at["driver"])

    def _await_drained(self, driver: subprocess.Popen[bytes], until: float) -> bool:
        """Wait until all topologies of the driver have ended, and return whether they did in time."""
        file = self.folder / DRAINED_FILE
        while driver.poll() is None and time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):
                if file.read_text(encoding="ascii") == str(driver.pid):
                    return True
            time.sleep(DRAINED_LOOK_S)
        return driver.poll() is not None

    def _await_end(self, name: str, process: subprocess.Popen[bytes], until: float) -> None:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.say(f"the {name} did not end within {STOP_S[name]:.0f} s and was killed")
        self._kill(name)

    def _stop(self) -> None:
        self._stop_processes()
        if self._guard is not None:
            self._guard.close()
        if self._lock is not None:
            self._lock.close()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
