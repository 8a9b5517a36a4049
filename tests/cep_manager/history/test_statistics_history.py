"""Counters by window: what is told is what was counted, whatever ends the tasks that count."""

import msgspec
import pytest
from manager_world import COMPILED, KEY, World, counts, plan, task

from cep_common.protocol.tasks import ComponentReport, RegisterTask
from cep_manager.history.counter_histories import CounterHistories
from cep_manager.history.counter_history import MOST_COUNTERS, OTHERS, WINDOWS_S, CounterHistory, Track
from cep_manager.history.windowed_metrics import added_up, capacity, window_metrics

EMITTED = ("emitted", "Late")
SECOND = 1_000
DAY_S = 86_400


def steady(seconds: int, per_second: int, every_s: int = 1) -> CounterHistory:
    track = Track(0)
    for second in range(every_s, seconds + 1, every_s):
        track.grow({EMITTED: per_second * every_s}, second * SECOND)
    return track.history


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_a_steady_flow_is_told_as_its_rate_times_the_window(window_s: int) -> None:
    history = steady(2 * DAY_S, per_second=10, every_s=7)
    now_ms = history.heard_ms
    assert history.within(window_s, now_ms)[EMITTED] == pytest.approx(10 * window_s, rel=0.001)
    assert history.in_all() == {EMITTED: 10 * (now_ms // SECOND)}


def test_what_is_younger_than_the_window_is_told_exactly() -> None:
    history = steady(60, per_second=1_000)
    for window_s in WINDOWS_S:
        assert history.within(window_s, 60 * SECOND) == {EMITTED: 60_000}


def test_a_burst_leaves_the_window_when_its_time_has_passed() -> None:
    track = Track(0)
    track.grow({EMITTED: 500}, 5 * SECOND)
    for second in range(6, 1_000):
        track.grow({}, second * SECOND)
        left = track.history.within(600, second * SECOND)[EMITTED]
        assert left == 500 if second <= 600 else left == 0 if second >= 611 else 0 <= left <= 500
    assert track.history.within(10_800, 999 * SECOND)[EMITTED] == 500


def test_what_is_not_heard_any_more_leaves_the_window_too() -> None:
    history = steady(60, per_second=10)
    assert history.within(600, 630 * SECOND)[EMITTED] == 300
    assert history.within(600, 700 * SECOND)[EMITTED] == 0
    assert history.in_all() == {EMITTED: 600}


def test_no_history_grows_without_bound() -> None:
    history = steady(3 * DAY_S, per_second=1, every_s=5)
    assert sum(len(ring) for ring in history.rings) == 61 + 61 + 49
    track = Track(0)
    track.grow({("received", f"stream{number}"): 1 for number in range(MOST_COUNTERS + 100)}, SECOND)
    in_all = track.history.in_all()
    assert len(in_all) == MOST_COUNTERS + 1
    assert in_all["received", OTHERS] == 100


def report(process_id: int = 1, epoch: int = 1, up_ms: int = 0, **changes: object) -> RegisterTask:
    component = ComponentReport("late#0", "late", "processor", **changes)  # type: ignore[arg-type]
    return RegisterTask(KEY, epoch, 0, "10.0.0.2", process_id, (component,), up_ms=up_ms)


def totals(histories: CounterHistories) -> dict[tuple[str, str], int]:
    return {counter: value for counter, value in histories.snapshot()[KEY]["late#0"].in_all().items() if value}


def test_a_task_that_is_started_again_goes_on_counting_where_its_predecessor_ended() -> None:
    histories = CounterHistories()
    histories.heard(report(process_id=1, received=counts(In=100), busy_ms=10), 1_000)
    histories.heard(report(process_id=2, received=counts(In=7), busy_ms=1), 2_000)
    histories.heard(report(process_id=2, received=counts(In=9), busy_ms=1), 3_000)
    assert totals(histories) == {("received", "In"): 109, ("busy_ms", ""): 11}


def test_a_process_that_counts_from_its_beginning_again_is_seen_by_its_time() -> None:
    histories = CounterHistories()
    histories.heard(report(up_ms=900, received=counts(In=100)), 1_000)
    histories.heard(report(up_ms=50, received=counts(In=150)), 2_000)
    assert totals(histories) == {("received", "In"): 250}


def test_two_epochs_side_by_side_are_added() -> None:
    histories = CounterHistories()
    histories.heard(report(process_id=1, epoch=1, received=counts(In=100)), 1_000)
    histories.heard(report(process_id=2, epoch=2, received=counts(In=5)), 1_100)
    histories.heard(report(process_id=1, epoch=1, received=counts(In=110)), 1_200)
    histories.keep(KEY, (2,), {"late#0"})
    histories.heard(report(process_id=2, epoch=2, received=counts(In=6)), 1_300)
    assert totals(histories) == {("received", "In"): 116}


def test_a_counter_that_falls_for_a_while_is_counted_once() -> None:
    """A publisher whose worker is lost takes back what it sent in vain."""
    histories = CounterHistories()
    for emitted in (100, 60, 90, 130):
        histories.heard(report(emitted=counts(Out=emitted)), 1_000)
    assert totals(histories) == {("emitted", "Out"): 130}


def test_a_manager_that_finds_a_running_task_spreads_its_counts_over_its_time() -> None:
    histories = CounterHistories()
    histories.heard(report(up_ms=3_600_000, received=counts(In=36_000)), 10_000_000)
    history = histories.snapshot()[KEY]["late#0"]
    assert history.in_all()["received", "In"] == 36_000
    assert history.within(600, 10_000_000)["received", "In"] == 6_000
    assert window_metrics(history, 10_800, 10_000_000).covered_ms == 3_600_000


def test_what_was_told_does_not_change_afterwards() -> None:
    histories = CounterHistories()
    histories.heard(report(received=counts(In=1)), 1_000)
    before = histories.snapshot()
    histories.heard(report(received=counts(In=2)), 2_000)
    assert before[KEY]["late#0"].in_all()["received", "In"] == 1


def test_figures_are_means_over_events_and_shares_of_the_window() -> None:
    histories = CounterHistories()
    histories.heard(report(), 0)
    histories.heard(
        report(received=counts(In=1_000), emitted=counts(Out=10), busy_ms=500, bundles=20, stay_ms=4_000), 1_000
    )
    history = histories.snapshot()[KEY]["late#0"]
    found = window_metrics(history, 600, 1_000)
    assert (found.execute_latency_ms(), found.bundle_latency_ms(), found.stay_latency_ms()) == (0.5, 25.0, 4.0)
    assert capacity([history], 1_000) == 0.5
    assert capacity([history], 1_000_000) == 0.0
    both = added_up([found, found])
    assert (both.events_received(), both.emitted, both.covered_ms) == (2_000, {"Out": 20}, 1_000)
    assert window_metrics(history, 600, 0).execute_latency_ms() == 0.5
    assert added_up([]).execute_latency_ms() is None


def test_the_control_plane_keeps_histories_of_what_is_deployed() -> None:
    world = World()
    world.active(events=1_000)
    world.now_ms += 1_000
    world.hear(task(events=3_000))
    histories = world.snapshot().histories[KEY]
    assert set(histories) == set(COMPILED.instances())
    assert histories["lateness#0"].in_all()["received", "Departures"] == 1_500
    other = msgspec.structs.replace(COMPILED, components=COMPILED.components[:2])
    world.put(plan(epoch=2, compiled=other))
    assert set(world.snapshot().histories[KEY]) == {"EventReceiver#0", "lateness#0", "lateness#1"}
    world.instructions += world.plane.remove_plan(KEY, world.now_ms)
    assert world.snapshot().histories == {}


def test_the_plans_own_task_may_come_back_under_another_epoch_without_a_fall() -> None:
    world = World()
    world.active(events=1_000)
    world.instructions += world.plane.restart_plan(KEY, 2, world.now_ms)
    world.hear(task(epoch=2, process_id=201, events=100))
    assert world.snapshot().histories[KEY]["lateness#0"].in_all()["received", "Departures"] == 550
