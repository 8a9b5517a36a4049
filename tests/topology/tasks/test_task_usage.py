"""What a task says of its process, and what stops one that holds too much."""

from __future__ import annotations

import mmap
import queue

from topology.errors import TopologyError
from topology.stages.settings import StageSettings
from topology.stages.tasks.usage import MemoryGuard, TaskTime, describe_default_excess, describe_excess, memory_bytes


def test_memory_that_is_taken_is_counted_and_counts_no_more_when_it_is_given_back() -> None:
    """Memory of the system's, not of the heap, which may have room enough from what was freed before."""
    before = memory_bytes()
    with mmap.mmap(-1, 50_000_000, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:
        taken.write(b"x" * 50_000_000)
        held = memory_bytes()
        assert 45_000_000 < held - before < 100_000_000
    assert memory_bytes() < held - 40_000_000


def test_processor_time_counts_work_from_its_start() -> None:
    task_time = TaskTime()
    assert task_time.used_ms() < 1_000
    while task_time.used_ms() < 20:
        sum(range(10_000))


def test_a_task_above_its_limit_is_stopped_with_the_reason_and_one_below_is_not() -> None:
    stops: queue.SimpleQueue[TopologyError] = queue.SimpleQueue()
    below = MemoryGuard(0, 2 * memory_bytes(), stops.put)
    above = MemoryGuard(1, memory_bytes() // 2, stops.put)
    for guard in (below, above):
        guard.start()
    reason = stops.get(timeout=10)
    for guard in (below, above):
        guard.close()
    assert reason.reason_code == "memory-limit"
    assert "task 1 held" in str(reason)
    assert stops.empty()


def test_the_excess_is_told_in_the_words_of_the_plan() -> None:
    assert describe_excess(2, 1_250 * 2**20, 2**30) == (
        "task 2 held 1250m, @Plan:resources(memory='1024m') is the limit: raise it, or keep less state"
    )


def test_a_task_whose_plan_sets_no_limit_has_that_of_the_configuration() -> None:
    assert StageSettings().task_memory_bytes == 4 * 2**30
    stops: queue.SimpleQueue[TopologyError] = queue.SimpleQueue()
    guard = MemoryGuard(3, memory_bytes() // 2, stops.put, by_plan=False)
    guard.start()
    stopped = stops.get(timeout=5)
    guard.close()
    assert stopped.reason_code == "memory-limit"
    assert "stages.task_memory_bytes of the driver's configuration allows" in stopped.message
    assert describe_default_excess(0, 2**31, 2**30).startswith("task 0 held 2048m, ")
