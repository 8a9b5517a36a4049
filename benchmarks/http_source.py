"""Single events over HTTP: a worker with its log on disk on one core, clients and a receiver on the others.

    .venv/bin/python -m benchmarks.http_source [--seconds 5] [--connections 32] [--rate 5000] [--json] [--folder FOLDER]

Prints for each case requests per second of so many keep-alive connections, each of which sends its next event when the
one before is answered, how much of a core the worker needs for that, and p50 and p99 of the time to the answer; then
the times of `--rate` requests a second (half of what it takes, if that is less), sent when they are due, however late
the answers are, and counted from then. The client's own share of a core shows that it is not the bottleneck. Every
answer must be 202, and in the end the receiver must have got exactly as many events as were accepted.

Cases: the worker's server; the same with each write synced to the disk before the answer (`fsync: always`), with
tokens, with an `Idempotency-Key` in each request, with pipelining (16 requests before the first answer), gzip and TLS;
and, in the same worker, the application behind waitress, which was the server before.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import logging
import multiprocessing
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
import waitress
import zmq

from benchmarks.wal import ATTRIBUTES, BINDING
from cep_common.clock import SystemClock
from cep_common.ids import Endpoint, PlanKey
from cep_common.process.freed_memory import keep_freed_memory
from cep_common.protocol.links import Data
from cep_common.protocol.registry import DeployedPlan, EndpointAssigned
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.roles import SocketKind
from cep_common.security.tokens import TokenFile
from cep_common.security.web import Gate
from cep_worker.config import EgressConfig, IngressConfig, OutflowConfig, WalConfig, WorkerConfig, WorkerHttpConfig
from cep_worker.data_plane import DataPlane
from cep_worker.http.app import create_app
from cep_worker.inflows.wal.store import WalStore
from cep_worker.main import SWITCH_INTERVAL_S
from topology.links.server import FrameArrived, LinkArrived, LinkServer

PLAN = DeployedPlan(PlanKey(-1234, "Benchmark"), 1, (BINDING,), ())
EVENT = json.dumps({name: {"string": "UA123", "int": 5, "double": 1.5}[kind] for name, kind in ATTRIBUTES}).encode()
PIPELINED = 16
SECURED_EVERY_MS = 200
PATH = "/events/Departures"


@dataclass(frozen=True, slots=True)
class HttpCase:
    """What is measured."""

    name: str
    fsync: str = "interval"
    tokens: bool = False
    keys: bool = False
    pipelined: int = 1
    gzip: bool = False
    tls: bool = False
    waitress: bool = False


CASES = (
    HttpCase("worker"),
    HttpCase("waitress", waitress=True),
    HttpCase("fsync always", fsync="always"),
    HttpCase("tokens", tokens=True),
    HttpCase("Idempotency-Key", keys=True),
    HttpCase("pipelined", pipelined=PIPELINED),
    HttpCase("gzip", gzip=True),
    HttpCase("TLS", tls=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--folder", type=Path, help="where the logs are; a temporary folder by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        if options.case is None or case.name in options.case:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                found = _measured(case, Path(folder), options)
            print(json.dumps(found) if options.json else _shown(found), flush=True)


def _shown(found: dict[str, Any]) -> str:
    closed, paced = found["closed"], found["paced"]
    return (
        f"{found['case']}: {closed['per_s']:,.0f} requests/s on {closed['server_cores']:.2f} cores"
        f" (client {closed['client_cores']:.2f}), p50 {closed['p50_ms']:.2f} ms, p99 {closed['p99_ms']:.2f} ms;"
        f" at {paced['per_s']:,.0f}/s: {paced['server_cores']:.2f} cores, p50 {paced['p50_ms']:.2f} ms,"
        f" p99 {paced['p99_ms']:.2f} ms; {found['accepted']:,} accepted, {found['received']:,} received"
    )


def _measured(case: HttpCase, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    processes = multiprocessing.get_context("spawn")
    receiver, there = processes.Pipe()
    receiving = processes.Process(target=_receive, args=(there,))
    receiving.start()
    found: dict[str, Any] = {"case": case.name}
    try:
        with _worker(processes, folder, case, receiver.recv()) as (target, worker):
            _client(target, case, 0.5, options.connections, 0)  # what is compiled and opened once
            for name in ("closed", "paced"):
                # More than it takes would only show how long the queue becomes.
                rate = 0 if name == "closed" else int(min(options.rate, found["closed"]["per_s"] / 2))
                before_s, began = _cpu_s(worker), time.perf_counter()
                found[name] = _client(target, case, options.seconds, options.connections, rate)
                found[name]["server_cores"] = (_cpu_s(worker) - before_s) / (time.perf_counter() - began)
            worker.send("accepted")
            total = worker.recv()
            deadline = time.monotonic() + 30
            while _rows(receiver) < total and time.monotonic() < deadline:
                time.sleep(0.05)
            found |= {"accepted": total, "received": _rows(receiver)}
    finally:
        receiver.send("stop")
        receiving.join()
    if found["accepted"] != found["received"]:
        raise SystemExit(f"{case.name}: {found['accepted']} events were accepted, {found['received']} were received")
    return found


def _rows(receiver: Any) -> int:
    receiver.send("rows")
    return int(receiver.recv())


def _cpu_s(worker: Any) -> float:
    worker.send("cpu")
    return float(worker.recv())


# ---- the worker -----------------------------------------------------------------------------------------------------


@contextmanager
def _worker(processes: Any, folder: Path, case: HttpCase, endpoint: Endpoint) -> Iterator[tuple[dict[str, Any], Any]]:
    here, there = processes.Pipe()
    process = processes.Process(target=_run_worker, args=(there, folder, case, endpoint))
    process.start()
    try:
        yield here.recv(), here
    finally:
        here.send("stop")
        process.join()


def _run_worker(pipe: Any, folder: Path, case: HttpCase, endpoint: Endpoint) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    token, security = "", ServerSecurity(requests_per_s=0)
    if case.tokens:
        token = TokenFile(folder / "tokens.json").create("sender", AccessRole.SENDER, None, 1)
        security = ServerSecurity(requests_per_s=0, tokens=str(folder / "tokens.json"))
    if case.tls:
        certificate, key = _certificate(folder)
        security = ServerSecurity(requests_per_s=0, certificate=certificate, certificate_key=key)
    config = WorkerConfig(
        wal=WalConfig(str(folder / "wal"), fsync=case.fsync),  # type: ignore[arg-type]
        ingress=IngressConfig(port=_free_port()),
        egress=EgressConfig(port=_free_port()),
        outflow=OutflowConfig(),
        http=WorkerHttpConfig(port=_free_port()),
        security=security,
    )
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wal = WalStore(config.wal, "benchmark")
    data = DataPlane(config, "benchmark", wal, context, SystemClock(), ((), ()), lambda: None)
    data.open()
    thread = threading.Thread(target=data.run)
    thread.start()
    data.apply((PLAN,))
    data.connect(PLAN.key, PLAN.epoch, "Departures", EndpointAssigned(endpoint, "receiver#0"))
    while not any(inflow.connected for snapshot in data.snapshots() for inflow in snapshot.report.inflow):
        time.sleep(0.01)
    port = config.http.port
    if case.waitress:
        gate = Gate(security, "127.0.0.1", SystemClock())
        app = create_app(data.gateway, config.http.body_bytes, config.http.wait_ms, gate)
        port = _free_port()
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it has a line for each request that waits
        former = waitress.create_server(app, host="127.0.0.1", port=port, threads=config.http.threads)
        threading.Thread(target=former.run, daemon=True).start()
    pipe.send({"port": port, "token": token})
    while (asked := pipe.recv()) != "stop":
        if asked == "cpu":
            pipe.send(time.process_time())
        else:
            pipe.send(_accepted(data))
    data.stop()
    thread.join()
    wal.close()
    context.destroy(linger=0)


def _accepted(data: DataPlane) -> int:
    return sum(taken for _, taken in data._limits.taken())


def _certificate(folder: Path) -> tuple[str, str]:
    files = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(  # noqa: S603 - a command of ours
        ["openssl", "req",  # noqa: S607
         "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


def _receive(pipe: Any) -> None:
    """Run a receiver stage that takes everything at once and secures it now and then."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = LinkServer.listen(
        context, SocketKind.RECEIVER, "127.0.0.1", (20_000, 29_999), 65_536, lambda _: None, resume=lambda _: (0, False)
    )
    pipe.send(server.endpoint)
    rows, secured_ms = 0, 0
    while True:
        server.socket.poll(5)
        now_ms = time.monotonic_ns() // 1_000_000
        for event in server.receive(now_ms):
            if isinstance(event, LinkArrived):
                event.link.attachment = 0
            elif isinstance(event, FrameArrived) and event.batch is not None and isinstance(event.message, Data):
                rows += event.batch.num_rows
                server.done(event.link, event.sequence)
                event.link.attachment = event.message.position
        server.flush()
        if now_ms - secured_ms >= SECURED_EVERY_MS:
            secured_ms = now_ms
            for link in server.links.values():
                server.secure(link, link.attachment)
        match pipe.recv() if pipe.poll() else "":
            case "rows":
                pipe.send(rows)
            case "stop":
                break
    server.close()
    context.destroy(linger=0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ---- the client -----------------------------------------------------------------------------------------------------


class _Sender(asyncio.Protocol):
    """One keep-alive connection over a raw socket. All answers have the same length, by which they are counted."""

    def __init__(self, load: _HttpLoad) -> None:
        self._load = load
        self._transport: Any = None
        self._sent: list[float] = []
        self._left = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self, due: float, count: int = 1) -> None:
        """Send so many requests that were due at that time."""
        self._sent += [due] * count
        self._transport.write(b"".join(self._load.request() for _ in range(count)))

    def waits(self) -> bool:
        """Return whether a request is not answered."""
        return bool(self._sent)

    def data_received(self, data: bytes) -> None:
        data = self._left + data
        answers = data.split(b'{"accepted":1}')
        self._left = answers.pop()
        now = time.perf_counter()
        for answer in answers:
            if not answer.lstrip().startswith(b"HTTP/1.1 202"):
                raise SystemExit(f"not accepted: {answer[:300]!r}")
            self._load.took.append(now - self._sent.pop(0))
        if not self._sent:
            self._load.idle(self)

    def connection_lost(self, lost: Exception | None) -> None:
        if not self._load.ended:
            raise SystemExit(f"a connection was lost: {lost}")


class _HttpLoad:
    def __init__(self, target: dict[str, Any], case: HttpCase, rate: int) -> None:
        body = gzip.compress(EVENT, mtime=0) if case.gzip else EVENT
        head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{target['port']}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n"
        head += "Content-Encoding: gzip\r\n" if case.gzip else ""
        head += f"Authorization: Bearer {target['token']}\r\n" if case.tokens else ""
        self._head, self._body = head.encode(), b"\r\n" + body
        self._whole = self._head + self._body
        self._case, self._rate = case, rate
        self._numbers = itertools.count(time.monotonic_ns())
        self._free: list[_Sender] = []
        self.took: list[float] = []
        self.ended = False

    def request(self) -> bytes:
        """Return the next request."""
        if not self._case.keys:
            return self._whole
        return b"%bIdempotency-Key: %d\r\n%b" % (self._head, next(self._numbers), self._body)

    def idle(self, sender: _Sender) -> None:
        """Have a sender whose requests are answered send the next ones, or wait for its turn."""
        if self.ended:
            return
        if self._rate:
            self._free.append(sender)
        else:
            sender.send(time.perf_counter(), self._case.pipelined)

    async def run(self, port: int, seconds: float, connections: int, *, tls: bool) -> float:
        """Send for so long and return how long it took."""
        loop = asyncio.get_running_loop()
        context = None
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        senders = [
            (await loop.create_connection(lambda: _Sender(self), "127.0.0.1", port, ssl=context))[1]
            for _ in range(connections)
        ]
        began = time.perf_counter()
        if self._rate:
            self._free.extend(senders)
            await self._paced(began, seconds)
        else:
            for sender in senders:
                self.idle(sender)
            await asyncio.sleep(seconds)
        self.ended = True
        took = time.perf_counter() - began
        while any(sender.waits() for sender in senders):
            await asyncio.sleep(0.005)
        return took

    async def _paced(self, began: float, seconds: float) -> None:
        """Send when it is due; what finds no free connection waits, and its time runs."""
        sent, most = 0, int(self._rate * seconds)
        while sent < most:
            due = min(most, int((time.perf_counter() - began) * self._rate))
            while sent < due and self._free:
                self._free.pop().send(began + sent / self._rate)
                sent += 1
            await asyncio.sleep(0.0005)


def _client(target: dict[str, Any], case: HttpCase, seconds: float, connections: int, rate: int) -> dict[str, float]:
    load = _HttpLoad(target, case, rate)
    cpu_s = time.process_time()
    took_s = uvloop.run(load.run(target["port"], seconds, connections, tls=case.tls))
    cores = (time.process_time() - cpu_s) / took_s
    p50, p99 = np.percentile(load.took, (50, 99)) * 1_000
    return {"per_s": len(load.took) / took_s, "client_cores": cores, "p50_ms": p50, "p99_ms": p99,
            "accepted": len(load.took)}  # fmt: skip


if __name__ == "__main__":
    main()
