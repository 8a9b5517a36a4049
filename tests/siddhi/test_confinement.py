"""Processes that run plans' own code end with their parent, however it ends, and are not root."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cep_common.process.child_processes import end, start
from siddhi import confinement

CHILD = "from siddhi.confinement import end_with_parent; end_with_parent(); print('ready', flush=True); input()"
CHILDREN = {
    "of its main thread": "children.append(start([sys.executable, '-c', child], stdin=-1, stdout=-1))",
    "of a thread that has ended": (
        "made = lambda: children.append(start([sys.executable, '-c', child], stdin=-1, stdout=-1))\n"
        "thread = threading.Thread(target=made); thread.start(); thread.join()"
    ),
}


def await_end(descriptor: int) -> None:
    ends = select.poll()
    ends.register(descriptor, select.POLLIN)
    assert ends.poll(60_000), "it has not ended"
    os.close(descriptor)


@pytest.mark.parametrize("begin", CHILDREN.values(), ids=CHILDREN.keys())
def test_a_stopped_process_ends_with_a_parent_that_is_killed(begin: str) -> None:
    program = (
        "import os, signal, sys, threading\n"
        "from cep_common.process.child_processes import start\n"
        f"children, child = [], {CHILD!r}\n"
        f"{begin}\n"
        "assert children[0].stdout.readline() == b'ready\\n'\n"
        "os.kill(children[0].pid, signal.SIGSTOP)\n"
        "os.waitid(os.P_PID, children[0].pid, os.WSTOPPED | os.WNOWAIT)\n"
        "print(children[0].pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    descriptor = os.pidfd_open(child)
    assert state_of(child) == "T"
    parent.kill()
    parent.communicate()
    await_end(descriptor)


def state_of(process_id: int) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_outlives_the_thread_that_asked_for_it() -> None:
    made: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(
        target=lambda: made.append(start([sys.executable, "-c", CHILD + "; print('still')"], stdin=-1, stdout=-1))
    )
    thread.start()
    thread.join()
    (process,) = made
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"still\n"
    end(process)


def test_a_forked_copy_starts_processes_of_its_own() -> None:
    end(start([sys.executable, "-c", ""]))
    reading, writing = os.pipe()
    copy = os.fork()
    if not copy:
        try:
            process = start([sys.executable, "-c", "print('here')"], stdout=-1)
            os.write(writing, process.stdout.readline() if process.stdout else b"")
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"here\n"
    os.close(reading)
    os.waitpid(copy, 0)


LEAVING = """
import os, resource, sys
from siddhi.confinement import leave_root
left = leave_root()
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    pid = os.fork()
except BlockingIOError:
    print(left, "cannot start a process")
else:
    if not pid:
        os._exit(0)
    print(left, "started a process")
"""


def test_root_becomes_another_user_who_has_limits() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "True cannot start a process\n"


def test_a_process_that_may_not_change_its_user_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(confinement, "_capabilities", lambda: 0)
    for name in ("setgroups", "setresgid", "setresuid"):
        monkeypatch.setattr(os, name, lambda *_, name=name: changes.append(name))
    assert not confinement.leave_root()
    assert changes == []
    monkeypatch.setattr(confinement, "_capabilities", lambda: -1)
    assert confinement.leave_root()
    assert changes == ["setgroups", "setresgid", "setresuid"]


def test_a_name_space_without_that_user_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(confinement, "_capabilities", lambda: -1)
    monkeypatch.setattr(os, "setgroups", refused)
    assert not confinement.leave_root()


def test_the_kernel_is_asked_for_the_signal() -> None:
    program = (
        "import ctypes, signal\n"
        "from siddhi.confinement import end_with_parent\n"
        "end_with_parent(signal.SIGTERM)\n"
        "found = ctypes.c_int()\n"
        "ctypes.CDLL(None).prctl(2, ctypes.byref(found))\n"
        "print(found.value)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert int(done.stdout) == signal.SIGTERM
