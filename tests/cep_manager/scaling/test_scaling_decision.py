"""When a stage gets more or fewer instances: ramps, noise, limits, uneven keys."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_stage import CAPACITY, SimulatedStage

from cep_manager.config import ScalingConfig
from cep_manager.plans.compiled_plan import ScaledStage
from cep_manager.plans.scaling import Scaling
from cep_manager.scaling.decision import AFTER_PROBLEM, StageLoad, decide

CONFIG = ScalingConfig()
STAGE = ScaledStage("perKey", 1, 8)
NOW_MS = 10_000_000


def loads(*busy: float, seconds: int = 400, rate: float = 1_000.0, waiting: int = 0) -> list[StageLoad]:
    """The same load in every interval up to now."""
    count = seconds * 1_000 // CONFIG.interval_ms
    ends = (NOW_MS - one * CONFIG.interval_ms for one in reversed(range(count)))
    return [StageLoad(end_ms, CONFIG.interval_ms, busy, rate, waiting) for end_ms in ends]


def change(
    before: int, after: int, at_ms: int = NOW_MS - 3_600_000, rate: float = 1_000.0, problem: str = ""
) -> Scaling:
    return Scaling(at_ms, "perKey", before, after, rate, "", problem)


def test_a_busy_stage_grows_to_what_its_load_needs_at_the_target_and_says_why() -> None:
    decision = decide(STAGE, 2, loads(0.95, 0.9), [], 8, CONFIG, NOW_MS)
    assert decision.instances == 3  # 0.95 · 2 / 0.65
    assert decision.reason == "busiest instance 95% for 30 s → 3 instances"


def test_what_waits_counts_as_load_and_one_step_at_most_doubles() -> None:
    waiting = [
        StageLoad(one.at_ms, one.length_ms, one.busy, one.events_per_s, 3_000 + place * 20_000)
        for place, one in enumerate(loads(1.0, seconds=60))
    ]
    decision = decide(ScaledStage("perKey", 1, 8), 1, waiting, [], 8, CONFIG, NOW_MS)
    assert decision.instances == 2
    assert "events wait" in decision.reason


def test_a_stage_that_is_half_busy_grows_only_when_events_wait() -> None:
    assert decide(STAGE, 1, loads(0.5), [], 8, CONFIG, NOW_MS).instances == 1
    assert decide(STAGE, 1, loads(0.5, waiting=5_000), [], 8, CONFIG, NOW_MS).instances == 2
    assert decide(STAGE, 1, loads(0.3, waiting=5_000), [], 8, CONFIG, NOW_MS).instances == 1


def test_it_never_exceeds_its_maximum_or_the_room_in_the_cluster() -> None:
    at_most = decide(ScaledStage("perKey", 1, 2), 2, loads(1.0, 1.0), [], 8, CONFIG, NOW_MS)
    assert (at_most.instances, at_most.wanted) == (2, 4)
    assert at_most.reason.endswith("but its maximum is 2")
    without_room = decide(STAGE, 2, loads(1.0, 1.0), [], 2, CONFIG, NOW_MS)
    assert without_room.reason.endswith("but the cluster has no slots for more")
    assert decide(STAGE, 2, loads(1.0, 1.0), [], 3, CONFIG, NOW_MS).instances == 3
    assert decide(STAGE, 3, loads(1.0, 1.0, 1.0), [], 1, CONFIG, NOW_MS).instances == 3


def test_a_few_keys_with_most_of_the_events_do_not_make_it_grow() -> None:
    decision = decide(STAGE, 4, loads(0.95, 0.1, 0.1, 0.1), [], 8, CONFIG, NOW_MS)
    assert decision.instances == 4
    assert "a few keys have most of the events" in decision.reason


def test_it_shrinks_when_fewer_were_enough_in_every_interval() -> None:
    idle = loads(0.1, 0.1, 0.1, 0.1)
    decision = decide(STAGE, 4, idle, [], 8, CONFIG, NOW_MS)
    assert decision.instances == 1
    assert decision.reason == "busiest instance at most 10% for 300 s → 1 instance"
    peak = StageLoad(idle[-30].at_ms, CONFIG.interval_ms, (0.1, 0.45, 0.1, 0.1), 1_000.0, 0)
    assert decide(STAGE, 4, [*idle[:-30], peak, *idle[-29:]], [], 8, CONFIG, NOW_MS).instances == 3
    assert decide(ScaledStage("perKey", 2, 8), 4, idle, [], 8, CONFIG, NOW_MS).instances == 2


@pytest.mark.parametrize("seconds", [29, 200])
def test_it_waits_until_it_has_measured_long_enough(seconds: int) -> None:
    assert decide(STAGE, 4, loads(0.1, 0.1, 0.1, 0.1, seconds=seconds), [], 8, CONFIG, NOW_MS).instances == 4
    grown = decide(STAGE, 1, loads(1.0, seconds=seconds), [], 8, CONFIG, NOW_MS).instances
    assert grown == (2 if seconds >= 30 else 1)


def test_loads_of_long_ago_decide_nothing() -> None:
    late_ms = NOW_MS + CONFIG.grow_after_ms
    assert decide(STAGE, 1, loads(1.0), [], 8, CONFIG, late_ms).instances == 1
    assert decide(STAGE, 1, [], [], 8, CONFIG, late_ms).instances == 1


def test_it_rests_after_a_change_and_longer_after_one_that_failed() -> None:
    lately = NOW_MS - CONFIG.rest_ms
    assert decide(STAGE, 1, loads(1.0), [change(2, 1, lately + 1)], 8, CONFIG, NOW_MS).instances == 1
    assert decide(STAGE, 1, loads(1.0), [change(2, 1, lately)], 8, CONFIG, NOW_MS).instances == 2
    assert decide(STAGE, 1, loads(1.0), [change(1, 2, lately, problem="no")], 8, CONFIG, NOW_MS).instances == 1
    long_ago = NOW_MS - AFTER_PROBLEM * CONFIG.rest_ms
    assert decide(STAGE, 1, loads(1.0), [change(1, 2, long_ago, problem="no")], 8, CONFIG, NOW_MS).instances == 2


def test_a_change_in_the_far_future_does_not_make_it_rest_until_then() -> None:
    soon, far = NOW_MS + CONFIG.rest_ms // 2, NOW_MS + 3_600_000
    assert decide(STAGE, 1, loads(1.0), [change(2, 1, soon)], 8, CONFIG, NOW_MS).instances == 1
    assert decide(STAGE, 1, loads(1.0), [change(2, 1, far)], 8, CONFIG, NOW_MS).instances == 2


def test_a_number_that_was_too_small_is_not_tried_again_at_the_same_rate() -> None:
    history = [change(2, 4, rate=1_000.0)]
    idle = (0.2, 0.2, 0.2, 0.2)
    assert decide(STAGE, 4, loads(*idle, rate=900.0), history, 8, CONFIG, NOW_MS).instances == 3
    assert decide(STAGE, 4, loads(*idle, rate=700.0), history, 8, CONFIG, NOW_MS).instances == 2


def test_instances_follow_a_ramp_up_and_down_again() -> None:
    stage = SimulatedStage(STAGE)
    stage.run(300, lambda _: 1_000.0)
    assert stage.instances == 1
    stage.run(300, lambda at_s: 1_000.0 + at_s / 300 * 499_000.0)
    stage.run(600, lambda _: 500_000.0)
    assert CAPACITY * stage.instances * CONFIG.grow_above >= 500_000.0
    assert sum(stage.waiting) < 500_000.0  # less than one second of events
    assert stage.most_waiting < 30 * 500_000.0
    up = [one.instances_after for one in stage.history]
    assert up == sorted(up)
    stage.run(300, lambda at_s: 500_000.0 - at_s / 300 * 499_000.0)
    stage.run(900, lambda _: 1_000.0)
    assert stage.instances == 1
    down = [one.instances_after for one in stage.history[len(up) :]]
    assert down == sorted(down, reverse=True)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(100.0, 1_000_000.0),
    seed=st.integers(0, 2**16),
    weights=st.lists(st.floats(0.1, 4.0), min_size=8, max_size=16),
)
def test_at_a_constant_load_with_noise_the_number_settles_and_stays(
    rate: float, seed: int, weights: list[float]
) -> None:
    stage = SimulatedStage(STAGE, seed, weights)
    stage.run(900, lambda _: rate, noise=0.2)
    settled = len(stage.history)
    stage.run(600, lambda _: rate, noise=0.2)
    assert len(stage.history) <= settled + 1  # a load at the threshold crosses it once, and not back
    stage.run(1_200, lambda _: rate, noise=0.2)
    assert len(stage.history) <= settled + 1
    steps = [one.instances_after - one.instances_before for one in stage.history]
    turns = sum(one * other < 0 for one, other in pairwise(steps))
    assert turns <= 1
