"""What an app is restored from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.snapshots.envelope import sealed, unsealed
from siddhi.engine.snapshots.snapshot import read_snapshot
from siddhi.errors import SnapshotError
from siddhi.language.parser import parse

NOW_MS = 1_000_000

_APP = """
define stream S (k string, v int);
@primaryKey('k') define table T (k string, v int);
define aggregation A from S select k, sum(v) as total group by k aggregate every sec...hour;
from S#window.length(5) select k, sum(v) as total group by k insert into Sums;
from S#window.unique:first(k) select k insert into Firsts;
from every e1=S[v > 3] -> e2=S[k == e1.k] select e1.k as k, e2.v as v insert into Pairs;
partition with (k of S) begin from S#window.lengthBatch(3) select max(v) as most insert into Most; end;
from S select k, v update or insert into T on T.k == k;
"""


def run_snapshot(data: bytes) -> None:
    """Restore `data` as a snapshot of the app, such as a damaged one. An app that accepts it must keep running."""
    runtime = _waiting()
    try:
        runtime.restore(data)
    except SnapshotError:
        return
    _feed(runtime, NOW_MS + 10_000)
    _waiting.cache_clear()


def run_state(data: bytes) -> None:
    """Restore `data` as the body of a snapshot with a valid checksum: damage that no checksum shows.

    Whether the state makes sense is not checked: an app trusts anyone who can write a valid checksum.
    """
    with suppress(SnapshotError):
        read_snapshot(sealed([data], b"\0" * 16))


@cache
def _waiting() -> AppRuntime:
    """Return the app before anything has been restored; refusals leave it as it is."""
    runtime = AppRuntime(_app())
    runtime.start(NOW_MS)
    return runtime


@cache
def _app() -> AnalysedApp:
    return analyse(parse(_APP))


@cache
def _snapshots() -> tuple[bytes, bytes]:
    """Snapshots of the app, when it has worked and when it has done nothing."""
    working, idle = AppRuntime(_app()), AppRuntime(_app())
    working.start(NOW_MS)
    idle.start(NOW_MS)
    _feed(working, NOW_MS)
    return working.snapshot(), idle.snapshot()


def _feed(runtime: AppRuntime, since_ms: int) -> None:
    for start in range(2):
        columns = {
            "_timestamp": np.arange(5, dtype=np.int64) * 300 + since_ms + start * 2_000,
            "k": pa.array(["a", "b", "a", None, "c"]),
            "v": pa.array([1, 5, 4, 9, start], pa.int32()),
        }
        runtime.send("S", pa.record_batch(columns), since_ms + 5_000)


def snapshot_seeds() -> Iterator[bytes]:
    """Whole snapshots."""
    return iter(_snapshots())


def state_seeds() -> Iterator[bytes]:
    """Their bodies."""
    return (bytes(unsealed(snapshot)[1]) for snapshot in _snapshots())
