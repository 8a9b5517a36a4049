"""Events at a steady rate to two nodes of which one mirrors the other, and what a kill of the active node costs.

    .venv/bin/python -m benchmarks.two_nodes [--rate 100000] [--seconds 60] [--frame 1000] [--kills 1]
        [--heartbeat-ms 1000] [--delivery exactly-once] [--folder DIR] [--json]

Two nodes on this machine, at 127.0.0.1 and 127.0.0.2, with a PostgreSQL server. A client sends frames of events, each
of which is acknowledged when both nodes have it, at the rate whether or not it is answered: what could not be sent
during a takeover is sent after it. Printed are the time from the moment when a frame was due to its acknowledgement,
the mirror's lag as the active node reports it, and after each `kill -9` of all processes of the active node the time
until the other one has acknowledged a frame and until it has given its first result.

The plan gives one result for each frame, with a total over all events so far. So each result shows that the frame was
counted once and whole, and that the state behind it is that of an undisturbed run over the same frames.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from free_ports import free_port
from postgresql_server import postgresql_server

from cep_cli.node.demo import results
from cep_cli.node.pair import NodePair, PairNode
from cep_cli.plan_commands.plans import wait_until_connected
from cep_common.errors import InputError, PeerError
from cep_common.ids import Endpoint
from cep_common.process.priority import raise_process_priority
from cep_common.protocol.links import StreamSchema
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.events.frames import arrow_schema

PLAN = """
@Plan:name('Mirrored') @Plan:delivery('{delivery}')
@Import('Readings:1.0.0') define stream Readings (number long, level double, device string);
define stream Numbered (number long, total long);
@Export('Frames:1.0.0') @sink(type='file', file.uri='{file}')
define stream Frames (first long, last long, events long, total long);
from Readings select number, sum(number) as total insert into Numbered;
from Numbered#window.lengthBatch({frame})
select min(number) as first, max(number) as last, count() as events, max(total) as total insert into Frames;
"""
NAMES = ("control", "console", "http", "ingress", "egress", "guard", "sync")
FIRST_S, REST_S = 300.0, 120.0
WARM_UP_FRAMES = 200
OPEN_MS = 500
LOOK_S = 0.005
BETWEEN_S = 10.0
"""How long frames are sent before each kill, and after the last one."""
SILENT_S = 30.0
LONGEST_LINE = 1_000


class Sender(threading.Thread):
    """Sends frames 0, 1, … of `rows` events to the active node until `close`, at `rate` events a second.

    A frame that was sent and not acknowledged when the connection was lost is not repeated: the node may have it or
    not.
    """

    def __init__(self, endpoints: Sequence[Endpoint], schema: StreamSchema, rate: float, rows: int) -> None:
        super().__init__(name="sender", daemon=True)
        self._endpoints, self._schema, self._rows, self._pause_s = endpoints, schema, rows, rows / rate
        self._closing = threading.Event()
        self._sent: deque[tuple[int, float]] = deque()
        """Frames that were not acknowledged yet, and when each was due."""
        self._template = pa.record_batch(
            [np.zeros(rows, np.int64), np.zeros(rows, np.int8), np.zeros(rows, np.int64),
             np.random.default_rng(7).normal(20.0, 2.0, rows), [f"device-{row % 1_000}" for row in range(rows)]],
            schema=arrow_schema(schema),
        )  # fmt: skip
        self.acknowledged: list[int] = []
        self.acknowledged_at: list[float] = []
        self.waits_s: list[float] = []
        self.uncertain: list[int] = []
        self.failure: BaseException | None = None

    def close(self) -> None:
        """Send nothing more, and wait until everything is acknowledged."""
        self._closing.set()
        self.join()

    def check(self) -> None:
        """Raise what has ended the thread early."""
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        """Send until `close`."""
        try:
            self._run()
        except BaseException as failure:  # noqa: BLE001 - `check` raises it in the main thread
            self.failure = failure

    def _run(self) -> None:
        number, place, begun = 0, 0, time.monotonic()
        while not self._closing.is_set():
            if not _listens(self._endpoints[place]):  # a refused connection is tried again at once
                place = 1 - place
                time.sleep(LOOK_S)
                continue
            try:
                sender = EventSender(self._endpoints[place], self._schema, timeout_ms=OPEN_MS)
            except (PeerError, InputError):  # it is passive, or does not have the plan's streams yet
                place = 1 - place
                continue
            try:
                while not self._closing.is_set():
                    due = begun + number * self._pause_s
                    while (early_s := due - time.monotonic()) > 0:
                        sender.poll(max(1, int(early_s * 1_000)))
                        self._note(sender)
                    sender.send(self._frame(number))  # one that raises has not sent it
                    self._sent.append((number, due))
                    number += 1
                    self._note(sender)
                sender.flush()
            except (PeerError, InputError):  # the worker is gone, or leaves
                place = 1 - place
            finally:
                self._note(sender)
                self.uncertain += [frame for frame, _ in self._sent]
                self._sent.clear()
                sender.close()

    def _note(self, sender: EventSender) -> None:
        """Note which frames were acknowledged, in the order in which they were sent on this connection."""
        now, open_frames = time.monotonic(), (sender.sent_rows - sender.acknowledged_rows) // self._rows
        while len(self._sent) > open_frames:
            number, due = self._sent.popleft()
            self.acknowledged.append(number)
            self.acknowledged_at.append(now)
            self.waits_s.append(now - due)

    def _frame(self, number: int) -> pa.RecordBatch:
        first = number * self._rows
        columns = [pa.array(np.full(self._rows, time.time_ns() // 1_000_000)), *self._template.columns[1:]]
        columns[2] = pa.array(np.arange(first, first + self._rows))
        return pa.record_batch(columns, schema=self._template.schema)


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds after the kill of the active node."""

    active_s: float
    acknowledged_s: float
    result_s: float
    """Of any frame: results that were prepared when the node was killed are published first."""
    fresh_result_s: float
    """Of a frame that the other node has accepted."""


def _listens(endpoint: Endpoint) -> bool:
    try:
        socket.create_connection((endpoint.host, endpoint.port), 0.05).close()
    except OSError:
        return False
    return True


class Lags(threading.Thread):
    """Reads the lag that the active node reports, and its processor time."""

    def __init__(self, pair: NodePair) -> None:
        super().__init__(name="lags", daemon=True)
        self._pair = pair
        self.lags_ms: list[int] = []
        self.unprotected = 0

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            active = self._pair.active()
            mirror = active.mirror if active is not None else None
            if mirror is not None:
                self.lags_ms.append(mirror.lag_ms)
                self.unprotected += mirror.state != "protected"
            time.sleep(0.05)


def main() -> None:
    """Print what was measured. Exit with an error when a frame was lost, counted twice, or the state is another one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--frame", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--heartbeat-ms", type=int, default=1_000)
    parser.add_argument("--delivery", choices=("exactly-once", "at-least-once"), default="exactly-once")
    parser.add_argument("--folder", help="keep the nodes' logs here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    raise_process_priority("realtime")  # the nodes do so: the client must not be slower than them
    folder = Path(options.folder or tempfile.mkdtemp(prefix="cep-two-nodes-"))
    with postgresql_server() as server:
        measured = _measure(folder, server.emptied(), options)
    if not options.folder:
        shutil.rmtree(folder)
    _say(measured, options)


def _measure(folder: Path, url: str, options: argparse.Namespace) -> dict[str, Any]:
    ports, file = {name: free_port() for name in NAMES}, folder / "frames.ndjson"
    with NodePair(folder, ports, **{"cluster.config": _cluster(url, options.heartbeat_ms)}) as pair:
        pair.start()
        active = pair.await_protected()
        plan = PLAN.format(delivery=options.delivery, file=file, frame=options.frame)
        active.client.deploy(plan, replace=False)
        wait_until_connected(active.client, "Mirrored", FIRST_S)
        endpoints = [Endpoint(node.host, ports["ingress"]) for node in pair.nodes]
        schema = fetch_schema(f"http://{active.host}:{active.http}", "Readings")
        sender, lags = Sender(endpoints, schema, options.rate, options.frame), Lags(pair)
        sender.start()
        pair.wait(lambda: len(results(file)) > WARM_UP_FRAMES, "the first results", FIRST_S)
        lags.start()
        warm, cpu = len(sender.waits_s), _cpu_s(pair)
        began = time.monotonic()
        _pass(sender, options.seconds)
        took_s, steady = time.monotonic() - began, sender.waits_s[warm:]
        found: dict[str, Any] = {
            "acknowledged_per_s": round(len(steady) * options.frame / took_s),
            "wait_ms": _percentiles(np.array(steady) * 1_000),
            "lag_ms": _percentiles(np.array(lags.lags_ms)),
            "unprotected_looks": f"{lags.unprotected} of {len(lags.lags_ms)}",
            "cpu": {name: round((used - cpu[name]) / took_s, 2) for name, used in _cpu_s(pair).items()},
            "takeovers": [],
        }
        for _ in range(options.kills):
            found["takeovers"].append(_kill(pair, sender, file, options))
        sender.close()
        sender.check()
        found["frames"] = _check(pair, sender, file, options)
    return found


def _cluster(url: str, heartbeat_ms: int) -> dict[str, Any]:
    pace = {"heartbeatInterval": heartbeat_ms, "heartbeatMaxRetry": 2, "eventPollingInterval": heartbeat_ms}
    return {"groupId": "benchmark", "strategyConfig": {"datasource": url, **pace}}


def _pass(sender: Sender, seconds: float) -> None:
    """Wait, as long as the sender works."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sender.check()
        time.sleep(LOOK_S)


def _cpu_s(pair: NodePair) -> dict[str, float]:
    """Return the processor time of each node's processes, in seconds."""
    found = {}
    for node in pair.nodes:
        times = [psutil.Process(process).cpu_times() for process in node.processes()]
        found[node.name] = sum(one.user + one.system for one in times)
    return found


def _kill(pair: NodePair, sender: Sender, file: Path, options: argparse.Namespace) -> Takeover:
    """Kill the active node, measure what follows, and start it again."""
    active = pair.await_protected()
    successor = pair.other(active)
    # A passive node has normally been up for a while. One that has just started needs its Spark session first.
    pair.wait(lambda: _stands_by(successor), "the passive node's stage host", FIRST_S)
    _pass(sender, BETWEEN_S)
    active.kill()
    killed_at, size = time.monotonic(), file.stat().st_size
    pair.wait(successor.is_active, "the other node is active")
    active_s = time.monotonic() - killed_at
    result_at = pair.wait(lambda: _now_if(file.stat().st_size > size), "the first result", SILENT_S)
    pair.wait(lambda: sender.acknowledged_at[-1] > killed_at + active_s, "events are taken", SILENT_S)
    place = next(place for place, at in enumerate(sender.acknowledged_at) if at > killed_at + active_s)
    taken_at, first = sender.acknowledged_at[place], sender.acknowledged[place] * options.frame
    fresh_at = pair.wait(lambda: _now_if(_last_number(file) >= first), "a result of a later frame", SILENT_S)
    active.start()
    pair.await_protected()
    _pass(sender, BETWEEN_S)
    after_s = (killed_at + active_s, taken_at, result_at, fresh_at)
    return Takeover(*(round(at - killed_at, 2) for at in after_s))


def _stands_by(node: PairNode) -> bool:
    """Return whether the node's newest driver has a stage host that waits for plans, and has not been active yet."""
    _, passive, log = (node.folder / "driver.log").read_text(encoding="utf-8").rpartition("driver of a passive node")
    return bool(passive) and "stage host is up" in log and "driver is ready" not in log


def _now_if(happened: bool) -> float:
    return time.monotonic() if happened else 0.0


def _last_number(file: Path) -> int:
    """Return the last number in the newest whole result."""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LONGEST_LINE))
        *lines, _ = opened.read().split(b"\n")
    return int(json.loads(lines[-1])["last"])


def _check(pair: NodePair, sender: Sender, file: Path, options: argparse.Namespace) -> dict[str, int]:
    """Compare the results with what was acknowledged. Raises SystemExit when they differ."""
    rows, wanted = options.frame, set(sender.acknowledged)
    pair.wait(lambda: wanted <= {one["first"] // rows for one in results(file)}, "a result for each frame", REST_S)
    total, before, wrong = 0, -1, list[dict[str, int]]()
    seen: dict[int, dict[str, int]] = {}
    twice = 0
    for row in results(file):
        one = {name: value for name, value in row.items() if name != "_timestamp"}
        frame = one["first"] // rows
        if frame in seen:
            twice += 1
            wrong += [one] if one != seen[frame] else []
            continue
        seen[frame] = one
        total += sum(range(frame * rows, (frame + 1) * rows))
        whole = {"first": frame * rows, "last": (frame + 1) * rows - 1, "events": rows, "total": total}
        if one != whole or frame <= before:
            wrong.append(one)
        before = frame
    strange = seen.keys() - wanted - set(sender.uncertain)
    counted_twice = twice if options.delivery == "exactly-once" else 0
    if wrong or strange or counted_twice:
        raise SystemExit(f"wrong results {wrong[:3]}, of no frame {sorted(strange)[:3]}, twice {counted_twice}; {file}")
    return {
        "acknowledged": len(wanted), "lost": len(wanted - seen.keys()), "repeated_results": twice,
        "unanswered": len(sender.uncertain), "unanswered_and_counted": len(seen.keys() & set(sender.uncertain)),
    }  # fmt: skip


def _percentiles(values: np.ndarray[tuple[int], np.dtype[Any]]) -> dict[str, float]:
    p50, p99, most = np.percentile(values, [50, 99, 100])
    return {"p50": round(float(p50), 1), "p99": round(float(p99), 1), "max": round(float(most), 1)}


def _say(measured: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps(measured, default=asdict))
        return
    load = f"{options.rate:,} events/s in frames of {options.frame}"
    print(f"{load}, {options.delivery}, heartbeat {options.heartbeat_ms} ms")
    for name in ("acknowledged_per_s", "wait_ms", "lag_ms", "unprotected_looks", "cpu", "frames"):
        print(f"{name.replace('_', ' '):22} {measured[name]}")
    for one in measured["takeovers"]:
        print(
            f"kill -9: other node active after {one.active_s} s, first acknowledgement after {one.acknowledged_s} s, "
            f"first result after {one.result_s} s, of an event that it accepted after {one.fresh_result_s} s"
        )


if __name__ == "__main__":
    main()
