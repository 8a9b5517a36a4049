"""Draws what `benchmarks/growth.py --json FILE` measured: `python tools/plot_growth.py FILE docs/images/growth.svg`.

Needs matplotlib (`pip install matplotlib`), which nothing else in the project uses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

MARKS = {"b": "o", "d": "s", "e": "D", "h": "^", "j": "v"}


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    series = json.loads(source.read_text(encoding="utf-8"))
    subjects = list(dict.fromkeys(line["grows"] for line in series))
    mpl.rcParams.update({"svg.hashsalt": "growth", "font.family": "sans-serif", "svg.fonttype": "none"})
    figure, panes = plt.subplots(1, len(subjects), figsize=(4 * len(subjects), 3.2), sharey=True, layout="constrained")
    for pane, subject in zip(panes, subjects, strict=True):
        for line in series:
            if line["grows"] == subject:
                sizes, rates = zip(*line["rates"], strict=True)
                pane.plot(sizes, [rate / rates[0] for rate in rates], marker=MARKS[line["case"]], label=line["case"])
        pane.set(xscale="log", xlabel=subject, ylim=(0, 1.6))
        pane.grid(alpha=0.3)
        pane.legend(frameon=False)
    panes[0].set_ylabel("rate, of the first")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
