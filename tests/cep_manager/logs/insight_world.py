"""Processes that tell about themselves, and some that do not."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
from manager_world import FakeView, World, driver, insights_of, plan, task, worker

from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.inspection.endpoint import Inspection, answer_to
from cep_common.inspection.log_buffer import LogBuffer
from cep_common.protocol.inspection import ReadConfiguration, ReadLog, Setting
from cep_common.protocol.registry import Message
from cep_manager.monitoring.logs.client import NoAnswer, ProcessQuestion

KEY = PlanKey(-1234, "Storms")


def where(number: int) -> InspectionAddress:
    return InspectionAddress(Endpoint("10.0.0.9", 13_000 + number), f"run-{number}")


def insight(*texts: str) -> Inspection:
    ring = LogBuffer(1_000_000)
    logger = logging.Logger("cep_test")  # noqa: LOG001 - one that no other test has
    logger.addHandler(ring)
    for text in texts:
        logger.info(text)
    return Inspection(ring, (Setting("http.port", "1", "2", "file", "conf/x.yaml"),))


class Processes:
    """A driver, a worker and a task of a plan, that answer as they should, or are silent."""

    def __init__(self) -> None:
        self.world = World()
        self.world.put(plan())
        told = {"driver": where(1), "worker": where(2), "task": where(3)}
        self.world.hear(msgspec.structs.replace(driver(), insight=told["driver"]), peer=b"driver")
        self.world.hear(msgspec.structs.replace(worker(), insight=told["worker"]))
        self.world.hear(msgspec.structs.replace(task(), insight=told["task"]))
        self.insights = {
            "run-1": insight("submitted: topology=Storms[-1234]", "submitted: topology=Other[-1234]"),
            "run-2": insight("plan served: plan=Storms[-1234]"),
            "run-3": insight("task works", "task sends"),
        }
        self.silent: set[str] = set()
        self.questions: list[ProcessQuestion] = []
        self.own = insight("manager ready")
        self.view = insights_of(self.world, self.ask, self.own)

    def ask(self, questions: Sequence[ProcessQuestion]) -> list[Message | NoAnswer]:
        self.questions += questions
        return [self._answer(question) for question in questions]

    def _answer(self, question: ProcessQuestion) -> Message | NoAnswer:
        message = question.message
        assert isinstance(message, ReadLog | ReadConfiguration)
        run = f"run-{question.endpoint.port - 13_000}"
        if run in self.silent:
            return NoAnswer("did not answer", hung=True)
        return answer_to(message, run, self.insights[run])

    def log(self, run: str, text: str, level: int = logging.INFO, error: Exception | None = None) -> None:
        """The process that runs as `run` logs something more."""
        logger = logging.Logger("cep_test")  # noqa: LOG001 - one that no other test has
        logger.addHandler(self.insights[run].ring)
        logger.log(level, text, exc_info=error)

    def as_view(self) -> FakeView:
        """The manager that asks these processes."""
        view = FakeView(self.world)
        view.asked, view.own = self.ask, self.own
        return view

    def start_worker_again(self) -> None:
        """The worker has ended, and another process of its name has come."""
        self.insights["run-4"] = insight("worker started")
        self.world.hear(msgspec.structs.replace(worker(process_id=301), insight=where(4)))
