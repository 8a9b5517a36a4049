"""Random and hostile requests of every role to every call of the REST API: none ends in a 500 or takes long.

`make redteam` sends more; CEP_FUZZ_S and CEP_FUZZ_SEED say for how long, and which. The last line of the test's output
says how many were sent.
"""

from __future__ import annotations

import heapq
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from free_ports import free_port
from hostile_input import BODY_BYTES, ODD, PLAN, calls, make_tokens, request_of, token_of
from long_form import of_length

from cep_common.clock import SystemClock
from cep_common.security.config import ServerSecurity
from cep_common.security.web import Gate
from cep_manager.accounts.accounts import Accounts
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    LiveConfig,
    ManagerConfig,
    ManagerHttpConfig,
)
from cep_manager.main import ManagerProcess
from cep_manager.persistence.database import Database
from cep_manager.web.app import create_app

pytestmark = pytest.mark.cluster

SECONDS = float(os.environ.get("CEP_FUZZ_S", of_length("4", "300")))
SEED = int(os.environ.get("CEP_FUZZ_SEED", "29"))
SLOW_S, HUNG_S = 2.0, 60.0
"""Of processor time, and of time: on the busiest machine no request that waits for nothing takes so long."""
LEAST_ROUNDS = 2
"""How many requests each call gets, however slow the machine is."""
MOST_NAMED = 8
STORM, FAILED = "/storm/api/", "the manager failed"
GROWTH_KIB = 200 * 1024
"""What a long run may add to the memory of the process after its first quarter."""


@dataclass
class Sent:
    """What was sent, and what came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: dict[str, float] = field(default_factory=dict)
    """The most processor time that a request of each kind took."""
    grown_kib: int = 0

    def add(self, client: FlaskClient, method: str, rule: str, request: dict[str, Any]) -> None:
        """Send a request and note what comes of it."""
        kind = f"{method} {rule}"
        try:
            status, took_s = send(client, request)
            if took_s > SLOW_S:  # anything may take long once
                took_s = min(took_s, send(client, request)[1])
        except Exception as error:  # noqa: BLE001 - whatever comes through is a fault
            self.faults.append(f"{error!r}: {kind}: {request!r:.2000}")
            return
        self.statuses[status] += 1
        self.slowest_s[kind] = max(took_s, self.slowest_s.get(kind, 0.0))
        if status == 500 or took_s > SLOW_S:
            self.faults.append(f"{status} after {took_s:.2f} s: {kind}: {request!r:.2000}")

    def line(self) -> str:
        slowest = sorted(self.slowest_s, key=lambda kind: -self.slowest_s[kind])[:MOST_NAMED]
        told = ", ".join(f"{kind} {self.slowest_s[kind]:.3f}s" for kind in slowest)
        return (
            f"requests={sum(self.statuses.values())} seed={SEED} statuses={dict(sorted(self.statuses.items()))} "
            f"slowest=[{told}] grown={self.grown_kib}KiB"
        )


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """One for each role of no tenant and of two, and some that are none."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    return path, make_tokens(path)


@pytest.fixture(scope="module")
def app(tokens: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    config = ManagerConfig(
        control=ControlConfig(port=free_port()),
        http=ManagerHttpConfig(port=free_port(), body_bytes=BODY_BYTES),
        live=LiveConfig(at_once=0),  # a client without a server would read such a stream to its end
        accounts=AccountsConfig(login=True),
        security=ServerSecurity(tokens=str(tokens[0]), requests_per_s=0),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path_factory.mktemp('hostile') / 'manager.db'}"),
    )
    process = ManagerProcess(config)
    database = Database(config.database, config.election.lease_ms)
    clock = SystemClock()
    gate = Gate(config.security, "127.0.0.1", clock, users=True)
    app = create_app(process.manager, BODY_BYTES, gate, Accounts(database, config.accounts, clock))
    yield app
    assert process.service.alive(), "the manager leads as before"
    process.close()
    database.close()


def send(client: FlaskClient, request: dict[str, Any]) -> tuple[int, float]:
    """Return the status and the processor time that it took: other processes of the machine change nothing of that.

    Storm answers 500 to whatever it cannot do, which is told as 400 here.
    """
    began_s, called_s = time.process_time(), time.monotonic()
    answer = client.open(**request, buffered=True)
    took_s = time.process_time() - began_s
    if (waited_s := time.monotonic() - called_s) > HUNG_S:
        raise TimeoutError(f"{answer.status_code} after {waited_s:.0f} s")
    refused = answer.status_code == 500 and request["path"].startswith(STORM) and FAILED not in answer.text
    return 400 if refused else answer.status_code, took_s


def attack(app: Flask, tokens: list[str], seconds: float) -> Sent:
    sent = Sent()
    # Each call gets some requests, and then the same processor time, so most go to those that cost little; and a choice
    # of its own, so that a seed gives each the same requests however fast the machine is.
    turns = [(0.0, place, *call) for place, call in enumerate(calls(app))]
    chances = [random.Random(f"{SEED} {method} {rule}") for _, _, method, rule in turns]  # noqa: S311 - nothing secret
    client = app.test_client(use_cookies=False)
    for text, expected in ((PLAN, (201,)), (ODD, (201, 422))):
        answer = client.post("/api/v1/plans", data=text, headers={"Authorization": f"Bearer {tokens[12]}"})
        assert answer.status_code in expected, answer.text
    end_s, quarter_s = time.monotonic() + seconds, time.monotonic() + seconds / 4
    held_kib = 0

    def spend(place: int, method: str, rule: str) -> float:
        """Send the next request to a call, and return the processor time that it took."""
        began_s = time.process_time()
        sent.add(client, method, rule, request_of(chances[place], method, rule, token_of(chances[place], tokens)))
        return time.process_time() - began_s

    for _ in range(LEAST_ROUNDS):
        turns = [(spent_s + spend(place, method, rule), place, method, rule) for spent_s, place, method, rule in turns]
    heapq.heapify(turns)
    while time.monotonic() < end_s:
        spent_s, place, method, rule = heapq.heappop(turns)
        heapq.heappush(turns, (spent_s + spend(place, method, rule), place, method, rule))
        if not held_kib and time.monotonic() > quarter_s:
            held_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent.grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held_kib if held_kib else 0
    return sent


def test_no_request_of_any_role_fails_inside_or_takes_long(
    app: Flask, tokens: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = attack(app, tokens[1], SECONDS)
    with capsys.disabled():
        print(f"\n{sent.line()}")  # noqa: T201 - how much was tried
    assert sent.faults == []
    assert sent.grown_kib < GROWTH_KIB
    assert {200, 400, 401, 403, 404} <= set(sent.statuses), "requests get far"
