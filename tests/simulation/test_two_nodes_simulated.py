"""Never two active nodes, and nothing acknowledged is lost, in many schedules of faults."""

import os

from simulated_nodes import TwoNodes

SCHEDULES = int(os.environ.get("CEP_NODE_SCHEDULES", "50"))
RUN_MS, FAULTS = 40_000, 8


def test_no_schedule_has_two_active_nodes_or_loses_an_acknowledged_event() -> None:
    takeovers = protected_ms = 0
    for seed in range(SCHEDULES):
        world = TwoNodes(seed)
        try:
            world.run(RUN_MS, FAULTS)
        except AssertionError as error:
            raise AssertionError(f"schedule {seed}: {error}") from error
        assert world.acknowledged
        takeovers += world.takeovers
        protected_ms += world.protected_ms
    assert takeovers > 2 * SCHEDULES
    assert protected_ms > SCHEDULES * RUN_MS // 20
