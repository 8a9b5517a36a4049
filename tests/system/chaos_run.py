"""Chaos: faults of every kind at a system under load, and then the ledger.

    make chaos CHAOS_FAULTS=60 CHAOS_SEED=1 CHAOS_DELIVERY=exactly-once
    make file-faults CHAOS_FAULTS=100      the same for files, each damaged in each way
    make clock-faults CHAOS_FAULTS=24      the same for clocks: ±10 h and +10 years under each process

Needs root, for the second host is a network namespace. The last line says it all; exit code 1 when anything was lost or
wrong, or came twice where it must not.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_clocks import CLOCK_FAULTS
from chaos_faults import FAULTS, Fault
from chaos_feeder import Feeder, close_all, merged, require_load
from chaos_files import FILE_FAULTS, TALLY, counted_lost, is_alerted
from chaos_ledger import Ledger, Verdict, judge, rates
from chaos_plans import PLANS, ChaosPlan
from chaos_progress import Progress
from chaos_system import CHECKPOINT_MS, ChaosSystem
from two_hosts import Network, two_hosts

from cep_cli.system.local_system import Ports

QUIET_S = (0.0, 1.0)
"""Faults come at any moment between two checkpoints, beyond the time in which results were seen to flow."""
RECOVER_S = 180.0
SETTLE_S = 120.0
LINGER_S = 2 * CHECKPOINT_MS / 1000
"""When nothing is missing, results that come again are awaited for so long."""
LOOK_S = 0.2
OFTEN_S = float(os.environ.get("CHAOS_LATE_S", "1.5"))
"""A result is late when its event was accepted longer ago; with checkpoints in between, longer by two of them."""
CALM_S = 15.0
CALM_ENOUGH_S = 10.0
"""Results that are later were delayed by the start, such as brokers that elect leaders; they must catch up."""
SLOWER = 2.0
"""On a slow or busy machine results are late when they are so much later than they were before the first fault."""
STEADY_S = 4.0
"""Results flow when none has been late for so long, and for longer than one may take."""


@dataclass(slots=True)
class Outcome:
    """What the run has shown."""

    faults: int
    sent: int
    verdict: Verdict
    times_s: dict[str, list[float]]
    folder: Path
    counted: int = 0
    """How many of those that are lost the system has counted, and alerted."""

    def line(self) -> str:
        """The last line."""
        found = self.verdict
        wrong = f" wrong={len(found.wrong)}" if found.wrong else ""
        lost = f"lost={found.lost} counted={self.counted}"
        return f"chaos: faults={self.faults} sent={self.sent} {lost} duplicated={found.duplicated}{wrong}"


@dataclass(slots=True)
class Chaos:
    """`faults` of the kinds in `kinds`, chosen by `seed`, while events flow."""

    faults: int
    seed: int
    delivery: str
    folder: Path
    kinds: tuple[Fault, ...] = FAULTS
    plans: tuple[ChaosPlan, ...] = PLANS
    """Those that chaos is let loose on."""
    more_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """By role, what else is in the environment of its processes."""
    times_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    most_s: float = math.inf
    """No further fault after so long: what was done until then is judged."""
    done: int = 0
    """How many faults there were."""
    late_s: float = OFTEN_S
    """A result is late when its event was accepted longer ago, beyond the time that checkpoints take."""

    def feeders(self, system: ChaosSystem) -> dict[str, Feeder]:
        """Who sends events, by the name with which the keys of these events begin."""
        return {name: Feeder(name, url, system.token) for name, url in system.worker_urls().items()}

    def progress(self, system: ChaosSystem, feeders: Iterable[str]) -> Progress:
        """What tells how far the results of the plans are."""
        return Progress([system.folder / name for name in feeders], [plan.name for plan in self.plans])

    def results(self, system: ChaosSystem, plan: str) -> list[dict[str, Any]]:
        """All results of a plan."""
        return system.results(plan)

    def run(self) -> Outcome:
        """Everything has been done, and judged."""
        with two_hosts() as network:
            return self.run_at(network)

    def run_at(self, network: Network) -> Outcome:
        """The same, with the hosts of `network`."""
        chance = random.Random(self.seed)  # noqa: S311 - repeatable, nothing secret
        with ChaosSystem(self.folder, network, Ports.free(), more_settings=self.more_settings) as system:
            for plan in self.plans:
                system.client().deploy(plan.deployed(self.delivery), replace=False)
            system.until(lambda: self._all_connected(system))
            feeders = self.feeders(system)
            for feeder in feeders.values():
                feeder.start()
            progress = self.progress(system, feeders)
            self._measure_calm(progress, feeders)
            end_s = time.monotonic() + self.most_s
            while self.done < self.faults and time.monotonic() < end_s:
                time.sleep(chance.uniform(*QUIET_S))
                self._hurt(system, progress, feeders, self.done, chance)
                self.done += 1
            close_all(feeders)
            return self._judge(system, feeders)

    def _hurt(
        self,
        system: ChaosSystem,
        progress: Progress,
        feeders: dict[str, Feeder],
        number: int,
        chance: random.Random,
    ) -> None:
        """One fault, and the time until results flow again."""
        # Every kind has its turn before any comes again.
        kinds = list(self.kinds)
        random.Random(self.seed + number // len(kinds)).shuffle(kinds)  # noqa: S311
        fault = kinds[number % len(kinds)]
        begun_s = time.monotonic()
        with ThreadPoolExecutor(1) as hand:
            doing = hand.submit(fault.do, system, chance)

            def is_over() -> bool:
                if doing.done():
                    doing.result()  # raises what went wrong with the fault itself
                return doing.done()

            took_s = self._flowing_since_s(progress, feeders, is_over) - begun_s
        self.times_s[fault.kind].append(max(0.0, took_s))
        say(f"{number + 1}/{self.faults} {fault.kind} ({doing.result()}): results flow after {max(0.0, took_s):.1f} s")

    def _flowing_since_s(
        self, progress: Progress, feeders: dict[str, Feeder], is_over: Callable[[], bool] = lambda: True
    ) -> float:
        """Returns when the fault `is_over` and for a while no result has been late: since when none has been."""
        held_s = self._held_s()
        steady_s = max(STEADY_S, self.late_s + held_s + 1.0)
        since_s = time.monotonic()
        recover_s = RECOVER_S + steady_s  # what it takes to see that results flow is no time of recovery
        deadline_s = since_s + recover_s
        while (now_s := time.monotonic()) - since_s < steady_s or not is_over():
            require_load(feeders)
            if not is_over():  # a fault has limits of its own: recovery begins when it is over
                deadline_s = now_s + recover_s
            if now_s > deadline_s:
                problems = {name: feeder.problem for name, feeder in feeders.items()}
                raise TimeoutError(f"results do not flow again within {recover_s:.0f} s; feeders: {problems}")
            if self._behind_s(progress, feeders, now_s) > self.late_s + held_s:
                since_s = now_s
            time.sleep(LOOK_S)
        return since_s

    def _behind_s(self, progress: Progress, feeders: dict[str, Feeder], now_s: float) -> float:
        """How long ago those events came of which the last ones have been answered, of the plan that is last."""
        held_s = self._held_s()
        progress.look()
        return max(
            now_s - feeder.accepted_s(progress.newest(plan.name, name)) - plan.before * held_s
            for plan in self.plans
            for name, feeder in feeders.items()
        )

    def _held_s(self) -> float:
        """How long each plan may hold results until its checkpoint is complete."""
        return 2 * CHECKPOINT_MS / 1000 if self.delivery == "exactly-once" else 0.0

    def _measure_calm(self, progress: Progress, feeders: dict[str, Feeder]) -> None:
        """All plans have answered all workers, and it is known how late results are while nothing is hurt."""
        deadline_s = time.monotonic() + RECOVER_S
        places = [(plan.name, name) for plan in self.plans for name in feeders]
        while not all(progress.newest(*place) for place in places):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no results: {[place for place in places if not progress.newest(*place)]}")
            time.sleep(LOOK_S)
            progress.look()
        while (worst_s := self._worst_s(progress, feeders)) > CALM_ENOUGH_S:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"results are {worst_s:.1f} s late before the first fault: the plans do not keep up")
            say(f"results are {worst_s:.1f} s late at most: they are measured again once the plans have caught up")
        self.late_s = max(OFTEN_S, SLOWER * worst_s - self._held_s())
        say(f"without a fault results are {worst_s:.1f} s late at most; later than {self.late_s:.1f} s counts as late")

    def _worst_s(self, progress: Progress, feeders: dict[str, Feeder]) -> float:
        """Return how late results are at most for a while."""
        worst_s, until_s = 0.0, time.monotonic() + CALM_S
        while (now_s := time.monotonic()) < until_s:
            worst_s = max(worst_s, self._behind_s(progress, feeders, now_s))
            time.sleep(LOOK_S)
        return worst_s

    def _judge(self, system: ChaosSystem, feeders: dict[str, Feeder]) -> Outcome:
        """The verdict, once nothing is missing or no more time is granted."""
        ticks, both = merged(feeders)
        verdicts = self._settled(system, ticks, both)
        counts = counted_lost(system) if is_alerted(system) else {}
        # What is lost to one plan does not reach the one that it feeds.
        counts["Relayed"] = counts.get("Relayed", 0) + counts.get("Passed", 0)
        counted = sum(min(one.lost, counts.get(one.plan, 0)) for one in verdicts)
        say(f"counted as lost: {counts}")
        for one in verdicts:
            say(f"{one.plan}: lost={one.lost} duplicated={one.duplicated} wrong={list(one.wrong)}")
        total = verdicts[0]
        for one in verdicts[1:]:
            total += one
        return Outcome(self.done, ticks.sent(), total, self.times_s, self.folder, counted)

    def _settled(self, system: ChaosSystem, ticks: Ledger, both: Ledger) -> list[Verdict]:
        """The verdict on each plan, once nothing has been missing for a while or no more time is granted."""
        deadline_s = time.monotonic() + SETTLE_S
        whole_s: float | None = None
        while True:
            verdicts = [judge(plan, both if plan.name == "Joined" else ticks, self.results(system, plan.name))
                        for plan in self.plans]  # fmt: skip
            now_s = time.monotonic()
            if any(one.lost for one in verdicts):
                whole_s = None
            elif whole_s is None:
                whole_s = now_s
            if now_s > deadline_s or (whole_s is not None and now_s - whole_s >= LINGER_S):
                return verdicts
            time.sleep(1)

    def _all_connected(self, system: ChaosSystem) -> bool:
        def connected(plan: ChaosPlan) -> bool:
            return bool(system.answer(lambda client: client.plan(plan.name)["status"]["connected"]))

        return all(connected(plan) for plan in self.plans)


def say(text: str) -> None:
    print(f"chaos: {text}", flush=True)  # noqa: T201 - this is its output


def prepare() -> None:
    """Get ready for a run: when it is told to end, what it has started ends, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before all faults were made"))
    # Executors compile what is not compiled yet before their first stage, for minutes: nothing would flow until then.
    subprocess.run([sys.executable, "-m", "topology.warm_up"], check=True)


def main() -> int:
    """Runs by the environment; 0 when all is well."""
    faults = int(os.environ.get("CHAOS_FAULTS", "60"))
    seed = int(os.environ.get("CHAOS_SEED", "1"))
    delivery = os.environ.get("CHAOS_DELIVERY", "exactly-once")
    kinds = {"": FAULTS, "files": FILE_FAULTS, "clocks": CLOCK_FAULTS}[os.environ.get("CHAOS_KINDS", "")]
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="cep-chaos-"))
    say(f"seed={seed} delivery={delivery} folder={folder}")
    most_s = 60 * float(os.environ.get("CHAOS_MINUTES", "inf"))
    outcome = Chaos(faults, seed, delivery, folder, kinds, most_s=most_s).run()
    if TALLY:
        say(f"files damaged={TALLY.total()}: {', '.join(f'{kind} {count}' for kind, count in sorted(TALLY.items()))}")
    for line in rates(outcome.times_s):
        print(line)  # noqa: T201
    print(outcome.line())  # noqa: T201
    found = outcome.verdict
    return int(bool(found.lost > outcome.counted or found.wrong or (delivery == "exactly-once" and found.duplicated)))


if __name__ == "__main__":
    sys.exit(main())
