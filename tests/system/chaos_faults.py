"""What can happen to a process or a host, and how it is done to one of a running system."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from chaos_system import ChaosSystem
from standalone_cluster import parent_of

HANG_S = 8.0
CUT_S = 8.0

Do = Callable[[ChaosSystem, random.Random], str]
"""Does it, and tells to what."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` is told in the statistics."""

    kind: str
    do: Do


def of_kinds(faults: Iterable[Fault], kinds: Collection[str]) -> tuple[Fault, ...]:
    """Those of `kinds`, or all when none are named. Raises ValueError for a kind that does not exist."""
    by_kind = {one.kind: one for one in faults}
    if unknown := sorted(set(kinds) - by_kind.keys()):
        raise ValueError(f"no such kinds of faults: {', '.join(unknown)}; there are: {', '.join(by_kind)}")
    return tuple(one for kind, one in by_kind.items() if not kinds or kind in kinds)


def kill(process_id: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGKILL)


def _hang(process_id: int) -> None:
    """The process pauses for a while, and then continues as if nothing had been."""
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGSTOP)
        time.sleep(HANG_S)
        os.kill(process_id, signal.SIGCONT)


def _stage(system: ChaosSystem, chance: random.Random) -> int:
    stages = system.stages()
    return chance.choice(sorted(stages)) if stages else 0


def _executor(system: ChaosSystem, chance: random.Random) -> int:
    """The Java process under which a stage runs: its Python daemon's parent."""
    stage = _stage(system, chance)
    try:
        return parent_of(parent_of(stage)) if stage else 0
    except FileNotFoundError:
        return 0


def _own(role: str) -> Callable[[ChaosSystem, random.Random], int]:
    def choose(system: ChaosSystem, chance: random.Random) -> int:
        names = sorted(name for name in system.processes if name.startswith(role))
        process = system.processes[chance.choice(names)].process
        return process.pid if process is not None else 0

    return choose


def _to(choose: Callable[[ChaosSystem, random.Random], int], act: Callable[[int], None]) -> Do:
    def do(system: ChaosSystem, chance: random.Random) -> str:
        process_id = choose(system, chance)
        if process_id:
            act(process_id)
        return f"process {process_id}" if process_id else "nobody, there was none"

    return do


def _cut(system: ChaosSystem, _chance: random.Random) -> str:
    """The second host is away for a while."""
    system.network.cut()
    time.sleep(CUT_S)
    system.network.join()
    return "the second host"


FAULTS = (
    Fault("stage killed", _to(_stage, kill)),
    Fault("stage hung", _to(_stage, _hang)),
    Fault("executor killed", _to(_executor, kill)),
    Fault("executor hung", _to(_executor, _hang)),
    Fault("driver killed", _to(_own("driver"), kill)),
    Fault("driver hung", _to(_own("driver"), _hang)),
    Fault("worker killed", _to(_own("worker"), kill)),
    Fault("worker hung", _to(_own("worker"), _hang)),
    Fault("manager killed", _to(_own("manager"), kill)),
    Fault("manager hung", _to(_own("manager"), _hang)),
    Fault("host cut off", _cut),
)
