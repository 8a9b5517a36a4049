"""A soak: a steady load for a long time, a fault a minute; nothing that processes hold may grow.

    make soak SOAK_MINUTES=30 SOAK_SEED=1

Needs root, for the second host is a network namespace. First the highest rate is found, then half of it is kept up. The
last line says it all; exit code 1 when something grew or results were late beside the faults.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos_faults import FAULTS
from chaos_system import ChaosSystem
from soak_growth import WARM_UP_S, Growth, Watch, course, descendants, processor_time
from soak_load import BATCH_ROWS, PLAN, LoadFeeder, LoadListener, Pace, in_time, p99_of
from two_hosts import two_hosts

from cep_cli.system.local_system import Ports
from cep_common.errors import CepError
from cep_common.ids import Endpoint
from cep_common.security.config import SecurityConfig

BURST_S = 15.0
SHARES = (0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.1)
"""Of the rate of a burst, in which everything waits: the first that is kept up with results in time is the highest."""
SEARCH_S = 20.0
SHARE = 0.5
EVERY_S = 60.0
LOOK_S = 2.0
ANSWERS_EACH_LOOK = 60
"""3,600 while a manager is young; after 3,500 its memory stood still."""
STEADY_S = 5.0
RECOVER_S = 180.0

MOST_MEMORY_PERCENT = 1.0
MOST_P99_MS = 20.0
MOST_DESCRIPTORS = 16
"""Sockets of peers that come and go are no leak."""
MOST_THREADS = 4
STAT = Path("/proc/stat")
JAVA = "java"
"""How much of its heap Java takes is its own affair; it is told, and not judged."""


@dataclass(slots=True)
class Soak:
    """`minutes` of load, with the faults that `seed` draws."""

    minutes: float
    seed: int
    folder: Path
    spans: list[tuple[float, float]] = field(default_factory=list)
    """When results were held up by faults (monotonic)."""
    watch: Watch = field(default_factory=Watch)
    pace: Pace = field(default_factory=Pace)
    rate: float = 0.0
    rows: int = 0
    latency_ms: float = 0.0
    stolen: float = 0.0
    """Which share of the time wanted here the host gave to other machines; nobody is faster than that lets them be."""

    def run(self) -> list[Growth]:
        """All is over; gives what grew."""
        with ExitStack() as opened:
            network = opened.enter_context(two_hosts())
            system = opened.enter_context(ChaosSystem(self.folder, network, Ports.free()))
            system.client().deploy(PLAN, replace=False)
            system.until(lambda: system.answer(lambda client: client.plan("Soaked")["status"]["connected"]))
            security = SecurityConfig(str(self.folder / "keys"))
            feeders: list[LoadFeeder] = []
            listeners: list[LoadListener] = []
            for (name, url), host in zip(system.worker_urls().items(), system.hosts, strict=True):
                ingress, egress = (Endpoint(host.address, port) for port in (system.ports.ingress, system.ports.egress))
                feeders.append(LoadFeeder(name, url, ingress, system.token, security, self.pace))
                listeners.append(LoadListener(name, egress, security))
            for listener in listeners:
                listener.start()
                opened.callback(listener.close)
            for feeder in feeders:
                feeder.start()
                opened.callback(feeder.close)
            self._find_rate(feeders, listeners)
            begun = processor_time(STAT.read_text(encoding="utf-8"))
            self._soak(system, listeners)
            self.stolen = processor_time(STAT.read_text(encoding="utf-8")).stolen_since(begun)
            self.rows = sum(feeder.rows for feeder in feeders)
            self.latency_ms = p99_of(counts for one in listeners for counts in one.beside(self.spans))
        return self.watch.growth()

    def _find_rate(self, feeders: list[LoadFeeder], listeners: list[LoadListener]) -> None:
        """The highest rate is known at which results come in time, and the pace is a share of it."""
        begun_s = time.monotonic()
        time.sleep(BURST_S / 2)
        before = sum(listener.rows for listener in listeners)
        time.sleep(BURST_S / 2)
        burst = (sum(listener.rows for listener in listeners) - before) / (BURST_S / 2)
        self.pace.batches_per_s = SHARES[-1] * burst / BATCH_ROWS / len(feeders)
        self._steady_since_s(listeners)  # what was accepted beyond that rate is processed
        for share in SHARES:
            self.rate = share * burst
            self.pace.batches_per_s = self.rate / BATCH_ROWS / len(feeders)
            with suppress(TimeoutError):
                self._steady_since_s(listeners, within_s=SEARCH_S)
                break
        self.pace.batches_per_s *= SHARE
        self.spans.append((begun_s, self._steady_since_s(listeners)))
        say(f"the highest rate is {self.rate:,.0f} events/s; the soak runs at {SHARE:.0%} of it")

    def _soak(self, system: ChaosSystem, listeners: list[LoadListener]) -> None:
        chance = random.Random(self.seed)  # noqa: S311 - repeatable, nothing secret
        faults = list(FAULTS)
        end_s = time.monotonic() + self.minutes * 60
        next_fault_s = time.monotonic() + EVERY_S
        number = 0
        while (now_s := time.monotonic()) < end_s:
            self.watch.look(now_s, processes(system))
            self._ask_young_managers(system, now_s)
            if now_s >= next_fault_s and end_s - now_s > EVERY_S:
                if number % len(faults) == 0:
                    chance.shuffle(faults)
                fault = faults[number % len(faults)]
                number += 1
                whom = fault.do(system, chance)
                steady_s = self._steady_since_s(listeners, now_s)
                self.spans.append((now_s, steady_s))
                say(f"{fault.kind} ({whom}): results flow after {steady_s - now_s:.1f} s")
                next_fault_s = max(now_s + EVERY_S, time.monotonic())
            time.sleep(LOOK_S)

    def _ask_young_managers(self, system: ChaosSystem, now_s: float) -> None:
        """Each of a manager's threads takes memory as it answers for the first times, in half an hour if only this run
        asks; so managers are asked often while what they take is no growth yet."""
        for name, client in system.clients().items():
            process = system.processes[name].process
            life = self.watch.lives.get(("manager", process.pid)) if process is not None else None
            if life and now_s - life[0].at_s < WARM_UP_S:
                with suppress(CepError):  # it is hung, or has died
                    for _ in range(ANSWERS_EACH_LOOK):
                        client.cluster()

    def _steady_since_s(
        self, listeners: list[LoadListener], begun_s: float | None = None, within_s: float = RECOVER_S
    ) -> float:
        """Returns when all results have come in time for a while: since when that is so, at the earliest since
        `begun_s`, otherwise since now."""
        asked_s = time.monotonic()
        since_s = asked_s if begun_s is None else begun_s
        rows = self.pace.batches_per_s * BATCH_ROWS * len(listeners)
        second = int(since_s)
        while (now_s := time.monotonic()) < asked_s + within_s:
            for over in range(second, int(now_s)):
                if not in_time([listener.of_second(over) for listener in listeners], rows):
                    since_s = over + 1.0
            second = max(second, int(now_s))
            if now_s - max(since_s, asked_s) >= STEADY_S:
                return since_s
            time.sleep(0.5)
        raise TimeoutError(f"results are not in time again within {within_s:.0f} s")


def processes(system: ChaosSystem) -> dict[int, str]:
    """All processes of the system, by id, with their kind."""
    found: dict[int, str] = {}
    stages = set(system.stages())
    for name, supervised in system.processes.items():
        if supervised.process is not None:
            for process_id in descendants(supervised.process.pid):
                found[process_id] = JAVA if is_java(process_id) else name.partition("-")[0]
    found.update(dict.fromkeys(stages, "stage"))
    return found


def is_java(process_id: int) -> bool:
    """True for a Java process."""
    try:
        return Path(f"/proc/{process_id}/comm").read_text(encoding="utf-8").strip() == "java"
    except (FileNotFoundError, ProcessLookupError):
        return False


def say(text: str) -> None:
    print(f"soak: {text}", flush=True)  # noqa: T201 - this is its output


def main() -> int:
    """Runs by the environment; 0 when all is well."""
    minutes, seed = float(os.environ.get("SOAK_MINUTES", "30")), int(os.environ.get("SOAK_SEED", "1"))
    folder = Path(tempfile.mkdtemp(prefix="cep-soak-"))
    say(f"minutes={minutes:g} seed={seed} folder={folder}")
    gc.freeze()  # what is here already is not looked through while events wait to be counted
    soak = Soak(minutes, seed, folder)
    found = soak.run()
    for life, held in soak.watch.lives.items():
        say(course(life, held))
    for one in found:
        say(one.line())
    judged = [one for one in found if one.kind != JAVA]
    memory = max((one.memory_percent for one in judged), default=0.0)
    descriptors = max((one.descriptors for one in judged), default=0)
    threads = max((one.threads for one in judged), default=0)
    say(f"others took {soak.stolen:.1%} of the processor time wanted here")
    say(
        f"minutes={minutes:g} faults={len(soak.spans) - 1} events={soak.rows} rate={SHARE * soak.rate:.0f} "
        f"p99_ms={soak.latency_ms:.1f} memory={memory:+.2f}%/10min descriptors={descriptors:+d} threads={threads:+d}"
    )
    well = memory < MOST_MEMORY_PERCENT and descriptors <= MOST_DESCRIPTORS and threads <= MOST_THREADS
    return int(not judged or not well or soak.latency_ms >= MOST_P99_MS)


if __name__ == "__main__":
    sys.exit(main())
