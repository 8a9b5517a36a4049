"""What a manager remembers of errors, from reports that say the same again and again."""

from __future__ import annotations

import msgspec
from manager_world import KEY, World, driver, plan, serves, task, topology, worker

from cep_common.protocol.error_records import ErrorRecord
from cep_common.protocol.tasks import RegisterTask
from cep_manager.history.error_history import MOST_GROUPS, MOST_PLACES, MOST_REPORTERS, SHOWN_PLACES, ErrorHistory
from cep_manager.history.errors import ErrorGroup

DROPPED = ErrorRecord("event-dropped", "stream Late: 3 is not a number", 5_000, 6_000, 10, "lateness#0")


def failing(*records: ErrorRecord, process_id: int = 200, instance: str = "lateness#0") -> RegisterTask:
    """A task one of whose instances tells of errors."""
    seen = task(process_id=process_id)
    components = tuple(
        msgspec.structs.replace(one, failures=records) if one.instance == instance else one for one in seen.components
    )
    return msgspec.structs.replace(seen, components=components)


def groups(history: ErrorHistory) -> tuple[ErrorGroup, ...]:
    return history.groups().get(KEY, ())


def test_what_is_said_again_counts_once_and_what_is_new_is_added() -> None:
    history = ErrorHistory()
    for _ in range(3):
        history.task_heard(failing(DROPPED))
    more = msgspec.structs.replace(DROPPED, text="stream Late: 77 is not a number", last_ms=7_000, count=15)
    history.task_heard(failing(more))
    (group,) = groups(history)
    assert (group.count, group.first_ms, group.last_ms, group.text) == (15, 5_000, 7_000, more.text)
    assert (group.component, group.code, group.kind) == ("lateness", "event-dropped", "error")


def test_a_group_goes_on_over_a_restart_of_its_task() -> None:
    history = ErrorHistory()
    history.task_heard(failing(DROPPED))
    again = msgspec.structs.replace(DROPPED, first_ms=9_000, last_ms=9_500, count=4)
    history.task_heard(failing(again, process_id=201))
    (group,) = groups(history)
    assert (group.count, group.first_ms, group.last_ms) == (14, 5_000, 9_500)
    assert [(place.process_id, place.count) for place in group.places] == [(201, 4), (200, 10)]


def test_a_source_that_had_forgotten_its_count_is_added_to_what_was_known() -> None:
    history = ErrorHistory()
    history.task_heard(failing(DROPPED))
    history.task_heard(failing(msgspec.structs.replace(DROPPED, first_ms=8_000, last_ms=8_000, count=2)))
    assert groups(history)[0].count == 12


def test_what_ended_a_topology_is_a_failure_with_traceback_and_place_told_once_by_both_epochs() -> None:
    failure = ErrorRecord("ValueError", "no such thing", 5, 6, 1, "storms#1", "Traceback …", "10.0.0.9", 4711)
    running = msgspec.structs.replace(topology("running"), failures=(failure,))
    history = ErrorHistory()
    history.driver_heard(driver(running, msgspec.structs.replace(running, epoch=2)))
    (group,) = groups(history)
    assert (group.kind, group.component, group.count, group.traceback) == ("failure", "storms", 1, "Traceback …")
    assert (group.places[0].host, group.places[0].process_id) == ("10.0.0.9", 4711)


def test_a_failure_that_comes_again_in_another_process_counts_once_more_there() -> None:
    history = ErrorHistory()
    for count, process_id in ((1, 10), (2, 11), (3, 12), (3, 12)):
        failure = ErrorRecord("ValueError", "no", 100, 100 * count, count, "storms#1", "", "10.0.0.9", process_id)
        history.driver_heard(driver(msgspec.structs.replace(topology("running"), failures=(failure,))))
    (group,) = groups(history)
    assert group.count == 3
    assert [(place.process_id, place.count, place.first_ms) for place in group.places] == [
        (12, 1, 300), (11, 1, 200), (10, 1, 100),
    ]  # fmt: skip


def test_errors_of_a_workers_sources_and_sinks_name_them_and_the_worker() -> None:
    sink = ErrorRecord("sink", "@sink(type='http'): refused", 5, 6, 3, "sink http of KnockOns")
    history = ErrorHistory()
    history.worker_heard(worker(msgspec.structs.replace(serves(), errors=(sink,))))
    (group,) = groups(history)
    assert (group.component, group.places[0].instance, group.places[0].host) == ("", sink.instance, "10.0.0.3")


def test_what_is_remembered_of_a_plan_is_bounded_and_the_newest_stay() -> None:
    history = ErrorHistory()
    words = [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(MOST_GROUPS + 6)]
    for number, word in enumerate(words):
        history.task_heard(failing(ErrorRecord("code", word, number, number)))
    assert [group.text for group in groups(history)] == words[:5:-1]


def test_more_places_than_are_shown_do_not_count_twice() -> None:
    history = ErrorHistory()
    for _ in range(3):
        for process_id in range(SHOWN_PLACES + 4):
            history.task_heard(failing(DROPPED, process_id=process_id))
    (group,) = groups(history)
    assert group.count == 10 * (SHOWN_PLACES + 4)
    assert len(group.places) == SHOWN_PLACES < MOST_PLACES
    assert MOST_REPORTERS > MOST_PLACES


def test_an_undeployed_plan_is_forgotten_and_others_are_not() -> None:
    world = World()
    world.active()
    world.hear(failing(DROPPED))
    assert world.snapshot().errors[KEY][0].count == 10
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    assert KEY not in world.snapshot().errors


def test_errors_of_a_plan_that_was_undeployed_do_not_come_back_with_what_is_still_told_of_it() -> None:
    failure = ErrorRecord("ValueError", "no such thing", 5, 6, 1, "storms#1", host="10.0.0.9", process_id=4711)
    former = driver(msgspec.structs.replace(topology("stopping"), failures=(failure,)))
    serving = worker(msgspec.structs.replace(serves(), errors=(ErrorRecord("sink", "refused", 5, 6),)))
    world = World()
    world.active()
    world.hear(former, peer=b"driver")
    world.hear(serving)
    assert {one.code for one in world.snapshot().errors[KEY]} == {"ValueError", "sink"}
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    for deploy in (False, True):
        if deploy:
            world.put(plan(epoch=2))
        world.hear(former, peer=b"driver")
        world.hear(serving)
        assert KEY not in world.snapshot().errors
    world.hear(worker(msgspec.structs.replace(serves(epoch=2), errors=(ErrorRecord("source", "gone", 5, 6),))))
    assert [one.code for one in world.snapshot().errors[KEY]] == ["source"]


def test_a_stored_plan_that_cannot_be_compiled_and_lost_processes_are_noted_by_the_manager() -> None:
    world = World()
    world.active()
    world.put(plan(epoch=2, compiled="stream 'Late' is not defined"))
    world.tick(after_ms=60_000)
    found = world.snapshot().errors
    assert [(one.code, one.text, one.kind) for one in found[KEY]] == [
        ("plan-invalid", "stream 'Late' is not defined", "failure")
    ]
    assert {(one.code, one.places[0].process_id) for one in found[None]} == {("worker-lost", 300), ("driver-lost", 100)}
