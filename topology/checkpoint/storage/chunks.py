"""Content-defined chunks of a state.

The content determines the cuts, so that unchanged parts result in the same chunks.

A rolling hash over the last 64 bytes runs along; a chunk ends where it is 0 in some of its bits. A cut therefore
depends only on the bytes right before it and on the previous cut: an insertion, removal or change leaves all cuts
except the next one or two as they were. Below the usual size the hash must be 0 in more bits, above it in fewer, which
keeps sizes close together (FastCDC). If no position qualifies, as in columns of few distinct values, the best one is
used, which also depends only on the content.

    before   ──────────┤─────────────┤───────┤────────────┤──────
    after    ───┤++++──┤─────────────┤───────┤────────────┤──────       ++ put in
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from siddhi.engine.jit.kernels import long_kernel

LEAST_BYTES: Final = 16 * 1024
USUAL_BYTES: Final = 64 * 1024
MOST_BYTES: Final = 256 * 1024
"""Chunks are no longer than this, and no shorter than `LEAST_BYTES` but for the last."""

_EARLY_BELOW = np.uint64(1 << 46)
"""18 bits are 0: a cut every 256 KiB, below the usual size."""
_LATE_BELOW = np.uint64(1 << 50)
"""14 bits are 0: a cut every 16 KiB, above it. The high bits have seen the last 64 bytes, or most of them."""
_NEVER_BELOW = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_WINDOW = 64
"""The window of the rolling hash in bytes."""


def _gear() -> npt.NDArray[np.uint64]:
    """Return a number for each byte, always the same."""
    digests = b"".join(hashlib.sha256(bytes([byte])).digest()[:8] for byte in range(256))
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


_GEAR: Final = _gear()


@long_kernel
def _find_ends(data, gear, ends):  # type: ignore[no-untyped-def]
    """Write the end of each chunk into `ends`, and return their number."""
    size = len(data)
    start = count = 0
    while start < size:
        first = min(start + LEAST_BYTES, size)
        hashed = np.uint64(0)
        for place in range(first - min(_WINDOW, first - start), first):
            hashed = (hashed << _ONE) + gear[data[place]]
        usual, most = min(start + USUAL_BYTES, size), min(start + MOST_BYTES, size)
        end = 0
        for place in range(first, usual):
            hashed = (hashed << _ONE) + gear[data[place]]
            if hashed < _EARLY_BELOW:
                end = place + 1
                break
        if end == 0:
            least = _NEVER_BELOW
            for place in range(usual, most):
                hashed = (hashed << _ONE) + gear[data[place]]
                if hashed < least:
                    end, least = place + 1, hashed
                    if hashed < _LATE_BELOW:
                        break
            if most == size and least >= _LATE_BELOW:
                end = size
        ends[count] = end
        count += 1
        start = end
    return count


def cut(data: bytes | memoryview) -> list[memoryview]:
    """Cut `data` into consecutive chunks, which only depend on its bytes.

    They share the memory of `data`. Other threads run meanwhile; 64 MB take some 0.1 s.
    """
    whole = memoryview(data).toreadonly()
    content: npt.NDArray[Any] = np.frombuffer(whole, dtype=np.uint8)
    ends = np.empty(len(content) // LEAST_BYTES + 1, dtype=np.int64)
    count = _find_ends(content, _GEAR, ends)
    pieces, start = [], 0
    for end in ends[:count].tolist():
        pieces.append(whole[start:end])
        start = end
    return pieces
