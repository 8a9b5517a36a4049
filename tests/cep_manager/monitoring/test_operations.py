"""Long actions are watched: what is told of them is what the control plane knows at the moment, and no more."""

from __future__ import annotations

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import COMPILED, KEY, FakeView, World, driver, plan, task, topology

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import SavepointReport
from cep_manager.errors import UnknownOperationError
from cep_manager.monitoring.operations import (
    Operation,
    OperationId,
    OperationKind,
    change_of,
    operation_now,
    operations_now,
    parse_operation,
)
from cep_manager.web.app import create_app

FIRST_MS = 1_767_225_600_000
CHANGED_MS = FIRST_MS + 60_000
NOW_MS = CHANGED_MS + 1_000


@pytest.fixture
def world() -> World:
    return World()


def state(world: World, kind: OperationKind = "deploy", begun_ms: int = FIRST_MS, savepoint: str = "") -> Operation:
    return operation_now(world.snapshot(), NOW_MS, OperationId(kind, begun_ms, KEY, savepoint))


def change(world: World, epoch: int = 2, workers: int = 2) -> None:
    """The running plan is to be rebalanced: its new topology begins beside the former one."""
    version = plan(epoch=epoch, change="rebalance", workers=workers, updated_ms=CHANGED_MS)
    world.put(version)


def test_a_deployment_waits_for_a_driver_runs_and_succeeds(world: World) -> None:
    world.put(plan())
    assert state(world).state == "pending"
    world.hear(driver(), peer=b"driver")
    world.hear(driver(topology("starting")), peer=b"driver")
    assert state(world).state == "running"
    world.hear(driver(topology("running")), task(), peer=b"driver")
    told = state(world)
    assert (told.state, told.error) == ("succeeded", None)
    assert told.result == {"epoch": 1, "topology": "Storms[-1234]", "state": "active"}


def test_a_plan_that_cannot_run_fails_with_the_reason(world: World) -> None:
    world.put(plan(compiled="line 3: no such function"))
    told = state(world)
    assert told.state == "failed"
    assert told.error is not None
    assert (told.error.code, "no such function" in told.error.message) == ("plan-failed", True)


def test_a_change_runs_beside_what_was_and_succeeds_when_it_takes_over(world: World) -> None:
    world.active()
    change(world)
    assert state(world, "rebalance", CHANGED_MS).state in ("pending", "running")
    assert state(world).state == "superseded"
    world.hear(driver(topology("running"), topology("running", epoch=2)), peer=b"driver")
    world.hear(task(epoch=2, number=0), task(epoch=2, number=1))
    world.hear(driver(topology("running", epoch=2)), peer=b"driver")
    world.hear(task(epoch=2, number=0), task(epoch=2, number=1))
    told = state(world, "rebalance", CHANGED_MS)
    assert (told.state, (told.result or {}).get("epoch")) == ("succeeded", 2), told


def test_a_change_that_cannot_start_fails_while_the_plan_runs_on(world: World) -> None:
    world.active()
    change(world)
    world.hear(driver(topology("running"), topology("failed", epoch=2, reason="no memory")), peer=b"driver")
    world.tick()
    told = state(world, "rebalance", CHANGED_MS)
    assert told.state == "failed"
    assert told.error is not None
    assert (told.error.code, told.error.message) == ("change-failed", "no memory")


def test_what_another_manager_began_is_told_by_this_one() -> None:
    """Only the stored plan is known to a manager that has just come to lead: with it, the time of its last change."""
    successor = World()
    stored = plan(epoch=2, sent_before=True, updated_ms=CHANGED_MS)
    successor.put(stored)
    assert state(successor, "update", CHANGED_MS).state == "pending"
    successor.hear(driver(topology("running", epoch=2)), peer=b"driver")
    successor.hear(task(epoch=2))
    assert state(successor, "update", CHANGED_MS).state == "succeeded"


def test_an_undeployment_ends_with_the_topology(world: World) -> None:
    world.active()
    world.instructions += world.plane.remove_plan(KEY, world.now_ms, drain=True)
    world.hear(driver(topology("stopping", reason="it delivers what it has")), peer=b"driver")
    told = state(world, "undeploy", NOW_MS)
    assert (told.state, told.progress) == ("running", "it delivers what it has")
    world.hear(driver(), peer=b"driver")
    assert state(world, "undeploy", NOW_MS).state == "succeeded"


@pytest.mark.parametrize(
    ("reported", "expected"),
    [("taking", "running"), ("stored", "succeeded"), ("failed", "failed")],
)
def test_a_savepoint_is_what_the_driver_says(world: World, reported: str, expected: str) -> None:
    world.active()
    report = SavepointReport(KEY, "before", reported, taken_ms=NOW_MS, error="disk full" * (reported == "failed"))  # type: ignore[arg-type]
    world.hear(msgspec.structs.replace(driver(topology("running")), savepoints=(report,)), peer=b"driver")
    told = state(world, "savepoint", NOW_MS, "before")
    assert told.state == expected
    assert (told.error is not None and told.error.message) == ("disk full" if expected == "failed" else False)


def test_an_earlier_savepoint_of_that_name_is_not_taken_for_the_new_one(world: World) -> None:
    world.active()
    report = SavepointReport(KEY, "nightly", "stored", taken_ms=NOW_MS - 60_000)
    world.hear(msgspec.structs.replace(driver(topology("running")), savepoints=(report,)), peer=b"driver")
    assert state(world, "savepoint", NOW_MS - 60_000, "nightly").state == "succeeded"
    assert state(world, "savepoint", NOW_MS, "nightly").state == "pending"


def test_a_savepoint_that_the_driver_never_tells_of_fails(world: World) -> None:
    world.active()
    assert state(world, "savepoint", NOW_MS - 500, "lost").state == "pending"
    assert state(world, "savepoint", NOW_MS - 20_000, "lost").state == "failed"


def test_newest_operations_come_first_and_only_so_many(world: World) -> None:
    world.put(plan())
    other = PlanKey(KEY.tenant, "Late")
    world.put(plan(key=other, updated_ms=CHANGED_MS))
    world.put(plan(key=PlanKey(7, "Theirs")))
    found = operations_now(world.snapshot(), NOW_MS, KEY.tenant, 10)
    assert [(one.kind, one.plan) for one in found] == [("update", "Late"), ("deploy", "Storms")]
    assert operations_now(world.snapshot(), NOW_MS, KEY.tenant, 1) == found[:1]


def test_a_command_that_another_one_overtook_names_no_operation(world: World) -> None:
    world.put(plan(epoch=3))
    assert change_of(world.snapshot(), "update", KEY, 2) is None
    assert change_of(world.snapshot(), "update", KEY, 3) == OperationId("update", FIRST_MS, KEY)


@pytest.mark.parametrize("name", ["Storms", "a:b", "ä %20/x"])
def test_names_of_operations_are_read_as_they_are_written(name: str) -> None:
    asked = OperationId("savepoint", 5, PlanKey(7, name), "before-1.2")
    assert parse_operation(7, asked.text()) == asked


@pytest.mark.parametrize("text", ["", "deploy", "deploy:1:", "deploy:1:P", "melt:1::P", "deploy:x::P", "deploy:²::P"])
def test_what_is_no_operation_is_unknown(text: str) -> None:
    with pytest.raises(UnknownOperationError):
        parse_operation(7, text)


# ---- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(world: World) -> FlaskClient:
    world.active(events=100)
    return create_app(FakeView(world), 10_000).test_client()


@pytest.mark.parametrize(
    ("method", "address", "body", "kind"),
    [
        ("POST", "/plans", b"text", "deploy"),
        ("PUT", "/plans/Storms", b"again", "update"),
        ("POST", "/plans/Storms/rebalance", b'{"workers": 2}', "rebalance"),
        ("POST", "/plans/Storms/restart", b"", "restart"),
        ("POST", "/plans/Storms/savepoints", b'{"name": "x"}', "savepoint"),
        ("DELETE", "/plans/Storms", b"", "undeploy"),
    ],
)
def test_what_takes_long_says_where_to_watch_it(
    client: FlaskClient, method: str, address: str, body: bytes, kind: str
) -> None:
    answer = client.open(f"/api/v1{address}", method=method, data=body)
    assert answer.status_code in (200, 201, 202)
    told = client.get(answer.headers["Location"]).get_json()
    assert (told["operation"], told["kind"], told["plan"]) == (answer.get_json()["operation"], kind, "Storms")
    assert told["state"] in ("pending", "running", "succeeded", "superseded")


def test_an_operation_of_another_tenant_is_watched_there(client: FlaskClient, world: World) -> None:
    key = PlanKey(7, "Sto rms")
    world.put(plan(key=key, compiled=msgspec.structs.replace(COMPILED, name="Sto rms")))
    answer = client.post("/api/v1/plans/Sto%20rms/restart?tenant=7")
    told = client.get(answer.headers["Location"]).get_json()
    assert (told["tenant"], told["plan"], told["kind"]) == (7, "Sto rms", "restart")


def test_operations_are_listed(client: FlaskClient) -> None:
    (told,) = client.get("/api/v1/operations").get_json()["operations"]
    assert (told["kind"], told["state"], told["plan"]) == ("deploy", "succeeded", "Storms")
    refused = client.get("/api/v1/operations?limit=0")
    assert (refused.status_code, refused.get_json()["details"]["parameter"]) == (400, "limit")
