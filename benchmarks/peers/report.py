"""The table and the summary that a run prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.peers.measure import PeerResult

_LIMITS = {1: (0.1,), 100: (1.0, 0.3)}
"""Ratios below which kinds are counted, by batch size; 1 for all others."""


def title(sizes: Sequence[int]) -> str:
    """Return the head of the table."""
    ratios = "".join(f"{f'x at {size}':>11}" for size in sizes)
    rates = "".join(f"{f'ours {size}':>11}" for size in sizes)
    return f"{'kind':<24}{ratios}{'Siddhi 1':>11}{'Siddhi 100':>11}{rates}  results"


def line(result: PeerResult, sizes: Sequence[int]) -> str:
    """Return the table's line of a kind."""
    ratios = "".join(f"{_ratio(result.ratio(size)):>11}" for size in sizes)
    siddhi = "".join(f"{_rate(result.siddhi.get(size)):>11}" for size in (1, 100))
    rates = "".join(f"{_rate(result.ours.get(size)):>11}" for size in sizes)
    return f"{result.kind.name:<24}{ratios}{siddhi}{rates}  {result.error or _outputs(result)}"


def summary(results: Sequence[PeerResult], sizes: Sequence[int]) -> str:
    """Return for each size the geometric mean, the slowest kind, and how many kinds are below the limits."""
    lines = []
    for size in sizes:
        ratios = {result.kind.name: ratio for result in results if (ratio := result.ratio(size)) is not None}
        if not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        slowest = min(ratios, key=ratios.__getitem__)
        text = f"at {size}: {len(ratios)} kinds, geometric mean {_ratio(mean)}x"
        text += f", slowest {slowest} {_ratio(ratios[slowest])}x"
        for limit in _LIMITS.get(size, (1.0,)):
            text += f", {sum(ratio < limit for ratio in ratios.values())} below {limit:g}x"
        lines.append(text)
    without = [result.kind.name for result in results if not result.siddhi]
    if without:
        lines.append(f"without a peer, in no mean: {', '.join(without)}")
    different = [result.kind.name for result in results if not result.same_outputs]
    if different:
        lines.append(f"numbers of results differ: {', '.join(different)}")
    return "\n".join(["", *lines])


def _outputs(result: PeerResult) -> str:
    counts = result.outputs
    return f"{counts['ours']:,}" if result.same_outputs else f"{counts['ours']:,} (Siddhi {counts['siddhi']:,})"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}" if ratio < 1 else f"{ratio:.2f}"


def _rate(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.1f} k"
