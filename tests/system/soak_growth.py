"""What processes hold over time, and whether it grows: memory, descriptors, threads. The arithmetic is pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

WARM_UP_S = 120.0
"""What a process takes in its first minutes is no growth: caches fill, and Java takes its heap."""
SHORTEST_S = 120.0
"""Of a life that was watched for a shorter time, nothing can be told."""
TEN_MINUTES_S = 600.0
SPELL_S = 180.0
"""A life is told in spells of this length."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a process held at a time: resident bytes, open descriptors, threads."""

    at_s: float
    memory_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How what the processes of one kind hold grew: the memory in percent of its mean in ten minutes, the others by how
    many in one life at most. `watched_s` is how long their lives were watched in all."""

    kind: str
    watched_s: float
    memory_bytes: int
    memory_percent: float
    descriptors: int
    threads: int

    def line(self) -> str:
        """For people."""
        return (
            f"{self.kind}: watched {self.watched_s:.0f} s, {self.memory_bytes / 2**20:.0f} MiB "
            f"{self.memory_percent:+.2f} %/10 min, descriptors {self.descriptors:+d}, threads {self.threads:+d}"
        )


Life = tuple[str, int]
"""Kind and id of a process."""


@dataclass(slots=True)
class Watch:
    """Notes what the processes of a system hold."""

    lives: dict[Life, list[Holding]] = field(default_factory=lambda: defaultdict(list))

    def look(self, now_s: float, process_ids: Mapping[int, str]) -> None:
        """Of each process of a kind."""
        for process_id, kind in process_ids.items():
            held = holding(process_id, now_s)
            if held is not None:
                self.lives[kind, process_id].append(held)

    def growth(self) -> list[Growth]:
        """Of each kind of which some process lived long enough."""
        return growth(self.lives)


def course(life: Life, held: Sequence[Holding]) -> str:
    """For people, who wonder when a process grew: the median of its memory in each spell of its life, and the most."""
    kind, process_id = life
    spells: dict[int, list[int]] = defaultdict(list)
    for one in held:
        spells[int((one.at_s - held[0].at_s) // SPELL_S)].append(one.memory_bytes)
    told = " ".join(f"{median(spells[spell]) / 2**20:.0f}" for spell in sorted(spells))
    most = max(one.memory_bytes for one in held) / 2**20
    return f"{kind} (process {process_id}): MiB in spells of {SPELL_S:.0f} s: {told}; at most {most:.0f}"


def growth(lives: Mapping[Life, Sequence[Holding]]) -> list[Growth]:
    """What each kind's lives have in common, told without the first minutes of each."""
    by_kind: dict[str, list[Sequence[Holding]]] = defaultdict(list)
    for (kind, _), held in sorted(lives.items()):
        warm = [one for one in held if one.at_s - held[0].at_s >= WARM_UP_S]
        if warm and warm[-1].at_s - warm[0].at_s >= SHORTEST_S:
            by_kind[kind].append(warm)
    return [_growth(kind, warm) for kind, warm in sorted(by_kind.items())]


def _growth(kind: str, lives: Sequence[Sequence[Holding]]) -> Growth:
    memory = [[(one.at_s, float(one.memory_bytes)) for one in held] for held in lives]
    mean = math.fsum(bytes_ for life in memory for _, bytes_ in life) / sum(map(len, memory))
    return Growth(
        kind=kind,
        watched_s=sum(held[-1].at_s - held[0].at_s for held in lives),
        memory_bytes=round(mean),
        memory_percent=100 * slope(memory) * TEN_MINUTES_S / mean,
        descriptors=max(held[-1].descriptors - held[0].descriptors for held in lives),
        threads=max(held[-1].threads - held[0].threads for held in lives),
    )


def slope(lives: Iterable[Sequence[tuple[float, float]]]) -> float:
    """How much more there is each second: the least squares' common slope of lines that begin where they like."""
    above = below = 0.0
    for points in lives:
        mean_s = math.fsum(at_s for at_s, _ in points) / len(points)
        mean = math.fsum(value for _, value in points) / len(points)
        above += math.fsum((at_s - mean_s) * (value - mean) for at_s, value in points)
        below += math.fsum((at_s - mean_s) ** 2 for at_s, _ in points)
    return above / below if below else 0.0


def holding(process_id: int, now_s: float) -> Holding | None:
    """What the process holds; None when there is none."""
    folder = Path(f"/proc/{process_id}")
    try:
        status = dict(line.split(":", 1) for line in (folder / "status").read_text(encoding="utf-8").splitlines())
        descriptors = sum(1 for _ in (folder / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    if "VmRSS" not in status:  # it has ended, and nobody has asked how
        return None
    return Holding(now_s, int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"]))


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Ticks of all processors since the machine's start: those in which something ran here, and those in which
    something wanted to, while the host let another machine run."""

    used: int
    stolen: int

    def stolen_since(self, earlier: ProcessorTime) -> float:
        """The share (0 to 1) that others took of the time that was wanted here."""
        stolen = self.stolen - earlier.stolen
        wanted = self.used - earlier.used + stolen
        return stolen / wanted if wanted else 0.0


def processor_time(stat: str) -> ProcessorTime:
    """What the text of `/proc/stat` tells (proc(5))."""
    user, nice, system, _idle, _waited, interrupts, soft_interrupts, stolen = map(int, stat.split()[1:9])
    return ProcessorTime(user + nice + system + interrupts + soft_interrupts, stolen)


def descendants(process_id: int) -> list[int]:
    """The process and all that it has started, and those in turn."""
    found = [process_id]
    for one in found:
        for task in _entries(Path(f"/proc/{one}/task")):
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []
