"""A driver that dies under load is started again by its supervisor, and what should run runs again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zmq
from driver_desk import lives
from late_plan import PLAN, assert_events_flow, departures, deploy_late

from cep_cli.system.local_system import LocalSystem
from cep_common.errors import CepError, RequestRejectedError
from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey
from cep_common.protocol.links import OpenLink, StreamSchema
from cep_common.protocol.registry import RegisterEndpoint
from cep_common.protocol.tasks import RegisterTask
from cep_common.security.roles import SocketKind
from cep_common.sockets.transport import ControlClient
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.sender import LinkSender, LinkState

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

RECOVERED_S = 120.0
STAGES_END_S = 10.0
WATCH_S = 0.2
KEY = PlanKey(SUPER_TENANT, PLAN)
DEPARTURES = StreamSchema("Departures", (("carrier", "string"), ("dep_delay", "int")))


def test_a_driver_that_is_killed_under_load_comes_back_with_its_plans_and_its_leftovers_are_refused(
    system: LocalSystem,
) -> None:
    deploy_late(system)
    epoch = system.client.plan(PLAN)["epoch"]
    (task,) = system.client.cluster()["tasks"]
    driver, stage = system.pid("driver"), task["process_id"]

    with load(system):
        system.kill("driver")
        killed = time.monotonic()
        stage_ended_s = recovered_s = 0.0
        while not recovered_s:
            system.watch()
            waited_s = time.monotonic() - killed
            assert waited_s < RECOVERED_S, system.client.plan(PLAN)
            if not stage_ended_s and not lives(stage):
                stage_ended_s = waited_s
            plan = system.client.plan(PLAN)
            if (
                plan["epoch"] > epoch
                and plan["status"]["topology"]["state"] == "active"
                and plan["status"]["connected"]
            ):
                recovered_s = waited_s
            time.sleep(WATCH_S)

    assert system.pid("driver") != driver
    assert 0 < stage_ended_s < STAGES_END_S
    assert_events_flow(system)
    assert_refused_by_the_manager(system, epoch)
    assert_refused_by_the_stage(system, epoch)
    assert_events_flow(system)


@contextmanager
def load(system: LocalSystem) -> Iterator[None]:
    """Events that the plan leaves out come in all the time; a worker that takes none for a while is asked again."""
    schema = fetch_schema(system.worker_http, f"{PLAN}/Departures")
    stopping = threading.Event()

    def send() -> None:
        with EventSender(system.ingress, schema, "load") as sender:
            batch = departures(sender, *[("UA", 5)] * 1_000)
            while not stopping.wait(0.01):
                try:
                    sender.send(batch)
                except CepError:
                    continue

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def assert_refused_by_the_manager(system: LocalSystem, epoch: int) -> None:
    with zmq.Context() as context:
        client = ControlClient(context, (Endpoint("127.0.0.1", system.ports.control),), 5_000)
        for leftover in (
            RegisterTask(KEY, epoch, 0, "127.0.0.1", 1),
            RegisterEndpoint("receiver", KEY, epoch, "EventReceiver#0", Endpoint("127.0.0.1", 1)),
        ):
            with pytest.raises(RequestRejectedError) as refused:
                client.request(leftover)
            assert refused.value.reason_code == "stale-epoch"
        client.close()


def assert_refused_by_the_stage(system: LocalSystem, epoch: int) -> None:
    """No frame of the former epoch gets in: its link is not opened."""
    receiver = next(one for one in system.client.cluster()["endpoints"] if one["role"] == "receiver")
    with zmq.Context() as context:
        endpoint = Endpoint(receiver["host"], receiver["port"], receiver["channel"])
        link = LinkSender(context, SocketKind.RECEIVER, endpoint, OpenLink("worker-1", (DEPARTURES,), KEY, epoch), 0)
        while link.state is LinkState.CONNECTING:
            assert zmq.select(list(link.sockets), [], [], 5)[0], "the stage does not answer"
            link.handle()
        assert link.state is LinkState.REFUSED
        assert [refusal.code for refusal in link.refusals] == ["stale-epoch"]
        link.close()
