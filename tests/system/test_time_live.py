"""Answers do not depend on when senders start, nor on interruptions. `CEP_ACCEPTANCE=1` takes its time for both."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from flights_events import EXPORTED, PLAN
from flights_feed import deploy_flights

from cep_cli.monitor.status_text import plan_status
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem, Ports
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

ACCEPTANCE = os.environ.get("CEP_ACCEPTANCE") == "1"
SAMPLES = Path(__file__).parents[2] / "samples" / "flights"
FOUND = {"CarrierDelays": 1_135, "KnockOns": 483, "AirportStorms": 818}
IDLE_MS = 1_000
PAUSES_S = (0, 15, 60) if ACCEPTANCE else (3,)
ORDERS = list(itertools.permutations(("Arrivals", "Departures"))) if ACCEPTANCE else [("Departures", "Arrivals")]
OUTAGE_S = 60.0 if ACCEPTANCE else 8.0
CYCLE_S = 8.0
RESULTS_S = 120.0
QUIET_S = 1.5
CALM_S = 6.0

SHIFTS = """@Plan:name('Shifts')
@Import('Orders:1.0.0') define stream Orders (id long);
@Import('Payments:1.0.0') define stream Payments (id long);
@Export('Unpaid:1.0.0') define stream Unpaid (id long);
@Export('Paid:1.0.0') define stream Paid (id long);
@Export('Bursts:1.0.0') define stream Bursts (id long, orders long);
@Export('Delayed:1.0.0') define stream Delayed (id long);
from every o=Orders -> not Payments[id == o.id] for 2 sec select o.id as id insert into Unpaid;
from Payments#window.time(2 sec) as p join Orders#window.time(2 sec) as o on p.id == o.id
select o.id as id insert into Paid;
from Orders#window.time(1 sec) select id, count() as orders having orders >= 3 insert into Bursts;
from Orders#window.delay(1 sec) select id insert into Delayed;
"""
STEPS = ((0.0, "Orders", (1,)), (0.7, "Payments", (1,)), (3.0, "Orders", (2, 3, 4)), (3.7, "Payments", (2,)),
         (7.0, "Payments", (3,)))  # fmt: skip
"""What happens in a cycle: 1 and 2 are paid in time, 3 too late, 4 never; three orders come at once."""
ANSWERS = {"Unpaid": (3, 4), "Paid": (1, 2), "Bursts": (4,), "Delayed": (1, 2, 3, 4)}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """One in which a stream that has begun is waited for only briefly."""
    settings = {"CEP_WORKER__INFLOW__IDLE_MS": str(IDLE_MS), "CEP_DRIVER__STAGES__IDLE_MS": str(IDLE_MS)}
    folder = tmp_path_factory.mktemp("time")
    with LocalSystem(folder, Ports.free(), environment={**os.environ, **settings}) as started:
        yield started


def counted(system: LocalSystem, plan: str, streams: list[str], act: Callable[[], None]) -> dict[str, list[int]]:
    """Runs `act` while listening; gives the first attribute of what came of each stream, until nothing more comes."""
    found: dict[str, list[int]] = {stream: [] for stream in streams}
    listeners = {stream: EventListener(system.egress, f"{plan}/{stream}") for stream in streams}
    try:
        act()
        heard = time.monotonic()
        quiet_s = CALM_S
        while time.monotonic() - heard < quiet_s:
            for stream, listener in listeners.items():
                batch = listener.receive(10)
                if batch is not None:
                    found[stream] += batch.column(2).to_pylist()
                    heard, quiet_s = time.monotonic(), QUIET_S + CALM_S
    finally:
        for listener in listeners.values():
            listener.close()
    return found


@pytest.mark.parametrize("pause_s", PAUSES_S)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_commands_of_the_readme_find_the_same_whatever_pauses_are_between_them(
    system: LocalSystem, order: tuple[str, str], pause_s: float
) -> None:
    deploy_flights(system)
    time.sleep(pause_s)

    def send_all() -> None:
        for place, stream in enumerate(order):
            if place:
                time.sleep(pause_s)
                if pause_s * 1_000 > IDLE_MS:
                    shown = plan_status(system.client.plan(PLAN))
                    assert f"waiting for the first event of {stream}" in shown
                    assert f"cep release {PLAN} {stream}" in shown
            arguments = ["send", stream, str(SAMPLES / f"{stream.lower()}.parquet"), "--timestamp", "ts"]
            command = [sys.executable, "-m", "cep_cli", *arguments, "--manager", system.client.url]
            subprocess.run(command, check=True, timeout=RESULTS_S)  # noqa: S603 - our own command

    try:
        found = counted(system, PLAN, list(EXPORTED), send_all)
        assert {stream: len(rows) for stream, rows in found.items()} == FOUND
        assert not system.client.plan(PLAN)["status"]["topology"]["late"]
    finally:
        system.client.undeploy(PLAN, discard=True)


def send(system: LocalSystem, stream: str, ids: tuple[int, ...]) -> None:
    body = [{"event": {"id": one}} for one in ids]
    requests.post(f"{system.worker_http}/events/Shifts/{stream}", json=body, timeout=10).raise_for_status()


def test_an_outage_under_the_system_clock_changes_no_answer(system: LocalSystem) -> None:
    system.client.deploy(SHIFTS, replace=False)
    wait_until_connected(system.client, "Shifts", 60)
    cycles = round(OUTAGE_S / CYCLE_S)

    def live_through_it() -> None:
        send(system, "Orders", (0,))
        send(system, "Payments", (0,))
        time.sleep(QUIET_S)
        system.kill("driver")
        try:
            began = time.monotonic()
            for cycle in range(cycles):
                for at_s, stream, ids in STEPS:
                    time.sleep(max(0.0, began + cycle * CYCLE_S + at_s - time.monotonic()))
                    send(system, stream, tuple(10 * (cycle + 1) + one for one in ids))
        finally:
            system.start("driver")
        wait_until_connected(system.client, "Shifts", 90)

    try:
        found = counted(system, "Shifts", list(ANSWERS), live_through_it)
    finally:
        system.client.undeploy("Shifts", discard=True)
    expected = {
        stream: Counter(10 * (cycle + 1) + one for cycle in range(cycles) for one in ids)
        for stream, ids in ANSWERS.items()
    }
    assert {stream: Counter(one for one in ids if one) for stream, ids in found.items()} == expected
