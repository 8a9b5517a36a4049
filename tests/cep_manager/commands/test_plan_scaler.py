"""Stages with parallel='auto' through a whole manager: their load in, orders to the driver out, and a history."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import zmq
from free_ports import free_port
from manager_world import counts
from test_manager_process import KEY, LEASE_MS, Peer, deploy, eventually, running, state_is

from cep_common.ids import PlanKey
from cep_common.protocol.drivers import KillTopology, SubmitTopology, TopologyReport
from cep_common.protocol.tasks import ComponentReport, RegisterTask
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.config import (
    AccountsConfig,
    ControlConfig,
    DatabaseConfig,
    ManagerConfig,
    ManagerHttpConfig,
    Quota,
    QuotasConfig,
    ScalingConfig,
)
from cep_manager.main import ManagerProcess
from cep_manager.plans.outcomes import Outcome
from cep_manager.plans.scaling import Scaling
from cep_manager.plans.store import PlanStore
from query_plan.xml import read_xml

PLAN = """\
@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (origin string, delay int);
@Export('Late:1.0.0') define stream Late (origin string, delays long);

@info(name='perOrigin') @dist(execGroup='perOrigin', parallel='auto', min='1', max='3')
partition with (origin of Departures) begin
  from Departures#window.length(5) select origin, count() as delays insert into Late;
end;
"""
QUICK = ScalingConfig(interval_ms=100, grow_after_ms=300, shrink_after_ms=600, rest_ms=0)


@pytest.fixture
def config(tmp_path: Path) -> ManagerConfig:
    return ManagerConfig(
        accounts=AccountsConfig(login=False),
        control=ControlConfig(port=free_port(), heartbeat_ms=100, lease_ms=LEASE_MS),
        http=ManagerHttpConfig(port=free_port()),
        database=DatabaseConfig(url=f"sqlite:///{tmp_path / 'manager.db'}", timeout_ms=200),
        scaling=QUICK,
    )


@pytest.fixture
def address(config: ManagerConfig) -> str:
    return f"http://127.0.0.1:{config.http.port}/api/v1"


class Stage:
    """The tasks of the plan, one for each instance; they have worked all the time since the last beat, or none."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.epoch, self.instances = 1, 1
        self.busy_ms = 0
        self.events = 0

    def beat(self, *topologies: TopologyReport, busy: bool = True) -> None:
        self.peer.drive(*(topologies or (running(self.epoch),)))
        # More than the time that can have passed: a share of 1, however slow the machine is.
        self.busy_ms += 60_000 if busy else 0
        self.events += 1_000 if busy else 0
        for number in range(self.instances):
            self.tell(self.epoch, number)

    def tell(self, epoch: int, number: int, restored: bool = False) -> None:
        received = counts(Departures=self.events)
        instance = f"perOrigin#{number}"
        counted = ComponentReport(instance, "perOrigin", "processor", received=received, busy_ms=self.busy_ms)
        self.peer.ask(
            RegisterTask(
                KEY, epoch, number, "127.0.0.1", 200 + number, (counted,), state_transfer="restored" if restored else ""
            )
        )

    def submitted(self, busy: bool = True) -> SubmitTopology:
        """Beats until the manager pushes a topology."""

        def found() -> list[SubmitTopology]:
            self.beat(busy=busy)
            return [one for one in self.peer.pushed if isinstance(one, SubmitTopology)]

        (topology,) = eventually(found)
        self.peer.pushed.clear()
        return topology  # type: ignore[no-any-return]

    def take_over(self, epoch: int, instances: int) -> None:
        """The topology of `epoch` runs, has the state of the former one, and replaces it."""

        def both() -> bool:
            self.beat(running(self.epoch), running(epoch), busy=False)
            for number in range(instances):
                self.tell(epoch, number, restored=True)
            return bool(self.peer.pushed)

        eventually(both)
        assert self.peer.pushed.pop(0) == KillTopology(KEY, self.epoch)
        self.epoch, self.instances = epoch, instances


@pytest.fixture
def stage(zmq_context: zmq.Context[zmq.Socket[bytes]], config: ManagerConfig) -> Iterator[Stage]:
    peer = Peer(zmq_context, config)
    yield Stage(peer)
    peer.client.close()


@pytest.fixture
def manager(config: ManagerConfig, stage: Stage, address: str) -> Iterator[ManagerProcess]:
    """The plan runs in one instance under epoch 1."""
    process = ManagerProcess(config)
    deploy(address, PLAN).raise_for_status()
    submitted = stage.peer.next_push()
    assert isinstance(submitted, SubmitTopology)
    assert (submitted.workers, submitted.host, instances_in(submitted)) == (1, "own", 1)
    yield process
    process.close()


def instances_in(submitted: SubmitTopology) -> int:
    return read_xml(submitted.query_plan).processor("perOrigin").parallel


def scaling(address: str) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{address}/plans/Storms/scaling", timeout=5).json()
    return found


def decision(address: str, words: str) -> Callable[[], bool]:
    return lambda: words in scaling(address)["stages"][0]["decision"]


def test_a_stage_grows_with_its_load_is_remembered_and_shrinks_without_it(
    manager: ManagerProcess, stage: Stage, address: str, config: ManagerConfig
) -> None:
    submitted = stage.submitted()
    assert (submitted.epoch, submitted.beside, submitted.workers, instances_in(submitted)) == (2, True, 2, 2)
    stage.take_over(2, instances=2)
    found = scaling(address)
    assert (found["stages"][0]["instances"], found["stages"][0]["most"]) == (2, 3)
    (grown,) = found["history"]
    assert (grown["stage"], grown["instances_before"], grown["instances_after"]) == ("perOrigin", 1, 2)
    assert grown["reason"].endswith("→ 2 instances")
    assert grown["problem"] == ""
    # The cluster of the driver's report has two slots in all.
    full = decision(address, "but the cluster has no slots for more")
    eventually(lambda: stage.beat() or full())

    # A text that leaves the stage as it is keeps its instances.
    edited = PLAN.replace("@info", "define stream Unused (a int);\n@info")
    requests.put(f"{address}/plans/Storms", data=edited.encode(), timeout=5).raise_for_status()
    submitted = stage.submitted()
    assert (submitted.epoch, submitted.workers, instances_in(submitted)) == (3, 2, 2)
    stage.take_over(3, instances=2)

    manager.close()
    second = ManagerProcess(config)
    try:
        eventually(lambda: stage.beat() or state_is(address, "active")())
        assert (scaling(address)["stages"][0]["instances"], scaling(address)["history"]) == (2, [grown])
        submitted = stage.submitted(busy=False)
        assert (submitted.epoch, submitted.workers, instances_in(submitted)) == (4, 1, 1)
        stage.take_over(4, instances=1)
        assert scaling(address)["history"][0]["reason"].endswith("→ 1 instance")
    finally:
        second.close()


def test_a_change_that_fails_leaves_the_instances_and_is_recorded_with_its_reason(
    manager: ManagerProcess, stage: Stage, address: str
) -> None:
    assert stage.submitted().epoch == 2
    failed = TopologyReport(KEY, 2, "failed", "no such host")

    def killed() -> bool:
        stage.beat(running(1), failed, busy=False)
        return bool(stage.peer.pushed)

    eventually(killed)
    assert stage.peer.pushed.pop(0) == KillTopology(KEY, 2)
    # Without a rest it may be tried again before this test looks.
    problems = eventually(
        lambda: stage.beat() or [one["problem"] for one in scaling(address)["history"] if one["problem"]]
    )
    assert (problems, scaling(address)["stages"][0]["instances"]) == (["no such host"], 1)


def test_a_quota_that_is_full_is_the_problem_of_the_change_and_nothing_is_ordered(
    config: ManagerConfig, stage: Stage, address: str
) -> None:
    quotas = QuotasConfig(tenants={KEY.tenant: Quota(slots=1)})
    long_rest = msgspec.structs.replace(QUICK, rest_ms=60_000)
    process = ManagerProcess(msgspec.structs.replace(config, quotas=quotas, scaling=long_rest))
    try:
        deploy(address, PLAN).raise_for_status()
        stage.peer.next_push()
        eventually(lambda: stage.beat() or scaling(address)["history"])
        assert "tenant -1234 may use 1 slots in all" in scaling(address)["history"][0]["problem"]
        assert stage.peer.pushed == []
    finally:
        process.close()


def test_a_user_who_changes_the_plan_at_the_same_time_does_not_delay_the_next_decision(
    config: ManagerConfig, stage: Stage, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale, asked = PlanChanges.scale, []

    def second_time(changes: PlanChanges, key: PlanKey, epoch: int, instances: Mapping[str, int]) -> Outcome:
        asked.append(epoch)
        return scale(changes, key, epoch - 1 if len(asked) == 1 else epoch, instances)

    monkeypatch.setattr(PlanChanges, "scale", second_time)
    process = ManagerProcess(msgspec.structs.replace(config, scaling=msgspec.structs.replace(QUICK, rest_ms=60_000)))
    try:
        deploy(address, PLAN).raise_for_status()
        stage.peer.next_push()
        assert stage.submitted().epoch == 2
        (noted,) = eventually(lambda: scaling(address)["history"])
        assert noted["problem"] == ""
        assert asked == [1, 1]
    finally:
        process.close()


def test_a_plan_that_is_deployed_again_begins_without_the_history_of_the_former_one(
    manager: ManagerProcess, stage: Stage, address: str
) -> None:
    stage.submitted()
    stage.take_over(2, instances=2)
    manager.manager.scaler.close()  # it does not look while there is no plan
    assert len(scaling(address)["history"]) == 1
    requests.delete(f"{address}/plans/Storms", params={"discard": "true"}, timeout=5).raise_for_status()
    deploy(address, PLAN).raise_for_status()
    manager.manager.scaler.look()
    assert scaling(address)["history"] == []


def test_a_fault_in_one_plan_does_not_keep_others_from_being_scaled(
    config: ManagerConfig, stage: Stage, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two plans the second is looked at although the first raises what no code expects."""
    store, looked_at = PlanStore.scalings, []

    def scalings(self: PlanStore, key: PlanKey) -> tuple[Scaling, ...]:
        looked_at.append(key.plan)
        if key.plan == looked_at[0]:
            raise ZeroDivisionError
        return store(self, key)

    monkeypatch.setattr(PlanStore, "scalings", scalings)
    slow = msgspec.structs.replace(config, scaling=msgspec.structs.replace(QUICK, interval_ms=3_600_000))
    process = ManagerProcess(slow)
    try:
        for name in ("Storms", "Gales"):
            deploy(address, PLAN.replace("Storms", name)).raise_for_status()
        eventually(lambda: process.manager.scaler.look() or len(looked_at) > 1)
        assert set(looked_at) == {"Storms", "Gales"}
    finally:
        process.close()


def test_plans_that_give_a_number_are_left_alone_and_have_no_history(
    config: ManagerConfig, stage: Stage, address: str
) -> None:
    process = ManagerProcess(config)
    try:
        deploy(address, PLAN.replace("parallel='auto', min='1', max='3'", "parallel='1'")).raise_for_status()
        stage.peer.next_push()
        eventually(lambda: stage.beat() or state_is(address, "active")())
        process.manager.scaler.look()
        assert (scaling(address)["stages"], scaling(address)["history"]) == ([], [])
    finally:
        process.close()
