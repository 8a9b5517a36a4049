"""What grows is found, and what only starts, sways or dies is not taken for growth."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest
from soak_growth import WARM_UP_S, Holding, course, descendants, growth, holding, processor_time, slope
from soak_load import LATE_MS, in_time, p99_of

from cep_common.monitoring.latency import bucket

MEBIBYTE = 2**20


def life(first_mb: float, mb_per_minute: float, minutes: int, descriptors_per_minute: int = 0) -> list[Holding]:
    """Looked at every ten seconds; what it takes in its first two minutes is much."""
    held = []
    for second in range(0, minutes * 60, 10):
        warm_up_mb = 500 * max(0.0, 1 - second / WARM_UP_S)
        sway_mb = 3 if second % 20 else -3
        memory_mb = first_mb - warm_up_mb + sway_mb + mb_per_minute * second / 60
        held.append(Holding(1000.0 + second, int(memory_mb * MEBIBYTE), 20 + descriptors_per_minute * second // 60, 9))
    return held


def test_a_slow_leak_is_told_in_percent_of_ten_minutes() -> None:
    (found,) = growth({("worker", 1): life(1000, 2, 30)})
    assert found.memory_percent == pytest.approx(2.0, abs=0.1)
    assert (found.descriptors, found.threads) == (0, 0)


def test_processes_of_a_kind_that_come_and_go_with_different_sizes_show_no_growth() -> None:
    lives = {("stage", number): life(100 * number, 0, 8) for number in range(3, 6)}
    (found,) = growth(lives)
    assert abs(found.memory_percent) < 0.5
    assert found.watched_s == pytest.approx(3 * 350)


def test_a_leak_shows_over_several_short_lives() -> None:
    (found,) = growth({("stage", number): life(200, 5, 6) for number in range(4)})
    assert found.memory_percent == pytest.approx(23, abs=3)


def test_of_a_life_that_was_too_short_nothing_is_told() -> None:
    assert growth({("driver", 1): life(100, 50, 3)}) == []


def test_descriptors_that_are_not_closed_are_counted() -> None:
    (found,) = growth({("manager", 1): life(100, 0, 10, descriptors_per_minute=3)})
    assert found.descriptors == pytest.approx(24, abs=1)


def test_the_course_of_a_life_tells_when_it_grew() -> None:
    held = [Holding(70.0 + second, (100 if second < 400 else 130) * MEBIBYTE, 9, 9) for second in range(0, 600, 2)]
    held[5] = Holding(80.0, 180 * MEBIBYTE, 9, 9)
    told = "worker (process 7): MiB in spells of 180 s: 100 100 130 130; at most 180"
    assert course(("worker", 7), held) == told


def test_a_line_without_length_has_no_slope() -> None:
    assert slope([[(1.0, 5.0)]]) == 0.0


def test_a_process_is_seen_as_it_is() -> None:
    before = holding(os.getpid(), 1.0)
    closing = threading.Event()
    thread = threading.Thread(target=closing.wait)
    thread.start()
    reading, writing = os.pipe()
    during = holding(os.getpid(), 2.0)
    closing.set()
    thread.join()
    os.close(reading)
    os.close(writing)
    assert before is not None
    assert during is not None
    assert (during.threads - before.threads, during.descriptors - before.descriptors) == (1, 2)
    assert during.memory_bytes > MEBIBYTE
    assert os.getpid() in descendants(os.getppid())
    assert holding(2**22 + 1, 1.0) is None


def test_a_soak_without_results_is_not_a_fast_one() -> None:
    assert p99_of([]) == math.inf
    assert p99_of([{}, {}]) == math.inf
    assert p99_of([{bucket(5_000_000): 60}, {bucket(5_000_000): 39, bucket(90_000_000): 1}]) == pytest.approx(
        5, rel=0.05
    )


def test_results_are_in_time_only_when_nearly_all_of_them_come_and_come_soon() -> None:
    soon, late = bucket(3_000_000), bucket(round(2e6 * LATE_MS))
    assert in_time([{soon: 500}, {soon: 480}], 1000.0)
    assert not in_time([{soon: 500}, {}], 1000.0), "one of two workers hangs, the other's results come in time"
    assert not in_time([{soon: 900, late: 100}], 1000.0)
    assert not in_time([{}, {}], 0.0), "nothing at all"


def test_what_other_machines_took_is_told_by_what_was_wanted_here() -> None:
    before = processor_time("cpu  100 0 50 9000 7 1 2 40 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    after = processor_time("cpu  160 5 70 9900 9 2 6 50 0 0\n")
    assert after.stolen_since(before) == pytest.approx(10 / 100)


def test_of_a_machine_that_did_nothing_nothing_was_taken() -> None:
    idle = processor_time(Path("/proc/stat").read_text(encoding="utf-8"))
    assert idle.stolen_since(idle) == 0
