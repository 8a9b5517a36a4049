"""Raising the priority of a heartbeat thread: of that thread only, and never an error."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from cep_common.process.priority import AUTOGROUP, NICE, raise_priority

CHILD = "import os; print(os.sched_getscheduler(0))"


def _in_thread(check: object) -> list[object]:
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(check()))  # type: ignore[operator]
    thread.start()
    thread.join()
    return seen


def test_normal_changes_nothing() -> None:
    assert raise_priority("normal") is False
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_only_the_calling_thread_is_raised_and_not_what_it_starts() -> None:
    def check() -> tuple[bool, int, int, str]:
        raised = raise_priority("realtime")
        own = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        (inner,) = _in_thread(lambda: os.sched_getscheduler(0))
        command = [sys.executable, "-c", CHILD]
        child = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - ours
        assert isinstance(inner, int)
        return raised, own, inner, child

    ((raised, own, inner, child),) = _in_thread(check)  # type: ignore[misc]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert inner == os.SCHED_OTHER
    assert child == str(os.SCHED_OTHER)
    assert own == (os.SCHED_RR if raised else os.SCHED_OTHER)


def test_where_it_is_not_permitted_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert raise_priority("realtime") is False


def _of_process(wanted: str) -> tuple[str, str]:
    """What a process in a session of its own has for its nice value, and its group's, once it asked for priority."""
    script = (
        "import os; from cep_common.process.priority import AUTOGROUP, raise_process_priority;"
        f" raised = raise_process_priority({wanted!r});"
        " print(raised, os.getpriority(os.PRIO_PROCESS, 0),"
        " AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else '')"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True)  # noqa: S603 - ours
    raised, nice, group = (*done.stdout.split(), "")[:3]
    return raised, f"{nice} {group}".strip()


def test_a_process_gets_a_larger_share_with_its_session_where_that_is_permitted() -> None:
    usual = "0 0" if AUTOGROUP.exists() else "0"
    assert _of_process("normal") == ("False", usual)
    raised, values = _of_process("realtime")
    assert values == (usual.replace("0", str(NICE)) if raised == "True" else usual)
