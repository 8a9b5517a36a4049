"""The schedules of two nodes do contain what their rules are about: takeovers, and time under protection."""

from simulated_nodes import UNTIL_MS, TwoNodesWorld, simulate

SCHEDULES = 30


def test_schedules_of_two_nodes_have_takeovers_acknowledged_events_and_time_under_protection() -> None:
    takeovers = protected_ms = 0
    for seed in range(SCHEDULES):
        world = TwoNodesWorld(seed)
        simulate(world)
        assert world.acknowledged
        takeovers += world.takeovers
        protected_ms += world.protected_ms
    assert takeovers > 2 * SCHEDULES
    assert protected_ms > SCHEDULES * UNTIL_MS // 20
