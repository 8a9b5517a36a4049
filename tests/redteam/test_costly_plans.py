"""What a plan costs to compile, it costs in a process with bounds; and nobody keeps others waiting with many."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time

import pytest

from cep_common.security.access import GRANTS, AccessRole
from cep_manager.authoring.compilers import _IDLE, PlanCompilers
from cep_manager.config import CompileConfig
from cep_manager.errors import PlanInvalidError, PlansBusyError, PlanTooCostlyError
from cep_manager.web.access import CALLS
from cep_manager.web.api.caller_slots import CallerSlots
from siddhi.scripts.language import ScriptPolicy

pytestmark = pytest.mark.thorough

GOOD = "@Plan:name('P') define stream S (a int); from S[a > 1] select a insert into O;"
BAD = GOOD.replace("a > 1", "b > 1")


@pytest.fixture
def compilers() -> PlanCompilers:
    return PlanCompilers(CompileConfig(at_once=1, timeout_ms=5_000), ScriptPolicy(frozenset(), "{language}"))


def idle() -> list[int]:
    return [one._process.pid for one in _IDLE._processes]


def test_a_process_answers_as_the_compiler_does_and_goes_on(compilers: PlanCompilers) -> None:
    assert compilers.validate(GOOD).valid
    first = idle()
    assert [one.code for one in compilers.validate(BAD).problems] == ["unknown-attribute"]
    assert compilers.preview(7, GOOD).graph.tenant == 7
    compilers.check(GOOD)
    for refused in (compilers.check, compilers.compile, functools.partial(compilers.preview, 1)):
        with pytest.raises(PlanInvalidError):
            refused(BAD)
    assert idle() == first


def test_a_process_that_ends_is_replaced(compilers: PlanCompilers) -> None:
    compilers.check(GOOD)
    former = idle()
    for process in former:
        os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(one.alive() for one in _IDLE._processes):
        assert time.monotonic() < deadline
    compilers.check(GOOD)
    assert set(idle()).isdisjoint(former)


def test_a_text_that_costs_too_much_is_refused_in_words(
    compilers: PlanCompilers, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers.check(GOOD)
    monkeypatch.setattr(compilers, "_config", CompileConfig(at_once=1, timeout_ms=10))
    costly = GOOD + "".join(f"from S select a insert into O{i};" for i in range(500))
    with pytest.raises(PlanTooCostlyError, match=r"compile\.timeout_ms"):
        compilers.validate(costly)
    monkeypatch.undo()
    assert compilers.validate(costly).valid


def test_a_process_that_gets_no_cpu_time_does_not_make_the_plan_costly(
    compilers: PlanCompilers, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers.check(GOOD)
    monkeypatch.setattr("cep_manager.authoring.compilers.WALL_FACTOR", 0.02)
    monkeypatch.setattr("cep_manager.authoring.compilers.LEAST_WALL_S", 0.1)
    for process in idle():
        os.kill(process, signal.SIGSTOP)
    with pytest.raises(PlansBusyError, match="too busy"):
        compilers.check(GOOD)
    monkeypatch.undo()
    compilers.check(GOOD)


def test_a_process_that_does_not_load_in_time_does_not_make_the_plan_costly(
    compilers: PlanCompilers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for process in idle():
        os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(one.alive() for one in _IDLE._processes):
        assert time.monotonic() < deadline
    monkeypatch.setattr("cep_manager.authoring.compilers.START_S", 0.001)
    with pytest.raises(PlansBusyError, match="too busy"):
        compilers.check(GOOD)


def test_only_so_many_wait(compilers: PlanCompilers, monkeypatch: pytest.MonkeyPatch) -> None:
    line = compilers._looking
    monkeypatch.setattr(line, "_let_in", threading.BoundedSemaphore(1))
    with line.turn(), pytest.raises(PlansBusyError):
        compilers.validate(GOOD)
    assert compilers.validate(GOOD).valid


def test_a_caller_has_one_request_at_a_time_and_two_that_wait() -> None:
    turns, inside, go = CallerSlots(), threading.Event(), threading.Event()
    refused: list[str] = []

    def ask(caller: str) -> None:
        try:
            with turns.of(caller):
                inside.set()
                go.wait(10)
        except PlansBusyError as busy:
            refused.append(busy.message)

    first = threading.Thread(target=ask, args=("ann",))
    first.start()
    assert inside.wait(5)
    others = [threading.Thread(target=ask, args=("ann",)) for _ in range(10)]
    for thread in others:
        thread.start()
    deadline = time.monotonic() + 5
    while len(refused) < 8:
        assert time.monotonic() < deadline, refused
        time.sleep(0.005)
    with turns.of("bob"):
        go.set()
    for thread in (first, *others):
        thread.join(5)
    assert len(refused) == 8


def test_senders_may_not_have_texts_looked_through() -> None:
    costly = [f"api.{name}" for name in ("validate_plan", "preview_plan", "preview_edit", "try_plan", "explain_text")]
    costly.append("console.query_plan_fragment")
    assert all(CALLS[name] not in GRANTS[AccessRole.SENDER] for name in costly)
    assert all(CALLS[name] in GRANTS[AccessRole.EDITOR] for name in costly)
