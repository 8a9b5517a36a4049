"""Load of a steady rate through a worker, and how long its events took until they came out of one."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from cep_common.errors import CepError
from cep_common.ids import Endpoint
from cep_common.monitoring.latency import bucket, percentile_ms
from cep_common.security.config import SecurityConfig
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

BATCH_ROWS = 512
KEYS = 64
RETRY_S = 0.2
LISTEN_MS = 500

LATE_MS = 100.0
"""While results take longer, a fault is not over."""
LEAST_SHARE = 0.8
"""Of the rows of a second, as the load comes in batches: with fewer, something stands still."""

PLAN = f"""@Plan:name('Soaked')
@Plan:dist(workers='2')
@Import('Loads:1.0.0') define stream Loads (key string, number long, sent_ns long);
@Export('Soaks:1.0.0') define stream Soaks (key string, number long, sent_ns long, total long);
@dist(execGroup='summing', parallel='2') partition with (key of Loads) begin
@info(name='summing')
from Loads#window.length({KEYS}) select key, number, sent_ns, sum(number) as total insert into Soaks;
end;
"""


class Pace:
    """At which rate events are to be sent, in batches a second; 0: as fast as they are taken."""

    def __init__(self) -> None:
        self.batches_per_s = 0.0


class LoadFeeder(threading.Thread):
    """Sends events to a worker until `close`; when the worker goes, it comes again."""

    def __init__(
        self, name: str, url: str, ingress: Endpoint, token: str, security: SecurityConfig, pace: Pace
    ) -> None:
        super().__init__(name=f"load of {name}", daemon=True)
        self.rows = 0
        self.problem = ""
        self._where = (url, ingress, token, security)
        self._pace = pace
        self._keys = pa.array([f"{name}/{number % KEYS}" for number in range(BATCH_ROWS)])
        self._closing = threading.Event()

    def close(self) -> None:
        """Nothing more is sent."""
        self._closing.set()
        self.join()

    def run(self) -> None:
        url, ingress, token, security = self._where
        while not self._closing.is_set():
            try:
                schema = fetch_schema(url, "Loads", token=token)
                with EventSender(ingress, schema, security=security) as sender:
                    self._send(sender)
            except CepError as error:
                self.problem = str(error)
                self._closing.wait(RETRY_S)

    def _send(self, sender: EventSender) -> None:
        due_s = time.monotonic()
        while not self._closing.is_set():
            now_s, batches_per_s = time.monotonic(), self._pace.batches_per_s
            if batches_per_s:
                due_s = max(due_s + 1 / batches_per_s, now_s - 1)  # what a fault held up is not all made up for
                if due_s > now_s and self._closing.wait(due_s - now_s):
                    return
            sender.send(self._batch(sender.arrow_schema))
            self.rows += BATCH_ROWS

    def _batch(self, schema: pa.Schema) -> pa.RecordBatch:
        times = pa.array(np.full(BATCH_ROWS, time.time_ns() // 1_000_000))
        sent_ns = pa.array(np.full(BATCH_ROWS, time.monotonic_ns()))
        numbers = pa.array(np.arange(self.rows, self.rows + BATCH_ROWS))
        kinds = pa.array(np.zeros(BATCH_ROWS, np.int8))
        return pa.record_batch([times, kinds, self._keys, numbers, sent_ns], schema=schema)


class LoadListener(threading.Thread):
    """Takes results from a worker until `close`, and counts by second how long they took."""

    def __init__(self, name: str, egress: Endpoint, security: SecurityConfig) -> None:
        super().__init__(name=f"results of {name}", daemon=True)
        self.rows = 0
        self.counts: dict[int, Counter[int]] = defaultdict(Counter)
        """Rows by second (monotonic) of arrival, and by bucket of latency."""
        self._egress = egress
        self._security = security
        self._closing = threading.Event()

    def close(self) -> None:
        """Nothing more is taken."""
        self._closing.set()
        self.join()

    def run(self) -> None:
        while not self._closing.is_set():
            try:
                with EventListener(self._egress, "Soaks", security=self._security) as listener:
                    while not self._closing.is_set():
                        batch = listener.receive(LISTEN_MS)
                        if batch is not None:
                            self._count(batch)
            except CepError:  # it is gone, or not there yet
                self._closing.wait(RETRY_S)

    def of_second(self, second: int) -> Counter[int]:
        """What came in that second."""
        return Counter(self.counts.get(second, {}))

    def beside(self, spans: Iterable[tuple[float, float]]) -> list[Counter[int]]:
        """What came outside of `spans` (monotonic)."""
        seconds = [(int(begin), int(end) + 1) for begin, end in spans]
        return [
            counts
            for second, counts in list(self.counts.items())
            if not any(begin <= second <= end for begin, end in seconds)
        ]

    def _count(self, batch: pa.RecordBatch) -> None:
        now_ns = time.monotonic_ns()
        sent, rows = np.unique(batch.column("sent_ns").to_numpy(), return_counts=True)
        second = self.counts[now_ns // 1_000_000_000]
        for sent_ns, count in zip(sent.tolist(), rows.tolist(), strict=True):
            second[bucket(now_ns - sent_ns)] += count
        self.rows += batch.num_rows


def in_time(counted: Sequence[Mapping[int, int]], rows: float) -> bool:
    """True when nearly all of the `rows` that were due in a second came, and came soon; `counted` by bucket."""
    came = sum(sum(counts.values()) for counts in counted)
    return came > 0 and came >= LEAST_SHARE * rows and p99_of(counted) <= LATE_MS


def p99_of(counted: Iterable[Mapping[int, int]]) -> float:
    """Within which time (ms) 99 of 100 results came, of those `counted` by bucket; infinity when there was none."""
    total: Counter[int] = Counter()
    for counts in counted:
        total.update(counts)
    p99_ms = percentile_ms(total, 0.99)
    return math.inf if p99_ms is None else p99_ms
