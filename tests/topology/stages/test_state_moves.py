"""A topology gives its state to the one that takes its place: real tasks in threads, over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from test_stages_in_process import WINDOW, Context, Running
from topology_builders import EPOCH, KEY, schema_of

from cep_common.clock import SystemClock
from cep_common.errors import PeerError, RequestRejectedError
from cep_common.ids import Endpoint
from cep_common.protocol.links import OpenLink
from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.links.sender import LinkState
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.settings import StageSettings
from topology.stages.state import state_endpoint
from topology.stages.state.state_endpoint import StateEndpoint, fetch_state
from topology.stages.tasks.task import Task

PORTS = (20000, 60000)
PLAN = """@Plan:name('P')
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='total') @dist(execGroup='total') from A#window.length(1000) select sum(number) as number insert into M;
@info(name='two') @dist(execGroup='two') from M#window.length(2) select sum(number) as number insert into Out;
"""
Launch = Callable[..., Running]


@pytest.fixture
def launch(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Launch]:
    running: list[Running] = []

    def start(tasks: int, stands_by: bool = False) -> Running:
        topology = Topology(KEY, EPOCH, build(analyse(parse(PLAN))), tasks)
        stages = StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=WINDOW, idle_ms=60_000)
        made = [Task(topology, index, stages, zmq_context, SystemClock(), stands_by) for index in range(tasks)]
        running.append(Running(zmq_context, drive, topology, made))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def ordered(running: Running, order: str, reached: str) -> None:
    """All tasks have followed `order` so far that they say `reached`."""
    for task in running.tasks:
        task.follow(order)  # type: ignore[arg-type]
    running.until(lambda: all(task.state.step == reached for task in running.tasks))


def answers(numbers: range) -> list[int]:
    """What one engine answers to `numbers`."""
    totals = [sum(range(1, number + 1)) for number in numbers]
    before = [sum(range(1, number)) for number in numbers]
    return [total + last for total, last in zip(totals, before, strict=True)]


def states_of(running: Running) -> dict[str, Parts]:
    return {name: state for task in running.tasks for name, state in task.state.given.items()}


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_the_next_topology_goes_on_where_the_former_one_was_cut(launch: Launch, before: int, after: int) -> None:
    former = launch(before)
    former.listen()
    for number in range(1, 31):
        former.send("A", [(number, number)])
    former.until(lambda: len(former.out) > 5)
    for number in range(31, 41):
        former.send("A", [(number, number)])
    ordered(former, "pause", "quiet")
    ordered(former, "give", "given")
    former.until_every_task_has_ticked()
    cut = 40 - len(former.link("A").unacknowledged())
    assert [number for _, number in former.out] == answers(range(1, cut + 1)), "what was acknowledged and no more"

    following = launch(after, stands_by=True)
    following.listen()
    for task in following.tasks:
        task.state.bring(states_of(former))
    following.until(lambda: all(task.state.step == "restored" for task in following.tasks))
    ordered(following, "work", "")
    for number in range(cut + 1, 61):
        following.send("A", [(number, number)])
    following.until(lambda: len(following.out) == 60 - cut)
    assert [number for _, number in following.out] == answers(range(cut + 1, 61))


def test_a_topology_that_stands_by_takes_nothing_in_before_it_is_told_to_work(launch: Launch) -> None:
    following = launch(1, stands_by=True)
    following.listen()
    early = following.opened(OpenLink("worker", (schema_of("A"),), KEY, EPOCH))
    following.senders["A"] = early
    following.until_every_task_has_ticked()
    following.until_every_task_has_ticked()
    assert early.state is LinkState.CONNECTING
    ordered(following, "work", "")
    following.until(lambda: early.state is LinkState.OPEN)
    following.send("A", [(1, 1)])
    following.until(lambda: [number for _, number in following.out] == [1])


def test_a_topology_that_has_got_its_state_can_give_it_on_before_it_has_worked(launch: Launch) -> None:
    former = launch(1)
    former.listen()
    former.send("A", [(1, 1)])
    former.until(lambda: former.out)
    ordered(former, "give", "given")
    between = launch(1, stands_by=True)
    between.tasks[0].state.bring(states_of(former))
    ordered(between, "stand-by", "restored")
    ordered(between, "give", "given")
    assert states_of(between).keys() == states_of(former).keys()


def test_a_topology_whose_state_is_not_wanted_after_all_works_on(launch: Launch) -> None:
    former = launch(2)
    former.listen()
    former.send("A", [(1, 1)])
    ordered(former, "pause", "quiet")
    ordered(former, "give", "given")
    former.send("A", [(2, 2)])
    ordered(former, "work", "")
    former.until(lambda: [number for _, number in former.out] == answers(range(1, 3)))
    assert states_of(former) == {}


def test_nothing_is_cut_while_results_have_not_been_taken(launch: Launch) -> None:
    former = launch(2)
    former.send("A", [(1, 1)])
    former.until(lambda: any(one.statistics.queued_events for task in former.tasks for one in task.publishers))
    for task in former.tasks:
        task.follow("give")
    former.until_every_task_has_ticked()
    former.until_every_task_has_ticked()
    assert [task.state.step for task in former.tasks] != ["given", "given"]
    former.listen()
    former.until(lambda: all(task.state.step == "given" for task in former.tasks))
    assert [number for _, number in former.out] == [1]


def test_a_state_of_any_size_is_fetched_whole(zmq_context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_endpoint, "PIECE_BYTES", 10)
    states = {"total#0": {"engine": bytes(range(256)) * 3, "held": b""}, "empty#0": {}}
    door = StateEndpoint(zmq_context, "127.0.0.1", PORTS, KEY, EPOCH, states)
    door.start()
    try:
        for name, state in states.items():
            assert fetch_state(zmq_context, door.endpoint, KEY, EPOCH, name) == state
        for epoch, name in ((EPOCH, "other#0"), (EPOCH + 1, "total#0")):
            with pytest.raises(RequestRejectedError, match="has no such state"):
                fetch_state(zmq_context, door.endpoint, KEY, epoch, name)
    finally:
        door.close()


def test_a_door_that_is_not_there_is_an_error_after_a_while(
    zmq_context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_endpoint, "FETCH_TIMEOUT_MS", 50)
    with pytest.raises(PeerError, match="did not arrive"):
        fetch_state(zmq_context, Endpoint("127.0.0.1", 9), KEY, EPOCH, "total#0")
