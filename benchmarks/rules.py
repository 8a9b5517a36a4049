"""How an app with many rules on one stream grows: `.venv/bin/python benchmarks/rules.py --rules 100 1000 10000`.

Ten rules concern an event. Half of them are filters, half patterns whose first state has a filter. Printed are
milliseconds to parse and to build a rule, and events/s in batches of 1, 100 and 4,096, by processor time.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pyarrow as pa

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.language.parser import parse

CONCERNED = 10
"""The number of rules that match one event."""
SIZES = (1, 100, 4_096)
WARM_UP = 3
MEASURED_S = 2.0


def app(rules: int, *, patterns: bool) -> str:
    """Return the text of an app with so many rules; half of those of each device are patterns if `patterns`."""
    devices = max(rules // CONCERNED, 1)
    texts = ["@app:playback define stream S (device string, temp double, load long);"]
    for rule in range(rules):
        device, number = f"'d{rule % devices}'", rule // devices
        if patterns and number % 2:
            texts.append(
                f"from every e1=S[device == {device} and temp > {90 + number}]"
                " -> e2=S[device == e1.device and temp > e1.temp] within 10 sec"
                f" select 'rule {rule}' as rule, e1.device as device, e2.temp as temp insert into Alerts;"
            )
        else:
            texts.append(
                f"from S[device == {device} and temp > {90 + number}]"
                f" select 'rule {rule}' as rule, device, temp insert into Alerts;"
            )
    return "\n".join(texts)


def events(size: int, devices: int, start: int, random: np.random.Generator) -> pa.RecordBatch:
    """Return a batch of events of random devices, one per millisecond from `start` on."""
    return pa.record_batch(
        {
            "_timestamp": pa.array(np.arange(start, start + size)),
            "device": pa.array([f"d{device}" for device in random.integers(0, devices, size)]),
            "temp": pa.array(random.random(size) * 100),
            "load": pa.array(random.integers(0, 1_000, size)),
        }
    )


def rate(runtime: AppRuntime, size: int, devices: int, start: int) -> tuple[float, int]:
    """Events/s in batches of `size`, and the time behind the last event."""
    random = np.random.default_rng(1)
    spent, sent, rounds = 0.0, 0, 0
    while spent < MEASURED_S:
        batches = [events(size, devices, start + number * size, random) for number in range(20)]
        start += 20 * size
        began = time.process_time()
        for batch in batches:
            runtime.send("S", batch)
        if rounds >= WARM_UP:
            spent += time.process_time() - began
            sent += 20 * size
        rounds += 1
    return sent / spent, start


def main() -> None:
    """Measure and print a line for each number of rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--filters-only", action="store_true")
    options = parser.parse_args()
    sys.stdout.write(
        "   rules   parse/rule   build/rule" + "".join(f"{f'events/s at {size:,}':>22}" for size in SIZES) + "\n"
    )
    for rules in options.rules:
        text = app(rules, patterns=not options.filters_only)
        began = time.process_time()
        parsed = parse(text)
        parse_ms = 1_000 * (time.process_time() - began) / rules
        began = time.process_time()
        runtime = AppRuntime(analyse(parsed))
        build_ms = 1_000 * (time.process_time() - began) / rules
        results = [0]
        runtime.add_stream_callback("Alerts", lambda batch, results=results: results.append(batch.num_rows))  # type: ignore[misc]
        runtime.start(0)
        line, start = f"{rules:>8,}{parse_ms:>10.2f} ms{build_ms:>10.2f} ms", 1_000_000
        for size in SIZES:
            found, start = rate(runtime, size, max(rules // CONCERNED, 1), start)
            line += f"{found:>22,.0f}"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
