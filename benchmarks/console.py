"""How the console answers while 50 plans run and 20 pages are open, and whether the registry notices.

    .venv/bin/python benchmarks/console.py [--plans 50] [--pages 20] [--seconds 30] [--poll] [--json]

A real manager process with `--plans` plans; one more process beats as their driver, workers and tasks, each second,
and counts events; another one holds `--pages` pages open, which ask for what the pages' scripts ask for. Prints how
long page data and heartbeats take, the latter also with no page open, and beside them a call that does nothing. With
`--poll` no page is sent what changes: all of them ask.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import requests

from benchmarks.console_peers import run_peers
from cep_cli.system.local_system import Ports
from cep_common.ids import Endpoint

PLAN = """
@Plan:name('{name}')
@Import('{name}.departures:1.0.0') define stream Departures (carrier string, origin string, dep_delay int);
@Import('{name}.arrivals:1.0.0') define stream Arrivals (carrier string, origin string, arr_delay int);
@Export('{name}.late:1.0.0') define stream Late (carrier string, origin string, dep_delay int);
@Export('{name}.storms:1.0.0') define stream Storms (origin string, late long);
@info(name='late') from Departures[dep_delay > 60] select carrier, origin, dep_delay insert into Late;
@info(name='storms') from Late#window.time(10 min) select origin, count() as late group by origin insert into Storms;
@info(name='both') from Late#window.time(5 min) as l join Arrivals[arr_delay > 60]#window.time(5 min) as a
  on l.origin == a.origin select a.carrier as carrier, a.origin as origin, a.arr_delay as dep_delay insert into Both;
"""
SETTLE_S = 30.0
WARM_S = 5.0
PATIENCE_S = 10.0
"""What has said nothing for so long has failed; streams say every five seconds that they are there."""
AGAIN_S = 1.0
PAGE_EVERY_S = 10.0
"""The interval at which each page is opened again."""
PAGES_A_ROUND = 20
YARDSTICK = "a call that does nothing"
"""How long it takes says how long this machine lets everybody wait."""


class Pages:
    """Open pages, each of which sends the requests of its scripts.

    `told_ms` are the times of the answers by kind, `gaps_ms` those between two changes that a page was sent. `failed`
    are the addresses that were refused or did not answer, and those of streams that broke off, each time; they are
    requested again, and have no time.
    """

    def __init__(self, address: str, plans: list[str], pages: int, poll: bool) -> None:
        self._host = address.removeprefix("http://")
        self._poll = poll
        self._closing = threading.Event()
        self.told_ms: dict[str, list[float]] = {}
        self.gaps_ms: list[float] = []
        self.failed: list[str] = []
        for number in range(pages):
            self._open(number, plans[number % len(plans)])
        threading.Thread(target=self._ask, args=(YARDSTICK, "/api/v1/health", 0.1), daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _open(self, number: int, plan: str) -> None:
        """Open page `number`.

        Of ten pages one is the overview, one the list of plans, one the cluster or the flow of events; the others are
        plans.
        """
        match number % 10:
            case 0:
                self._page(number, "overview", "/", "/api/v1/overview/live", [("/fragments/overview", 1.0)])
            case 1:
                self._page(number, "plans", "/plans", None, [("/fragments/plans", 1.0)])
            case 2 if number % 20 == 2:
                self._page(number, "cluster", "/cluster", None, [("/fragments/cluster", 1.0)])
            case 2:
                self._page(number, "event flow", "/event-flow", None, [("/api/v1/event-flow", 2.0)])
            case _:
                parts = [(f"/fragments/plans/{plan}/head", 2.0), (f"/fragments/plans/{plan}", 2.0)]
                graph = [(f"/api/v1/plans/{plan}/topology", 2.0)] if self._poll else []
                self._page(number, "plan", f"/plans/{plan}", f"/api/v1/plans/{plan}/live", parts + graph)

    def _page(self, number: int, kind: str, page: str, stream: str | None, parts: list[tuple[str, float]]) -> None:
        """Request the page itself time and again, not all pages at the same moment."""
        first_s = PAGE_EVERY_S * (number % PAGES_A_ROUND) / PAGES_A_ROUND
        self._begin(self._ask, "the page itself", page, PAGE_EVERY_S, first_s)
        if stream is not None and not self._poll:
            self._begin(self._watch, stream)
        for path, every_s in parts:
            self._begin(self._ask, kind, path, every_s)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _ask(self, kind: str, path: str, every_s: float, first_s: float = 0.0) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE_S)
        self._closing.wait(first_s)
        while not self._closing.is_set():
            asked = time.perf_counter()
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()  # the next request opens it again
                self.failed.append(path)
            else:
                if answer.status == HTTPStatus.OK:
                    self.told_ms.setdefault(kind, []).append((time.perf_counter() - asked) * 1_000)
                else:
                    self.failed.append(path)
            self._closing.wait(every_s)
        connection.close()

    def _watch(self, path: str) -> None:
        while not self._closing.is_set():
            try:
                self._watch_once(path)
            except (OSError, http.client.HTTPException):
                self.failed.append(path)
                self._closing.wait(AGAIN_S)

    def _watch_once(self, path: str) -> None:
        """Follows the stream until the pages close. Raises OSError and HTTPException when it is refused or ends."""
        with contextlib.closing(http.client.HTTPConnection(self._host, timeout=PATIENCE_S)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise http.client.HTTPException(f"{path}: {answer.status}")
            before = None
            while not self._closing.is_set():
                line = answer.readline()
                if not line:
                    raise http.client.HTTPException(f"{path}: broken off")
                if line.startswith(b"event: change"):
                    now = time.perf_counter()
                    self.gaps_ms += [] if before is None else [(now - before) * 1_000]
                    before = now


def hold_pages(address: str, plans: list[str], pages: int, poll: bool, seconds: float, boss: Any) -> None:
    """Hold the pages open for so long, then send what was measured since they were warm."""
    held = Pages(address, plans, pages, poll)
    time.sleep(WARM_S)
    held.told_ms, held.gaps_ms = {}, []
    time.sleep(seconds)
    held.close()
    boss.send((held.told_ms, held.gaps_ms, len(held.failed)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--poll", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = _measure(Path(folder), options)
    if options.json:
        print(json.dumps(measured))
        return
    for name, told in measured.items():
        print(f"{name}: " + ", ".join(f"{part} {value}" for part, value in told.items()))


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    ports = Ports.free()
    address = f"http://127.0.0.1:{ports.console}"
    environment = {
        **os.environ,
        "CEP_MANAGER__CONTROL__PORT": str(ports.control),
        "CEP_MANAGER__HTTP__PORT": str(ports.console),
        "CEP_MANAGER__ACCOUNTS__LOGIN": "false",
        "CEP_MANAGER__DATABASE__URL": f"sqlite:///{folder / 'manager.db'}",
    }
    command = [str(Path(sys.executable).with_name("cep")), "manager"]
    with (folder / "manager.log").open("w") as log:
        manager = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)  # noqa: S603
        try:
            _until(lambda: _answers(address))
            plans = [f"Plan{number}" for number in range(options.plans)]
            for name in plans:
                requests.post(f"{address}/api/v1/plans", data=PLAN.format(name=name), timeout=30).raise_for_status()
            graphs = [requests.get(f"{address}/api/v1/plans/{name}/topology", timeout=30).json() for name in plans]
            return _with_peers(address, Endpoint("127.0.0.1", ports.control), graphs, plans, manager.pid, options)
        finally:
            manager.terminate()
            manager.wait(timeout=20)


def _with_peers(
    address: str,
    control: Endpoint,
    graphs: list[dict[str, Any]],
    plans: list[str],
    manager: int,
    options: argparse.Namespace,
) -> dict[str, dict[str, float]]:
    boss, end = multiprocessing.Pipe()
    peers = multiprocessing.Process(target=run_peers, args=(control, graphs, end), daemon=True)
    peers.start()
    _until(lambda: _all_active(address))
    _waits(boss, "begin")
    begun, used = time.monotonic(), _cpu_s(manager)
    time.sleep(options.seconds)
    quiet_cores = (_cpu_s(manager) - used) / (time.monotonic() - begun)
    quiet = _waits(boss, "pages")
    pages_boss, pages_end = multiprocessing.Pipe()
    held = multiprocessing.Process(
        target=hold_pages, args=(address, plans, options.pages, options.poll, options.seconds, pages_end), daemon=True
    )
    begun, used = time.monotonic(), _cpu_s(manager)
    held.start()
    told_ms, gaps_ms, failed = pages_boss.recv()
    busy_cores = (_cpu_s(manager) - used) / (time.monotonic() - begun)
    busy = _waits(boss, "end")
    held.join(timeout=10)
    peers.join(timeout=10)
    data = [value for kind, values in told_ms.items() if kind != YARDSTICK for value in values]
    ratio = {part: round(_told(busy)[part] / _told(quiet)[part], 2) for part in ("p50_ms", "p99_ms")}
    return {
        "page data": {**_told(data), "failed": failed},
        **{f"  {kind}": _told(values) for kind, values in sorted(told_ms.items())},
        **({"time between two changes sent": _told(gaps_ms)} if gaps_ms else {}),
        "heartbeats, no page open": _told(quiet),
        "heartbeats, pages open": _told(busy),
        "heartbeats, ratio": ratio,
        "cores that the manager used": {"no page open": round(quiet_cores, 2), "pages open": round(busy_cores, 2)},
    }


def _cpu_s(process: int) -> float:
    """Return the processor time that the process has used, by Linux's `proc`."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _waits(boss: Any, what: str) -> list[float]:
    boss.send(what)
    waits: list[float] = boss.recv()
    return waits


def _told(values: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return {
        "n": len(values),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "most_ms": round(max(values), 1),
    }


def _answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/api/v1/health", timeout=2).status_code == 200
    except requests.RequestException:
        return False


def _all_active(address: str) -> bool:
    plans = requests.get(f"{address}/api/v1/plans", timeout=30).json()["plans"]
    return all(plan["status"]["topology"]["state"] == "active" for plan in plans)


def _until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not found():
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not come about in {SETTLE_S} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
