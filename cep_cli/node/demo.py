"""`cep node demo`: start two nodes on this machine, kill the active one, and check that all counts are exact."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cep_cli.node.pair import NodePair, PairFeeder, PairNode
from cep_cli.system.local_system import LocalSystemError, Ports

PLAN = """@Plan:name('Alerts')
@Plan:delivery('exactly-once')
@Import('Readings:1.0.0') define stream Readings (number long);
@Export('Alerts:1.0.0') @sink(type='file', file.uri='{file}')
define stream Alerts (number long, readings long);
@info(name='alerts') from Readings#window.length(100000000)
select number, count() as readings insert into Alerts;
"""
BEFORE_S, AFTER_S = 5.0, 5.0
RESULTS_S = 60.0
FIRST_S = 300.0
"""Seconds; the first start of a version compiles the engine's loops."""


def run_demo(say: Callable[[str], None]) -> None:
    """Run the demo. Raises LocalSystemError when an event is lost or counted twice."""
    folder = Path(tempfile.mkdtemp(prefix="cep-ha-"))
    free = Ports.free()
    ports = {name: getattr(free, name) for name in ("control", "console", "http", "ingress", "egress")}
    spare = Ports.free()
    ports |= {"guard": spare.control, "sync": spare.console}
    say(f"starting node-1 (127.0.0.1) and node-2 (127.0.0.2) in {folder} …")
    with NodePair(folder, ports) as pair:
        pair.start()
        active = pair.await_protected()
        say(f"{active.name} is ACTIVE, {pair.other(active).name} is passive and has every accepted event: PROTECTED")
        alerts = folder / "alerts.ndjson"
        active.client.deploy(PLAN.format(file=alerts.resolve()), replace=False)
        feeder = PairFeeder(pair, "Readings")
        feeder.start()
        pair.wait(lambda: results(alerts), "the first alert", FIRST_S)
        _watch(say, pair, feeder, alerts, BEFORE_S)
        say(f"kill -9 of all processes of {active.name}")
        killed_at = time.monotonic()
        before = len(results(alerts))
        active.kill()
        successor = pair.other(active)
        pair.wait(successor.is_active, "the other node is active")
        say(f"  {time.monotonic() - killed_at:.1f} s: {successor.name} is ACTIVE; NOT PROTECTED while it is alone")
        pair.wait(lambda: feeder.last_accepted_at > killed_at + 0.1, "the other node takes events")
        say(f"  {feeder.last_accepted_at - killed_at:.1f} s: it takes events")
        pair.wait(lambda: len(results(alerts)) > before, "alerts continue")
        say(f"  {time.monotonic() - killed_at:.1f} s: alerts continue")
        _watch(say, pair, feeder, alerts, AFTER_S)
        say(f"{active.name} starts again …")
        active.start()
        pair.await_protected()
        say(f"{active.name} is passive and has caught up: PROTECTED")
        feeder.close()
        check(feeder, lambda: results(alerts), pair, say)
    shutil.rmtree(folder)


def results(file: Path) -> list[dict[str, int]]:
    """Return the alerts in the file, as far as they are whole."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def check(
    feeder: PairFeeder, read: Callable[[], list[dict[str, int]]], pair: NodePair, say: Callable[[str], None]
) -> None:
    """Compare the ledger with the alerts. Raises LocalSystemError for an event that is lost or counted twice."""
    accepted, uncertain = set(feeder.accepted), set(feeder.uncertain)
    pair.wait(lambda: accepted <= {alert["number"] for alert in read()}, "an alert for each event", RESULTS_S)
    alerts = read()
    counted = Counter(alert["number"] for alert in alerts)
    twice = [number for number, times in counted.items() if times > 1]
    strange = counted.keys() - accepted - uncertain
    sound = [alert["readings"] for alert in alerts] == list(range(1, len(alerts) + 1))
    say(
        f"acknowledged {len(accepted)}, unanswered {len(uncertain)}, alerts {len(alerts)}: lost 0, twice {len(twice)}, "
        f"counts {'exact' if sound else 'WRONG'}; longest time without an acknowledgement {feeder.longest_gap_s:.1f} s"
    )
    if twice or strange or not sound:
        raise LocalSystemError(f"the counts are wrong: twice {twice[:5]}, unknown {sorted(strange)[:5]}")


def _watch(say: Callable[[str], None], pair: NodePair, feeder: PairFeeder, alerts: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(1.0, left))
        active: PairNode | None = pair.active()
        name = active.name if active is not None else "none"
        say(f"  active {name}   acknowledged {len(feeder.accepted):6}   alerts {len(results(alerts)):6}")
