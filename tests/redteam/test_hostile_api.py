"""Random and hostile requests of every role to every call of the REST API: none ends in a 500 or takes long.

`make redteam` sends more; CEP_FUZZ_S and CEP_FUZZ_SEED say for how long, and which. The last line of the test's output
says how many were sent.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import resource
import string
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from free_ports import free_port
from long_form import of_length

from cep_common.clock import SystemClock
from cep_common.security.access import AccessRole
from cep_common.security.config import ServerSecurity
from cep_common.security.tokens import TokenFile
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
BODY_BYTES = 1_048_576
SLOW_S, HUNG_S = 2.0, 60.0
"""Of processor time, and of time: on the busiest machine no request that waits for nothing takes so long."""
MOST_NAMED = 8
STORM, FAILED = "/storm/api/", "the manager failed"
GROWTH_KIB = 200 * 1024
"""What a long run may add to the memory of the process after its first quarter."""
TENANT, OTHER = 7, 8
PLAN = """\
@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (origin string, delay int);
@Export('Late:1.0.0') define stream Late (origin string, delay int);
@info(name='late') from Departures[delay > 60] select origin, delay insert into Late;
"""
ODD = PLAN.replace("'Storms'", "'Odd'").replace("origin", '`or"i\\gin\t<b>`')
"""Names that are not those of anything else: a quote, a backslash, a tab and a tag."""
NAMES = (
    "Storms",
    "Odd",
    "late",
    "Late",
    "Departures",
    "Late:1.0.0",
    "Storms/Late",
    "worker-1",
    "driver",
    "admin",
    "0",
    "1",
    "-1",
)
NASTY = (
    "", " ", ".", "..", "../../etc/passwd", "\0", "%00", "\x7f", "\u202e", "\ud83d", "é", "'", '"', "\\", "\t", "\n",
    "\r\nX: y",
    "${secret:X}", "<script>", "'; drop table plans; --", "NaN", "Infinity", "1e309", "-0", "9" * 19, "9" * 400, "0x10",
    "١٢", "true", "null", "[]", "{}", "a" * 3_000, "/" * 300, "*", "?", "#", "%", "%zz", "2026-01-01T00:00:00Z",
    "9223372036854775808",
)  # fmt: skip
KEYS = (
    "plan", "text", "name", "role", "tenant", "password", "events", "stream", "timestamp", "origin", "delay", "plans",
)  # fmt: skip
PARAMETERS = (
    "tenant", "limit", "offset", "q", "state", "from", "to", "timestamp", "stream", "rows", "reason", "lines", "level",
    "window",
)  # fmt: skip
HEADERS = (
    "X-Cep-Tenant", "Accept", "If-None-Match", "Range", "Accept-Encoding", "Cookie", "Idempotency-Key", "Origin",
)  # fmt: skip
DEEP = ("(" * 500 + "1", "delay + " * 5_000 + "1 > 0", "not " * 3_000)
UNITS = (
    b"[", b'{"a":', b'"', b"\0", b"9", b"a=1&", b"a\n", PLAN.encode(), b"\xff", b"'", b"(", b"/*", b"--", b" ",
)  # fmt: skip
TYPES = (
    "application/json", "text/plain", "application/x-www-form-urlencoded", "application/x-ndjson", "text/csv", "",
    "multipart/form-data", "multipart/form-data; boundary=x", "application/vnd.apache.parquet",
    "application/octet-stream", "a/b; charset=nonsense",
)  # fmt: skip


def characters(chance: random.Random, most: int) -> str:
    return "".join(chance.choices(string.printable + "éß\u2028\0", k=chance.randrange(most)))


def word(chance: random.Random) -> str:
    return chance.choice((chance.choice(NAMES), chance.choice(NAMES), chance.choice(NASTY), characters(chance, 40)))


def value(chance: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can say, and what it cannot."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return word(chance)
    if kind == 1:
        return chance.choice((0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**300, 1e308, float("nan"), float("inf"), 0.1))
    if kind == 2:
        return chance.choice((None, True, False))
    if kind == 3:
        return characters(chance, chance.choice((5, 50, 5_000)))
    if kind == 4:
        return PLAN
    if kind == 5:
        return chance.choice(NAMES)
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {chance.choice((*KEYS, word(chance))): value(chance, depth + 1) for _ in range(chance.randrange(6))}


def plan_text(chance: random.Random) -> str:
    """A plan with parts repeated, left out and swapped."""
    words = PLAN.split(" ")
    for _ in range(chance.randrange(1, 8)):
        place = chance.randrange(len(words))
        words[place : place + chance.randrange(3)] = [chance.choice((word(chance), chance.choice(words)))]
    text = " ".join(words)
    if chance.random() < 0.05:
        text = text.replace("delay > 60", chance.choice(DEEP))
    return text * chance.choice((1, 1, 1, 40))


def large(chance: random.Random) -> bytes:
    """Up to the limit, and beyond it."""
    size = chance.choice((10_000, 100_000, BODY_BYTES - 1, BODY_BYTES + 1))
    unit = chance.choice(UNITS)
    return (unit * (size // len(unit) + 1))[:size]


def body_of(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.03:
        return large(chance)
    if kind < 0.25:
        return plan_text(chance).encode(errors="surrogatepass")
    if kind < 0.35:
        return chance.randbytes(chance.randrange(300))
    text = json.dumps(value(chance)).encode(errors="surrogatepass")
    return text[: chance.randrange(len(text) + 1)] if kind < 0.45 else text


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
    file = TokenFile(path)
    made = [
        file.create(f"{role.value} {tenant}", role, tenant, 0)
        for role in AccessRole
        for tenant in (None, TENANT, OTHER)
    ]
    return path, [*made, "", "cep_" + "W" * 43, "\0"]


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


def calls(app: Flask) -> list[tuple[str, str]]:
    """Every method and address that is served, pages and Storm's API included."""
    found = [
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
    return sorted(found)


def request_of(chance: random.Random, method: str, rule: str, token: str) -> dict[str, Any]:
    parts = rule.split("<")
    path = parts[0] + "".join(
        quote(word(chance), safe=chance.choice(("", "/")), errors="replace") + part.partition(">")[2]
        for part in parts[1:]
    )
    query = "&".join(
        f"{quote(chance.choice((*PARAMETERS, word(chance))), errors='replace')}={quote(word(chance), errors='replace')}"
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5, 50)))
    )
    headers = {"Content-Type": chance.choice(TYPES)}
    if token:
        headers["Authorization"] = f"{'Bearer' if chance.random() < 0.95 else 'Basic'} {quote(token)}"
    if chance.random() < 0.3:
        headers[chance.choice(HEADERS)] = quote(word(chance), safe="/*,;= ", errors="replace")
    data = body_of(chance) if method != "GET" or chance.random() < 0.1 else None
    return {"method": method, "path": path, "query_string": query, "headers": headers, "data": data}


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


def token_of(chance: random.Random, tokens: list[str]) -> str:
    """Return one that is valid, most of the time."""
    return chance.choice(tokens if chance.random() < 0.3 else tokens[:-3])


def attack(app: Flask, tokens: list[str], seconds: float) -> Sent:
    sent = Sent()
    # Each call gets the same processor time, so most requests go to those that cost little; and a choice of its own,
    # so that a seed gives each the same requests however fast the machine is.
    turns = [(0.0, place, *call) for place, call in enumerate(calls(app))]
    chances = [random.Random(f"{SEED} {method} {rule}") for _, _, method, rule in turns]  # noqa: S311 - nothing secret
    client = app.test_client(use_cookies=False)
    for text, expected in ((PLAN, (201,)), (ODD, (201, 422))):
        answer = client.post("/api/v1/plans", data=text, headers={"Authorization": f"Bearer {tokens[12]}"})
        assert answer.status_code in expected, answer.text
    end_s, quarter_s = time.monotonic() + seconds, time.monotonic() + seconds / 4
    held_kib = 0
    while time.monotonic() < end_s:
        spent_s, place, method, rule = heapq.heappop(turns)
        began_s = time.process_time()
        sent.add(client, method, rule, request_of(chances[place], method, rule, token_of(chances[place], tokens)))
        heapq.heappush(turns, (spent_s + time.process_time() - began_s, place, method, rule))
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
