"""Who ends stages that stand still: the rule, and the real process that follows it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from topology.spark.executor_side.heartbeat_monitor import (
    GRACE_MS,
    LOOK_MS,
    HeartbeatDeadlines,
    HeartbeatMonitor,
    waits_of,
)

LEASE_MS = 1_000


@pytest.fixture
def watch() -> HeartbeatDeadlines:
    return HeartbeatDeadlines(now_ms=0)


def silent_until(watch: HeartbeatDeadlines, end_ms: int) -> list[int]:
    """Who turns out to be silent when somebody looks as often as may be, up to `end_ms`, and nobody beats."""
    return [one for now_ms in range(watch.now_ms, end_ms + 1, LOOK_MS) for one in watch.look(now_ms, [])]


def test_who_beats_in_time_is_left_alone_and_who_is_silent_for_longer_is_told_once(watch: HeartbeatDeadlines) -> None:
    assert watch.look(0, [(7, LEASE_MS), (8, LEASE_MS)]) == []
    assert silent_until(watch, LEASE_MS) == []
    assert watch.look(LEASE_MS, [(8, LEASE_MS)]) == []
    assert silent_until(watch, LEASE_MS + GRACE_MS) == []
    assert silent_until(watch, LEASE_MS + GRACE_MS + LOOK_MS) == [7]
    assert silent_until(watch, 4 * LEASE_MS) == [8]
    assert silent_until(watch, 9 * LEASE_MS) == []


def test_who_leaves_may_be_silent(watch: HeartbeatDeadlines) -> None:
    assert watch.look(0, [(7, LEASE_MS), (7, 0), (9, 0)]) == []
    assert silent_until(watch, 9 * LEASE_MS) == []


def test_time_in_which_nobody_looked_counts_for_nobody(watch: HeartbeatDeadlines) -> None:
    """The whole host may have stood still."""
    assert watch.look(0, [(7, LEASE_MS), (8, LEASE_MS)]) == []
    assert watch.look(60_000, [(8, 0), (9, LEASE_MS)]) == []
    assert silent_until(watch, 60_000 + LEASE_MS + GRACE_MS - LOOK_MS) == []
    assert silent_until(watch, 60_000 + LEASE_MS + GRACE_MS + LOOK_MS) == [7, 9]


def test_who_waits_for_a_processor_is_given_that_time_too() -> None:
    """On a busy host a stage that is well may be silent because its threads are not run."""
    waited_ms = {7: {70: 0, 71: 0}, 8: {80: 0}}
    watch = HeartbeatDeadlines(0, waits_of=lambda process_id: dict(waited_ms[process_id]))
    assert watch.look(0, [(7, LEASE_MS), (8, LEASE_MS)]) == []
    ended: list[tuple[int, int]] = []
    for now_ms in range(LOOK_MS, 6 * LEASE_MS, LOOK_MS):
        waited_ms[7][71] += LOOK_MS if now_ms < 4 * LEASE_MS else 0  # then it hangs
        ended += [(now_ms, process_id) for process_id in watch.look(now_ms, [])]
    (hung_ms, hung), (starved_ms, starved) = ended
    assert (hung, starved) == (8, 7)
    assert hung_ms == LEASE_MS + GRACE_MS + LOOK_MS
    assert 4 * LEASE_MS < starved_ms < 6 * LEASE_MS


def test_the_kernel_says_for_how_long_threads_have_waited_for_a_processor() -> None:
    command = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as opened:
        busy = [opened.enter_context(subprocess.Popen(command)) for _ in range(2 * (os.cpu_count() or 1))]  # noqa: S603 - ours
        for process in busy:
            opened.callback(process.kill)
        deadline_s = time.monotonic() + 20
        while max(waits_of(busy[0].pid).values(), default=0) < 200:
            assert time.monotonic() < deadline_s, "with twice as many busy processes as processors, each waits"
            time.sleep(0.05)
    assert waits_of(busy[0].pid) == {}


def test_when_beats_were_dropped_nobody_is_ended_until_they_have_beaten_again(watch: HeartbeatDeadlines) -> None:
    """Among what was dropped may have been that somebody leaves."""
    assert watch.look(0, [(7, LEASE_MS)]) == []
    assert watch.look(LOOK_MS, [(8, 1)], dropped=True) == []
    assert silent_until(watch, 9 * LEASE_MS) == []
    assert watch.look(9 * LEASE_MS, [(7, LEASE_MS)]) == []
    assert silent_until(watch, 10 * LEASE_MS + GRACE_MS + LOOK_MS) == [7]


def test_without_a_watchman_a_beat_is_nothing() -> None:
    HeartbeatMonitor().beat(LEASE_MS)


FAMILY = """
import os, signal
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR

def child(*leases_ms):
    process_id = os.fork()
    if not process_id:
        for lease_ms in leases_ms:
            HEARTBEAT_MONITOR.beat(lease_ms)
        signal.pause()
    return process_id

HEARTBEAT_MONITOR.hire()
lives, leaves, hangs = child(60_000), child(60_000, 1, 0), child(1)
ended, status = os.waitpid(-1, 0)
print("the hung one" if ended == hangs else "another", "ended by signal", os.WTERMSIG(status))
for one in (lives, leaves):
    print("ended meanwhile", os.waitpid(one, os.WNOHANG) != (0, 0))
    os.kill(one, signal.SIGTERM)
    os.waitpid(one, 0)
os.close(HEARTBEAT_MONITOR._beats)
os.wait()
print("the monitor has ended as the last")
"""


@pytest.mark.parametrize(
    "before", ["", "from topology.spark.executor_side import heartbeat_monitor as monitor; monitor.NAME_AT /= 'nobody'"]
)
def test_the_process_that_hangs_is_ended_and_no_other_also_by_a_watchman_that_gets_no_name(before: str) -> None:
    assert lines_of(before + FAMILY) == [
        "the hung one ended by signal 9",
        "ended meanwhile False",
        "ended meanwhile False",
        "the monitor has ended as the last",
    ]


def test_a_watchman_that_stood_still_ends_nobody_who_has_left_meanwhile() -> None:
    text = """
import os, signal
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR

HEARTBEAT_MONITOR.hire()
(guard,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
told, tells = os.pipe()
leaves = os.fork()
if not leaves:
    os.kill(guard, signal.SIGSTOP)
    for _ in range(10_000):
        HEARTBEAT_MONITOR.beat(1)
    HEARTBEAT_MONITOR.beat(0)  # there is no room for it any more
    os.write(tells, b".")
    signal.pause()
os.read(told, 1)
os.kill(guard, signal.SIGCONT)
hangs = os.fork()
if not hangs:
    signal.signal(signal.SIGALRM, lambda *_: HEARTBEAT_MONITOR.beat(1))
    signal.setitimer(signal.ITIMER_REAL, 1, 2)
    while True:
        signal.pause()
print(os.waitpid(-1, 0) == (hangs, signal.SIGKILL))
os.kill(leaves, signal.SIGTERM)
"""
    assert lines_of(text) == ["True"]


def test_who_can_have_no_pipe_goes_on_without_a_watchman() -> None:
    text = """
import resource
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR

resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
HEARTBEAT_MONITOR.hire()
HEARTBEAT_MONITOR.beat(1)
print("continues")
"""
    assert lines_of(text) == ["continues"]


def test_nobody_is_held_up_by_a_watchman_that_hangs() -> None:
    text = """
import os, signal
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR

HEARTBEAT_MONITOR.hire()
(guard,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
os.kill(guard, signal.SIGSTOP)
for _ in range(10_000):
    HEARTBEAT_MONITOR.beat(60_000)
os.kill(guard, signal.SIGKILL)
os.waitpid(guard, 0)
HEARTBEAT_MONITOR.beat(60_000)
HEARTBEAT_MONITOR.beat(60_000)
print("done")
"""
    assert lines_of(text) == ["done"]


def lines_of(text: str) -> list[str]:
    """What a process prints that does what `text` says, in which nothing else runs."""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - its own text
    return ran.stdout.splitlines()
