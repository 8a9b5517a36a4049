"""Sampling as the manager orders and keeps it."""

import msgspec
import pytest
from manager_world import KEY, World, plan, task

from cep_common.protocol.tasks import SampledEvent, SampleOrder
from cep_manager.commands.sample_commands import sampled_components
from cep_manager.errors import BadRequestError
from cep_manager.history.samples import MOST_EVENTS, Samples, sample_report


def seen(*numbers: int, instance: str = "lateness#0") -> tuple[SampledEvent, ...]:
    return tuple(SampledEvent(instance, "out", "Late", number, f'{{"delay": {number}}}') for number in numbers)


@pytest.fixture
def world() -> World:
    world = World()
    world.active()
    return world


def test_tasks_are_told_what_to_sample_until_its_time_is_over(world: World) -> None:
    assert world.hear(task()).samples == ()
    world.plane.sample(KEY, ("lateness",), 10, 60_000, world.now_ms)
    world.now_ms += 1_000
    assert world.hear(task()).samples == (SampleOrder("lateness", 10, 59_000),)
    world.now_ms += 59_000
    assert world.hear(task()).samples == ()


def test_what_tasks_saw_is_kept_and_not_with_their_reports(world: World) -> None:
    world.plane.sample(KEY, ("lateness",), 10, 60_000, world.now_ms)
    world.hear(msgspec.structs.replace(task(), samples=seen(1, 2)))
    world.hear(msgspec.structs.replace(task(), samples=seen(3)))
    snapshot = world.snapshot()
    report = sample_report(snapshot.samples, KEY, "", snapshot.now_ms)
    assert [event.at_ms for event in report.events] == [1, 2, 3]
    assert report.orders == (SampleOrder("lateness", 10, 60_000),)
    assert sample_report(snapshot.samples, KEY, "storms", snapshot.now_ms).events == ()
    assert snapshot.tasks[KEY][0].latest.samples == ()


def test_ending_an_order_keeps_what_was_seen_and_beginning_anew_forgets_it(world: World) -> None:
    world.plane.sample(KEY, ("lateness",), 10, 60_000, 0)
    world.hear(msgspec.structs.replace(task(), samples=seen(1)))
    world.plane.sample(KEY, ("lateness",), 0, 1_000, 0)
    assert world.hear(task()).samples == ()
    assert len(sample_report(world.snapshot().samples, KEY, "", 0).events) == 1
    world.plane.sample(KEY, ("lateness",), 10, 60_000, 0)
    assert sample_report(world.snapshot().samples, KEY, "", 0).events == ()


def test_the_newest_events_of_a_stage_are_kept_and_nothing_that_nobody_asked_for() -> None:
    samples = Samples()
    samples.heard(KEY, seen(1))
    samples.begin(KEY, ("lateness",), 100, 1_000)
    samples.heard(KEY, (*seen(*range(MOST_EVENTS + 5)), *seen(7, instance="storms#0")))
    kept = samples.snapshot()[KEY].events
    assert list(kept) == ["lateness"]
    assert (len(kept["lateness"]), kept["lateness"][0].at_ms) == (MOST_EVENTS, 5)


def test_a_plan_that_is_gone_is_forgotten_with_its_samples(world: World) -> None:
    world.plane.sample(KEY, ("lateness",), 10, 60_000, 0)
    world.plane.remove_plan(KEY, 0)
    assert world.snapshot().samples == {}


@pytest.mark.parametrize(
    ("component", "percent", "for_s", "told"),
    [
        ("lateless", 10, 60, "lateless; there are: EventReceiver, lateness"),
        ("lateness", 101, 60, "percent must be between"),
        ("lateness", float("nan"), 60, "percent must be between"),
        ("lateness", 10, 3_601, "for_s must be between 1 and 3600"),
        ("lateness", 10, 0, "for_s must be between 1 and 3600"),
    ],
)
def test_what_cannot_be_sampled_is_refused(world: World, component: str, percent: float, for_s: int, told: str) -> None:
    with pytest.raises(BadRequestError, match=told):
        sampled_components(world.snapshot().plans[KEY], component, percent, for_s)


def test_without_a_stage_all_are_meant(world: World) -> None:
    record = world.snapshot().plans[KEY]
    assert len(sampled_components(record, "", 10, 60)) == 5
    world.put(plan(epoch=2, compiled="broken"))
    assert sampled_components(world.snapshot().plans[KEY], "", 10, 60) == ()
