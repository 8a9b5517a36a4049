"""Measure one kind on both engines, in turn."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.engines import EngineRefusedError, Ours, PeerEngine, Siddhi
from benchmarks.peers.kinds import QueryKind
from siddhi.errors import SiddhiError

SIDDHI_BATCHES = (1, 100)
"""Siddhi gains nothing from larger chunks."""
_LONGEST_OWN_WARM_UP_S = 0.3
"""Seconds. Our loops are compiled when they are loaded, and the check of results has filled the windows."""
_CHECKED = 20_000
"""Events after which the number of results of both engines is compared."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long everything takes: seconds of warm-up, seconds measured, and how often, by which clock."""

    warm_s: float
    seconds: float
    rounds: int
    by_cpu: bool
    """By the processor time of the thread that sends, which other work on the machine does not touch."""


@dataclass(slots=True)
class PeerResult:
    """What one kind gave: events/s by batch size of both engines, and results for the first events of each."""

    kind: QueryKind
    siddhi: dict[int, float] = field(default_factory=dict)
    ours: dict[int, float] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    error: str | None = None

    def ratio(self, batch: int) -> float | None:
        """Return our rate as a multiple of Siddhi's: single events against single events, else against its better."""
        if batch not in self.ours or not self.siddhi:
            return None
        return self.ours[batch] / (self.siddhi[1] if batch == 1 else max(self.siddhi.values()))

    @property
    def same_outputs(self) -> bool:
        """Return whether both engines gave about as many results; periods of the two begin some milliseconds apart."""
        counts = self.outputs.values()
        return not counts or max(counts) - min(counts) <= max(1, 0.05 * max(counts))

    def document(self) -> dict[str, Any]:
        """Return what the JSON file says about this kind."""
        made = asdict(self)
        made["kind"], made["group"] = self.kind.name, self.kind.group
        made["ratio"] = {batch: self.ratio(batch) for batch in self.ours}
        return made

    @staticmethod
    def of(document: Mapping[str, Any], kind: QueryKind) -> PeerResult:
        """Return the result of `kind` that `document` had returned."""
        siddhi, ours = ({int(size): rate for size, rate in document[engine].items()} for engine in ("siddhi", "ours"))
        return PeerResult(kind, siddhi, ours, document["outputs"], document["error"])


def measure(kind: QueryKind, sizes: Collection[int], effort: Effort, folder: Path, *, peer: bool = True) -> PeerResult:
    """Return the rates of `kind`, with our engine at batches of `sizes`; `folder` has the events and takes the log."""
    result = PeerResult(kind)
    with ExitStack() as stack:
        siddhi = None
        start_ms = int(time.time() * 1_000)
        if peer and kind.peer:
            try:
                log = folder / "siddhi.log"
                siddhi = stack.enter_context(closing(Siddhi(kind, folder / "events", log, by_cpu=effort.by_cpu)))
                start_ms = siddhi.start_ms
                result.outputs["siddhi"] = siddhi.send(_CHECKED, 1).outputs
            except EngineRefusedError as error:
                result.error = f"Siddhi: {error}"
                siddhi = None
        try:
            ours = Ours(kind, start_ms, by_cpu=effort.by_cpu)
        except SiddhiError as error:
            result.error = f"ours: {error}"
            return result
        result.outputs["ours"] = ours.send(_CHECKED, 1_000).outputs
        for number in range(effort.rounds):
            warm = effort.warm_s if number == 0 else 0.1
            if siddhi is not None:
                try:
                    _round(result.siddhi, siddhi, SIDDHI_BATCHES, effort, warm)
                except EngineRefusedError as error:  # it hangs: no reason to lose the kinds behind this one
                    result.error, siddhi = f"Siddhi: {error}", None
                    result.siddhi.clear()  # the rates of some of its batch sizes would make half a comparison
            _round(result.ours, ours, sorted(sizes, reverse=True), effort, min(warm, _LONGEST_OWN_WARM_UP_S))
    return result


def _round(rates: dict[int, float], engine: PeerEngine, sizes: Sequence[int], effort: Effort, warm_s: float) -> None:
    """Keep the better of the rates known and those of a further round."""
    for size in sizes:
        engine.measure(warm_s, size)
        timing = engine.measure(effort.seconds, size)
        rates[size] = max(rates.get(size, 0.0), timing.events / timing.seconds)
