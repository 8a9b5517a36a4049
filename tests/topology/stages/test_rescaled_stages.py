"""A stage with another number of instances continues with every key's state where that key's events come now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from test_checkpoints_of_tasks import Logged
from test_stages_in_process import WINDOW, Context
from topology_builders import EPOCH, KEY

from cep_common.clock import SystemClock
from query_plan.builder import build
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.model import Topology
from topology.stages.contract import Parts
from topology.stages.settings import StageSettings
from topology.stages.tasks.task import Task

KEYED = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Import('B:1.0.0') define stream B (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='keys') @dist(execGroup='keys') from A select number, number % 7 as key insert into S;
@dist(execGroup='keyed', parallel='{parallel}') partition with (key of S) begin
@info(name='sums') from S#window.length(3) select sum(number) as number insert into Out; end;
@info(name='pass') @dist(execGroup='pass') from B select number insert into Out;
"""
BY_WINDOW = """@Plan:name('P') {header}
@Import('A:1.0.0') define stream A (number long);
@Export('Out:1.0.0') define stream Out (number long);
@info(name='sums') @dist(execGroup='keyed') from A#window.length(1000) select sum(number) as number insert into Out;
"""
Launch = Callable[..., Logged]


@pytest.fixture
def launch(zmq_context: Context, drive: Callable[..., None]) -> Iterator[Launch]:
    running: list[Logged] = []

    def start(
        parallel: int, states: dict[str, Parts] | None = None, header: str = "", text: str = KEYED, tasks: int = 2
    ) -> Logged:
        plan = build(analyse(parse(text.format(parallel=parallel, header=header))))
        topology = Topology(KEY, EPOCH, plan, tasks, attempt=0)
        stages = StageSettings(host="127.0.0.1", first_port=20000, last_port=60000, window_rows=WINDOW, idle_ms=60_000)
        made = [Task(topology, index, stages, zmq_context, SystemClock(), secures=True) for index in range(tasks)]
        for task in made:
            if states is not None:
                task.state.bring({name: states[name] for name in task.state.wants(states)})
        running.append(Logged(zmq_context, drive, topology, made))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def sums(numbers: range) -> list[int]:
    """What each event answers, of its key and the two before it."""
    seen: dict[int, list[int]] = defaultdict(list)
    answers = []
    for number in numbers:
        seen[number % 7].append(number)
        answers.append(sum(seen[number % 7][-3:]))
    return answers


def cut(running: Logged, upto: int) -> dict[str, Parts]:
    """The state after the events up to that number, which have all been answered."""
    running.listen()
    running.open_log()
    for number in range(1, upto + 1):
        running.send_from_log(number)
    running.until(lambda: len(running.out) == upto)
    running.begin(1)
    states = running.taken(1)
    running.stop()
    return states


@pytest.mark.thorough
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 1)])
def test_every_key_goes_on_where_its_events_come_now(launch: Launch, before: int, after: int) -> None:
    states = cut(launch(before), 50)
    again = launch(after, states)
    again.listen()
    assert again.open_log() == 50
    for number in range(51, 91):
        again.send_from_log(number)
    again.until(lambda: len(again.out) == 40)
    assert sorted(number for _, number in again.out) == sorted(sums(range(1, 91))[50:])
    assert [left for task in again.tasks for left in task.state.left()] == []


@pytest.mark.thorough
def test_every_key_goes_on_in_an_edited_stage_and_what_is_gone_from_it_is_told_of(launch: Launch) -> None:
    gone = "@info(name='gone') from S#window.length(2) select max(number) as number insert into Unheard; end;"
    states = cut(launch(2, text=KEYED.replace("end;", gone)), 50)
    other = "@info(name='other') from S#window.length(2) select min(number) as least insert into Unheard; end;"
    again = launch(3, states, text=KEYED.replace("end;", other))
    again.listen()
    assert again.open_log() == 50
    for number in range(51, 91):
        again.send_from_log(number)
    again.until(lambda: len(again.out) == 40)
    assert sorted(number for _, number in again.out) == sorted(sums(range(1, 91))[50:])
    told = {left for task in again.tasks for left in task.state.left()}
    assert told == {"keyed: query gone: the app has nothing with that name"}


@pytest.mark.thorough
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3)])
def test_rows_that_wait_for_a_watermark_go_with_their_keys(launch: Launch, before: int, after: int) -> None:
    running = launch(before, header="@app:playback")
    running.listen()
    running.link("B")
    running.open_log()
    for number in range(1, 31):
        running.send_from_log(number)
    running.until(lambda: not running.senders["A"].unacknowledged() or running.tasks[0].reports)
    running.until_every_task_has_ticked()
    running.begin(1)
    states = running.taken(1)
    running.stop()

    again = launch(after, states, header="@app:playback")
    again.listen()
    position = again.open_log()
    again.rest("B")
    for number in range(position + 1, 61):
        again.send_from_log(number)
    again.senders["A"].mark_idle()
    already = len(running.out)
    again.until(lambda: already + len(again.out) == 60)
    assert sorted(number for _, number in (*running.out, *again.out)) == sorted(sums(range(1, 61)))


def test_state_that_goes_by_no_key_begins_anew_and_is_told_of(launch: Launch) -> None:
    states = cut(launch(1, text=BY_WINDOW, tasks=1), 5)
    renamed = {name.replace("keyed#0", "keyed#1"): state for name, state in states.items()}
    again = launch(1, renamed, text=BY_WINDOW, tasks=1)
    again.listen()
    again.open_log()
    again.send_from_log(6)
    again.until(lambda: [number for _, number in again.out] == [6])
    (left,) = again.tasks[0].state.left()
    assert left.startswith("keyed starts empty in 1 instances: ")


def test_a_query_that_is_moved_to_another_execution_group_goes_on(launch: Launch) -> None:
    states = cut(launch(1, text=BY_WINDOW), 50)
    again = launch(1, states, text=BY_WINDOW.replace("execGroup='keyed'", "execGroup='elsewhere'"))
    again.listen()
    assert again.open_log() == 50
    again.send_from_log(51)
    again.until(lambda: len(again.out) == 1)
    assert [number for _, number in again.out] == [sum(range(1, 52))]
