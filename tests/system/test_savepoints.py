"""A window continues where it was: after a hang, a driver that was ended in order, and from a savepoint."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from driver_desk import lives
from late_plan import CONNECT_TIMEOUT_S, EVENT_TIMEOUT_MS, PLAN, TEXT, departures, status_until

from cep_cli.errors import CommandRefusedError
from cep_cli.main import main
from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.checkpoint.storage.store import open_store
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

COUNTING = TEXT.replace("[dep_delay > 60]", "#window.length(100000)").replace(
    "select carrier, dep_delay", "select carrier, cast(count(), 'int') as dep_delay"
)
"""How many events there have been since its state began."""

RECOVERED_S = 240.0
"""Far beyond what it takes on a machine that does nothing else: a driver starts in some 10 s."""
POLL_S = 0.1


class Counter:
    """Sends events to the counting plan, one by one, and reads what it makes of them."""

    def __init__(self, system: LocalSystem) -> None:
        self._system = system
        self._listener = EventListener(system.egress, f"{PLAN}/Late")

    def counts_until(self, expected: int) -> list[int]:
        """An event is sent; gives all counts that have come when it has been counted as `expected`."""
        schema = fetch_schema(self._system.worker_http, f"{PLAN}/Departures")
        with EventSender(self._system.ingress, schema, "test") as sender:
            sender.send(departures(sender, ("UA", 1)))
        found: list[int] = []
        while expected not in found:
            batch = self._listener.receive(EVENT_TIMEOUT_MS)
            assert batch is not None, f"{expected} did not come, only {found}"
            found += batch.column("dep_delay").to_pylist()
        return found

    def listen_again(self) -> None:
        """The plan was undeployed meanwhile, which ends listening to its streams."""
        self._listener.close()
        self._listener = EventListener(self._system.egress, f"{PLAN}/Late")

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def counter(system: LocalSystem) -> Iterator[Counter]:
    """The counting plan runs, and has counted three events; workers have forgotten any earlier plan of its name."""
    began = time.monotonic()
    while any(worker["plans"] for worker in system.client.cluster()["workers"]):
        assert time.monotonic() - began < RECOVERED_S
        time.sleep(POLL_S)
    system.client.deploy(COUNTING, replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    made = Counter(system)
    assert [made.counts_until(number) for number in (1, 2, 3)] == [[1], [2], [3]]
    yield made
    made.close()


def cep(system: LocalSystem, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "--manager", system.client.url])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_window_goes_on_after_a_hang_and_after_a_driver_that_ended_in_order(
    system: LocalSystem, counter: Counter
) -> None:
    (task,) = system.client.cluster()["tasks"]
    os.kill(task["process_id"], signal.SIGSTOP)
    status_until(system, lambda status: status["topology"]["restarts"] == 1, RECOVERED_S)
    status_until(system, lambda _: not lives(task["process_id"]), RECOVERED_S)
    wait_until_connected(system.client, PLAN, RECOVERED_S)
    assert counter.counts_until(4)[-1] == 4
    interruption = system.client.plan(PLAN)["status"]["topology"]["interruption"]
    # The executor ends the silent process; on a busy machine the driver may be the first to miss the stage host.
    assert re.fullmatch(r"a stage process died|its stage host was silent for \d+ s", interruption)

    epoch = system.client.plan(PLAN)["epoch"]
    os.kill(system.pid("driver"), signal.SIGTERM)
    ended = time.monotonic()
    while system.client.plan(PLAN)["epoch"] == epoch or not system.client.plan(PLAN)["status"]["connected"]:
        assert time.monotonic() - ended < RECOVERED_S, system.client.plan(PLAN)["status"]
        system.watch()
        time.sleep(POLL_S)
    wait_until_connected(system.client, PLAN, RECOVERED_S)
    assert counter.counts_until(5) == [5], "what was processed before the end does not come again"


def of_another_version(system: LocalSystem, savepoint: str) -> None:
    """The savepoint looks as if a later version had taken it."""
    store = open_store(str(system.folder / "checkpoints"))
    _, manifest = store.savepoint(PlanKey(SUPER_TENANT, PLAN), savepoint)
    states = tuple(msgspec.structs.replace(one, format=99 if one.format else 0) for one in manifest.states)
    assert any(one.format for one in states)
    store.keep(msgspec.structs.replace(manifest, states=states), savepoint)


def _was_restarted(topology: dict[str, Any], began_s: float) -> bool:
    """Return whether it does not run, or runs again: a restart may be over before anybody looks."""
    return topology["state"] != "active" or topology["since_ms"] < (time.monotonic() - began_s) * 1_000


def test_a_plan_begins_from_a_savepoint_which_outlives_it(system: LocalSystem, counter: Counter) -> None:
    cep(system, "savepoint", PLAN, "--name", "later")
    of_another_version(system, "later")
    assert "savepoint three" in cep(system, "savepoint", PLAN, "--name", "three")
    assert counter.counts_until(4)[-1] == 4
    checkpoints = system.client.checkpoints(PLAN)["checkpoints"]
    assert ("three", "complete") in [(one["name"], one["state"]) for one in checkpoints]

    epoch = system.client.plan(PLAN)["epoch"]
    with pytest.raises(CommandRefusedError, match=r"its state is in format 99, .* nothing was changed"):
        system.client.restart(PLAN, "later")
    assert (system.client.plan(PLAN)["epoch"], counter.counts_until(5)[-1]) == (epoch, 5), "nothing was stopped"

    began_s = time.monotonic()
    system.client.restart(PLAN, "three")
    status_until(system, lambda status: _was_restarted(status["topology"], began_s), RECOVERED_S)
    wait_until_connected(system.client, PLAN, RECOVERED_S)
    assert 4 in counter.counts_until(4)

    cep(system, "undeploy", PLAN)
    assert "three" in cep(system, "savepoints", PLAN)
    system.client.deploy(COUNTING, replace=False, savepoint="three")
    wait_until_connected(system.client, PLAN, RECOVERED_S)
    counter.listen_again()
    assert 4 in counter.counts_until(4)
    cep(system, "savepoint", PLAN, "--name", "four")
    for name in ("three", "four", "later"):
        cep(system, "savepoints", PLAN, "--delete", name)
    assert "has no savepoints" in cep(system, "savepoints", PLAN)
