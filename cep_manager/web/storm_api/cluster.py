"""Storm's answers on the cluster as a whole: nimbus is the driver, supervisors are Spark's executors. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cep_manager.monitoring.cluster_model import Overview
from cep_manager.monitoring.storm_topology.model import Slots, StormTopology
from cep_manager.monitoring.storm_topology.texts import megabytes, percent, uptime
from cep_manager.web.storm_api.rows import API_VERSION, SHARE_OF_A_CORE, topology_row, worker_row


def cluster_summary(
    overview: Overview, all_topologies: tuple[StormTopology, ...], slots: tuple[Slots, ...]
) -> dict[str, Any]:
    """`GET /cluster/summary`."""
    snapshot = overview.snapshot
    driver = snapshot.driver
    live = driver is not None and driver.live(snapshot.now_ms, snapshot.lease_ms)
    total = driver.latest.slots_total if driver is not None and live else 0
    free = driver.latest.slots_free if driver is not None and live else 0
    up_s = (snapshot.now_ms - driver.since_ms) // 1_000 if driver is not None and live else 0
    executors = sum(topology.executors() for topology in all_topologies)
    return {
        "user": None,
        "stormVersion": API_VERSION,
        "stormVersionInfo": {
            "version": API_VERSION,
            "revision": f"cep-on-spark {overview.manager.version}",
            "branch": "",
            "date": "",
            "srcChecksum": "",
        },
        "nimbusUptime": uptime(up_s),
        "supervisors": len(slots),
        "topologies": len(all_topologies),
        "slotsTotal": total,
        "slotsUsed": total - free,
        "slotsFree": free,
        "executorsTotal": executors,
        "tasksTotal": executors,
        "schedulerDisplayResource": False,
        **_cluster_resources(total, free),
        "bugtracker-url": None,
        "central-log-url": None,
    }


def _cluster_resources(slots: int, free: int) -> dict[str, Any]:
    """Processor time is that of the slots. How much memory hosts have, Spark does not tell: Storm, too, says 0 then."""
    return {
        "totalMem": 0.0,
        "availMem": 0.0,
        "fragmentedMem": 0.0,
        "memAssignedPercentUtil": "0.0",
        "totalCpu": float(SHARE_OF_A_CORE * slots),
        "availCpu": float(SHARE_OF_A_CORE * free),
        "fragmentedCpu": 0.0,
        "cpuAssignedPercentUtil": percent(slots - free, slots),
        "totalGenerics": "",
        "availGenerics": "",
    }


def nimbus_summary(overview: Overview) -> dict[str, Any]:
    """`GET /nimbus/summary`: the driver. An unknown one is offline: clients expect at least one entry."""
    snapshot = overview.snapshot
    driver = snapshot.driver
    if driver is None:
        host, status, up_s = overview.manager.host, "Offline", 0
    else:
        live = driver.live(snapshot.now_ms, snapshot.lease_ms)
        host, status = driver.latest.host, "Leader" if live else "Dead"
        up_s = (snapshot.now_ms - driver.since_ms) // 1_000 if live else 0
    return {
        "nimbuses": [
            {
                "host": host,
                "port": overview.manager.control_port,
                "status": status,
                "version": overview.manager.version,
                "nimbusUpTime": uptime(up_s),
                "nimbusUpTimeSeconds": up_s,
                "nimbusLogLink": "",
            }
        ]
    }


def supervisor_summary(overview: Overview, slots: tuple[Slots, ...]) -> dict[str, Any]:
    """`GET /supervisor/summary`."""
    return {
        "supervisors": [_supervisor(overview, one) for one in slots],
        "schedulerDisplayResource": False,
        "logviewerPort": 0,
        "logviewerScheme": "http",
    }


def supervisor_page(overview: Overview, slots: Iterable[Slots]) -> dict[str, Any]:
    """`GET /supervisor`: the executors of an id or a host, with the workers on them."""
    chosen = tuple(slots)
    return {
        "supervisors": [_supervisor(overview, one) for one in chosen],
        "schedulerDisplayResource": False,
        "workers": [
            worker_row(topology, task, one.executor.executor) for one in chosen for topology, task in one.tasks
        ],
    }


def _supervisor(overview: Overview, one: Slots) -> dict[str, Any]:
    up_s = max(0, overview.now_ms - one.executor.since_ms) // 1_000
    held = megabytes(sum(task.latest.memory_bytes for _, task in one.tasks))
    return {
        "id": one.executor.executor,
        "host": one.executor.host,
        "uptime": uptime(up_s),
        "uptimeSeconds": up_s,
        "slotsTotal": one.executor.slots,
        "slotsUsed": one.used(),
        "slotsFree": one.executor.slots - one.used(),
        "totalMem": 0.0,
        "usedMem": held,
        "availMem": 0.0,
        "totalCpu": float(SHARE_OF_A_CORE * one.executor.slots),
        "usedCpu": float(SHARE_OF_A_CORE * one.used()),
        "availCpu": float(SHARE_OF_A_CORE * (one.executor.slots - one.used())),
        "totalGenericResources": "",
        "usedGenericResources": "",
        "availGenericResources": "",
        "version": overview.manager.version,
        "blacklisted": False,
        "logLink": "",
    }


def owner_resources(all_topologies: Iterable[StormTopology], owner: str | None) -> dict[str, Any]:
    """`GET /owner-resources`: what the plans of each tenant take; `owner` chooses one, who may have none."""
    by_owner: dict[str, list[StormTopology]] = {} if owner is None else {owner: []}
    for topology in all_topologies:
        if owner in (None, topology.owner):
            by_owner.setdefault(topology.owner, []).append(topology)
    owners = [_owner(name, mine) for name, mine in by_owner.items()]
    return {"schedulerDisplayResource": False, "owners": owners} if owner is None else owners[0]


def _owner(owner: str, mine: list[StormTopology]) -> dict[str, Any]:
    executors = sum(topology.executors() for topology in mine)
    workers = [task for topology in mine for task in topology.tasks]
    return {
        "owner": owner,
        "totalTopologies": len(mine),
        "totalExecutors": executors,
        "totalTasks": executors,
        "totalWorkers": len(workers),
        "totalMemoryUsage": megabytes(sum(task.latest.memory_bytes for task in workers)),
        "totalCpuUsage": float(sum(SHARE_OF_A_CORE * topology.cores * len(topology.tasks) for topology in mine)),
        "memoryGuarantee": "N/A",
        "cpuGuarantee": "N/A",
        "isolatedNodes": "N/A",
        "memoryGuaranteeRemaining": "N/A",
        "cpuGuaranteeRemaining": "N/A",
    }


def cluster_configuration(overview: Overview) -> dict[str, Any]:
    """`GET /cluster/configuration`: what of Storm's keys has a meaning here."""
    manager = overview.manager
    return {
        "nimbus.seeds": [manager.host],
        "nimbus.thrift.port": manager.control_port,
        "nimbus.task.timeout.secs": manager.lease_ms / 1_000,
        "supervisor.heartbeat.frequency.secs": manager.heartbeat_ms / 1_000,
        "storm.cluster.mode": "distributed",
    }


def history_summary(all_topologies: Iterable[StormTopology]) -> dict[str, Any]:
    """`GET /history/summary`: the ids of topologies with logs, which are those of deployed plans."""
    return {"topo-history": [topology.identifier for topology in all_topologies]}


def topology_summary(all_topologies: Iterable[StormTopology], now_ms: int) -> dict[str, Any]:
    """`GET /topology/summary`."""
    return {
        "topologies": [topology_row(topology, now_ms) for topology in all_topologies],
        "schedulerDisplayResource": False,
    }
