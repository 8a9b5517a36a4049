"""Random and hostile requests of every role to every call of a running manager and worker, in any number.

    make hostile-requests REQUESTS=1000000 SEED=1

The processes are real ones with their web servers. Some clients send what `hostile_input` makes, to every call, page
and part of a page; one sends what schemathesis draws from the description of the REST API. Every response must come
within two seconds and be no 500, the manager must lead all the time, and the memory of both processes
must stay flat. The last line has the numbers; the exit code is 1 if anything of this did not hold.
MINUTES ends the run earlier, CLIENTS is the number of clients.
"""

from __future__ import annotations

import contextlib
import heapq
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import quote

import requests
from hostile_input import ODD, PLAN, calls, make_tokens, request_of, token_of
from keep_alive import Answer, KeepAlive, raw_request
from schemathesis_requests import described_requests

from cep_cli.client.rest import ManagerClient
from cep_cli.system.local_system import Ports
from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.clock import SystemClock
from cep_common.security.config import ServerSecurity
from cep_common.security.web import Gate
from cep_manager.accounts.accounts import Accounts
from cep_manager.config import AccountsConfig, DatabaseConfig
from cep_manager.persistence.database import Database
from cep_manager.web.app import create_app as manager_app
from cep_worker.http.app import create_app as worker_app

SLOW_S, HUNG_S = 2.0, 60.0
REPEATED = 2
"""How often a slow request is repeated, to see whether it is slow or the machine was busy."""
START_S = 120.0
WATCH_S = 1.0
MOST_FAULTS, MOST_NAMED = 20, 8
STORM, FAILED = "/storm/api/", b"the manager failed"
GROWTH = 0.1
"""The share by which a process may be larger in the last quarter of the run than before."""
ADMIN = 12
"""The place of the super tenant's administrator among the tokens."""
FORK = multiprocessing.get_context("fork")
Ask = Callable[[str, dict[str, Any]], float]
"""Sends a request of a kind; returns the seconds until the response."""


@dataclass(slots=True)
class Found:
    """What a client saw."""

    name: str
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slow: int = 0
    """How many took longer than allowed once, and not when they were repeated."""
    bytes: int = 0
    slowest_s: dict[str, float] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Count what another client saw as well."""
        self.statuses += other.statuses
        self.faults += other.faults
        self.slow += other.slow
        self.bytes += other.bytes
        for kind, took_s in other.slowest_s.items():
            self.slowest_s[kind] = max(took_s, self.slowest_s.get(kind, 0.0))


class Client:
    """Sends requests to a port until enough were sent in all, or the run ends."""

    def __init__(self, name: str, port: int, shared: Shared) -> None:
        self.found = Found(name)
        self._connection = KeepAlive(port, HUNG_S)
        self._port = port
        self._shared = shared

    def goes_on(self) -> bool:
        """Return whether more requests are to be sent."""
        return not self._shared.ended.is_set() and self._shared.sent.value < self._shared.wanted

    def ask(self, kind: str, request: dict[str, Any]) -> float:
        """Send a request, again if it was slow, and note what came of it."""
        raw = raw_request(self._port, request)
        found = self.found
        try:
            answer = self._connection.send(raw)
            took_s = answer.took_s
            if took_s > SLOW_S:
                found.slow += 1
            for _ in range(REPEATED):  # on a busy machine anything may be slow once
                if took_s > SLOW_S:
                    took_s = min(took_s, self._connection.send(raw).took_s)
        except (OSError, RuntimeError) as error:
            self._fault(f"{error!r}: {kind}: {request!r:.1500}")
            return SLOW_S
        found.statuses[answer.status] += 1
        found.bytes += len(raw)
        found.slowest_s[kind] = max(took_s, found.slowest_s.get(kind, 0.0))
        if _failed(request, answer) or took_s > SLOW_S:
            self._fault(f"{answer.status} after {took_s:.2f} s: {kind}: {request!r:.1500}: {answer.text!r:.300}")
        with self._shared.sent.get_lock():
            self._shared.sent.value += 1
        return took_s

    def _fault(self, text: str) -> None:
        if len(self.found.faults) < MOST_FAULTS:
            say(text)
            self.found.faults.append(text)


def _failed(request: dict[str, Any], answer: Answer) -> bool:
    """Return whether the process failed. Storm answers 500 to everything that it cannot do."""
    return answer.status == 500 and not (request["path"].startswith(STORM) and FAILED not in answer.text)


@dataclass(frozen=True, slots=True)
class Shared:
    """What clients and the run share."""

    wanted: int
    sent: Any
    ended: Any
    reports: Any


def send_hostile(client: Client, seed: str, rules: list[tuple[str, str]], tokens: list[str]) -> None:
    """Give each call the same time, so that most requests go to calls that respond quickly.

    Each call has a sequence of its own, so that a seed gives it the same requests however fast the machine is.
    """
    turns = [(0.0, place, *call) for place, call in enumerate(rules)]
    chances = [random.Random(f"{seed} {method} {rule}") for _, _, method, rule in turns]  # noqa: S311 - nothing secret
    while client.goes_on():
        spent_s, place, method, rule = heapq.heappop(turns)
        request = request_of(chances[place], method, rule, token_of(chances[place], tokens))
        took_s = client.ask(f"{method} {rule}", request)
        heapq.heappush(turns, (spent_s + took_s, place, method, rule))


def send_described(client: Client, seed: str, description: dict[str, Any], tokens: list[str]) -> None:
    """Send what schemathesis draws from the description, each with every token: drawing takes longer than sending."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    for kind, request in described_requests(description, chance, client.goes_on):
        headers = {name: value for name, value in request["headers"].items() if name.lower() != "authorization"}
        for token in tokens:
            shown = {"Authorization": f"Bearer {quote(token)}"} if token else {}
            client.ask(kind, {**request, "headers": {**headers, **shown}})


def run_client(client: Client, shared: Shared, send: Callable[..., None], *arguments: Any) -> None:
    """Send, and report. The body of a client's process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        send(client, *arguments)
    except Exception as error:  # noqa: BLE001 - the run fails with it
        client.found.faults.append(f"client {client.found.name} failed: {error!r}")
    shared.reports.put(client.found)


# ---- the system -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Memory:
    """The resident memory of a process over time, in KiB."""

    process_id: int
    samples: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Take a sample."""
        with contextlib.suppress(FileNotFoundError):
            text = Path(f"/proc/{self.process_id}/status").read_text(encoding="ascii", errors="replace")
            self.samples += [int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")]

    def quarters(self) -> list[list[int]]:
        """Return the samples of each quarter of the run."""
        count = len(self.samples)
        return [self.samples[count * part // 4 : count * (part + 1) // 4] for part in range(4)]

    def largest(self) -> list[int]:
        """Return the largest size in each quarter."""
        return [max(part, default=0) for part in self.quarters()]

    def grows(self) -> bool:
        """Return whether it was larger in the last quarter than before, usually or at its largest.

        A request may need much for a moment, in any quarter; so the usual size is compared with that of the second
        quarter, and the largest with all before.
        """
        _, second, _, last = self.quarters()
        if not second:  # `told` says that this is not known
            return False
        *before, largest = self.largest()
        most = 1 + GROWTH
        return statistics.median(last) > most * statistics.median(second) or largest > most * max(before)


@contextlib.contextmanager
def system(folder: Path, ports: Ports, tokens: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A manager and a worker in `folder`, as they are shipped but for tokens."""
    settings = {
        "CEP_MANAGER__SECURITY__TOKENS": str(tokens),
        "CEP_MANAGER__CONTROL__PORT": str(ports.control),
        "CEP_MANAGER__HTTP__PORT": str(ports.console),
        "CEP_MANAGER__DATABASE__URL": f"sqlite:///{folder}/manager.db",
        "CEP_WORKER__SECURITY__TOKENS": str(tokens),
        "CEP_WORKER__MANAGERS": f"[127.0.0.1:{ports.control}]",
        "CEP_WORKER__HTTP__PORT": str(ports.http),
        "CEP_WORKER__INGRESS__PORT": str(ports.ingress),
        "CEP_WORKER__EGRESS__PORT": str(ports.egress),
        LEAVES_WITH_PARENT: "1",
    }
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for role in ("manager", "worker"):
            with (folder / f"{role}.log").open("ab") as log:
                started[role] = subprocess.Popen(  # noqa: S603 - our own command
                    [sys.executable, "-m", "cep_cli", role], env={**os.environ, **settings}, cwd=folder,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        yield started
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(30)


def rules_of(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return every method and address that a manager and a worker serve."""
    clock = SystemClock()
    gate = Gate(ServerSecurity(), "127.0.0.1", clock, users=True)
    database = Database(DatabaseConfig(f"sqlite:///{folder}/rules.db"), 5_000)
    try:
        manager = manager_app(MagicMock(), 1_000, gate, Accounts(database, AccountsConfig(), clock))
    finally:
        database.close()
    return calls(manager), calls(worker_app(MagicMock(), 1_000, 1_000, gate))


def leadership(client: ManagerClient) -> list[tuple[str, int]]:
    """Return the managers that lead, and under which tokens."""
    return [(one["http_address"], one["token"]) for one in client.cluster()["managers"] if one["token"]]


def run(wanted: int, seed: int, clients: int, most_s: float, folder: Path) -> int:
    """Send requests; 0 when every bound held."""
    tokens = make_tokens(folder / "tokens.json")
    ports = Ports.free()
    of_manager, of_worker = rules_of(folder)
    manager = ManagerClient(f"http://127.0.0.1:{ports.console}", token=tokens[ADMIN])
    with system(folder, ports, folder / "tokens.json") as started:
        until(lambda: manager.is_healthy() and bool(manager.cluster()["workers"]), started)
        for text in (PLAN, ODD):
            with contextlib.suppress(Exception):  # odd names may be refused
                manager.deploy(text, replace=False)
        description = requests.get(f"{manager.url}/api/v1/openapi.json", timeout=HUNG_S).json()
        before = leadership(manager)
        shared = Shared(wanted, FORK.Value("Q", 0), FORK.Event(), FORK.Queue())
        begun: list[Any] = []
        for number in range(clients):
            port, rules, what = (
                (ports.http, of_worker, "worker") if number == 1 else (ports.console, of_manager, "manager")
            )
            client = Client(f"{what} {number}", port, shared)
            begun.append((client, send_hostile, f"{seed} {number}", rules, tokens))
        begun.append(
            (Client("described", ports.console, shared), send_described, f"{seed} described", description, tokens)
        )
        processes = [FORK.Process(target=run_client, args=(one[0], shared, *one[1:]), daemon=True) for one in begun]
        for process in processes:
            process.start()
        memories = {role: Memory(process.pid) for role, process in started.items()}
        began_s = time.monotonic()
        lapses = watch(manager, before, shared, memories, began_s, most_s, processes)
        shared.ended.set()
        found = Found("all")
        parts = []
        for _ in processes:
            part: Found = shared.reports.get(timeout=2 * HUNG_S)
            parts.append(part)
            found.add(part)
        took_s = time.monotonic() - began_s
        lapses += [f"the {role} ended: {process.returncode}" for role, process in started.items()
                   if process.poll() is not None]  # fmt: skip
    return told(found, parts, memories, lapses, took_s, seed)


def watch(
    manager: ManagerClient,
    before: list[tuple[str, int]],
    shared: Shared,
    memories: dict[str, Memory],
    began_s: float,
    most_s: float,
    processes: list[Any],
) -> list[str]:
    """Return once enough was sent, with what happened to the leadership."""
    lapses: list[str] = []
    next_s = began_s + 60.0
    while time.monotonic() - began_s < most_s and shared.sent.value < shared.wanted:
        time.sleep(WATCH_S)
        for memory in memories.values():
            memory.look()
        try:
            now = leadership(manager)
        except Exception as error:  # noqa: BLE001 - whatever keeps the administrator from an answer
            now = None
            lapses.append(f"the manager did not answer its administrator: {error!r}")
        if now is not None and now != before:
            lapses.append(f"leadership changed from {before} to {now}")
            before = now
        if not any(process.is_alive() for process in processes):
            break
        if time.monotonic() > next_s:
            next_s += 60.0
            sizes = {role: memory.samples[-1] // 1024 for role, memory in memories.items() if memory.samples}
            say(f"{shared.sent.value:,} requests after {time.monotonic() - began_s:.0f} s, MiB {sizes}")
    return lapses


def told(
    found: Found, parts: list[Found], memories: dict[str, Memory], lapses: list[str], took_s: float, seed: int
) -> int:
    """Report, and return the exit code."""
    for part in sorted(parts, key=lambda one: one.name):
        say(f"client {part.name}: {sum(part.statuses.values()):,} requests")
    slowest = sorted(found.slowest_s, key=lambda kind: -found.slowest_s[kind])[:MOST_NAMED]
    say(f"slowest: {', '.join(f'{kind} {found.slowest_s[kind]:.2f} s' for kind in slowest)}")
    say(f"statuses: {dict(sorted(found.statuses.items()))}")
    for role, memory in memories.items():
        judged = "" if all(memory.quarters()) else "; the run was too short to judge growth"
        say(f"{role}: MiB at most in each quarter: {[size // 1024 for size in memory.largest()]}{judged}")
    for text in (*lapses[:MOST_FAULTS], *found.faults):
        say(f"FAULT: {text}")
    grows = [role for role, memory in memories.items() if memory.grows()]
    count = sum(found.statuses.values())
    say(
        f"requests={count} seed={seed} seconds={took_s:.0f} rate={count / took_s:.0f}/s mebibytes={found.bytes >> 20}"
        f" faults={len(found.faults)} slow_once={found.slow} lapses={len(lapses)} grows={grows}"
    )
    return int(bool(found.faults or lapses or grows))


def until(is_so: Callable[[], bool], started: dict[str, subprocess.Popen[bytes]]) -> None:
    """Return when it is so."""
    deadline_s = time.monotonic() + START_S
    while True:
        with contextlib.suppress(Exception):
            if is_so():
                return
        ended = [role for role, process in started.items() if process.poll() is not None]
        if ended or time.monotonic() > deadline_s:
            raise RuntimeError(f"the system did not start: {ended or 'it takes too long'}")
        time.sleep(0.2)


def say(text: str) -> None:
    print(f"hostile-requests: {text}", flush=True)  # noqa: T201 - this is its output


def main() -> int:
    """Run by the environment."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before all requests were sent"))
    folder = Path(tempfile.mkdtemp(prefix="cep-hostile-"))
    wanted, seed = int(os.environ.get("REQUESTS", "1000000")), int(os.environ.get("SEED", "1"))
    say(f"requests={wanted} seed={seed} folder={folder}")
    most_s = 60 * float(os.environ.get("MINUTES", "inf"))
    return run(wanted, seed, int(os.environ.get("CLIENTS", "4")), most_s, folder)


if __name__ == "__main__":
    sys.exit(main())
