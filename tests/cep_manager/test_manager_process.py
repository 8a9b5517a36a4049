"""A whole manager on loopback: real ZeroMQ peers, real HTTP, a real SQLite file."""

import ctypes
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import zmq
from free_ports import free_port
from manager_world import receiver, request, task

from cep_common.errors import PortInUseError, RequestRejectedError
from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey
from cep_common.protocol.codec import decode
from cep_common.protocol.drivers import KillTopology, RegisterDriver, RunState, SubmitTopology, TopologyReport
from cep_common.protocol.registry import (
    EndpointAssigned,
    InflowReport,
    ListPlans,
    Message,
    PlansListed,
    RegisterWorker,
    Rejected,
    WorkerPlanReport,
    WorkerRegistered,
)
from cep_common.sockets.transport import ControlClient
from cep_manager.config import AccountsConfig, ControlConfig, DatabaseConfig, ManagerConfig, ManagerHttpConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.election.leadership import Leadership
from cep_manager.errors import PlanStoreError
from cep_manager.main import ManagerProcess

PLAN = """\
@Plan:name('Storms')
@Plan:description('Late departures')

@Import('Departures:1.0.0')
define stream Departures (origin string, delay int);

@Export('Late:1.0.0')
define stream Late (origin string, delay int);

@info(name='late')
from Departures[delay > 60]
select origin, delay
insert into Late;
"""
KEY = PlanKey(SUPER_TENANT, "Storms")
DEADLINE_S = 10.0
LEASE_MS = 60_000
"""Nobody falls silent for a test that had to wait for the processor; what a lease ends is tested with a short one."""


def eventually(found: Callable[[], Any]) -> Any:
    """The first true value of `found`, asked again and again until the deadline."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE_S
    while not (value := found()):
        assert time.monotonic() < deadline, "did not come about in time"
        pause.wait(0.01)
    return value


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    return ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port(), heartbeat_ms=100, lease_ms=LEASE_MS),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}", timeout_ms=200),
    )


def impatient(config: ManagerConfig) -> ControlConfig:
    """Who is silent for 600 ms is given up."""
    return msgspec.structs.replace(config.control, lease_ms=600)


@pytest.fixture
def manager(config: ManagerConfig) -> Iterator[ManagerProcess]:
    process = ManagerProcess(config)
    yield process
    process.close()


class Peer:
    """A driver, worker and task in one, over a control client of its own."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], config: ManagerConfig) -> None:
        self.client = ControlClient(context, [Endpoint("127.0.0.1", config.control.port)], timeout_ms=3_000)
        self.pushed: list[Message] = []

    def ask(self, message: Message) -> Message:
        return self.client.request(message)

    def drive(self, *topologies: TopologyReport, process_id: int = 1) -> None:
        """A driver's heartbeat; what the manager pushes meanwhile is kept."""
        self.ask(RegisterDriver("driver-1", "127.0.0.1", process_id, "local[2]", 2, 1, topologies))
        self.pushed += (msgspec.structs.replace(order, token=0) for order in self.client.pushed(10))

    def next_push(self, *topologies: TopologyReport, process_id: int = 1) -> Message:
        """Beats as the driver until the manager pushes something."""
        eventually(lambda: self.drive(*topologies, process_id=process_id) or self.pushed)
        return self.pushed.pop(0)


@pytest.fixture
def peer(zmq_context: zmq.Context[zmq.Socket[bytes]], config: ManagerConfig) -> Iterator[Peer]:
    made = Peer(zmq_context, config)
    yield made
    made.client.close()


@pytest.fixture
def address(config: ManagerConfig) -> str:
    return f"http://127.0.0.1:{config.http.port}/api/v1"


def running(epoch: int, state: RunState = "running") -> TopologyReport:
    return TopologyReport(KEY, epoch, state)


def deploy(address: str, text: str = PLAN, **parameters: str) -> requests.Response:
    return requests.post(f"{address}/plans", data=text.encode(), params=parameters, timeout=5)


def status(address: str) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{address}/plans/Storms/status", timeout=5).json()
    return found


def state_is(address: str, state: str) -> Callable[[], bool]:
    return lambda: status(address)["topology"]["state"] == state


def test_a_plan_goes_from_text_to_active_and_connected_and_away_again(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    answer = deploy(address)
    assert answer.status_code == 201
    assert answer.json()["plan"] == "Storms"
    assert status(address)["topology"]["reason"] == "no driver has registered"

    submitted = peer.next_push()
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.key, submitted.epoch, submitted.workers) == (KEY, 1, 1)
    assert "<query-plan" in submitted.query_plan

    peer.drive(running(1))
    peer.ask(task(key=KEY))
    peer.ask(receiver(key=KEY, host="127.0.0.1"))
    assert eventually(state_is(address, "active"))
    assert not status(address)["connected"]

    registered = peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, revision=0))
    listed = peer.ask(ListPlans())
    assert isinstance(registered, WorkerRegistered)
    assert isinstance(listed, PlansListed)
    assert registered.revision == listed.revision
    assert [(one.key, one.imported[0].event_stream, one.exported[0].stream) for one in listed.plans] == [
        (KEY, "Departures:1.0.0", "Late")
    ]
    assigned = peer.ask(request(key=KEY))
    assert isinstance(assigned, EndpointAssigned)
    linked = InflowReport("Departures", connected=True, receiver=assigned.instance)
    report = WorkerPlanReport(KEY, 1, (linked,), publishers=("EventPublisher#0",))
    peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, listed.revision, (report,)))
    assert eventually(lambda: status(address)["connected"])

    assert requests.delete(f"{address}/plans/Storms", timeout=5).status_code == 202
    assert eventually(state_is(address, "draining"))
    report = msgspec.structs.replace(report, accepts_events=False)
    peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, listed.revision, (report,)))
    assert eventually(lambda: peer.ask(task(key=KEY)).order == "pause")  # type: ignore[attr-defined]
    peer.ask(task(key=KEY, step="quiet"))

    def confirms_until_killed() -> bool:
        peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, listed.revision, (report,)))
        peer.drive(running(1))
        return bool(peer.pushed)

    eventually(confirms_until_killed)
    killed = peer.pushed.pop(0)
    assert isinstance(killed, KillTopology)
    assert (killed.key, killed.forget) == (KEY, 1)
    peer.drive()
    with pytest.raises(RequestRejectedError) as refused:
        peer.ask(task(key=KEY))
    assert refused.value.reason_code == "unknown-plan"
    assert requests.get(f"{address}/plans", timeout=5).json()["plans"] == []


def test_a_killed_driver_is_told_and_its_successor_gets_the_plan_under_a_new_epoch(
    config: ManagerConfig, peer: Peer, address: str
) -> None:
    def beats_until_active(epoch: int, process_id: int) -> bool:
        peer.drive(running(epoch), process_id=process_id)
        peer.ask(task(key=KEY, epoch=epoch))
        return status(address)["topology"]["state"] == "active"

    manager = ManagerProcess(msgspec.structs.replace(config, control=impatient(config)))
    deploy(address)
    peer.next_push()
    assert eventually(lambda: beats_until_active(1, process_id=1))
    assert eventually(state_is(address, "waiting"))
    assert "driver-1 on 127.0.0.1 (process 1) is silent" in status(address)["topology"]["reason"]

    again = peer.next_push(process_id=2)
    assert isinstance(again, SubmitTopology)
    assert again.epoch == 2
    with pytest.raises(RequestRejectedError) as refused:
        peer.ask(task(key=KEY, epoch=1))
    assert refused.value.reason_code == "stale-epoch"
    assert eventually(lambda: beats_until_active(2, process_id=2))
    manager.close()


def test_a_killed_manager_finds_its_plans_and_leaves_running_topologies_alone(
    config: ManagerConfig, peer: Peer, address: str
) -> None:
    first = ManagerProcess(config)
    deploy(address)
    peer.next_push()
    first.close()

    second = ManagerProcess(config)
    try:
        peer.drive(running(1))
        peer.ask(task(key=KEY))
        assert eventually(state_is(address, "active"))
        assert peer.pushed == []
    finally:
        second.close()


def test_a_manager_has_its_plans_at_hand_before_anybody_learns_that_it_leads(
    config: ManagerConfig, manager: ManagerProcess, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(address).raise_for_status()
    manager.close()
    made: list[Leadership] = []
    learned: list[bool] = []

    class Watched(Leadership):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    class WatchedPlane(ControlPlane):
        def snapshot(self, now_ms: int) -> ClusterSnapshot:
            told = super().snapshot(now_ms)
            if told.plans:
                learned.append(made[0].wait_settled(0))
            return told

    monkeypatch.setattr("cep_manager.control.loop.Leadership", Watched)
    monkeypatch.setattr("cep_manager.control.loop.ControlPlane", WatchedPlane)
    second = ManagerProcess(config)
    try:
        assert second.service.snapshot().plans
        assert learned[0] is False
    finally:
        second.close()


def test_a_second_plan_of_the_name_is_refused_unless_replacing_is_asked_for(
    manager: ManagerProcess, address: str
) -> None:
    other = PLAN.replace("60", "90")
    assert deploy(address).status_code == 201
    same = deploy(address)
    assert (same.status_code, same.json()["changed"]) == (200, False)
    assert "nothing was changed" in same.json()["message"]
    refused = deploy(address, other)
    assert (refused.status_code, refused.json()["code"]) == (409, "plan-exists")
    assert requests.get(f"{address}/plans/Storms", timeout=5).json()["text"] == PLAN
    replaced = deploy(address, other, replace="true")
    assert (replaced.status_code, replaced.json()["epoch"]) == (200, 2)
    assert requests.get(f"{address}/plans/Storms", timeout=5).json()["text"] == other
    elsewhere = deploy(address, PLAN, tenant="7")
    assert (elsewhere.status_code, elsewhere.json()["topology"]) == (201, "Storms[7]")


def test_a_failed_plan_is_submitted_again_when_the_same_text_is_deployed(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    deploy(address)
    peer.next_push()
    peer.drive(running(1, "failed"))
    assert eventually(state_is(address, "failed"))
    again = deploy(address)
    assert (again.status_code, again.json()["changed"], again.json()["epoch"]) == (200, True, 2)
    submitted = peer.next_push(running(1, "failed"))
    assert isinstance(submitted, SubmitTopology)
    assert submitted.epoch == 2


def test_heartbeats_are_answered_while_a_deployment_waits_for_a_locked_plan_store(
    config: ManagerConfig, peer: Peer, address: str, tmp_path: Path
) -> None:
    patient = msgspec.structs.replace(config.database, timeout_ms=500)
    manager = ManagerProcess(msgspec.structs.replace(config, database=patient))
    other = sqlite3.connect(tmp_path / "manager.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    answers: list[requests.Response] = []
    deployment = threading.Thread(target=lambda: answers.append(deploy(address)))
    deployment.start()
    answered = 0
    while deployment.is_alive():
        peer.drive()
        answered += 1
    other.close()
    assert answered > 5
    assert (answers[0].status_code, answers[0].json()["code"]) == (503, "plan-store")
    assert deploy(address).status_code == 201
    manager.close()


def test_plans_deployed_from_many_threads_at_once_are_all_there(manager: ManagerProcess, address: str) -> None:
    texts = [PLAN.replace("'Storms'", f"'Plan{number}'") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda text: deploy(address, text).status_code, texts * 2))
    assert sorted(statuses) == [200] * 8 + [201] * 8
    listed = requests.get(f"{address}/plans", timeout=5).json()["plans"]
    assert [(one["plan"], one["epoch"]) for one in listed] == [(f"Plan{number}", 1) for number in range(8)]


def test_a_plan_with_errors_is_answered_with_every_one_and_its_place(manager: ManagerProcess, address: str) -> None:
    broken = PLAN.replace("from Departures", "from Departure").replace(
        "define stream Late (", "define stream Late (x int, "
    )
    refused = deploy(address, broken)
    assert (refused.status_code, refused.json()["code"]) == (422, "plan-invalid")
    problems = refused.json()["details"]["problems"]
    assert any(problem["line"] == 11 and "Departure" in problem["message"] for problem in problems)
    assert all(problem["code"] and problem["rendered"] for problem in problems)
    checked = requests.post(f"{address}/validate", data=broken.encode(), timeout=5).json()
    assert checked["problems"] == problems
    assert requests.get(f"{address}/plans", timeout=5).json()["plans"] == []


def test_a_put_must_name_the_plan_that_its_text_names(manager: ManagerProcess, address: str) -> None:
    wrong = requests.put(f"{address}/plans/Other", data=PLAN, timeout=5)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad-request")
    assert requests.put(f"{address}/plans/Storms", data=PLAN, timeout=5).status_code == 201


def test_the_query_plan_is_served_as_xml(manager: ManagerProcess, address: str) -> None:
    deploy(address)
    answer = requests.get(f"{address}/plans/Storms/query-plan", timeout=5)
    assert answer.headers["Content-Type"] == "application/xml; charset=utf-8"
    assert answer.text.startswith("<?xml")


def test_bytes_that_are_no_message_are_refused_and_harm_nobody(
    manager: ManagerProcess, peer: Peer, config: ManagerConfig, zmq_context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    stranger = zmq_context.socket(zmq.DEALER)
    stranger.connect(f"tcp://127.0.0.1:{config.control.port}")
    stranger.send_multipart([b"GET / HTTP/1.1"])
    assert stranger.poll(3_000)
    answer = decode(stranger.recv_multipart()).message
    stranger.close(linger=0)
    assert isinstance(answer, Rejected)
    assert answer.code == "decode"
    assert isinstance(peer.ask(ListPlans()), PlansListed)


def test_ports_in_use_are_named_by_their_key_and_nothing_is_left_behind(config: ManagerConfig) -> None:
    for port, key in ((config.control.port, "control.port"), (config.http.port, "http.port")):
        with socket.create_server(("127.0.0.1", port)), pytest.raises(PortInUseError, match=rf"set {key}"):
            ManagerProcess(config)
    ManagerProcess(config).close()


def test_a_store_that_cannot_be_used_stops_the_start(config: ManagerConfig, tmp_path: Path) -> None:
    (tmp_path / "manager.db").write_bytes(b"damaged" * 1_000)
    with pytest.raises(PlanStoreError, match="damaged"):
        ManagerProcess(config)


def test_a_stored_plan_that_no_longer_compiles_is_shown_as_failed_and_the_others_run(
    config: ManagerConfig, peer: Peer, address: str, tmp_path: Path
) -> None:
    first = ManagerProcess(config)
    deploy(address)
    deploy(address, PLAN.replace("'Storms'", "'Other'"))
    first.close()
    with sqlite3.connect(tmp_path / "manager.db") as database:
        database.execute("UPDATE cep_plans SET text = 'from' WHERE name = 'Storms'")
    database.close()

    second = ManagerProcess(config)
    try:
        found = status(address)["topology"]
        assert found["state"] == "failed"
        assert "can no longer be compiled" in found["reason"]
        assert requests.get(f"{address}/plans/Storms/query-plan", timeout=5).status_code == 422
        refused = requests.post(f"{address}/plans/Storms/rename", json={"name": "Gales"}, timeout=5)
        assert refused.status_code == 409
        assert "deploy one that can run and is named Gales" in refused.json()["message"]
        named = {"data": PLAN.replace("'Storms'", "'Gales'"), "params": {"rename": "true"}}
        assert requests.put(f"{address}/plans/Storms", **named, timeout=5).status_code == 200  # type: ignore[arg-type]
        assert requests.get(f"{address}/plans/Gales/query-plan", timeout=5).status_code == 200
        submitted = peer.next_push()
        assert isinstance(submitted, SubmitTopology)
        assert submitted.key.plan in ("Other", "Gales")
    finally:
        second.close()


def test_health_tells_when_the_control_loop_is_gone(manager: ManagerProcess, address: str) -> None:
    assert requests.get(f"{address}/health", timeout=5).json()["ok"]
    manager.service.stop()
    answer = requests.get(f"{address}/health", timeout=5)
    assert (answer.status_code, answer.json()["ok"]) == (503, False)
    refused = requests.get(f"{address}/plans", timeout=5)
    assert (refused.status_code, refused.json()["code"]) == (503, "manager-unavailable")


@pytest.mark.cluster
def test_the_process_says_when_it_is_ready_and_leaves_in_order_on_sigterm(config: ManagerConfig) -> None:
    with process_of(RUN, config) as process:
        assert process.stdout is not None
        ready = next(line for line in process.stdout if "manager ready" in line)
        assert f"control=127.0.0.1:{config.control.port} console=http://127.0.0.1:{config.http.port}" in ready
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=DEADLINE_S) == 0
        assert "manager stopping" in process.stdout.read()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc's allocator")
@pytest.mark.cluster
def test_memory_that_a_busy_moment_took_goes_back_to_the_system(config: ManagerConfig) -> None:
    with process_of(BUSY + RUN, config) as process:
        assert process.stdout is not None
        assert next(line for line in process.stdout if "bytes are" in line) == "the bytes are returned\n"


RUN = """
import logging, sys, msgspec
from cep_manager.config import ManagerConfig
from cep_manager.main import run
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
run(msgspec.json.decode(sys.argv[1], type=ManagerConfig))
"""
BUSY = """
import threading
from pathlib import Path
import cep_manager.main
ready, given = threading.Event(), threading.Event()
class Told(cep_manager.main.ManagerProcess):
    def __init__(self, *arguments, **names):
        super().__init__(*arguments, **names)
        ready.set()
cep_manager.main.ManagerProcess = Told
give_back = cep_manager.main.give_back_freed_memory
def give_back_and_tell():
    give_back()
    given.set()
cep_manager.main.give_back_freed_memory = give_back_and_tell
cep_manager.main.GIVE_BACK_LOOKS = 1
def resident_bytes():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])
def busy():
    ready.wait()
    blocks = [bytearray(10_000) for _ in range(10_000)]
    kept, most = blocks[-1], resident_bytes()
    del blocks
    given.clear()
    given_back = given.wait(30) and resident_bytes() < most - 50_000_000
    print("the bytes are", "returned" if given_back else "kept", flush=True)
threading.Thread(target=busy, daemon=True).start()
"""


@contextmanager
def process_of(script: str, config: ManagerConfig) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script, msgspec.json.encode(config).decode()], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
