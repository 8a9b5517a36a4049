"""A worker that is killed while many connections send: what was answered with 202 is there, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
import requests
from worker_process import RUN
from worker_world import EVENT, PLAN, World, until

from cep_worker.worker import Worker

KILLS = int(os.environ.get("HTTP_KILLS", "1"))
SENDERS, ANSWERS = 8, 200


class Sender(threading.Thread):
    """Sends events one by one; every other one has a key, and is sent until it is accepted."""

    def __init__(self, world: World, number: int, stopping: threading.Event) -> None:
        super().__init__()
        self._url = world.url("/events/Departures")
        self._next = number * 1_000_000
        self._stopping = stopping
        self.accepted: set[int] = set()
        self.unanswered: set[int] = set()

    def run(self) -> None:
        session = requests.Session()
        while not self._stopping.is_set():
            number, self._next = self._next, self._next + 1
            keyed = number % 2 == 0
            headers = {"Idempotency-Key": f"key-{number}"} if keyed else {}
            body = json.dumps({**EVENT, "_timestamp": number})
            while True:
                try:
                    answer = session.post(self._url, data=body, headers=headers, timeout=5)
                except requests.RequestException:
                    if keyed:
                        self._stopping.wait(0.02)
                        continue
                    self.unanswered.add(number)
                    break
                if answer.status_code == 202:
                    self.accepted.add(number)
                    break
                assert answer.status_code in (404, 429, 503), answer.text


@pytest.mark.cluster
def test_a_killed_worker_has_what_it_accepted_and_nothing_twice(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.config = msgspec.structs.replace(world.config, http=msgspec.structs.replace(world.config.http, wait_ms=5_000))
    world.manager.plans = (PLAN,)
    world.manager.start()
    stopping = threading.Event()
    senders = [Sender(world, number, stopping) for number in range(SENDERS)]
    config = json.dumps(msgspec.to_builtins(world.config))
    process: subprocess.Popen[bytes] | None = None

    def accepted() -> int:
        return sum(len(sender.accepted) for sender in senders)

    try:
        for kill in range(KILLS):
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and text
                [sys.executable, "-c", RUN, config], env={**os.environ, "PYTHONPATH": os.getcwd()}
            )
            if kill == 0:
                for sender in senders:
                    sender.start()
            enough = accepted() + ANSWERS
            until(lambda enough=enough: accepted() >= enough, deadline_ms=60_000)
            process.kill()
            process.wait()
        world.worker = Worker(world.config)
        world.worker.start()
        until(lambda: world.health()["plans"])
        stopping.set()
        for sender in senders:
            sender.join(20)
    finally:
        stopping.set()
        if process is not None:
            process.kill()
            process.wait()
    receiver = world.connected_receiver()
    acknowledged = set().union(*(sender.accepted for sender in senders))
    perhaps = set().union(*(sender.unanswered for sender in senders))
    until(lambda: {row[0] for row in receiver.rows()} >= acknowledged, receiver, deadline_ms=20_000)
    got = Counter(row[0] for row in receiver.rows())
    assert max(got.values()) == 1, [number for number, times in got.items() if times > 1]
    assert got.keys() - acknowledged - perhaps == set()
