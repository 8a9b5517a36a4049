"""What can happen to the files of a running system: each kind, damaged in each way while its process is dead."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos_faults import Do, Fault, kill
from chaos_system import ChaosSystem

from cep_worker.storage.losses import LOST_FILE

READ_ONLY_S = 5.0
FOREIGN_S = 4.0
"""So long managers are on a damaged database before the operator puts the copy back."""
AT_ONCE = int(os.environ.get("CHAOS_AT_ONCE", "1"))
"""So many files are damaged while their process is down, each of another plan."""
TENANT = "-1234"
"""Whose plans they are: the folders of plans lie in one of this name."""
DATABASE = ("manager.db", "manager.db-wal", "manager.db-shm", "manager.db.last")
NOTED = ("unreadable", "could not be read back")
"""Words of the alerts about events that were lost."""

TALLY: Counter[str] = Counter()
"""How many files were damaged, by what they belong to and in which way."""

Damage = Callable[[Path, random.Random], None]


def _flip(file: Path, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(chance.randint(1, 5)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def _truncate(file: Path, chance: random.Random) -> None:
    os.truncate(file, chance.randrange(file.stat().st_size + 1))


def _empty(file: Path, _: random.Random) -> None:
    os.truncate(file, 0)


def _remove(file: Path, chance: random.Random) -> None:
    if file.name == LOST_FILE:  # removing it says that the count was read
        _flip(file, chance)
    else:
        file.unlink()


def _read_only(file: Path, _: random.Random) -> None:
    """Nobody can change the file, root included; `_writable` ends that."""
    subprocess.run(["chattr", "+i", str(file)], check=True, capture_output=True)  # noqa: S603, S607


def _writable(file: Path) -> None:
    subprocess.run(["chattr", "-i", str(file)], check=True, capture_output=True)  # noqa: S603, S607


DAMAGES: Mapping[str, Damage] = {
    "flipped": _flip, "truncated": _truncate, "emptied": _empty, "removed": _remove, "read-only": _read_only,
}  # fmt: skip


def _damaged(files: Sequence[Path], what: str, damage: str, chance: random.Random) -> str:
    done, told = [], []
    for file in _of_different_plans(files, chance):
        try:
            DAMAGES[damage](file, chance)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            told.append(f"nothing: {error}")  # it has gone, or there is no chattr, or no file system that knows it
        else:
            done.append(file)
            told.append(f"{file.parent.name}/{file.name}")
    TALLY[f"{what} {damage}"] += len(done)
    if damage == "read-only" and done:
        time.sleep(READ_ONLY_S)
        for file in done:
            _writable(file)
    return ", ".join(told) or "nothing, there was no file"


def _of_different_plans(files: Sequence[Path], chance: random.Random) -> list[Path]:
    """Choose files of at most so many plans, one of each: a plan has copies of what it cannot do without."""
    by_plan: defaultdict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_plan[file.as_posix().partition(f"/{TENANT}/")[2].partition("/")[0]].append(file)
    if AT_ONCE == 1:
        return [chance.choice(files)] if files else []
    plans = chance.sample(sorted(by_plan), min(AT_ONCE, len(by_plan)))
    return [chance.choice(by_plan[plan]) for plan in plans]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _of_worker(part: str, damage: str) -> Do:
    def do(system: ChaosSystem, chance: random.Random) -> str:
        name = chance.choice(sorted(one for one in system.processes if one.startswith("worker")))
        process = system.processes[name].process
        if process is not None:
            kill(process.pid)
            process.wait()
        return _damaged(_files(system.folder / name / "var" / "cep" / part), part, damage, chance)

    return do


def _changed_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _of_checkpoint(damage: str) -> Do:
    """The topologies begin from their checkpoints, as the driver or a stage of theirs is killed."""

    def do(system: ChaosSystem, chance: random.Random) -> str:
        files = _files(system.folder / "checkpoints")
        newest = sorted(files, key=_changed_s)[-40:]
        told = _damaged(newest, "checkpoint", damage, chance)
        stages = system.stages()
        driver = system.processes["driver"].process
        if driver is not None and chance.random() < 0.3:
            kill(driver.pid)
        elif stages:
            kill(chance.choice(sorted(stages)))
        return told

    return do


def _of_manager(damage: str) -> Do:
    """The managers start on what is left, and say so; then the operator stops them and puts the copy back."""

    def do(system: ChaosSystem, chance: random.Random) -> str:
        copies = system.folder / "copies"
        copies.mkdir(exist_ok=True)
        _kill_managers(system)
        files = [system.folder / name for name in DATABASE if (system.folder / name).exists()]
        for file in files:
            shutil.copy2(file, copies / file.name)
        told = _damaged(files, "database", damage, chance)
        if damage != "read-only":
            time.sleep(FOREIGN_S)
            _kill_managers(system)
            for file in [system.folder / name for name in DATABASE]:
                file.unlink(missing_ok=True)
            for file in files:
                shutil.copy2(copies / file.name, file)
        return told

    return do


def _kill_managers(system: ChaosSystem) -> None:
    for name in ("manager-1", "manager-2"):
        process = system.processes[name].process
        if process is not None:
            kill(process.pid)
            process.wait()


FILE_FAULTS = tuple(
    Fault(f"{what} {damage}", do(damage))
    for damage in DAMAGES
    for what, do in (
        ("log", lambda damage: _of_worker("wal", damage)),
        ("results", lambda damage: _of_worker("results", damage)),
        ("checkpoint", _of_checkpoint),
        ("database", _of_manager),
    )
)


def counted_lost(system: ChaosSystem) -> dict[str, int]:
    """How many events and results of each plan the workers say were lost."""
    counts: dict[str, int] = {}
    for worker in (system.answer(lambda client: client.workers()) or {}).get("workers", ()):
        for plan in worker["plans"]:
            told = [*plan["write_ahead_logs"], *([plan["prepared"]] if plan["prepared"] else [])]
            counts[plan["plan"]] = counts.get(plan["plan"], 0) + sum(one["lost_events"] for one in told)
    return counts


def is_alerted(system: ChaosSystem) -> bool:
    """Whether somebody is told of events that were lost."""
    found: Any = system.answer(lambda client: client.overview()) or {}
    return any(word in str(found.get("alerts", "")) for word in NOTED)
