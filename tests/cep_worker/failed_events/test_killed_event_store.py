"""What the error store has taken is there after its process was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from worker_world import KEY

from cep_worker.config import ErrorsConfig
from cep_worker.failed_events.store import FailedEventStore

KEEPS = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
sys.path.insert(0, {tests!r})
from worker_world import KEY, alerts
from cep_worker.config import ErrorsConfig
from cep_worker.failed_events.entries import FailedBatch, FailureOrigin
from cep_worker.failed_events.store import FailedEventStore
store = FailedEventStore(ErrorsConfig({folder!r}), "worker-1", lambda: 0)
for number in range(10_000):
    store.keep(FailureOrigin(KEY, "Alerts", "stream"), [FailedBatch(alerts((number, "UA", number)), str(number))])
    print(number, flush=True)
"""


@pytest.mark.thorough
def test_every_entry_that_was_taken_is_there_after_a_kill(tmp_path: Path) -> None:
    here = Path(__file__).parents[1]
    text = KEEPS.format(here=str(here), tests=str(here.parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own text
        assert process.stdout is not None
        taken = [int(process.stdout.readline()) for _ in range(20)]
        process.kill()
        taken += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    store = FailedEventStore(ErrorsConfig(str(tmp_path)), "worker-1", lambda: 0)
    store.open_existing()
    kept = [int(entry.failed.reason) for entry in store.entries(KEY, None, 20_000)]
    assert kept[: len(taken)] == taken
    store.close()
