"""Two whole managers on one database, SQLite or PostgreSQL: who leads, what the other says, and how one follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import zmq
from databases import KINDS, open_database, take_lease, url_of
from free_ports import free_port
from manager_world import task
from postgresql_server import PostgresqlServer
from test_manager_process import KEY, LEASE_MS, PLAN, eventually, running

from cep_common.errors import PeerError, RequestRejectedError
from cep_common.ids import Endpoint
from cep_common.protocol.drivers import (
    DriverRegistered,
    KillTopology,
    RegisterDriver,
    SavepointReport,
    SubmitTopology,
    TopologyReport,
)
from cep_common.protocol.registry import ListPlans, Message, PlansListed, RegisterWorker, WorkerRegistered
from cep_common.sockets.transport import ControlClient
from cep_manager.authoring.compiler import compile_plan
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ElectionConfig,
    ManagerConfig,
    ManagerHttpConfig,
)
from cep_manager.control.control_plane import ControlPlane
from cep_manager.main import ManagerProcess
from siddhi.scripts.language import ScriptPolicy

pytestmark = pytest.mark.cluster

ELECTION = ElectionConfig(heartbeat_ms=750, retries=2, poll_ms=200)
HEARTBEAT_MS = 50
NOTICED_S = 0.5
"""What this test may need to see it, on a loaded machine."""

Start = Callable[[], ManagerProcess]


ON_BOTH = pytest.mark.parametrize("kind", KINDS)
ON_POSTGRESQL = pytest.mark.parametrize("kind", ["postgresql"])


@pytest.fixture
def kind() -> str:
    """What most tests run on."""
    return "sqlite"


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    # Loading the compiler takes a moment that should not fall into a lease.
    compile_plan(PLAN, ScriptPolicy())
    return url_of(kind, request, tmp_path)


def config_of(url: str) -> ManagerConfig:
    return ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port(), heartbeat_ms=HEARTBEAT_MS, lease_ms=LEASE_MS),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=url, timeout_ms=2_000),
        election=ELECTION,
    )


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    """Starts a manager; all are closed at the end."""
    made: list[ManagerProcess] = []

    def start() -> ManagerProcess:
        made.append(ManagerProcess(config_of(url)))
        return made[-1]

    yield start
    for manager in made:
        manager.close()


@pytest.fixture
def ask(zmq_context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[[ManagerProcess], ControlClient]]:
    """A client of exactly these managers."""
    made: list[ControlClient] = []

    def connect(*managers: ManagerProcess) -> ControlClient:
        made.append(ControlClient(zmq_context, [control(one) for one in managers], 400))
        return made[-1]

    yield connect
    for client in made:
        client.close()


def control(manager: ManagerProcess) -> Endpoint:
    return manager.service.election_status().me.control


def address(manager: ManagerProcess) -> str:
    return manager.service.election_status().me.http_address


def die(manager: ManagerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager ends as one that is killed: it gives nothing back."""
    monkeypatch.setattr(manager.service._leadership, "close", lambda: None)
    manager.close()


def drive(client: ControlClient, *topologies: TopologyReport) -> list[Message]:
    """A driver's heartbeat; what was pushed to it before and meanwhile."""
    answer = client.request(RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 1, topologies))
    assert isinstance(answer, DriverRegistered)
    return list(client.pushed(20))


def deploy(manager: ManagerProcess, query: str = "") -> requests.Response:
    """Send the plan to this manager and to no other one, to which it may point."""
    url = f"{address(manager)}/api/v1/plans{query}"
    return requests.post(url, data=PLAN.encode(), timeout=5, allow_redirects=False)


def test_the_second_manager_stands_by_and_names_the_first_everywhere(start: Start, ask: Any) -> None:
    leader, standby = start(), start()
    assert (leader.service.leads(), standby.service.leads()) == (True, False)
    with pytest.raises(PeerError, match="no manager leads"):
        ControlClient.request(_deaf_to_names(ask(standby)), ListPlans())
    client = ask(standby)
    assert isinstance(client.request(ListPlans()), PlansListed)
    assert client.manager() == control(leader)
    registered = eventually(lambda: _knows_both(client.request(RegisterWorker("worker-1", "127.0.0.1", 7, revision=0))))
    assert registered.managers == (control(leader), *sorted({control(standby)}))
    answer = requests.get(f"{address(standby)}/api/v1/plans", timeout=5, allow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{address(leader)}/api/v1/plans")
    health = requests.get(f"{address(standby)}/api/v1/health", timeout=5).json()
    assert (health["ok"], health["leads"]) == (True, False)


def _knows_both(registered: Message) -> WorkerRegistered | None:
    assert isinstance(registered, WorkerRegistered)
    return registered if len(registered.managers) == 2 else None


def _deaf_to_names(client: ControlClient) -> ControlClient:
    client._next = lambda *_: None  # type: ignore[method-assign]
    return client


@ON_BOTH
def test_the_standby_takes_over_from_a_dead_leader_with_all_plans_and_disturbs_nothing_that_runs(
    start: Start, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    driver = ask(first, second)
    assert deploy(first).status_code == 201
    (submitted,) = eventually(lambda: drive(driver))
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.epoch, submitted.token) == (1, 1)
    before = driver.request(RegisterWorker("worker-1", "127.0.0.1", 7, revision=0))

    die(first, monkeypatch)
    eventually(second.service.leads)

    assert [plan.plan for plan in second.manager.plans(KEY.tenant)] == ["Storms"]
    assert second.service.election_status().token == 2
    pushed = [order for _ in range(5) for order in drive(driver, running(1))]
    assert pushed == [], "what runs is neither killed nor submitted again"
    driver.request(task(key=KEY))
    eventually(lambda: second.manager.plan(KEY).status.topology.state.value == "active")
    after = driver.request(RegisterWorker("worker-1", "127.0.0.1", 7, revision=0))
    assert after.revision > before.revision, "workers ask the new leader for its plans"


def test_who_asks_a_manager_that_is_about_to_lead_is_told_to_ask_again_and_never_that_there_is_no_such_plan(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    assert deploy(first).status_code == 201
    answers: list[requests.Response] = []
    learned: list[object] = []
    begin = second.service._new_plane

    def begin_slowly(token: int) -> ControlPlane:
        plane = begin(token)
        learned.extend((second.service.leads(), second.service.led(), second.service.election_status().leader))
        paths = ("/api/v1/plans/Storms", "/plans/Storms")
        answers.extend(requests.get(address(second) + path, timeout=5, allow_redirects=False) for path in paths)
        return plane

    monkeypatch.setattr(second.service, "_new_plane", begin_slowly)
    die(first, monkeypatch)
    eventually(second.service.leads)
    assert learned == [False, None, None]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert (answers[0].json()["code"], answers[0].headers["Retry-After"]) == ("not-leader", "1")
    assert requests.get(f"{address(second)}/api/v1/plans/Storms", timeout=5).json()["plan"] == "Storms"


def test_what_the_dead_leader_had_not_submitted_is_submitted_and_what_was_undeployed_is_killed(
    start: Start, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    deploy(first)
    die(first, monkeypatch)
    eventually(second.service.leads)
    driver = ask(second)
    other = msgspec.structs.replace(KEY, plan="Gone")
    orders = eventually(lambda: [*drive(driver, TopologyReport(other, 4, "running")), *driver.pushed(100)])
    assert KillTopology(other, drain=True, token=2) in orders
    submitted = [order for order in orders if isinstance(order, SubmitTopology)]
    while not submitted:
        submitted = [order for order in drive(driver) if isinstance(order, SubmitTopology)]
    assert (submitted[0].key, submitted[0].token) == (KEY, 2)


def test_a_plan_that_waits_to_begin_from_a_savepoint_begins_from_it_when_leader_and_driver_have_died(
    start: Start, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start()
    driver = RegisterDriver("driver-1", "127.0.0.1", 1, "local[2]", 2, 0)
    ask(first).request(msgspec.structs.replace(driver, savepoints=(SavepointReport(KEY, "before", "stored"),)))
    eventually(lambda: first.service.snapshot().driver)
    assert deploy(first, "?from=before").status_code == 201
    edited = requests.put(f"{address(first)}/api/v1/plans/Storms", data=PLAN.replace("60", "90").encode(), timeout=5)
    assert edited.json()["message"].endswith("come from savepoint before"), "it has not run yet"

    die(first, monkeypatch)
    eventually(second.service.leads)
    other = ask(second)
    orders = eventually(lambda: drive(other))
    assert [(order.TYPE, order.restore, order.restore_epoch) for order in orders] == [
        (SubmitTopology.TYPE, "before", 1)  # for the edit it was not asked for again
    ]

    drive(other, running(orders[0].epoch))
    eventually(lambda: second.service.store.plans()[0].restore == "")


def test_a_leader_that_ends_in_order_is_followed_at_once(start: Start) -> None:
    first, second = start(), start()
    first.close()
    eventually(second.service.leads)
    assert [member.control for member in second.manager.election().managers] == [control(second)]


@ON_POSTGRESQL
@pytest.mark.parametrize("knows", [False, True])
def test_a_leader_whose_write_is_refused_resigns_and_changes_nothing(start: Start, url: str, knows: bool) -> None:
    """Another process has taken the lease, and this manager may not know yet."""
    leader = start()
    eventually(leader.service.leads)
    database = open_database(url)
    assert take_lease(database, "intruder") == 2
    if knows:
        eventually(lambda: leader.service.election_status().leader not in (None, leader.service.election_status().me))
    told = deploy(leader)
    assert (told.status_code, told.json()["code"]) in ((503, "not-leader"), (307, "not-leader"))
    eventually(lambda: not leader.service.leads())
    eventually(leader.service.leads)  # the intruder does not confirm its lease
    assert leader.service.election_status().token == 3
    assert leader.manager.plans(KEY.tenant) == ()
    assert deploy(leader).status_code == 201
    database.close()


def test_a_standby_does_not_look_at_plans_without_a_pause(start: Start) -> None:
    """It never handles what is new: that is for the leader, and must not keep its loop awake."""
    leader = start()
    eventually(leader.service.leads)
    standby = start()
    eventually(lambda: standby.service.election_status().leader is not None)
    loop, ticks, tick = standby.service, 0, standby.service._tick

    def counted() -> None:
        nonlocal ticks
        ticks += 1
        tick()

    loop._tick = counted  # type: ignore[method-assign]
    time.sleep(1.0)  # whether nothing happens shows only after a while
    assert 0 < ticks <= 2 * 1_000 // (HEARTBEAT_MS // 4)


def test_orders_and_plans_of_a_manager_that_has_resigned_are_nobodys(start: Start, url: str, ask: Any) -> None:
    leader = start()
    deploy(leader)
    driver = ask(leader)
    eventually(lambda: drive(driver))
    database = open_database(url)
    take_lease(database, "intruder")
    eventually(lambda: not leader.service.leads())
    with pytest.raises((PeerError, RequestRejectedError)):
        ControlClient.request(_deaf_to_names(ask(leader)), task(key=KEY))
    assert list(driver.pushed(50)) == []
    database.close()


@ON_POSTGRESQL
def test_a_leader_that_the_database_does_not_answer_resigns_and_one_leads_again_when_it_does(
    start: Start, postgresql: PostgresqlServer
) -> None:
    manager = start()
    deploy(manager)
    other = start()
    eventually(lambda: manager.service._leadership._election.lease.lease_ms == ELECTION.lease_ms)
    with postgresql.hung():
        since = time.monotonic()
        eventually(lambda: not manager.service.leads())
        waited_s = time.monotonic() - since
        answer = requests.get(f"{address(manager)}/api/v1/plans", timeout=5)
    assert waited_s <= ELECTION.lease_ms / 1_000 + NOTICED_S
    assert (answer.status_code, answer.json()["code"]) == (503, "not-leader")
    leader = eventually(lambda: next((one for one in (manager, other) if one.service.leads()), None))
    assert leader.service.election_status().token > 1
    assert [plan.plan for plan in leader.manager.plans(KEY.tenant)] == ["Storms"]
