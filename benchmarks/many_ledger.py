"""Counts what comes out of some of many plans while processes of the system are killed: nothing may be missing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from cep_cli.develop.events import endpoint, find_worker
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.events.frames import event_rows
from topology.links.event_listener import EventListener

EACH_S = 0.1
"""How often each plan gets an event."""
LATE_S = 60.0
"""How long the last results may take."""
TEXT = """@Plan:name('{name}')
@Import('many.readings{n}:1.0.0') define stream Readings (sensor string, room int, value double, at long);
@Export('many.alerts{n}:1.0.0') define stream Alerts (sensor string, value double);
from Readings[room >= 0] select sensor, value insert into Alerts;
"""


def ledger_text(number: int) -> str:
    """Return a plan of which one result comes for each event."""
    return TEXT.format(name=f"Ledger{number}", n=number)


class Ledger:
    """Sends numbered events to plans of `ledger_text`, and counts how often each comes out, until `close`."""

    def __init__(self, system: LocalSystem, numbers: Sequence[int]) -> None:
        """Connect to the worker, which must live until the end."""
        client, address = system.client, find_worker(system.client, None)
        self.sent = 0
        self._got: Counter[str] = Counter()
        self._failure: Exception | None = None
        self._done = threading.Event()
        self._counted = threading.Event()
        schemas = [
            fetch_schema(address["http_address"], f"many.readings{number}:1.0.0", client.tenant, token=client.token)
            for number in numbers
        ]
        self._where = address
        self._schemas = schemas
        self._numbers = tuple(numbers)
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._send, self._listen)]
        self._listening = threading.Event()

    def __enter__(self) -> Self:
        self._threads[1].start()
        if not self._listening.wait(LATE_S):
            self.close()
            raise SystemExit(f"cannot listen to the plans of the ledger: {self._failure}")
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop sending and listening."""
        self._done.set()
        self._counted.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def result(self) -> dict[str, Any]:
        """Stop sending, wait for the last results, and return how many events were sent, are missing and came twice."""
        self._done.set()
        self._threads[0].join()
        end_s = time.monotonic() + LATE_S
        while len(self._got) < self.sent and time.monotonic() < end_s and self._failure is None:
            time.sleep(EACH_S)
        if self._failure is not None:
            raise self._failure
        came = sum(self._got.values())
        return {
            "ledger_plans": len(self._numbers),
            "ledger_sent": self.sent,
            "ledger_lost": self.sent - len(self._got),
            "ledger_twice": came - len(self._got),
        }

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as failure:  # noqa: BLE001 - raised again by `result`
            self._failure = failure

    def _send(self) -> None:
        where = endpoint(self._where["ingress"])
        senders = [EventSender(where, schema, sender="ledger") for schema in self._schemas]
        number = 0
        while not self._done.wait(EACH_S):
            now_ms = int(time.time() * 1000)
            for plan, sender in zip(self._numbers, senders, strict=True):
                row = (now_ms, 0, f"{plan}-{number}", number, float(number), now_ms)
                columns = zip(row, sender.arrow_schema, strict=True)
                arrays = [pa.array([value], column.type) for value, column in columns]
                sender.send(pa.record_batch(arrays, schema=sender.arrow_schema))
                self.sent += 1
            number += 1
        for sender in senders:
            sender.flush()
            sender.close()

    def _listen(self) -> None:
        where = endpoint(self._where["egress"])
        listeners = [EventListener(where, f"many.alerts{number}:1.0.0") for number in self._numbers]
        self._listening.set()
        while not self._counted.is_set():
            for listener in listeners:
                batch = listener.receive(2)
                if batch is not None:
                    self._got.update(event["sensor"] for event in event_rows(batch))
        for listener in listeners:
            listener.close()
