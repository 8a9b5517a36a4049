"""Plays seeded schedules of the simulators.

make simulate SEEDS=10000                                            so many schedules in all, of every simulator
.venv/bin/python tests/simulation/simulate.py delivery --seed 4711   one schedule, with its trace
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import simulated_assignment
import simulated_clocks
import simulated_deadly_events
import simulated_delivery
import simulated_election
import simulated_files
import simulated_hand_over
import simulated_nodes
import simulated_older_copy
import simulated_sync_log
from virtual_world import SHOWN_LINES, TRACE_LINES, RuleBrokenError, Simulation, VirtualWorld, play


@dataclass(frozen=True, slots=True)
class Simulator:
    """`share` of all schedules are played by it."""

    name: str
    make: Simulation
    simulate: Callable[[VirtualWorld], None]
    share: float

    def play(self, seed: int, shown: int = SHOWN_LINES) -> VirtualWorld:
        """The schedule of `seed` was played. Raises RuleBrokenError with the end of its trace and how to repeat it."""
        return play(self.name, self.simulate, self.make, seed, shown)


SIMULATORS = {
    one.name: one
    for one in (
        Simulator("election", simulated_election.ElectionWorld, simulated_election.simulate, 0.40),
        Simulator("assignment", simulated_assignment.AssignmentWorld, simulated_assignment.simulate, 0.40),
        Simulator("nodes", simulated_nodes.TwoNodesWorld, simulated_nodes.simulate, 0.05),
        Simulator("hand-over", simulated_hand_over.HandOverWorld, simulated_hand_over.simulate, 0.1),
        Simulator("delivery", simulated_delivery.DeliveryWorld, simulated_delivery.simulate, 0.015),
        Simulator("sync-log", simulated_sync_log.SyncLogWorld, simulated_sync_log.simulate, 0.02),
        Simulator("clocks", simulated_clocks.WrongClocksWorld, simulated_delivery.simulate, 0.004),
        Simulator("deadly-events", simulated_deadly_events.DeadlyEventsWorld, simulated_delivery.simulate, 0.01),
        Simulator("older-copy", simulated_older_copy.OlderCopyWorld, simulated_delivery.simulate, 0.015),
    )
}


ALONE = {"files": Simulator("files", simulated_files.FileFaultWorld, simulated_files.simulate, 0.0)}
"""Played when named: what is damaged is written with random names, so a seed does not give the very same schedule."""


def main() -> int:
    """Exit code 1 when a rule was broken."""
    parser = argparse.ArgumentParser(description="seeded schedules of the simulators")
    parser.add_argument("simulator", nargs="?", choices=sorted(SIMULATORS | ALONE), help="all when none is named")
    parser.add_argument("--schedules", type=int, default=2_500, help="how many, shared out over the simulators")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one alone, and show what happened")
    told = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if told.seed is not None:
        try:
            print((SIMULATORS | ALONE)[told.simulator or "delivery"].play(told.seed, TRACE_LINES).trace(TRACE_LINES))  # noqa: T201 - this is its output
        except RuleBrokenError as error:
            print(error)  # noqa: T201
            return 1
        return 0
    failed = False
    for simulator in [(SIMULATORS | ALONE)[told.simulator]] if told.simulator else SIMULATORS.values():
        count = told.schedules if told.simulator else round(told.schedules * simulator.share)
        began_s, broken = time.perf_counter(), 0
        for seed in range(told.first, told.first + count):
            try:
                simulator.play(seed)
            except RuleBrokenError as error:
                broken += 1
                print(f"\n{error}\n")  # noqa: T201
        took_s = time.perf_counter() - began_s
        print(f"{simulator.name}: schedules={count} broken={broken} seconds={took_s:.1f}", flush=True)  # noqa: T201
        failed = failed or broken > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
