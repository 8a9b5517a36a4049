"""Logs of processes through the manager: paging, searching over many, and processes that do not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from insight_world import KEY, Processes, insight, where
from manager_world import components, insights_of, plan, task, worker

from cep_common.ids import Endpoint, PlanKey
from cep_common.inspection.config import LogConfig
from cep_common.inspection.endpoint import Inspection, InspectionEndpoint
from cep_common.inspection.log_buffer import LogBuffer
from cep_common.protocol.inspection import ReadLog
from cep_common.protocol.registry import Message
from cep_common.security.config import SecurityConfig
from cep_common.security.context import GuardedContext, open_context
from cep_common.security.roles import Role
from cep_manager.errors import BadRequestError, InsightBusyError, ProcessSilentError, UnknownProcessError
from cep_manager.monitoring.logs import insights as limits
from cep_manager.monitoring.logs.client import NoAnswer, ProcessQuestion, asking
from cep_manager.monitoring.logs.insights import AGAIN_MS, PATIENCE_MS
from cep_manager.monitoring.logs.model import LogQuery
from cep_manager.monitoring.logs.processes import task_id


@pytest.fixture
def processes() -> Processes:
    return Processes()


def test_every_process_is_listed_with_an_id_that_a_restart_does_not_change(processes: Processes) -> None:
    listed = {one.id: one for one in processes.view.processes()}
    assert list(listed) == ["manager:127.0.0.1:8904", "driver:driver-1", "worker:worker-1", "task:Storms[-1234]:1:0"]
    assert task_id(KEY, 1, 0) in listed
    found = listed["task:Storms[-1234]:1:0"]
    assert (found.host, found.process_id, found.plan, found.tenant) == ("10.0.0.2", 200, "Storms", -1234)
    assert found.instances == tuple(one.instance for one in components())


def test_a_log_is_followed_without_gaps_and_paged_backwards(processes: Processes) -> None:
    newest = processes.view.log("task:Storms[-1234]:1:0", LogQuery(limit=1))
    assert [one.text for one in newest.records] == ["task sends"]
    older = processes.view.log("task:Storms[-1234]:1:0", LogQuery(before=newest.previous))
    assert [one.text for one in older.records] == ["task works"]
    assert older.previous == ""
    assert processes.view.log("task:Storms[-1234]:1:0", LogQuery(after=newest.next)).records == ()
    processes.insights["run-3"].ring.handle(logging.makeLogRecord({"name": "t", "msg": "more", "levelno": 30}))
    followed = processes.view.log("task:Storms[-1234]:1:0", LogQuery(after=newest.next))
    assert [(one.text, one.level) for one in followed.records] == [("more", "WARNING")]


def test_a_process_that_was_started_again_is_read_from_its_beginning(processes: Processes) -> None:
    before = processes.view.log("worker:worker-1", LogQuery())
    processes.world.hear(msgspec.structs.replace(worker(process_id=301), insight=where(4)))
    processes.insights["run-4"] = insight("worker started")
    after = processes.view.log("worker:worker-1", LogQuery(after=before.next))
    assert (after.restarted, [one.text for one in after.records]) == (True, ["worker started"])


def test_records_that_were_forgotten_between_two_looks_are_counted(processes: Processes) -> None:
    ring = LogBuffer(2_000)
    processes.insights["run-3"] = Inspection(ring)
    for number in range(50):
        ring.handle(logging.makeLogRecord({"name": "t", "msg": str(number), "levelno": 20}))
    page = processes.view.log("task:Storms[-1234]:1:0", LogQuery(after="run-3:10"))
    assert page.lost == page.records[0].sequence - 11 > 0


def test_the_manager_tells_of_itself_without_being_asked(processes: Processes) -> None:
    page = processes.view.log("manager:127.0.0.1:8904", LogQuery())
    assert [one.text for one in page.records] == ["manager ready"]
    assert processes.questions == []


def test_a_search_of_a_plan_finds_all_of_its_tasks_and_what_others_say_of_it(processes: Processes) -> None:
    found = processes.view.search(LogQuery(), KEY)
    assert {(one.process, one.text) for one in found.records} == {
        ("driver:driver-1", "submitted: topology=Storms[-1234]"),
        ("worker:worker-1", "plan served: plan=Storms[-1234]"),
        ("task:Storms[-1234]:1:0", "task works"),
        ("task:Storms[-1234]:1:0", "task sends"),
    }
    assert all(one.answered for one in found.answers)


def test_a_search_for_a_tenant_goes_to_tasks_of_its_own_plan_alone(processes: Processes) -> None:
    other = PlanKey(7, "Storms")
    processes.world.put(plan(other))
    processes.world.hear(msgspec.structs.replace(task(key=other), insight=where(5)))
    processes.insights["run-5"] = insight("of tenant 7")
    found = processes.view.search(LogQuery(), other, tasks_only=True)
    assert [one.text for one in found.records] == ["of tenant 7"]
    assert [question.endpoint.port for question in processes.questions] == [13_005]


def test_a_search_tells_who_did_not_answer_and_gives_the_rest(processes: Processes) -> None:
    processes.silent.add("run-2")
    found = processes.view.search(LogQuery(contains="STORMS"))
    assert [one.text for one in found.records] == ["submitted: topology=Storms[-1234]"]
    assert {one.process.id: one.problem for one in found.answers if not one.answered} == {
        "worker:worker-1": "did not answer"
    }


def test_a_search_over_very_many_processes_leaves_some_out_and_says_so(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_ASKED", 2)
    found = processes.view.search(LogQuery())
    assert (len(found.answers), found.left_out) == (2, 2)


def test_of_very_many_processes_those_of_the_plan_are_asked_first(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_ASKED", 2)
    found = processes.view.search(LogQuery(), KEY)
    assert [one.process.id for one in found.answers] == ["task:Storms[-1234]:1:0", "manager:127.0.0.1:8904"]
    assert found.left_out == 2
    assert [one.text for one in found.records] == ["task works", "task sends"]


def test_the_newest_records_of_all_win(processes: Processes) -> None:
    found = processes.view.search(LogQuery(limit=2))
    assert len(found.records) == 2
    assert found.more
    assert list(found.records) == sorted(found.records, key=lambda one: one.time_ms)


def test_a_process_that_hung_is_waited_for_a_short_time_until_it_answers(processes: Processes) -> None:
    processes.silent.add("run-2")
    for _ in range(2):
        with pytest.raises(ProcessSilentError, match=r"worker worker-1 \(process 300 on 10\.0\.0\.3\) did not answer"):
            processes.view.log("worker:worker-1", LogQuery())
    processes.silent.clear()
    for _ in range(2):
        processes.view.log("worker:worker-1", LogQuery())
    assert [one.timeout_ms for one in processes.questions] == [PATIENCE_MS, AGAIN_MS, AGAIN_MS, PATIENCE_MS]


def test_a_process_without_a_door_is_not_asked(processes: Processes) -> None:
    processes.world.hear(worker(name="old"))
    with pytest.raises(ProcessSilentError, match="has not reported where its log can be read"):
        processes.view.log("worker:old", LogQuery())
    assert [one.readable for one in processes.view.processes() if one.id == "worker:old"] == [False]


@pytest.mark.parametrize(
    "name", ["", "worker:nobody", "../../etc/passwd", "/etc/passwd", "worker:worker-1/..", "file:x"]
)
def test_what_is_no_process_is_unknown_and_nobody_is_asked(processes: Processes, name: str) -> None:
    with pytest.raises(UnknownProcessError):
        processes.view.log(name, LogQuery())
    assert processes.questions == []


@pytest.mark.parametrize("place", ["x", "run-3:", ":5", "run-3:-1", "run-3:9999999999999999999", "run-3:٣"])
def test_a_place_that_no_answer_gave_is_refused(processes: Processes, place: str) -> None:
    with pytest.raises(BadRequestError, match="must be a position"):
        processes.view.log("task:Storms[-1234]:1:0", LogQuery(after=place))


def test_configurations_are_told_with_meanings_and_one_task_speaks_for_all(processes: Processes) -> None:
    processes.world.hear(msgspec.structs.replace(task(number=1, process_id=201), insight=where(6)))
    processes.silent.add("run-1")
    told = {one.process.id: one for one in processes.view.configurations().configurations}
    assert "task:Storms[-1234]:1:1" not in told
    (port,) = told["worker:worker-1"].settings
    assert (port.value, port.origin, port.where) == ("1", "file", "conf/x.yaml")
    assert port.meaning
    assert told["driver:driver-1"].problem == "did not answer"


def test_no_more_requests_are_worked_on_at_once_than_may_be(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PATIENCE_MS", 10)
    entered, leave = threading.Semaphore(0), threading.Event()

    def hang(questions: Sequence[ProcessQuestion]) -> list[Message | NoAnswer]:
        entered.release()
        leave.wait(10)
        return [NoAnswer("") for _ in questions]

    view = insights_of(processes.world, hang)
    threads = [threading.Thread(target=view.search, args=(LogQuery(),)) for _ in range(limits.AT_ONCE)]
    for thread in threads:
        thread.start()
        entered.acquire()
    with pytest.raises(InsightBusyError):
        view.search(LogQuery())
    leave.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def context() -> Iterator[GuardedContext]:
    context = open_context(SecurityConfig(), Role.MANAGER)
    yield context
    context.destroy(linger=0)


def test_processes_are_asked_over_sockets_all_at_once_and_none_is_waited_for_too_long(context: GuardedContext) -> None:
    door = InspectionEndpoint(context, Role.WORKER, "127.0.0.1", LogConfig(), insight("hello"))
    door.start()
    hung = context.socket(5)  # a REP that never answers
    port = hung.bind_to_random_port("tcp://127.0.0.1")
    message = ReadLog(door.address.run)
    began = time.monotonic()
    answers = asking(context)(
        [
            ProcessQuestion(Role.WORKER, Endpoint("127.0.0.1", port), message, 300),
            ProcessQuestion(Role.WORKER, door.address.endpoint, message, 5_000),
            ProcessQuestion(Role.WORKER, door.address.endpoint, ReadLog("another"), 5_000),
            ProcessQuestion(Role.WORKER, Endpoint("no such host", 1), message, 200),
        ]
    )
    door.close()
    assert time.monotonic() - began < 3
    silent, told, other, nowhere = answers
    assert silent == NoAnswer(f"did not answer at 127.0.0.1:{port} within 0.3 s", hung=True)
    assert [one.text for one in told.records] == ["hello"]  # type: ignore[union-attr]
    assert other == NoAnswer("the process that was asked has ended, and another one is here now", code="other-run")
    assert isinstance(nowhere, NoAnswer)
