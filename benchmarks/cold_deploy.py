"""What the first deployment of the flights plan waits for: its loops, compiled where no cache of them is.

    .venv/bin/python benchmarks/cold_deploy.py [--json]
    .venv/bin/python benchmarks/cold_deploy.py --once     in this process, with the cache as it is

Two processes deploy `samples/flights`, send it a few hundred events and tell what they compiled: the first with an
empty cache, the second with what the first left there. Seconds are processor time from the text of the plan to the
first results, without the start of Python; beside them stands the loop of `benchmarks/engine.py` by the same clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from numba.core import event

from benchmarks.engine import calibrate
from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "flights"
EVENTS = 500
HOUR_MS = 3_600_000


class _Compiled(event.Listener):
    """Notes the functions that are compiled."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        self.names.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object a line and process")
    parser.add_argument("--once", action="store_true", help="deploy in this process and print what it compiled")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(deploy()))
        return
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            measured = {"case": f"flights {name}", **_in_a_new_process(cache)}
            if options.json:
                print(json.dumps(measured), flush=True)
            else:
                print(
                    f"{measured['case']:<14}{measured['seconds']:>7.2f} s of processor time,"
                    f" {len(measured['compiled'])} functions compiled;"
                    f" calibration loop {measured['calibration_per_s']:,.0f}/s",
                    flush=True,
                )


def _in_a_new_process(cache: str) -> dict[str, Any]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__)), "--once"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    measured: dict[str, Any] = json.loads(finished.stdout)
    return measured


def deploy() -> dict[str, Any]:
    """Run the plan up to its first results in this process; return the time and the functions that it compiled."""
    compiled = _Compiled()
    started = time.process_time()
    with event.install_listener("numba:compile", compiled):
        runtime = AppRuntime(analyse(parse((SAMPLE / "KnockOnDelays.siddhiql").read_text(encoding="utf-8"))))
        runtime.start()
        last_ms = 0
        for stream in ("Arrivals", "Departures"):
            records = _events(stream)
            runtime.send(stream, records)
            last_ms = max(last_ms, records.column(0)[-1].as_py())
        runtime.advance_time(last_ms + 2 * HOUR_MS)
    seconds = time.process_time() - started
    calibration = calibrate(clock=time.process_time)
    return {"seconds": seconds, "calibration_per_s": calibration, "compiled": compiled.names}


def _events(stream: str) -> pa.RecordBatch:
    table = pyarrow.parquet.read_table(SAMPLE / f"{stream.lower()}.parquet").slice(0, EVENTS)
    return table.rename_columns(["_timestamp", *table.schema.names[1:]]).combine_chunks().to_batches()[0]


if __name__ == "__main__":
    main()
