"""Nodes are restarted and shut down in the console, under load, as an administrator does it: nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import NEEDS_CHROMIUM, Browser
from free_ports import free_port

from cep_cli.node.demo import PLAN, check, results
from cep_cli.node.pair import NodePair, PairFeeder, PairNode

pytestmark = [pytest.mark.spark, pytest.mark.cluster, NEEDS_CHROMIUM]

NAMES = ("control", "console", "http", "ingress", "egress", "guard", "sync")
FIRST_S, RESTARTED_S = 300.0, 300.0
ON_A_BUSY_MACHINE_S = 60.0


def open_cluster(page: Browser, node: PairNode) -> None:
    page.open(f"http://{node.host}:{node.console}/cluster")


def press(page: Browser, button: str, question: str) -> str:
    """The button was pressed and its question, whose text is returned, was answered with yes."""
    # The page is renewed every second: the button is there once the manager knows that the nodes are protected.
    page.until(f"document.getElementById('{button}') !== null", ON_A_BUSY_MACHINE_S)
    page.evaluate(f"document.getElementById('{button}').click()")
    page.until("document.querySelector('dialog[open]') !== null")
    assert page.evaluate("document.getElementById('ask-title').textContent") == question
    text: str = page.evaluate("document.getElementById('ask-text').textContent")
    page.evaluate("document.querySelector('dialog button[value=yes]').click()")
    page.until("document.querySelector('.notice') !== null", ON_A_BUSY_MACHINE_S)
    return text


def worker_of(node: PairNode) -> int:
    """The process id of the node's worker."""
    mirror = node.mirror
    return mirror.process if mirror is not None else 0


def is_protected(pair: NodePair, active: PairNode) -> bool:
    mirror = active.mirror
    return active.is_active() and mirror is not None and mirror.state == "protected" and active.client.is_healthy()


def test_nodes_restart_in_turn_and_one_is_shut_down_and_nothing_is_lost(tmp_path: Path, chromium: Browser) -> None:
    file, said = tmp_path / "alerts.ndjson", list[str]()
    with NodePair(tmp_path, {name: free_port() for name in NAMES}) as pair:
        pair.start()
        active = pair.await_protected()
        passive = pair.other(active)
        active.client.deploy(PLAN.format(file=file), replace=False)
        feeder = PairFeeder(pair, "Readings")
        feeder.start()
        pair.wait(lambda: results(file), "the first result", FIRST_S)

        # One node: the passive one has other processes afterwards, and the active one stays active.
        worker = worker_of(passive)
        open_cluster(chromium, active)
        text = press(chromium, f"restart-{passive.name}", f"Restart {passive.name}?")
        assert "nothing that was accepted is lost" in text
        pair.wait(lambda: worker_of(passive) not in (0, worker), "the passive node has restarted", RESTARTED_S)
        pair.wait(lambda: is_protected(pair, active), "the passive node has every event again", RESTARTED_S)

        # Both, one after the other: in the end the other node is active.
        workers = [worker_of(node) for node in pair.nodes]
        open_cluster(chromium, active)
        text = press(chromium, "restart-nodes", "Restart both?")
        assert "one after the other" in text
        chromium.until(
            f"document.body.textContent.includes('{passive.name}')"
            " && document.body.textContent.includes('restarts when the other node is back')",
            ON_A_BUSY_MACHINE_S,
        )
        pair.wait(passive.is_active, "the restarted node is active", RESTARTED_S)
        pair.wait(lambda: is_protected(pair, passive), "the node that handed over has every event again", RESTARTED_S)
        assert all(now not in (0, before) for now, before in zip(map(worker_of, pair.nodes), workers, strict=True))
        active, passive = passive, active

        # The one that is passive now is shut down, and stays away; the active one accepts events alone.
        before = len(results(file))
        process, passive.process = passive.process, None
        assert process is not None
        open_cluster(chromium, active)
        text = press(chromium, f"stop-{passive.name}", f"Shut down {passive.name}?")
        assert "stays away until it is started on its host" in text
        pair.wait(lambda: process.poll() is not None, "the node has ended", RESTARTED_S)
        assert process.returncode == 0
        pair.wait(lambda: len(results(file)) > before, "results continue", RESTARTED_S)
        chromium.until("document.body.textContent.includes('away')", ON_A_BUSY_MACHINE_S)

        feeder.close()
        check(feeder, lambda: results(file), pair, said.append)
    assert "lost 0, twice 0, counts exact" in said[0]
    assert feeder.uncertain == [], "orderly restarts answer every request"
