"""What encryption costs a link: the same batches over a plain link and one with CURVE, in turns.

    .venv/bin/python -m benchmarks.curve [--rounds 5]

Tells events a second (of single events: round trips), and the processor time of both ends for each event.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zmq

from cep_common.ids import Endpoint
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.security.config import SecurityConfig
from cep_common.security.context import open_context
from cep_common.security.keys import write_keys
from cep_common.security.roles import Role, SocketKind
from topology.events.frames import arrow_schema, encode_batch
from topology.events.watermarks import NO_WATERMARK
from topology.links.sender import LinkSender, LinkState
from topology.links.server import FrameArrived, LinkServer

SCHEMA = StreamSchema("S", (("key", "long"), ("value", "double"), ("amount", "double")))
WINDOW_ROWS = 65_536
BATCHES = {1: 500, 100: 4_000, 1_000: 3_000, 10_000: 600}
"""How many batches of how many rows are sent in a round; of single events each waits for its acknowledgement."""


def serve(keys: str, ports: Any) -> None:
    """Run a server that takes every frame at once, until it is ended."""
    context = open_context(SecurityConfig(keys), Role.STAGE)
    server = LinkServer.listen(context, SocketKind.RECEIVER, "127.0.0.1", (20_000, 60_000), WINDOW_ROWS, lambda _: None)
    ports.put(server.endpoint.port)
    while True:
        server.socket.poll()
        for event in server.receive(0):
            if isinstance(event, FrameArrived):
                server.done(event.link, event.sequence)
        server.flush()


class CurveRoute:
    """A link to a server process, with or without keys."""

    def __init__(self, keys: str, port: int, server: int) -> None:
        self._server = server
        self._context = open_context(SecurityConfig(keys), Role.WORKER)
        self._link = LinkSender(
            self._context, SocketKind.RECEIVER, Endpoint("127.0.0.1", port), OpenLink("b", (SCHEMA,)), 0
        )
        self._poller = zmq.Poller()
        self._poller.register(self._link.socket, zmq.POLLIN)
        self._wait(lambda: self._link.state is LinkState.OPEN)

    def events_per_s(self, rows: int, batches: int) -> float:
        """Return how many events a second go through in batches of so many rows."""
        body = encode_batch(batch_of(rows))
        began_s = time.perf_counter()
        for _ in range(batches):
            self._wait(self._link.has_room)
            self._link.send("S", body, rows, NO_WATERMARK)
        self._wait(lambda: not self._link.outbox.pending)
        return rows * batches / (time.perf_counter() - began_s)

    def round_trip_us(self, times: int) -> float:
        """Return the median time from sending one event until it is acknowledged, in microseconds."""
        body = encode_batch(batch_of(1))
        took: list[int] = []
        for _ in range(times):
            began_ns = time.perf_counter_ns()
            self._link.send("S", body, 1, NO_WATERMARK)
            self._wait(lambda: not self._link.outbox.pending)
            took.append(time.perf_counter_ns() - began_ns)
        return statistics.median(took) / 1_000

    def cpu_s(self) -> float:
        """Return the processor time that both ends have used, sockets' own threads included."""
        fields = Path(f"/proc/{self._server}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._link.close()
        self._context.destroy(linger=0)

    def _wait(self, done: Any) -> None:
        while not done():
            self._poller.poll()
            self._link.handle()


def batch_of(rows: int) -> pa.RecordBatch:
    """Return a batch of `SCHEMA`."""
    numbers = np.arange(rows, dtype=np.int64)
    columns = [numbers, np.zeros(rows, np.int8), numbers, numbers / 2, numbers * 3.0]
    return pa.record_batch(columns, schema=arrow_schema(SCHEMA))


@contextmanager
def way(keys: str) -> Iterator[CurveRoute]:
    """Open a link to a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ports: Any = spawn.Queue()
    process = spawn.Process(target=serve, args=(keys, ports), daemon=True)
    process.start()
    made = CurveRoute(keys, ports.get(timeout=60), process.pid or 0)
    try:
        yield made
    finally:
        made.close()
        process.kill()
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        write_keys(Path(folder) / "keys")
        with way("") as plain, way(str(Path(folder) / "keys")) as secured:
            for rows, batches in BATCHES.items():
                ratios, best, cpu_ns = [], [0.0, 0.0], [0.0, 0.0]
                for _ in range(rounds):
                    measured = []
                    for place, one in enumerate((plain, secured)):
                        since_s = one.cpu_s()
                        rate = 1e6 / one.round_trip_us(batches) if rows == 1 else one.events_per_s(rows, batches)
                        measured.append(rate)
                        cpu_ns[place] += (one.cpu_s() - since_s) * 1e9 / (rows * batches * rounds)
                    best = [max(pair) for pair in zip(best, measured, strict=True)]
                    ratios.append(measured[1] / measured[0])
                answer = {"rows": rows, "plain": round(best[0]), "curve": round(best[1])}
                used = {"plain_cpu_ns": round(cpu_ns[0], 1), "curve_cpu_ns": round(cpu_ns[1], 1)}
                print(json.dumps({**answer, **used, "best_ratio": round(best[1] / best[0], 3),
                                  "median_ratio": round(statistics.median(ratios), 3)}))  # fmt: skip


if __name__ == "__main__":
    main()
