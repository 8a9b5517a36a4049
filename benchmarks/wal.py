"""What it costs that accepted events are on disk: the log alone, and a worker with a log beside one without.

    .venv/bin/python benchmarks/wal.py [--rounds 5] [--folder FOLDER] [--json]

Prints appends and megabytes per second of the log for each fsync policy, into new files and again over those that are
not needed any more, and of reading it back; and of a client, a worker and a receiver in processes of their own: events
per second in batches of 4,096 rows, the processor time that the worker takes for such a batch, and how long a lone
event takes from the client to the receiver, with each policy and without a log, best of the rounds. Ratios are of the
same run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import zmq

from cep_common.clock import SystemClock
from cep_common.ids import Endpoint, PlanKey
from cep_common.process.freed_memory import keep_freed_memory
from cep_common.protocol.links import Data, StreamSchema
from cep_common.protocol.registry import DeployedPlan, EndpointAssigned, StreamBinding
from cep_common.security.roles import SocketKind
from cep_worker.config import EgressConfig, IngressConfig, WalConfig, WorkerConfig, WorkerHttpConfig
from cep_worker.data_plane import DataPlane
from cep_worker.inflows.wal.log import StreamLog
from cep_worker.inflows.wal.store import WalStore
from cep_worker.ingest.event_sender import EventSender
from cep_worker.storage.group_commit import open_disk_sync
from topology.events.frames import arrow_schema, encode_batch
from topology.links.server import FrameArrived, LinkArrived, LinkServer

ATTRIBUTES = (("carrier", "string"), ("flight", "string"), ("delay", "int"), ("distance", "double"))
BINDING = StreamBinding("Departures", "Departures:1.0.0", ATTRIBUTES)
PLAN = DeployedPlan(PlanKey(-1234, "Benchmark"), 1, (BINDING,), ())
SCHEMA = arrow_schema(StreamSchema("Departures", ATTRIBUTES))
POLICIES = ("no log", "none", "interval", "always")
LARGE_ROWS = 4_096
BATCHES = 60
BURSTS = 10
"""Many short measurements, of which the best counts: others work on the machine as well."""
SECURED_EVERY_MS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the logs are; a temporary folder by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        metrics = {
            "log": {policy: _best(lambda policy=policy: _log(Path(folder), policy), options.rounds)  # type: ignore[misc]
                    for policy in POLICIES[1:]},
            "worker": _workers(Path(folder), options.rounds),
        }  # fmt: skip
    if options.json:
        print(json.dumps(metrics))
        return
    for policy, values in metrics["log"].items():
        print(f"log, fsync {policy}: {values['small_appends_per_s']:,.0f} small appends/s, "
              f"{values['large_megabytes_per_s']:,.0f} MB/s in large ones, "
              f"again {values['again_megabytes_per_s']:,.0f} MB/s, "
              f"read back {values['read_megabytes_per_s']:,.0f} MB/s")  # fmt: skip
    for policy, values in metrics["worker"].items():
        print(f"worker, {policy}: {values['events_per_s']:,.0f} events/s ({values['events_ratio']:.2f}), "
              f"{values['cpu_us_per_batch']:,.0f} us of processor time for a batch "
              f"({values['cpu_more_us_per_batch']:+,.0f} us), a lone event {values['lone_us']:,.0f} us "
              f"({values['lone_more_us']:+,.0f} us)")  # fmt: skip


def _batch(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array(np.zeros(rows, np.int8)),
        pa.array([f"C{number % 20}" for number in numbers]),
        pa.array([f"F{number:06d}" for number in numbers]),
        pa.array(numbers % 90, pa.int32()),
        pa.array(numbers * 1.5),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _best(measure: Callable[[], dict[str, float]], rounds: int) -> dict[str, float]:
    found = [measure() for _ in range(rounds)]
    return {name: max(one[name] for one in found) for name in found[0]}


# ---- the log alone --------------------------------------------------------------------------------------------------


def _log(folder: Path, policy: str) -> dict[str, float]:
    config = WalConfig(str(folder / "log"), fsync=policy)  # type: ignore[arg-type]
    committing: list[Callable[[int], None]] = []
    disk_sync = open_disk_sync(config, committing.append)
    disk_sync.start()
    wal = WalStore(config, "benchmark")
    log = wal.open_log(PLAN.key, BINDING, disk_sync)

    def commit() -> None:
        disk_sync.when_safe(lambda: None)
        for call in committing:
            call(0)
        committing.clear()

    small, large = encode_batch(_batch(1)), encode_batch(_batch(LARGE_ROWS))
    small_s = _append(log, small, 1, 20_000, commit)
    began = log.size_bytes
    large_s = _append(log, large, LARGE_ROWS, 1_000, commit)
    written = log.size_bytes - began
    start = time.perf_counter()
    reader = log.reader(0)
    read = sum(len(record.body) for records in iter(reader.read, []) for record in records)
    read_s = time.perf_counter() - start
    reader.close()
    log.secure(log.last_position)
    again_s = _append(log, large, LARGE_ROWS, 1_000, commit)
    log.secure(log.last_position)
    log.close()
    wal.keep_only([], disk_sync)
    disk_sync.stop()
    wal.close()
    return {
        "small_appends_per_s": 20_000 / small_s,
        "large_megabytes_per_s": written / large_s / 1e6,
        "again_megabytes_per_s": written / again_s / 1e6,
        "read_megabytes_per_s": read / read_s / 1e6,
    }


def _append(log: StreamLog, body: Any, rows: int, times: int, commit: Callable[[], None]) -> float:
    """Seconds for so many appends, ten to a turn of the reactor."""
    start = time.perf_counter()
    for number in range(times):
        log.reserve(body.size)
        log.append(body, body.size, rows, 0)
        if number % 10 == 9:
            commit()
    return time.perf_counter() - start


# ---- a worker between a client and a receiver --------------------------------------------------------------------


def _workers(folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the best of all rounds for each policy; the policies take turns, so that all see the same machine."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    receiver = processes.Process(target=_receive, args=(there,))
    receiver.start()
    endpoint = here.recv()
    throughput: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    lone: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    cpu: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for _ in range(rounds):
        for policy in POLICIES:
            with (
                tempfile.TemporaryDirectory(dir=folder) as own,
                _worker(processes, own, policy, endpoint) as (sender, worker),
            ):
                for _ in range(BURSTS):
                    before_s = _cpu_s(worker)
                    throughput[policy].append(_events_per_s(sender))
                    cpu[policy].append((_cpu_s(worker) - before_s) / BATCHES * 1e6)
                for _ in range(BURSTS):
                    here.send("forget")
                    _send_lone(sender, 100)
                    here.send("latencies")
                    lone[policy].append(float(np.median(here.recv())))
    here.send("stop")
    receiver.join()
    best, quickest, least = max(throughput["no log"]), min(lone["no log"]), min(cpu["no log"])
    return {
        policy: {
            "events_per_s": max(throughput[policy]),
            "events_ratio": max(throughput[policy]) / best,
            "cpu_us_per_batch": min(cpu[policy]),
            "cpu_more_us_per_batch": min(cpu[policy]) - least,
            "lone_us": min(lone[policy]),
            "lone_more_us": min(lone[policy]) - quickest,
        }
        for policy in POLICIES
    }


@contextmanager
def _worker(processes: Any, folder: str, policy: str, endpoint: Endpoint) -> Iterator[tuple[EventSender, Any]]:
    """Start a worker in a process of its own, linked to the receiver; yield a client of it and a pipe to it."""
    here, there = processes.Pipe()
    process = processes.Process(target=_run_worker, args=(there, folder, policy, endpoint))
    process.start()
    try:
        with EventSender(here.recv(), StreamSchema("Departures", ATTRIBUTES)) as sender:
            yield sender, here
    finally:
        here.send("stop")
        process.join()


def _run_worker(pipe: Any, folder: str, policy: str, endpoint: Endpoint) -> None:
    keep_freed_memory()  # as the worker's process does
    config = WorkerConfig(
        wal=WalConfig(folder, fsync="none" if policy == "no log" else policy),  # type: ignore[arg-type]
        ingress=IngressConfig(port=_free_port()),
        egress=EgressConfig(port=_free_port()),
        http=WorkerHttpConfig(port=_free_port()),
    )
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wal = WalStore(config.wal, "benchmark")
    data = DataPlane(config, "benchmark", wal, context, SystemClock(), ((), ()), lambda: None)
    data.open()
    thread = threading.Thread(target=data.run)
    thread.start()
    data.apply((PLAN if policy != "no log" else msgspec.structs.replace(PLAN, delivery="at-most-once"),))
    data.connect(PLAN.key, PLAN.epoch, "Departures", EndpointAssigned(endpoint, "receiver#0"))
    while not any(inflow.connected for snapshot in data.snapshots() for inflow in snapshot.report.inflow):
        time.sleep(0.01)
    pipe.send(Endpoint("127.0.0.1", config.ingress.port))
    while pipe.recv() == "cpu":
        pipe.send(time.process_time())
    data.stop()
    thread.join()
    wal.close()
    context.destroy(linger=0)


def _cpu_s(worker: Any) -> float:
    """Return the processor time that the worker's process has used, in all its threads."""
    worker.send("cpu")
    return float(worker.recv())


def _events_per_s(sender: EventSender) -> float:
    batch = _batch(LARGE_ROWS)
    start = time.perf_counter()
    for _ in range(BATCHES):
        sender.send(batch)
    sender.flush(60_000)
    return BATCHES * LARGE_ROWS / (time.perf_counter() - start)


def _send_lone(sender: EventSender, events: int) -> None:
    """So many events, each when the one before was accepted; they carry the time at which they were sent."""
    one = _batch(1)
    for _ in range(events):
        times = pa.array([time.monotonic_ns()], pa.int64())
        sender.send(pa.RecordBatch.from_arrays([times, *one.columns[1:]], schema=SCHEMA))
        sender.flush(5_000)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _receive(pipe: Any) -> None:
    """Run a receiver stage that takes everything at once and secures it now and then."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = LinkServer.listen(
        context, SocketKind.RECEIVER, "127.0.0.1", (20_000, 29_999), 65_536, lambda _: None, resume=lambda _: (0, False)
    )
    pipe.send(server.endpoint)
    latencies: list[float] = []
    secured_ms = 0
    while True:
        server.socket.poll(1)
        for event in server.receive(_now_ms()):
            if isinstance(event, LinkArrived):
                event.link.attachment = 0
            elif isinstance(event, FrameArrived) and event.batch is not None and isinstance(event.message, Data):
                if event.batch.num_rows == 1:
                    latencies.append((time.monotonic_ns() - event.batch.column(0)[0].as_py()) / 1_000)
                server.done(event.link, event.sequence)
                event.link.attachment = event.message.position
        server.flush()
        if _now_ms() - secured_ms >= SECURED_EVERY_MS:
            secured_ms = _now_ms()
            for link in server.links.values():
                server.secure(link, link.attachment)
        match pipe.recv() if pipe.poll() else "":
            case "forget":
                latencies.clear()
            case "latencies":
                pipe.send(latencies)
            case "stop":
                break
    server.close()
    context.destroy(linger=0)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


if __name__ == "__main__":
    main()
