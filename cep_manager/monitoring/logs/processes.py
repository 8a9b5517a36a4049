"""The known processes, their names, and the endpoints of their logs. Pure: derived from a snapshot."""

from __future__ import annotations

import msgspec

from cep_common.ids import Endpoint, InspectionAddress, PlanKey
from cep_common.security.roles import Role
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.logs.model import Process


class KnownProcess(msgspec.Struct, frozen=True):
    """A process, the role under whose key it answers, and where (None: nowhere)."""

    process: Process
    role: Role
    address: InspectionAddress | None


def manager_id(control: Endpoint) -> str:
    """Return the id of the manager with this control plane."""
    return f"manager:{control.host}:{control.port}"


def driver_id(name: str) -> str:
    """Return the id of the driver called `name`."""
    return f"driver:{name}"


def worker_id(name: str) -> str:
    """Return the id of the worker called `name`."""
    return f"worker:{name}"


def task_id(key: PlanKey, epoch: int, task: int) -> str:
    """Return the id of a task of the plan's topology."""
    return f"task:{key.topology()}:{epoch}:{task}"


def own_process(control: Endpoint, process_id: int, up_ms: int) -> KnownProcess:
    """Return the manager that reports this."""
    process = Process(
        id=manager_id(control),
        kind="manager",
        name=f"{control.host}:{control.port}",
        host=control.host,
        process_id=process_id,
        live=True,
        readable=True,
        up_ms=up_ms,
        silent_ms=0,
    )
    return KnownProcess(process, Role.MANAGER, None)


def known_processes(snapshot: ClusterSnapshot) -> tuple[KnownProcess, ...]:
    """Driver, workers (those lost lately too) and the tasks of all plans' present topologies."""
    return (*_driver(snapshot), *_workers(snapshot), *_tasks(snapshot))


def _driver(snapshot: ClusterSnapshot) -> tuple[KnownProcess, ...]:
    driver = snapshot.driver
    if driver is None:
        return ()
    latest = driver.latest
    process = Process(
        id=driver_id(latest.driver),
        kind="driver",
        name=latest.driver,
        host=latest.host,
        process_id=latest.process_id,
        live=driver.live(snapshot.now_ms, snapshot.lease_ms),
        readable=latest.insight is not None,
        up_ms=driver.up_ms(snapshot.now_ms),
        silent_ms=snapshot.now_ms - driver.heard_ms,
    )
    return (KnownProcess(process, Role.DRIVER, latest.insight),)


def _workers(snapshot: ClusterSnapshot) -> tuple[KnownProcess, ...]:
    found = {worker.latest.worker: worker for worker in (*snapshot.lost_workers, *snapshot.workers)}
    return tuple(
        KnownProcess(
            Process(
                id=worker_id(name),
                kind="worker",
                name=name,
                host=worker.latest.host,
                process_id=worker.latest.process_id,
                live=worker.live(snapshot.now_ms, snapshot.lease_ms),
                readable=worker.latest.insight is not None,
                up_ms=worker.up_ms(snapshot.now_ms),
                silent_ms=snapshot.now_ms - worker.heard_ms,
            ),
            Role.WORKER,
            worker.latest.insight,
        )
        for name, worker in sorted(found.items())
    )


def _tasks(snapshot: ClusterSnapshot) -> tuple[KnownProcess, ...]:
    return tuple(
        KnownProcess(
            Process(
                id=task_id(key, task.latest.epoch, task.latest.task),
                kind="task",
                name=f"{key.plan} task {task.latest.task}",
                host=task.latest.host,
                process_id=task.latest.process_id,
                live=task.live(snapshot.now_ms, snapshot.lease_ms),
                readable=task.latest.insight is not None,
                up_ms=task.up_ms(snapshot.now_ms),
                silent_ms=snapshot.now_ms - task.heard_ms,
                tenant=key.tenant,
                plan=key.plan,
                epoch=task.latest.epoch,
                task=task.latest.task,
                instances=tuple(component.instance for component in task.latest.components),
            ),
            Role.STAGE,
            task.latest.insight,
        )
        for key in sorted(snapshot.tasks)
        for task in snapshot.tasks[key]
    )
