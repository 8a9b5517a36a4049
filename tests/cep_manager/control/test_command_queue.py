"""Work of other threads for the control loop: done once, answered once, and never left without an answer."""

from __future__ import annotations

import threading

import pytest

from cep_manager.control.command_queue import CommandQueue
from cep_manager.errors import ManagerUnavailableError


def test_who_orders_work_waits_until_the_loop_has_done_it() -> None:
    woken = threading.Event()
    queue = CommandQueue(woken.set)
    done: list[int] = []

    def loop() -> None:
        woken.wait(5)
        for command in queue.take():
            command.run(7)
            command.done.set_result(None)

    thread = threading.Thread(target=loop)
    thread.start()
    queue.do(lambda now_ms: done.append(now_ms) or ())
    thread.join()
    assert done == [7]
    assert [*queue.take()] == []


def test_what_is_queued_when_the_loop_ends_has_failed_and_so_has_what_comes_later() -> None:
    queue = CommandQueue(lambda: None)
    before = queue.post(lambda _: ())
    queue.close()
    with pytest.raises(ManagerUnavailableError, match="is stopping"):
        before.result(0)
    with pytest.raises(ManagerUnavailableError, match="is stopping"):
        queue.do(lambda _: ())


def test_a_loop_that_does_not_answer_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_manager.control.command_queue.COMMAND_TIMEOUT_S", 0.01)
    with pytest.raises(ManagerUnavailableError, match="did not answer"):
        CommandQueue(lambda: None).do(lambda _: ())
