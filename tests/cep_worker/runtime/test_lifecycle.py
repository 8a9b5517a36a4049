"""What probes are told between a worker's start and its end."""

from cep_worker.runtime.lifecycle import Lifecycle


def test_a_worker_is_ready_once_a_manager_takes_its_heartbeats_and_until_it_leaves() -> None:
    lifecycle = Lifecycle()
    assert "no manager" in lifecycle.not_ready()
    lifecycle.registered = True
    assert lifecycle.not_ready() == ""
    lifecycle.leaving = True
    assert "shutting down" in lifecycle.not_ready()


def test_a_data_thread_that_does_not_tick_is_not_live_unless_it_starts_or_leaves() -> None:
    lifecycle = Lifecycle()
    assert lifecycle.not_live(3_600_000) == ""
    lifecycle.tick_ms = 1_000
    assert lifecycle.not_live(1_100) == ""
    assert "the data thread" in lifecycle.not_live(3_600_000)
    lifecycle.leaving = True
    assert lifecycle.not_live(3_600_000) == ""
