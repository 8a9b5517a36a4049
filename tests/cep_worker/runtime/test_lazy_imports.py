"""The first request of a worker does not wait for imports."""

from __future__ import annotations

import subprocess
import sys

CONVERTS = """
import sys
import pyarrow as pa
from cep_worker.runtime.lazy_imports import load_lazy_imports

load_lazy_imports()
before = set(sys.modules)
pa.RecordBatch.from_arrays([pa.array([1, None], pa.int64()), pa.array(["a", None], pa.string())], ["n", "s"])
print(sorted(set(sys.modules) - before))
"""


def test_nothing_is_imported_when_the_first_events_are_converted() -> None:
    done = subprocess.run([sys.executable, "-c", CONVERTS], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert done.stdout.strip() == "[]"
