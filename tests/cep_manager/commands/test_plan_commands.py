"""The life of a plan through a whole manager: REST in, orders to the driver out, and a SQLite file in between."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import zmq
from free_ports import free_port
from manager_world import task
from test_manager_process import KEY, LEASE_MS, PLAN, Peer, deploy, eventually, state_is, status

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import (
    KillTopology,
    RegisterDriver,
    RenamePlan,
    RunState,
    SavepointReport,
    SubmitTopology,
    TopologyReport,
)
from cep_common.protocol.registry import (
    InflowReport,
    ListPlans,
    OutflowReport,
    PlansListed,
    RegisterWorker,
    WorkerPlanReport,
    WorkerRegistered,
)
from cep_common.protocol.tasks import StateTransfer, TaskRegistered
from cep_common.protocol.worker_reports import PreparedResultsReport
from cep_manager.authoring.compiler import compile_plan
from cep_manager.commands.plan_changes import FROM_CHECKPOINT
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ManagerConfig,
    ManagerHttpConfig,
    QuotasConfig,
)
from cep_manager.main import ManagerProcess
from siddhi.scripts.language import ScriptPolicy

OTHER = PLAN.replace("60", "90")


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    return ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port(), heartbeat_ms=100, lease_ms=LEASE_MS),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}", timeout_ms=200),
    )


@pytest.fixture
def address(config: ManagerConfig) -> str:
    return f"http://127.0.0.1:{config.http.port}/api/v1"


@pytest.fixture
def peer(zmq_context: zmq.Context[zmq.Socket[bytes]], config: ManagerConfig) -> Iterator[Peer]:
    made = Peer(zmq_context, config)
    yield made
    made.client.close()


@pytest.fixture
def manager(config: ManagerConfig, peer: Peer, address: str) -> Iterator[ManagerProcess]:
    """The plan runs under epoch 1."""
    process = ManagerProcess(config)
    deploy(address)
    peer.next_push()
    beat(peer, running(1))
    assert eventually(state_is(address, "active"))
    yield process
    process.close()


def running(epoch: int, state: RunState = "running", reason: str = "", key: PlanKey = KEY) -> TopologyReport:
    return TopologyReport(key, epoch, state, reason)


def beat(peer: Peer, *topologies: TopologyReport) -> None:
    """The driver tells of `topologies`, and the tasks of those that run are heard: those behind the first have got its
    state."""
    peer.drive(*topologies)
    for topology in topologies:
        if topology.state == "running":
            step: StateTransfer = "" if topology is topologies[0] else "restored"
            peer.ask(task(key=topology.key, epoch=topology.epoch, step=step))


def without_time(order: object) -> object:
    """The order without the time at which its plan was deployed, which is that of the clock."""
    return msgspec.structs.replace(order, deployed_ms=0) if isinstance(order, KillTopology | SubmitTopology) else order


def post(address: str, action: str, body: dict[str, Any] | None = None, plan: str = "Storms") -> requests.Response:
    return requests.post(f"{address}/plans/{plan}/{action}", json=body, timeout=5)


def put(address: str, text: str, **parameters: str) -> requests.Response:
    return requests.put(f"{address}/plans/Storms", data=text.encode(), params=parameters, timeout=5)


def details(address: str, plan: str = "Storms") -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{address}/plans/{plan}", timeout=5).json()
    return found


def names(address: str) -> list[str]:
    return [plan["plan"] for plan in requests.get(f"{address}/plans", timeout=5).json()["plans"]]


def stored(config: ManagerConfig) -> list[tuple[Any, ...]]:
    """Name, epoch and whether the text is the first one, of each plan in the database; then of what is kept to go
    back to."""
    with sqlite3.connect(config.database.url.removeprefix("sqlite:///")) as database:
        rows = [
            (name, epoch, "60" in text)
            for table in ("cep_plans", "cep_former_plans")
            for name, epoch, text in database.execute(f"SELECT name, epoch, text FROM {table}")  # noqa: S608
        ]
    database.close()
    return rows


def test_an_edited_plan_is_tried_beside_the_running_one_and_then_takes_over(
    manager: ManagerProcess, peer: Peer, address: str, config: ManagerConfig
) -> None:
    answer = put(address, OTHER)
    assert (answer.status_code, answer.json()["epoch"], answer.json()["changed"]) == (200, 2, True)
    assert "being updated" in answer.json()["message"]
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.epoch, submitted.beside) == (2, True)
    found = details(address)
    assert (found["text"], found["epoch"]) == (PLAN, 1)
    assert (found["status"]["topology"]["state"], found["status"]["topology"]["change"]) == ("updating", "update")
    assert stored(config) == [("Storms", 2, False), ("Storms", 1, True)]
    again = put(address, OTHER)
    assert (again.json()["changed"], "being updated to that text" in again.json()["message"]) == (False, True)
    for refused in (post(address, "restart"), post(address, "rebalance", {"workers": 2})):
        assert (refused.status_code, refused.json()["code"]) == (409, "change-under-way")

    beat(peer, running(1), running(2))
    assert peer.next_push(running(1), running(2)) == KillTopology(KEY, 1)
    assert eventually(state_is(address, "active"))
    found = details(address)
    assert (found["text"], found["epoch"]) == (OTHER, 2)
    assert eventually(lambda: stored(config) == [("Storms", 2, False)])


def test_a_plan_that_is_to_have_more_slots_than_there_are_is_told_to_stay_as_it_is(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    message = post(address, "rebalance", {"workers": 50}).json()["message"]
    assert "it needs 50 slots, the cluster has 2 in all" in message
    assert "Storms runs on as before" in message


def test_an_edit_that_cannot_run_leaves_the_old_plan_running_and_says_why(
    manager: ManagerProcess, peer: Peer, address: str, config: ManagerConfig
) -> None:
    put(address, OTHER)
    peer.next_push(running(1))
    assert peer.next_push(running(1), running(2, "failed", "no such driver library")) == KillTopology(KEY, 2)
    assert eventually(state_is(address, "active"))
    found = details(address)
    assert (found["text"], found["epoch"]) == (PLAN, 1)
    assert found["status"]["topology"]["change_error"] == "no such driver library"
    assert eventually(lambda: stored(config) == [("Storms", 1, True)])


def test_a_manager_that_died_during_a_change_that_then_works_goes_on_with_it(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    put(address, OTHER)
    peer.next_push(running(1))
    manager.close()

    second = ManagerProcess(config)
    try:
        beat(peer, running(1), running(2, "starting"))
        assert eventually(state_is(address, "updating"))
        assert details(address)["text"] == PLAN
        beat(peer, running(1), running(2))
        assert peer.next_push(running(1), running(2)) == KillTopology(KEY, 1)
        assert eventually(lambda: (details(address)["text"], details(address)["epoch"]) == (OTHER, 2))
        assert eventually(lambda: stored(config) == [("Storms", 2, False)])
    finally:
        second.close()


def test_a_manager_that_died_during_a_change_that_then_fails_brings_back_what_was(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    put(address, OTHER)
    peer.next_push(running(1))
    manager.close()

    second = ManagerProcess(config)
    try:
        beat(peer, running(1), running(2, "starting"))
        assert peer.next_push(running(1), running(2, "failed", "no")) == KillTopology(KEY, 2)
        assert eventually(state_is(address, "active"))
        assert eventually(lambda: stored(config) == [("Storms", 1, True)])
    finally:
        second.close()
    third = ManagerProcess(config)
    try:
        beat(peer, running(1))
        assert eventually(state_is(address, "active"))
        assert peer.pushed == [], "the topology of the first epoch is the one that should run"
    finally:
        third.close()


def test_a_trace_is_switched_without_a_restart_and_outlives_the_manager_and_the_text(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    def traced() -> list[bool]:
        listed = peer.ask(ListPlans())
        assert isinstance(listed, PlansListed)
        return [plan.trace for plan in listed.plans]

    assert (traced(), status(address)["topology"]["trace"]) == ([False], False)
    answer = post(address, "trace", {"on": True}).json()
    assert (answer["changed"], answer["epoch"]) == (True, 1)
    assert (traced(), status(address)["topology"]["trace"]) == ([True], True)
    assert post(address, "trace", {"on": True}).json()["changed"] is False
    manager.close()
    second = ManagerProcess(config)
    try:
        assert traced() == [True]
        assert post(address, "trace", {"on": False}).json()["changed"] is True
        by_text = PLAN.replace("'Storms'", "'Gales'").replace(
            "@Plan:description", "@Plan:trace('true')\n@Plan:description"
        )
        deploy(address, by_text)
        assert traced() == [True, False]  # Gales, Storms
        assert peer.pushed == []
    finally:
        second.close()


def test_a_level_of_statistics_rides_to_tasks_without_a_restart_and_outlives_the_manager_and_the_text(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    def told() -> tuple[str, str]:
        answer = peer.ask(task())
        assert isinstance(answer, TaskRegistered)
        return answer.statistics, status(address)["topology"]["statistics"]

    beat(peer, running(1))
    assert told() == ("basic", "basic")
    answer = post(address, "statistics-level", {"level": "detail"}).json()
    assert (answer["changed"], answer["epoch"]) == (True, 1)
    assert told() == ("detail", "detail")
    assert post(address, "statistics-level", {"level": "detail"}).json()["changed"] is False
    assert post(address, "statistics-level", {"level": "much"}).status_code == 400
    manager.close()
    second = ManagerProcess(config)
    try:
        beat(peer, running(1))
        assert told() == ("detail", "detail")
        put(address, PLAN.replace("@Plan:description", "@Plan:statistics('off')\n@Plan:description"))
        assert status(address)["topology"]["statistics"] == "detail", "what somebody said holds whatever the text says"
    finally:
        second.close()


@pytest.mark.parametrize(
    ("written", "level"),
    [("@Plan:statistics('off')", "off"), ("@app:statistics('true')", "basic"), ("@Plan:statistics('false')", "off"),
     ("@app:statistics(reporter='jmx', enable='false')", "off"), ("@app:statistics", "basic"), ("", "basic"),
     ("@plan:Statistics('Detail')", "detail")],
)  # fmt: skip
def test_a_text_says_at_which_level_its_stages_count(written: str, level: str) -> None:
    assert compile_plan(f"{written}\n{PLAN}", ScriptPolicy()).statistics == level


def test_a_deactivated_plan_runs_on_without_intake_and_stays_so_when_the_manager_starts_again(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    answer = post(address, "deactivate")
    assert (answer.status_code, answer.json()["changed"]) == (200, True)
    assert (status(address)["topology"]["state"], status(address)["topology"]["intake"]) == ("inactive", False)
    assert post(address, "deactivate").json()["message"] == "Storms is deactivated already; nothing was changed"
    manager.close()

    second = ManagerProcess(config)
    try:
        beat(peer, running(1))
        assert eventually(state_is(address, "inactive"))
        listed = peer.ask(ListPlans())
        assert isinstance(listed, PlansListed)
        assert [plan.intake for plan in listed.plans] == [False]
        assert post(address, "activate").json()["changed"] is True
        assert eventually(state_is(address, "active"))
        listed = peer.ask(ListPlans())
        assert isinstance(listed, PlansListed)
        assert [plan.intake for plan in listed.plans] == [True]
        assert peer.pushed == [], "the topology runs on"
    finally:
        second.close()


def test_a_rebalanced_plan_keeps_its_number_of_workers_until_its_text_says_another(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    assert post(address, "rebalance", {"workers": 1}).json()["changed"] is False
    answer = post(address, "rebalance", {"workers": 2})
    assert (answer.status_code, answer.json()["epoch"]) == (200, 2)
    assert answer.json()["message"].endswith(FROM_CHECKPOINT)
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.workers, submitted.beside) == (2, True)
    assert status(address)["topology"]["change"] == "rebalance"
    beat(peer, running(1), running(2))
    for number in (0, 1):
        peer.ask(task(key=KEY, epoch=2, number=number, step="restored"))
    assert peer.next_push(running(1), running(2)) == KillTopology(KEY, 1)
    peer.drive(running(2))
    peer.pushed.clear()

    assert put(address, OTHER).json()["epoch"] == 3
    edited = peer.next_push(running(2))
    assert isinstance(edited, SubmitTopology)
    assert edited.workers == 2
    put(address, f"@Plan:dist(workers='1')\n{OTHER}")
    assert peer.next_push(running(2), running(3, "starting")) == KillTopology(KEY, 3)
    written = peer.next_push(running(2))
    assert isinstance(written, SubmitTopology)
    assert (written.epoch, written.workers) == (4, 1)


def next_submitted(peer: Peer, *topologies: TopologyReport) -> SubmitTopology:
    """Return the next order to run a topology; orders to end a former one come again until it is gone."""
    while not isinstance(pushed := peer.next_push(*topologies), SubmitTopology):
        assert isinstance(pushed, KillTopology)
    return pushed


def test_a_plan_is_moved_out_of_its_stage_host_and_stays_there_until_a_text_says_otherwise(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    assert post(address, "rebalance", {"host": "shared"}).json()["changed"] is False

    moved = post(address, "rebalance", {"host": "own"}).json()
    assert "is being moved out of its stage host" in moved["message"]
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.host, submitted.workers, submitted.beside) == ("own", 1, True)
    beat(peer, running(1), running(2))
    peer.ask(task(key=KEY, epoch=2, step="restored"))
    assert peer.next_push(running(1), running(2)) == KillTopology(KEY, 1)
    peer.drive(running(2))
    assert eventually(lambda: not status(address)["topology"]["change"])
    refused = post(address, "rebalance", {"workers": 2, "host": "shared"})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad-request")
    assert "cannot share a stage host" in refused.json()["message"]

    put(address, OTHER)
    edited = next_submitted(peer, running(2))
    assert edited.host == "own", "an edit leaves it where it is"
    put(address, f"@Plan:host('shared')\n{OTHER}")
    assert peer.next_push(running(2), running(3, "starting")) == KillTopology(KEY, 3)
    written = peer.next_push(running(2))
    assert isinstance(written, SubmitTopology)
    assert written.host == "shared", "until a text names another host"


def test_a_plan_that_outgrows_its_stage_host_is_not_said_to_be_moved_into_it(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    def moved(**asked: Any) -> str:
        return str(post(address, "rebalance", asked).json()["message"])

    assert "is being moved out of its stage host" in moved(host="own")
    assert "is being moved into a stage host" in moved(host="shared")
    assert "is being moved out of its stage host" in moved(workers=2)
    assert "is being rebalanced" in moved(workers=3)


@pytest.mark.parametrize("body", [{"workers": 0}, {"workers": "two"}, {"workers": 1.5}, {}, {"worker": 2}])
def test_a_number_of_workers_that_cannot_be_is_refused(
    manager: ManagerProcess, address: str, body: dict[str, Any]
) -> None:
    refused = post(address, "rebalance", body)
    assert (refused.status_code, refused.json()["code"]) == (400, "bad-request")
    assert "workers" in refused.json()["message"]


def test_a_plan_that_is_restarted_before_it_ran_begins_from_what_it_was_told_first_unless_it_is_told_again(
    config: ManagerConfig, peer: Peer, address: str
) -> None:
    with closing(ManagerProcess(config)):
        deploy(address)
        orders = [peer.next_push()]
        post(address, "restart")
        orders.append(peer.next_push(running(1, "starting")))
        post(address, "restart?from=none")
        orders.append(peer.next_push(running(2, "starting")))
        beat(peer, running(3))
        assert eventually(state_is(address, "active"))
        post(address, "restart")
        orders.append(peer.next_push(running(3)))
    submitted = [order for order in orders if isinstance(order, SubmitTopology)]
    assert [(order.epoch, order.restore, order.restore_epoch) for order in submitted] == [
        (1, "none", 1),
        (2, "none", 1),
        (3, "none", 3),
        (4, "", 0),
    ]


def test_a_restarted_plan_is_submitted_anew_under_the_next_epoch(
    manager: ManagerProcess, peer: Peer, address: str, config: ManagerConfig
) -> None:
    answer = post(address, "restart")
    assert (answer.status_code, answer.json()["epoch"]) == (200, 2)
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.epoch, submitted.beside) == (2, False)
    assert status(address)["topology"]["state"] == "restarting"
    assert stored(config) == [("Storms", 2, True)]
    beat(peer, running(2))
    assert eventually(state_is(address, "active"))


def test_a_renamed_plan_runs_on_as_it_is(
    manager: ManagerProcess, peer: Peer, address: str, config: ManagerConfig
) -> None:
    """Stages, driver and workers tell of it under its former name until they hear of the new one."""
    post(address, "deactivate")
    before = peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, 0))
    answer = post(address, "rename", {"name": "Gales"})
    assert (answer.status_code, answer.json()["plan"], answer.json()["epoch"]) == (200, "Gales", 1)
    assert answer.json()["message"].startswith("Storms was renamed to Gales; nothing is restarted")
    beat(peer, running(1))
    told = peer.next_push(running(1))
    assert (told, isinstance(told, RenamePlan) and told.key.plan) == (RenamePlan(KEY), "Gales")
    peer.pushed.clear()
    beat(peer, running(1, key=told.key))
    waiting = WorkerPlanReport(KEY, 1, (InflowReport("Departures", connected=False, waiting_events=1_234),))
    after = peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, 0, (waiting,)))
    found = details(address, "Gales")
    assert found["text"] == PLAN.replace("'Storms'", "'Gales'")
    assert (found["status"]["topology"]["state"], found["status"]["topology"]["intake"]) == ("inactive", False)
    assert eventually(lambda: details(address, "Gales")["status"]["unprocessed"]["events"] == 1_234)
    saved = SavepointReport(KEY, "before", "stored", 7, 500, 4_000)
    peer.ask(
        RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 1, (running(1, key=told.key),), savepoints=(saved,))
    )
    kept = requests.get(f"{address}/plans/Gales/savepoints", timeout=5).json()
    assert (kept["plan"], [one["plan"] for one in kept["savepoints"]]) == ("Gales", ["Gales"])
    assert names(address) == ["Gales"]
    assert stored(config) == [("Gales", 1, True)]
    assert peer.pushed == []
    assert isinstance(before, WorkerRegistered)
    assert isinstance(after, WorkerRegistered)
    assert after.revision > before.revision, "workers learn of the new name"
    listed = peer.ask(ListPlans())
    assert isinstance(listed, PlansListed)
    assert [(one.key, one.key.plan, one.former_names) for one in listed.plans] == [(KEY, "Gales", ("Storms",))]
    cluster = requests.get(f"{address}/cluster", timeout=5).text
    assert ("Gales" in cluster, "Storms" in cluster) == (True, False)
    assert requests.get(answer.url.partition("/api/")[0] + answer.headers["Location"], timeout=5).json()["state"] == (
        "succeeded"
    )


def test_the_former_name_tells_the_present_one_until_another_plan_takes_it(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    post(address, "rename", {"name": "Gales"})
    gone = requests.get(f"{address}/plans/Storms/status", timeout=5)
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown-plan")
    assert gone.json()["message"].endswith("it was renamed to Gales")
    assert gone.json()["details"]["renamed_to"] == "Gales"
    for page in ("plans/Storms", "plans/Storms/checkpoints", "plans/Storms/exceptions"):
        shown = requests.get(f"{address.removesuffix('/api/v1')}/{page}", timeout=5)
        assert (shown.status_code, "it was renamed to Gales" in shown.text) == (404, True), page
    assert post(address, "rename", {"name": "Waves"}).status_code == 404
    assert deploy(address).json()["created"] is True
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.key.plan, submitted.key != KEY, submitted.epoch) == ("Storms", True, 1)
    assert status(address)["topology"]["state"] == "deploying"
    assert details(address, "Gales")["status"]["topology"]["state"] == "active"
    gales = running(1, key=PlanKey(KEY.tenant, "Gales", KEY.plan))
    beat(peer, gales, running(1, key=submitted.key))
    peer.pushed.clear()
    beat(peer, gales, running(1, key=submitted.key))
    assert peer.pushed == []
    told = requests.delete(f"{address}/plans/Storms?discard=true", timeout=10)
    assert told.status_code == 200
    kill = peer.next_push(gales, running(1, key=submitted.key))
    assert isinstance(kill, KillTopology)
    assert kill.key == submitted.key
    assert names(address) == ["Gales"]


def test_a_text_of_another_name_renames_the_plan_and_updates_it_if_it_differs_otherwise(
    manager: ManagerProcess, peer: Peer, address: str, config: ManagerConfig
) -> None:
    answer = put(address, OTHER.replace("'Storms'", "'Gales'"), rename="true")
    assert (answer.status_code, answer.json()["plan"], answer.json()["epoch"]) == (200, "Gales", 2)
    assert "was renamed to Gales" in answer.json()["message"]
    assert "is being updated" in answer.json()["message"]
    submitted = peer.next_push(running(1))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.key, submitted.key.plan, submitted.epoch, submitted.beside) == (KEY, "Gales", 2, True)
    refused = post(address, "rename", {"name": "Waves"}, plan="Gales")
    assert (refused.status_code, refused.json()["code"]) == (409, "change-under-way")
    beat(peer, running(1), running(2))
    assert eventually(lambda: details(address, "Gales")["epoch"] == 2)
    assert post(address, "rename", {"name": "Waves"}, plan="Gales").status_code == 200
    assert [name for name, _, _ in stored(config)] == ["Waves"]
    assert "'Waves'" in details(address, "Waves")["text"]


def test_a_name_of_which_savepoints_are_left_is_refused_since_nobody_could_reach_them(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    left = SavepointReport(PlanKey(KEY.tenant, "Gales"), "before", "stored", 7, 500, 4_000)
    peer.ask(RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 1, (running(1),), savepoints=(left,)))
    refused = post(address, "rename", {"name": "Gales"})
    assert (refused.status_code, refused.json()["code"]) == (409, "plan-exists")
    assert "has savepoints: before; delete them (cep savepoints Gales --delete …)" in refused.json()["message"]
    assert post(address, "rename", {"name": "Waves"}).status_code == 200


RESULTS = pytest.mark.parametrize(
    "left",
    [{"prepared": PreparedResultsReport(420, 96_000, 0)}, {"outflow": (OutflowReport("Late", waiting_events=420),)}],
    ids=["on-disk", "in-memory"],
)


def report_results(peer: Peer, address: str, left: dict[str, Any]) -> None:
    """A worker reports 420 results that wait, and the manager knows of them."""
    peer.ask(RegisterWorker("worker-1", "127.0.0.1", 7, 0, (WorkerPlanReport(KEY, 1, **left),)))
    assert eventually(lambda: status(address)["unprocessed"]["results"] == 420)


@RESULTS
def test_undeploying_with_discard_counts_results_too(
    manager: ManagerProcess, peer: Peer, address: str, left: dict[str, Any]
) -> None:
    report_results(peer, address, left)
    told = requests.delete(f"{address}/plans/Storms?discard=true", timeout=10).json()
    assert (told["discarded_events"], told["discarded_results"], told["waiting_results"]) == (0, 420, 0)
    assert told["message"] == "Storms was undeployed; 420 undelivered results had not been processed and are dropped"


def test_the_next_manager_knows_what_runs_under_a_former_name(
    config: ManagerConfig, manager: ManagerProcess, peer: Peer, address: str
) -> None:
    put(address, PLAN.replace("'Storms'", "'Gales'"), rename="true")
    manager.close()
    peer.pushed.clear()
    second = ManagerProcess(config)
    try:
        beat(peer, running(1))
        assert eventually(lambda: details(address, "Gales")["status"]["topology"]["state"] == "active")
        assert {type(order) for order in peer.pushed} <= {RenamePlan}
        assert "renamed to Gales" in requests.get(f"{address}/plans/Storms", timeout=5).json()["message"]
    finally:
        second.close()


def test_a_rename_is_refused_when_it_is_not_asked_for_or_the_name_is_taken_or_cannot_be(
    manager: ManagerProcess, address: str
) -> None:
    gales = PLAN.replace("'Storms'", "'Gales'")
    unasked = put(address, gales)
    assert (unasked.status_code, unasked.json()["code"]) == (400, "bad-request")
    assert "to rename Storms, request it" in unasked.json()["message"]
    deploy(address, gales)
    for refused in (put(address, gales, rename="true"), post(address, "rename", {"name": "Gales"})):
        assert (refused.status_code, refused.json()["code"]) == (409, "plan-exists")
    assert post(address, "rename", {"name": "a'b"}).status_code == 400
    assert post(address, "rename", {"name": "a/b"}).status_code in (400, 422)
    assert post(address, "rename", {"name": "Storms"}).json()["changed"] is False
    assert sorted(names(address)) == ["Gales", "Storms"]


def test_a_text_under_another_name_says_its_number_of_workers_and_keeps_to_the_quota(
    config: ManagerConfig, address: str
) -> None:
    process = ManagerProcess(msgspec.structs.replace(config, quotas=QuotasConfig(slots=2)))
    try:
        deploy(address)
        post(address, "rebalance", {"workers": 2})
        gales = PLAN.replace("'Storms'", "'Gales'")
        refused = put(address, f"@Plan:dist(workers='3')\n{gales}", rename="true")
        assert (refused.status_code, refused.json()["code"], names(address)) == (403, "over-quota", ["Storms"])
        assert put(address, f"@Plan:dist(workers='1')\n{gales}", rename="true").status_code == 200
        assert details(address, "Gales")["status"]["topology"]["tasks_required"] == 1
    finally:
        process.close()


def test_a_plan_that_could_not_begin_from_a_savepoint_is_restarted_from_what_it_has_of_its_own(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    savepoint = SavepointReport(KEY, "before", "stored", 7, 500, 4_000)
    peer.ask(RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 1, (running(1),), savepoints=(savepoint,)))
    assert eventually(lambda: post(address, "restart?from=before").status_code == 200)
    refused = running(2, "failed", "savepoint before is damaged")
    orders = [peer.next_push(running(1)), *peer.pushed]
    peer.pushed = []
    peer.drive(refused)
    assert eventually(state_is(address, "failed"))
    assert post(address, "restart").json()["message"].endswith("newest checkpoint, if there is one")
    orders += [peer.next_push(refused), *peer.pushed]
    submitted = [(one.epoch, one.restore) for one in orders if isinstance(one, SubmitTopology)]
    assert submitted == [(2, "before"), (3, "")]


UNREADABLE = "checkpoint 9 of Storms cannot be used: its state is in format 9, this version reads 16"


def test_a_savepoint_of_another_version_is_refused_before_anything_is_stopped(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    kept = [
        SavepointReport(KEY, "now", "stored", 8),
        SavepointReport(KEY, "before", "stored", 7, unreadable="format 9"),
    ]
    peer.ask(RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 1, (running(1),), savepoints=tuple(kept)))
    assert eventually(lambda: requests.get(f"{address}/plans/Storms/savepoints", timeout=5).json()["savepoints"])
    peer.pushed = []
    tried = (
        post(address, "restart?from=before"),
        put(address, OTHER, **{"from": "before"}),
        requests.post(f"{address}/plans?replace=true&from=before", data=OTHER.encode(), timeout=5),
    )
    for refused in tried:
        assert (refused.status_code, refused.json()["code"]) == (409, "state-unreadable")
        assert "savepoint before of Storms cannot be used: format 9; nothing was changed" in refused.json()["message"]
        assert refused.json()["details"]["allowed"] == ["now"]
    assert (details(address)["epoch"], details(address)["text"]) == (1, PLAN)
    peer.drive(running(1))
    assert peer.pushed == [], "the topology that runs was left alone"


def test_state_of_another_version_waits_for_a_decision_and_is_never_left_behind_silently(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    """As after an upgrade of the software."""
    told = msgspec.structs.replace(running(1, "failed", UNREADABLE), unreadable=UNREADABLE)
    peer.drive(told)
    assert eventually(state_is(address, "failed"))
    found = details(address)["status"]["topology"]
    assert (found["reason"], found["state_unreadable"]) == (UNREADABLE, UNREADABLE)
    overview = requests.get(f"{address}/overview", timeout=5).json()
    (alert,) = [one for one in overview["alerts"] if one["name"] == "Storms"]
    assert (alert["severity"], alert["code"]) == ("critical", "state-unreadable")
    assert UNREADABLE in alert["what"]
    peer.pushed = []
    for refused in (post(address, "restart"), post(address, "rebalance", {"workers": 2}), put(address, OTHER)):
        assert (refused.status_code, refused.json()["code"]) == (409, "state-unreadable")
        assert refused.json()["details"]["allowed"] == ["none"]
    peer.drive(told)
    assert (details(address)["epoch"], peer.pushed) == (1, [])
    assert post(address, "restart?from=none").json()["message"].endswith("windows, patterns and tables start empty")
    order = peer.next_push(told)
    assert isinstance(order, SubmitTopology)
    assert (order.epoch, order.restore, order.beside) == (2, "none", False)


def test_a_change_says_what_becomes_of_the_state_of_a_plan_that_does_not_run(
    manager: ManagerProcess, peer: Peer, address: str
) -> None:
    peer.drive(running(1, "failed", "no such window"))
    assert eventually(state_is(address, "failed"))
    assert post(address, "rebalance", {"workers": 2}).json()["message"].endswith("newest checkpoint, if there is one")


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("activate", None),
        ("deactivate", None),
        ("trace", {"on": True}),
        ("statistics-level", {"level": "off"}),
        ("restart", None),
        ("rebalance", {"workers": 2}),
        ("rename", {"name": "Gales"}),
    ],
)
def test_what_is_not_deployed_cannot_be_changed(
    manager: ManagerProcess, address: str, action: str, body: dict[str, Any] | None
) -> None:
    refused = post(address, action, body, plan="Nothing")
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown-plan")
    renamed = requests.put(f"{address}/plans/Nothing?rename=true", data=PLAN.replace("'Storms'", "'New'"), timeout=5)
    assert renamed.status_code == 404
