"""Two nodes as real processes: the active one is killed, hangs, and hands over, under load; every count stays exact.

By default it is killed once. With CEP_ACCEPTANCE=1 it returns, hangs for 10 s and wakes up, and hands over, too.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from pathlib import Path

import pytest
from free_ports import free_port

from cep_cli.node.demo import PLAN, check, results
from cep_cli.node.pair import NodePair, PairFeeder, PairNode

LINES = """@app:name('Lines') @app:delivery('exactly-once')
@source(type='file', file.uri='{source}', tailing='true', file.polling.interval='100', @map(type='csv'))
define stream Lines (number long);
@sink(type='file', file.uri='{sink}')
define stream Copies (number long);
from Lines select number insert into Copies;
"""
"""A source that pulls: only the active node may read its file."""

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


def append_lines(source: Path, numbers: range) -> None:
    with source.open("a", encoding="utf-8") as file:
        file.writelines(f"{number}\n" for number in numbers)


def copied(file: Path) -> Counter[int]:
    return Counter(one["number"] for one in results(file))


def test_counts_stay_exact_whatever_happens_to_the_active_node(tmp_path: Path) -> None:
    names = ("control", "console", "http", "ingress", "egress", "guard", "sync")
    ports = {name: free_port() for name in names}
    file, source, copies = (tmp_path / name for name in ("alerts.ndjson", "lines.csv", "copies.ndjson"))
    said: list[str] = []
    folders = {"folders": [str(tmp_path)]}
    with NodePair(tmp_path, ports, worker={"sinks": folders, "file_sources": folders}) as pair:
        pair.start()
        active = pair.await_protected()
        passive = pair.other(active)
        for name in ("http", "ingress", "egress"):
            assert listens(active, ports[name])
            assert not listens(passive, ports[name])
        active.client.deploy(PLAN.format(file=file), replace=False)
        feeder = PairFeeder(pair, "Readings")
        feeder.start()
        active.client.deploy(LINES.format(source=source, sink=copies), replace=False)
        append_lines(source, range(100))
        pair.wait(lambda: results(file), "the first result", FIRST_S)
        pair.wait(lambda: len(copied(copies)) == 100, "the lines of the file", FIRST_S)
        assert set(copied(copies).values()) == {1}, "the passive node has read the file, too"

        active.kill()
        successor = took_over(pair, feeder, active, file)
        append_lines(source, range(100, 200))
        pair.wait(lambda: copied(copies).keys() == set(range(200)), "the successor reads the file on", FIRST_S)

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
