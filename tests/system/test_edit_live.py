"""A running plan is edited under load: nothing that was accepted is lost.

`CEP_ACCEPTANCE=1` keeps the load up for a minute.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner
from late_plan import CONNECT_TIMEOUT_S, status_until
from web_hook import WebHook

from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

LOAD_S = 30.0 if os.environ.get("CEP_ACCEPTANCE") else 2.0
BATCH = 20
SETTLED_S = 120.0

PLAN = "Edited"
TEXT = """\
@Plan:name('Edited')
@Import('Numbers:1.0.0') define stream Numbers (number long);
@sink(type='http', publisher.url='http://127.0.0.1:{port}/', batch.rows='5000')
@Export('Passed:1.0.0') define stream Passed (number long);
from Numbers select number insert into Passed;
"""


class Posts(threading.Thread):
    """Posts numbered events as long as the context lasts; `accepted` are those that were answered with 202."""

    def __init__(self, system: LocalSystem) -> None:
        super().__init__(name="posts", daemon=True)
        self.accepted: list[int] = []
        self.refused: Counter[int] = Counter()
        self._url = f"{system.worker_http}/events/{PLAN}/Numbers"
        self._closing = threading.Event()
        self._next = 0
        self.pause_s = 0.01
        self.gate = False
        """The stream has the attribute `gate`."""

    def __enter__(self) -> Posts:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self.join()

    def run(self) -> None:
        while not self._closing.wait(self.pause_s):
            numbers = range(self._next, self._next + BATCH)
            more = {"gate": "A1"} if self.gate else {}
            body = "\n".join(json.dumps({"number": number, **more}) for number in numbers)
            kind = {"Content-Type": "application/x-ndjson"}
            status = requests.post(self._url, data=body, headers=kind, timeout=30).status_code
            if status == 202:
                self.accepted += numbers
            else:
                self.refused[status] += BATCH
                self.gate = not self.gate if status in (400, 422) else self.gate
            self._next += BATCH


@pytest.fixture
def hook() -> Iterator[WebHook]:
    made = WebHook()
    made.opened.set()
    yield made
    made.close()


def dry_run(system: LocalSystem, path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["deploy", str(path), "--replace", "--dry-run", "--manager", system.client.url])
    assert result.exit_code == 0, result.output
    return result.output


COUNTING = TEXT.replace(
    "from Numbers select number insert", "from Numbers#window.length(1000000) select count() as number{having} insert"
)


def test_a_window_is_kept_when_the_having_of_its_query_is_edited(
    system: LocalSystem, hook: WebHook, tmp_path: Path
) -> None:
    """Each event is counted once, by the window that was there before the edit."""
    text = COUNTING.format(port=hook.server.server_port, having="")
    system.client.deploy(text, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    with Posts(system) as posts:
        time.sleep(LOAD_S)
        # The stages measure what they hold every few seconds.
        status_until(system, lambda now: any(part["rows"] for part in now["state"]), SETTLED_S, PLAN)
        edited = COUNTING.format(port=hook.server.server_port, having=" having number > 10")
        front = "from Numbers[number < 0] select number insert into Nobody; "
        edited = edited.replace("from Numbers#", f"{front}from Numbers#")
        told = dry_run(system, tmp_path / "edited.siddhiql", edited)
        assert "kept  query Numbers_to_Passed (" in told
        assert " rows, " in told
        told = dry_run(system, tmp_path / "edited.siddhiql", edited.replace("length(", "length(1"))
        assert "RESET query Numbers_to_Passed (" in told
        assert "its definition changed" in told
        system.client.deploy(edited, replace=True)
        status_until(system, lambda now: not now["topology"]["change"], SETTLED_S, PLAN)
        wait_until_connected(system.client, PLAN, SETTLED_S)
        time.sleep(LOAD_S)
    topology = system.client.plan(PLAN)["status"]["topology"]
    assert (topology["change_error"], topology["state_left"]) == ("", [])
    deadline = time.monotonic() + SETTLED_S
    while sum(hook.numbers.values()) < len(posts.accepted) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert hook.numbers == dict.fromkeys(range(1, len(posts.accepted) + 1), 1)


def test_an_attribute_is_added_while_a_stage_stands_still(system: LocalSystem, hook: WebHook) -> None:
    text = TEXT.format(port=hook.server.server_port)
    system.client.deploy(text, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    (task,) = system.client.cluster()["tasks"]
    with Posts(system) as posts:
        time.sleep(LOAD_S)
        os.kill(task["process_id"], signal.SIGSTOP)
        try:
            time.sleep(LOAD_S / 2)
            edited = text.replace("Numbers (number long)", "Numbers (gate string, number double)")
            edited = edited.replace("select number", "select cast(number, 'long') as number")
            system.client.deploy(edited, replace=True)
            time.sleep(LOAD_S / 2)
        finally:
            if os.path.exists(f"/proc/{task['process_id']}"):
                os.kill(task["process_id"], signal.SIGCONT)
        status_until(system, lambda now: not now["topology"]["change"], SETTLED_S, PLAN)
        wait_until_connected(system.client, PLAN, SETTLED_S)
        assert system.client.plan(PLAN)["status"]["topology"]["change_error"] == ""
        time.sleep(LOAD_S)
    assert len(posts.accepted) > 1_000
    deadline = time.monotonic() + SETTLED_S
    while not hook.numbers.keys() >= set(posts.accepted) and time.monotonic() < deadline:
        time.sleep(0.2)
    missing = set(posts.accepted) - hook.numbers.keys()
    kept = system.client.failed_events(PLAN, 10)["found"]
    assert (len(missing), kept) == (0, 0)
    assert posts.gate, "events of the new form were taken at the end"
