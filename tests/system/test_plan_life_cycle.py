"""The life of a plan on a running system: changed while events flow, deactivated, restarted, renamed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result
from late_plan import (
    CONNECT_TIMEOUT_S,
    EVENT_TIMEOUT_MS,
    PLAN,
    TEXT,
    assert_events_flow,
    departures,
    deploy_late,
    status_until,
)

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

COUNTING = TEXT.replace("[dep_delay > 60]", "#window.length(100000)").replace(
    "select carrier, dep_delay", "select carrier, cast(count(), 'int') as dep_delay"
)
"""How many events there have been since its state began."""

FOLLOWED_S = 10.0
"""Workers follow a change of intake within a heartbeat; this is for a machine under load."""


def cep(system: LocalSystem, *arguments: str) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--manager", system.client.url])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a text, and gives the file's name."""

    def written(text: str) -> str:
        path = tmp_path / "plan.siddhiql"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


class Stream:
    """Events numbered from 61 that are sent as long as the context lasts, one every few milliseconds."""

    def __init__(self, system: LocalSystem) -> None:
        self._sender = EventSender(system.ingress, fetch_schema(system.worker_http, f"{PLAN}/Departures"), "test")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.last = 60

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._sender.flush(EVENT_TIMEOUT_MS)
        self._sender.close()

    def _run(self) -> None:
        while not self._stopping.wait(0.005):
            self.last += 1
            self._sender.send(departures(self._sender, ("UA", self.last)))


def received(listener: EventListener, until: Callable[[Any], bool]) -> list[Any]:
    """What came, up to the first event for which `until` holds."""
    found: list[Any] = []
    while not found or not until(found[-1]):
        batch = listener.receive(EVENT_TIMEOUT_MS)
        assert batch is not None, f"{len(found)} events came and no more"
        found += batch.select(["carrier", "dep_delay"]).to_pylist()
    return found


def _failed(telling: Future[Result]) -> bool:
    return telling.done() and telling.result().exit_code != 0


def epochs_of_driver(system: LocalSystem) -> list[tuple[str, int]]:
    driver = system.client.cluster()["driver"]
    return [(one["plan"], one["epoch"]) for one in driver["topologies"] if one["state"] != "stopping"]


def count(system: LocalSystem, carrier: str = "UA", plan: str = PLAN) -> int:
    """The counting plan's answer to one event more."""
    with (
        EventListener(system.egress, f"{plan}/Late") as listener,
        EventSender(system.ingress, fetch_schema(system.worker_http, f"{plan}/Departures"), "test") as sender,
    ):
        sender.send(departures(sender, (carrier, 1)))
        return int(received(listener, lambda event: event["carrier"] == carrier)[-1]["dep_delay"])


def post_event(system: LocalSystem, plan: str = PLAN) -> requests.Response:
    event = '{"carrier": "UA", "dep_delay": 1}'
    return requests.post(f"{system.worker_http}/events/{plan}/Departures", data=event, timeout=10)


def test_a_plan_is_edited_while_events_flow_and_none_of_them_is_lost(
    system: LocalSystem, file: Callable[[str], str]
) -> None:
    deploy_late(system)
    edited = TEXT.replace("select carrier, dep_delay", "select 'new' as carrier, dep_delay")
    with EventListener(system.egress, f"{PLAN}/Late") as listener:
        # The old topology comes to rest when its results have been taken, so they are read while it is replaced.
        with Stream(system) as stream, ThreadPoolExecutor(max_workers=1) as aside:
            before = received(listener, lambda event: event["dep_delay"] > 80)
            telling = aside.submit(cep, system, "deploy", file(edited), "--replace", "--wait", "60")
            during = received(listener, lambda event: event["carrier"] == "new" or _failed(telling))
            told = telling.result()
        all_came = during[-1]["dep_delay"] == stream.last
        after = [] if all_came else received(listener, lambda event: event["dep_delay"] == stream.last)

    assert told.exit_code == 0, told.output
    assert "takes over as soon as it runs" in told.stdout
    came = [*before, *during, *after]
    assert {event["dep_delay"] for event in came} == set(range(61, stream.last + 1))
    carriers = [event["carrier"] for event in came]
    assert carriers == sorted(carriers), "first the old text's answers, then the new one's"
    assert system.client.plan(PLAN)["text"] == edited
    status_until(system, lambda _: len(epochs_of_driver(system)) == 1, FOLLOWED_S)


def test_an_edit_that_cannot_run_says_so_and_the_old_plan_answers_on(
    system: LocalSystem, file: Callable[[str], str]
) -> None:
    deploy_late(system)
    epoch = system.client.plan(PLAN)["epoch"]

    told = cep(system, "deploy", file(f"@Plan:dist(workers='99')\n{TEXT}"), "--replace", "--wait", "60")

    assert told.exit_code == 1
    assert "was not changed and runs as before: it needs 99 slots" in told.stderr
    shown = cep(system, "status", PLAN).stdout
    assert "Topology : ACTIVE" in shown
    assert "the last change failed: it needs 99 slots" in shown
    after = system.client.plan(PLAN)
    assert (after["epoch"], after["text"]) == (epoch, TEXT)
    assert_events_flow(system)


def test_a_deactivated_plan_takes_no_events_and_keeps_its_state(system: LocalSystem) -> None:
    system.client.deploy(COUNTING, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    assert [count(system), count(system)] == [1, 2]

    told = cep(system, "deactivate", PLAN)
    status_until(system, lambda _: post_event(system).status_code == 503, FOLLOWED_S)
    refused = post_event(system)
    again = cep(system, "deactivate", PLAN)
    held = system.client.plan(PLAN)["status"]["topology"]
    back = cep(system, "activate", PLAN)
    status_until(system, lambda now: now["topology"]["state"] == "active", FOLLOWED_S)
    status_until(system, lambda _: post_event(system).status_code == 202, FOLLOWED_S)

    assert told.stdout.endswith("workers accept no events for it, its state is kept\n")
    assert refused.json()["code"] == "inactive"
    assert "is deactivated already" in again.stdout
    assert (held["state"], held["intake"], held["restarts"]) == ("inactive", False, 0)
    assert back.exit_code == 0
    assert count(system) >= 4, "the two events before, the one that was taken, and this one"


def test_a_rebalanced_plan_goes_on_with_its_state_on_the_number_of_workers_that_was_asked_for(
    system: LocalSystem, file: Callable[[str], str]
) -> None:
    system.client.deploy(COUNTING, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    assert [count(system), count(system)] == [1, 2]

    told = cep(system, "rebalance", PLAN, "--workers", "2", "--wait", "60")

    assert told.exit_code == 0, told.output
    assert told.stdout.endswith("it keeps its windows, patterns and tables\n")
    tasks = [task["task"] for task in system.client.cluster()["tasks"] if task["plan"] == PLAN and task["live"]]
    assert sorted(tasks) == [0, 1]
    assert system.client.plan(PLAN)["status"]["topology"]["tasks_required"] == 2
    assert count(system) == 3
    assert "has 2 topology workers already" in cep(system, "rebalance", PLAN, "--workers", "2").stdout

    edited = cep(system, "deploy", file(f"@Plan:dist(workers='1')\n{COUNTING}"), "--replace", "--wait", "60")
    assert edited.stdout.endswith("it keeps its windows, patterns and tables\n"), edited.output
    assert system.client.plan(PLAN)["status"]["topology"]["tasks_required"] == 1
    assert count(system) == 4


def test_each_event_is_counted_once_while_a_plan_is_rebalanced(system: LocalSystem) -> None:
    system.client.deploy(COUNTING, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    with EventListener(system.egress, f"{PLAN}/Late") as listener:
        with Stream(system) as stream:
            before = received(listener, lambda event: event["dep_delay"] >= 100)
            told = cep(system, "rebalance", PLAN, "--workers", "3", "--wait", "60")
        sent = stream.last - 60
        after = received(listener, lambda event: event["dep_delay"] >= sent)

    assert told.exit_code == 0, told.output
    assert [event["dep_delay"] for event in (*before, *after)] == list(range(1, sent + 1))


def test_a_restarted_plan_goes_on_with_its_state_unless_it_shall_not(system: LocalSystem) -> None:
    system.client.deploy(COUNTING, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    epoch = system.client.plan(PLAN)["epoch"]
    assert [count(system), count(system)] == [1, 2]

    told = cep(system, "restart", PLAN, "--wait", "60")

    assert told.exit_code == 0, told.output
    assert "come from its newest checkpoint, if there is one" in told.stdout
    assert system.client.plan(PLAN)["epoch"] == epoch + 1
    assert count(system) == 3

    assert cep(system, "restart", PLAN, "--from", "none", "--wait", "60").exit_code == 0
    assert count(system) == 1


def test_a_renamed_plan_keeps_its_window_what_waits_and_its_savepoints(system: LocalSystem) -> None:
    old, new = "EarlyFlights", "PromptFlights"
    counting = COUNTING.replace(f"'{PLAN}'", f"'{old}'")
    system.client.deploy(counting, replace=False)
    wait_until_connected(system.client, old, CONNECT_TIMEOUT_S)
    assert [count(system, plan=old), count(system, plan=old)] == [1, 2]
    assert cep(system, "savepoint", old, "--name", "two").exit_code == 0
    (stage,) = [task["process_id"] for task in system.client.cluster()["tasks"] if task["plan"] == old]

    os.kill(stage, signal.SIGSTOP)
    try:
        assert [post_event(system, old).status_code for _ in range(3)] == [202] * 3
        told = cep(system, "rename", old, new)
    finally:
        os.kill(stage, signal.SIGCONT)

    assert told.exit_code == 0, told.output
    assert f"{old} was renamed to {new}; nothing is restarted" in told.stdout
    assert [plan["plan"] for plan in system.client.plans()] == [new]
    late: list[int] = []
    status_until(system, lambda _: late.append(post_event(system, old).status_code) or late[-1] == 404, FOLLOWED_S, new)
    assert set(late[:-1]) <= {202}, "the worker hears of the name within a heartbeat"
    assert f"plan {old} was renamed: use {new}/Departures" in post_event(system, old).json()["message"]
    counted = 2 + 3 + len(late)
    assert count(system, plan=new) == counted, "the window, what waited while nothing worked, and this one"
    (renamed,) = system.client.cluster()["tasks"]
    assert (renamed["plan"], renamed["process_id"]) == (new, stage), "nothing was started again"
    gone = cep(system, "status", old)
    assert (gone.exit_code, f"it was renamed to {new}" in gone.stderr) == (1, True)

    system.client.deploy(counting, replace=False)
    assert cep(system, "restart", new, "--wait", "60").exit_code == 0
    assert count(system, plan=new) == counted + 1, "its checkpoints are its own"
    wait_until_connected(system.client, old, CONNECT_TIMEOUT_S)
    assert count(system, plan=old) == 1, "the new plan of the name has nothing of it"
    assert "two" in cep(system, "savepoints", new).stdout
    assert "no savepoints" in cep(system, "savepoints", old).stdout
    assert cep(system, "restart", new, "--from", "two", "--wait", "60").exit_code == 0
    assert count(system, plan=new) == 3
    assert cep(system, "savepoint", new, "--name", "three").exit_code == 0, "the plan does not need the other one then"
    assert [cep(system, "savepoints", new, "--delete", name).exit_code for name in ("two", "three")] == [0, 0]


def test_a_manager_killed_in_the_middle_of_a_change_brings_it_to_its_end(system: LocalSystem) -> None:
    deploy_late(system)
    epoch = system.client.plan(PLAN)["epoch"]
    edited = TEXT.replace("> 60", "> 60 and dep_delay < 1000")

    system.client.deploy(edited, replace=True)
    system.kill("manager")
    system.start("manager")

    session = requests.Session()
    retries = requests.adapters.Retry(total=None, connect=60, backoff_factor=0.1, backoff_max=0.5)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
    assert session.get(f"{system.client.url}/api/v1/health", timeout=10).ok
    status_until(system, lambda _: system.client.plan(PLAN)["epoch"] > epoch, CONNECT_TIMEOUT_S)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    assert system.client.plan(PLAN)["text"] == edited
    assert_events_flow(system)
    status_until(system, lambda _: len(epochs_of_driver(system)) == 1, FOLLOWED_S)
