"""How soon a plan runs that is deployed on a warm driver, and how a system answers that runs many plans.

    .venv/bin/python benchmarks/deploy.py [--plans 50] [--json]

Prints the seconds from deploying a plan to its being active, and to its being connected to its worker, one plan after
the other; then deploys `--plans` small plans on eight slots and prints how many of them run and how many wait and say
why, and how long the manager takes for REST calls meanwhile, among them the console's.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import requests

from cep_cli.system.local_system import LocalSystem, Ports

PLAN = """
@Plan:name('{name}')
@Import('{name}.departures:1.0.0') define stream Departures (carrier string, dep_delay int);
@Export('{name}.late:1.0.0') define stream Late (carrier string, dep_delay int);
from Departures[dep_delay > 60] select carrier, dep_delay insert into Late;
"""
SINGLE_PLANS = 8
POLL_S = 0.01
SETTLE_S = 120.0
CALLS = 400
PATHS = ("/api/v1/plans", "/api/v1/cluster", "/api/v1/plans/Many0", "/api/v1/plans/Many0/topology", "/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    environment = {**os.environ, "CEP_DRIVER__SPARK__MASTER": "local[8]"}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalSystem(Path(folder), Ports.free(), environment=environment) as system,
    ):
        times = [_deployment(system, f"Single{number}") for number in range(SINGLE_PLANS)]
        many = _many(system, options.plans)
    active, connected = zip(*times, strict=True)
    measured = {
        "active_s": {"best": round(min(active), 2), "median": round(median(active), 2)},
        "connected_s": {"best": round(min(connected), 2), "median": round(median(connected), 2)},
        **many,
    }
    if options.json:
        print(json.dumps(measured))
        return
    for name, value in measured.items():
        print(f"{name:<12} {value}")


def _deployment(system: LocalSystem, name: str) -> tuple[float, float]:
    """Seconds from the call that deploys a plan to active, and to connected; it is undeployed then."""
    started = time.monotonic()
    system.client.deploy(PLAN.format(name=name), replace=False)
    active_s = 0.0
    while True:
        status = system.client.plan(name)["status"]
        after_s = time.monotonic() - started
        if status["topology"]["state"] == "active":
            active_s = active_s or after_s
            if status["connected"]:
                break
        if after_s > SETTLE_S:
            raise SystemExit(f"{name} is not connected after {SETTLE_S:.0f} s: {status}")
        time.sleep(POLL_S)
    system.client.undeploy(name, discard=True)
    while system.client.cluster()["driver"]["slots_free"] < system.client.cluster()["driver"]["slots_total"]:
        time.sleep(POLL_S)
    return active_s, after_s


def _many(system: LocalSystem, plans: int) -> dict[str, Any]:
    """Deploy `plans` plans; report their states, and how calls are answered."""
    started = time.monotonic()
    texts = [PLAN.format(name=f"Many{number}") for number in range(plans)]
    deploying = [_seconds(partial(system.client.deploy, text, replace=False)) for text in texts]
    while True:
        states = [plan["status"]["topology"] for plan in system.client.plans()]
        settled = [one["state"] == "active" or (one["state"] == "waiting" and one["reason"]) for one in states]
        if all(settled):
            break
        if time.monotonic() - started > SETTLE_S:
            raise SystemExit(f"not settled after {SETTLE_S:.0f} s: {Counter(one['state'] for one in states)}")
        time.sleep(POLL_S)
    settled_s = time.monotonic() - started
    calls = [_seconds(partial(_get, system, PATHS[number % len(PATHS)])) for number in range(CALLS)]
    return {
        "plans": dict(Counter(one["state"] for one in states)),
        "settled_s": round(settled_s, 2),
        "deploy_call_ms": _percentiles(deploying),
        "rest_ms": _percentiles(calls),
    }


def _get(system: LocalSystem, path: str) -> None:
    requests.get(f"{system.client.url}{path}", timeout=30).raise_for_status()


def _seconds(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


def _percentiles(seconds: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(np.array(seconds) * 1000, [50, 99])
    return {"p50": round(float(p50), 1), "p99": round(float(p99), 1)}


if __name__ == "__main__":
    main()
