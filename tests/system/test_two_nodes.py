"""Two nodes as real processes: the active one is killed, hangs, and hands over, under load; every count stays exact.

By default it is killed once. With CEP_ACCEPTANCE=1 it returns, hangs for 10 s and wakes up, and hands over, too.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from free_ports import free_port

from cep_cli.node.demo import PLAN, check, results
from cep_cli.node.pair import NodePair, PairFeeder, PairNode

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

LONG = os.environ.get("CEP_ACCEPTANCE") == "1"
HANG_S = 10.0
FIRST_S = 300.0


def listens(node: PairNode, port: int) -> bool:
    """Whether a connection to the node's port is taken."""
    try:
        socket.create_connection((node.host, port), 1.0).close()
    except ConnectionRefusedError:
        return False
    return True


def took_over(pair: NodePair, feeder: PairFeeder, former: PairNode, file: Path) -> PairNode:
    """Wait until the other node is active, takes events and publishes results."""
    since, before = time.monotonic(), len(results(file))
    successor = pair.other(former)
    pair.wait(successor.is_active, "the other node is active")
    pair.wait(lambda: feeder.last_accepted_at > since + 0.5 and not former.is_active(), "it takes events")
    pair.wait(lambda: len(results(file)) > before, "results continue", FIRST_S)
    return successor


def test_counts_stay_exact_whatever_happens_to_the_active_node(tmp_path: Path) -> None:
    names = ("control", "console", "http", "ingress", "egress", "guard", "sync")
    ports = {name: free_port() for name in names}
    file = tmp_path / "alerts.ndjson"
    said: list[str] = []
    with NodePair(tmp_path, ports) as pair:
        pair.start()
        active = pair.await_protected()
        passive = pair.other(active)
        for name in ("http", "ingress", "egress"):
            assert listens(active, ports[name])
            assert not listens(passive, ports[name])
        active.client.deploy(PLAN.format(file=file), replace=False)
        feeder = PairFeeder(pair, "Readings")
        feeder.start()
        pair.wait(lambda: results(file), "the first result", FIRST_S)

        active.kill()
        successor = took_over(pair, feeder, active, file)

        if LONG:
            active.start()
            assert pair.await_protected() is successor

            successor.hang()
            pair.wait(pair.other(successor).is_active, "the other node is active")
            time.sleep(HANG_S)
            successor.wake()
            active = took_over(pair, feeder, successor, file)
            assert pair.await_protected() is active
            assert not listens(successor, ports["http"])

            active.client.switch_nodes()
            successor = took_over(pair, feeder, active, file)
            assert pair.await_protected() is successor

        feeder.close()
        check(feeder, lambda: results(file), pair, said.append)
    assert "lost 0, twice 0, counts exact" in said[0]
