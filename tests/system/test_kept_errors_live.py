"""An event fails in a query, is kept, is shown by `cep errors`, and comes out by a replay once the plan is fixed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result
from late_plan import CONNECT_TIMEOUT_S, EVENT_TIMEOUT_MS, POLL_S

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLAN = "Prices"
BROKEN = "number + text"
MENDED = "7"
TEXT = """\
@Plan:name('Prices') @Plan:delivery('{delivery}')
@Import('Orders:1.0.0') @OnError(action='STORE')
define stream Orders (number int, text string);
@Export('Prices:1.0.0')
define stream Prices (number int, price int);
@info(name='price') from Orders select number, {price} as price insert into Prices;
"""
KEPT_S = 60.0


def cep(system: LocalSystem, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments, "--manager", system.client.url], input=stdin)


def deploy(system: LocalSystem, delivery: str, price: str) -> None:
    system.client.deploy(TEXT.format(delivery=delivery, price=price), replace=True)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)


def kept_until(system: LocalSystem, count: int) -> Any:
    began = time.monotonic()
    while True:
        told = json.loads(cep(system, "errors", PLAN, "--json").stdout)
        if told["found"] == count:
            return told["entries"]
        assert time.monotonic() - began < KEPT_S, told
        time.sleep(POLL_S)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_an_event_that_failed_comes_out_once_the_plan_is_mended(system: LocalSystem, delivery: str) -> None:
    deploy(system, delivery, BROKEN)
    events = "".join(json.dumps(event) + "\n" for event in ({"number": 1, "text": None}, {"number": 2, "text": "x"}))
    assert cep(system, "send", f"{PLAN}/Orders", "-", stdin=events).exit_code == 0
    (entry,) = kept_until(system, 1)
    assert (entry["kind"], entry["stream"], entry["query"]) == ("stream", "Orders", "price")
    assert [(event["number"], event["text"]) for event in entry["events"]] == [(2, "x")]
    shown = cep(system, "errors", PLAN)
    assert shown.exit_code == 0, shown.output
    assert "stream Orders, query price: " in shown.stdout

    deploy(system, delivery, MENDED)
    assert [one["id"] for one in kept_until(system, 1)] == [entry["id"]], "they outlive an edit"
    with EventListener(system.egress, f"{PLAN}/Prices") as listener:
        replayed = cep(system, "errors", PLAN, "--replay", entry["id"])
        assert (replayed.exit_code, replayed.stdout) == (0, f"{PLAN}: 1 entries replayed (1 events)\n")
        began = time.monotonic()
        numbers: list[int] = []
        while 2 not in numbers and time.monotonic() - began < KEPT_S:
            batch = listener.receive(EVENT_TIMEOUT_MS)
            numbers += batch.column("number").to_pylist() if batch is not None else []
        assert numbers[-1:] == [2]
    assert cep(system, "errors", PLAN).stdout == f"{PLAN}: no failed events are stored\n"
