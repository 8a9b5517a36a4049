"""The worker as a process: signals, failures, and peers that vanish or talk nonsense."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import requests
import zmq
from worker_world import PLAN, World, alerts, departures, now_ms, until

from cep_common.errors import InputError
from cep_common.protocol.codec import encode
from cep_common.protocol.links import Acknowledge, Data, Subscribe
from cep_common.protocol.registry import ListPlans
from cep_worker.config import EgressConfig

RUN = """
import json, sys, msgspec
from cep_worker.config import WorkerConfig
from cep_worker.main import run
run(msgspec.convert(json.loads(sys.argv[1]), WorkerConfig))
"""


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_worker_leave_in_order(world: World, number: signal.Signals) -> None:
    config = json.dumps(msgspec.to_builtins(world.config))
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", RUN, config], env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    try:

        def answers() -> bool:
            try:
                return requests.get(world.url("/health"), timeout=1).status_code == 200
            except requests.ConnectionError:
                return False

        until(answers, deadline_ms=30_000)
        process.send_signal(number)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_a_failure_of_the_data_thread_ends_the_worker_and_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start(PLAN)
    worker = world.worker
    assert worker is not None

    def fail(now_ms: int) -> None:
        raise RuntimeError("as the test wishes")

    monkeypatch.setattr(worker._data, "_tick", fail)
    assert worker.ended.wait(5)
    assert isinstance(worker.failure, RuntimeError)
    worker.stop()
    world.worker = None


NONSENSE: list[list[bytes]] = [
    [b""],
    [b"GET / HTTP/1.1"],
    [b"CEP1"],
    [b"CEP1\x04data"],
    [os.urandom(64)] * 3,
    encode(Data("Departures", 1, 1, 0), bodies=(b"no batch",)),
    encode(Acknowledge(2**60)),
    encode(ListPlans()),
    encode(Subscribe("")),
]


@pytest.mark.parametrize("service", ["ingress", "egress"])
def test_nonsense_is_answered_and_disturbs_nobody(world: World, context: zmq.Context[Any], service: str) -> None:
    world.start(PLAN)
    receiver = world.connected_receiver()
    stranger = context.socket(zmq.DEALER)
    stranger.connect(f"tcp://127.0.0.1:{getattr(world.config, service).port}")
    for frames in NONSENSE:
        stranger.send_multipart(frames)
        assert stranger.poll(5_000), f"no answer to {frames!r}"
        assert b"rejected" in stranger.recv_multipart()[0]
    listener = world.listener()
    world.sender().send(departures((1, "UA", 1, None)))
    world.publisher().open().send("Alerts", alerts((1, "UA", 1)))
    until(lambda: receiver.frames, receiver)
    assert listener.receive(5_000) is not None


def test_a_listener_that_vanishes_does_not_hold_the_plan(make_world: Callable[..., World]) -> None:
    egress = EgressConfig(port=make_world().config.egress.port, window_rows=5, waiting_rows=10, lag_ms=60_000)
    world = make_world(egress=egress)
    world.start(PLAN)
    publisher = world.publisher().open()
    context: zmq.Context[Any] = zmq.Context()
    listener = context.socket(zmq.DEALER)
    listener.connect(f"tcp://127.0.0.1:{egress.port}")
    listener.send_multipart(encode(Subscribe("Alerts")))
    assert listener.poll(5_000)
    for number in range(30):
        publisher.send("Alerts", alerts((number, "UA", number)))
    until(lambda: 0 < len(publisher.link.unacknowledged()) < 30, publisher)
    context.destroy(linger=0)
    until(lambda: not publisher.link.unacknowledged(), publisher)


def test_no_more_clients_than_configured_are_served(make_world: Callable[..., World]) -> None:
    ports = make_world().config
    world = make_world(
        egress=EgressConfig(port=ports.egress.port, listeners=1),
        ingress=type(ports.ingress)(port=ports.ingress.port, links=1),
    )
    world.start(PLAN)
    first_sender, first_listener = world.sender(), world.listener()
    with pytest.raises(InputError, match="1 links are already open"):
        world.sender()
    with pytest.raises(InputError, match="1 listeners are already connected"):
        world.listener()
    first_sender.send(departures((1, "UA", 1, None)))
    first_sender.flush(5_000)
    assert first_listener.receive(0) is None


def test_freed_memory_goes_back_to_the_system_now_and_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr("cep_worker.data_plane.GIVE_BACK_MS", 1)
    monkeypatch.setattr("cep_worker.data_plane.give_back_freed_memory", lambda: given_back.append(now_ms()))
    world.start(PLAN)
    until(lambda: len(given_back) > 1)
