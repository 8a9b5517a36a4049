"""Checkpoints and savepoints as users meet them: over REST, on the command line, and on the way to the driver."""

from __future__ import annotations

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import COMPILED, DEPLOYED_MS, KEY, FakeView, World, driver, plan, topology

from cep_common.ids import PlanKey
from cep_common.protocol.checkpoints import ClearCheckpoints, TakeSavepoint
from cep_common.protocol.drivers import CheckpointReport, KillTopology, SavepointReport, SubmitTopology
from cep_common.protocol.registry import CheckpointSpan
from cep_manager.commands.checkpoint_commands import require_free_name
from cep_manager.control.instructions import NoteBegun, PushToDriver, RaiseEpoch
from cep_manager.errors import BadRequestError, NoDriverError
from cep_manager.web.app import create_app

CHECKPOINTS = (
    CheckpointReport(11, "complete", 1_000, 20, 5_000, 300, 2),
    CheckpointReport(12, "failed", 2_000, 60_000, error="task 1: No space left on device"),
    CheckpointReport(13, "taking", 3_000),
)
SAVEPOINTS = (
    SavepointReport(KEY, "before", "stored", 7, 500, 4_000),
    SavepointReport(PlanKey(7, KEY.plan), "another tenant's", "stored", 1, 600, 1),
    SavepointReport(KEY, "full", "failed", error="the store is full"),
)
PATH = f"/api/v1/plans/{KEY.plan}"


@pytest.fixture
def world() -> World:
    made = World()
    made.active()
    running = msgspec.structs.replace(
        topology("running", restarts=2),
        checkpoints=CHECKPOINTS,
        begun_from=9,
        spans=(CheckpointSpan(1, 2, 11),),
    )
    made.hear(msgspec.structs.replace(driver(running), savepoints=SAVEPOINTS), peer=b"driver")
    return made


@pytest.fixture
def view(world: World) -> FakeView:
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 2_000).test_client()


def pushed(world: World) -> list[object]:
    return [one.message for one in world.taken(PushToDriver)]  # type: ignore[attr-defined]


# ---- REST -----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_checkpoints_are_told_with_sizes_durations_and_why_they_failed(client: FlaskClient) -> None:
    told = client.get(f"{PATH}/checkpoints").get_json()
    assert (told["begun_from"], told["attempt"], told["last_complete"]) == (9, 2, 11)
    assert told["kept_savepoint"] == ""
    assert [(one["checkpoint"], one["state"]) for one in told["checkpoints"]] == [
        (11, "complete"), (12, "failed"), (13, "taking"),
    ]  # fmt: skip
    assert told["checkpoints"][0]["stored_bytes"] == 300
    assert told["checkpoints"][1]["error"] == "task 1: No space left on device"


def test_what_another_plan_of_the_name_left_is_told_for_as_long_as_it_is_a_savepoint(
    client: FlaskClient, world: World
) -> None:
    left = [SavepointReport(KEY, name, state) for name, state in (("former-3", "stored"), ("former-7", "stored"))]
    for savepoints, newest in ((left, "former-7"), (left[:1], "former-3"), ([], "")):
        told = msgspec.structs.replace(driver(topology("running")), savepoints=tuple(savepoints))
        world.hear(told, peer=b"driver")
        assert client.get(f"{PATH}/checkpoints").get_json()["kept_savepoint"] == newest


def test_savepoints_of_a_plan_are_told_also_when_it_is_not_deployed(client: FlaskClient) -> None:
    found = client.get(f"{PATH}/savepoints").get_json()["savepoints"]
    assert [(one["name"], one["state"], one["error"]) for one in found] == [
        ("before", "stored", ""), ("full", "failed", "the store is full"),
    ]  # fmt: skip
    other = client.get(f"{PATH}/savepoints", headers={"tenant": "7"}).get_json()["savepoints"]
    assert [one["name"] for one in other] == ["another tenant's"]


def test_what_is_asked_for_over_rest_is_done(client: FlaskClient, view: FakeView) -> None:
    assert client.post(f"{PATH}/savepoints", json={"name": "now"}).status_code == 202
    assert client.post(f"{PATH}/savepoints").get_json()["state"] == "taking"
    assert client.delete(f"{PATH}/savepoints/before").status_code == 202
    assert client.delete(f"{PATH}/checkpoints").status_code == 202
    assert client.post(f"{PATH}/restart?from=before").status_code == 200
    assert client.post("/api/v1/plans?from=before", data="again").status_code == 200
    assert client.delete(PATH).status_code == 202
    assert [what for _, what in view.done] == [
        "savepoint now", "savepoint ", "delete savepoint before", "clear checkpoints", "restart from before",
        "deploy from before",
    ]  # fmt: skip


def test_a_savepoint_that_there_is_not_is_refused_with_those_that_there_are(client: FlaskClient) -> None:
    for refused in (
        client.delete(f"{PATH}/savepoints/full"),
        client.post("/api/v1/plans?from=full", data="again"),
    ):
        assert refused.status_code == 404
        assert refused.get_json()["code"] == "unknown-savepoint"
        assert refused.get_json()["message"] == "Storms has no savepoint named full; there are: before"


def test_savepoints_have_names_that_can_be_files_and_mean_nothing_else() -> None:
    for name in ("before", "20261122-1109", "former", "a" * 64):
        require_free_name(name)
    for name in ("", "none", "former-7", "unreadable-7", ".hidden", "a/b", "a" * 65):
        with pytest.raises(BadRequestError, match="cannot be named"):
            require_free_name(name)


# ---- on the way to the driver ---------------------------------------------------------------------------------------


def test_a_new_plan_begins_without_what_a_former_one_of_its_name_left_behind_until_it_has_run() -> None:
    world = World()
    world.hear(driver(), peer=b"driver")
    world.put(plan(restore="none", restore_epoch=1))
    world.tick()
    assert pushed(world) == [
        SubmitTopology(KEY, 1, COMPILED.query_plan, 1, restore="none", restore_epoch=1, deployed_ms=DEPLOYED_MS)
    ]
    world.hear(driver(topology("starting")), peer=b"driver")
    assert world.snapshot().plans[KEY].stored.restore == "none"
    assert world.taken(NoteBegun) == []
    world.hear(driver(topology("running")), peer=b"driver")
    record = world.snapshot().plans[KEY]
    assert (record.stored.restore, record.stored.restore_epoch) == ("", 0)
    assert world.taken(NoteBegun) == [NoteBegun(KEY, 1)]


def test_a_plan_that_begins_from_a_savepoint_takes_the_place_of_the_running_one(world: World) -> None:
    world.taken(PushToDriver)
    other = plan(epoch=2, text="other", change="update", restore="before")
    world.put(other)
    world.tick()
    assert pushed(world) == [SubmitTopology(KEY, 2, COMPILED.query_plan, 1, restore="before", deployed_ms=DEPLOYED_MS)]


def test_a_manager_that_comes_to_lead_goes_on_with_a_change_that_waits_to_begin_from_a_savepoint() -> None:
    world = World()
    world.hear(driver(), peer=b"driver")
    before = plan(sent_before=True)
    other = plan(epoch=2, text="other", change="update", restore="before", restore_epoch=2)
    world.put(msgspec.structs.replace(other, former=before, sent_before=True))
    world.tick()
    assert pushed(world) == [], "an earlier manager may have submitted that epoch already"
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]
    world.instructions += world.plane.epoch_raised(KEY, 3, world.now_ms)
    world.tick()
    assert pushed(world) == [
        SubmitTopology(KEY, 3, COMPILED.query_plan, 1, restore="before", restore_epoch=2, deployed_ms=DEPLOYED_MS)
    ]


def test_a_restart_can_begin_from_a_savepoint(world: World) -> None:
    world.taken(PushToDriver)
    world.instructions += world.plane.restart_plan(KEY, 2, world.now_ms, "before", 2)
    world.tick()
    assert pushed(world) == [
        SubmitTopology(KEY, 2, COMPILED.query_plan, 1, restore="before", restore_epoch=2, deployed_ms=DEPLOYED_MS)
    ]


def test_a_plan_that_cannot_begin_from_a_savepoint_goes_back_to_what_it_was(world: World) -> None:
    other = plan(epoch=2, text="other", change="update", restore="before", restore_epoch=2)
    world.put(other)
    world.tick()
    world.hear(driver(topology("failed", epoch=2, reason="it is damaged")), peer=b"driver")
    record = world.snapshot().plans[KEY]
    assert (record.stored.restore, record.stored.restore_epoch, record.change_error) == ("", 0, "it is damaged")


def test_an_undeployed_plan_takes_its_checkpoints_with_it_and_may_work_off_what_it_has(world: World) -> None:
    world.taken(PushToDriver)
    world.instructions += world.plane.remove_plan(KEY, world.now_ms, drain=True)
    assert pushed(world) == [KillTopology(KEY, drain=True, forget=1, deployed_ms=DEPLOYED_MS)]


def test_orders_go_to_the_driver_that_lives_and_are_refused_when_there_is_none(world: World) -> None:
    world.taken(PushToDriver)
    order = TakeSavepoint(KEY, 1, "now")
    world.instructions += world.plane.order(order, world.now_ms)
    assert pushed(world) == [order]
    world.tick(60_000)
    with pytest.raises(NoDriverError, match="is silent"):
        world.plane.order(ClearCheckpoints(KEY), world.now_ms)
