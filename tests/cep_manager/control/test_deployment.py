"""From wanted plans and reports to submissions, epochs and states, over the whole control plane."""

import msgspec
import pytest
from manager_world import (
    COMPILED,
    DEPLOYED_MS,
    HEARTBEAT_MS,
    KEY,
    LEASE_MS,
    World,
    driver,
    plan,
    receiver,
    request,
    serves,
    task,
    topology,
    worker,
)

from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.drivers import DriverRegistered, KillTopology, SubmitTopology
from cep_common.protocol.registry import (
    CheckpointSpan,
    EndpointAssigned,
    ListPlans,
    PlanCheckpoints,
    PlansListed,
    Rejected,
    RequestEndpoint,
    WorkerRegistered,
)
from cep_common.protocol.tasks import TaskRegistered
from cep_manager.config import QuotasConfig
from cep_manager.control.instructions import PushToDriver, RaiseEpoch
from cep_manager.log_line import LogLine
from cep_manager.plans.state import PlanState


@pytest.fixture
def world() -> World:
    return World()


def state(world: World) -> tuple[PlanState, str]:
    record = world.snapshot().plans[KEY]
    return record.state, record.reason


def pushed(world: World) -> list[SubmitTopology | KillTopology]:
    return [push.message for push in world.taken(PushToDriver)]  # type: ignore[attr-defined]


def submit(epoch: int) -> SubmitTopology:
    return SubmitTopology(key=KEY, epoch=epoch, query_plan=COMPILED.query_plan, workers=1, deployed_ms=DEPLOYED_MS)


# ---- submission -----------------------------------------------------------------------------------------------------


def test_a_plan_waits_for_a_driver_and_is_then_submitted_once(world: World) -> None:
    world.put(plan())
    world.tick()
    assert state(world) == (PlanState.WAITING, "no driver has registered")
    assert pushed(world) == []

    world.hear(driver(), peer=b"route")
    assert world.instructions[-2:]
    pushes = world.taken(PushToDriver)
    assert pushes == [PushToDriver(b"route", submit(1))]
    assert state(world)[0] is PlanState.DEPLOYING

    world.hear(driver(), peer=b"route")
    assert pushed(world) == []


def test_submission_goes_to_the_address_that_the_driver_spoke_from_last(world: World) -> None:
    world.hear(driver(), peer=b"first")
    world.hear(driver(), peer=b"second")
    world.put(plan())
    world.tick()
    assert [push.peer for push in world.taken(PushToDriver)] == [b"second"]  # type: ignore[attr-defined]


def test_a_plan_is_active_when_the_driver_runs_it_and_its_tasks_are_heard(world: World) -> None:
    world.put(plan())
    world.hear(driver())
    world.hear(driver(topology("waiting", reason="needs 1 slot, 0 are free")))
    assert state(world) == (PlanState.WAITING, "needs 1 slot, 0 are free")
    world.hear(driver(topology("starting")))
    assert state(world)[0] is PlanState.DEPLOYING
    world.hear(driver(topology("running")))
    assert state(world) == (PlanState.DEPLOYING, "0 of 1 tasks have registered")
    assert world.hear(task()) == TaskRegistered(heartbeat_ms=1_000, lease_ms=LEASE_MS)
    assert state(world) == (PlanState.ACTIVE, "")


def test_the_plan_itself_may_say_how_many_tasks_it_has(world: World) -> None:
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, workers=2)))
    world.hear(driver())
    assert pushed(world)[0].workers == 2  # type: ignore[union-attr]
    world.hear(driver(topology("running")), task(number=0))
    assert state(world) == (PlanState.DEPLOYING, "1 of 2 tasks have registered")
    world.hear(task(number=1))
    assert state(world)[0] is PlanState.ACTIVE


def test_a_submission_that_the_driver_never_lists_is_made_again_under_a_new_epoch(world: World) -> None:
    world.put(plan())
    world.hear(driver())
    assert pushed(world) == [submit(1)]
    world.now_ms += LEASE_MS
    world.hear(driver())
    assert world.taken(RaiseEpoch) == []
    world.now_ms += LEASE_MS
    world.hear(driver())
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]
    world.hear(driver())
    assert world.taken(RaiseEpoch) == []
    world.plane.epoch_raised(KEY, 2, world.now_ms)
    world.tick()
    assert pushed(world) == [submit(2)]


def test_a_submission_goes_again_when_the_driver_connects_anew_and_nothing_is_raised(world: World) -> None:
    """A driver that waits in vain for a busy manager gives up its connection, and orders on the way with it."""
    world.put(plan())
    world.hear(driver())
    assert pushed(world) == [submit(1)]
    world.now_ms += HEARTBEAT_MS
    world.hear(driver(), peer=b"another connection")
    assert pushed(world) == [submit(1)]
    world.hear(driver(), peer=b"another connection")
    assert pushed(world) == []
    world.hear(driver(topology("starting")), peer=b"a third one")
    world.hear(driver(topology("starting")), peer=b"a fourth one")
    assert pushed(world) == []
    assert world.taken(RaiseEpoch) == []


def test_nobody_is_silent_whose_heartbeats_may_wait_to_be_read(world: World) -> None:
    world.active()
    world.now_ms += 3 * LEASE_MS
    world.instructions += world.plane.tick(world.now_ms, behind_ms=2 * LEASE_MS + 1)
    assert state(world)[0] is PlanState.ACTIVE
    world.instructions += world.plane.tick(world.now_ms, behind_ms=0)
    assert state(world)[0] is not PlanState.ACTIVE


def test_a_submission_is_not_lost_while_the_driver_still_ends_the_plans_former_topology(world: World) -> None:
    world.active()
    world.put(plan(epoch=2, text="other"))
    for _ in range(5):
        world.now_ms += LEASE_MS
        world.hear(driver(topology("stopping", epoch=1)))
    assert state(world)[0] is PlanState.DEPLOYING
    assert world.taken(RaiseEpoch) == []


# ---- losses ---------------------------------------------------------------------------------------------------------


def test_a_killed_task_is_told_within_the_lease_and_its_return_makes_the_plan_active_again(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    for later_ms in (HEARTBEAT_MS, HEARTBEAT_MS, LEASE_MS - 2 * HEARTBEAT_MS - 1):
        world.now_ms += later_ms
        world.hear(driver(topology("running")))
        assert state(world)[0] is PlanState.ACTIVE
    world.now_ms += 1
    world.hear(driver(topology("running")))
    assert state(world) == (PlanState.RESTARTING, "no heartbeats from: task 0 on 10.0.0.2 (process 200)")
    world.hear(driver(topology("restarting", reason="task 0 died", restarts=1)))
    assert state(world) == (PlanState.RESTARTING, "task 0 died")
    world.hear(driver(topology("running", restarts=1)), task(process_id=201, attempt=1))
    assert state(world) == (PlanState.ACTIVE, "")
    assert world.snapshot().plans[KEY].restarts == 1
    assert pushed(world) == []
    assert world.snapshot().plans[KEY].epoch == 1


def test_while_heartbeats_come_late_silence_is_borne_for_longer(world: World) -> None:
    world.active()
    world.now_ms += 2_500  # a second and a half later than agreed
    world.hear(driver(topology("running")), task())
    for _ in range(5):
        world.now_ms += HEARTBEAT_MS
        world.hear(driver(topology("running")))
        assert state(world)[0] is PlanState.ACTIVE
    world.now_ms += LEASE_MS + 2 * 1_500 - 5 * HEARTBEAT_MS
    world.hear(driver(topology("running")))
    assert state(world)[0] is PlanState.RESTARTING


def test_a_restart_within_the_lease_is_not_hidden_by_what_the_dead_task_said_before(world: World) -> None:
    world.active()
    world.now_ms += 100
    world.hear(driver(topology("restarting", reason="a stage process died", restarts=1)))
    assert state(world) == (PlanState.RESTARTING, "a stage process died")
    assert world.snapshot().endpoints == ()
    world.now_ms += 100
    world.hear(driver(topology("running", restarts=1)))
    assert state(world) == (PlanState.RESTARTING, "0 of 1 tasks have registered")
    world.hear(task(process_id=201, attempt=1), receiver(port=15_001, attempt=1))
    assert state(world) == (PlanState.ACTIVE, "")
    world.now_ms += 100
    world.hear(driver(topology("running", restarts=1)))
    assert state(world) == (PlanState.ACTIVE, "")
    assert len(world.snapshot().endpoints) == 1


def test_a_restart_that_nobody_saw_happen_is_told_by_its_count(world: World) -> None:
    world.active()
    world.hear(driver(topology("running", restarts=1)))
    assert state(world) == (PlanState.RESTARTING, "0 of 1 tasks have registered")


def test_what_is_left_of_an_earlier_attempt_is_refused(world: World) -> None:
    world.active()
    world.hear(driver(topology("running", restarts=1)), task(process_id=201, attempt=1), receiver(attempt=1))
    publisher = RequestEndpoint("worker", KEY, 1, "EventPublisher#0", "10.0.0.2")
    for late in (task(), receiver(port=15_009), publisher):
        answer = world.hear(late)
        assert isinstance(answer, Rejected)
        assert answer.code == "stale-epoch"
    assert [record.attempt for record in world.snapshot().endpoints] == [1]
    assert world.hear(request()) == EndpointAssigned(Endpoint("10.0.0.2", 15_000), "EventReceiver#0", attempt=1)


def test_an_attempt_that_its_tasks_tell_of_first_ends_the_earlier_one_too(world: World) -> None:
    world.active()
    world.hear(task(process_id=201, attempt=1))
    assert world.snapshot().endpoints == ()
    assert isinstance(world.hear(task()), Rejected)


def test_workers_learn_which_results_of_plans_that_deliver_exactly_once_stand(world: World) -> None:
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    spans = (CheckpointSpan(1, 0, 7), CheckpointSpan(1, 1, 0))
    world.hear(driver(msgspec.structs.replace(topology("running"), spans=spans)))
    answer = world.hear(worker())
    assert isinstance(answer, WorkerRegistered)
    assert answer.checkpoints == (PlanCheckpoints(KEY, spans),)


def test_workers_are_not_told_of_plans_whose_results_do_not_wait(world: World) -> None:
    world.active()
    world.hear(driver(msgspec.structs.replace(topology("running"), spans=(CheckpointSpan(1, 0, 7),))))
    answer = world.hear(worker())
    assert isinstance(answer, WorkerRegistered)
    assert answer.checkpoints == ()


def test_why_a_plan_was_interrupted_is_remembered_after_it_has_come_back(world: World) -> None:
    world.active()
    assert world.snapshot().plans[KEY].interruption == ""
    world.now_ms += 100
    world.hear(driver(topology("restarting", reason="a stage process died", restarts=1)))
    world.hear(driver(topology("starting", restarts=1)))
    world.hear(driver(topology("running", restarts=1)), task(process_id=201, attempt=1))
    record = world.snapshot().plans[KEY]
    assert record.state is PlanState.ACTIVE
    assert (record.interruption, record.interrupted_ms) == ("a stage process died", 100)


def test_a_silent_driver_makes_its_plans_wait_and_says_which_driver(world: World) -> None:
    world.active()
    world.tick(LEASE_MS)
    assert state(world) == (PlanState.WAITING, "the driver driver-1 on 10.0.0.1 (process 100) is silent")
    errors = [line for line in world.taken(LogLine) if line.level == "error"]  # type: ignore[attr-defined]
    assert len(errors) == 1


def test_a_driver_that_comes_back_as_another_process_gets_everything_again_under_a_new_epoch(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    world.tick(LEASE_MS)
    world.hear(driver(process_id=101), peer=b"new")
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]
    world.instructions += world.plane.epoch_raised(KEY, 2, world.now_ms)
    world.tick()
    assert world.taken(PushToDriver) == [PushToDriver(b"new", submit(2))]
    world.hear(driver(topology("running", epoch=2), process_id=101), task(epoch=2, process_id=202))
    assert state(world) == (PlanState.ACTIVE, "")


def test_a_driver_restarted_within_its_lease_takes_over_at_once(world: World) -> None:
    world.active()
    assert isinstance(world.hear(driver(process_id=101)), DriverRegistered)
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]


def test_a_driver_that_was_only_cut_off_keeps_what_it_runs(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    world.tick(10 * LEASE_MS)
    world.hear(driver(topology("running")), task())
    assert state(world)[0] is PlanState.ACTIVE
    assert pushed(world) == []
    assert world.taken(RaiseEpoch) == []


def test_a_second_driver_is_refused_while_the_first_one_lives(world: World) -> None:
    world.active()
    answer = world.hear(driver(name="driver-2", process_id=9))
    assert isinstance(answer, Rejected)
    assert answer.code == "driver-exists"
    world.tick(LEASE_MS)
    assert isinstance(world.hear(driver(name="driver-2", process_id=9)), DriverRegistered)


def test_of_two_drivers_of_one_name_the_one_that_was_started_later_stays(world: World) -> None:
    world.put(plan())
    world.hear(driver(process_id=7, started_ms=70))
    assert isinstance(world.hear(driver(process_id=8, started_ms=80)), DriverRegistered)
    for _ in range(2):
        answer = world.hear(driver(process_id=7, started_ms=70))
        assert isinstance(answer, Rejected)
        assert answer.code == "driver-replaced"
        assert "process 7) ends: another process of this name, on 10.0.0.1 (process 8)" in answer.reason
        assert isinstance(world.hear(driver(process_id=8, started_ms=80)), DriverRegistered)
    world.tick(LEASE_MS)
    assert isinstance(world.hear(driver(process_id=7, started_ms=70)), DriverRegistered), "the later one has gone"


def test_a_failed_topology_shows_the_drivers_reason(world: World) -> None:
    world.active()
    world.hear(driver(topology("failed", reason="five restarts in a minute")))
    assert state(world) == (PlanState.FAILED, "five restarts in a minute")


def test_when_the_plan_store_cannot_count_the_plan_fails_with_its_words_and_is_tried_again(world: World) -> None:
    world.active()
    world.hear(driver(process_id=101))
    world.taken(RaiseEpoch)
    world.instructions += world.plane.epoch_not_raised(KEY, "database is locked", world.now_ms)
    world.hear(driver(process_id=101))
    assert state(world) == (PlanState.FAILED, "the plan store does not answer: database is locked")
    world.now_ms += 2 * LEASE_MS
    world.hear(driver(process_id=101))
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]
    world.plane.epoch_raised(KEY, 2, world.now_ms)
    world.tick()
    assert state(world)[0] is PlanState.DEPLOYING


# ---- a manager that comes back --------------------------------------------------------------------------------------


def test_a_restarted_manager_adopts_what_runs_under_the_stored_epoch(world: World) -> None:
    world.put(plan(epoch=4, sent_before=True))
    world.hear(driver(topology("running", epoch=4)), task(epoch=4))
    assert state(world)[0] is PlanState.ACTIVE
    assert pushed(world) == []
    assert world.taken(RaiseEpoch) == []


def test_a_restarted_manager_submits_again_what_runs_under_an_older_epoch_or_not_at_all(world: World) -> None:
    world.now_ms = 100_000
    world.put(plan(epoch=4, sent_before=True))
    world.hear(driver(topology("running", epoch=3)))
    assert pushed(world) == []
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY)]


def test_a_plan_that_an_earlier_manager_had_run_has_run_also_before_its_tasks_are_heard(world: World) -> None:
    world.put(plan(sent_before=True))
    assert world.snapshot().plans[KEY].has_run()
    world.hear(driver(topology("running")))
    assert state(world)[0] is PlanState.DEPLOYING
    assert world.snapshot().plans[KEY].has_run()


def test_a_topology_that_nobody_wants_is_ended(world: World) -> None:
    stray = PlanKey(1, "Stray")
    world.hear(driver(topology("running", key=stray)))
    assert pushed(world) == [KillTopology(key=stray, drain=True)]
    world.hear(driver(topology("stopping", key=stray)))
    assert pushed(world) == []


def test_a_plan_whose_stored_text_does_not_compile_fails_and_is_never_submitted(world: World) -> None:
    world.put(plan(compiled="no such function", sent_before=True))
    world.hear(driver())
    assert state(world) == (PlanState.FAILED, "no such function")
    assert pushed(world) == []
    assert world.hear(ListPlans()) == PlansListed(revision=1_001, plans=(), kept=(KEY,))


# ---- replacing and removing -----------------------------------------------------------------------------------------


def test_a_replaced_plan_is_submitted_under_its_new_epoch_and_the_old_one_is_fenced(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    world.put(plan(epoch=2, text="other"))
    world.tick()
    assert pushed(world) == [submit(2)]
    assert state(world)[0] is PlanState.DEPLOYING
    world.hear(driver(topology("running", epoch=2)))
    for late in (task(epoch=1), receiver(epoch=1), request(epoch=1)):
        answer = world.hear(late)
        assert isinstance(answer, Rejected)
        assert answer.code == "stale-epoch"
    assert world.snapshot().endpoints == ()
    assert world.snapshot().tasks == {}


def test_an_undeployed_plan_is_killed_and_its_stages_are_told_to_go(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    world.tick()
    assert pushed(world) == [KillTopology(key=KEY, forget=1, deployed_ms=DEPLOYED_MS)]
    assert isinstance(world.hear(task()), TaskRegistered), "its driver has still to end it"
    world.hear(driver())
    for orphan in (task(), receiver(), request()):
        answer = world.hear(orphan)
        assert isinstance(answer, Rejected)
        assert answer.code == "unknown-plan"
    assert world.snapshot().plans == {}
    assert world.snapshot().endpoints == ()


def test_an_epoch_raised_for_a_plan_that_was_replaced_or_removed_meanwhile_changes_nothing(world: World) -> None:
    world.active()
    world.put(plan(epoch=3))
    world.plane.epoch_raised(KEY, 2, world.now_ms)
    assert world.snapshot().plans[KEY].epoch == 3
    world.plane.remove_plan(KEY, world.now_ms)
    world.plane.epoch_raised(KEY, 4, world.now_ms)
    assert world.snapshot().plans == {}


def test_an_epoch_that_was_never_given_out_is_refused(world: World) -> None:
    world.active()
    answer = world.hear(task(epoch=9))
    assert isinstance(answer, Rejected)
    assert answer.code == "unknown-epoch"


# ---- workers --------------------------------------------------------------------------------------------------------


def test_workers_learn_of_every_change_of_the_plan_list(world: World) -> None:
    answers = [world.hear(worker())]
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    answers.append(world.hear(worker()))
    world.plane.epoch_raised(KEY, 2, world.now_ms)
    answers.append(world.hear(worker()))
    listed = world.hear(ListPlans())
    world.plane.remove_plan(KEY, world.now_ms)
    answers.append(world.hear(worker()))
    assert [answer.revision for answer in answers if isinstance(answer, WorkerRegistered)] == [
        1_000,
        1_001,
        1_002,
        1_003,
    ]
    assert isinstance(listed, PlansListed)
    assert [(one.key, one.epoch, one.imported) for one in listed.plans] == [(KEY, 2, COMPILED.imported)]
    assert listed.plans[0].delivery == "exactly-once"


def test_a_silent_worker_is_gone_at_its_lease(world: World) -> None:
    world.active()
    world.tick(LEASE_MS - 1)
    assert len(world.snapshot().workers) == 1
    world.tick(1)
    assert world.snapshot().workers == ()


def test_a_worker_is_assigned_a_receiver_of_the_current_epoch(world: World) -> None:
    world.active()
    answer = world.hear(request())
    assert isinstance(answer, EndpointAssigned)
    assert answer.instance == "EventReceiver#0"


def test_a_message_that_is_not_for_managers_is_refused(world: World) -> None:
    answer = world.hear(KillTopology(key=KEY))
    assert answer == Rejected(
        code="unexpected-message", reason="a manager does not accept messages of type kill-topology"
    )


def test_states_are_logged_once_per_change_and_not_per_heartbeat(world: World) -> None:
    world.active()
    world.taken(LogLine)
    world.now_ms += 1_000
    world.hear(driver(topology("running")), task(), worker(serves()), receiver())
    assert world.taken(LogLine) == []


def test_no_receiver_is_given_before_all_are_known_so_that_the_near_one_can_be(world: World) -> None:
    two = msgspec.structs.replace(COMPILED.components[0], parallel=2)
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, components=(two, *COMPILED.components[1:]))))
    world.hear(driver(), peer=b"driver")
    world.hear(driver(topology("running")), peer=b"driver")
    far = receiver("EventReceiver#0", host="10.0.0.2")
    world.hear(task(), far)
    early = world.hear(request(host="10.0.0.3"))
    assert isinstance(early, Rejected)
    assert early.reason == "1 of 2 receivers of Storms[-1234] have registered; ask again"
    world.hear(receiver("EventReceiver#1", host="10.0.0.3", port=15_001))
    given = world.hear(request(host="10.0.0.3"))
    assert isinstance(given, EndpointAssigned)
    assert given.instance == "EventReceiver#1"


def test_a_topology_that_has_run_for_a_while_gives_the_receivers_that_it_has(world: World) -> None:
    two = msgspec.structs.replace(COMPILED.components[0], parallel=2)
    world.put(plan(compiled=msgspec.structs.replace(COMPILED, components=(two, *COMPILED.components[1:]))))
    world.hear(driver(), peer=b"driver")
    for _ in range(2):
        world.hear(driver(topology("running")), task(), receiver())
        world.tick(LEASE_MS - 1)
    world.hear(driver(topology("running")), task(), receiver())
    assert isinstance(world.hear(request()), EndpointAssigned)


@pytest.mark.parametrize("epoch", [1, 5])
def test_what_the_driver_still_runs_for_a_plan_of_a_database_that_was_replaced_is_not_taken_for_the_new_one(
    epoch: int, world: World
) -> None:
    foreign = msgspec.structs.replace(topology("running", epoch), deployed_ms=DEPLOYED_MS - 1)
    world.put(plan())
    world.hear(driver(foreign))
    assert pushed(world) == [KillTopology(KEY, epoch, drain=True)], "it waits for an epoch that nobody has given out"
    assert state(world)[0] is not PlanState.ACTIVE
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY, epoch + 1)]
    world.hear(driver(foreign))
    assert world.taken(RaiseEpoch) == [], "the plan store has been asked"
    world.plane.epoch_raised(KEY, epoch + 2, world.now_ms)
    world.hear(driver(foreign))
    assert submit(epoch + 2) in pushed(world)
    own = msgspec.structs.replace(topology("running", epoch + 2), deployed_ms=DEPLOYED_MS)
    world.hear(driver(own, msgspec.structs.replace(foreign, state="stopping")))
    assert not pushed(world)
    assert world.taken(RaiseEpoch) == []


def test_a_plan_store_that_is_an_older_copy_does_not_give_out_again_what_runs(world: World) -> None:
    world.put(plan(epoch=4, sent_before=True))
    world.hear(driver(topology("running", epoch=5)))
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY, 5)]
    world.plane.epoch_raised(KEY, 6, world.now_ms)
    world.hear(driver(topology("running", epoch=5)))
    assert pushed(world) == [submit(6)]
    assert world.taken(RaiseEpoch) == []


def test_a_worker_that_has_results_of_a_replaced_database_is_given_an_epoch_above_them(world: World) -> None:
    world.active()
    world.taken(PushToDriver)
    world.hear(worker(msgspec.structs.replace(serves(), needs_epoch=6)))
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY, 6)]
    world.hear(driver(topology("running")))
    assert world.taken(RaiseEpoch) == [], "while the plan store counts the topology is listed"
    world.plane.epoch_raised(KEY, 7, world.now_ms)
    world.hear(worker(msgspec.structs.replace(serves(), needs_epoch=6)))
    assert pushed(world) == [submit(7)]
    assert world.taken(RaiseEpoch) == []


def test_what_a_plan_was_told_to_begin_from_holds_when_epochs_of_another_database_are_left_out(world: World) -> None:
    world.put(plan(epoch=5, sent_before=True))
    world.plane.restart_plan(KEY, 6, world.now_ms, "none", 6)
    world.hear(worker(msgspec.structs.replace(serves(6), needs_epoch=9)))
    world.hear(driver())
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY, 9)]
    world.plane.epoch_raised(KEY, 10, world.now_ms)
    world.tick(10)
    (push,) = world.taken(PushToDriver)
    assert isinstance(push.message, SubmitTopology)
    assert (push.message.epoch, push.message.restore, push.message.restore_epoch) == (10, "none", 10)


def test_a_plan_whose_topology_holds_its_slots_already_does_not_wait_for_another_to_let_go_of_them() -> None:
    """Two plans of an older copy, and a quota for one of them: the one that waited must not keep the other, which runs,
    from its next epoch."""
    one, two = PlanKey(7, "One"), PlanKey(7, "Two")
    world = World(QuotasConfig(slots=1))
    for key in (one, two):
        world.put(plan(key, sent_before=True))
    running = topology("running", 5, key=two)
    world.hear(driver(running))
    assert RaiseEpoch(two, 5) in world.taken(RaiseEpoch)
    for key, epoch in ((one, 2), (two, 6)):
        world.plane.epoch_raised(key, epoch, world.now_ms)
        world.tick(10)
    world.hear(driver(running, topology("waiting", 2, key=one)))
    sent = [push.message for push in world.taken(PushToDriver)]
    assert {(message.key, message.epoch) for message in sent if isinstance(message, SubmitTopology)} >= {(two, 6)}


def test_epochs_that_the_plan_store_cannot_leave_out_now_are_left_out_later(world: World) -> None:
    world.active()
    needing = worker(msgspec.structs.replace(serves(), needs_epoch=6))
    world.hear(needing)
    world.plane.epoch_not_raised(KEY, "no answer", world.now_ms)
    world.taken(RaiseEpoch)
    for _ in range(2):
        world.now_ms += LEASE_MS
        world.hear(driver(topology("running")), needing)
    assert world.taken(RaiseEpoch) == [RaiseEpoch(KEY, 6)]


def test_an_epoch_that_was_counted_for_a_change_that_failed_is_nothing_that_another_database_gave_out(
    world: World,
) -> None:
    """The driver is still ending it when another manager has come to lead."""
    world.put(plan(epoch=1, sent_before=True, counted=2))
    world.hear(driver(topology("running"), topology("stopping", epoch=2)))
    assert world.taken(RaiseEpoch) == []


def test_what_another_plan_of_the_name_tells_of_its_results_is_told_apart(world: World) -> None:
    world.put(plan(epoch=6, compiled=msgspec.structs.replace(COMPILED, delivery="exactly-once")))
    own = msgspec.structs.replace(topology("running", 6), spans=(CheckpointSpan(6, 0, 9),), deployed_ms=DEPLOYED_MS)
    spans = (CheckpointSpan(5, 0, 7),)
    foreign = msgspec.structs.replace(topology("stopping", 5), spans=spans, deployed_ms=DEPLOYED_MS - 1)
    world.hear(driver(own, foreign))
    answer = world.hear(worker())
    assert isinstance(answer, WorkerRegistered)
    assert answer.checkpoints == (
        PlanCheckpoints(KEY, spans, DEPLOYED_MS - 1),
        PlanCheckpoints(KEY, own.spans, DEPLOYED_MS),
    )
