"""Compiles the loops of the engine and of checkpoints ahead of their first use: `python -m topology.warm_up`.

The machine code is cached on disk, so this costs a minute once and seconds from then on. A process that calls `warm_up`
has the loops loaded as well, and so have the processes that it forks.
"""

from __future__ import annotations

import sys
import time

from siddhi.engine import warm_up as engine
from topology.checkpoint.storage.chunks import cut


def warm_up() -> None:
    """Compile every loop, or load it from the cache."""
    engine.warm_up()
    cut(b"state")


if __name__ == "__main__":
    started = time.perf_counter()
    warm_up()
    sys.stderr.write(f"the compiled loops are ready ({time.perf_counter() - started:.0f} s)\n")
