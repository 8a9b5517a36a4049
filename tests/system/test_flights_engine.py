"""The sample plan on the engine, in this process: as one app, and as the stages of a topology."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import flights_reference
import numpy as np
import pytest
import zmq
from flights_events import (
    EXPORTED,
    IMPORTED,
    Rows,
    assert_all_rows_equal,
    flight_batches,
    last_time_ms,
    plan_text,
    rows_of,
)

from cep_common.clock import SystemClock
from cep_common.ids import PlanKey
from cep_common.protocol.links import OpenLink
from cep_common.protocol.registry import EndpointAssigned
from cep_common.security.roles import SocketKind
from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse
from topology.events.frames import encode_batch
from topology.links.sender import LinkSender
from topology.links.server import FrameArrived, LinkServer
from topology.model import Topology
from topology.stages.routes.exchange import TASK_LOST
from topology.stages.settings import StageSettings
from topology.stages.tasks.task import Task

KEY = PlanKey(-1234, "KnockOnDelays")
EPOCH = 3
WINDOW_ROWS = 4_096
RESULT_TIMEOUT_S = 30.0
SURPLUS_S = 0.3
"""How long results are waited for that should not come."""


@pytest.mark.parametrize("step_rows", [997, 1_000_000])
def test_the_whole_plan_as_one_app_finds_every_row(step_rows: int) -> None:
    runtime = AppRuntime(analyse(parse(plan_text())))
    found: Rows = {stream: [] for stream in EXPORTED}
    for stream in EXPORTED:
        runtime.add_stream_callback(stream, lambda batch, stream=stream: found[stream].extend(rows_of(batch)))
    runtime.start(0)

    for batches, sources in _merged_steps(step_rows):
        runtime.send_merged(batches, sources)

    assert_all_rows_equal(found)


def _merged_steps(step_rows: int) -> Iterator[tuple[list[tuple[str, Any]], np.ndarray[Any, Any]]]:
    """All events in time order, arrivals first at equal times, cut into steps of `step_rows`."""
    whole = {stream: next(flight_batches(stream, 1_000_000)) for stream in IMPORTED}
    times = np.concatenate([whole[stream].column(0).to_numpy() for stream in IMPORTED])
    sources = np.repeat(np.arange(2), [whole[stream].num_rows for stream in IMPORTED])
    sources = sources[np.lexsort((sources, times))]
    done = [0, 0]
    for start in range(0, len(sources), step_rows):
        step = sources[start : start + step_rows]
        parts = []
        for place, stream in enumerate(IMPORTED):
            count = int((step == place).sum())
            parts.append((stream, whole[stream].slice(done[place], count)))
            done[place] += count
        yield parts, step


@pytest.mark.thorough
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("first", IMPORTED)
def test_the_stages_of_the_plan_find_every_row(
    tasks: int, first: str, zmq_context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    """Also when one connection is ahead by as much as its window allows."""
    with StagesInProcess(zmq_context, tasks) as stages:
        found = stages.feed_and_collect(first)

    assert_all_rows_equal(found)


class StagesInProcess:
    """The tasks of the plan's topology, each in a thread as it is in Spark; the test is the worker and the manager."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], tasks: int) -> None:
        plan = read_xml(write_xml(build(analyse(parse(plan_text())))))
        self._context = context
        self._clock = SystemClock()
        self.topology = Topology(KEY, EPOCH, plan, tasks)
        settings = StageSettings(host="127.0.0.1", first_port=18_000, last_port=18_999, window_rows=WINDOW_ROWS)
        self._tasks = [Task(self.topology, index, settings, context, self._clock) for index in range(tasks)]
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(task,)) for task in self._tasks]
        self._outflow = LinkServer.listen(
            context, SocketKind.OUTFLOW, "127.0.0.1", (18_000, 18_999), WINDOW_ROWS, lambda _: None
        )
        self._links: dict[str, LinkSender] = {}

    def __enter__(self) -> StagesInProcess:
        for thread in self._threads:
            thread.start()
        for task in self._tasks:
            task.meet([one.endpoint for one in self._tasks])
            for publisher in task.publishers:
                task.assign(publisher.name, EndpointAssigned(self._outflow.endpoint, "worker-1"))
        receiver = next(receiver for task in self._tasks for receiver in task.receivers)
        for stream in IMPORTED:
            opening = OpenLink(sender="worker-1", streams=(self.topology.streams[stream],), key=KEY, epoch=EPOCH)
            self._links[stream] = LinkSender(
                self._context, SocketKind.RECEIVER, receiver.server.endpoint, opening, self._clock.now_ms()
            )
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            link.close()
        assert not self._failures
        for task in self._tasks:
            task.stop()
        for thread in self._threads:
            thread.join()
        self._outflow.close()
        # A task may see that another one has stopped before it is told to stop itself.
        assert [failure for failure in self._failures if getattr(failure, "reason_code", "") != TASK_LOST] == []

    def feed_and_collect(self, first: str) -> Rows:
        """Sends both streams, `first` always as far ahead as its link has room, and gives what is published."""
        found: Rows = {stream: [] for stream in EXPORTED}
        expected = sum(map(len, flights_reference.reference().values()))
        waiting = {stream: flight_batches(stream, 500) for stream in sorted(IMPORTED, key=lambda one: one != first)}
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        quiet_since = time.monotonic()
        while waiting or sum(map(len, found.values())) < expected or time.monotonic() - quiet_since < SURPLUS_S:
            assert not self._failures
            assert time.monotonic() < deadline, f"only { ({name: len(rows) for name, rows in found.items()}) }"
            for stream in list(waiting):
                self._send(stream, waiting)
            if self._collect(found) or waiting:
                quiet_since = time.monotonic()
        return found

    def _send(self, stream: str, waiting: dict[str, Iterator[Any]]) -> None:
        link = self._links[stream]
        link.handle()
        assert not link.refusals
        while stream in waiting and link.has_room():
            batch = next(waiting[stream], None)
            if batch is None:
                link.mark_idle()
                del waiting[stream]
            else:
                link.send(stream, encode_batch(batch), batch.num_rows, last_time_ms(batch))

    def _collect(self, found: Rows) -> int:
        rows = 0
        self._outflow.socket.poll(2)
        for event in self._outflow.receive(self._clock.now_ms()):
            if isinstance(event, FrameArrived) and event.batch is not None:
                found[event.message.stream].extend(rows_of(event.batch))  # type: ignore[attr-defined]
                rows += event.batch.num_rows
                self._outflow.done(event.link, event.sequence)
        self._outflow.flush()
        return rows

    def _run(self, task: Task) -> None:
        try:
            task.run()
        except BaseException as failure:  # noqa: BLE001 - the test must see whatever ended the task
            self._failures.append(failure)
