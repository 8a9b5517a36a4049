"""Probing a port: an ended process refuses, one that is stopped or slow does not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cep_common.ids import Endpoint
from cep_common.sockets.probe import PATIENCE_MS, GreetingProbe, Probes

LISTENS = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(60)
"""


HANGS = """
import re, zmq
socket = zmq.Context().socket(zmq.ROUTER)
print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
re.match("(a+)+$", "a" * 60 + "b")
"""


def _is_stopped(process_id: int) -> bool:
    """Return whether the signal has reached every thread."""
    threads = Path(f"/proc/{process_id}/task").glob("*/stat")
    return {path.read_text().rpartition(")")[2].split()[0] for path in threads} == {"T"}


def _runs(probe: GreetingProbe, endpoint: Endpoint, within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while not probe.runs and time.monotonic() < deadline_s:
        probe.ask(endpoint, 0)
        time.sleep(0.005)
    return probe.runs


def test_a_process_that_hangs_in_a_call_greets_and_one_that_is_stopped_does_not() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE) as process:  # noqa: S603 - our own
        assert process.stdout is not None
        endpoint = Endpoint("127.0.0.1", int(process.stdout.readline()))
        probe = GreetingProbe()
        try:
            os.kill(process.pid, signal.SIGSTOP)
            while not _is_stopped(process.pid):
                time.sleep(0.005)
            assert not _runs(probe, endpoint, within_s=0.3)
            os.kill(process.pid, signal.SIGCONT)
            assert _runs(probe, endpoint, within_s=10)
            probe.forget()
            assert not probe.runs
        finally:
            process.kill()
        process.wait()
        assert _runs(probe, endpoint, within_s=10), "it was not stopped: it has ended"


def _refused(probes: Probes[str], within_s: float = 2.0, until: Callable[[list[str]], bool] = bool) -> list[str]:
    found: list[str] = []
    deadline_s = time.monotonic() + within_s
    while not until(found) and time.monotonic() < deadline_s:
        found += probes.refused(0)
        time.sleep(0.005)
    return found


def test_a_process_that_was_killed_refuses_and_one_that_is_stopped_does_not() -> None:
    command = [sys.executable, "-c", LISTENS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own command
        assert process.stdout is not None
        endpoint = Endpoint("127.0.0.1", int(process.stdout.readline()))
        probes: Probes[str] = Probes()
        os.kill(process.pid, signal.SIGSTOP)
        probes.begin("stopped", endpoint, 0)
        assert _refused(probes, within_s=0.3) == []
        process.kill()
        process.wait()
        probes.begin("killed", endpoint, 0)
        assert _refused(probes) == ["killed"]
        probes.close()


def test_a_host_name_is_not_looked_up() -> None:
    probes: Probes[str] = Probes()
    probes.begin("somebody", Endpoint("host.invalid", 1), 0)
    assert probes.refused(PATIENCE_MS) == []


def test_nobody_is_probed_twice_at_once_and_an_attempt_without_an_answer_is_given_up() -> None:
    with socket.socket() as silent:  # a full backlog lets further attempts wait
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        endpoint = Endpoint("127.0.0.1", silent.getsockname()[1])
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.settimeout(0.0)
            filler.connect_ex((endpoint.host, endpoint.port))
            fillers.append(filler)
        probes: Probes[str] = Probes()
        probes.begin("silent", endpoint, 0)
        probes.begin("silent", endpoint, 0)
        assert probes.refused(PATIENCE_MS - 1) == []
        assert probes.refused(PATIENCE_MS) == []
        probes.begin("silent", endpoint, PATIENCE_MS)
        probes.close()
        for filler in fillers:
            filler.close()
