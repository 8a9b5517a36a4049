"""Feeds the flights to a running system over two connections and collects everything that comes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack

import flights_reference
from flights_events import EXPORTED, IMPORTED, PLAN, Rows, flight_batches, last_time_ms, plan_text, rows_of

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

BATCH_ROWS = 1_000
DEPLOY_TIMEOUT_S = 60.0
RESULT_TIMEOUT_S = 120.0
SURPLUS_S = 0.7
"""How long results are waited for that should not come."""


def deploy_flights(system: LocalSystem) -> float:
    """The sample plan is active and all connected; gives the seconds that this took."""
    started = time.monotonic()
    system.client.deploy(plan_text(), replace=False)
    wait_until_connected(system.client, PLAN, DEPLOY_TIMEOUT_S)
    return time.monotonic() - started


def results_of_all_flights(system: LocalSystem, delays_s: Mapping[str, float]) -> Rows:
    """Sends every event of each stream, `delays_s` after the start, and gives the rows that listeners get."""
    found: Rows = {stream: [] for stream in EXPORTED}
    expected = {stream: len(rows) for stream, rows in flights_reference.reference().items()}
    failures: list[BaseException] = []
    with ExitStack() as open_listeners:
        listeners = {
            stream: open_listeners.enter_context(EventListener(system.egress, f"{PLAN}/{stream}"))
            for stream in EXPORTED
        }
        senders = [
            threading.Thread(target=_send, args=(system, stream, delays_s.get(stream, 0.0), failures))
            for stream in IMPORTED
        ]
        for sender in senders:
            sender.start()
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        heard = time.monotonic()
        while time.monotonic() < deadline and not failures:
            for stream, listener in listeners.items():
                batch = listener.receive(10)
                if batch is not None:
                    found[stream].extend(rows_of(batch))
                    heard = time.monotonic()
            complete = all(len(found[stream]) >= count for stream, count in expected.items())
            if complete and time.monotonic() - heard >= SURPLUS_S:
                break
        for sender in senders:
            sender.join()
    if failures:
        raise failures[0]
    return found


def _send(system: LocalSystem, stream: str, delay_s: float, failures: list[BaseException]) -> None:
    try:
        time.sleep(delay_s)
        schema = fetch_schema(system.worker_http, f"{PLAN}/{stream}")
        with EventSender(system.ingress, schema, f"test of {stream}") as sender:
            for batch in flight_batches(stream, BATCH_ROWS):
                sender.send(batch, last_time_ms(batch))
            sender.mark_idle()
    except BaseException as failure:  # noqa: BLE001 - the test must see whatever ended the sender
        failures.append(failure)
